//! The locks that may be under a rwlock: what the wrapper asks of each.

use lockyard::cancel::Until;
use lockyard::history::rwsem::{KernelRwSem, policy::Policy};
use lockyard::platform::linux::Linux;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::RawRwSem;

use crate::deadline::Deadline;

/// The lock under the object, as the wrapper sees it.
pub(super) trait Lock {
    /// Whether there are as many readers as can be counted.
    fn is_full(&self) -> bool;
    fn try_read(&self) -> bool;
    /// For a thread that reads already.
    fn read_again(&self) -> bool;
    /// In its turn.
    fn read(&self, deadline: Option<&Deadline>) -> bool;
    /// As `read`, but in beside readers when `may` says so.
    fn read_beside(&self, deadline: Option<&Deadline>, may: impl Fn() -> bool) -> bool;
    fn write(&self);
    fn try_write(&self) -> bool;
    fn write_until(&self, deadline: &Deadline) -> bool;
    /// Whether threads wait for it, perhaps those of the parent of a fork.
    fn may_be_contended(&self) -> bool;
    fn is_locked(&self) -> bool;
    fn is_write_locked(&self) -> bool;
    unsafe fn read_release(&self);
    unsafe fn write_release(&self);
    unsafe fn forget_waiters(&self);
    /// A reader that holds nothing is about to take the lock, and would wait for it.
    #[inline]
    fn meet(&self) {}
    /// The object is destroyed.
    unsafe fn retire(&self) {}
}

macro_rules! rwlock {
    (
        $lock:ident $(<$policy:ident: $bound:path>)?,
        $read:ident, $read_release:ident, $write_release:ident, $contended:ident
    ) => {
impl$(<$policy: $bound>)? Lock for $lock<Linux $(, $policy)?> {
    fn is_full(&self) -> bool {
        $lock::is_full(self)
    }
    fn try_read(&self) -> bool {
        self.try_read_acquire()
    }
    fn read_again(&self) -> bool {
        self.try_read_again()
    }
    fn read(&self, deadline: Option<&Deadline>) -> bool {
        self.$read(deadline.map_or(Until::FOREVER, Deadline::until)).is_ok()
    }
    fn read_beside(&self, deadline: Option<&Deadline>, may: impl Fn() -> bool) -> bool {
        self.read_acquire_beside(deadline.map_or(Until::FOREVER, Deadline::until), may).is_ok()
    }
    #[inline]
    fn write(&self) {
        self.write_acquire();
    }
    fn try_write(&self) -> bool {
        self.try_write_acquire()
    }
    fn write_until(&self, deadline: &Deadline) -> bool {
        self.write_acquire_until(deadline.until()).is_ok()
    }
    fn may_be_contended(&self) -> bool {
        $lock::$contended(self)
    }
    fn is_locked(&self) -> bool {
        $lock::is_locked(self)
    }
    #[inline]
    fn is_write_locked(&self) -> bool {
        $lock::is_write_locked(self)
    }
    #[inline]
    unsafe fn read_release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.$read_release() };
    }
    #[inline]
    unsafe fn write_release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.$write_release() };
    }
    unsafe fn forget_waiters(&self) {
        // SAFETY: the caller's promise.
        unsafe { $lock::forget_waiters(self) };
    }
}
    };
}

rwlock!(RawRwSem, read_acquire_queued, read_release_detached, write_release_detached, may_be_contended);
rwlock!(KernelRwSem<Y: Policy>, read_acquire_until, read_release_detached, write_release_detached, is_contended);
rwlock!(RawQRwLock, read_acquire_queued, read_release, write_release, is_contended);
