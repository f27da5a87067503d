//! Readers that wait behind a waiting writer for a time only: where one reader waits for another.
//!
//! A reader of [`KernelRwSem::read_acquire_beside`] queues like any other, and is granted the lock
//! in its sleep. It leaves the queue after [`LOOK_NS`], looks whether the embedder says that it may
//! go in *beside* the readers that hold the lock, and queues again for twice as long, up to
//! [`LAST_LOOK_NS`]. It loses its place by that, a logarithmic number of times.
//!
//! **Ordering.** Entering is the Acquire addition of [`KernelRwSem::try_read_again`].

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};

use super::policy::{CountScheme, Policy};
use super::{KernelRwSem, READERS, WRITER};

/// How long a reader stays in the kernel's queue before it looks whether it may go in beside
/// others.
const LOOK_NS: u64 = 2_000_000;
/// What that grows to.
const LAST_LOOK_NS: u64 = 32_000_000;

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    /// Takes the lock for reading unless `until` comes first.
    /// While readers hold it, a waiting caller goes in beside them as soon as it sees that `may()`
    /// says so. See the module text. (Biased policies: as [`KernelRwSem::read_acquire_until`].)
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn read_acquire_beside(&self, until: Until<'_, P>, may: impl Fn() -> bool) -> Result<(), GaveUp> {
        if Y::COUNT == CountScheme::Biased {
            return self.read_acquire_until(until);
        }
        let mut patience = LOOK_NS;
        loop {
            let look = P::now().saturating_add(patience);
            if self.read_acquire_until(until.slice(look)).is_ok() || self.enter_beside(&may) {
                return Ok(());
            }
            if let Some(end) = until.over() {
                return Err(end);
            }
            patience = (2 * patience).min(LAST_LOOK_NS);
        }
    }

    fn enter_beside(&self, may: &impl Fn() -> bool) -> bool {
        let count = self.count.load(Relaxed);
        let went_in = count & WRITER == 0 && count & READERS != 0 && may() && self.try_read_again();
        if went_in {
            P::count(Event::RwsemRlockSteal, 1);
        }
        went_in
    }
}
