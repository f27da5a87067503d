//! `lock_api::RawRwLock` for the locks with readers.

use lock_api::{GuardNoSend, GuardSend};

use crate::deadlock::{self, Mode::Exclusive, Mode::Shared};
use crate::platform::ConstPlatform;
use crate::qrwlock::RawQRwLock;
use crate::rwsem::RawRwSem;

macro_rules! shared {
    ($lock:ident $(<$y:ident: $policy:path>)?, $guard:ident, $watched:expr, $safety:literal) => {
        #[doc = $safety]
        // SAFETY: see the doc line: the lock's theory page argues exclusion and Acquire on Release.
        unsafe impl<P: ConstPlatform $(, $y: $policy)?> lock_api::RawRwLock for $lock<P $(, $y)?> {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
            const INIT: Self = Self::new();
            type SharedGuard = $guard;
            type ExclusiveGuard = $guard;

            #[inline]
            fn lock_shared(&self) -> $guard {
                deadlock::acquire(self, $watched, Shared, || self.try_read_acquire(), || self.read_acquire());
                $guard::new()
            }

            #[inline]
            fn try_lock_shared(&self) -> Option<$guard> {
                deadlock::attempt(self, $watched, Shared, self.try_read_acquire()).then($guard::new)
            }

            #[inline]
            unsafe fn unlock_shared(&self, _guard: $guard) {
                deadlock::released(self, $watched);
                // SAFETY: the guard stands for a read acquisition.
                unsafe { self.read_release() };
            }

            #[inline]
            fn lock_exclusive(&self) -> $guard {
                deadlock::acquire(self, $watched, Exclusive, || self.try_write_acquire(), || self.write_acquire());
                $guard::new()
            }

            #[inline]
            fn try_lock_exclusive(&self) -> Option<$guard> {
                deadlock::attempt(self, $watched, Exclusive, self.try_write_acquire()).then($guard::new)
            }

            #[inline]
            unsafe fn unlock_exclusive(&self, _guard: $guard) {
                deadlock::released(self, $watched);
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
                deadlock::changed(self, $watched, Shared);
                // SAFETY: the guard stands for the write acquisition.
                unsafe { self.downgrade() };
                $guard::new()
            }
        }
    };
}

shared!(RawRwSem, GuardNoSend, deadlock::RW_SEM, "A writer excludes everybody, readers exclude writers.");
shared!(RawQRwLock, GuardSend, deadlock::Q_RW_LOCK, "A writer takes the whole word, readers find no writer in it.");

#[cfg(feature = "history")]
mod history {
    use lock_api::{GuardNoSend, GuardSend};

    use crate::deadlock::{self, Mode::Exclusive, Mode::Shared};
    use crate::history::{KernelQRwLock, KernelRwSem, qrwlock, rwsem};
    use crate::platform::ConstPlatform;

    shared!(KernelRwSem<Y: rwsem::policy::Policy>, GuardNoSend, None, "As the rwsem that people use.");
    shared!(KernelQRwLock<Y: qrwlock::policy::Policy>, GuardSend, None, "As the qrwlock that people use.");
}
