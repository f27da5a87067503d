//! The queued spinlock, with paravirtual waiting: a thread is a virtual CPU.
//!
//! One queue, first come, first served; its tail is in the lock word. Word, waiting, ordering,
//! destruction: see [`queued`](super::queued), of which this is the plain kind.
//!
//! **Bound on bypass.** Newcomers pass the queue only until the head's turn ends, early ones once
//! more: [`TURN_NS`](crate::wait::turn::TURN_NS) and a wake-up per waiter ahead. Inside the queue
//! the order is first come, first served.
//!
//! **Not good for** machines with many NUMA nodes under contention: the word crosses the machine at
//! every hand-over. See [`hq`](super::hq), which costs the same without contention.

use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::node::{Ahead, Onward, Place};
use crate::spin::queued::{Kind, RawQueuedSpinLock};

pub use crate::spin::queued::{COMPETE_NS, EXACT_COMPETE_NS, QUEUED_NS, STEAL_NS};

/// The queued spinlock: 4 bytes. See the [module text](self).
pub type RawQSpinLock<P> = RawQueuedSpinLock<P, Plain>;

/// The same with a mark in its word, by which it is told from words of another lock in the same
/// place. See [`MARK`].
pub type RawMarkedSpinLock<P> = RawQueuedSpinLock<P, Marked>;

/// The bit of a lock's word that says that it is a [`RawMarkedSpinLock`].
pub const MARK: u32 = 0x400;

/// One queue, first come, first served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain;

/// [`Plain`], with [`MARK`] in the word from its constructor, or its first owner, on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marked;

impl<P: Platform> Kind<P> for Plain {
    const NAME: &'static str = "qspinlock";

    /// Either nobody is behind us, or the next becomes head.
    #[inline(always)]
    fn leave(lock: &RawQSpinLock<P>, place: &Place<P>, _ahead: Ahead, passed: bool) -> Onward {
        if lock.replace_last(place.name, 0) { Onward::Settled } else { lock.hand_on(place, 0, passed) }
    }
}

impl<P: Platform> Kind<P> for Marked {
    const NAME: &'static str = "qspinlock-marked";
    const REST: u16 = MARK as u16;

    /// As [`Plain`].
    #[inline(always)]
    fn leave(lock: &RawMarkedSpinLock<P>, place: &Place<P>, _ahead: Ahead, passed: bool) -> Onward {
        if lock.replace_last(place.name, 0) { Onward::Settled } else { lock.hand_on(place, 0, passed) }
    }
}

impl<P: Platform> RawQSpinLock<P> {
    /// The lock whose word is `word`: a field of a record.
    #[inline(always)]
    pub(crate) const fn on(word: &P::Lanes) -> &Self {
        // SAFETY: the lock is its word (`repr(transparent)`), and every value of that is a lock's.
        unsafe { &*core::ptr::from_ref(word).cast() }
    }

    /// In a child process: frees the lock and forgets the parent's waiters.
    ///
    /// # Safety
    /// No thread of this process holds the lock or waits for it.
    pub unsafe fn forget(&self) {
        self.word.store(0, Release);
    }
}

impl<P: Platform, K: Kind<P>> RawQueuedSpinLock<P, K> {
    /// In a child process: forgets the parent's waiters. The owner stays.
    ///
    /// # Safety
    /// No thread of this process waits for it, or takes or releases it, until this returns.
    pub unsafe fn forget_waiters(&self) {
        self.word.store(self.word.load(Relaxed) & 0xff | u32::from(K::REST), Release);
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawQSpinLock<crate::platform::linux::Linux>>() == 4);
