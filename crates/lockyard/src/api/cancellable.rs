//! Lock calls that end by an [`Until`]: the timed ones of `lock_api`, and those that a
//! [`CancelToken`] ends, which `lock_api` has no name for.
//!
//! A raw lock says once how it waits ([`RawMutexCancellable`], [`RawRwLockCancellable`]); all calls
//! of users stand on that.

use lock_api::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use crate::cancel::{CancelToken, GaveUp, Until};
use crate::platform::Platform;

/// A raw mutex whose waits end.
///
/// # Safety
/// Success is an acquisition, as that of `lock`.
pub unsafe trait RawMutexCancellable: lock_api::RawMutex {
    /// The machine whose tokens it knows.
    type Platform: Platform;

    /// Locks, unless `until` comes first.
    ///
    /// # Errors
    /// Why the wait ended.
    fn lock_within(&self, until: Until<'_, Self::Platform>) -> Result<Self::Guard, GaveUp>;
}

/// A raw reader-writer lock whose waits end.
///
/// # Safety
/// Success is an acquisition, as that of `lock_shared` or `lock_exclusive`.
pub unsafe trait RawRwLockCancellable: lock_api::RawRwLock {
    /// The machine whose tokens it knows.
    type Platform: Platform;

    /// Locks for reading, unless `until` comes first.
    ///
    /// # Errors
    /// Why the wait ended.
    fn lock_shared_within(&self, until: Until<'_, Self::Platform>) -> Result<Self::SharedGuard, GaveUp>;

    /// Locks for writing, unless `until` comes first.
    ///
    /// # Errors
    /// Why the wait ended.
    fn lock_exclusive_within(&self, until: Until<'_, Self::Platform>) -> Result<Self::ExclusiveGuard, GaveUp>;
}

/// A mutex whose lock call can be cancelled: [`Mutex`](crate::Mutex),
/// [`FairMutex`](crate::FairMutex), [`RtMutex`](crate::RtMutex),
/// [`TreeRtMutex`](crate::TreeRtMutex).
///
/// ```
/// use lockyard::{CancelToken, CancellableMutex, GaveUp, RtMutex};
///
/// let (mutex, token) = (RtMutex::new(1), CancelToken::new());
/// std::thread::scope(|scope| {
///     let held = mutex.lock();
///     let waiter = scope.spawn(|| mutex.lock_cancellable(&token).map(|value| *value));
///     token.cancel();
///     assert_eq!(waiter.join().unwrap(), Err(GaveUp::Cancelled));
///     drop(held);
/// });
/// assert!(mutex.lock_cancellable(&token).is_ok(), "it need not wait");
/// ```
pub trait CancellableMutex {
    /// What the mutex is made of.
    type Raw: RawMutexCancellable;
    /// What the mutex protects.
    type Target: ?Sized;

    /// Locks, unless `token` is cancelled first.
    ///
    /// A free mutex is locked even if the token is already cancelled.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`].
    ///
    /// # Panics
    /// As `lock`.
    fn lock_cancellable(
        &self,
        token: &CancelToken<<Self::Raw as RawMutexCancellable>::Platform>,
    ) -> Result<MutexGuard<'_, Self::Raw, Self::Target>, GaveUp>;
}

impl<R: RawMutexCancellable, T: ?Sized> CancellableMutex for lock_api::Mutex<R, T> {
    type Raw = R;
    type Target = T;

    #[inline]
    fn lock_cancellable(&self, token: &CancelToken<R::Platform>) -> Result<MutexGuard<'_, R, T>, GaveUp> {
        // SAFETY: the raw mutex is only acquired here, and the guard releases it.
        unsafe {
            let guard = self.raw().lock_within(Until::cancelled(token))?;
            Ok(self.make_guard_unchecked(guard))
        }
    }
}

/// A reader-writer lock whose lock calls can be cancelled: [`RwSem`](crate::RwSem),
/// [`RwLock`](crate::RwLock), [`QRwLock`](crate::QRwLock).
pub trait CancellableRwLock {
    /// What the lock is made of.
    type Raw: RawRwLockCancellable;
    /// What the lock protects.
    type Target: ?Sized;

    /// Locks for reading, unless `token` is cancelled first.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`].
    fn read_cancellable(
        &self,
        token: &CancelToken<<Self::Raw as RawRwLockCancellable>::Platform>,
    ) -> Result<RwLockReadGuard<'_, Self::Raw, Self::Target>, GaveUp>;

    /// Locks for writing, unless `token` is cancelled first.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`].
    fn write_cancellable(
        &self,
        token: &CancelToken<<Self::Raw as RawRwLockCancellable>::Platform>,
    ) -> Result<RwLockWriteGuard<'_, Self::Raw, Self::Target>, GaveUp>;
}

impl<R: RawRwLockCancellable, T: ?Sized> CancellableRwLock for lock_api::RwLock<R, T> {
    type Raw = R;
    type Target = T;

    #[inline]
    fn read_cancellable(&self, token: &CancelToken<R::Platform>) -> Result<RwLockReadGuard<'_, R, T>, GaveUp> {
        // SAFETY: the raw lock is only acquired here, and the guard releases it.
        unsafe {
            let guard = self.raw().lock_shared_within(Until::cancelled(token))?;
            Ok(self.make_read_guard_unchecked(guard))
        }
    }

    #[inline]
    fn write_cancellable(&self, token: &CancelToken<R::Platform>) -> Result<RwLockWriteGuard<'_, R, T>, GaveUp> {
        // SAFETY: as above.
        unsafe {
            let guard = self.raw().lock_exclusive_within(Until::cancelled(token))?;
            Ok(self.make_write_guard_unchecked(guard))
        }
    }
}

/// The timed calls of `lock_api`, for a [`RawMutexCancellable`].
macro_rules! timed_mutex {
    ([$($generic:tt)*] $lock:ty) => {
        // SAFETY: a timed acquisition is an acquisition; an unsuccessful one does not return before
        // its deadline.
        #[cfg(feature = "std")]
        unsafe impl<$($generic)*> lock_api::RawMutexTimed for $lock {
            type Duration = core::time::Duration;
            #[allow(clippy::disallowed_types)] // lock_api's users speak std
            type Instant = std::time::Instant;

            #[inline(always)]
            #[track_caller]
            fn try_lock_for(&self, timeout: Self::Duration) -> Option<Self::Guard> {
                $crate::api::RawMutexCancellable::lock_within(self, $crate::api::time::after(timeout)).ok()
            }

            #[inline(always)]
            #[track_caller]
            fn try_lock_until(&self, deadline: Self::Instant) -> Option<Self::Guard> {
                $crate::api::RawMutexCancellable::lock_within(self, $crate::api::time::at(deadline)).ok()
            }
        }
    };
}

/// The timed calls of `lock_api`, for a [`RawRwLockCancellable`].
macro_rules! timed_rwlock {
    ([$($generic:tt)*] $lock:ty) => {
        // SAFETY: a timed acquisition is an acquisition; an unsuccessful one does not return before
        // its deadline.
        #[cfg(feature = "std")]
        unsafe impl<$($generic)*> lock_api::RawRwLockTimed for $lock {
            type Duration = core::time::Duration;
            #[allow(clippy::disallowed_types)] // lock_api's users speak std
            type Instant = std::time::Instant;

            #[inline(always)]
            fn try_lock_shared_for(&self, timeout: Self::Duration) -> Option<Self::SharedGuard> {
                $crate::api::RawRwLockCancellable::lock_shared_within(self, $crate::api::time::after(timeout)).ok()
            }

            #[inline(always)]
            fn try_lock_shared_until(&self, deadline: Self::Instant) -> Option<Self::SharedGuard> {
                $crate::api::RawRwLockCancellable::lock_shared_within(self, $crate::api::time::at(deadline)).ok()
            }

            #[inline(always)]
            fn try_lock_exclusive_for(&self, timeout: Self::Duration) -> Option<Self::ExclusiveGuard> {
                $crate::api::RawRwLockCancellable::lock_exclusive_within(self, $crate::api::time::after(timeout)).ok()
            }

            #[inline(always)]
            fn try_lock_exclusive_until(&self, deadline: Self::Instant) -> Option<Self::ExclusiveGuard> {
                $crate::api::RawRwLockCancellable::lock_exclusive_within(self, $crate::api::time::at(deadline)).ok()
            }
        }
    };
}

pub(super) use {timed_mutex, timed_rwlock};
