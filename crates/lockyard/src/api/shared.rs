//! The raw locks with readers, as `lock_api` has them.

use lock_api::{GuardNoSend, GuardSend};

use super::calls::{self, Watched};
use super::cancellable::{RawRwLockCancellable, timed_rwlock};
use crate::cancel::{GaveUp, Until};
use crate::deadlock::{Mode::Exclusive, Mode::Shared};
use crate::platform::watch::{Class, Look, Owner};
use crate::platform::{ConstPlatform, Platform};
use crate::rwsem::apart;
use crate::{qrwlock, rwsem};

/// The rw-semaphore: many readers or one writer, 32 bytes.
///
/// Fairness: running threads pass a waiter, reader or writer, for at most a turn, 0.4 ms, per
/// waiter ahead of it. Ordering: what a writer did happens before the next acquisition returns, and
/// what readers did before the next writer's. Cost without contention: a read one addition each
/// way, a write one compare-exchange and one `and`. A waiter spins while a writer runs, then
/// sleeps. Not recursive, for readers either. Theory: `src/rwsem/mod.rs`.
#[cfg_attr(not(feature = "stat"), repr(transparent))]
pub struct RawRwSem<P: Platform>(pub(crate) rwsem::RawRwSem<P>, Class);

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
#[cfg_attr(not(feature = "stat"), repr(transparent))]
pub struct RawQRwLock<P: Platform>(qrwlock::RawQRwLock<P>, Class);

/// The rw-semaphore whose readers share nothing while writers are rare: 128 bytes.
///
/// While it is read by several threads, and hardly written, a reader counts itself near its CPU,
/// and touches no line that readers of other CPUs write. A writer closes that way in, and waits for
/// the readers inside. How many reads there are between two writes decides whether that goes on;
/// until then, and where 32 other locks do so already, it is a [`RawRwSem`]. It allocates nothing.
///
/// Fairness: a writer waits for the readers inside; a reader spins for 20 µs at most, and then
/// waits as in [`RawRwSem`]. Ordering: as [`RawRwSem`]. Cost, readers apart: a read two exchanges
/// on a line of the CPU's own; a write reads a line for each last-level cache or CPU. A try may
/// fail, though no writer is there, in the moment in which the mode changes. Not recursive, for
/// readers either. Memory: as [`RawRwSem`]; one that is forgotten, not dropped, may keep one of the
/// 32 places. Theory: `src/rwsem/apart/mod.rs`.
#[cfg_attr(not(feature = "stat"), repr(transparent))]
pub struct RawReadMostly<P: Platform>(apart::RawApartRwSem<P>, Class);

/// [`RawReadMostly`] whose readers are apart from the first read, and stay so: the kernel's
/// percpu-rwsem. Where 32 other locks have the room it is a [`RawRwSem`].
#[cfg_attr(not(feature = "stat"), repr(transparent))]
pub struct RawPerCpuRwSem<P: Platform>(apart::RawApartRwSem<P, apart::Always>, Class);

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
                let raw = &self$(.$raw)?;
                calls::acquire(self, Shared, || raw.try_read_acquire(), || raw.read_acquire());
                $guard::new()
            }

            #[inline]
            fn try_lock_shared(&self) -> Option<$guard> {
                calls::attempt(self, Shared, || self$(.$raw)?.try_read_acquire()).then($guard::new)
            }

            #[inline]
            unsafe fn unlock_shared(&self, _guard: $guard) {
                // SAFETY: the guard stands for a read acquisition.
                calls::release(self, Shared, || unsafe { self$(.$raw)?.read_release() });
            }

            #[inline]
            fn lock_exclusive(&self) -> $guard {
                let raw = &self$(.$raw)?;
                calls::acquire(self, Exclusive, || raw.try_write_acquire(), || raw.write_acquire());
                $guard::new()
            }

            #[inline]
            fn try_lock_exclusive(&self) -> Option<$guard> {
                calls::attempt(self, Exclusive, || self$(.$raw)?.try_write_acquire()).then($guard::new)
            }

            #[inline]
            unsafe fn unlock_exclusive(&self, _guard: $guard) {
                // SAFETY: the guard stands for the write acquisition.
                calls::release(self, Exclusive, || unsafe { self$(.$raw)?.write_release() });
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
            #[inline]
            unsafe fn downgrade(&self, _guard: $guard) -> $guard {
                calls::changed(self, Exclusive, Shared);
                // SAFETY: the guard stands for the write acquisition.
                unsafe { self$(.$raw)?.downgrade() };
                $guard::new()
            }
        }
    };
}

/// The calls that end.
macro_rules! within {
    ($lock:ident $(<$y:ident: $policy:path>)? $(. $raw:tt)?, $guard:ident) => {
        // SAFETY: an acquisition.
        unsafe impl<P: ConstPlatform $(, $y: $policy)?> RawRwLockCancellable for $lock<P $(, $y)?> {
            type Platform = P;

            #[inline(always)]
            fn lock_shared_within(&self, until: Until<'_, P>) -> Result<$guard, GaveUp> {
                let raw = &self$(.$raw)?;
                calls::acquire_until(self, Shared, || raw.try_read_acquire(), || raw.read_acquire_until(until))?;
                Ok($guard::new())
            }

            #[inline(always)]
            fn lock_exclusive_within(&self, until: Until<'_, P>) -> Result<$guard, GaveUp> {
                let raw = &self$(.$raw)?;
                calls::acquire_until(self, Exclusive, || raw.try_write_acquire(), || raw.write_acquire_until(until))?;
                Ok($guard::new())
            }
        }
        timed_rwlock!([P: ConstPlatform $(, $y: $policy)?] $lock<P $(, $y)?>);
    };
}

/// Gives the lock up and takes it again, if threads wait for what a reader holds, or a writer.
macro_rules! bumps {
    (|$lock:ident| $from_reader:expr, $from_writer:expr, $guard:ident) => {
        unsafe fn bump_shared(&self, guard: &mut $guard) {
            let $lock = self;
            if $from_reader {
                // SAFETY: the guard stands for a read acquisition, before and after.
                unsafe { self.unlock_shared_fair(core::mem::replace(guard, $guard::new())) };
                *guard = lock_api::RawRwLock::lock_shared(self);
            }
        }

        unsafe fn bump_exclusive(&self, guard: &mut $guard) {
            let $lock = self;
            if $from_writer {
                // SAFETY: the guard stands for the write acquisition, before and after.
                unsafe { self.unlock_exclusive_fair(core::mem::replace(guard, $guard::new())) };
                *guard = lock_api::RawRwLock::lock_exclusive(self);
            }
        }
    };
}

pub(super) use bumps;

macro_rules! looks {
    ($lock:ident) => {
        impl<P: Platform> core::fmt::Debug for $lock<P> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<P: Platform> Look for $lock<P> {
            fn owner(&self) -> Owner {
                Owner::Noted
            }

            fn is_contended(&self) -> bool {
                self.0.is_contended()
            }
        }
    };
}

looks!(RawRwSem);
looks!(RawReadMostly);
looks!(RawPerCpuRwSem);
looks!(RawQRwLock);

macro_rules! watched {
    ($lock:ident, $kind:literal, $owned:literal) => {
        impl<P: Platform> Watched for $lock<P> {
            const KIND: &'static str = $kind;
            const OWNED: bool = $owned;

            fn class(&self) -> Option<&Class> {
                Some(&self.1)
            }
        }
    };
}

watched!(RawRwSem, "RwSem", true);
watched!(RawReadMostly, "ReadMostly", true);
watched!(RawPerCpuRwSem, "PerCpuRwSem", true);
watched!(RawQRwLock, "QRwLock", false);

shared!(RawRwSem.0, Self(rwsem::RawRwSem::new(), Class::new()), GuardNoSend);
shared!(RawReadMostly.0, Self(apart::RawApartRwSem::new(), Class::new()), GuardNoSend);
shared!(RawPerCpuRwSem.0, Self(apart::RawApartRwSem::new(), Class::new()), GuardNoSend);

macro_rules! fair {
    ($lock:ident, $guard:ident) => {
        // SAFETY: a fair release is a release.
        unsafe impl<P: ConstPlatform> lock_api::RawRwLockFair for $lock<P> {
            unsafe fn unlock_shared_fair(&self, _guard: $guard) {
                // SAFETY: the guard stands for a read acquisition.
                calls::release(self, Shared, || unsafe { self.0.read_release_fair() });
            }

            unsafe fn unlock_exclusive_fair(&self, _guard: $guard) {
                // SAFETY: the guard stands for the write acquisition.
                calls::release(self, Exclusive, || unsafe { self.0.write_release_fair() });
            }

            bumps!(|lock| lock.0.is_contended(), lock.0.is_contended(), $guard);
        }
    };
}

fair!(RawRwSem, GuardNoSend);
fair!(RawQRwLock, GuardSend);

shared!(RawQRwLock.0, Self(qrwlock::RawQRwLock::new(), Class::new()), GuardSend);
within!(RawRwSem.0, GuardNoSend);
within!(RawReadMostly.0, GuardNoSend);
within!(RawPerCpuRwSem.0, GuardNoSend);
within!(RawQRwLock.0, GuardSend);

#[cfg(feature = "history")]
mod history {
    use lock_api::{GuardNoSend, GuardSend};

    use super::{Class, Look, RawRwLockCancellable, Watched, calls, timed_rwlock};
    use crate::cancel::{GaveUp, Until};
    use crate::deadlock::{Mode::Exclusive, Mode::Shared};
    use crate::history::{KernelQRwLock, KernelRwSem, qrwlock, rwsem};
    use crate::platform::ConstPlatform;

    impl<P: ConstPlatform, Y: rwsem::policy::Policy> Look for KernelRwSem<P, Y> {}
    impl<P: ConstPlatform, Y: qrwlock::policy::Policy> Look for KernelQRwLock<P, Y> {}

    impl<P: ConstPlatform, Y: rwsem::policy::Policy> Watched for KernelRwSem<P, Y> {
        const KIND: &'static str = "KernelRwSem";

        fn class(&self) -> Option<&Class> {
            None
        }
    }

    impl<P: ConstPlatform, Y: qrwlock::policy::Policy> Watched for KernelQRwLock<P, Y> {
        const KIND: &'static str = "KernelQRwLock";

        fn class(&self) -> Option<&Class> {
            None
        }
    }

    shared!(KernelRwSem<Y: rwsem::policy::Policy>, Self::new(), GuardNoSend);
    within!(KernelRwSem<Y: rwsem::policy::Policy>, GuardNoSend);
    shared!(KernelQRwLock<Y: qrwlock::policy::Policy>, Self::new(), GuardSend);
}
