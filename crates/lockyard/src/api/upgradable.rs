//! A reader-writer lock with upgradable reads: a semaphore behind a gate.
//!
//! An upgradable reader reads beside other readers, and may become the writer without letting
//! another writer in between.
//!
//! | thread | `gate`, a mutex | `sem` |
//! |---|---|---|
//! | reader | – | for reading |
//! | upgradable reader | takes it first | for reading |
//! | writer | takes it first | for writing |
//! | upgrade | keeps it | releases the read, takes it for writing: no other writer is there |
//! | downgrade of a writer | keeps it for an upgradable read, or releases it | downgrades |
//!
//! `RECURSIVE`: a reader that has waited behind a writer for [`BESIDE_NS`] goes in beside other
//! readers ([`read_acquire_beside`](RawRwSem::read_acquire_beside)); a try, at once: readers that
//! only try keep a writer out for as long as they overlap.
//!
//! **Ordering** is that of `sem`. **Bound on bypass**: readers by that of `sem`; writers and
//! upgradable readers among themselves by that of `gate`, where a turn lasts as long as a hold.
//!
//! **A waiter may hold the gate**: a writer, or an upgradable reader, that waits for `sem`. If a
//! signal handler stops it there, writers wait until it goes on, and readers do not. In the child
//! of a fork the gate of a parent's waiter stays locked. (The gate cannot come second: a reader
//! that waited for it would keep the upgrade of its owner waiting.)

use lock_api::{GuardNoSend, RawRwLockUpgrade as _};

use super::calls::{self, Watched};
use super::cancellable::{RawRwLockCancellable, timed_rwlock};
use super::shared::bumps;
use crate::cancel::{GaveUp, Until};
use crate::deadlock::{Mode::Exclusive, Mode::Shared, Mode::Upgradable, Mode::Upgrading};
use crate::mutex::RawMutex;
use crate::platform::watch::{Class, Look, Owner};
use crate::platform::{ConstPlatform, Platform};
use crate::rwsem::RawRwSem;
use crate::wait::turn::TURN_NS;

/// How long a recursive reader waits behind a writer.
const BESIDE_NS: u64 = 4 * TURN_NS;

/// A reader-writer lock with upgradable reads: 64 bytes.
///
/// Fairness of readers: as [`RawRwSem`](super::RawRwSem); of writers and upgradable readers among
/// themselves: as [`RawMutex`](super::RawMutex), where a turn lasts as long as a hold. Cost without
/// contention: a read is that of `RawRwSem`; a write, and an upgradable read, take two locks.
/// Programs without upgradable reads are better off with `RawRwSem`. `RECURSIVE`: a reader may read
/// again while it reads. Theory: `src/api/upgradable.rs`.
#[derive(Debug)]
#[repr(C)]
pub struct RawUpgradableRwSem<P: Platform, const RECURSIVE: bool = false> {
    sem: RawRwSem<P>,
    gate: RawMutex<P>,
    class: Class,
}

impl<P: Platform, const RECURSIVE: bool> Look for RawUpgradableRwSem<P, RECURSIVE> {
    fn owner(&self) -> Owner {
        Owner::Noted
    }

    fn is_contended(&self) -> bool {
        Self::is_contended(self)
    }
}

impl<P: Platform, const RECURSIVE: bool> Watched for RawUpgradableRwSem<P, RECURSIVE> {
    const KIND: &'static str = if RECURSIVE { "RecursiveRwLock" } else { "RwLock" };
    const OWNED: bool = true;

    fn class(&self) -> Option<&Class> {
        Some(&self.class)
    }
}

impl<P: Platform, const RECURSIVE: bool> RawUpgradableRwSem<P, RECURSIVE> {
    /// Whether somebody waits. For tests.
    #[doc(hidden)]
    pub fn is_contended(&self) -> bool {
        self.gate.is_contended() || self.sem.is_contended()
    }

    #[inline]
    fn read_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if !RECURSIVE {
            return self.sem.read_acquire_until(until);
        }
        if self.sem.try_read_acquire() {
            return Ok(());
        }
        let beside = P::now().saturating_add(BESIDE_NS);
        self.sem.read_acquire_beside(until, || P::now() >= beside)
    }

    #[inline]
    fn try_read(&self) -> bool {
        self.sem.try_read_acquire() || (RECURSIVE && self.sem.try_read_again())
    }

    /// Takes `sem` by `take` behind the gate, or neither.
    #[inline]
    fn behind_gate(&self, until: Until<'_, P>, take: impl FnOnce() -> Result<(), GaveUp>) -> Result<(), GaveUp> {
        self.gate.acquire_until(until)?;
        let taken = take();
        if taken.is_err() {
            // SAFETY: acquired above.
            unsafe { self.gate.release() };
        }
        taken
    }

    #[inline]
    fn write_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.behind_gate(until, || self.sem.write_acquire_until(until))
    }

    #[inline]
    fn try_write(&self) -> bool {
        self.try_behind_gate(|| self.sem.try_write_acquire())
    }

    #[inline]
    fn upgradable_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.behind_gate(until, || self.read_until(until))
    }

    /// Takes `sem` by `take` if the gate is open, or neither.
    #[inline]
    fn try_behind_gate(&self, take: impl FnOnce() -> bool) -> bool {
        if !self.gate.try_acquire() {
            return false;
        }
        let taken = take();
        if !taken {
            // SAFETY: acquired above.
            unsafe { self.gate.release() };
        }
        taken
    }

    /// What an attempt to become the writer has come to.
    fn upgraded(&self, upgraded: bool, guard: GuardNoSend) -> Result<GuardNoSend, GuardNoSend> {
        if !upgraded {
            return Err(guard);
        }
        calls::upgraded(self, Upgradable, Exclusive);
        Ok(guard)
    }

    /// The upgradable reader becomes the writer by `take`; if that fails it is what it was.
    ///
    /// # Safety
    /// The caller is the upgradable reader.
    unsafe fn upgrade_by(&self, take: impl FnOnce() -> bool) -> bool {
        // SAFETY: the upgradable reader is a reader.
        unsafe { self.sem.read_release() };
        let upgraded = take();
        if !upgraded {
            // No writer comes in between: it would need the gate.
            self.sem.read_acquire();
        }
        upgraded
    }
}

// SAFETY: `sem` is a reader-writer lock.
unsafe impl<P: ConstPlatform, const RECURSIVE: bool> lock_api::RawRwLock for RawUpgradableRwSem<P, RECURSIVE> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self { sem: RawRwSem::new(), gate: RawMutex::new(), class: Class::new() };
    type SharedGuard = GuardNoSend;
    type ExclusiveGuard = GuardNoSend;

    #[inline]
    fn lock_shared(&self) -> GuardNoSend {
        // Without an end the wait cannot fail.
        let wait = || _ = self.read_until(Until::FOREVER);
        calls::acquire(self, Shared, || self.sem.try_read_acquire(), wait);
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardNoSend> {
        calls::attempt(self, Shared, || self.try_read()).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for a read acquisition.
        calls::release(self, Shared, || unsafe { self.sem.read_release() });
    }

    #[inline]
    fn lock_exclusive(&self) -> GuardNoSend {
        // Without an end the wait cannot fail.
        let wait = || _ = self.write_until(Until::FOREVER);
        calls::acquire(self, Exclusive, || self.try_write(), wait);
        GuardNoSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardNoSend> {
        calls::attempt(self, Exclusive, || self.try_write()).then(GuardNoSend::new)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for both.
        calls::release(self, Exclusive, || unsafe {
            self.sem.write_release();
            self.gate.release();
        });
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.sem.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.sem.is_write_locked()
    }
}

// SAFETY: the write lock becomes a read lock in one step.
unsafe impl<P: ConstPlatform, const RECURSIVE: bool> lock_api::RawRwLockDowngrade for RawUpgradableRwSem<P, RECURSIVE> {
    unsafe fn downgrade(&self, _guard: GuardNoSend) -> GuardNoSend {
        calls::changed(self, Exclusive, Shared);
        // SAFETY: the guard stands for both.
        unsafe {
            self.sem.downgrade();
            self.gate.release();
        }
        GuardNoSend::new()
    }
}

// SAFETY: `gate` admits one upgradable reader or writer at a time; the reader is one of the
// readers, and no writer comes between the steps of its upgrade.
unsafe impl<P: ConstPlatform, const RECURSIVE: bool> lock_api::RawRwLockUpgrade for RawUpgradableRwSem<P, RECURSIVE> {
    type UpgradableGuard = GuardNoSend;

    #[inline]
    fn lock_upgradable(&self) -> GuardNoSend {
        // Without an end the wait cannot fail.
        let wait = || _ = self.upgradable_until(Until::FOREVER);
        let attempt = || self.try_behind_gate(|| self.sem.try_read_acquire());
        calls::acquire(self, Upgradable, attempt, wait);
        GuardNoSend::new()
    }

    fn try_lock_upgradable(&self) -> Option<GuardNoSend> {
        let attempt = || self.try_behind_gate(|| self.try_read());
        calls::attempt(self, Upgradable, attempt).then(GuardNoSend::new)
    }

    unsafe fn unlock_upgradable(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for both.
        calls::release(self, Upgradable, || unsafe {
            self.sem.read_release();
            self.gate.release();
        });
    }

    #[inline]
    unsafe fn upgrade(&self, guard: GuardNoSend) -> GuardNoSend {
        let take = || {
            self.sem.write_acquire();
            true
        };
        // SAFETY: the guard stands for the upgradable read.
        let attempt = || unsafe { self.upgrade_by(|| self.sem.try_write_acquire()) };
        // SAFETY: likewise.
        let wait = || _ = unsafe { self.upgrade_by(take) };
        calls::acquire(self, Upgrading, attempt, wait);
        calls::upgraded(self, Upgradable, Exclusive);
        guard
    }

    unsafe fn try_upgrade(&self, guard: GuardNoSend) -> Result<GuardNoSend, GuardNoSend> {
        // SAFETY: the guard stands for the upgradable read.
        let attempt = || unsafe { self.upgrade_by(|| self.sem.try_write_acquire()) };
        self.upgraded(calls::upgrade_until(self, attempt, None::<fn() -> bool>), guard)
    }
}

// SAFETY: a fair release is a release.
unsafe impl<P: ConstPlatform, const RECURSIVE: bool> lock_api::RawRwLockFair for RawUpgradableRwSem<P, RECURSIVE> {
    unsafe fn unlock_shared_fair(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for a read acquisition.
        calls::release(self, Shared, || unsafe { self.sem.read_release_fair() });
    }

    unsafe fn unlock_exclusive_fair(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for both.
        calls::release(self, Exclusive, || unsafe {
            self.sem.write_release_fair();
            self.gate.release_fair();
        });
    }

    bumps!(|lock| lock.sem.is_contended(), lock.is_contended(), GuardNoSend);
}

// SAFETY: a fair release is a release.
unsafe impl<P: ConstPlatform, const RECURSIVE: bool> lock_api::RawRwLockUpgradeFair
    for RawUpgradableRwSem<P, RECURSIVE>
{
    unsafe fn unlock_upgradable_fair(&self, _guard: GuardNoSend) {
        // SAFETY: the guard stands for both.
        calls::release(self, Upgradable, || unsafe {
            self.sem.read_release_fair();
            self.gate.release_fair();
        });
    }

    unsafe fn bump_upgradable(&self, guard: &mut GuardNoSend) {
        if self.is_contended() {
            // SAFETY: the guard stands for both, before and after.
            unsafe { self.unlock_upgradable_fair(core::mem::replace(guard, GuardNoSend::new())) };
            *guard = self.lock_upgradable();
        }
    }
}

// SAFETY: each step keeps the reader a reader.
unsafe impl<P: ConstPlatform, const RECURSIVE: bool> lock_api::RawRwLockUpgradeDowngrade
    for RawUpgradableRwSem<P, RECURSIVE>
{
    unsafe fn downgrade_upgradable(&self, guard: GuardNoSend) -> GuardNoSend {
        calls::changed(self, Upgradable, Shared);
        // SAFETY: the guard stands for both; one stays.
        unsafe { self.gate.release() };
        guard
    }

    unsafe fn downgrade_to_upgradable(&self, guard: GuardNoSend) -> GuardNoSend {
        calls::changed(self, Exclusive, Upgradable);
        // SAFETY: the guard stands for both; the gate stays.
        unsafe { self.sem.downgrade() };
        guard
    }
}

// SAFETY: an acquisition.
unsafe impl<P: ConstPlatform, const RECURSIVE: bool> RawRwLockCancellable for RawUpgradableRwSem<P, RECURSIVE> {
    type Platform = P;

    #[inline(always)]
    fn lock_shared_within(&self, until: Until<'_, P>) -> Result<GuardNoSend, GaveUp> {
        calls::acquire_until(self, Shared, || self.sem.try_read_acquire(), || self.read_until(until))?;
        Ok(GuardNoSend::new())
    }

    #[inline(always)]
    fn lock_exclusive_within(&self, until: Until<'_, P>) -> Result<GuardNoSend, GaveUp> {
        calls::acquire_until(self, Exclusive, || self.try_write(), || self.write_until(until))?;
        Ok(GuardNoSend::new())
    }
}
timed_rwlock!([P: ConstPlatform, const RECURSIVE: bool] RawUpgradableRwSem<P, RECURSIVE>);

#[cfg(feature = "std")]
mod timed {
    use core::time::Duration;

    use lock_api::GuardNoSend;

    use super::{RawUpgradableRwSem, Upgradable, calls};
    use crate::api::time::{after, at};
    use crate::cancel::Until;
    use crate::platform::ConstPlatform;

    // SAFETY: as the untimed; an unsuccessful one does not return before its deadline.
    unsafe impl<P: ConstPlatform, const RECURSIVE: bool> lock_api::RawRwLockUpgradeTimed
        for RawUpgradableRwSem<P, RECURSIVE>
    {
        fn try_lock_upgradable_for(&self, timeout: Duration) -> Option<GuardNoSend> {
            self.upgradable_within(after(timeout))
        }

        fn try_lock_upgradable_until(&self, deadline: Self::Instant) -> Option<GuardNoSend> {
            self.upgradable_within(at(deadline))
        }

        unsafe fn try_upgrade_for(&self, held: GuardNoSend, timeout: Duration) -> Result<GuardNoSend, GuardNoSend> {
            // SAFETY: the caller's promise.
            unsafe { self.upgrade_within(held, after(timeout)) }
        }

        unsafe fn try_upgrade_until(
            &self,
            held: GuardNoSend,
            deadline: Self::Instant,
        ) -> Result<GuardNoSend, GuardNoSend> {
            // SAFETY: the caller's promise.
            unsafe { self.upgrade_within(held, at(deadline)) }
        }
    }

    impl<P: ConstPlatform, const RECURSIVE: bool> RawUpgradableRwSem<P, RECURSIVE> {
        fn upgradable_within(&self, until: Until<'static, P>) -> Option<GuardNoSend> {
            let attempt = || self.try_behind_gate(|| self.sem.try_read_acquire());
            calls::acquire_until(self, Upgradable, attempt, || self.upgradable_until(until)).ok()?;
            Some(GuardNoSend::new())
        }

        /// # Safety
        /// As `try_upgrade_for`.
        unsafe fn upgrade_within(
            &self,
            held: GuardNoSend,
            until: Until<'static, P>,
        ) -> Result<GuardNoSend, GuardNoSend> {
            // SAFETY: the guard stands for the upgradable read.
            let attempt = || unsafe { self.upgrade_by(|| self.sem.try_write_acquire()) };
            // SAFETY: likewise.
            let wait = || unsafe { self.upgrade_by(|| self.sem.write_acquire_until(until).is_ok()) };
            self.upgraded(calls::upgrade_until(self, attempt, Some(wait)), held)
        }
    }
}
