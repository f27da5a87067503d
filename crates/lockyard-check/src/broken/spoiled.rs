//! Lockyard's own mutex and semaphore, spoiled.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard::mutex::RawMutex;
use lockyard::platform::{Ordering::*, Platform, Word};
use lockyard::semaphore::MAX_UNITS;

use crate::lock::{Count, Lock, Timed, Way};
use crate::stage::Stage;

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
