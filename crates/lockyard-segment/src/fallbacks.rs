//! Objects that were left to the C library.

use crate::layout::FALLBACKS;

/// Why an object was left to the C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Fallback {
    /// A mutex with priority inheritance.
    Inherit,
    /// A mutex with a priority ceiling.
    Ceiling,
    /// A robust mutex.
    Robust,
    /// Shared between processes.
    Shared,
    /// A named semaphore.
    Named,
    /// A condition variable whose mutex went there.
    Condition,
    /// Another reason.
    Other,
    /// All mutexes: these are glibc's because somebody said so.
    ChosenMutex,
    /// All reader-writer locks, likewise.
    ChosenRwlock,
    /// All spinlocks, likewise.
    ChosenSpin,
    /// All semaphores, likewise.
    ChosenSem,
}

/// How the reasons begin that are a choice of a kind of object, and not objects.
pub const CHOSEN: &str = "chosen ";

pub(crate) const REASONS: [&str; 11] = [
    "inherit",
    "ceiling",
    "robust",
    "shared",
    "named",
    "condition",
    "other",
    "chosen mutex",
    "chosen rwlock",
    "chosen spin",
    "chosen sem",
];
const _: () = assert!(REASONS.len() <= FALLBACKS);
