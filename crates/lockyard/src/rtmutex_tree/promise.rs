//! The promise of a free mutex, and its end.
//!
//! A release leaves the mutex free, with `WAITERS`: it is promised to the *heir*, the first waiter
//! that has not lapsed. The heir may be stopped, by a signal handler or a debugger.
//! So the promise ends, as in [`turn`](crate::wait::turn):
//!
//! | `reserved` of the heir | a thread that is refused, under the wait lock |
//! |---|---|
//! | 0 | stores the time, wakes the heir |
//! | a time | [`RESERVED_NS`] later: stores `LAPSED`; the next waiter is heir |
//!
//! The waiter clears its `reserved` under the wait lock whenever it runs. A lapsed waiter keeps its
//! place in the tree, and goes on lending: when it runs it is heir again. A release that finds no
//! heir wakes nobody, and any thread may take the mutex.
//!
//! A waiter that is not first looks again when the promise that refused it is over, or, if it found
//! the mutex held, after [`WATCH_NS`]: no release may wake it. It loads the word, and takes the
//! wait lock if the mutex is free, if it seems to be first, or if its own `reserved` is not 0. A
//! first waiter sleeps without a timer; the thread that makes it second wakes it. Machines on which
//! no thread is stopped promise for ever, and nobody watches.

use super::{Core, OWNER, WAITERS};
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::section::try_locked;
use crate::wait::turn::{LAPSED, RESERVED_NS};

/// How often a waiter that is not heir looks.
const WATCH_NS: u64 = 100_000_000;

impl<P: Platform> Core<P> {
    /// Whether promises end on this machine.
    pub(super) fn promises_end() -> bool {
        P::spin_budget() != u32::MAX
    }

    /// Under the wait lock, and no waiter lends to the owner: the first waiter. Those of the parent
    /// of a fork leave the tree.
    pub(super) fn first_here(&self) -> Option<ThreadId> {
        loop {
            match self.waiters.first() {
                Some(ghost) if !P::is_here(ghost) => self.waiters.remove(ghost),
                first => return first,
            }
        }
    }

    /// Under the wait lock: the waiter that a free mutex is promised to.
    pub(super) fn heir(&self) -> Option<ThreadId> {
        let mut next = self.first_here();
        while let Some(waiter) = next.filter(|&waiter| P::thread(waiter).waiter.reserved.load(Relaxed) == LAPSED) {
            next = self.waiters.after(waiter);
        }
        next
    }

    /// Under the wait lock, just before the mutex is free: it will be promised to `heir`.
    pub(super) fn promise(heir: &Thread<P>) {
        if Self::promises_end() {
            heir.waiter.reserved.store(P::now(), Relaxed);
        }
    }

    /// When a waiter that is about to sleep looks again, having seen `owner`: the first waiter
    /// need not, its wake-up comes.
    pub(super) fn watch(first: bool, owner: Option<ThreadId>) -> Option<u64> {
        let wait = if owner.is_none() { RESERVED_NS } else { WATCH_NS };
        (!first && Self::promises_end()).then(|| P::now().saturating_add(wait))
    }

    /// Under the wait lock, the mutex is free and the calling thread is refused: whether the
    /// promise to `heir` is over.
    pub(super) fn lapse(heir: &Thread<P>) -> bool {
        if !Self::promises_end() {
            return false;
        }
        let now = P::now();
        match heir.waiter.reserved.load(Relaxed) {
            0 => {
                heir.waiter.reserved.store(now, Relaxed);
                heir.unpark();
                false
            }
            since if now < since.saturating_add(RESERVED_NS) => false,
            _ => {
                P::count(Event::WaitLapsed, 1);
                heir.waiter.reserved.store(LAPSED, Relaxed);
                // The thread that promised may be stopped before it wakes the heir.
                heir.unpark();
                true
            }
        }
    }

    /// Under the wait lock: a waiter has joined or moved, and `before` was first. It sleeps without
    /// a timer, and wakes to set one if it is first no more.
    pub(super) fn displaced(&self, before: Option<ThreadId>) {
        if Self::promises_end()
            && let Some(before) = before.filter(|&before| !self.waiters.is_first(before))
        {
            P::thread(before).unpark();
        }
    }

    /// Whether `waiter`, which another thread has queued asleep, is to wake and set its timer.
    pub(super) fn needs_timer(&self, waiter: &Thread<P>) -> bool {
        Self::promises_end() && !self.waiters.is_first(waiter.id())
    }

    /// Takes, for a thread without a record, a mutex that is free and promised to no waiter. Tries
    /// for the wait lock once.
    #[cold]
    pub(super) fn take_anonymous(&self) -> bool {
        let free = |word| word & OWNER == 0;
        free(self.word.load(Relaxed))
            && try_locked(&self.wait_lock, || {
                while let Some(heir) = self.heir().map(P::thread) {
                    if !free(self.word.load(Relaxed)) || !Self::lapse(heir) {
                        return false;
                    }
                }
                // Acquire: as in `take`. Without waiters the fast path is the way.
                self.word.compare_exchange(WAITERS, WAITERS | ThreadId::ANONYMOUS.raw(), Acquire, Relaxed).is_ok()
            })
            .unwrap_or(false)
    }

    /// Whether no promise to the waiter `me` was made or has ended, as far as it sees.
    pub(super) fn is_on_time(me: &Thread<P>) -> bool {
        me.waiter.reserved.load(Relaxed) == 0
    }

    /// Under the wait lock: the waiter `me` runs.
    pub(super) fn came(me: &Thread<P>) {
        if me.waiter.reserved.load(Relaxed) != 0 {
            me.waiter.reserved.store(0, Relaxed);
        }
    }
}
