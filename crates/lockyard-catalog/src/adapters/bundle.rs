//! The semaphore that gives many units at once, and a semaphore each unit of which is a bundle.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::platform::Platform;
use lockyard::semaphore::RawSemaphore;

use crate::lock::{Count, Weigh};

impl<P: Platform> Weigh for RawSemaphore<P> {
    fn down_many(&self, units: u32) {
        self.down_many(units);
    }

    fn try_down_many(&self, units: u32) -> bool {
        self.try_down_many(units)
    }

    fn down_many_until(&self, units: u32, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.down_many_until(units, until)
    }

    fn up_many(&self, units: u32) -> bool {
        self.up_many(units)
    }
}

/// Each unit is three of `S`, taken and returned in one step: what holds for units holds for
/// bundles.
#[derive(Debug)]
pub struct Bundle<S>(S);

const SIZE: u32 = 3;

impl<S: Weigh> Count for Bundle<S> {
    type P = S::P;
    const MOST: u32 = S::MOST / SIZE;

    fn with_units(units: u32) -> Self {
        Self(S::with_units(units * SIZE))
    }

    fn down(&self) {
        self.0.down_many(SIZE);
    }

    fn try_down(&self) -> bool {
        self.0.try_down_many(SIZE)
    }

    fn down_until(&self, until: Until<'_, S::P>) -> Result<(), GaveUp> {
        self.0.down_many_until(SIZE, until)
    }

    fn up(&self) -> bool {
        self.0.up_many(SIZE)
    }

    fn units(&self) -> u32 {
        let units = self.0.units();
        assert_eq!(units % SIZE, 0, "a part of a bundle was taken or returned");
        units / SIZE
    }
}
