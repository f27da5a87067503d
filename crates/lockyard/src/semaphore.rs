//! The counting semaphore, in the three forms of its history.
//!
//! | policy | `up` with waiters | order | |
//! |---|---|---|---|
//! | [`OpportunisticSafe`] (default) | makes the unit public; wakes the first waiter if it listens | running threads may pass a waiter for a bounded time | fast when threads outnumber CPUs, no lost wake-up |
//! | [`DirectHandoff`] | gives the unit to the first waiter, asleep or not | strict FIFO among sleepers | Linux since 2.6.26: fair, convoys |
//! | [`Opportunistic2008`] | makes the unit public, wakes the first waiter but leaves it queued | unbounded | the published fix (bf726eab37), withdrawn within days: **loses wake-ups** when used for counting; for experiments only |
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
//! 2. Direct handoff: `WAITERS` implies value 0: a unit is given, or public while nobody waits.
//! 3. Direct handoff: a granted waiter is not in the queue; exactly one up granted it.
//! 4. Units are conserved: initial + ups − downs = value + granted and not yet noticed.
//! 5. Opportunistic-safe: with units and waiters, the first waiter runs, has a wake-up in flight,
//!    or dozes with a timer; a waiter that leaves the head of the queue wakes the next, so k quick
//!    ups reach k waiters.
//!
//! # Memory ordering
//!
//! `word`: taking a unit is Acquire, up is Release. Asking is AcqRel and an up that sees a request
//! re-reads the word with Acquire before it looks up the first waiter. `waiter.granted`: Release
//! under the wait lock, Acquire by the waiter.
//!
//! **Bound on bypass.** Opportunistic-safe: as [`wait::turn`](crate::wait::turn). Direct handoff:
//! none among queued waiters. **Destruction.** An up touches the semaphore after its unit is
//! public: the memory must stay until every `up` has returned. Any thread may release, also one
//! that never acquired.
//!
//! Sources: Linux `Documentation/locking`, commit messages of 64ac24e738 and bf726eab37; the lost
//! wake-up and its repair are described in the project's own analysis.

use core::marker::PhantomData;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::section;
use crate::wait::thread::{Thread, ThreadId};
use crate::wait::turn::{self, Contended, Events, Left, Look, Request};

const WAITERS: u64 = 1 << 32;
const LISTENING: u64 = 1 << 33;
const HANDOFF: u64 = 1 << 34;
const VALUE: u64 = 0xffff_ffff;

/// The most units a semaphore holds.
pub const MAX_UNITS: u32 = i32::MAX as u32;

/// How an `up` and the waiters share the work. Zero-sized, chosen at compile time.
pub trait Policy: Copy + Default + core::fmt::Debug + Send + Sync + 'static {
    /// The name users see.
    const NAME: &'static str;
    /// Which of the three.
    const FORM: Form;
}

/// The three forms; see the [module text](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// [`DirectHandoff`].
    Direct,
    /// [`Opportunistic2008`].
    Opportunistic,
    /// [`OpportunisticSafe`].
    Turns,
}

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $form:ident;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name;

        impl Policy for $name {
            const NAME: &'static str = $text;
            const FORM: Form = Form::$form;
        })*

        /// The names of all policies, the default first.
        pub const POLICIES: &[&str] = &[$($text),*];
    };
}

policies! {
    /// Public units, bounded bypass, no lost wake-up: the default.
    OpportunisticSafe = "opportunistic-safe", Turns;
    /// A unit goes to the first waiter, which owns it before it runs.
    DirectHandoff = "direct-handoff", Direct;
    /// The published fix of 2008, literally, with its lost wake-up. For experiments only.
    Opportunistic2008 = "opportunistic-2008", Opportunistic;
}

/// The counting semaphore: 24 bytes, one word of which belongs to the embedder. See the [module
/// text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawSemaphore<P: Platform, Y: Policy = OpportunisticSafe> {
    word: P::U64,
    /// Free for an embedder (where glibc keeps the sharing flag).
    embedder: P::U32,
    wait_lock: RawQSpinLock<P>,
    queue: WaitQueue<P>,
    osq: Osq<P>,
    policy: PhantomData<Y>,
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = {
    type S = RawSemaphore<crate::platform::linux::Linux>;
    assert!(size_of::<S>() <= 32 && core::mem::offset_of!(S, embedder) == 8);
};

impl<P: Platform, Y: Policy> Default for RawSemaphore<P, Y> {
    fn default() -> Self {
        Self {
            word: P::U64::default(),
            embedder: P::U32::default(),
            wait_lock: RawQSpinLock::default(),
            queue: WaitQueue::default(),
            osq: Osq::default(),
            policy: PhantomData,
        }
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
impl<Y: Policy> RawSemaphore<crate::platform::linux::Linux, Y> {
    /// A semaphore with `units`, in constants.
    pub const fn const_with_units(units: u32) -> Self {
        let mut this = Self::new();
        this.word = crate::platform::linux::U64::new(if units > MAX_UNITS { MAX_UNITS } else { units } as u64);
        this
    }
}

impl<P: Platform, Y: Policy> RawSemaphore<P, Y> {
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
            policy: PhantomData,
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
        if matches!(Y::FORM, Form::Turns) {
            let old = self.word.fetch_add(1, Release);
            return if old & LISTENING == 0 && (old as u32) < MAX_UNITS { true } else { self.up_noticed(old) };
        }
        let word = self.word.load(Relaxed);
        if word & WAITERS == 0
            && (word as u32) < MAX_UNITS
            && self.word.compare_exchange(word, word + 1, Release, Relaxed).is_ok()
        {
            return true;
        }
        self.up_locked()
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
        if matches!(Y::FORM, Form::Turns) {
            return turn::acquire(&Want(self), until);
        }
        match P::current() {
            Some(me) if me.waiter.busy.load(Relaxed) == 0 => until.watching(me, || self.down_queued(me, until)),
            _ => until.poll(|| self.try_down()),
        }
    }

    /// The kernel's forms: queue under the wait lock, sleep until granted (direct) or until there
    /// is a unit (2008).
    fn down_queued(&self, me: &'static Thread<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
        section::enter(&self.wait_lock);
        // Announced only while the value is 0, in one step: no unit can appear unnoticed in
        // between.
        if self.take(false, WAITERS) {
            // SAFETY: entered above.
            unsafe { section::exit(&self.wait_lock) };
            return Ok(());
        }
        // Entered first: a signal handler that finds nobody in the record may wait with it, and
        // leave its grant behind.
        me.waiter.enter();
        me.waiter.granted.store(0, Relaxed);
        self.queue.push(me);
        let result = loop {
            // Success was looked at before: a unit that arrived at the last moment is never lost.
            if let Some(end) = until.over() {
                break Err(end);
            }
            // SAFETY: entered above, or at the end of the last round.
            unsafe { section::exit(&self.wait_lock) };
            until.park(me);
            P::count(Event::SemSleep, 1);
            section::enter(&self.wait_lock);
            let done = match Y::FORM {
                Form::Direct => me.waiter.granted.load(Acquire) != 0,
                _ => self.take(false, 0),
            };
            if done {
                break Ok(());
            }
        };
        // A granted waiter was unlinked by its granter; everybody else unlinks itself.
        if me.waiter.granted.load(Relaxed) == 0 && self.queue.remove(me) {
            self.word.fetch_and(!WAITERS, Relaxed);
        }
        // SAFETY: entered above.
        unsafe { section::exit(&self.wait_lock) };
        me.waiter.leave();
        P::count(if result.is_ok() { Event::SemDown } else { Event::SemFail }, 1);
        result
    }

    /// After an up in the form that takes turns: the first waiter listens, or the semaphore was
    /// full.
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

    /// An up in the kernel's forms, with waiters.
    #[cold]
    fn up_locked(&self) -> bool {
        section::enter(&self.wait_lock);
        let first = self.queue.first();
        let added = match first {
            Some(first) if Y::FORM == Form::Direct => {
                if self.queue.remove(first) {
                    self.word.fetch_and(!WAITERS, Relaxed);
                }
                first.waiter.granted.store(1, Release);
                P::count(Event::SemHandoff, 1);
                true
            }
            _ => self.add_unit(),
        };
        // SAFETY: entered above.
        unsafe { section::exit(&self.wait_lock) };
        if let Some(first) = first {
            P::count(Event::SemWake, 1);
            first.unpark();
        }
        added
    }

    fn add_unit(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while (word as u32) < MAX_UNITS {
            match self.word.compare_exchange_weak(word, word + 1, Release, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }
}

/// A thread that wants a unit and takes turns.
struct Want<'a, P: Platform, Y: Policy>(&'a RawSemaphore<P, Y>);

impl<P: Platform, Y: Policy> Contended<P> for Want<'_, P, Y> {
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
        full::<OpportunisticSafe>();
        full::<DirectHandoff>();
        full::<Opportunistic2008>();
    }

    fn full<Y: Policy>() {
        let semaphore = RawSemaphore::<Linux, Y>::with_units(u32::MAX);
        for _ in 0..2 {
            assert!(!semaphore.up());
            assert_eq!(semaphore.units(), MAX_UNITS);
        }
        assert!(semaphore.try_down() && semaphore.units() == MAX_UNITS - 1);
        assert!(semaphore.up() && semaphore.units() == MAX_UNITS);
    }
}
