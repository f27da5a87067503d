//! What a mutex offers to those who embed it where POSIX mutexes live: fast paths for a caller that
//! knows its name, or is alone; a release after which the memory may go away; children that forget
//! the parent's waiters.
//!
//! **Detached release.** POSIX lets the next owner free a mutex, while the thread that released it
//! may still be inside the call. So the owner reads the first waiter's name before it releases, and
//! touches only that waiter's record afterwards. If that waiter gives up in between, it changes
//! `asks`, and the release starts again. A waiter without a timer sets `ADOPTED`, and the release
//! starts again. A later request with a timer may look the same: see invariant 4. Then the release
//! wakes another waiter than the first, which sleeps to its timer: a turn, or as long as the
//! release was stopped, up to 0.1 s.

use super::{FLAGS, HANDOFF, LISTENING, OBEYED, OWNER, RawMutex, SEEN};
use crate::event::Event;
use crate::platform::thread::ThreadId;
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::turn;

impl<P: Platform> RawMutex<P> {
    /// The owner, as the word names it.
    pub fn owner(&self) -> Option<ThreadId> {
        ThreadId::from_raw(self.word.load(Relaxed) & OWNER)
    }

    /// Whether somebody may wait, in the queue or spinning: two loads. In the child of a fork it
    /// may be the parent's waiters.
    #[inline(always)]
    pub fn may_be_contended(&self) -> bool {
        self.queue.is_marked() || self.osq.is_locked()
    }

    /// Takes the mutex in the name of the caller, who knows it, if it is free and nobody asks for
    /// it: the fast path alone.
    #[inline(always)]
    pub fn try_acquire_as(&self, me: ThreadId) -> bool {
        self.word.compare_exchange(0, me.raw(), Acquire, Relaxed).is_ok()
    }

    /// As [`RawMutex::try_acquire_as`], for the only thread of a process: without an atomic
    /// instruction.
    ///
    /// # Safety
    /// No other thread exists.
    #[inline(always)]
    pub unsafe fn try_acquire_alone(&self, me: ThreadId) -> bool {
        let free = self.word.load(Relaxed) == 0;
        if free {
            self.word.store(me.raw(), Relaxed);
        }
        free
    }

    /// Releases the mutex if `me`, the caller, holds it and nobody asks for it: the fast path of
    /// [`RawMutex::release_detached`] alone.
    #[inline(always)]
    pub fn try_release_as(&self, me: ThreadId) -> bool {
        match self.word.compare_exchange(me.raw(), 0, Release, Relaxed) {
            Ok(_) => true,
            Err(found) => self.try_release_seen(me, found),
        }
    }

    /// As [`RawMutex::try_release_as`], if a spinner has marked the hold.
    #[cold]
    fn try_release_seen(&self, me: ThreadId, found: u32) -> bool {
        found == me.raw() | SEEN && self.word.compare_exchange(found, 0, Release, Relaxed).is_ok()
    }

    /// As [`RawMutex::try_release_as`], for the only thread of a process: without an atomic
    /// instruction.
    ///
    /// # Safety
    /// No other thread exists.
    #[inline(always)]
    pub unsafe fn try_release_alone(&self, me: ThreadId) -> bool {
        let mine = self.word.load(Relaxed) == me.raw();
        if mine {
            self.word.store(0, Relaxed);
        }
        mine
    }

    /// Releases the mutex and does not touch it after another thread may own it: the next owner may
    /// free its memory.
    ///
    /// A compare-exchange where [`RawMutex::release`] is unconditional.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    #[inline]
    pub unsafe fn release_detached(&self) {
        let mut word = self.word.load(Relaxed);
        while word & FLAGS == 0 {
            match self.word.compare_exchange(word, 0, Release, Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
        self.release_detached_slow();
    }

    #[cold]
    fn release_detached_slow(&self) {
        // Acquire: a release that sees a request also sees the queue as the requester did.
        let mut word = self.word.load(Acquire);
        loop {
            let first = if word & (LISTENING | HANDOFF) != 0 { self.queue.first() } else { None };
            if word & HANDOFF != 0
                && let Some(first) = first
            {
                turn::released_reserved(first);
            }
            // Fails if another request was made since: it may be for another first waiter.
            // (Invariant 4)
            match self.word.compare_exchange_weak(word, word & FLAGS & !OBEYED, AcqRel, Acquire) {
                Ok(_) => {
                    if word & LISTENING != 0
                        && let Some(first) = first
                    {
                        P::count(Event::MutexWake, 1);
                        first.unpark();
                    }
                    return;
                }
                Err(found) => word = found,
            }
        }
    }

    /// In a child process: forgets the parent's waiters. The owner stays.
    ///
    /// # Safety
    /// No thread of this process waits for the mutex, or does anything with it but take it and
    /// release it without waiting, until this returns.
    pub unsafe fn forget_waiters(&self) {
        self.queue.forget();
        self.osq.forget();
        // SAFETY: nobody in this process holds the wait lock: its holder, if any, was another
        // thread of the parent.
        unsafe { self.wait_lock.forget() };
        self.word.fetch_and(OWNER, AcqRel);
    }
}
