//! The test-and-test-and-set spinlock: one bit, and everybody after it.
//!
//! A baseline to measure against, and to watch collapse: each release invalidates the copies of all
//! waiters, all of them fetch the line again, and all that find it free try. The work per hand-over
//! grows with the number of waiters. It is the fastest lock there is for two threads, and nobody is
//! promised anything: the thread nearest to the line gets it again.
//!
//! # The word
//!
//! | value | meaning | written by |
//! |---|---|---|
//! | 0 | free | the owner, by a store |
//! | 1 | held | a taker, by a compare-exchange from 0 |
//!
//! # Waiting
//!
//! Spins while the word shows 1, a *bout* at a time; between bouts it gives its CPU away, for
//! longer each time ([`Platform::nap`]). No queue, no wake-up. **Bound on bypass:** none.
//!
//! **Memory ordering.** `word`: the taker's compare-exchange is Acquire and reads from the owner's
//! Release store.
//!
//! **Destruction.** `release` is one store: the lock may be freed by the next owner. **fork.** A
//! lock held by another thread stays held in the child.
//!
//! Sources: Rudolph and Segall 1984; Anderson, "The Performance of Spin Lock Alternatives" (1990).

use crate::platform::thread::while_waiting;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::bout;

/// The test-and-test-and-set spinlock: 4 bytes. See the [module text](self).
#[derive(Debug)]
#[repr(transparent)]
pub struct RawTtasLock<P: Platform> {
    word: P::Lanes,
}

impl<P: Platform> Default for RawTtasLock<P> {
    fn default() -> Self {
        Self { word: P::Lanes::default() }
    }
}

impl<P: ConstPlatform> RawTtasLock<P> {
    /// An unlocked lock, in constants.
    pub const fn new() -> Self {
        Self { word: P::Lanes::ZERO }
    }
}

impl<P: Platform> RawTtasLock<P> {
    /// Takes the lock. One compare-exchange if it is free.
    #[inline]
    pub fn acquire(&self) {
        if self.word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            self.acquire_slow();
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    #[inline]
    pub unsafe fn release(&self) {
        self.word.store(0, Release);
    }

    /// Whether somebody holds the lock.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    #[cold]
    fn acquire_slow(&self) {
        while_waiting::<P, _>(|_| {
            let mut round = 0u32;
            while P::spin(bout::<P>(), || self.try_acquire().then_some(())).is_none() {
                P::nap(round);
                round = round.saturating_add(1);
            }
        });
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawTtasLock<crate::platform::linux::Linux>>() == 4);
