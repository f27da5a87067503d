//! What the kernel's forms offer to embedders, in the place of POSIX rwlocks: as
//! [`rwsem`](crate::rwsem) does, in their own way.
//!
//! **Detached releases.** With `WAITERS` set, and nobody else left, the change of `count` is made
//! *under* `wait_lock`. A waiter must take that lock before it leaves, so the memory stays until we
//! have dropped it, which is the last touch.
//!
//! **Recurring reads.** A reader may always add one more bias while no writer holds the lock: a
//! writer needs a count without readers. Whether the caller is a reader already decides only
//! whether that is fair.
//!
//! Biased policies have none of this: they release plainly, and no read recurs.

use crate::platform::{Ordering::*, Platform, Word};

use super::grant::Mode;
use super::policy::{CountScheme, Policy};
use super::{BIAS, HANDOFF, KernelRwSem, LOCKED, READERS, READFAIL, WAITERS, WRITER};

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    /// Takes the lock for reading once more, past all waiters, if readers hold it and it is not
    /// full: for a caller that is one of them. (Biased policies: never.)
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
    /// policies: as [`KernelRwSem::read_release`].)
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

    /// Releases a read lock as [`KernelRwSem::read_release_detached`] does, but only if readers
    /// hold it and nobody has asked for anything; `false`: nothing was done. (Biased policies:
    /// never.) What fast paths are for.
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
    /// policies: as [`KernelRwSem::write_release`].)
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release_detached(&self) {
        if Y::COUNT == CountScheme::Biased {
            // SAFETY: the caller's promise.
            return unsafe { self.write_release() };
        }
        self.owner.store(0, Relaxed);
        self.release_detached(WRITER);
    }

    #[inline]
    fn release_detached(&self, unit: u64) {
        let mut count = self.count.load(Relaxed);
        loop {
            let left = count.wrapping_sub(unit);
            if left & WAITERS != 0 && (unit == WRITER || left & LOCKED == 0) {
                if self.release_queued(unit) {
                    return;
                }
                // No waiter is left.
                count = self.count.load(Relaxed);
                continue;
            }
            // Release suffices: nothing of a waiter's is looked at.
            match self.count.compare_exchange_weak(count, left, Release, Relaxed) {
                Ok(_) => return,
                Err(found) => count = found,
            }
        }
    }

    /// Releases under the wait lock and lets waiters in. `false`: nobody
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

    /// In a child process: forgets the waiters of the parent. An owner holds the lock still.
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
        self.count.fetch_and(!(WAITERS | HANDOFF), AcqRel);
    }
}
