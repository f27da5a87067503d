//! `lock_api::RawMutex` for the locks with one mode.

use crate::deadlock::{self, Mode::Exclusive};
use crate::mutex::RawMutex;
use crate::platform::ConstPlatform;
use crate::rtmutex_tree::RawTreeRtMutex;
use crate::rtmutex_tree::policy::Policy;
use crate::spin::mcs::RawMcsLock;
use crate::spin::queued::{Kind, RawQueuedSpinLock};
use crate::spin::ticket::RawTicketLock;
use crate::spin::ttas::RawTtasLock;

macro_rules! exclusive {
    ($lock:ident $(<$kind:ident: $bound:ident>)?, $guard:ty, $watched:expr, $safety:literal) => {
        #[doc = $safety]
        // SAFETY: see the doc line: the lock's theory page argues mutual exclusion and Acquire on
        // Release.
        unsafe impl<P: ConstPlatform $(, $kind: $bound<P>)?> lock_api::RawMutex for $lock<P $(, $kind)?> {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
            const INIT: Self = Self::new();
            type Guard = $guard;

            #[inline]
            fn lock(&self) -> Self::Guard {
                deadlock::acquire(self, $watched, Exclusive, || self.try_acquire(), || self.acquire());
                <$guard>::new()
            }

            #[inline]
            fn try_lock(&self) -> Option<Self::Guard> {
                deadlock::attempt(self, $watched, Exclusive, self.try_acquire()).then(<$guard>::new)
            }

            #[inline]
            unsafe fn unlock(&self, _guard: Self::Guard) {
                deadlock::released(self, $watched);
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

exclusive!(RawMutex, lock_api::GuardNoSend, deadlock::MUTEX, "One thread owns the word at a time.");
exclusive!(RawQueuedSpinLock<K: Kind>, lock_api::GuardSend, None, "One thread sets the locked byte at a time.");
exclusive!(
    RawMcsLock,
    lock_api::GuardSend,
    None,
    "One thread takes the free word, or is named by the owner before it."
);
exclusive!(RawTicketLock, lock_api::GuardSend, None, "One thread draws each number.");
exclusive!(RawTtasLock, lock_api::GuardSend, None, "One thread sets the word at a time.");

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
        let wait = || self.acquire().unwrap_or_else(|cycle| super::refused(&cycle));
        deadlock::acquire(self, deadlock::TREE_RT_MUTEX, Exclusive, || self.try_acquire(), wait);
        lock_api::GuardNoSend::new()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard> {
        let taken = deadlock::attempt(self, deadlock::TREE_RT_MUTEX, Exclusive, self.try_acquire());
        taken.then(lock_api::GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: Self::Guard) {
        deadlock::released(self, deadlock::TREE_RT_MUTEX);
        // SAFETY: the guard stands for an acquisition of this lock.
        if let Err(error) = unsafe { self.release() } {
            super::refused(&error);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_locked()
    }
}
