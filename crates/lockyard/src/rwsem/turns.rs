//! The rwsem's waiting in userspace: readers and writers take turns, as [`wait::turn`](crate::wait::turn) says.
//!
//! Policies with `TURNS` (the default, [`Today`](super::policy::Today)) share the kernel's count, but wait otherwise:
//! every waiter, reader or writer, takes the lock itself; nobody is made owner in its sleep. That costs a wake-up per turn instead of one per
//! release, and keeps the lock with threads that run.
//!
//! | bit of count | here |
//! |---|---|
//! | `WAITERS` | never set: those who wait do not slow down those who run. Running threads may pass: a reader unless a writer holds, a writer if nobody holds |
//! | `HANDOFF` | the first waiter's turn is over: nobody else passes. Cleared by it when it takes the lock |
//! | `LISTENING` | the first waiter sleeps and asks for the next release. Cleared by the release that wakes it |
//! | `PENDING` | the one writer at the head of the spin queue has spun in vain on a lock that is mostly read: no new readers, unless first in the queue. Set and cleared by it |
//!
//! The requests change as `wait::turn` says.
//!
//! **Pressing.** Each thread remembers of the lock it last spun for how often it found readers in its way. A writer presses where that is nearly always: among
//! writers, waiting longer costs less than handing over more often.
//!
//! **Readers together.** A first reader that gets in leaves the queue, and thereby wakes the next waiter; if that is a reader it gets in as well, and so on.
//!
//! **Bound.** Readers and writers alike: one turn, a hold and a wake-up per waiter ahead. A stream of overlapping readers cannot keep a writer out longer than its
//! turn, and a stream of writers no reader.
//!
//! **Ordering.** As the engine's: every take is Acquire, every release a Release read-modify-write. A release that sees `LISTENING` clears it with AcqRel and
//! then reads the first waiter's name; see `wait::turn` for why a stale name does no harm.

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::thread::{Thread, ThreadId};
use crate::wait::turn::{self, Contended, Events, Look, Request};

use super::policy::Policy;
use super::{BIAS, HANDOFF, LISTENING, LOCKED, PENDING, READFAIL, RawRwSem, WRITER};

impl<P: Platform, Y: Policy> RawRwSem<P, Y> {
    /// A reader whose bias is in the count but must not simply proceed.
    pub(super) fn turns_read_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.turns_take_back();
        turn::acquire(&Want::<P, Y, false>(self), until)
    }

    /// A reader takes back the bias with which it looked.
    pub(super) fn turns_take_back(&self) {
        let left = self.count.fetch_sub(BIAS, Release) - BIAS;
        if left & LISTENING != 0 && left & LOCKED == 0 {
            self.turns_released();
        }
    }

    /// A writer that found the count not zero.
    pub(super) fn turns_write_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        let want = Want::<P, Y, true>(self);
        if want.try_take(false) {
            return Ok(());
        }
        turn::acquire(&want, until)
    }

    /// After a write release that left other bits set.
    #[cold]
    pub(super) fn turns_write_released(&self) {
        if self.count.load(Relaxed) & LISTENING != 0 {
            self.turns_released();
        }
    }

    /// After a release, or a downgrade, that left `LISTENING` set: wakes the first waiter.
    #[cold]
    pub(super) fn turns_released(&self) {
        if self.count.fetch_and(!LISTENING, AcqRel) & LISTENING != 0
            && let Some(first) = self.queue.first()
        {
            P::count(Event::RwsemWakeWriter, 1);
            first.unpark();
        }
    }
}

/// A thread that wants the lock, for writing or for reading.
pub(super) struct Want<'a, P: Platform, Y: Policy, const WRITE: bool>(pub(super) &'a RawRwSem<P, Y>);

impl<P: Platform, Y: Policy, const WRITE: bool> Want<'_, P, Y, WRITE> {
    /// Whether the lock, as `count` says, lets us in.
    fn lets_in(count: u64, first: bool) -> bool {
        let (held, forbidden) = if WRITE { (LOCKED, HANDOFF) } else { (WRITER | READFAIL, HANDOFF | PENDING) };
        count & held == 0 && (first || count & forbidden == 0)
    }

    fn take(&self, first: bool, request: u64) -> bool {
        let mut count = self.0.count.load(Relaxed);
        loop {
            let mine = Self::lets_in(count, first);
            let next = match (mine, first) {
                (true, true) => (count & !(HANDOFF | LISTENING)) + Self::HOLD,
                (true, false) => count + Self::HOLD,
                (false, _) if count & request != request => count | request,
                (false, _) => return false,
            };
            match self.0.count.compare_exchange_weak(count, next, AcqRel, Relaxed) {
                Ok(_) => return mine,
                Err(found) => count = found,
            }
        }
    }

    const HOLD: u64 = if WRITE { WRITER } else { BIAS };
}

impl<P: Platform, Y: Policy, const WRITE: bool> Contended<P> for Want<'_, P, Y, WRITE> {
    const EVENTS: Events = if WRITE {
        Events {
            spun: Event::RwsemOptLock,
            spin_failed: Event::RwsemOptFail,
            queued: Event::RwsemWlock,
            gave_up: Event::RwsemWlockFail,
            slept: Event::RwsemSleepWriter,
        }
    } else {
        Events {
            spun: Event::RwsemOptRlock,
            spin_failed: Event::RwsemOptFail,
            queued: Event::RwsemRlock,
            gave_up: Event::RwsemRlockFail,
            slept: Event::RwsemSleepReader,
        }
    };

    /// A reader looks often: it keeps no other reader out when it gets in.
    const STRIDE_NS: (u32, u32) = if WRITE { turn::STRIDE_NS } else { (100, 600) };

    fn wait_lock(&self) -> &RawQSpinLock<P> {
        &self.0.wait_lock
    }

    fn waiters(&self) -> &WaitQueue<P> {
        &self.0.queue
    }

    fn osq(&self) -> &Osq<P> {
        &self.0.osq
    }

    /// Nobody notes owners here: see `rwsem::owner`.
    fn owner(&self) -> Option<ThreadId> {
        None
    }

    fn press(&self, me: &Thread<P>) -> bool {
        let read = self.0.count.load(Relaxed) & WRITER == 0;
        let press = WRITE && me.waiter.mostly_read.observe(P::key(self.0), read);
        if press {
            self.0.count.fetch_or(PENDING, Relaxed);
        }
        press
    }

    fn relent(&self) {
        self.0.count.fetch_and(!PENDING, Relaxed);
    }

    fn look(&self, first: bool) -> Look {
        let count = self.0.count.load(Relaxed);
        match Self::lets_in(count, first) {
            true => Look::Open,
            false if count & HANDOFF != 0 && !first => Look::Kept,
            false => Look::Closed,
        }
    }

    fn try_take(&self, first: bool) -> bool {
        self.take(first, 0)
    }

    fn try_or_ask(&self, request: Request) -> bool {
        if request == Request::Handoff {
            P::count(if WRITE { Event::RwsemWlockHandoff } else { Event::RwsemRlockHandoff }, 1);
        }
        self.take(true, if request == Request::Listen { LISTENING } else { HANDOFF })
    }

    fn ask_for_first(&self) {
        self.0.count.fetch_or(HANDOFF, Relaxed);
    }

    fn left(&self, empty: bool, listen: bool) {
        if empty {
            self.0.count.fetch_and(!(HANDOFF | LISTENING), Relaxed);
        } else if listen {
            self.0.count.fetch_or(LISTENING, AcqRel);
            if !WRITE {
                // We read: the next waiter may be a reader, too, and need not wait for our release.
                self.0.turns_released();
            }
        }
    }
}
