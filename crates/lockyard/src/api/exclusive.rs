//! The raw locks with one mode that wait asleep, as `lock_api` has them.

use lock_api::GuardNoSend;

use super::calls::{self, Watched};
use super::cancellable::{RawMutexCancellable, timed_mutex};
use crate::cancel::{GaveUp, Until};
use crate::deadlock::Mode::Exclusive;
use crate::mutex;
use crate::platform::watch::{Class, Look, Owner};
use crate::platform::{ConstPlatform, Platform};
use crate::rtmutex_tree::policy::{Policy, Today};
use crate::rtmutex_tree::{self, Refused};

/// The mutex: 32 bytes.
///
/// Fairness: running threads pass a waiter for at most a turn, 0.4 ms, and one more per waiter
/// ahead of it. Ordering: what an owner did happens before the next acquisition returns. Cost
/// without contention: one compare-exchange, one exchange. A waiter spins while the owner runs,
/// then sleeps. `unlock_fair` costs one load where nobody waits; otherwise it reserves the mutex
/// for the first waiter, and wakes it: the mutex is idle until that thread runs. Theory:
/// `src/mutex/mod.rs`.
#[cfg_attr(not(feature = "stat"), repr(transparent))]
pub struct RawMutex<P: Platform>(pub(crate) mutex::RawMutex<P>, Class);

/// A [`RawMutex`] every unlock of which is fair: first come, first served once a thread sleeps.
///
/// Slow where threads outnumber CPUs; [`RawMutex`] alone is fair within its bound. Theory:
/// `src/mutex/mod.rs`.
#[cfg_attr(not(feature = "stat"), repr(transparent))]
pub struct RawFairMutex<P: Platform>(mutex::RawMutex<P>, Class);

macro_rules! exclusive {
    ($lock:ident, $release:ident, $kind:literal) => {
        impl<P: Platform> Look for $lock<P> {
            fn owner(&self) -> Owner {
                self.0.owner().map_or(Owner::Unknown, |owner| Owner::Record(owner.raw()))
            }

            fn is_contended(&self) -> bool {
                self.0.is_contended()
            }
        }

        impl<P: Platform> core::fmt::Debug for $lock<P> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<P: Platform> Watched for $lock<P> {
            const KIND: &'static str = $kind;
            const OWNED: bool = true;

            fn class(&self) -> Option<&Class> {
                Some(&self.1)
            }
        }

        // SAFETY: one thread owns the word at a time, and acquires on the release before.
        unsafe impl<P: ConstPlatform> lock_api::RawMutex for $lock<P> {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
            const INIT: Self = Self(mutex::RawMutex::new(), Class::new());
            type Guard = GuardNoSend;

            #[inline]
            fn lock(&self) -> GuardNoSend {
                calls::acquire(self, Exclusive, || self.0.try_acquire(), || self.0.acquire());
                GuardNoSend::new()
            }

            #[inline]
            fn try_lock(&self) -> Option<GuardNoSend> {
                calls::attempt(self, Exclusive, || self.0.try_acquire()).then(GuardNoSend::new)
            }

            #[inline]
            unsafe fn unlock(&self, _guard: GuardNoSend) {
                // SAFETY: the guard stands for an acquisition of this lock.
                calls::release(self, Exclusive, || unsafe { self.0.$release() });
            }

            #[inline]
            fn is_locked(&self) -> bool {
                self.0.is_locked()
            }
        }

        // SAFETY: an acquisition.
        unsafe impl<P: ConstPlatform> RawMutexCancellable for $lock<P> {
            type Platform = P;

            #[inline(always)]
            fn lock_within(&self, until: Until<'_, P>) -> Result<GuardNoSend, GaveUp> {
                calls::acquire_until(self, Exclusive, || self.0.try_acquire(), || self.0.acquire_until(until))?;
                Ok(GuardNoSend::new())
            }
        }
        timed_mutex!([P: ConstPlatform] $lock<P>);
    };
}

exclusive!(RawMutex, release, "Mutex");
exclusive!(RawFairMutex, release_fair, "FairMutex");

// SAFETY: a fair release is a release.
unsafe impl<P: ConstPlatform> lock_api::RawMutexFair for RawMutex<P> {
    unsafe fn unlock_fair(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for an acquisition of this lock.
        calls::release(self, Exclusive, || unsafe { self.0.release_fair() });
    }

    unsafe fn bump(&self, guard: &mut GuardNoSend) {
        if self.0.is_contended() {
            // SAFETY: the guard stands for an acquisition of this lock, before and after.
            unsafe { self.unlock_fair(core::mem::replace(guard, GuardNoSend::new())) };
            *guard = lock_api::RawMutex::lock(self);
        }
    }
}

/// The real-time mutex with its own tree of waiters: 12 bytes.
///
/// Waiters are served by priority. A waiter lends its priority to the owner, and down the chain of
/// owners that wait themselves, where the program may set priorities
/// ([`Platform::set_priority`]); where it may not, the order is kept and nothing is lent. Real-time
/// threads are never passed by an equal; time-sharing threads as the policy `Y` says.
/// Ordering and cost without contention: as [`RawMutex`]. Theory: `src/rtmutex_tree/mod.rs`.
///
/// # Panics
/// `lock`, where it would close a cycle of waits. `unlock`, by another than the owner.
///
/// ```
/// static SHARED: lockyard::TreeRtMutex<u32> = lockyard::TreeRtMutex::new(0);
/// *SHARED.lock() += 1;
/// ```
#[cfg_attr(not(feature = "stat"), repr(transparent))]
pub struct RawTreeRtMutex<P: Platform, Y: Policy = Today>(rtmutex_tree::RawTreeRtMutex<P, Y>, Class);

impl<P: Platform, Y: Policy> Look for RawTreeRtMutex<P, Y> {
    fn owner(&self) -> Owner {
        self.0.owner().map_or(Owner::Unknown, |owner| Owner::Record(owner.raw()))
    }

    fn is_contended(&self) -> bool {
        self.0.is_contended()
    }
}

impl<P: Platform, Y: Policy> Watched for RawTreeRtMutex<P, Y> {
    const KIND: &'static str = "TreeRtMutex";
    const OWNED: bool = true;

    fn class(&self) -> Option<&Class> {
        Some(&self.1)
    }
}

impl<P: Platform, Y: Policy> core::fmt::Debug for RawTreeRtMutex<P, Y> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// The guard cannot carry an error: a deadlock, or a foreign unlock, is a panic here.
// SAFETY: one thread's name is in the word at a time; the lock's theory page argues Acquire on
// Release.
unsafe impl<P: ConstPlatform, Y: Policy> lock_api::RawMutex for RawTreeRtMutex<P, Y> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self(rtmutex_tree::RawTreeRtMutex::new(), Class::new());
    type Guard = GuardNoSend;

    #[inline]
    #[track_caller]
    fn lock(&self) -> GuardNoSend {
        match calls::acquire_or_fail(self, Exclusive, || self.0.try_acquire(), || self.0.acquire()) {
            Ok(()) => GuardNoSend::new(),
            Err(cycle) => super::refused(&cycle),
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
/// As `lock`: where it could only hang.
// SAFETY: an acquisition.
unsafe impl<P: ConstPlatform, Y: Policy> RawMutexCancellable for RawTreeRtMutex<P, Y> {
    type Platform = P;

    #[inline(always)]
    #[track_caller]
    fn lock_within(&self, until: Until<'_, P>) -> Result<GuardNoSend, GaveUp> {
        match calls::acquire_until(self, Exclusive, || self.0.try_acquire(), || self.0.acquire_until(until)) {
            Ok(()) => Ok(GuardNoSend::new()),
            Err(Refused::TimedOut) => Err(GaveUp::TimedOut),
            Err(Refused::Cancelled) => Err(GaveUp::Cancelled),
            Err(Refused::Deadlock(cycle)) => super::refused(&cycle),
        }
    }
}
timed_mutex!([P: ConstPlatform, Y: Policy] RawTreeRtMutex<P, Y>);
