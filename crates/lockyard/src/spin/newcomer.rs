//! What a thread does that comes to a [queued spinlock](super::queued) and has not queued.
//!
//! The plan of it, with its times, is in [`queued`](super::queued), *States*.

use crate::event::Event;
use crate::platform::thread::NodeName;
use crate::platform::{Ordering::*, Patience, Platform, Word};

use super::queued::{
    ASLEEP_MASK, CEDE_NS, GAVE_WAY_NS, Kind, LOCKED_MASK, PENDING_MASK, RawQueuedSpinLock, STEAL_NS, URGENT_MASK,
};

impl<P: Platform, K: Kind<P>> RawQueuedSpinLock<P, K> {
    /// The newcomer's attempt: for a while if there is a queue that sleeps, once otherwise. In
    /// vain: the word as it was last seen.
    pub(super) fn steal(&self) -> Result<(), u32> {
        let mut seen = 0;
        let mut stolen = self.steal_awhile(&mut seen);
        if stolen.is_none() {
            stolen = self.steal_while_alone(&mut seen);
        }
        if stolen == Some(true) {
            P::count(Event::PvLockStealing, 1);
            return Ok(());
        }
        // Free, and kept for the head or an urgent waiter: perhaps it does not come.
        if seen & LOCKED_MASK == 0 && seen & (PENDING_MASK | URGENT_MASK) != 0 && self.pass_waiters() {
            return Ok(());
        }
        Err(seen)
    }

    /// Goes on while no thread waits for this CPU, which would be idle if this one slept.
    #[cold]
    #[inline(never)]
    fn steal_while_alone(&self, seen: &mut u32) -> Option<bool> {
        let end = P::now() + CEDE_NS;
        loop {
            let before = P::now();
            if !P::cede() {
                return None;
            }
            let now = P::now();
            let stolen = self.steal_awhile(seen);
            if stolen.is_some() || now >= end.min(before + GAVE_WAY_NS) {
                return stolen;
            }
        }
    }

    /// Tries to steal for [`STEAL_NS`], if there is a queue that sleeps: whether it has the lock.
    /// `None`: it may be worth more tries. The word as it was last `seen`.
    fn steal_awhile(&self, seen: &mut u32) -> Option<bool> {
        P::spin(Patience::ns(STEAL_NS), || {
            if Self::is_exact() {
                *seen = self.word.load(Relaxed);
                // A queued waiter may be passed only behind a head that sleeps.
                if *seen & ASLEEP_MASK == 0 && NodeName::of_tail(*seen).is_some() {
                    return Some(false);
                }
            }
            if self.try_steal() {
                return Some(true);
            }
            *seen = self.word.load(Relaxed);
            (*seen & (PENDING_MASK | URGENT_MASK) != 0 || NodeName::of_tail(*seen).is_none()).then_some(false)
        })
    }
}
