//! The counting semaphore as users hold it: permits that return themselves.

#[cfg(any(feature = "std", feature = "arc_lock"))]
use alloc::sync::Arc;
#[cfg(feature = "std")]
use core::time::Duration;

use crate::cancel::{CancelToken, GaveUp, Until};
use crate::platform::Platform;
#[cfg(target_has_atomic = "64")]
use crate::platform::{ConstPlatform, atomics};
use crate::semaphore::{MAX_UNITS, RawSemaphore};

/// A counting semaphore: so many threads at a time, or so many of a resource.
///
/// Fairness: running threads pass a waiter for at most a turn per waiter ahead of it; a waiter for
/// many permits has them once those that are out have come back
/// ([the argument](crate::semaphore#many-units-at-once)). Ordering: what happened before a permit
/// was returned happened before the acquisition that takes it. Cost without contention: one
/// compare-exchange, one addition. 24 bytes, no allocation. The memory must stay until each permit
/// has been dropped. In the child of a fork the permits of other threads stay taken. A panic
/// returns permits; nothing is poisoned.
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
#[derive(Debug)]
pub struct Semaphore<P: Platform> {
    raw: RawSemaphore<P>,
}

#[cfg(target_has_atomic = "64")]
impl<P: ConstPlatform<U64 = atomics::U64>> Semaphore<P> {
    /// A semaphore with `permits` (at most [`MAX_UNITS`], the rest is cut off).
    pub const fn new(permits: u32) -> Self {
        Self { raw: RawSemaphore::const_with_units(permits) }
    }
}

impl<P: Platform> Semaphore<P> {
    /// As `new`, on any platform.
    pub fn with_permits(permits: u32) -> Self {
        Self { raw: RawSemaphore::with_units(permits) }
    }

    /// Adds a permit; any thread may, also one that took none. `false`: there are [`MAX_UNITS`]
    /// already.
    #[inline]
    pub fn release(&self) -> bool {
        self.raw.up()
    }

    /// Adds `permits`, all or, if there would be more than [`MAX_UNITS`], none: then `false`.
    ///
    /// ```
    /// let slots = lockyard::Semaphore::new(0);
    /// assert!(slots.release_many(3));
    /// assert!(slots.try_acquire_many(3).is_some());
    /// ```
    pub fn release_many(&self, permits: u32) -> bool {
        self.raw.up_many(permits)
    }

    /// Permits available now. May be stale when it returns.
    pub fn available(&self) -> u32 {
        self.raw.units()
    }

    /// The raw semaphore.
    pub fn raw(&self) -> &RawSemaphore<P> {
        &self.raw
    }
}

/// The number of units that a call asks for.
#[inline]
#[track_caller]
fn checked(permits: u32) -> u32 {
    assert!(permits <= MAX_UNITS, "a semaphore has at most 2147483647 permits");
    permits
}

/// The calls that acquire, for one kind of permit: each of `one` has its form for `many`.
macro_rules! acquisitions {
    (
        $semaphore:ty, $permit:ty;
        $acquire:ident $acquire_many:ident $example:literal;
        $try:ident $try_many:ident;
        $for:ident $for_many:ident;
        $until:ident $until_many:ident;
        $cancellable:ident $cancellable_many:ident;
    ) => {
        /// Takes a permit; waits for one.
        #[inline]
        pub fn $acquire(self: $semaphore) -> $permit {
            self.raw.down();
            <$permit>::of(self, 1)
        }

        #[doc = concat!("Takes `permits` in one step; waits for them. See [Many permits](Semaphore#many-permits).\n\n", $example)]
        #[inline]
        #[track_caller]
        pub fn $acquire_many(self: $semaphore, permits: u32) -> $permit {
            self.raw.down_many(checked(permits));
            <$permit>::of(self, permits)
        }

        /// Takes a permit if one is available.
        #[inline]
        pub fn $try(self: $semaphore) -> Option<$permit> {
            self.raw.try_down().then(|| <$permit>::of(self, 1))
        }

        /// Takes `permits` in one step, if so many are available.
        #[inline]
        #[track_caller]
        pub fn $try_many(self: $semaphore, permits: u32) -> Option<$permit> {
            self.raw.try_down_many(checked(permits)).then(|| <$permit>::of(self, permits))
        }

        /// Takes a permit; waits for one for at most `timeout`.
        #[cfg(feature = "std")]
        pub fn $for(self: $semaphore, timeout: Duration) -> Option<$permit> {
            self.$for_many(1, timeout)
        }

        /// Takes `permits` in one step; waits for them for at most `timeout`.
        #[cfg(feature = "std")]
        #[track_caller]
        pub fn $for_many(self: $semaphore, permits: u32, timeout: Duration) -> Option<$permit> {
            let taken = self.raw.down_many_until(checked(permits), super::time::after(timeout));
            taken.ok().map(|()| <$permit>::of(self, permits))
        }

        /// Takes a permit; waits for one until `deadline`.
        #[cfg(feature = "std")]
        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        pub fn $until(self: $semaphore, deadline: std::time::Instant) -> Option<$permit> {
            self.$until_many(1, deadline)
        }

        /// Takes `permits` in one step; waits for them until `deadline`.
        #[cfg(feature = "std")]
        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        #[track_caller]
        pub fn $until_many(self: $semaphore, permits: u32, deadline: std::time::Instant) -> Option<$permit> {
            let taken = self.raw.down_many_until(checked(permits), super::time::at(deadline));
            taken.ok().map(|()| <$permit>::of(self, permits))
        }

        /// Takes a permit, unless `token` is cancelled first. One that is available is taken even if
        /// the token is cancelled.
        ///
        /// # Errors
        /// [`GaveUp::Cancelled`].
        pub fn $cancellable(self: $semaphore, token: &CancelToken<P>) -> Result<$permit, GaveUp> {
            self.$cancellable_many(1, token)
        }

        /// Takes `permits` in one step, unless `token` is cancelled first.
        ///
        /// # Errors
        /// [`GaveUp::Cancelled`]: none was taken.
        #[track_caller]
        pub fn $cancellable_many(self: $semaphore, permits: u32, token: &CancelToken<P>) -> Result<$permit, GaveUp> {
            let taken = self.raw.down_many_until(checked(permits), Until::cancelled(token));
            taken.map(|()| <$permit>::of(self, permits))
        }
    };
}

impl<P: Platform> Semaphore<P> {
    acquisitions! {
        &Self, SemaphorePermit<'_, P>;
        acquire acquire_many "```
let slots = lockyard::Semaphore::new(4);
let three = slots.acquire_many(3);
assert_eq!((three.permits(), slots.available()), (3, 1));
```";
        try_acquire try_acquire_many;
        try_acquire_for try_acquire_many_for;
        try_acquire_until try_acquire_many_until;
        acquire_cancellable acquire_many_cancellable;
    }
}

/// Permits that keep the semaphore alive: for tasks and threads that outlive their maker. With
/// feature `std` or `arc_lock`.
#[cfg(any(feature = "std", feature = "arc_lock"))]
impl<P: Platform> Semaphore<P> {
    acquisitions! {
        &Arc<Self>, OwnedSemaphorePermit<P>;
        acquire_owned acquire_many_owned "```
use std::sync::Arc;

let slots = Arc::new(lockyard::Semaphore::new(4));
let three = slots.acquire_many_owned(3);
std::thread::spawn(move || drop(three)).join().unwrap();
assert_eq!(slots.available(), 4);
```";
        try_acquire_owned try_acquire_many_owned;
        try_acquire_owned_for try_acquire_many_owned_for;
        try_acquire_owned_until try_acquire_many_owned_until;
        acquire_owned_cancellable acquire_many_owned_cancellable;
    }
}

macro_rules! permit {
    ($(#[$what:meta])* $permit:ident $(<$life:lifetime>)?, $semaphore:ty, $given:ty) => {
        $(#[$what])*
        #[derive(Debug)]
        #[must_use = "a permit that is not held is returned at once"]
        pub struct $permit<$($life,)? P: Platform> {
            semaphore: $semaphore,
            permits: u32,
        }

        impl<$($life,)? P: Platform> $permit<$($life,)? P> {
            #[inline]
            fn of(semaphore: $given, permits: u32) -> Self {
                Self { semaphore: semaphore.clone(), permits }
            }

            /// How many permits it stands for.
            pub fn permits(&self) -> u32 {
                self.permits
            }

            /// The semaphore that it is of.
            pub fn semaphore(&self) -> &Semaphore<P> {
                &self.semaphore
            }

            /// Consumes the permits without returning them: the semaphore has fewer from now on.
            pub fn forget(mut self) {
                self.permits = 0;
            }

            /// Adds the permits of `other` to this one.
            ///
            /// # Panics
            /// If they are of different semaphores, or together more than [`MAX_UNITS`].
            #[track_caller]
            pub fn merge(&mut self, mut other: Self) {
                assert!(core::ptr::eq(self.semaphore(), other.semaphore()), "merged permits of different semaphores");
                self.permits = checked(self.permits.saturating_add(other.permits));
                other.permits = 0;
            }

            /// Takes `permits` out of this one. `None`: it has fewer, and keeps them.
            pub fn split(&mut self, permits: u32) -> Option<Self> {
                self.permits = self.permits.checked_sub(permits)?;
                Some(Self { semaphore: self.semaphore.clone(), permits })
            }
        }

        impl<$($life,)? P: Platform> Drop for $permit<$($life,)? P> {
            #[inline]
            fn drop(&mut self) {
                match self.permits {
                    0 => {}
                    1 => _ = self.semaphore.raw.up(),
                    many => _ = self.semaphore.raw.up_many(many),
                }
            }
        }
    };
}

permit! {
    /// Permits of a [`Semaphore`]; dropping them returns them.
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
    SemaphorePermit<'a>, &'a Semaphore<P>, &'a Semaphore<P>
}

#[cfg(any(feature = "std", feature = "arc_lock"))]
permit! {
    /// Permits of a [`Semaphore`] in an [`Arc`], which they keep; dropping them returns them.
    OwnedSemaphorePermit, Arc<Semaphore<P>>, &Arc<Semaphore<P>>
}
