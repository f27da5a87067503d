//! The raw locks with readers, as `lock_api` has them.

use lock_api::{GuardNoSend, GuardSend};

use crate::platform::{ConstPlatform, Platform};
use crate::{qrwlock, rwsem};

/// The rw-semaphore: many readers or one writer, 32 bytes.
///
/// Fairness: running threads pass a waiter, reader or writer, for at most a turn, 0.4 ms, per
/// waiter ahead of it. Ordering: what a writer did happens before the next acquisition returns, and
/// what readers did before the next writer's. Cost without contention: a read one addition each
/// way, a write one compare-exchange and one `and`. A waiter spins while a writer runs, then
/// sleeps. Not recursive, for readers either. Theory: `src/rwsem/mod.rs`.
#[derive(Debug)]
#[repr(transparent)]
pub struct RawRwSem<P: Platform>(pub(crate) rwsem::RawRwSem<P>);

/// The queued reader-writer spinlock: 16 bytes, for short sections.
///
/// Fairness and ordering: as [`RawRwSem`]. A waiter spins, then sleeps. A guard may go to another
/// thread. Not recursive, for readers either. Theory: `src/qrwlock/mod.rs`.
///
/// ```
/// static ROUTES: lockyard::QRwLock<[u8; 4]> = lockyard::QRwLock::new([1, 2, 3, 4]);
/// assert_eq!(ROUTES.read().len(), 4);
/// ROUTES.write()[0] = 9;
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct RawQRwLock<P: Platform>(qrwlock::RawQRwLock<P>);

macro_rules! shared {
    ($lock:ident $(<$y:ident: $policy:path>)? $(. $raw:tt)?, $new:expr, $guard:ident) => {
        // SAFETY: a writer excludes everybody, readers exclude writers: the lock's theory page
        // argues that, and Acquire on Release.
        unsafe impl<P: ConstPlatform $(, $y: $policy)?> lock_api::RawRwLock for $lock<P $(, $y)?> {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
            const INIT: Self = $new;
            type SharedGuard = $guard;
            type ExclusiveGuard = $guard;

            #[inline]
            fn lock_shared(&self) -> $guard {
                self$(.$raw)?.read_acquire();
                $guard::new()
            }

            #[inline]
            fn try_lock_shared(&self) -> Option<$guard> {
                self$(.$raw)?.try_read_acquire().then($guard::new)
            }

            #[inline]
            unsafe fn unlock_shared(&self, _guard: $guard) {
                // SAFETY: the guard stands for a read acquisition.
                unsafe { self$(.$raw)?.read_release() };
            }

            #[inline]
            fn lock_exclusive(&self) -> $guard {
                self$(.$raw)?.write_acquire();
                $guard::new()
            }

            #[inline]
            fn try_lock_exclusive(&self) -> Option<$guard> {
                self$(.$raw)?.try_write_acquire().then($guard::new)
            }

            #[inline]
            unsafe fn unlock_exclusive(&self, _guard: $guard) {
                // SAFETY: the guard stands for the write acquisition.
                unsafe { self$(.$raw)?.write_release() };
            }

            #[inline]
            fn is_locked(&self) -> bool {
                self$(.$raw)?.is_locked()
            }

            #[inline]
            fn is_locked_exclusive(&self) -> bool {
                self$(.$raw)?.is_write_locked()
            }
        }

        // SAFETY: the write lock becomes a read lock in one step, with Release.
        unsafe impl<P: ConstPlatform $(, $y: $policy)?> lock_api::RawRwLockDowngrade for $lock<P $(, $y)?> {
            unsafe fn downgrade(&self, _guard: $guard) -> $guard {
                // SAFETY: the guard stands for the write acquisition.
                unsafe { self$(.$raw)?.downgrade() };
                $guard::new()
            }
        }
    };
}

shared!(RawRwSem.0, Self(rwsem::RawRwSem::new()), GuardNoSend);
shared!(RawQRwLock.0, Self(qrwlock::RawQRwLock::new()), GuardSend);

#[cfg(feature = "history")]
mod history {
    use lock_api::{GuardNoSend, GuardSend};

    use crate::history::{KernelQRwLock, KernelRwSem, qrwlock, rwsem};
    use crate::platform::ConstPlatform;

    shared!(KernelRwSem<Y: rwsem::policy::Policy>, Self::new(), GuardNoSend);
    shared!(KernelQRwLock<Y: qrwlock::policy::Policy>, Self::new(), GuardSend);
}

#[cfg(feature = "std")]
mod timed {
    use core::time::Duration;

    use lock_api::GuardNoSend;

    use crate::api::time::{after, at};
    #[cfg(feature = "history")]
    use crate::history::KernelRwSem;
    use crate::platform::ConstPlatform;

    use super::RawRwSem;

    macro_rules! timed {
        ($lock:ident $(<$y:ident: $policy:path>)? $(. $raw:tt)?) => {
            // SAFETY: a timed acquisition is an acquisition; an unsuccessful one does not return
            // before its deadline.
            unsafe impl<P: ConstPlatform $(, $y: $policy)?> lock_api::RawRwLockTimed for $lock<P $(, $y)?> {
                type Duration = Duration;
                #[allow(clippy::disallowed_types)] // lock_api's users speak std
                type Instant = std::time::Instant;

                fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardNoSend> {
                    self$(.$raw)?.read_acquire_until(after(timeout)).ok().map(|()| GuardNoSend::new())
                }

                fn try_lock_shared_until(&self, deadline: Self::Instant) -> Option<GuardNoSend> {
                    self$(.$raw)?.read_acquire_until(at(deadline)).ok().map(|()| GuardNoSend::new())
                }

                fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardNoSend> {
                    self$(.$raw)?.write_acquire_until(after(timeout)).ok().map(|()| GuardNoSend::new())
                }

                fn try_lock_exclusive_until(&self, deadline: Self::Instant) -> Option<GuardNoSend> {
                    self$(.$raw)?.write_acquire_until(at(deadline)).ok().map(|()| GuardNoSend::new())
                }
            }
        };
    }

    timed!(RawRwSem.0);
    #[cfg(feature = "history")]
    timed!(KernelRwSem<Y: crate::history::rwsem::policy::Policy>);
}
