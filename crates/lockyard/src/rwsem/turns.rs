//! The rwsem's waiting in userspace: readers and writers take turns, as
//! [`wait::turn`](crate::wait::turn) says.
//!
//! Policies with `TURNS` (the default, [`Today`](super::policy::Today)) share the kernel's count,
//! but wait otherwise: every waiter, reader or writer, takes the lock itself; nobody is made owner
//! in its sleep. That costs a wake-up per turn instead of one per release, and keeps the lock with
//! threads that run.
//!
//! | bit of count | here |
//! |---|---|
//! | `WAITERS` | never set: those who wait do not slow down those who run. Running threads may pass: a reader unless a writer holds, a writer if nobody holds |
//! | `HANDOFF` | the first waiter's turn is over: nobody else passes. Cleared by it when it takes the lock |
//! | `LISTENING` | the first waiter sleeps and asks for the next release. Cleared by the release that wakes it |
//! | `ASKS` | counts the settings of `LISTENING` (mod 8) since a release cleared both: a detached release does not obey a request for one waiter by waking another |
//! | `PENDING` | the one writer at the head of the spin queue has spun in vain on a lock that is mostly read: no new readers, unless first in the queue. Set and cleared by it; cleared by a reader that finds it set for more than `RESERVED_NS`: the writer is stopped |
//! | (`owner`) | when `PENDING` was set last, in units of 1,024 ns, mod 2³² |
//!
//! The requests change as `wait::turn` says.
//!
//! **Pressing.** Each thread remembers of the lock it last spun for how often it found readers in
//! its way. A writer presses where that is nearly always: among writers, waiting longer costs less
//! than handing over more often.
//!
//! **Readers together.** A first reader that gets in leaves the queue, and thereby wakes the next
//! waiter; if that is a reader it gets in as well, and so on.
//!
//! **Bound.** Readers and writers alike: one turn, a hold and a wake-up per waiter ahead. A stream
//! of overlapping readers cannot keep a writer out longer than its turn, and a stream of writers no
//! reader.
//!
//! **Ordering.** As the engine's: every take is Acquire, every release a Release read-modify-write.
//! A release that sees `LISTENING` clears it with AcqRel and then reads the first waiter's name;
//! see `wait::turn` for why a stale name does no harm.

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::thread::{Thread, ThreadId};
use crate::wait::turn::{self, Contended, Events, Left, Look, Request};

use super::policy::Policy;
use super::{ASK, ASKS, BIAS, HANDOFF, LISTENING, LOCKED, PENDING, READ_BLOCK, READFAIL, RawRwSem, WRITER};

impl<P: Platform, Y: Policy> RawRwSem<P, Y> {
    /// A reader whose bias is in the count but must not simply proceed.
    pub(super) fn turns_read_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.turns_take_back();
        turn::acquire(&Want::<P, Y, false>(self), until)
    }

    /// A reader takes back the bias with which it looked.
    pub(super) fn turns_take_back(&self) {
        let left = self.count.fetch_sub(BIAS, Release) - BIAS;
        if left & PENDING != 0 {
            self.end_stale_press();
        }
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

    /// A try that has failed, past a waiter that does not come.
    #[cold]
    pub(super) fn turns_try_write(&self) -> bool {
        let count = self.count.load(Relaxed);
        count & !(HANDOFF | PENDING | LISTENING | ASKS) == 0 && turn::try_take(&Want::<P, Y, true>(self))
    }

    /// As [`Self::turns_try_write`], for reading.
    #[cold]
    pub(super) fn turns_try_read(&self) -> bool {
        let count = self.count.load(Relaxed);
        if count & PENDING != 0 {
            self.end_stale_press();
        }
        count & (READ_BLOCK & !(HANDOFF | PENDING)) == 0 && turn::try_take(&Want::<P, Y, false>(self))
    }

    /// The time, as [`Self::end_stale_press`] keeps it.
    pub(super) fn press_time() -> u32 {
        (P::now() >> 10) as u32
    }

    /// A reader found `PENDING`: clears it if it was set long ago. (The writer does not look at it;
    /// it clears the bit once more.)
    #[cold]
    fn end_stale_press(&self) {
        if Self::press_time().wrapping_sub(self.owner.load(Relaxed)) > (turn::RESERVED_NS >> 10) as u32 {
            P::count(Event::WaitLapsed, 1);
            self.count.fetch_and(!PENDING, Relaxed);
        }
    }

    /// `count`, with the request to wake the first waiter.
    fn listening(count: u64) -> u64 {
        let asks = if count & LISTENING == 0 { (count + ASK) & ASKS } else { count & ASKS };
        count & !ASKS | asks | LISTENING
    }

    /// After a write release that left other bits set.
    #[cold]
    pub(super) fn turns_write_released(&self) {
        let count = self.count.load(Relaxed);
        if count & LISTENING != 0 {
            self.turns_released();
        } else if count & (LOCKED | HANDOFF) == HANDOFF {
            self.turns_reserved();
        }
    }

    /// A release has left a free lock that is reserved.
    fn turns_reserved(&self) {
        if let Some(first) = self.queue.first() {
            turn::released_reserved(first);
        }
    }

    /// After a release, or a downgrade, that left `LISTENING` set: wakes the first waiter.
    #[cold]
    pub(super) fn turns_released(&self) {
        let count = self.count.fetch_and(!(LISTENING | ASKS), AcqRel);
        if count & LISTENING != 0
            && let Some(first) = self.queue.first()
        {
            if count & (LOCKED | HANDOFF) == HANDOFF {
                turn::released_reserved(first);
            }
            P::count(Event::RwsemWakeWriter, 1);
            first.unpark();
        }
    }
}

/// What a waiter's record says: it waits to write.
const WRITES: u32 = 1;

/// A thread that wants the lock, for writing or for reading.
pub(super) struct Want<'a, P: Platform, Y: Policy, const WRITE: bool>(pub(super) &'a RawRwSem<P, Y>);

impl<P: Platform, Y: Policy, const WRITE: bool> Want<'_, P, Y, WRITE> {
    /// Whether the lock, as `count` says, lets us in.
    fn lets_in(count: u64, first: bool) -> bool {
        let (held, forbidden) = if WRITE { (LOCKED, HANDOFF) } else { (WRITER | READFAIL, HANDOFF | PENDING) };
        count & held == 0 && (first || count & forbidden == 0)
    }

    fn take(&self, first: bool, request: Option<Request>) -> bool {
        let mut count = self.0.count.load(Relaxed);
        loop {
            let mine = Self::lets_in(count, first);
            let next = match mine {
                true => count + Self::HOLD,
                // Also where it is there already: the release that obeys is to see the queue as the
                // caller does.
                false if count & LOCKED != 0 => match request {
                    Some(Request::Listen) => RawRwSem::<P, Y>::listening(count),
                    Some(Request::Handoff) => count | HANDOFF,
                    None => return false,
                },
                false => return false,
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

    const KIND: u32 = if WRITE { WRITES } else { 0 };

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

    /// Nobody notes owners here: see `rwsem::owner`.
    fn owner(&self) -> Option<ThreadId> {
        None
    }

    fn press(&self, me: &Thread<P>) -> bool {
        let read = self.0.count.load(Relaxed) & WRITER == 0;
        let press = WRITE && me.waiter.mostly_read.observe(P::key(self.0), read);
        if press {
            self.0.owner.store(RawRwSem::<P, Y>::press_time(), Relaxed);
            self.0.count.fetch_or(PENDING, Release);
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
        self.take(first, None)
    }

    fn try_or_ask(&self, request: Request) -> bool {
        if request == Request::Handoff {
            P::count(if WRITE { Event::RwsemWlockHandoff } else { Event::RwsemRlockHandoff }, 1);
        }
        self.take(true, Some(request))
    }

    fn ask_for_first(&self) {
        self.0.count.fetch_or(HANDOFF, Relaxed);
    }

    fn is_open_to(&self, first: &Thread<P>) -> bool {
        let held = if first.waiter.kind.load(Relaxed) == WRITES { LOCKED } else { WRITER };
        self.0.count.load(Relaxed) & held == 0
    }

    fn unreserve(&self) {
        self.0.count.fetch_and(!HANDOFF, Relaxed);
    }

    fn left(&self, left: Left) {
        let mut count = self.0.count.load(Relaxed);
        loop {
            let next = left.requests(count, LISTENING | ASKS, RawRwSem::<P, Y>::listening, HANDOFF);
            if next == count && !left.listen {
                return;
            }
            match self.0.count.compare_exchange_weak(count, next, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(found) => count = found,
            }
        }
        if left.listen && !left.empty && !WRITE {
            // We read: the next waiter may be a reader, too, and need not wait for our release.
            self.0.turns_released();
        }
    }
}
