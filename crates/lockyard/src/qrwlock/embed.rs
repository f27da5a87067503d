//! What a qrwlock offers to those who embed it where POSIX rwlocks and the kernel's live: readers
//! that recur, that are urgent, or that count only when they hold the lock; children that forget
//! the parent's waiters.
//!
//! **Queued.** A plain reader adds itself, looks, and takes itself out again if it may not enter.
//! The reader of [`RawQRwLock::read_acquire_queued`] adds itself by a compare-exchange that enters:
//! a thread that is stopped, or a fork, finds no count of a reader that does not hold the lock.
//!
//! **Beside.** As `rwsem/embed.rs` says: a reader that waits behind a waiting writer for a time
//! only.
//!
//! **Urgent.** A reader that may run on top of another reader of the same lock, such as a signal
//! handler's, passes waiting writers: to queue behind a writer that waits for the reader below
//! would never end. It has no bound: it polls.

use super::{FULL, LOCKED, READER, RawQRwLock, WAITING};
use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};

impl<P: Platform> RawQRwLock<P> {
    /// As [`RawQRwLock::read_acquire_until`]. The caller is counted only when it holds the lock:
    /// one that is stopped before keeps no writer out, nor is it counted in the child of a fork.
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn read_acquire_queued(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.try_read_acquire() {
            return Ok(());
        }
        P::count(Event::QrwReadSlowpath, 1);
        self.turns_read(until)
    }

    /// As [`RawQRwLock::read_acquire_until`]. While readers hold the lock, a waiting caller goes in
    /// beside them as soon as it sees that `may()` says so: for readers that others may wait for.
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn read_acquire_beside(&self, until: Until<'_, P>, may: impl Fn() -> bool) -> Result<(), GaveUp> {
        if self.try_read_acquire() {
            return Ok(());
        }
        P::count(Event::QrwReadSlowpath, 1);
        self.turns_read_beside(until, may)
    }

    /// Takes the lock for reading past waiting writers: waits only for one that is inside or comes
    /// at this moment, and while there are as many readers as can be counted.
    ///
    /// For readers that may be running on top of another reader. Unfair on purpose.
    #[inline]
    pub fn read_acquire_urgent(&self) {
        if !self.read_acquire_urgent_unless_full() {
            self.wait_for_room();
        }
    }

    /// As [`read_acquire_urgent`](Self::read_acquire_urgent), unless there are as many readers as
    /// can be counted: then `false`.
    #[inline]
    pub fn read_acquire_urgent_unless_full(&self) -> bool {
        let word = self.word.fetch_add(READER, Acquire);
        word & (LOCKED | FULL) == 0 || self.urgent_slow(word)
    }

    /// Whether there are as many readers as can be counted: one more waits until one has left, or
    /// is refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.word.load(Relaxed) & FULL != 0
    }

    /// Takes the lock for reading once more, past everybody who waits, if readers hold it. Refused
    /// at the moment at which a writer comes, as [`RawQRwLock::try_read_acquire`] is.
    pub fn try_read_again(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & (LOCKED | FULL) == 0 && word >= READER {
            match self.word.compare_exchange_weak(word, word + READER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// In a child process: forgets the parent's waiters. The holders stay.
    ///
    /// # Safety
    /// No thread of this process takes the lock, waits for it or tries to, until this returns.
    pub unsafe fn forget_waiters(&self) {
        self.queue.forget();
        self.osq.forget();
        // SAFETY: nobody in this process holds the wait lock: its holder, if any, was another
        // thread of the parent.
        unsafe { self.wait_lock.forget() };
        let mut word = self.word.load(Relaxed);
        loop {
            // Beside a writer nobody reads: the counts are of the parent's waiters. (Invariant 1)
            // A claim is of one of them, too.
            let kept = if word & LOCKED == LOCKED { LOCKED } else { word & !(WAITING | LOCKED) };
            match self.word.compare_exchange_weak(word, kept, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
    }

    /// An urgent reader that is counted in, and has found `word`. `false`: it is not any more,
    /// there is no room.
    #[cold]
    fn urgent_slow(&self, word: u32) -> bool {
        if word & FULL != 0 {
            self.take_back();
            return false;
        }
        P::count(Event::QrwReadSlowpath, 1);
        self.turns_urgent()
    }

    /// An urgent reader for which there was no room.
    #[cold]
    fn wait_for_room(&self) {
        // Forever: the result cannot be an error.
        let _ = Until::<P>::FOREVER.poll(|| self.read_acquire_urgent_unless_full());
    }

    /// An urgent reader that is counted, and found a writer inside: polls, and is not counted
    /// meanwhile. `false`: there is no room.
    fn turns_urgent(&self) -> bool {
        self.take_back();
        let mut room = true;
        // Forever: the result cannot be an error.
        let _ = Until::<P>::FOREVER.poll(|| {
            let word = self.look();
            room = word & FULL == 0;
            !room || word & LOCKED == 0 && self.try_add_reader(word)
        });
        room
    }

    /// Counts one more reader if the word is `word`.
    fn try_add_reader(&self, word: u32) -> bool {
        self.word.compare_exchange(word, word + READER, Acquire, Relaxed).is_ok()
    }
}
