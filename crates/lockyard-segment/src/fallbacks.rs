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
}

pub(crate) const REASONS: [&str; 7] = ["inherit", "ceiling", "robust", "shared", "named", "condition", "other"];
const _: () = assert!(REASONS.len() <= FALLBACKS);
