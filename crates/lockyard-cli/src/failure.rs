//! How the command fails: one line on stderr and an exit code.

use std::fmt;
use std::io;

use crate::terminal::visible;

/// Exit code of a run that a signal ended early, as a shell reports SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// The same of SIGTERM.
pub(crate) const TERMINATED: u8 = 143;

/// Why the command stops before its work is done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user asked for something that cannot be done: nothing was measured, nothing was written.
    /// Exit code 2.
    Usage(String),
    /// Something failed after measuring had begun. Exit code 1.
    Run(String),
    /// The reader of our output has gone (`lockyard list | head -1`): nothing is left to say. Exit
    /// code 0.
    ReaderGone,
}

impl Failure {
    /// A refusal of what the user asked for.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::Usage(message.into())
    }

    /// A failure while working.
    pub(crate) fn run(message: impl Into<String>) -> Self {
        Failure::Run(message.into())
    }

    /// The exit code that goes with it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) => 1,
            Failure::ReaderGone => 0,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // One line, whatever was quoted inside it.
            Failure::Usage(message) | Failure::Run(message) => {
                out.write_str(&visible(&message.replace(['\n', '\r'], " ")))
            }
            Failure::ReaderGone => Ok(()),
        }
    }
}

/// Writing to stdout failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::ReaderGone
        } else {
            Failure::run(format!("cannot write the output: {}", plain(&error)))
        }
    }
}

/// An operating-system error without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
