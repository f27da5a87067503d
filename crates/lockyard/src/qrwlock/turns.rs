//! The qrwlock's waiting in userspace: readers and writers take turns, as
//! [`wait::turn`](crate::wait::turn) says.
//!
//! Every waiter takes the lock itself, and none is counted in the word while it waits.
//!
//! | request of `wait::turn` | here |
//! |---|---|
//! | `HANDOFF` | *waiting*, bit 8 of the word: admits nobody but the first waiter |
//! | `LISTENING` | the first waiter's entry in the table of [sleeping heads](crate::wait::heads), under the key of the word: a release touches the lock no more. Made by that waiter, by a writer for the next as it leaves the queue, or by the fair release of a writer; taken out by the release that wakes, or by the waiter when it leaves the queue |
//!
//! | state (readers, waiting, locked) | event | next |
//! |---|---|---|
//! | r,w,l with w or l, or r is full | a reader comes | r+1,w,l, then r,w,l: it spins or queues |
//! | r,w,0 | the first waiter, a reader | r+1,w,0: it is in; it clears *waiting* as it leaves the queue |
//! | 0,w,0 | the first waiter, a writer | 0,w,1: likewise |
//! | r,0,l | the first waiter, its turn over | r,1,l |
//! | r,1,l | the reservation ends; the queue empties | r,0,l |
//!
//! **Asleep.** A first waiter that is to sleep registers, passes the heavy fence, and tries once
//! more: a release that comes later finds the entry. Without a heavy fence it naps for a moment
//! before that try: see `heads`. A wake-up that ends the nap, if the try fails, ends the sleep as
//! well. With its line of the table full it sleeps to its timer, the end of its turn. A leaving
//! reader wakes the next waiter itself, which may be a reader. A leaving writer registers it,
//! without a fence: the writer's own release follows.
//!
//! **Full.** No release tells that there is room again: a reader that waits for that looks by its
//! timer.
//!
//! **Bound.** As `wait::turn` says, for readers and writers alike. Urgent readers have none: they
//! poll.
//!
//! **Ordering.** Taking is Acquire. *Waiting* changes by Relaxed read-modify-writes: it makes
//! nothing visible, and what it admits is decided by the exchange that takes the lock.

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::heads::SETTLE_NS;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::turn::{self, Beside, Contended, Events, Left, Look, Request, Shares};

use super::{CLAIMED, FULL, LOCKED, READER, RawQRwLock, WAITING};

impl<P: Platform> RawQRwLock<P> {
    /// A reader that is not counted any more, and must not simply proceed.
    pub(super) fn turns_read(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        turn::acquire(&Want::<P, false>(self), until)
    }

    /// The same, for a reader that may go in beside others.
    pub(super) fn turns_read_beside(&self, until: Until<'_, P>, may: impl Fn() -> bool) -> Result<(), GaveUp> {
        turn::acquire(&Beside::new(Want::<P, false>(self), may), until)
    }

    /// A writer that found the lock taken.
    pub(super) fn turns_write(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        turn::acquire(&Want::<P, true>(self), until)
    }

    /// A try that has failed, past a waiter that does not come.
    #[cold]
    #[inline(never)]
    pub(super) fn turns_try_write(&self) -> bool {
        self.look() & !WAITING == 0 && turn::try_take(&Want::<P, true>(self))
    }

    /// As [`Self::turns_try_write`], for reading.
    #[cold]
    #[inline(never)]
    pub(super) fn turns_try_read(&self) -> bool {
        self.look() & (LOCKED | FULL) == 0 && turn::try_take(&Want::<P, false>(self))
    }

    /// The word. In a child with one thread a claim is that of a thread of the parent: it goes.
    pub(super) fn look(&self) -> u32 {
        let word = self.word.load(Relaxed);
        if word & LOCKED == CLAIMED && P::is_alone_in_child() {
            return self.word.fetch_and(!LOCKED, Relaxed) & !LOCKED;
        }
        word
    }
}

/// What a waiter's record says: it waits to write.
const WRITES: u32 = 1;

/// A thread that wants the lock, for writing or for reading.
pub(super) struct Want<'a, P: Platform, const WRITE: bool>(pub(super) &'a RawQRwLock<P>);

impl<P: Platform, const WRITE: bool> Want<'_, P, WRITE> {
    const HOLD: u32 = if WRITE { LOCKED } else { READER };

    /// Whether the lock, as `word` says, lets the caller in.
    fn lets_in(word: u32, first: bool) -> bool {
        let held = if WRITE { !WAITING } else { LOCKED | FULL };
        word & held == 0 && (first || word & WAITING == 0)
    }

    /// The first waiter is about to sleep: the next release is to wake it. `true`: it has the lock.
    fn listen(&self) -> bool {
        let heads = P::commons().heads;
        let key = P::key(self.0);
        let me = P::current();
        let napper = me.filter(|me| {
            let registered = heads.contains(key, me.id()) || heads.insert(key, me.id());
            registered && !P::fence_heavy()
        });
        let woken = napper.filter(|me| me.nap(P::now() + SETTLE_NS));
        // One of a higher rank may have come meanwhile.
        let taken = self.try_take(me.is_none_or(|me| self.0.queue.is_first(me)));
        if let Some(me) = woken
            && !taken
        {
            // The sleep, for the sake of which the nap was, is to end with that.
            me.unpark();
        }
        taken
    }
}

impl<P: Platform, const WRITE: bool> Contended<P> for Want<'_, P, WRITE> {
    const EVENTS: Events = Events {
        spun: Event::QrwOptLock,
        spin_failed: Event::QrwOptFail,
        queued: Event::QrwLock,
        gave_up: Event::QrwFail,
        slept: Event::QrwSleep,
    };

    const KIND: u32 = if WRITE { WRITES } else { 0 };
    const SHARED: bool = !WRITE;

    const STRIDE_NS: (u32, u32) = if WRITE { turn::STRIDE_NS } else { turn::READER_STRIDE_NS };

    fn wait_lock(&self) -> &RawQSpinLock<P> {
        &self.0.wait_lock
    }

    fn waiters(&self) -> &WaitQueue<P> {
        &self.0.queue
    }

    fn osq(&self) -> &Osq<P> {
        &self.0.osq
    }

    fn owner(&self) -> Option<ThreadId> {
        None
    }

    fn look(&self, first: bool) -> Look {
        let word = self.0.word.load(Relaxed);
        match Self::lets_in(word, first) {
            true => Look::Open,
            false if word & WAITING != 0 && !first => Look::Kept,
            false => Look::Closed,
        }
    }

    fn is_open_to(&self, first: &Thread<P>) -> bool {
        let word = self.0.word.load(Relaxed);
        if first.waiter.kind.load(Relaxed) == WRITES { word & !WAITING == 0 } else { word & LOCKED == 0 }
    }

    fn try_take(&self, first: bool) -> bool {
        let mut word = self.0.look();
        while Self::lets_in(word, first) {
            match self.0.word.compare_exchange_weak(word, word + Self::HOLD, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    fn try_or_ask(&self, request: Request) -> bool {
        if self.try_take(true) {
            return true;
        }
        match request {
            Request::Handoff => {
                self.ask_for_first();
                false
            }
            Request::Listen => self.listen(),
        }
    }

    fn ask_for_first(&self) {
        if self.0.word.fetch_or(WAITING, Relaxed) & WAITING == 0 {
            P::count(Event::QrwHandoff, 1);
        }
    }

    fn unreserve(&self) {
        self.0.word.fetch_and(!WAITING, Relaxed);
    }

    fn left(&self, left: Left) {
        let heads = P::commons().heads;
        let key = P::key(self.0);
        if let Some(me) = P::id()
            && heads.any(key)
        {
            heads.remove(key, me);
        }
        if (left.empty || left.served) && self.0.word.load(Relaxed) & WAITING != 0 {
            self.unreserve();
        }
        if left.handoff {
            self.ask_for_first();
        }
        if left.listen
            && let Some(next) = self.0.queue.first()
        {
            let told = WRITE && (heads.contains(key, next.id()) || heads.insert(key, next.id()));
            if !told {
                next.unpark();
            }
        }
    }
}

impl<P: Platform> Shares for Want<'_, P, false> {
    fn go_in_beside(&self, may: &impl Fn() -> bool) -> bool {
        let word = self.0.word.load(Relaxed);
        word & LOCKED == 0 && word >= READER && may() && self.0.try_read_again()
    }
}
