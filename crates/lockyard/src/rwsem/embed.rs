//! What an rwsem offers to those who embed it where POSIX rwlocks live: read holds that recur,
//! releases after which the memory may go away, children that forget the parent's waiters.
//!
//! **Detached releases.** POSIX lets the next owner free a lock, while the thread that released it
//! may still be inside the call. A plain release touches the lock after its change of `count` when
//! somebody waits. These do not:
//!
//! * `turns`: the first waiter's name is read before the change, which clears `LISTENING` in the
//!   same compare-exchange. If that waiter gives up in between, the next was woken by it, or has
//!   set a request of its own, which changes `ASKS`: the release starts again. (Eight requests
//!   between two instructions of the owner would be mistaken; a waiter that is not woken for that
//!   looks by its timer.)
//! * the kernel's policies (bits, not biased): with `WAITERS` set, and nobody else left, the change
//!   is made *under* `wait_lock`. A waiter must take that lock before it leaves, so the memory
//!   stays until we have dropped it, which is the last touch.
//!
//! **Recurring reads.** A reader may always add one more bias while no writer holds the lock:
//! whoever wants to write needs a count without readers. Whether the caller is a reader already
//! decides only whether that is fair.

use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::turn;

use super::grant::Mode;
use super::policy::{CountScheme, Policy};
use super::{ASKS, BIAS, HANDOFF, LISTENING, LOCKED, PENDING, READERS, READFAIL, RawRwSem, WAITERS, WRITER};

impl<P: Platform, Y: Policy> RawRwSem<P, Y> {
    /// Takes the lock for reading once more, past everybody who waits, if readers hold it and it is
    /// not full: for a caller that is one of them. (Biased policies: never.)
    pub fn try_read_again(&self) -> bool {
        if Y::COUNT == CountScheme::Biased {
            return false;
        }
        let mut count = self.count.load(Relaxed);
        while count & (WRITER | READFAIL) == 0 && count & READERS != 0 {
            match self.count.compare_exchange_weak(count, count + BIAS, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        false
    }

    /// Releases a read lock and does not touch it after another thread may own it. (Biased
    /// policies: as [`RawRwSem::read_release`].)
    ///
    /// # Safety
    /// The caller holds it for reading, or acts for a thread that does.
    #[inline]
    pub unsafe fn read_release_detached(&self) {
        if Y::COUNT == CountScheme::Biased {
            // SAFETY: the caller's promise.
            return unsafe { self.read_release() };
        }
        self.release_detached(BIAS);
    }

    /// Releases a read lock as [`RawRwSem::read_release_detached`] does, but only if readers hold
    /// it and nobody has asked for anything; `false`: nothing was done. (Biased policies: never.)
    /// What fast paths are for.
    ///
    /// # Safety
    /// If readers hold it, the caller is one of them, or acts for one.
    #[inline]
    pub unsafe fn try_read_release_unasked(&self) -> bool {
        if Y::COUNT == CountScheme::Biased {
            return false;
        }
        let mut count = self.count.load(Relaxed);
        while count & READERS != 0 && count & !READERS == 0 {
            // Release suffices: no request, so nothing of a requester's is looked at.
            match self.count.compare_exchange_weak(count, count - BIAS, Release, Relaxed) {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        false
    }

    /// Releases the write lock and does not touch it after another thread may own it. (Biased
    /// policies: as [`RawRwSem::write_release`].)
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release_detached(&self) {
        if Y::COUNT == CountScheme::Biased {
            // SAFETY: the caller's promise.
            return unsafe { self.write_release() };
        }
        if !Y::TURNS {
            self.owner.store(0, Relaxed);
        }
        self.release_detached(WRITER);
    }

    #[inline]
    fn release_detached(&self, unit: u64) {
        // Acquire: who sees a request also sees the queue as the requester did.
        let mut count = self.count.load(Acquire);
        loop {
            let left = count.wrapping_sub(unit);
            let last = unit == WRITER || left & LOCKED == 0;
            let mut first = None;
            let mut next = left;
            if Y::TURNS && last && left & (LISTENING | HANDOFF) != 0 {
                let waiter = self.queue.first();
                if left & HANDOFF != 0
                    && let Some(waiter) = waiter
                {
                    turn::released_reserved(waiter);
                }
                first = waiter.filter(|_| left & LISTENING != 0);
                next &= !(LISTENING | ASKS);
            } else if !Y::TURNS && last && left & WAITERS != 0 {
                if self.release_queued(unit) {
                    return;
                }
                // Relaxed: nobody waits any more whom it would have to know.
                count = self.count.load(Relaxed);
                continue;
            }
            match self.count.compare_exchange_weak(count, next, AcqRel, Acquire) {
                Ok(_) => {
                    if let Some(first) = first {
                        P::count(crate::event::Event::RwsemWakeWriter, 1);
                        first.unpark();
                    }
                    return;
                }
                Err(found) => count = found,
            }
        }
    }

    /// The kernel's policies: releases under the wait lock and lets waiters in. `false`: nobody
    /// waits any more, nothing was done.
    #[cold]
    fn release_queued(&self, unit: u64) -> bool {
        self.locked_waking(|wakes| {
            if self.count.load(Relaxed) & WAITERS == 0 {
                return false;
            }
            let left = self.count.fetch_sub(unit, Release).wrapping_sub(unit);
            if unit == WRITER || left & LOCKED == 0 {
                self.clear_nonspinnable();
                self.grant(Mode::Any, wakes);
            }
            true
        })
    }

    /// In a child process: forgets those who waited in the parent. Who holds the lock still does.
    ///
    /// # Safety
    /// No thread of this process waits for the lock, or does anything with it but take it and
    /// release it without waiting, until this returns.
    pub unsafe fn forget_waiters(&self) {
        self.queue.forget();
        self.osq.forget();
        self.reader_spinners.store(0, Relaxed);
        // SAFETY: nobody in this process holds the wait lock: its holder, if any, was another
        // thread of the parent.
        unsafe { self.wait_lock.forget() };
        self.count.fetch_and(!(WAITERS | HANDOFF | LISTENING | ASKS | PENDING), AcqRel);
    }
}
