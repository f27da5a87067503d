//! The counting semaphores of the kernel's history: queue under the wait lock, sleep until there is
//! a unit.
//!
//! | policy | `up` with waiters | order | |
//! |---|---|---|---|
//! | [`DirectHandoff`] | gives the unit to the first waiter, asleep or not | strict FIFO among sleepers | Linux since 2.6.26: fair, convoys |
//! | [`Opportunistic2008`] | makes the unit public, wakes the first waiter but leaves it queued | unbounded | the published fix (bf726eab37), withdrawn within days: **loses wake-ups** when used for counting; for experiments only |
//!
//! The one that people use is [`Semaphore`](crate::raw::Semaphore), policy
//! `opportunistic-safe` by name.
//!
//! # The word
//!
//! | bits | name | meaning | changed by |
//! |---|---|---|---|
//! | 0–31 | value | units available | down −1, up +1 |
//! | 32 | `WAITERS` | the queue is not empty | first waiter in, last out, under the wait lock |
//!
//! # Invariants
//!
//! 1. `WAITERS` is set exactly when the queue is not empty (whenever the wait lock is free).
//! 2. Direct handoff: `WAITERS` implies value 0: a unit is given, or public while nobody waits.
//! 3. Direct handoff: a granted waiter is not in the queue; exactly one up granted it.
//! 4. Units are conserved: initial + ups − downs = value + granted and not yet noticed.
//!
//! # Memory ordering
//!
//! `word`: taking a unit is Acquire, up is Release. `waiter.granted`: Release under the wait lock,
//! Acquire by the waiter.
//!
//! **Bound on bypass.** Direct handoff: none among queued waiters. 2008: none at all.
//! **Destruction.** As the semaphore that people use: the memory must stay until every `up` has
//! returned.
//!
//! Sources: Linux `Documentation/locking`, commit messages of 64ac24e738 and bf726eab37.

use core::marker::PhantomData;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::Thread;
use crate::platform::{Ordering::*, Platform, Word};
use crate::semaphore::MAX_UNITS;
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::queue::WaitQueue;
use crate::wait::section;

const WAITERS: u64 = 1 << 32;
const VALUE: u64 = 0xffff_ffff;

/// How an `up` and the waiters share the work. Zero-sized, chosen at compile time.
pub trait Policy: Copy + Default + core::fmt::Debug + Send + Sync + 'static {
    /// The name users see.
    const NAME: &'static str;
    /// An up gives its unit to the first waiter. (Else the unit is public, and that waiter woken.)
    const GIVES: bool;
}

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $gives:literal;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name;

        impl Policy for $name {
            const NAME: &'static str = $text;
            const GIVES: bool = $gives;
        })*

        /// The names of all policies.
        pub const NAMES: &[&str] = &[$($text),*];
    };
}

policies! {
    /// A unit goes to the first waiter, which owns it before it runs.
    DirectHandoff = "direct-handoff", true;
    /// The published fix of 2008, literally, with its lost wake-up. For experiments only.
    Opportunistic2008 = "opportunistic-2008", false;
}

/// A counting semaphore with policy `Y`. See the [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct KernelSemaphore<P: Platform, Y: Policy> {
    word: P::U64,
    wait_lock: RawQSpinLock<P>,
    queue: WaitQueue<P>,
    policy: PhantomData<Y>,
}

impl<P: Platform, Y: Policy> Default for KernelSemaphore<P, Y> {
    fn default() -> Self {
        Self {
            word: P::U64::default(),
            wait_lock: RawQSpinLock::default(),
            queue: WaitQueue::default(),
            policy: PhantomData,
        }
    }
}

impl<P: Platform, Y: Policy> KernelSemaphore<P, Y> {
    /// A semaphore with `units`, at most [`MAX_UNITS`].
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
        if !self.try_down() {
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
        if self.try_down() { Ok(()) } else { self.down_slow(until) }
    }

    /// Takes a unit if one is available.
    #[inline]
    pub fn try_down(&self) -> bool {
        let word = self.word.load(Relaxed);
        word & VALUE != 0 && (self.word.compare_exchange(word, word - 1, Acquire, Relaxed).is_ok() || self.take(0))
    }

    /// Returns a unit. `false`: there are [`MAX_UNITS`] already, nothing was changed.
    #[inline]
    pub fn up(&self) -> bool {
        let word = self.word.load(Relaxed);
        if word & WAITERS == 0
            && (word as u32) < MAX_UNITS
            && self.word.compare_exchange(word, word + 1, Release, Relaxed).is_ok()
        {
            return true;
        }
        self.up_locked()
    }

    /// Takes a unit if there is one; otherwise leaves `request` in the word.
    fn take(&self, request: u64) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let mine = word & VALUE != 0;
            let next = match mine {
                true => word - 1,
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
    fn down_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        P::count(Event::SemSlowpath, 1);
        match P::current() {
            Some(me) if me.waiter.busy.load(Relaxed) == 0 => until.watching(me, || self.down_queued(me, until)),
            _ => until.poll(|| self.try_down()),
        }
    }

    /// Queues under the wait lock, sleeps until granted (direct) or until there is a unit (2008).
    fn down_queued(&self, me: &'static Thread<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
        section::enter(&self.wait_lock);
        // Announced only while the value is 0, in one step: no unit can appear unnoticed in
        // between.
        if self.take(WAITERS) {
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
            let done = if Y::GIVES { me.waiter.granted.load(Acquire) != 0 } else { self.take(0) };
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

    /// An up with waiters, or one that found the semaphore full.
    #[cold]
    fn up_locked(&self) -> bool {
        section::enter(&self.wait_lock);
        let first = self.queue.first();
        let added = match first {
            Some(first) if Y::GIVES => {
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

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn there_are_so_many_units_and_no_more() {
        full::<DirectHandoff>();
        full::<Opportunistic2008>();
    }

    fn full<Y: Policy>() {
        let semaphore = KernelSemaphore::<Linux, Y>::with_units(u32::MAX);
        for _ in 0..2 {
            assert!(!semaphore.up());
            assert_eq!(semaphore.units(), MAX_UNITS);
        }
        assert!(semaphore.try_down() && semaphore.units() == MAX_UNITS - 1);
        assert!(semaphore.up() && semaphore.units() == MAX_UNITS);
    }
}
