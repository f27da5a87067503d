//! The raw locks with one mode that wait asleep, as `lock_api` has them.

use lock_api::GuardNoSend;

use crate::mutex;
use crate::platform::{ConstPlatform, Platform};
use crate::rtmutex_tree;
use crate::rtmutex_tree::policy::{Policy, Today};

/// The mutex: 32 bytes.
///
/// Fairness: running threads pass a waiter for at most a turn, 0.4 ms, per waiter ahead of it.
/// Ordering: what an owner did happens before the next acquisition returns. Cost without
/// contention: one compare-exchange, one exchange. A waiter spins while the owner runs, then
/// sleeps. `unlock_fair` costs one load where nobody waits; otherwise it reserves the mutex for the
/// first waiter, and wakes it: the mutex is idle until that thread runs. Theory:
/// `src/mutex/mod.rs`.
#[derive(Debug)]
#[repr(transparent)]
pub struct RawMutex<P: Platform>(pub(crate) mutex::RawMutex<P>);

/// A [`RawMutex`] every unlock of which is fair: first come, first served once a thread sleeps.
///
/// Slow where threads outnumber CPUs; [`RawMutex`] alone is fair within its bound. Theory:
/// `src/mutex/mod.rs`.
#[derive(Debug)]
#[repr(transparent)]
pub struct RawFairMutex<P: Platform>(mutex::RawMutex<P>);

macro_rules! exclusive {
    ($lock:ident, $release:ident) => {
        // SAFETY: one thread owns the word at a time, and acquires on the release before.
        unsafe impl<P: ConstPlatform> lock_api::RawMutex for $lock<P> {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
            const INIT: Self = Self(mutex::RawMutex::new());
            type Guard = GuardNoSend;

            #[inline]
            fn lock(&self) -> GuardNoSend {
                self.0.acquire();
                GuardNoSend::new()
            }

            #[inline]
            fn try_lock(&self) -> Option<GuardNoSend> {
                self.0.try_acquire().then(GuardNoSend::new)
            }

            #[inline]
            unsafe fn unlock(&self, _guard: GuardNoSend) {
                // SAFETY: the guard stands for an acquisition of this lock.
                unsafe { self.0.$release() };
            }

            #[inline]
            fn is_locked(&self) -> bool {
                self.0.is_locked()
            }
        }

        // SAFETY: a timed acquisition is an acquisition; an unsuccessful one does not return before
        // its deadline.
        #[cfg(feature = "std")]
        unsafe impl<P: ConstPlatform> lock_api::RawMutexTimed for $lock<P> {
            type Duration = core::time::Duration;
            #[allow(clippy::disallowed_types)] // lock_api's users speak std
            type Instant = std::time::Instant;

            fn try_lock_for(&self, timeout: Self::Duration) -> Option<GuardNoSend> {
                self.0.acquire_until(super::time::after(timeout)).ok().map(|()| GuardNoSend::new())
            }

            fn try_lock_until(&self, deadline: Self::Instant) -> Option<GuardNoSend> {
                self.0.acquire_until(super::time::at(deadline)).ok().map(|()| GuardNoSend::new())
            }
        }
    };
}

exclusive!(RawMutex, release);
exclusive!(RawFairMutex, release_fair);

// SAFETY: a fair release is a release.
unsafe impl<P: ConstPlatform> lock_api::RawMutexFair for RawMutex<P> {
    unsafe fn unlock_fair(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for an acquisition of this lock.
        unsafe { self.0.release_fair() };
    }

    unsafe fn bump(&self, _guard: &mut GuardNoSend) {
        if self.0.is_contended() {
            // SAFETY: the guard stands for an acquisition of this lock, before and after.
            unsafe { self.0.release_fair() };
            self.0.acquire();
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
#[repr(transparent)]
pub struct RawTreeRtMutex<P: Platform, Y: Policy = Today>(rtmutex_tree::RawTreeRtMutex<P, Y>);

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
    const INIT: Self = Self(rtmutex_tree::RawTreeRtMutex::new());
    type Guard = GuardNoSend;

    #[inline]
    fn lock(&self) -> GuardNoSend {
        if let Err(cycle) = self.0.acquire() {
            refused(&cycle);
        }
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardNoSend> {
        self.0.try_acquire().then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for an acquisition of this lock.
        if let Err(error) = unsafe { self.0.release() } {
            refused(&error);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

#[cold]
#[track_caller]
fn refused(error: &dyn core::fmt::Display) -> ! {
    panic!("{error}")
}

#[cfg(feature = "std")]
mod timed {
    use core::time::Duration;

    use lock_api::GuardNoSend;

    use super::{RawTreeRtMutex, refused};
    use crate::api::time::{after, at};
    use crate::cancel::Until;
    use crate::platform::ConstPlatform;
    use crate::rtmutex_tree::Refused;
    use crate::rtmutex_tree::policy::Policy;

    // SAFETY: a timed acquisition is an acquisition; an unsuccessful one does not return before its
    // deadline.
    unsafe impl<P: ConstPlatform, Y: Policy> lock_api::RawMutexTimed for RawTreeRtMutex<P, Y> {
        type Duration = Duration;
        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        type Instant = std::time::Instant;

        fn try_lock_for(&self, timeout: Duration) -> Option<GuardNoSend> {
            timed(self, after(timeout))
        }

        fn try_lock_until(&self, deadline: Self::Instant) -> Option<GuardNoSend> {
            timed(self, at(deadline))
        }
    }

    fn timed<P: ConstPlatform, Y: Policy>(
        mutex: &RawTreeRtMutex<P, Y>,
        until: Until<'static, P>,
    ) -> Option<GuardNoSend> {
        match mutex.0.acquire_until(until) {
            Ok(()) => Some(GuardNoSend::new()),
            Err(Refused::Deadlock(cycle)) => refused(&cycle),
            Err(_) => None,
        }
    }
}
