//! What an rwsem offers to those who embed it where POSIX rwlocks live: read holds that recur,
//! readers that do not test, releases after which the memory may go away, children that forget the
//! parent's waiters.
//!
//! **Detached releases.** POSIX lets the next owner free a lock, while the thread that released it
//! may still be inside the call. A plain release touches the lock after its change of `count` when
//! somebody waits. These do not: the first waiter's name is read before the change, which clears
//! `LISTENING` in the same compare-exchange. If that waiter gives up in between, it changes `ASKS`,
//! and the release starts again. A later request may yet look the same: after eight that gave up,
//! or where `ASKS` was cleared in between, by the last waiter that left or by a reader that woke.
//! Then the release wakes a waiter that has left, and the first sleeps to its timer: a turn, or as
//! long as the release was stopped, up to 0.1 s.
//!
//! **Recurring reads.** A reader may always add one more bias while no writer holds the lock: a
//! writer needs a count without readers. Whether the caller is a reader already decides only
//! whether that is fair.
//!
//! **Beside.** A reader of [`RawRwSem::read_acquire_beside`] waits behind a waiting writer for a
//! time only: where one reader waits for another. It queues like any other. Whenever it looks, it
//! takes the lock in its turn, or *beside* its holders, if the embedder says that it may: see
//! `wait::turn::beside`.

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::turn::{self, Beside, Shares};

use super::turns::Want;
use super::{ASKS, BIAS, HANDOFF, LISTENING, LOCKED, PENDING, READ_BLOCK, READERS, READFAIL, RawRwSem, WRITER};

impl<P: Platform> RawRwSem<P> {
    /// Whether somebody may wait, in the queue or spinning: two loads. In the child of a fork it
    /// may be the parent's waiters.
    #[inline(always)]
    pub fn may_be_contended(&self) -> bool {
        self.queue.is_marked() || self.osq.is_locked()
    }

    /// Takes the lock for reading once more, past all waiters, if readers hold it and it is not
    /// full: for a caller that is one of them.
    pub fn try_read_again(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count & (WRITER | READFAIL) == 0 && count & READERS != 0 {
            match self.count.compare_exchange_weak(count, count + BIAS, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        false
    }

    /// Takes the lock for reading if that needs no wait, though a thread spins to write.
    pub(super) fn try_read_pressed(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count & READ_BLOCK & !PENDING == 0 {
            match self.count.compare_exchange_weak(count, count + BIAS, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        false
    }

    /// Takes the lock for reading unless `until` comes first.
    /// While readers hold it, a waiting caller goes in beside them as soon as it sees that `may()`
    /// says so. See the module text.
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn read_acquire_beside(&self, until: Until<'_, P>, may: impl Fn() -> bool) -> Result<(), GaveUp> {
        if self.try_read_acquire() { Ok(()) } else { turn::acquire(&Beside::new(Want(self), may), until) }
    }

    /// Takes the lock for reading unless `until` comes first. The count shows the caller only when
    /// it holds the lock: one that is stopped before keeps no writer out, nor is it counted in the
    /// child of a fork.
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn read_acquire_queued(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.try_read_acquire() { Ok(()) } else { turn::acquire(&Want::<P, false>(self), until) }
    }

    /// Releases a read lock and does not touch it after another thread may own it.
    ///
    /// # Safety
    /// The caller holds it for reading, or acts for a thread that does.
    #[inline]
    pub unsafe fn read_release_detached(&self) {
        self.release_detached(BIAS);
    }

    /// Releases a read lock as [`RawRwSem::read_release_detached`] does, but only if readers hold
    /// it and nobody has asked for anything; `false`: nothing was done. What fast paths are for.
    ///
    /// # Safety
    /// If readers hold it, the caller is one of them, or acts for one.
    #[inline]
    pub unsafe fn try_read_release_unasked(&self) -> bool {
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

    /// Releases the write lock and does not touch it after another thread may own it.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release_detached(&self) {
        self.release_detached(WRITER);
    }

    #[inline]
    fn release_detached(&self, unit: u64) {
        // The last holder, and no waiter has asked for anything: it would have changed the count.
        let alone = self.count.load(Relaxed) == unit && self.count.compare_exchange(unit, 0, Release, Relaxed).is_ok();
        if !alone {
            self.release_detached_slow(unit);
        }
    }

    #[inline(never)]
    fn release_detached_slow(&self, unit: u64) {
        // Acquire: a release that sees a request also sees the queue as the requester did.
        let mut count = self.count.load(Acquire);
        loop {
            let mut next = count.wrapping_sub(unit);
            let mut first = None;
            if (unit == WRITER || next & LOCKED == 0) && next & (LISTENING | HANDOFF) != 0 {
                let waiter = self.queue.first();
                if next & HANDOFF != 0
                    && let Some(waiter) = waiter
                {
                    turn::released_reserved(waiter);
                }
                first = waiter.filter(|_| next & LISTENING != 0);
                next &= !(LISTENING | ASKS);
            }
            match self.count.compare_exchange_weak(count, next, AcqRel, Acquire) {
                Ok(_) => {
                    if let Some(first) = first {
                        P::count(Event::RwsemWakeWriter, 1);
                        first.unpark();
                    }
                    return;
                }
                Err(found) => count = found,
            }
        }
    }

    /// In a child process: forgets the parent's waiters. The holders stay.
    ///
    /// # Safety
    /// No thread of this process waits for the lock, or does anything with it but take it and
    /// release it without waiting, until this returns.
    pub unsafe fn forget_waiters(&self) {
        self.queue.forget();
        self.osq.forget();
        // SAFETY: nobody in this process holds the wait lock: its holder, if any, was another
        // thread of the parent.
        unsafe { self.wait_lock.forget() };
        self.count.fetch_and(!(HANDOFF | LISTENING | ASKS | PENDING), AcqRel);
    }

    /// As [`RawRwSem::forget_waiters`]; and, unless it is `written`, a writer of the parent that
    /// was between two steps.
    ///
    /// # Safety
    /// The same, and no thread holds it for writing unless `written`.
    pub unsafe fn forget_others(&self, written: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.forget_waiters() };
        if !written {
            self.count.fetch_and(!WRITER, AcqRel);
        }
    }
}

impl<P: Platform> Shares for Want<'_, P, false> {
    fn go_in_beside(&self, may: &impl Fn() -> bool) -> bool {
        let count = self.0.count.load(Relaxed);
        let went_in = count & WRITER == 0 && count & READERS != 0 && may() && self.0.try_read_again();
        if went_in {
            P::count(Event::RwsemRlockSteal, 1);
        }
        went_in
    }
}
