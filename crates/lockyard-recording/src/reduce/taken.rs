//! What threads of a role did with the locks of a class.

use super::share;

/// So many calls that found a lock taken tell how many of them are tries.
const FEW: u64 = 20;

/// Sections of a class, inside those of one other class or outside, and calls without one.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    /// Of sections that had not to wait, and of those that had.
    pub(super) free: Vec<u64>,
    pub(super) awaited: Vec<u64>,
    pub(super) slept: u64,
    pub(super) sleepers: u64,
    pub(super) reads: u64,
    /// Tries in vain.
    pub(super) failed: u64,
    /// Waits until the time was up.
    pub(super) gave_up: u64,
    /// Calls that tried, and went on until they had the lock.
    pub(super) retried: u64,
}

impl Taken {
    /// Sections.
    pub(super) fn count(&self) -> usize {
        self.free.len() + self.awaited.len()
    }

    /// Calls that had the lock, and tries that had not.
    pub(super) fn calls(&self) -> f64 {
        self.count() as f64 + self.failed as f64
    }

    /// Percentage of the calls that are tries. 0 if too few found the lock taken to tell.
    pub(super) fn tries(&self) -> f64 {
        let met = self.failed + self.gave_up + self.retried + self.awaited.len() as u64;
        let few = self.failed == 0 || met < FEW.min(self.count() as u64);
        if few { 0.0 } else { share(self.failed, met as usize) }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.free.extend(&other.free);
        self.awaited.extend(&other.awaited);
        self.slept = self.slept.saturating_add(other.slept);
        self.sleepers += other.sleepers;
        self.reads += other.reads;
        self.failed += other.failed;
        self.gave_up += other.gave_up;
        self.retried += other.retried;
    }
}
