//! Lockyard's own locks, as the suite sees them.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::mutex::RawMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::rwsem::policy::Policy;
use lockyard::semaphore::{self, RawSemaphore};
use lockyard::spin::hq::{RawHqSpinLock, Tunable};
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};

use crate::lock::{Count, Lock, Shared, Timed, Way};
use crate::stage::Stage;

impl<P: Stage, K: Kind<P>> Lock for RawQueuedSpinLock<P, K> {
    type P = P;

    fn lock(&self, _way: Way) {
        self.acquire();
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.try_acquire()
    }

    unsafe fn unlock(&self, _way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.release() };
    }

    /// The type bit stays.
    fn at_rest(&self) -> bool {
        self.raw() & !u32::from(K::REST) == 0
    }
}

/// A hierarchical spinlock that needs hardly any contention to queue by node, and leaves a node soon.
#[derive(Debug)]
pub struct EagerHq<P: Stage>(pub RawHqSpinLock<P>);

impl<P: Stage> Default for EagerHq<P> {
    fn default() -> Self {
        let tunables = P::hq().tunables();
        for (tunable, value) in [
            (Tunable::FairnessThreshold, 2),
            (Tunable::GeneralHandoffsTurnNuma, 0),
            (Tunable::RemoteHandoffsTurnNuma, 0),
            (Tunable::WaitersPerLaneTurnNuma, 1),
            (Tunable::LocalHandoffsToIncreaseRemotes, 0),
            (Tunable::Lanes, if P::nodes() > 1 { 0 } else { 3 }),
        ] {
            tunables.set(tunable, value).expect("in range");
        }
        Self(RawHqSpinLock::default())
    }
}

impl<P: Stage> Lock for EagerHq<P> {
    type P = P;

    fn lock(&self, _way: Way) {
        self.0.acquire();
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.0.try_acquire()
    }

    unsafe fn unlock(&self, _way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.0.release() };
    }

    fn at_rest(&self) -> bool {
        self.0.at_rest()
    }
}

impl<P: Stage> Lock for RawMutex<P> {
    type P = P;

    fn lock(&self, _way: Way) {
        self.acquire();
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.try_acquire()
    }

    unsafe fn unlock(&self, _way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.release() };
    }
}

impl<P: Stage> Timed for RawMutex<P> {
    fn lock_until(&self, _way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.acquire_until(until)
    }
}

impl<P: Stage, Y: Policy> Lock for RawRwSem<P, Y> {
    type P = P;
    const WAYS: &'static [Way] = &[Way::Write, Way::Read];

    fn lock(&self, way: Way) {
        match way {
            Way::Write => self.write_acquire(),
            Way::Read => self.read_acquire(),
        }
    }

    fn try_lock(&self, way: Way) -> bool {
        match way {
            Way::Write => self.try_write_acquire(),
            Way::Read => self.try_read_acquire(),
        }
    }

    unsafe fn unlock(&self, way: Way) {
        // SAFETY: the caller's promise.
        unsafe {
            match way {
                Way::Write => self.write_release(),
                Way::Read => self.read_release(),
            }
        }
    }

    /// Without the owner word: it is a hint that names the last reader and says whether spinning paid.
    fn state(&self) -> String {
        without(&format!("{self:?}"), "owner")
    }
}

impl<P: Stage, Y: Policy> Timed for RawRwSem<P, Y> {
    fn lock_until(&self, way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        match way {
            Way::Write => self.write_acquire_until(until),
            Way::Read => self.read_acquire_until(until),
        }
    }
}

impl<P: Stage, Y: Policy> Shared for RawRwSem<P, Y> {
    unsafe fn downgrade(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.downgrade() };
    }
}

impl<P: Stage, Y: semaphore::Policy> Count for RawSemaphore<P, Y> {
    type P = P;
    const MOST: u32 = semaphore::MAX_UNITS;

    fn with_units(units: u32) -> Self {
        Self::with_units(units)
    }

    fn down(&self) {
        self.down();
    }

    fn try_down(&self) -> bool {
        self.try_down()
    }

    fn down_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.down_until(until)
    }

    fn up(&self) -> bool {
        self.up()
    }

    fn units(&self) -> u32 {
        self.units()
    }
}

/// A semaphore with one unit, as a lock.
#[derive(Debug)]
pub struct Binary<P: Stage, Y: semaphore::Policy>(RawSemaphore<P, Y>);

impl<P: Stage, Y: semaphore::Policy> Default for Binary<P, Y> {
    fn default() -> Self {
        Self(RawSemaphore::with_units(1))
    }
}

impl<P: Stage, Y: semaphore::Policy> Lock for Binary<P, Y> {
    type P = P;

    fn lock(&self, _way: Way) {
        self.0.down();
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.0.try_down()
    }

    unsafe fn unlock(&self, _way: Way) {
        assert!(self.0.up());
    }
}

impl<P: Stage, Y: semaphore::Policy> Timed for Binary<P, Y> {
    fn lock_until(&self, _way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.0.down_until(until)
    }
}

/// `debug` without the field called `name`.
fn without(debug: &str, name: &str) -> String {
    let Some(start) = debug.find(&format!(" {name}: ")) else { return debug.to_owned() };
    let end = debug[start + 1..].find(", ").map_or(debug.len(), |length| start + 1 + length + 1);
    format!("{}{}", &debug[..start], &debug[end..])
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn leaves_a_field_out() {
        assert_eq!(
            without("L { count: U(1), owner: U(2), queue: Q { first: U(3) } }", "owner"),
            "L { count: U(1), queue: Q { first: U(3) } }"
        );
    }
}
