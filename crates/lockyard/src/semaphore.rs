//! The counting semaphore: a unit that is returned is public, and running threads may pass a waiter
//! for a bounded time.
//!
//! # The word
//!
//! | bits | name | meaning | changed by |
//! |---|---|---|---|
//! | 0–31 | value | units available | down −1, up +1 |
//! | 32 | `WAITERS` | the queue is not empty | first waiter in, last out, under the wait lock |
//! | 33 | `LISTENING` | the first waiter sleeps and asks to be woken by the next up | first waiter, when the value is 0; the up that obeys |
//! | 34 | `HANDOFF` | units are for the first waiter only | first waiter, when its turn is over; cleared when it takes one |
//!
//! # Invariants
//!
//! 1. `WAITERS` is set exactly when the queue is not empty (whenever the wait lock is free).
//! 2. Units are conserved: initial + ups − downs = value.
//! 3. With units and waiters, the first waiter runs, has a wake-up in flight, or sleeps with a
//!    timer; a waiter that leaves the head of the queue wakes the next, so k quick ups reach k
//!    waiters.
//!
//! # Memory ordering
//!
//! `word`: taking a unit is Acquire, up is Release. Asking is AcqRel and an up that sees a request
//! re-reads the word with Acquire before it looks up the first waiter.
//!
//! **Bound on bypass.** As [`wait::turn`](crate::wait::turn). **Destruction.** An up touches the
//! semaphore after its unit is public: the memory must stay until every `up` has returned. Any
//! thread may release, also one that never acquired.
//!
//! Sources: Linux `Documentation/locking`, commit messages of 64ac24e738 and bf726eab37; the lost
//! wake-up of the latter and its repair are described in the project's own analysis. The kernel's
//! semaphores are in `history::semaphore` (feature `history`).

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
#[cfg(target_has_atomic = "64")]
use crate::platform::atomics;
use crate::platform::thread::ThreadId;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::turn::{self, Contended, Events, Left, Look, Request};

const WAITERS: u64 = 1 << 32;
const LISTENING: u64 = 1 << 33;
const HANDOFF: u64 = 1 << 34;
const VALUE: u64 = 0xffff_ffff;

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

#[cfg(target_has_atomic = "64")]
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
        (self.word.load(Relaxed) & VALUE) as u32
    }

    /// Takes a unit; waits for one.
    #[inline]
    pub fn down(&self) {
        if !self.try_fast() {
            // Forever: the result cannot be an error.
            let _ = self.down_slow(Until::FOREVER);
        }
    }

    /// Takes a unit unless `until` comes first. A down that need not wait succeeds whatever `until`
    /// says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn down_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.try_fast() { Ok(()) } else { self.down_slow(until) }
    }

    /// Takes a unit if one is available, and not reserved for a waiter whose turn is over.
    #[inline]
    pub fn try_down(&self) -> bool {
        self.try_fast() || self.try_reserved()
    }

    #[inline(always)]
    fn try_fast(&self) -> bool {
        let word = self.word.load(Relaxed);
        word & VALUE != 0
            && word & HANDOFF == 0
            && (self.word.compare_exchange(word, word - 1, Acquire, Relaxed).is_ok() || self.take(false, 0))
    }

    /// A try that found units, reserved for the first waiter.
    #[cold]
    fn try_reserved(&self) -> bool {
        self.word.load(Relaxed) & HANDOFF != 0 && self.units() != 0 && turn::try_take(&Want(self))
    }

    /// Returns a unit. `false`: there are [`MAX_UNITS`] already, nothing was changed.
    #[inline]
    pub fn up(&self) -> bool {
        let old = self.word.fetch_add(1, Release);
        if old & LISTENING == 0 && (old as u32) < MAX_UNITS { true } else { self.up_noticed(old) }
    }

    /// Takes a unit if there is one that the caller may have; otherwise leaves `request` while the
    /// value is 0.
    fn take(&self, first: bool, request: u64) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let mine = word & VALUE != 0 && (first || word & HANDOFF == 0);
            let next = match mine {
                true => word - 1,
                // Also where it is there already: the up that obeys is to see the queue as the
                // caller does.
                false if request != 0 && word & VALUE == 0 => word | request,
                false => return false,
            };
            match self.word.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => return mine,
                Err(found) => word = found,
            }
        }
    }

    #[cold]
    fn down_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        P::count(Event::SemSlowpath, 1);
        turn::acquire(&Want(self), until)
    }

    /// After an up: the first waiter listens, or the semaphore was full.
    #[cold]
    fn up_noticed(&self, old: u64) -> bool {
        if old as u32 >= MAX_UNITS {
            // The field has room for one unit too many per thread, so nothing has spilled over.
            self.word.fetch_sub(1, Relaxed);
            return false;
        }
        if old & HANDOFF != 0
            && let Some(first) = self.queue.first()
        {
            turn::released_reserved(first);
        }
        if old & LISTENING != 0 {
            self.wake_first();
        }
        true
    }

    /// Wakes the first waiter, if it listens.
    fn wake_first(&self) {
        if self.word.fetch_and(!LISTENING, AcqRel) & LISTENING != 0
            && let Some(first) = self.queue.first()
        {
            P::count(Event::SemWake, 1);
            first.unpark();
        }
    }
}

/// A thread that wants a unit and takes turns.
struct Want<'a, P: Platform>(&'a RawSemaphore<P>);

impl<P: Platform> Contended<P> for Want<'_, P> {
    const EVENTS: Events = Events {
        spun: Event::SemOptDown,
        spin_failed: Event::SemOptFail,
        queued: Event::SemDown,
        gave_up: Event::SemFail,
        slept: Event::SemSleep,
    };

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
        match (word & HANDOFF != 0 && !first, word & VALUE != 0) {
            (true, _) => Look::Kept,
            (false, true) => Look::Open,
            (false, false) => Look::Closed,
        }
    }

    fn try_take(&self, first: bool) -> bool {
        self.0.take(first, 0)
    }

    fn ask_for_first(&self) {
        if self.0.word.fetch_or(HANDOFF, Relaxed) & HANDOFF == 0 {
            P::count(Event::SemHandoff, 1);
        }
    }

    fn try_or_ask(&self, request: Request) -> bool {
        if request == Request::Handoff {
            P::count(Event::SemHandoff, 1);
        }
        self.0.take(true, if request == Request::Listen { LISTENING } else { HANDOFF })
    }

    fn joined(&self, first: bool) {
        if first {
            self.0.word.fetch_or(WAITERS, Relaxed);
        }
    }

    fn unreserve(&self) {
        self.0.word.fetch_and(!HANDOFF, Relaxed);
    }

    fn left(&self, left: Left) {
        let mut word = self.0.word.load(Relaxed);
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
            match self.0.word.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
        if left.listen && word & VALUE != 0 {
            // Units are left, and no up may come: the next waiter is to have one now.
            self.0.wake_first();
        }
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn the_word_says_what_its_table_says() {
        let semaphore = RawSemaphore::<Linux>::with_units(1);
        let says = || semaphore.word.load(Relaxed);
        let want = Want(&semaphore);
        // To a newcomer, and to the first waiter.
        let looks = || [false, true].map(|first| want.look(first));
        assert_eq!((says(), looks()), (1, [Look::Open, Look::Open]));
        let waiter = Linux::current().unwrap();
        semaphore.queue.push(waiter);
        want.joined(true);
        assert_eq!(says(), 0x1_0000_0001);
        want.ask_for_first();
        assert_eq!((says(), looks()), (0x5_0000_0001, [Look::Kept, Look::Open]));
        assert!(!semaphore.try_down(), "kept for the first waiter");
        assert!(want.try_or_ask(Request::Listen));
        assert_eq!((says(), looks()), (0x5_0000_0000, [Look::Kept, Look::Closed]));
        want.left(Left { served: true, empty: false, listen: false, handoff: false });
        assert_eq!((says(), looks()), (0x1_0000_0000, [Look::Closed, Look::Closed]));
        // Asking twice is asking once.
        for _ in 0..2 {
            assert!(!want.try_or_ask(Request::Listen));
            assert_eq!(says(), 0x3_0000_0000);
        }
        assert!(!want.try_or_ask(Request::Handoff));
        assert_eq!((says(), looks()), (0x7_0000_0000, [Look::Kept, Look::Closed]));
        assert!(semaphore.up());
        assert_eq!(says(), 0x5_0000_0001, "an up obeys");
        semaphore.queue.remove(waiter);
        want.left(Left { served: false, empty: true, listen: false, handoff: false });
        assert_eq!(says(), 1);
    }

    #[test]
    fn there_are_so_many_units_and_no_more() {
        let made = |units| RawSemaphore::<Linux>::const_with_units(units).units();
        assert_eq!([3, MAX_UNITS, MAX_UNITS + 1, u32::MAX].map(made), [3, MAX_UNITS, MAX_UNITS, MAX_UNITS]);
        assert_eq!(MAX_UNITS, 0x7fff_ffff);
        let semaphore = RawSemaphore::<Linux>::with_units(u32::MAX);
        for _ in 0..2 {
            assert!(!semaphore.up());
            assert_eq!(semaphore.units(), MAX_UNITS);
        }
        assert!(semaphore.try_down() && semaphore.units() == MAX_UNITS - 1);
        assert!(semaphore.up() && semaphore.units() == MAX_UNITS);
    }
}
