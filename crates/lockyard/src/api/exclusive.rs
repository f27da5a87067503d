//! `lock_api::RawMutex` for the locks with one mode.

use crate::mutex::RawMutex;
use crate::platform::ConstPlatform;
use crate::spin::mcs::RawMcsLock;
use crate::spin::queued::{Kind, RawQueuedSpinLock};
use crate::spin::ticket::RawTicketLock;
use crate::spin::ttas::RawTtasLock;

macro_rules! exclusive {
    ($lock:ident $(<$kind:ident: $bound:ident>)?, $guard:ty, $safety:literal) => {
        #[doc = $safety]
        // SAFETY: see the doc line: the lock's theory page argues mutual exclusion and Acquire on Release.
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

#[cfg(all(feature = "std", target_os = "linux"))]
mod timed {
    use core::time::Duration;

    use crate::api::time::{after, at};
    use crate::mutex::RawMutex;
    use crate::platform::linux::Linux;

    // SAFETY: a timed acquisition is an acquisition; an unsuccessful one does not return before its deadline.
    unsafe impl lock_api::RawMutexTimed for RawMutex<Linux> {
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
}
