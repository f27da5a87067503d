//! Locks that are broken on purpose. A suite that does not fail on each of them proves nothing.
//!
//! | lock | is broken in that it | must be caught by |
//! |---|---|---|
//! | [`Nothing`] | does nothing | exclusion, trying |
//! | [`LosesWakeups`] | forgets one wake-up in 64 | a hang, which the watchdog names |
//! | [`TryTraces`] | leaves a trace of a failed try | trying |
//! | [`Impatient`] | gives up before its deadline | "never early" |
//! | [`KeepsOnTimeout`] | says that it timed out, and has the lock | a lock that does not come to rest |
//! | [`DeafToTokens`] | does not notice that its token is cancelled | a hang |
//! | [`LeakyReaders`] | lets a writer in beside the last reader | activity of readers and writers |
//! | [`ReadersFirst`] | is correct, but lets readers starve writers | a hang of the fairness cases |
//! | [`BargersFirst`] | is correct, but serves a waiter only when nobody else has come meanwhile | the same |
//! | [`LosesUnits`] | loses the unit of one `up` in 64 | counting |

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard::mutex::RawMutex;
use lockyard::platform::{Ordering::*, Platform, Word};
use lockyard::semaphore::MAX_UNITS;

use crate::lock::{Count, Lock, Shared, Timed, Way};
use crate::stage::Stage;

/// Does nothing.
#[derive(Debug)]
pub struct Nothing<P: Platform>(P::U32);

impl<P: Platform> Default for Nothing<P> {
    fn default() -> Self {
        Self(P::U32::default())
    }
}

impl<P: Stage> Lock for Nothing<P> {
    type P = P;

    fn lock(&self, _way: Way) {}

    fn try_lock(&self, _way: Way) -> bool {
        true
    }

    unsafe fn unlock(&self, _way: Way) {}
}

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

/// Lockyard's mutex, spoiled in one way.
#[derive(Debug)]
pub struct Spoiled<P: Platform, const FAULT: u32> {
    mutex: RawMutex<P>,
    failures: P::U32,
}

const TRACES: u32 = 0;
const IMPATIENT: u32 = 1;
const KEEPS: u32 = 2;
const DEAF: u32 = 3;
const NONE: u32 = 4;

/// A failed try is counted in the lock's state.
pub type TryTraces<P> = Spoiled<P, TRACES>;
/// Every timed wait that is not served at once gives up.
pub type Impatient<P> = Spoiled<P, IMPATIENT>;
/// A timed-out waiter has the lock all the same.
pub type KeepsOnTimeout<P> = Spoiled<P, KEEPS>;
/// Waits for ever, whatever its token says.
pub type DeafToTokens<P> = Spoiled<P, DEAF>;
/// Not spoiled at all: passes what the others fail.
pub type Sound<P> = Spoiled<P, NONE>;

impl<P: Platform, const FAULT: u32> Default for Spoiled<P, FAULT> {
    fn default() -> Self {
        Self { mutex: RawMutex::default(), failures: P::U32::default() }
    }
}

impl<P: Stage, const FAULT: u32> Lock for Spoiled<P, FAULT> {
    type P = P;

    fn lock(&self, _way: Way) {
        self.mutex.acquire();
    }

    fn try_lock(&self, _way: Way) -> bool {
        let taken = self.mutex.try_acquire();
        if !taken && FAULT == TRACES {
            self.failures.fetch_add(1, Relaxed);
        }
        taken
    }

    unsafe fn unlock(&self, _way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.mutex.release() };
    }

    fn is_open(&self, _way: Way) -> bool {
        !self.mutex.is_locked()
    }
}

impl<P: Stage, const FAULT: u32> Timed for Spoiled<P, FAULT> {
    fn lock_until(&self, _way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        let until = match FAULT {
            IMPATIENT => Until::deadline(0),
            DEAF => Until::FOREVER,
            _ => until,
        };
        let result = self.mutex.acquire_until(until);
        if result.is_err() && FAULT == KEEPS {
            self.mutex.acquire();
        }
        result
    }
}

/// The highest bit: held for writing. Below: the number of readers.
const WRITER: u32 = 1 << 31;

/// A reader-writer lock whose waiters poll, that lets readers in whenever no writer holds it, and a
/// writer in beside up to `BESIDE` readers.
#[derive(Debug)]
pub struct Polled<P: Platform, const BESIDE: u32>(P::U32);

/// Lets a writer in beside the last reader.
pub type LeakyReaders<P> = Polled<P, 1>;
/// Excludes, but readers that overlap keep writers out for ever.
pub type ReadersFirst<P> = Polled<P, 0>;

impl<P: Platform, const BESIDE: u32> Default for Polled<P, BESIDE> {
    fn default() -> Self {
        Self(P::U32::default())
    }
}

impl<P: Stage, const BESIDE: u32> Lock for Polled<P, BESIDE> {
    type P = P;
    const WAYS: &'static [Way] = &[Way::Write, Way::Read];

    fn lock(&self, way: Way) {
        P::wait_window(|| self.try_lock(way).then_some(()));
    }

    fn try_lock(&self, way: Way) -> bool {
        let word = self.0.load(Relaxed);
        let (open, next) = match way {
            Way::Write => (word <= BESIDE, word | WRITER),
            Way::Read => (word & WRITER == 0, word + 1),
        };
        open && self.0.compare_exchange(word, next, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, way: Way) {
        self.0.fetch_sub(if way == Way::Write { WRITER } else { 1 }, Release);
    }
}

impl<P: Stage, const BESIDE: u32> Shared for Polled<P, BESIDE> {
    unsafe fn downgrade(&self) {
        self.0.fetch_sub(WRITER - 1, Release);
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

/// A semaphore of which every 64th `up` only says that it was one.
#[derive(Debug)]
pub struct LosesUnits<P: Platform> {
    semaphore: KernelSemaphore<P, DirectHandoff>,
    ups: P::U32,
}

impl<P: Stage> Count for LosesUnits<P> {
    type P = P;
    const MOST: u32 = MAX_UNITS;

    fn with_units(units: u32) -> Self {
        Self { semaphore: KernelSemaphore::with_units(units), ups: P::U32::default() }
    }

    fn down(&self) {
        self.semaphore.down();
    }

    fn try_down(&self) -> bool {
        self.semaphore.try_down()
    }

    fn down_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.semaphore.down_until(until)
    }

    fn up(&self) -> bool {
        self.ups.fetch_add(1, Relaxed) % 64 == 63 || self.semaphore.up()
    }

    fn units(&self) -> u32 {
        self.semaphore.units()
    }
}
