//! `lock_api::RawRwLock` for the locks with readers.

use lock_api::{GuardNoSend, GuardSend};

use crate::platform::ConstPlatform;
use crate::qrwlock::RawQRwLock;
use crate::read_mostly::{self, RawReadMostlyRwSem};
use crate::rwsem::RawRwSem;

macro_rules! shared {
    ($lock:ident $(<$y:ident: $policy:path>)?, $guard:ident, $safety:literal) => {
        #[doc = $safety]
        // SAFETY: see the doc line: the lock's theory page argues exclusion and Acquire on Release.
        unsafe impl<P: ConstPlatform $(, $y: $policy)?> lock_api::RawRwLock for $lock<P $(, $y)?> {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
            const INIT: Self = Self::new();
            type SharedGuard = $guard;
            type ExclusiveGuard = $guard;

            #[inline]
            fn lock_shared(&self) -> $guard {
                self.read_acquire();
                $guard::new()
            }

            #[inline]
            fn try_lock_shared(&self) -> Option<$guard> {
                self.try_read_acquire().then($guard::new)
            }

            #[inline]
            unsafe fn unlock_shared(&self, _guard: $guard) {
                // SAFETY: the guard stands for a read acquisition.
                unsafe { self.read_release() };
            }

            #[inline]
            fn lock_exclusive(&self) -> $guard {
                self.write_acquire();
                $guard::new()
            }

            #[inline]
            fn try_lock_exclusive(&self) -> Option<$guard> {
                self.try_write_acquire().then($guard::new)
            }

            #[inline]
            unsafe fn unlock_exclusive(&self, _guard: $guard) {
                // SAFETY: the guard stands for the write acquisition.
                unsafe { self.write_release() };
            }

            #[inline]
            fn is_locked(&self) -> bool {
                self.is_locked()
            }

            #[inline]
            fn is_locked_exclusive(&self) -> bool {
                self.is_write_locked()
            }
        }

        // SAFETY: the write lock becomes a read lock in one step, with Release.
        unsafe impl<P: ConstPlatform $(, $y: $policy)?> lock_api::RawRwLockDowngrade for $lock<P $(, $y)?> {
            unsafe fn downgrade(&self, _guard: $guard) -> $guard {
                // SAFETY: the guard stands for the write acquisition.
                unsafe { self.downgrade() };
                $guard::new()
            }
        }
    };
}

shared!(RawRwSem, GuardNoSend, "A writer excludes everybody, readers exclude writers.");
shared!(
    RawReadMostlyRwSem<Y: read_mostly::Policy>,
    GuardNoSend,
    "A writer has the rwsem, and no reader is in a seat."
);
shared!(RawQRwLock, GuardSend, "A writer takes the whole word, readers find no writer in it.");

#[cfg(feature = "history")]
mod history {
    use lock_api::{GuardNoSend, GuardSend};

    use crate::history::{KernelQRwLock, KernelRwSem, qrwlock, rwsem};
    use crate::platform::ConstPlatform;

    shared!(KernelRwSem<Y: rwsem::policy::Policy>, GuardNoSend, "As the rwsem that people use.");
    shared!(KernelQRwLock<Y: qrwlock::policy::Policy>, GuardSend, "As the qrwlock that people use.");
}

#[cfg(feature = "std")]
mod timed {
    use core::time::Duration;

    use lock_api::GuardNoSend;

    use crate::api::time::{after, at};
    #[cfg(feature = "history")]
    use crate::history::KernelRwSem;
    use crate::platform::ConstPlatform;
    use crate::read_mostly::RawReadMostlyRwSem;
    use crate::rwsem::RawRwSem;

    macro_rules! timed {
        ($lock:ident $(<$y:ident: $policy:path>)?) => {
            // SAFETY: a timed acquisition is an acquisition; an unsuccessful one does not return
            // before its deadline.
            unsafe impl<P: ConstPlatform $(, $y: $policy)?> lock_api::RawRwLockTimed for $lock<P $(, $y)?> {
                type Duration = Duration;
                #[allow(clippy::disallowed_types)] // lock_api's users speak std
                type Instant = std::time::Instant;

                fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardNoSend> {
                    self.read_acquire_until(after(timeout)).ok().map(|()| GuardNoSend::new())
                }

                fn try_lock_shared_until(&self, deadline: Self::Instant) -> Option<GuardNoSend> {
                    self.read_acquire_until(at(deadline)).ok().map(|()| GuardNoSend::new())
                }

                fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardNoSend> {
                    self.write_acquire_until(after(timeout)).ok().map(|()| GuardNoSend::new())
                }

                fn try_lock_exclusive_until(&self, deadline: Self::Instant) -> Option<GuardNoSend> {
                    self.write_acquire_until(at(deadline)).ok().map(|()| GuardNoSend::new())
                }
            }
        };
    }

    timed!(RawRwSem);
    timed!(RawReadMostlyRwSem<Y: crate::read_mostly::Policy>);
    #[cfg(feature = "history")]
    timed!(KernelRwSem<Y: crate::history::rwsem::policy::Policy>);
}
