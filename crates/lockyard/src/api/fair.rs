//! Fair unlocking: the lock goes to the first waiter, which nobody passes.

use lock_api::{GuardNoSend, RawMutexFair};

use super::cancellable::{RawMutexCancellable, timed_mutex};
use crate::cancel::{GaveUp, Until};
use crate::deadlock::{self, Mode::Exclusive};
use crate::mutex::RawMutex;
use crate::platform::{ConstPlatform, Platform};

/// `unlock_fair` costs one load where nobody waits. Otherwise it reserves the mutex for the first
/// waiter, and wakes it: the lock is idle for as long as that takes.
// SAFETY: a fair release is a release.
unsafe impl<P: ConstPlatform> RawMutexFair for RawMutex<P> {
    unsafe fn unlock_fair(&self, _guard: GuardNoSend) {
        deadlock::released(self, deadlock::MUTEX);
        // SAFETY: the guard stands for an acquisition of this lock.
        unsafe { self.release_fair() };
    }

    unsafe fn bump(&self, guard: &mut GuardNoSend) {
        if self.is_contended() {
            // SAFETY: the guard stands for an acquisition of this lock, before and after.
            unsafe { self.unlock_fair(core::mem::replace(guard, GuardNoSend::new())) };
            *guard = lock_api::RawMutex::lock(self);
        }
    }
}

/// A [`RawMutex`] every unlock of which is fair: first come, first served once a thread sleeps.
/// Slow where threads outnumber CPUs; [`RawMutex`] alone is fair within its bound.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct RawFairMutex<P: Platform>(RawMutex<P>);

impl<P: Platform> RawFairMutex<P> {
    /// Whether somebody waits in the queue.
    pub fn is_contended(&self) -> bool {
        self.0.is_contended()
    }
}

// SAFETY: a `RawMutex`.
unsafe impl<P: ConstPlatform> lock_api::RawMutex for RawFairMutex<P> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self(RawMutex::new());
    type Guard = GuardNoSend;

    #[inline]
    fn lock(&self) -> GuardNoSend {
        deadlock::acquire(self, deadlock::FAIR_MUTEX, Exclusive, || self.0.try_acquire(), || self.0.acquire());
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardNoSend> {
        deadlock::attempt(self, deadlock::FAIR_MUTEX, Exclusive, self.0.try_acquire()).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardNoSend) {
        deadlock::released(self, deadlock::FAIR_MUTEX);
        // SAFETY: the guard stands for an acquisition of this lock.
        unsafe { self.0.release_fair() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: an acquisition of a `RawMutex`.
unsafe impl<P: ConstPlatform> RawMutexCancellable for RawFairMutex<P> {
    type Platform = P;

    fn lock_within(&self, until: Until<'_, P>) -> Result<GuardNoSend, GaveUp> {
        self.0.acquire_until(until)?;
        deadlock::acquired(self, deadlock::FAIR_MUTEX, Exclusive);
        Ok(GuardNoSend::new())
    }
}
timed_mutex!([P: ConstPlatform] RawFairMutex<P>);
