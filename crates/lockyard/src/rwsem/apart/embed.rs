//! What an rwsem whose readers share nothing offers to those who embed it where POSIX rwlocks live,
//! as `rwsem::embed` does: reads that recur, readers that go in beside others, detached releases,
//! children that forget the parent's threads.
//!
//! **Past.** A reader that holds already, or for which another one waits, enters *past* a gate that
//! is closed, as long as the writer that closed it waits. So *closed* is not enough for the writer:
//! once it has found no reader inside it marks the gate *held*, and looks again.
//!
//! | `gate` | event | next |
//! |---|---|---|
//! | closed | a reader adds itself, and finds it not held | the same: it is inside |
//! | closed | the sum is 0 | held |
//! | held | a reader adds itself | the same: it takes itself out, and waits |
//! | held | the sum, read again, is not 0 | closed: the writer waits on |
//! | held | it is 0 | the same: the writer holds the lock |
//!
//! *Past against held*: a reader adds itself, passes a full fence, and reads `gate`; a writer marks
//! it held, passes a full fence, and reads the counters. One sees the other. The second sum sees
//! each reader that is inside: all came before the mark, and then only leave.
//!
//! A gate that a writer leaves closed stays held.
//!
//! **fork.** The embedder knows whether a thread holds the lock to write. If none does, what a
//! thread of the parent held in `sem`, between two steps, is nobody's in the child.
//!
//! Only a lock with [`Policy::PAST`] has readers that enter past.

use core::cell::Cell;

use super::place::Place;
use super::policy::LOOK_EVERY;
use super::wait::Reads;
use super::{Entry, Policy, READERS, RawApartRwSem};
use crate::cancel::{GaveUp, Until};
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::turn::{self, Beside};

impl<P: Platform, Y: Policy> RawApartRwSem<P, Y> {
    /// A reader that is about to take the lock, and holds nothing of it, looks whether readers are
    /// in each other's way, and changes where they are counted. It waits for 20 µs at most.
    pub fn meet(&self) {
        if self.place().is_apart() || !Y::AT_ONCE && self.sem.count.load(Relaxed) & READERS == 0 {
            return;
        }
        let seen = self.seen.load(Relaxed).saturating_add(1);
        self.seen.store(seen, Relaxed);
        if self.may_shift(seen) && self.shift() {
            // SAFETY: `shift` has acquired it.
            unsafe { self.sem.write_release() };
        }
    }

    /// Takes the lock for reading past all waiters, unless a writer holds it: for a caller that
    /// reads already, or for which a reader waits.
    pub fn try_read_again(&self) -> bool {
        if self.place().is_apart() { self.enter_past() } else { self.sem.try_read_again() }
    }

    /// As [`Self::try_read_again`], where readers are apart.
    pub(super) fn enter_past(&self) -> bool {
        const { assert!(Y::PAST) };
        let place = self.place();
        if !place.is_open_past() {
            return false;
        }
        let (counter, _) = place.enter::<P>();
        P::fence_after_exchange();
        let now = self.place();
        let inside = now.is_open_past() && now.opened() == place.opened();
        if !inside {
            place.leave::<P>(counter);
        }
        inside
    }

    /// Takes the lock for reading unless `until` comes first.
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn read_acquire_queued(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.try_read_acquire() { Ok(()) } else { self.read_shut(until) }
    }

    /// As [`Self::read_acquire_queued`]. While readers hold the lock, a waiting caller goes in
    /// beside them as soon as it sees that `may()` says so.
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn read_acquire_beside(&self, until: Until<'_, P>, may: impl Fn() -> bool) -> Result<(), GaveUp> {
        if self.try_read_acquire() || self.opens_soon(until) {
            return Ok(());
        }
        let by_gate = Cell::new(false);
        let waited = turn::acquire(&Beside::new(Reads::new(self, &by_gate), may), until);
        self.in_turn(waited, by_gate.get())
    }

    /// Takes the lock for reading where readers are apart and the gate is open. One time in many,
    /// if it `may` wait, it changes to a counter for each CPU, in 20 µs or not: for a caller that
    /// holds nothing of the lock.
    #[inline]
    pub fn try_read_apart(&self, may: bool) -> bool {
        let place = self.place();
        if !place.is_open() {
            return false;
        }
        match self.try_enter(place) {
            Entry::In(before) => before % LOOK_EVERY != 0 || !may || self.look_round(place),
            Entry::Shut => false,
            Entry::Owes => {
                place.wake::<P>();
                false
            }
        }
    }

    /// Releases a read lock if readers are apart, as [`Self::read_release_detached`] does; `false`:
    /// nothing was done.
    ///
    /// # Safety
    /// The caller holds it for reading, or acts for a thread that does.
    #[inline]
    pub unsafe fn try_read_release_apart(&self) -> bool {
        let place = self.place();
        if place.is_apart() {
            place.leave::<P>(place.near::<P>());
        }
        place.is_apart()
    }

    /// Releases a read lock and does not touch it after another thread may own it.
    ///
    /// # Safety
    /// The caller holds it for reading, or acts for a thread that does.
    pub unsafe fn read_release_detached(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            if !self.try_read_release_apart() {
                self.sem.read_release_detached();
            }
        }
    }

    /// Releases the write lock and does not touch it after another thread may own it.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    pub unsafe fn write_release_detached(&self) {
        self.before_write_release();
        // SAFETY: the caller's promise.
        unsafe { self.sem.write_release_detached() };
    }

    /// Whether somebody may wait. In the child of a fork it may be the parent's waiters.
    pub fn may_be_contended(&self) -> bool {
        self.sem.may_be_contended()
    }

    /// Whether there are as many readers in the rwsem as can be counted.
    pub fn is_full(&self) -> bool {
        self.sem.is_full()
    }

    /// In a child process: forgets the parent's other threads, but for readers that hold.
    /// `written`: a thread holds it for writing.
    ///
    /// # Safety
    /// As for [`RawRwSem::forget_waiters`](crate::rwsem::RawRwSem::forget_waiters). No thread holds
    /// it for writing unless `written`.
    pub unsafe fn forget_others(&self, written: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.sem.forget_others(written) };
        self.shifting.store(0, Relaxed);
        self.writers.store(0, Relaxed);
        let place = self.place();
        // (Held or not: a writer of the parent may have been about to look again.)
        if !written && place.is_closed() {
            self.set_place(place.opened());
        }
    }

    /// The lock is as new, if nobody holds it; `false`: somebody does. It waits for a writer to end
    /// its release, which has opened the gate to the last reader: for 10 ms at most.
    ///
    /// # Safety
    /// No thread uses the lock, but in a release that is detached.
    pub unsafe fn retire(&self) -> bool {
        self.await_release();
        if self.is_locked() {
            return false;
        }
        let place = self.place();
        if place.is_apart() {
            self.set_place(Place::COUNTED);
            place.give_back::<P>();
        }
        for word in [&self.seen, &self.enough, &self.shifting] {
            word.store(0, Relaxed);
        }
        true
    }

    /// A writer that found no reader inside marks the gate, and looks again. Returns how many have
    /// come, if there is none.
    pub(super) fn held(&self, place: Place) -> Option<u32> {
        self.set_place(place.held());
        // {gate; fence; read counters} against {counter; fence; read gate} of `enter_past`.
        P::fence();
        let (inside, came) = place.total::<P>();
        if inside != 0 {
            self.set_place(place.closed());
        }
        (inside == 0).then_some(came)
    }
}
