//! The counting semaphore: a unit that is returned is public, and running threads may pass a waiter
//! for a bounded time.
//!
//! # The word
//!
//! | bits | name | meaning | changed by |
//! |---|---|---|---|
//! | 0–31 | value | units available | down − its units, up + its units |
//! | 32 | `WAITERS` | the queue is not empty | first waiter in, last out, under the wait lock |
//! | 33 | `LISTENING` | the first waiter sleeps and asks to be woken by the up that makes the value enough for it | first waiter, when the value is too small; the up that obeys |
//! | 34 | `HANDOFF` | units are for the first waiter only | first waiter, when its turn is over; cleared when it has its units |
//!
//! `kind` in a waiter's record is how many units it wants. It is written before the waiter queues.
//!
//! # Many units at once
//!
//! A thread takes all of its units in one step, or none: no waiter holds a part. Only the first
//! waiter can wait for a part of what is there, and the value is where it collects: with `HANDOFF`
//! nobody else takes, so each up brings the value nearer to what the first waiter wants.
//!
//! | value | `LISTENING` | an up |
//! |---|---|---|
//! | less than the first waiter wants | set | leaves it set, wakes nobody |
//! | enough | set | clears it, wakes the first waiter |
//!
//! The units are reserved for the first waiter if they are enough for it, or its turn has been over
//! for [`GRACE_NS`](turn::GRACE_NS): one that is stopped while it collects loses them.
//!
//! So a waiter for many does not starve behind takers of one: these pass it until its turn is
//! over. Nor does a waiter for one starve behind it: the first waiter has its units once the units
//! out at that time have come back, and then leaves. A waiter for more units than will ever be
//! there has neither bound, and keeps all others out until it gives up; so does one whose own
//! thread holds units that it needs.
//!
//! # Invariants
//!
//! 1. `WAITERS` is set exactly when the queue is not empty (whenever the wait lock is free).
//! 2. Units are conserved: initial + ups − downs = value.
//! 3. With enough units for the first waiter, it runs, has a wake-up in flight, or sleeps with a
//!    timer; a waiter that leaves the head of the queue wakes the next, so k quick ups reach k
//!    waiters.
//! 4. An up that wakes nobody has read the wants of a thread that was first at its up or later. If
//!    that thread is first no more, its leaving has looked at the value after this up, or the up
//!    has seen the next first waiter.
//!
//! # Memory ordering
//!
//! `word`: taking units is Acquire, up is Release. Asking is AcqRel and an up that sees a request
//! re-reads the word with Acquire before it looks up the first waiter: every change is a
//! read-modify-write, so it sees the queue, and `kind`, as the requester did.
//!
//! **Bound on bypass.** As [`wait::turn`](crate::wait::turn), where the hold of a waiter for many
//! is the longest of the holds that it waits for. A thread that cannot queue (without a record, or
//! in a handler above a wait) polls, and has no bound for many. **Destruction.** An up touches the
//! semaphore after its unit is public: the memory must stay until every `up` has returned. Any
//! thread may release, also one that never acquired.
//!
//! Sources: Linux `Documentation/locking`, commit messages of 64ac24e738 and bf726eab37; the lost
//! wake-up of the latter and its repair are described in the project's own analysis. The kernel's
//! semaphores are in `history::semaphore` (feature `history`).

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
#[cfg(target_has_atomic = "ptr")]
use crate::platform::atomics;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::turn::{self, Contended, Events, Left, Look, Request};

const WAITERS: u64 = 1 << 32;
const LISTENING: u64 = 1 << 33;
const HANDOFF: u64 = 1 << 34;

/// The most units a semaphore holds.
pub const MAX_UNITS: u32 = i32::MAX as u32;

/// The counting semaphore: 24 bytes, one word of which belongs to the embedder. See the [module
/// text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawSemaphore<P: Platform> {
    word: P::U64,
    /// Free for an embedder (where glibc keeps the sharing flag).
    embedder: P::U32,
    wait_lock: RawQSpinLock<P>,
    queue: WaitQueue<P>,
    osq: Osq<P>,
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = {
    type S = RawSemaphore<crate::platform::linux::Linux>;
    assert!(size_of::<S>() <= 32 && core::mem::offset_of!(S, embedder) == 8);
};

impl<P: Platform> Default for RawSemaphore<P> {
    fn default() -> Self {
        Self {
            word: P::U64::default(),
            embedder: P::U32::default(),
            wait_lock: RawQSpinLock::default(),
            queue: WaitQueue::default(),
            osq: Osq::default(),
        }
    }
}

#[cfg(target_has_atomic = "ptr")]
impl<P: ConstPlatform<U64 = atomics::U64>> RawSemaphore<P> {
    /// A semaphore with `units`, in constants.
    pub const fn const_with_units(units: u32) -> Self {
        let mut this = Self::new();
        this.word = atomics::U64::new(if units > MAX_UNITS { MAX_UNITS } else { units } as u64);
        this
    }
}

impl<P: Platform> RawSemaphore<P> {
    /// A semaphore without units, in constants. (Any other initial value: see
    /// [`RawSemaphore::with_units`].)
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self {
            word: P::U64::ZERO,
            embedder: P::U32::ZERO,
            wait_lock: RawQSpinLock::new(),
            queue: WaitQueue::new(),
            osq: Osq::new(),
        }
    }

    /// A semaphore with `units`.
    pub fn with_units(units: u32) -> Self {
        let this = Self::default();
        this.word.store(u64::from(units.min(MAX_UNITS)), Relaxed);
        this
    }

    /// Units available now. May be stale.
    pub fn units(&self) -> u32 {
        self.word.load(Relaxed) as u32
    }

    /// Takes a unit; waits for one.
    #[inline]
    pub fn down(&self) {
        self.down_many(1);
    }

    /// Takes a unit unless `until` comes first. A down that need not wait succeeds whatever `until`
    /// says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn down_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.down_many_until(1, until)
    }

    /// Takes a unit if one is available, and not reserved for a waiter whose turn is over.
    #[inline]
    pub fn try_down(&self) -> bool {
        self.try_down_many(1)
    }

    /// Takes `units` in one step; waits for them. More than [`MAX_UNITS`] never come.
    #[inline]
    pub fn down_many(&self, units: u32) {
        if !self.try_fast(units) {
            // Forever: the result cannot be an error.
            let _ = self.down_slow(units, Until::FOREVER);
        }
    }

    /// Takes `units` in one step unless `until` comes first. A down that need not wait succeeds
    /// whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended. No unit was taken.
    #[inline]
    pub fn down_many_until(&self, units: u32, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.try_fast(units) { Ok(()) } else { self.down_slow(units, until) }
    }

    /// Takes `units` in one step if so many are available, and not reserved for a waiter whose turn
    /// is over.
    #[inline]
    pub fn try_down_many(&self, units: u32) -> bool {
        self.try_fast(units) || self.try_reserved(units)
    }

    #[inline(always)]
    fn try_fast(&self, units: u32) -> bool {
        let word = self.word.load(Relaxed);
        // Nothing can be had at any time.
        units == 0
            || enough(word, units)
                && word & HANDOFF == 0
                && (self.word.compare_exchange(word, word - u64::from(units), Acquire, Relaxed).is_ok()
                    || self.take(units, false, 0))
    }

    /// A try that found units, reserved for the first waiter.
    #[cold]
    fn try_reserved(&self, units: u32) -> bool {
        let word = self.word.load(Relaxed);
        word & HANDOFF != 0 && enough(word, units) && turn::try_take(&Want { semaphore: self, units })
    }

    /// Returns a unit. `false`: there are [`MAX_UNITS`] already, nothing was changed. Until an up
    /// has been refused its unit counts, so another up may be refused beside it for one unit less.
    #[inline]
    pub fn up(&self) -> bool {
        let old = self.word.fetch_add(1, Release);
        if old & LISTENING == 0 && (old as u32) < MAX_UNITS { true } else { self.up_noticed(old) }
    }

    /// Returns `units` in one step. `false`: there would be more than [`MAX_UNITS`], nothing was
    /// changed.
    pub fn up_many(&self, units: u32) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            if units > MAX_UNITS.saturating_sub(word as u32) {
                return false;
            }
            match self.word.compare_exchange_weak(word, word + u64::from(units), Release, Relaxed) {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
        if word & LISTENING != 0 {
            self.wake_first();
        }
        true
    }

    /// Takes `units` if there are so many that the caller may have; otherwise leaves `request`,
    /// which only the first waiter has.
    fn take(&self, units: u32, first: bool, request: u64) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let mine = enough(word, units) && (first || word & HANDOFF == 0);
            let next = match mine {
                true => word - u64::from(units),
                // Also where it is there already: the up that obeys is to see the queue as the
                // caller does.
                false if request != 0 => word | request,
                false => return false,
            };
            match self.word.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => return mine,
                Err(found) => word = found,
            }
        }
    }

    #[cold]
    fn down_slow(&self, units: u32, until: Until<'_, P>) -> Result<(), GaveUp> {
        P::count(Event::SemSlowpath, 1);
        turn::acquire(&Want { semaphore: self, units }, until)
    }

    /// After an up: the first waiter listens, or the semaphore was full.
    #[cold]
    fn up_noticed(&self, old: u64) -> bool {
        if old as u32 >= MAX_UNITS {
            // The field has room for one unit too many per thread, so nothing has spilled over. If
            // no unit is left to take back, another thread has it: the up has succeeded.
            return !self.take(1, true, 0);
        }
        self.wake_first();
        true
    }

    /// Wakes the first waiter, if it listens and there are as many units as it wants.
    #[cold]
    fn wake_first(&self) {
        let mut word = self.word.load(Acquire);
        while word & LISTENING != 0 {
            if self.queue.first().is_some_and(|first| !enough(word, wanted(first))) {
                return;
            }
            match self.word.compare_exchange_weak(word, word & !LISTENING, AcqRel, Acquire) {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
        // The first waiter of the request that this call has cleared, or a later one.
        if word & LISTENING != 0
            && let Some(first) = self.queue.first()
        {
            if word & HANDOFF != 0 {
                turn::released_reserved(first);
            }
            P::count(Event::SemWake, 1);
            first.unpark();
        }
    }
}

/// Whether `word` has `units`.
#[inline(always)]
fn enough(word: u64, units: u32) -> bool {
    word as u32 >= units && units <= MAX_UNITS
}

/// How many units a waiter wants. A hint without the wait lock.
fn wanted<P: Platform>(waiter: &Thread<P>) -> u32 {
    waiter.waiter.kind.load(Relaxed)
}

/// A thread that wants units and takes turns.
struct Want<'a, P: Platform> {
    semaphore: &'a RawSemaphore<P>,
    units: u32,
}

impl<P: Platform> Contended<P> for Want<'_, P> {
    const EVENTS: Events = Events {
        spun: Event::SemOptDown,
        spin_failed: Event::SemOptFail,
        queued: Event::SemDown,
        gave_up: Event::SemFail,
        slept: Event::SemSleep,
    };
    const SHARED: bool = true;

    fn wait_lock(&self) -> &RawQSpinLock<P> {
        &self.semaphore.wait_lock
    }

    fn waiters(&self) -> &WaitQueue<P> {
        &self.semaphore.queue
    }

    fn osq(&self) -> &Osq<P> {
        &self.semaphore.osq
    }

    fn owner(&self) -> Option<ThreadId> {
        None
    }

    fn look(&self, first: bool) -> Look {
        let word = self.semaphore.word.load(Relaxed);
        match (word & HANDOFF != 0 && !first, enough(word, self.units)) {
            (true, _) => Look::Kept,
            (false, true) => Look::Open,
            (false, false) => Look::Closed,
        }
    }

    fn wants(&self) -> u32 {
        self.units
    }

    fn is_open_to(&self, first: &Thread<P>) -> bool {
        let word = self.semaphore.word.load(Relaxed);
        // One that runs sets a new end of its turn.
        let is_late = || P::now() > first.waiter.due.load(Relaxed).saturating_add(turn::GRACE_NS);
        enough(word, wanted(first)) || word as u32 != 0 && is_late()
    }

    fn try_take(&self, first: bool) -> bool {
        self.semaphore.take(self.units, first, 0)
    }

    fn ask_for_first(&self) {
        if self.semaphore.word.fetch_or(HANDOFF, Relaxed) & HANDOFF == 0 {
            P::count(Event::SemHandoff, 1);
        }
    }

    fn try_or_ask(&self, request: Request) -> bool {
        if request == Request::Handoff {
            P::count(Event::SemHandoff, 1);
        }
        self.semaphore.take(self.units, true, if request == Request::Listen { LISTENING } else { HANDOFF })
    }

    fn joined(&self, first: bool) {
        if first {
            self.semaphore.word.fetch_or(WAITERS, Relaxed);
        }
    }

    fn unreserve(&self) {
        self.semaphore.word.fetch_and(!HANDOFF, Relaxed);
    }

    fn left(&self, left: Left) {
        let mut word = self.semaphore.word.load(Relaxed);
        loop {
            let next = left.requests(
                if left.empty { word & !WAITERS } else { word },
                LISTENING,
                |word| word | LISTENING,
                HANDOFF,
            );
            if next == word && !left.listen {
                return;
            }
            match self.semaphore.word.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
        if left.listen && word as u32 != 0 {
            // Units are left, and no up may come: the next waiter is to have one now.
            self.semaphore.wake_first();
        }
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
