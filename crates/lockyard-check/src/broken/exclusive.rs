//! Small mutexes, each with one fault of its own.

use lockyard::platform::{Ordering::*, Patience, Platform, Word};

use crate::lock::{Lock, Way};
use crate::stage::Stage;

/// A three-state sleeping mutex (0 free, 1 held, 2 held and somebody may sleep) that forgets one
/// wake-up in 64.
#[derive(Debug)]
pub struct LosesWakeups<P: Platform> {
    word: P::U32,
    wakeups: P::U32,
}

impl<P: Platform> Default for LosesWakeups<P> {
    fn default() -> Self {
        Self { word: P::U32::default(), wakeups: P::U32::default() }
    }
}

impl<P: Stage> Lock for LosesWakeups<P> {
    type P = P;

    fn lock(&self, way: Way) {
        if !self.try_lock(way) {
            while self.word.swap(2, Acquire) != 0 {
                P::park(&self.word, 2, None);
            }
        }
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, _way: Way) {
        if self.word.swap(0, Release) == 2 && self.wakeups.fetch_add(1, Relaxed) % 64 != 63 {
            P::unpark(&self.word);
        }
    }

    fn at_rest(&self) -> bool {
        self.word.load(Relaxed) == 0
    }
}

/// Excludes, but a waiter gets in only if nobody else has taken the lock between two of its looks.
#[derive(Debug)]
pub struct BargersFirst<P: Platform> {
    held: P::U32,
    taken: P::U32,
}

impl<P: Platform> Default for BargersFirst<P> {
    fn default() -> Self {
        Self { held: P::U32::default(), taken: P::U32::default() }
    }
}

impl<P: Stage> Lock for BargersFirst<P> {
    type P = P;

    fn lock(&self, way: Way) {
        if self.try_lock(way) {
            return;
        }
        let mut round = 0;
        loop {
            let before = self.taken.load(Relaxed);
            P::nap(round);
            round += 1;
            if self.taken.load(Relaxed) == before && self.try_lock(way) {
                return;
            }
        }
    }

    fn try_lock(&self, _way: Way) -> bool {
        let taken = self.held.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        if taken {
            self.taken.fetch_add(1, Relaxed);
        }
        taken
    }

    unsafe fn unlock(&self, _way: Way) {
        self.held.store(0, Release);
    }

    fn at_rest(&self) -> bool {
        self.held.load(Relaxed) == 0
    }
}

/// Test and set, with one thing wrong.
#[derive(Debug)]
pub struct TestAndSet<P: Platform, const WRONG: u32>(P::U32);

const LATE_TOUCH: u32 = 0;
const SPINS: u32 = 1;
const RELAXED_LOCK: u32 = 2;
const RELAXED_UNLOCK: u32 = 3;

/// Looks at its word after the release.
pub type LateTouch<P> = TestAndSet<P, LATE_TOUCH>;
/// Takes the lock without an acquire.
pub type RelaxedLock<P> = TestAndSet<P, RELAXED_LOCK>;
/// Releases it without a release.
pub type RelaxedUnlock<P> = TestAndSet<P, RELAXED_UNLOCK>;
/// Spins until it has the lock.
pub type SpinsForEver<P> = TestAndSet<P, SPINS>;

impl<P: Platform, const WRONG: u32> Default for TestAndSet<P, WRONG> {
    fn default() -> Self {
        Self(P::U32::default())
    }
}

impl<P: Stage, const WRONG: u32> Lock for TestAndSet<P, WRONG> {
    type P = P;

    fn lock(&self, way: Way) {
        let ready = || self.try_lock(way).then_some(());
        if WRONG == SPINS {
            while P::spin(Patience::ns(u32::MAX), ready).is_none() {}
        } else {
            P::wait_window(ready);
        }
    }

    fn try_lock(&self, _way: Way) -> bool {
        let order = if WRONG == RELAXED_LOCK { Relaxed } else { Acquire };
        self.0.load(Relaxed) == 0 && self.0.compare_exchange(0, 1, order, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, _way: Way) {
        self.0.store(0, if WRONG == RELAXED_UNLOCK { Relaxed } else { Release });
        if WRONG == LATE_TOUCH && self.0.load(Relaxed) != 0 {
            P::relax();
        }
    }
}

/// A sleeping lock with one mailbox for a waiter, who leaves the address of a word on its stack
/// there; and does not take it back when it gives up.
#[derive(Debug)]
pub struct StaleWaiter<P: Platform> {
    held: P::U32,
    mailbox: P::U64,
}

impl<P: Platform> Default for StaleWaiter<P> {
    fn default() -> Self {
        Self { held: P::U32::default(), mailbox: P::U64::default() }
    }
}

impl<P: Stage> StaleWaiter<P> {
    /// Waits for one release or for `ns`, whichever comes first.
    #[inline(never)]
    fn wait(&self, ns: u64) {
        let woken = P::U32::default();
        self.mailbox.swap(std::ptr::from_ref(&woken).addr() as u64, AcqRel);
        if self.held.load(Acquire) != 0 {
            P::park(&woken, 0, Some(P::now() + ns));
        }
    }
}

impl<P: Stage> Lock for StaleWaiter<P> {
    type P = P;

    fn lock(&self, way: Way) {
        while !self.try_lock(way) {
            self.wait(200_000);
        }
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.held.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, _way: Way) {
        self.held.store(0, Release);
        let waiter = self.mailbox.swap(0, AcqRel) as usize;
        if waiter != 0 {
            // SAFETY: none. This is the bug: the frame may have returned. Only simulated threads
            // come here, whose stacks stay mapped; the word is read, not written, so that what is
            // there now is not spoiled.
            let woken = unsafe { &*(waiter as *const P::U32) };
            if woken.load(Acquire) == 0 {
                P::unpark(woken);
            }
        }
    }

    fn at_rest(&self) -> bool {
        self.held.load(Relaxed) == 0
    }
}

/// Promises itself to the waiter that asked first, and to nobody else until that one has come.
#[derive(Debug)]
pub struct Keeps<P: Platform> {
    /// 0 free, 1 held, or promised: [`PROMISED`] and a thread's name.
    word: P::U32,
    /// The name of the thread that is next, 0 for none.
    next: P::U32,
}

const PROMISED: u32 = 1 << 31;

impl<P: Platform> Default for Keeps<P> {
    fn default() -> Self {
        Self { word: P::U32::default(), next: P::U32::default() }
    }
}

impl<P: Stage> Lock for Keeps<P> {
    type P = P;

    fn lock(&self, way: Way) {
        let me = P::current().map_or(0, |me| me.id().raw());
        let promised = || self.word.load(Relaxed) == PROMISED | me;
        // It sleeps soon: asleep it can be stopped on a real machine, too.
        let mut round = 6;
        while !self.try_lock(way) {
            if me != 0 && promised() && self.word.compare_exchange(PROMISED | me, 1, Acquire, Relaxed).is_ok() {
                return;
            }
            if me != 0 {
                let _ = self.next.compare_exchange(0, me, Relaxed, Relaxed);
            }
            P::nap(round);
            round += 1;
        }
        // It came by itself: nothing is to be promised to it.
        let _ = self.next.compare_exchange(me, 0, Relaxed, Relaxed);
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, _way: Way) {
        let next = self.next.swap(0, Relaxed);
        self.word.store(if next == 0 { 0 } else { PROMISED | next }, Release);
    }

    fn is_open(&self, _way: Way) -> bool {
        self.word.load(Relaxed) != 1
    }
}
