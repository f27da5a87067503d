//! The data a measured lock protects, and the proof that it did.
//!
//! Two words, `x` and `−x`. A writer advances the first when it enters and the second when it
//! leaves: while it is inside they do not cancel, so whoever else gets in sees it, however long the
//! section. At the end `x` must equal the number of writes made. The words are read and written one
//! at a time without read-modify-write: the lock alone makes that safe. They are atomics only so
//! that a broken lock is an error to report and not undefined behaviour; the instructions are plain
//! moves.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use crate::padded::Padded;
use crate::subject::Exclusive;

/// A lock under test with its protected data, each on its own cache lines.
#[derive(Debug)]
pub(crate) struct Object<L> {
    pub(crate) lock: Padded<L>,
    pub(crate) data: Padded<Invariant>,
}

impl<L: Exclusive> Object<L> {
    pub(crate) fn new() -> Self {
        Self { lock: Padded(L::new()), data: Padded::default() }
    }
}

/// The two words.
#[derive(Debug, Default)]
pub(crate) struct Invariant {
    x: AtomicI64,
    minus_x: AtomicI64,
}

impl Invariant {
    /// First thing in a write section. Returns what [`Invariant::leave`] wants, and whether nobody
    /// else was inside.
    #[inline(always)]
    pub(crate) fn enter(&self) -> (i64, bool) {
        let x = self.x.load(Relaxed);
        let alone = x == -self.minus_x.load(Relaxed);
        self.x.store(x + 1, Relaxed);
        (x + 1, alone)
    }

    /// Last thing in a write section. Returns whether nobody else came in.
    #[inline(always)]
    pub(crate) fn leave(&self, x: i64) -> bool {
        self.minus_x.store(-x, Relaxed);
        self.x.load(Relaxed) == x
    }

    /// Anywhere in a read section. Returns whether no writer is inside.
    #[inline(always)]
    pub(crate) fn look(&self) -> bool {
        self.x.load(Relaxed) == -self.minus_x.load(Relaxed)
    }

    /// The number of writes that the data remembers.
    pub(crate) fn writes(&self) -> i64 {
        self.x.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_inside_is_seen_by_everyone() {
        let data = Invariant::default();
        let (x, alone) = data.enter();
        assert!(alone && !data.look());
        let (y, alone) = data.enter();
        assert!(!alone);
        assert!(data.leave(y));
        assert!(!data.leave(x));
    }

    #[test]
    fn sections_in_turn_are_fine() {
        let data = Invariant::default();
        for _ in 0..3 {
            let (x, alone) = data.enter();
            assert!(alone && data.leave(x) && data.look());
        }
        assert_eq!(data.writes(), 3);
    }
}
