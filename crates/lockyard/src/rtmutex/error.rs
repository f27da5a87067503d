//! Why a priority-inheritance mutex was not locked, or not unlocked.

use crate::cancel::GaveUp;

/// Why a mutex was not locked, or not unlocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PiError {
    /// The deadline passed.
    TimedOut,
    /// The token was cancelled.
    Cancelled,
    /// The caller owns the mutex already, or its owner waits, directly or through others, for one
    /// that the caller owns. Of several who close a cycle at the same time, each may be told: the
    /// kernel queues a waiter before it looks.
    Deadlock,
    /// A thread exited while it held the mutex, which stays locked.
    OwnerDied,
    /// The caller does not own the mutex that it wants to unlock.
    NotOwner,
    /// The mutex's memory was overwritten. Found out in two seconds: for moments the word of a
    /// mutex whose owner exits looks the same.
    Corrupt,
}

impl core::fmt::Display for PiError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            PiError::TimedOut => "the mutex was not locked before the deadline",
            PiError::Cancelled => "the wait for the mutex was cancelled",
            PiError::Deadlock => {
                "locking the mutex would deadlock: the caller owns it, or its owner waits for the caller"
            }
            PiError::OwnerDied => "the mutex stays locked: its owner exited without unlocking it",
            PiError::NotOwner => "the mutex cannot be unlocked: the caller does not own it",
            PiError::Corrupt => "the mutex cannot be used: its memory was overwritten",
        })
    }
}

impl core::error::Error for PiError {}

impl From<GaveUp> for PiError {
    fn from(why: GaveUp) -> Self {
        match why {
            GaveUp::TimedOut => PiError::TimedOut,
            GaveUp::Cancelled => PiError::Cancelled,
        }
    }
}
