//! What the controller of a run tells its threads: whether the measured window is open.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where the run is. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Phase {
    Warmup = 0,
    Measure = 1,
    Closed = 2,
}

/// What the controller tells the threads.
#[derive(Debug)]
pub(crate) struct Control {
    phase: AtomicU32,
    opened_at: AtomicU64,
    closed_at: AtomicU64,
}

impl Control {
    pub(crate) fn new() -> Self {
        Self { phase: AtomicU32::new(Phase::Warmup as u32), opened_at: AtomicU64::new(0), closed_at: AtomicU64::new(0) }
    }

    /// Acquire: a worker that sees the window opened, or CLOSED, also sees when.
    #[inline(always)]
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Warmup,
            1 => Phase::Measure,
            _ => Phase::Closed,
        }
    }

    /// The stamp at which the window opened. Meaningful once it has.
    pub(crate) fn opened_at(&self) -> u64 {
        self.opened_at.load(Ordering::Relaxed)
    }

    /// The stamp at which the window closed. Meaningful once it has.
    pub(crate) fn closed_at(&self) -> u64 {
        self.closed_at.load(Ordering::Relaxed)
    }

    pub(crate) fn open(&self, now: u64) {
        self.opened_at.store(now, Ordering::Relaxed);
        self.phase.store(Phase::Measure as u32, Ordering::Release);
    }

    pub(crate) fn close(&self, now: u64) {
        self.closed_at.store(now, Ordering::Relaxed);
        self.phase.store(Phase::Closed as u32, Ordering::Release);
    }
}
