//! Objects that were left to the C library.

use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::layout::{FALLBACKS, Header};

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

/// The choices, a bit each: those of a process are its children's.
static CHOICES: AtomicU32 = AtomicU32::new(0);

/// Remembers `reason`, if it is a choice, for the segments of children.
pub(crate) fn remember(reason: Fallback) {
    if REASONS[reason as usize].starts_with(CHOSEN) {
        CHOICES.fetch_or(1 << reason as usize, Relaxed);
    }
}

/// Writes the names of the reasons into a new segment, and the choices.
pub(crate) fn describe(header: &Header) {
    let choices = CHOICES.load(Relaxed);
    for (index, reason) in REASONS.iter().enumerate() {
        header.reason_names[index].set(reason.as_bytes());
        header.fallbacks[index].store((choices >> index & 1).into(), Relaxed);
    }
    header.reasons.store(REASONS.len() as u32, Relaxed);
}
