//! The condition variable of `Mutex`, with guards.

use lock_api::{GuardNoSend, MutexGuard};

use super::{RawMutex, calls};
use crate::cancel::{CancelToken, GaveUp, Until};
use crate::condvar::{Companion, RawCondvar};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};

/// The condition variable of [`RawMutex`]: 16 bytes.
///
/// Guarantees: a notification wakes the waiter that came first, fixed priorities before others. It
/// moves that waiter, asleep, into the queue of the mutex: one wake-up, when the mutex is free.
/// What the notifier did under the mutex happens before the return of the wait. Counts are exact,
/// and a wait returns only when notified, timed out or cancelled, for threads that have a record
/// (the first 65,022 of a process); others return now and then.
///
/// Cost: a notification without waiters is one load. No allocation. Theory: `src/condvar.rs`.
#[derive(Debug)]
#[repr(C)]
pub struct MutexCondvar<P: Platform> {
    raw: RawCondvar<P>,
    /// The address of the mutex that the last to wait came with.
    mutex: P::U64,
}

impl<P: Platform> MutexCondvar<P> {
    /// Notes the mutex of a thread that is about to wait.
    ///
    /// # Panics
    /// If others wait with another mutex. The caller still holds its own. Two that begin to wait at
    /// the same instant may go unnoticed: each then waits with its own.
    fn bind(&self, mutex: &RawMutex<P>) {
        let address = core::ptr::from_ref(mutex).addr() as u64;
        let bound = self.mutex.load(Relaxed);
        if bound != address {
            assert!(
                bound == 0 || !self.raw.has_waiters(),
                "attempted to use a condition variable with more than one mutex"
            );
            self.mutex.store(address, Relaxed);
        }
    }

    /// Waits; how the wait ended. The mutex is held again in every case.
    ///
    /// # Safety
    /// The caller holds `mutex`.
    #[inline(always)]
    unsafe fn wait_until(&self, mutex: &RawMutex<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.bind(mutex);
        // SAFETY: the caller's promise; a waiter is moved into the queue of its own mutex.
        calls::without(mutex, |away| unsafe { self.raw.wait(&Held(away), until) })
    }
}

/// # Panics
/// `wait` panics if other threads wait with another mutex.
// SAFETY: the mutex is released after the waiter can be notified, and held again when the wait
// returns, or panics.
unsafe impl<P: ConstPlatform> lock_api::RawCondvar for MutexCondvar<P> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self { raw: RawCondvar::new(), mutex: P::U64::ZERO };
    type RawMutex = RawMutex<P>;

    #[inline]
    unsafe fn wait(&self, mutex: &RawMutex<P>, _guard: &mut GuardNoSend) {
        // SAFETY: the caller's promise. Without an end the wait cannot fail.
        let _ = unsafe { self.wait_until(mutex, Until::FOREVER) };
    }

    fn notify_one(&self) -> bool {
        self.raw.signal_told(calls::awaited)
    }

    fn notify_all(&self) -> usize {
        self.raw.broadcast_told(calls::awaited)
    }
}

/// The mutex of a waiter.
struct Held<'a, P: Platform>(&'a calls::Away<'a, RawMutex<P>>);

impl<P: Platform> Companion<P> for Held<'_, P> {
    fn acquire(&self) {
        let mutex = &self.0.lock().0;
        self.0.acquire(|| mutex.try_acquire(), || mutex.acquire());
    }

    unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { Companion::release(&self.0.lock().0) };
    }

    fn mutex(&self) -> Option<&crate::mutex::RawMutex<P>> {
        Some(&self.0.lock().0)
    }

    fn awake(&self, _signalled: bool) {
        self.0.awake();
    }

    fn adopted(&self, moment: u64) {
        self.0.adopted(moment);
    }
}

/// A condition variable whose waits can be cancelled.
pub trait CancellableCondvar<P: ConstPlatform> {
    /// As `wait`, unless `token` is cancelled first. The mutex is locked again in every case.
    ///
    /// # Errors
    /// [`GaveUp::Cancelled`]: no notification was used up.
    fn wait_cancellable<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, RawMutex<P>, T>,
        token: &CancelToken<P>,
    ) -> Result<(), GaveUp>;
}

impl<P: ConstPlatform> CancellableCondvar<P> for lock_api::Condvar<MutexCondvar<P>> {
    fn wait_cancellable<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, RawMutex<P>, T>,
        token: &CancelToken<P>,
    ) -> Result<(), GaveUp> {
        // SAFETY: the guard, borrowed exclusively, stands for the acquisition.
        unsafe { self.raw().wait_until(MutexGuard::mutex(guard).raw(), Until::cancelled(token)) }
    }
}

#[cfg(feature = "std")]
mod timed {
    use core::time::Duration;

    use lock_api::GuardNoSend;

    use super::{MutexCondvar, RawMutex};
    use crate::api::time::at;
    use crate::platform::ConstPlatform;
    use crate::platform::instants;

    // SAFETY: as the wait without a deadline; `true` is only returned after the deadline.
    unsafe impl<P: ConstPlatform> lock_api::RawCondvarTimed for MutexCondvar<P> {
        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        fn checked_duration_to_instant(timeout: &Duration) -> Option<std::time::Instant> {
            instants::after(*timeout)
        }

        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        unsafe fn wait_until(
            &self,
            mutex: &RawMutex<P>,
            _guard: &mut GuardNoSend,
            deadline: &std::time::Instant,
        ) -> bool {
            // SAFETY: the caller's promise.
            unsafe { MutexCondvar::wait_until(self, mutex, at(*deadline)) }.is_err()
        }
    }
}
