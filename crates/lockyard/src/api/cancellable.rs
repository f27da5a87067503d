//! Lock calls that a [`CancelToken`] ends: what `lock_api` has no name for.

use lock_api::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use super::{RawMutex, RawRwSem};
use crate::cancel::{CancelToken, GaveUp, Until};
use crate::platform::ConstPlatform;

/// A mutex whose lock call can be cancelled.
pub trait CancellableMutex<P: ConstPlatform> {
    /// What the mutex protects.
    type Target: ?Sized;

    /// Locks, unless `token` is cancelled first.
    ///
    /// A free mutex is locked even if the token is already cancelled.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`].
    fn lock_cancellable(&self, token: &CancelToken<P>) -> Result<MutexGuard<'_, RawMutex<P>, Self::Target>, GaveUp>;
}

impl<P: ConstPlatform, T: ?Sized> CancellableMutex<P> for lock_api::Mutex<RawMutex<P>, T> {
    type Target = T;

    fn lock_cancellable(&self, token: &CancelToken<P>) -> Result<MutexGuard<'_, RawMutex<P>, T>, GaveUp> {
        // SAFETY: the raw mutex is only acquired here, and the guard releases it.
        unsafe {
            self.raw().0.acquire_until(Until::cancelled(token))?;
            Ok(self.make_guard_unchecked(lock_api::GuardNoSend::new()))
        }
    }
}

/// A reader-writer lock whose lock calls can be cancelled.
pub trait CancellableRwLock<P: ConstPlatform> {
    /// What the lock protects.
    type Target: ?Sized;

    /// Locks for reading, unless `token` is cancelled first.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`].
    fn read_cancellable(
        &self,
        token: &CancelToken<P>,
    ) -> Result<RwLockReadGuard<'_, RawRwSem<P>, Self::Target>, GaveUp>;

    /// Locks for writing, unless `token` is cancelled first.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`].
    fn write_cancellable(
        &self,
        token: &CancelToken<P>,
    ) -> Result<RwLockWriteGuard<'_, RawRwSem<P>, Self::Target>, GaveUp>;
}

impl<P: ConstPlatform, T: ?Sized> CancellableRwLock<P> for lock_api::RwLock<RawRwSem<P>, T> {
    type Target = T;

    fn read_cancellable(&self, token: &CancelToken<P>) -> Result<RwLockReadGuard<'_, RawRwSem<P>, T>, GaveUp> {
        // SAFETY: the raw lock is only acquired here, and the guard releases it.
        unsafe {
            self.raw().0.read_acquire_until(Until::cancelled(token))?;
            Ok(self.make_read_guard_unchecked(lock_api::GuardNoSend::new()))
        }
    }

    fn write_cancellable(&self, token: &CancelToken<P>) -> Result<RwLockWriteGuard<'_, RawRwSem<P>, T>, GaveUp> {
        // SAFETY: as above.
        unsafe {
            self.raw().0.write_acquire_until(Until::cancelled(token))?;
            Ok(self.make_write_guard_unchecked(lock_api::GuardNoSend::new()))
        }
    }
}
