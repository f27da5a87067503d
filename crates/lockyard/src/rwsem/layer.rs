//! What an rwsem offers to a layer that keeps some of its readers elsewhere.

use crate::cancel::{GaveUp, Until};
use crate::platform::{Ordering::*, Platform, Word};

use super::{BIAS, READ_BLOCK, READERS, RawRwSem};

impl<P: Platform> RawRwSem<P> {
    /// As [`RawRwSem::read_acquire_until`]. `true`: the lock had readers, or the caller waited.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub(crate) fn read_acquire_among(&self, until: Until<'_, P>) -> Result<bool, GaveUp> {
        let before = self.count.fetch_add(BIAS, Acquire);
        match before & READ_BLOCK == 0 {
            true => Ok(before & READERS != 0),
            false => self.read_slow(until).map(|()| true),
        }
    }

    /// Counts a reader in beside the writer that calls. The writer downgrades, or takes the reader
    /// out again, before it acts as one that holds.
    ///
    /// # Safety
    /// The caller holds the lock for writing, and touches nothing that the lock protects.
    pub(crate) unsafe fn admit_reader(&self) {
        // Relaxed: the reader learns of it by what the caller writes next.
        self.count.fetch_add(BIAS, Relaxed);
    }
}
