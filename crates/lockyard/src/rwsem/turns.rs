//! The rwsem's waiting in userspace: readers and writers take turns, as [`wait::turn`](crate::wait::turn) says.
//!
//! Policies with `TURNS` (the default, [`Today`](super::policy::Today)) share the kernel's count, but wait otherwise:
//! every waiter, reader or writer, takes the lock itself; nobody is made owner in its sleep. That costs a wake-up per turn instead of one per
//! release, and keeps the lock with threads that run.
//!
//! | bit of count | here |
//! |---|---|
//! | `WAITERS` | the queue is not empty: fast paths come here. Running threads may still pass: a reader unless a writer holds, a writer if nobody holds |
//! | `HANDOFF` | the first waiter's turn is over: nobody else passes. Cleared by it when it takes the lock |
//! | `LISTENING` | the first waiter sleeps and asks for the next release. Cleared by the release that wakes it |
//! | `PENDING` | the one writer at the head of the spin queue has spun in vain while readers overlapped: no new ones, unless first in the queue. Set and cleared by it |
//!
//! The flags change as the kernel's do: `WAITERS` under the wait lock; the requests by the first waiter, in a failed try on a held lock.
//!
//! **Readers together.** A first reader that gets in leaves the queue, and thereby wakes the next waiter; if that is a reader it gets in as well, and so on.
//!
//! **Bound.** Readers and writers alike: one turn, a hold and a wake-up per waiter ahead. A stream of overlapping readers cannot keep a writer out longer than its
//! turn, and a stream of writers no reader.
//!
//! **Ordering.** As the engine's: every take is Acquire, every release a Release read-modify-write. A release that sees `LISTENING` clears it with AcqRel and
//! then reads the first waiter's name; see `wait::turn` for why a stale name does no harm.

use core::cell::Cell;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::thread::ThreadId;
use crate::wait::turn::{self, Contended, Events, Request};

use super::policy::Policy;
use super::{BIAS, HANDOFF, LISTENING, LOCKED, PENDING, READFAIL, RawRwSem, WAITERS, WRITER};

impl<P: Platform, Y: Policy> RawRwSem<P, Y> {
    /// A reader whose bias is in `count` but must not simply proceed.
    pub(super) fn turns_read_slow(&self, count: u64, until: Until<'_, P>) -> Result<(), GaveUp> {
        if count & (WRITER | HANDOFF | PENDING | READFAIL) == 0 {
            // Only waiters ahead, and no turn is over.
            P::count(Event::RwsemRlockSteal, 1);
            return Ok(());
        }
        let left = self.count.fetch_sub(BIAS, Release) - BIAS;
        if left & LISTENING != 0 && left & LOCKED == 0 {
            self.turns_released(left);
        }
        turn::acquire(&Want::<P, Y, false>::new(self), until)
    }

    /// A writer that found the count not zero.
    pub(super) fn turns_write_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        let want = Want::<P, Y, true>::new(self);
        if want.try_take(false) {
            return Ok(());
        }
        turn::acquire(&want, until)
    }

    /// After a write release that left other bits set.
    #[cold]
    pub(super) fn turns_write_released(&self) {
        let count = self.count.load(Relaxed);
        if count & LISTENING != 0 {
            self.turns_released(count);
        }
    }

    /// After a release, or a downgrade, that left `count` with `LISTENING` set: wakes the first waiter.
    #[cold]
    pub(super) fn turns_released(&self, _count: u64) {
        if self.count.fetch_and(!LISTENING, AcqRel) & LISTENING != 0
            && let Some(first) = self.queue.first()
        {
            P::count(Event::RwsemWakeWriter, 1);
            first.unpark();
        }
    }
}

/// A thread that wants the lock, for writing or for reading.
struct Want<'a, P: Platform, Y: Policy, const WRITE: bool> {
    rwsem: &'a RawRwSem<P, Y>,
    /// How often this spinner has looked, and how often it has seen a writer.
    looks: Cell<u32>,
    writers_seen: Cell<u32>,
}

impl<'a, P: Platform, Y: Policy, const WRITE: bool> Want<'a, P, Y, WRITE> {
    fn new(rwsem: &'a RawRwSem<P, Y>) -> Self {
        Self { rwsem, looks: Cell::new(0), writers_seen: Cell::new(0) }
    }

    /// Whether the lock, as `count` says, lets us in.
    fn lets_in(count: u64, first: bool) -> bool {
        let (held, forbidden) = if WRITE { (LOCKED, HANDOFF) } else { (WRITER | READFAIL, HANDOFF | PENDING) };
        count & held == 0 && (first || count & forbidden == 0)
    }

    fn take(&self, first: bool, request: u64) -> bool {
        let mut count = self.rwsem.count.load(Relaxed);
        loop {
            let mine = Self::lets_in(count, first);
            let next = match (mine, first) {
                (true, true) => (count & !(HANDOFF | LISTENING)) + Self::HOLD,
                (true, false) => count + Self::HOLD,
                (false, _) if count & request != request => count | request,
                (false, _) => return false,
            };
            match self.rwsem.count.compare_exchange_weak(count, next, AcqRel, Relaxed) {
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
        &self.rwsem.wait_lock
    }

    fn waiters(&self) -> &WaitQueue<P> {
        &self.rwsem.queue
    }

    fn osq(&self) -> &Osq<P> {
        &self.rwsem.osq
    }

    /// Nobody notes owners here: see `rwsem::owner`.
    fn owner(&self) -> Option<ThreadId> {
        None
    }

    /// Only where mostly readers were in the way: among writers, waiting longer costs less than handing over more often.
    fn press(&self) -> bool {
        let press = WRITE && self.writers_seen.get() * 3 < self.looks.get();
        if press {
            self.rwsem.count.fetch_or(PENDING, Relaxed);
        }
        press
    }

    fn relent(&self) {
        if self.rwsem.count.load(Relaxed) & PENDING != 0 {
            self.rwsem.count.fetch_and(!PENDING, Relaxed);
        }
    }

    fn open(&self, first: bool) -> bool {
        let count = self.rwsem.count.load(Relaxed);
        self.looks.set(self.looks.get() + 1);
        self.writers_seen.set(self.writers_seen.get() + (count & WRITER) as u32);
        Self::lets_in(count, first)
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

    fn joined(&self, first: bool) {
        if first {
            self.rwsem.count.fetch_or(WAITERS, Relaxed);
        }
    }

    fn left(&self, empty: bool, listen: bool) {
        if empty {
            self.rwsem.count.fetch_and(!(WAITERS | HANDOFF | LISTENING), Relaxed);
        } else if listen {
            let count = self.rwsem.count.fetch_or(LISTENING, AcqRel) | LISTENING;
            if !WRITE {
                // We read: the next waiter may be a reader, too, and need not wait for our release.
                self.rwsem.turns_released(count);
            }
        }
    }
}
