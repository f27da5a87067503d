//! What can go wrong with a measurement. Every message is one line, meant for a user's eyes.

use std::fmt;

use crate::kind::Workload;
use crate::machine::MachineError;

/// Why a measurement was refused or is worthless.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The specification asks for something that makes no sense.
    Spec(String),
    /// The lock cannot run this workload.
    Unsupported {
        /// The lock's label.
        lock: String,
        /// The workload asked for.
        workload: Workload,
        /// What is missing.
        why: &'static str,
    },
    /// The lock let two threads in at once.
    Exclusion {
        /// Sections that found another thread inside.
        torn: u64,
        /// Writes that are missing from the protected data (negative: too many).
        lost: i64,
    },
    /// The machine could not run the threads.
    Machine(MachineError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(what) => f.write_str(what),
            Self::Unsupported { lock, workload, why } => write!(f, "{lock} cannot run {workload}: {why}"),
            Self::Exclusion { torn, lost } => {
                write!(f, "mutual exclusion violated: {torn} sections found another thread inside, {lost} writes lost")
            }
            Self::Machine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Machine(error) => Some(error),
            _ => None,
        }
    }
}

impl From<MachineError> for Error {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}
