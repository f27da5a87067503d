//! `lock_api::RawMutex` for the locks with one mode.

use crate::mutex::RawMutex;
use crate::platform::ConstPlatform;
use crate::rtmutex_tree::RawTreeRtMutex;
use crate::rtmutex_tree::policy::Policy;
use crate::spin::mcs::RawMcsLock;
use crate::spin::queued::{Kind, RawQueuedSpinLock};
use crate::spin::ticket::RawTicketLock;
use crate::spin::ttas::RawTtasLock;

macro_rules! exclusive {
    ($lock:ident $(<$kind:ident: $bound:ident>)?, $guard:ty, $safety:literal) => {
        #[doc = $safety]
        // SAFETY: see the doc line: the lock's theory page argues mutual exclusion and Acquire on
        // Release.
        unsafe impl<P: ConstPlatform $(, $kind: $bound<P>)?> lock_api::RawMutex for $lock<P $(, $kind)?> {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
            const INIT: Self = Self::new();
            type Guard = $guard;

            #[inline]
            fn lock(&self) -> Self::Guard {
                self.acquire();
                <$guard>::new()
            }

            #[inline]
            fn try_lock(&self) -> Option<Self::Guard> {
                self.try_acquire().then(<$guard>::new)
            }

            #[inline]
            unsafe fn unlock(&self, _guard: Self::Guard) {
                // SAFETY: the guard stands for an acquisition of this lock.
                unsafe { self.release() };
            }

            #[inline]
            fn is_locked(&self) -> bool {
                self.is_locked()
            }
        }
    };
}

exclusive!(RawMutex, lock_api::GuardNoSend, "One thread owns the word at a time.");
exclusive!(RawQueuedSpinLock<K: Kind>, lock_api::GuardSend, "One thread sets the locked byte at a time.");
exclusive!(RawMcsLock, lock_api::GuardSend, "One thread takes the free word, or is named by the owner before it.");
exclusive!(RawTicketLock, lock_api::GuardSend, "One thread draws each number.");
exclusive!(RawTtasLock, lock_api::GuardSend, "One thread sets the word at a time.");

/// One thread's name is in the word at a time.
///
/// The guard cannot carry an error: what [`RawTreeRtMutex`] returns, a deadlock or a foreign
/// unlock, is a panic here.
// SAFETY: see the doc line: the lock's theory page argues mutual exclusion and Acquire on Release.
unsafe impl<P: ConstPlatform, Y: Policy> lock_api::RawMutex for RawTreeRtMutex<P, Y> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self::new();
    type Guard = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) -> Self::Guard {
        if let Err(cycle) = self.acquire() {
            refused(&cycle);
        }
        lock_api::GuardNoSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard> {
        self.try_acquire().then(lock_api::GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: Self::Guard) {
        // SAFETY: the guard stands for an acquisition of this lock.
        if let Err(error) = unsafe { self.release() } {
            refused(&error);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_locked()
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

    use crate::api::exclusive::refused;
    use crate::api::time::{after, at};
    use crate::cancel::Until;
    use crate::mutex::RawMutex;
    use crate::platform::ConstPlatform;
    use crate::rtmutex_tree::policy::Policy;
    use crate::rtmutex_tree::{RawTreeRtMutex, Refused};

    // SAFETY: a timed acquisition is an acquisition; an unsuccessful one does not return before its
    // deadline.
    unsafe impl<P: ConstPlatform> lock_api::RawMutexTimed for RawMutex<P> {
        type Duration = Duration;
        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        type Instant = std::time::Instant;

        fn try_lock_for(&self, timeout: Duration) -> Option<Self::Guard> {
            self.acquire_until(after(timeout)).ok().map(|()| lock_api::GuardNoSend::new())
        }

        fn try_lock_until(&self, deadline: Self::Instant) -> Option<Self::Guard> {
            self.acquire_until(at(deadline)).ok().map(|()| lock_api::GuardNoSend::new())
        }
    }

    // SAFETY: as above.
    unsafe impl<P: ConstPlatform, Y: Policy> lock_api::RawMutexTimed for RawTreeRtMutex<P, Y> {
        type Duration = Duration;
        #[allow(clippy::disallowed_types)] // lock_api's users speak std
        type Instant = std::time::Instant;

        fn try_lock_for(&self, timeout: Duration) -> Option<Self::Guard> {
            timed(self, after(timeout))
        }

        fn try_lock_until(&self, deadline: Self::Instant) -> Option<Self::Guard> {
            timed(self, at(deadline))
        }
    }

    fn timed<P: ConstPlatform, Y: Policy>(
        mutex: &RawTreeRtMutex<P, Y>,
        until: Until<'static, P>,
    ) -> Option<lock_api::GuardNoSend> {
        match mutex.acquire_until(until) {
            Ok(()) => Some(lock_api::GuardNoSend::new()),
            Err(Refused::Deadlock(cycle)) => refused(&cycle),
            Err(_) => None,
        }
    }
}
