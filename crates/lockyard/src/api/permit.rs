//! The counting semaphore as users hold it: permits that return themselves.

#[cfg(feature = "std")]
use core::time::Duration;

use crate::cancel::{CancelToken, GaveUp, Until};
use crate::platform::Platform;
#[cfg(target_has_atomic = "64")]
use crate::platform::{ConstPlatform, atomics};
use crate::semaphore::RawSemaphore;

/// A counting semaphore.
///
/// Fairness: running threads pass a waiter for at most a turn per waiter ahead of it. Ordering:
/// what happened before a permit was returned happened before the acquisition that takes it. Cost
/// without contention: one compare-exchange, one addition. 24 bytes, no allocation. Theory:
/// `src/semaphore.rs`.
///
/// ```
/// static SLOTS: lockyard::Semaphore = lockyard::Semaphore::new(2);
///
/// let first = SLOTS.acquire();
/// let second = SLOTS.acquire();
/// assert!(SLOTS.try_acquire().is_none());
/// drop(first);
/// assert!(SLOTS.try_acquire().is_some());
/// # drop(second);
/// ```
#[derive(Debug)]
pub struct Semaphore<P: Platform> {
    raw: RawSemaphore<P>,
}

#[cfg(target_has_atomic = "64")]
impl<P: ConstPlatform<U64 = atomics::U64>> Semaphore<P> {
    /// A semaphore with `permits` (at most [`crate::raw::MAX_UNITS`], the rest is cut off).
    pub const fn new(permits: u32) -> Self {
        Self { raw: RawSemaphore::const_with_units(permits) }
    }
}

impl<P: Platform> Semaphore<P> {
    /// Takes a permit; waits for one.
    #[inline]
    pub fn acquire(&self) -> SemaphorePermit<'_, P> {
        self.raw.down();
        SemaphorePermit { semaphore: self }
    }

    /// Takes a permit if one is available.
    #[inline]
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_, P>> {
        self.raw.try_down().then(|| SemaphorePermit { semaphore: self })
    }

    /// Takes a permit; waits for one for at most `timeout`.
    #[cfg(feature = "std")]
    pub fn acquire_timeout(&self, timeout: Duration) -> Option<SemaphorePermit<'_, P>> {
        self.raw.down_until(super::time::after(timeout)).ok().map(|()| SemaphorePermit { semaphore: self })
    }

    /// Takes a permit, unless `token` is cancelled first.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`].
    pub fn acquire_cancellable(&self, token: &CancelToken<P>) -> Result<SemaphorePermit<'_, P>, GaveUp> {
        self.raw.down_until(Until::cancelled(token)).map(|()| SemaphorePermit { semaphore: self })
    }

    /// Adds a permit, whoever took it, or none did. `false`: there are
    /// [`crate::raw::MAX_UNITS`] already.
    #[inline]
    pub fn release(&self) -> bool {
        self.raw.up()
    }

    /// Permits available now. May be stale when it returns.
    pub fn available(&self) -> u32 {
        self.raw.units()
    }
}

/// A permit; dropping it returns it.
#[derive(Debug)]
#[must_use = "a permit that is not held is returned at once"]
pub struct SemaphorePermit<'a, P: Platform> {
    semaphore: &'a Semaphore<P>,
}

impl<P: Platform> SemaphorePermit<'_, P> {
    /// Consumes the permit without returning it: the semaphore has one fewer from now on.
    pub fn forget(self) {
        core::mem::forget(self);
    }
}

impl<P: Platform> Drop for SemaphorePermit<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.raw.up();
    }
}
