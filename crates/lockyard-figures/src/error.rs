//! What can go wrong. Every message is one line, meant for a user's eyes.

use std::fmt;

/// Why published tables could not be rerun.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A data file, or what is bound to it, is wrong: a defect of this crate.
    Data(String),
    /// A machine could not be built.
    Machine(String),
    /// A number was to be changed that no machine has, that must not move, or that would leave its
    /// range.
    Change(String),
    /// The host refused worker threads.
    Workers(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(text) | Self::Machine(text) | Self::Change(text) | Self::Workers(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<lockyard_sim::Error> for Error {
    fn from(error: lockyard_sim::Error) -> Self {
        Self::Machine(error.to_string())
    }
}
