//! What can go wrong. Every message is one line, meant for a user's eyes.

use std::fmt;

/// Why a simulation was refused, or did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A machine file is wrong: file, line and reason.
    Machine(String),
    /// The configuration asks for something that makes no sense.
    Config(String),
    /// The host does not have the memory.
    Memory(String),
    /// A thread touched memory that was freed, or a frame of another thread that had returned.
    Gone(String),
    /// A thread broke a rule of the seam.
    Seam(String),
    /// Every thread waits, and nothing will ever wake one. Names the waiting threads.
    Deadlock(String),
    /// The virtual-time limit was reached.
    TimeLimit(String),
    /// The limit of engine events, which is what a simulation costs its host, was reached.
    EventLimit(String),
    /// Two threads touched protected data, and nothing orders them.
    Race(String),
    /// A simulated thread panicked.
    Panic(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // One line, whatever was quoted from the file.
            Self::Machine(text) => f.write_str(&text.replace(char::is_control, " ")),
            Self::Config(text)
            | Self::Memory(text)
            | Self::Gone(text)
            | Self::Seam(text)
            | Self::Race(text)
            | Self::Deadlock(text)
            | Self::TimeLimit(text)
            | Self::EventLimit(text)
            | Self::Panic(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}
