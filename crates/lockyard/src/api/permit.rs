//! The counting semaphore as users hold it: permits that return themselves.

#[cfg(feature = "arc_lock")]
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
#[cfg(feature = "std")]
use core::time::Duration;

use crate::cancel::{CancelToken, GaveUp, Until};
use crate::platform::ConstPlatform;
use crate::platform::Platform;
#[cfg(target_has_atomic = "ptr")]
use crate::platform::atomics;
use crate::semaphore::{MAX_UNITS, RawSemaphore};

/// A counting semaphore: so many threads at a time, or so many of a resource.
///
/// Fairness: running threads pass a waiter for at most a turn, 0.4 ms, and one more per waiter
/// ahead of it; a waiter for many permits has them once those that are out have come back.
/// Ordering: what happened before a permit was returned happened before the acquisition that takes
/// it. Cost without contention: one compare-exchange, one addition. 24 bytes, no allocation. The
/// memory must stay until each permit has been dropped. In the child of a fork the permits of other
/// threads stay taken. A panic returns permits; nothing is poisoned. Theory: `src/semaphore.rs`.
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
///
/// # Many permits
///
/// The calls with `many` take so many permits in one step, or none. Zero permits are there at any
/// time.
///
/// A waiter for more than will ever be available keeps all others out while it waits. So does a
/// thread that waits for permits while it holds some: give those back first.
///
/// # Panics
/// The calls with `many` panic if they ask for more than [`MAX_UNITS`].
pub struct Semaphore<P: Platform> {
    raw: RawSemaphore<P>,
}

impl<P: Platform> fmt::Debug for Semaphore<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish()
    }
}

#[cfg(target_has_atomic = "ptr")]
impl<P: ConstPlatform<U64 = atomics::U64>> Semaphore<P> {
    /// A semaphore with `permits` (at most [`MAX_UNITS`], the rest is cut off).
    pub const fn new(permits: u32) -> Self {
        Self { raw: RawSemaphore::const_with_units(permits) }
    }
}

/// The number of units that a call asks for.
#[inline]
#[track_caller]
fn checked(permits: u32) -> u32 {
    assert!(permits <= MAX_UNITS, "a semaphore has at most 2147483647 permits");
    permits
}

impl<P: Platform> Semaphore<P> {
    /// Takes a permit; waits for one.
    #[inline]
    pub fn acquire(&self) -> Permits<P, &Self> {
        self.raw.down();
        Permits::of(self, 1)
    }

    /// Takes `permits` in one step; waits for them. See [Many permits](Semaphore#many-permits).
    ///
    /// ```
    /// let slots = lockyard::Semaphore::new(4);
    /// let three = slots.acquire_many(3);
    /// assert_eq!((three.permits(), slots.available()), (3, 1));
    /// ```
    #[inline]
    #[track_caller]
    pub fn acquire_many(&self, permits: u32) -> Permits<P, &Self> {
        self.raw.down_many(checked(permits));
        Permits::of(self, permits)
    }

    /// Takes a permit if one is available.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permits<P, &Self>> {
        self.raw.try_down().then(|| Permits::of(self, 1))
    }

    /// Takes `permits` in one step, if so many are available.
    #[inline]
    #[track_caller]
    pub fn try_acquire_many(&self, permits: u32) -> Option<Permits<P, &Self>> {
        self.raw.try_down_many(checked(permits)).then(|| Permits::of(self, permits))
    }

    #[track_caller]
    fn within(&self, permits: u32, until: Until<'_, P>) -> Result<Permits<P, &Self>, GaveUp> {
        self.raw.down_many_until(checked(permits), until).map(|()| Permits::of(self, permits))
    }

    /// Adds `permits`; any thread may, also one that took none. `false`: there would be more than
    /// [`MAX_UNITS`], and none was added.
    ///
    /// ```
    /// let slots = lockyard::Semaphore::new(0);
    /// assert!(slots.release(3));
    /// assert!(slots.try_acquire_many(3).is_some());
    /// ```
    #[inline]
    pub fn release(&self, permits: u32) -> bool {
        self.raw.up_many(permits)
    }

    /// So many permits were dropped, other than one.
    #[cold]
    fn many_dropped(&self, permits: u32) {
        if permits != 0 {
            self.raw.up_many(permits);
        }
    }

    /// Permits available now. May be stale when it returns.
    pub fn available(&self) -> u32 {
        self.raw.units()
    }
}

/// Acquisitions that end: by a duration, by a time, by a token.
///
/// ```
/// use std::time::Duration;
/// use lockyard::{CancelToken, CancellableSemaphore, GaveUp, Semaphore};
///
/// let (slots, token) = (Semaphore::new(1), CancelToken::new());
/// let held = slots.try_acquire_for(Duration::from_millis(1)).unwrap();
/// assert!(slots.try_acquire_many_for(2, Duration::from_millis(1)).is_none());
/// token.cancel();
/// assert_eq!(slots.acquire_cancellable(&token).unwrap_err(), GaveUp::Cancelled);
/// # drop(held);
/// ```
pub trait CancellableSemaphore<P: Platform> {
    /// Takes a permit; waits for one for at most `timeout`.
    #[cfg(feature = "std")]
    fn try_acquire_for(&self, timeout: Duration) -> Option<Permits<P, &Semaphore<P>>> {
        self.try_acquire_many_for(1, timeout)
    }

    /// Takes `permits` in one step; waits for them for at most `timeout`.
    #[cfg(feature = "std")]
    #[track_caller]
    fn try_acquire_many_for(&self, permits: u32, timeout: Duration) -> Option<Permits<P, &Semaphore<P>>>;

    /// Takes a permit; waits for one until `deadline`.
    #[cfg(feature = "std")]
    #[allow(clippy::disallowed_types)] // lock_api's users speak std
    fn try_acquire_until(&self, deadline: std::time::Instant) -> Option<Permits<P, &Semaphore<P>>> {
        self.try_acquire_many_until(1, deadline)
    }

    /// Takes `permits` in one step; waits for them until `deadline`.
    #[cfg(feature = "std")]
    #[allow(clippy::disallowed_types)] // lock_api's users speak std
    #[track_caller]
    fn try_acquire_many_until(&self, permits: u32, deadline: std::time::Instant) -> Option<Permits<P, &Semaphore<P>>>;

    /// Takes a permit, unless `token` is cancelled first. One that is available is taken even if
    /// the token is cancelled.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`].
    fn acquire_cancellable(&self, token: &CancelToken<P>) -> Result<Permits<P, &Semaphore<P>>, GaveUp> {
        self.acquire_many_cancellable(1, token)
    }

    /// Takes `permits` in one step, unless `token` is cancelled first.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`]: none was taken.
    #[track_caller]
    fn acquire_many_cancellable(
        &self,
        permits: u32,
        token: &CancelToken<P>,
    ) -> Result<Permits<P, &Semaphore<P>>, GaveUp>;
}

impl<P: Platform> CancellableSemaphore<P> for Semaphore<P> {
    #[cfg(feature = "std")]
    fn try_acquire_many_for(&self, permits: u32, timeout: Duration) -> Option<Permits<P, &Self>> {
        self.within(permits, super::time::after(timeout)).ok()
    }

    #[cfg(feature = "std")]
    #[allow(clippy::disallowed_types)] // lock_api's users speak std
    fn try_acquire_many_until(&self, permits: u32, deadline: std::time::Instant) -> Option<Permits<P, &Self>> {
        self.within(permits, super::time::at(deadline)).ok()
    }

    fn acquire_many_cancellable(&self, permits: u32, token: &CancelToken<P>) -> Result<Permits<P, &Self>, GaveUp> {
        self.within(permits, Until::cancelled(token))
    }
}

/// Permits that keep the semaphore alive.
#[cfg(feature = "arc_lock")]
impl<P: Platform> Semaphore<P> {
    /// Takes a permit that keeps the semaphore alive; waits for one. Feature
    /// `arc_lock`. Other calls: [`Permits::into_owned`].
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// let slots = Arc::new(lockyard::Semaphore::new(4));
    /// let permit = slots.acquire_owned();
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(slots.available(), 4);
    /// ```
    pub fn acquire_owned(self: &Arc<Self>) -> Permits<P, Arc<Self>> {
        self.acquire().into_owned(self)
    }

    /// Takes a permit that keeps the semaphore alive, if one is available.
    pub fn try_acquire_owned(self: &Arc<Self>) -> Option<Permits<P, Arc<Self>>> {
        self.try_acquire().map(|permit| permit.into_owned(self))
    }
}

/// Permits of a [`Semaphore`]; dropping them returns them. `S`: how they name it, by a reference or
/// an `Arc`.
///
/// ```
/// let slots = lockyard::Semaphore::new(3);
/// let mut mine = slots.acquire_many(3);
/// let yours = mine.split(1).unwrap();
/// drop(mine);
/// assert_eq!(slots.available(), 2);
/// yours.forget();
/// assert_eq!(slots.available(), 2);
/// ```
#[must_use = "a permit that is not held is returned at once"]
pub struct Permits<P: Platform, S: Deref<Target = Semaphore<P>>> {
    semaphore: S,
    permits: u32,
}

impl<P: Platform, S: Deref<Target = Semaphore<P>>> fmt::Debug for Permits<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("permits", &self.permits).finish_non_exhaustive()
    }
}

impl<P: Platform, S: Deref<Target = Semaphore<P>>> Permits<P, S> {
    #[inline]
    fn of(semaphore: S, permits: u32) -> Self {
        Self { semaphore, permits }
    }

    /// How many they are.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Consumes the permits without returning them: the semaphore has fewer from now on.
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// Adds `other` to these.
    ///
    /// # Panics
    /// If they are of different semaphores, or together more than [`MAX_UNITS`].
    #[track_caller]
    pub fn merge(&mut self, mut other: Self) {
        assert!(core::ptr::eq(&*self.semaphore, &*other.semaphore), "merged permits of different semaphores");
        self.permits = checked(self.permits.saturating_add(other.permits));
        other.permits = 0;
    }

    /// Takes `permits` out of these. `None`: they are fewer, and stay.
    pub fn split(&mut self, permits: u32) -> Option<Self>
    where
        S: Clone,
    {
        self.permits = self.permits.checked_sub(permits)?;
        Some(Self::of(self.semaphore.clone(), permits))
    }
}

#[cfg(feature = "arc_lock")]
impl<P: Platform> Permits<P, &Semaphore<P>> {
    /// The same permits, which keep the semaphore alive: for threads and tasks that outlive the
    /// caller. Feature `arc_lock`.
    ///
    /// # Panics
    /// If they are of another semaphore.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use lockyard::CancellableSemaphore;
    ///
    /// let slots = Arc::new(lockyard::Semaphore::new(4));
    /// let three = slots.try_acquire_many_for(3, Duration::from_millis(5)).unwrap();
    /// let three = three.into_owned(&slots);
    /// std::thread::spawn(move || assert_eq!(three.permits(), 3)).join().unwrap();
    /// assert_eq!(slots.available(), 4);
    /// ```
    #[track_caller]
    pub fn into_owned(mut self, semaphore: &Arc<Semaphore<P>>) -> Permits<P, Arc<Semaphore<P>>> {
        assert!(core::ptr::eq(self.semaphore, &**semaphore), "permits of another semaphore");
        Permits::of(semaphore.clone(), core::mem::take(&mut self.permits))
    }
}

impl<P: Platform, S: Deref<Target = Semaphore<P>>> Drop for Permits<P, S> {
    #[inline]
    fn drop(&mut self) {
        if self.permits == 1 {
            self.semaphore.raw.up();
        } else {
            self.semaphore.many_dropped(self.permits);
        }
    }
}
