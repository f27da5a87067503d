//! `lock_api` for the PI mutex and its condition variable, and lock calls that say what is wrong.

use lock_api::{GuardNoSend, MutexGuard};

use super::calls::{self, Watched};
use super::cancellable::{RawMutexCancellable, timed_mutex};
use crate::cancel::{GaveUp, Until};
use crate::deadlock::Mode::Exclusive;
use crate::platform::pi::PiPlatform;
use crate::platform::watch::{Class, Look, Owner};
use crate::platform::{ConstPlatform, Platform};
use crate::rtmutex::{Lateral, PiError, Policy};
use crate::{rtcondvar, rtmutex};

/// The priority-inheritance mutex: 24 bytes.
///
/// A thread that holds it runs at the priority of the most urgent thread that waits for it, through
/// chains of owners that wait themselves. Waiters are served by priority; time-sharing threads pass
/// each other as those of [`RawMutex`](super::RawMutex) do. Ordering: what an owner did happens
/// before the next acquisition returns. Cost without contention: one compare-exchange each way.
/// Needs no privilege. Theory: `src/rtmutex/mod.rs`.
#[cfg_attr(not(feature = "stat"), repr(transparent))]
pub struct RawRtMutex<P: Platform, S: Policy = Lateral>(rtmutex::RawRtMutex<P, S>, Class);

impl<P: Platform, S: Policy> core::fmt::Debug for RawRtMutex<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

impl<P: Platform, S: Policy> Look for RawRtMutex<P, S> {
    fn owner(&self) -> Owner {
        Owner::Thread(self.0.owner())
    }

    fn is_contended(&self) -> bool {
        self.0.is_contended()
    }
}

impl<P: Platform, S: Policy> Watched for RawRtMutex<P, S> {
    const KIND: &'static str = "RtMutex";
    const OWNED: bool = true;

    fn class(&self) -> Option<&Class> {
        Some(&self.1)
    }
}

/// The condition variable of [`RawRtMutex`]: 16 bytes.
///
/// A notified thread waits for the mutex by its priority from the notification on. Theory:
/// `src/rtcondvar.rs`.
#[derive(Debug)]
#[repr(transparent)]
pub struct RawRtCondvar<P: Platform, S: Policy = Lateral>(rtcondvar::RawRtCondvar<P, S>);

/// A PI mutex whose lock calls return errors where `lock` panics.
///
/// ```
/// use lockyard::{CheckedMutex, PiError, RtMutex};
///
/// let mutex = RtMutex::new(1);
/// let mut guard = mutex.lock_checked()?;
/// *guard += 1;
/// assert_eq!(mutex.lock_checked().unwrap_err(), PiError::Deadlock); // we own it already
/// drop(guard);
/// # Ok::<(), PiError>(())
/// ```
pub trait CheckedMutex<P: ConstPlatform + PiPlatform, S: Policy> {
    /// What the mutex protects.
    type Target: ?Sized;

    /// Locks.
    ///
    /// # Errors
    /// [`PiError::Deadlock`], [`PiError::OwnerDied`], [`PiError::Corrupt`].
    fn lock_checked(&self) -> Result<MutexGuard<'_, RawRtMutex<P, S>, Self::Target>, PiError>;

    /// Locks, unless `until` comes first.
    ///
    /// # Errors
    /// As [`CheckedMutex::lock_checked`], and [`PiError::TimedOut`] or [`PiError::Cancelled`].
    fn lock_checked_until(
        &self,
        until: Until<'_, P>,
    ) -> Result<MutexGuard<'_, RawRtMutex<P, S>, Self::Target>, PiError>;
}

impl<P: ConstPlatform + PiPlatform, S: Policy, T: ?Sized> CheckedMutex<P, S> for lock_api::Mutex<RawRtMutex<P, S>, T> {
    type Target = T;

    #[inline]
    fn lock_checked(&self) -> Result<MutexGuard<'_, RawRtMutex<P, S>, T>, PiError> {
        // SAFETY: the raw mutex is only acquired here, and the guard releases it.
        unsafe {
            let raw = self.raw();
            let attempt = || raw.0.try_acquire();
            calls::acquire_or_fail(raw, Exclusive, attempt, || raw.0.acquire())?;
            Ok(self.make_guard_unchecked(GuardNoSend::new()))
        }
    }

    #[inline]
    fn lock_checked_until(&self, until: Until<'_, P>) -> Result<MutexGuard<'_, RawRtMutex<P, S>, T>, PiError> {
        // SAFETY: the raw mutex is only acquired here, and the guard releases it.
        unsafe {
            let raw = self.raw();
            calls::acquire_until(raw, Exclusive, || raw.0.try_acquire(), || raw.0.acquire_until(until))?;
            Ok(self.make_guard_unchecked(GuardNoSend::new()))
        }
    }
}

/// One thread's id is in the word at a time.
///
/// # Panics
/// `lock`, where it could only hang: the caller owns the mutex, or it would close a cycle of waits,
/// or the owner exited. `unlock`, by another than the owner (in the child of a fork).
// SAFETY: see the first line; the lock's theory page argues mutual exclusion and Acquire on
// Release.
unsafe impl<P: ConstPlatform + PiPlatform, S: Policy> lock_api::RawMutex for RawRtMutex<P, S> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self(rtmutex::RawRtMutex::new(), Class::new());
    type Guard = GuardNoSend;

    #[inline]
    #[track_caller]
    fn lock(&self) -> GuardNoSend {
        match calls::acquire_or_fail(self, Exclusive, || self.0.try_acquire(), || self.0.acquire()) {
            Ok(()) => GuardNoSend::new(),
            Err(error) => super::refused(&error),
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardNoSend> {
        calls::attempt(self, Exclusive, || self.0.try_acquire()).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for an acquisition of this lock.
        if let Err(error) = calls::release(self, Exclusive, || unsafe { self.0.release() }) {
            super::refused(&error);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

/// # Panics
/// As `lock`.
// SAFETY: an acquisition.
unsafe impl<P: ConstPlatform + PiPlatform, S: Policy> RawMutexCancellable for RawRtMutex<P, S> {
    type Platform = P;

    #[inline(always)]
    #[track_caller]
    fn lock_within(&self, until: Until<'_, P>) -> Result<GuardNoSend, GaveUp> {
        match calls::acquire_until(self, Exclusive, || self.0.try_acquire(), || self.0.acquire_until(until)) {
            Ok(()) => Ok(GuardNoSend::new()),
            Err(PiError::TimedOut) => Err(GaveUp::TimedOut),
            Err(PiError::Cancelled) => Err(GaveUp::Cancelled),
            Err(error) => super::refused(&error),
        }
    }
}
timed_mutex!([P: ConstPlatform + PiPlatform, S: Policy] RawRtMutex<P, S>);

/// Ends the program when it is dropped by a panic: a second one.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a wait for a PI condition variable released its mutex and could not take it again");
    }
}

/// Waits; `true`: the deadline passed.
///
/// # Safety
/// As [`lock_api::RawCondvar::wait`].
#[inline(always)]
unsafe fn wait<P: ConstPlatform + PiPlatform, S: Policy>(
    condvar: &RawRtCondvar<P, S>,
    mutex: &RawRtMutex<P, S>,
    until: Until<'_, P>,
) -> bool {
    // SAFETY: the caller's promise.
    match calls::without(mutex, |_| unsafe { condvar.0.wait(&mutex.0, until) }) {
        Ok(timed_out) => timed_out,
        Err(error @ PiError::NotOwner) => super::refused(&error),
        Err(error) => {
            // The caller must find the mutex locked, or nothing at all.
            let _bomb = Bomb;
            super::refused(&error)
        }
    }
}

/// Waits may end spuriously; notifications are not counted.
// SAFETY: the mutex is released after the waiter can be notified, and taken again before it
// returns, or the program ends.
unsafe impl<P: ConstPlatform + PiPlatform, S: Policy> lock_api::RawCondvar for RawRtCondvar<P, S> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self(rtcondvar::RawRtCondvar::new());
    type RawMutex = RawRtMutex<P, S>;

    #[inline]
    unsafe fn wait(&self, mutex: &Self::RawMutex, _guard: &mut GuardNoSend) {
        // SAFETY: the caller's promise.
        unsafe { wait(self, mutex, Until::FOREVER) };
    }

    fn notify_one(&self) -> bool {
        self.0.notify_one();
        false
    }

    fn notify_all(&self) -> usize {
        self.0.notify_all();
        0
    }
}

#[cfg(feature = "std")]
mod timed {
    use core::time::Duration;

    use lock_api::GuardNoSend;

    use super::{RawRtCondvar, wait};
    use crate::api::time::at;
    use crate::platform::ConstPlatform;
    use crate::platform::instants;
    use crate::platform::pi::PiPlatform;
    use crate::rtmutex::Policy;

    /// That a wait has not timed out does not mean that there was a notification.
    // SAFETY: as the wait without a deadline; `true` is only returned after the deadline.
    unsafe impl<P: ConstPlatform + PiPlatform, S: Policy> lock_api::RawCondvarTimed for RawRtCondvar<P, S> {
        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        fn checked_duration_to_instant(timeout: &Duration) -> Option<std::time::Instant> {
            instants::after(*timeout)
        }

        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        unsafe fn wait_until(
            &self,
            mutex: &Self::RawMutex,
            _guard: &mut GuardNoSend,
            deadline: &std::time::Instant,
        ) -> bool {
            // SAFETY: the caller's promise.
            unsafe { wait(self, mutex, at(*deadline)) }
        }
    }
}
