//! How threads wait for an rwsem: readers and writers take turns, as
//! [`wait::turn`](crate::wait::turn) says.
//!
//! That costs a wake-up per turn instead of one per release, and keeps the lock with threads that
//! run.
//!
//! **Requests.** `HANDOFF`, `LISTENING` and `ASKS` change as `wait::turn` says.
//!
//! **Pressing.** `PENDING` is set by the one writer at the head of the spin queue, when it has spun
//! in vain on a lock that is mostly read; and by a reader that would change what the lock is. Each
//! thread remembers of the lock it last spun for how often it found readers in its way. A writer
//! presses where that is nearly always: among writers, waiting longer costs less than handing over
//! more often. A reader that finds `PENDING` set for more than `RESERVED_NS` clears it: the writer
//! is stopped.
//!
//! **Readers together.** A first reader that gets in leaves the queue, and thereby wakes the next
//! waiter; if that is a reader it gets in as well, and so on.

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Patience, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::turn::{self, Contended, Events, Left, Look, Request};

use super::{ASK, ASKS, BIAS, HANDOFF, LISTENING, LOCKED, PENDING, READERS, READFAIL, RawRwSem, WRITER};

impl<P: Platform> RawRwSem<P> {
    /// [`Self::read_slow`] without an end. Apart, so that the fast path makes no room for an
    /// [`Until`].
    #[cold]
    #[inline(never)]
    pub(super) fn read_forever(&self) {
        // The result cannot be an error.
        let _ = self.read_slow(Until::FOREVER);
    }

    /// As [`Self::read_forever`].
    #[cold]
    #[inline(never)]
    pub(super) fn write_forever(&self) {
        // The result cannot be an error.
        let _ = self.write_slow(Until::FOREVER);
    }

    /// A reader whose bias is in the count but must not simply proceed.
    #[cold]
    pub(super) fn read_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.take_back();
        turn::acquire(&Want::<P, false>(self), until)
    }

    /// A reader takes back the bias with which it looked.
    pub(super) fn take_back(&self) {
        let left = self.count.fetch_sub(BIAS, Release) - BIAS;
        if left & PENDING != 0 {
            self.end_stale_press();
        }
        if left & LISTENING != 0 && left & LOCKED == 0 {
            self.released();
        }
    }

    /// A writer that found the count not zero.
    #[cold]
    pub(super) fn write_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        let want = Want::<P, true>(self);
        if want.try_take(false) {
            return Ok(());
        }
        turn::acquire(&want, until)
    }

    /// Keeps readers out that come, until those inside have left, for [`turn::BLIND_NS`] at most;
    /// not past a first waiter for which the lock is kept. `true`: the caller then holds it for
    /// writing.
    #[cold]
    pub fn write_pressing(&self) -> bool {
        let want = Want::<P, true>(self);
        // A signal handler of this thread waits past a press only if it has a record to wait with.
        if P::current().is_none_or(|me| me.waiter.busy.load(Relaxed) != 0) {
            return want.try_take(false);
        }
        self.press();
        let patience = Patience::ns(P::spin_budget().min(turn::BLIND_NS)).courteous();
        let taken = P::spin(patience, || want.try_take(false).then_some(())).is_some();
        want.relent();
        taken
    }

    fn press(&self) {
        self.pressed_at.store(Self::press_time(), Relaxed);
        self.count.fetch_or(PENDING, Release);
    }

    /// A try that has failed, past a waiter that does not come.
    #[cold]
    pub(super) fn try_write_slow(&self) -> bool {
        let count = self.count.load(Relaxed);
        count & !(HANDOFF | PENDING | LISTENING | ASKS) == 0 && turn::try_take(&Want::<P, true>(self))
    }

    /// As [`Self::try_write_slow`], for reading.
    #[cold]
    pub(super) fn try_read_slow(&self) -> bool {
        let count = self.count.load(Relaxed);
        if count & PENDING != 0 {
            self.end_stale_press();
        }
        count & (WRITER | READFAIL) == 0 && turn::try_take(&Want::<P, false>(self))
    }

    /// The time, as [`Self::end_stale_press`] keeps it.
    pub(super) fn press_time() -> u32 {
        (P::now() >> 10) as u32
    }

    /// A reader found `PENDING`: clears it if it was set long ago. (The writer does not look at it;
    /// it clears the bit once more.)
    #[cold]
    fn end_stale_press(&self) {
        if Self::press_time().wrapping_sub(self.pressed_at.load(Relaxed)) > (turn::RESERVED_NS >> 10) as u32 {
            P::count(Event::WaitLapsed, 1);
            self.count.fetch_and(!PENDING, Relaxed);
        }
    }

    /// `count`, with the request to wake the first waiter: another than `count` has.
    fn listening(count: u64) -> u64 {
        count & !ASKS | (count + ASK) & ASKS | LISTENING
    }

    /// After a write release that left other bits set.
    #[cold]
    pub(super) fn write_released(&self) {
        let mut count = self.count.load(Relaxed);
        if count & READERS != 0 && P::is_alone_in_child() {
            // They tested in the parent while it forked: beside a writer no reader holds.
            count = self.count.fetch_and(!READERS, Relaxed) & !READERS;
        }
        if count & LISTENING != 0 {
            self.released();
        } else if count & (LOCKED | HANDOFF) == HANDOFF {
            self.released_reserved();
        }
    }

    /// A release has left a free lock that is reserved.
    fn released_reserved(&self) {
        if let Some(first) = self.queue.first() {
            turn::released_reserved(first);
        }
    }

    /// After a release, or a downgrade, that left `LISTENING` set: wakes the first waiter.
    #[cold]
    pub(super) fn released(&self) {
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
pub(super) struct Want<'a, P: Platform, const WRITE: bool>(pub(super) &'a RawRwSem<P>);

impl<P: Platform, const WRITE: bool> Want<'_, P, WRITE> {
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
                    Some(Request::Listen) if count & LISTENING == 0 => RawRwSem::<P>::listening(count),
                    Some(Request::Listen) => count,
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

impl<P: Platform, const WRITE: bool> Contended<P> for Want<'_, P, WRITE> {
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

    /// Nobody notes owners: that would cost a store each time, and every spin is bounded in time.
    fn owner(&self) -> Option<ThreadId> {
        None
    }

    fn press(&self, me: &Thread<P>) -> bool {
        let read = self.0.count.load(Relaxed) & WRITER == 0;
        let press = WRITE && me.waiter.mostly_read.observe(P::key(self.0), read);
        if press {
            self.0.press();
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
            let next = left.requests(count, LISTENING | ASKS, RawRwSem::<P>::listening, HANDOFF);
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
            self.0.released();
        }
    }
}
