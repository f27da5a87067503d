//! A lock with a reference count.

use lockyard::lockref::LockRef;
use lockyard::platform::Platform;
use lockyard::spin::WordLock;

use crate::lock::{Last, Lock, References, Way};

/// Its spinlock as a lock.
impl<P: Platform, K: WordLock<P>> Lock for LockRef<P, K> {
    type P = P;

    #[inline(always)]
    fn lock(&self, _way: Way) {
        core::mem::forget(self.lock());
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.try_lock().map(core::mem::forget).is_some()
    }

    #[inline(always)]
    unsafe fn unlock(&self, _way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.force_unlock() };
    }

    /// Nor waits: that is all that the lock tells.
    fn is_open(&self, _way: Way) -> bool {
        !self.is_locked()
    }

    fn at_rest(&self) -> bool {
        !self.is_locked() && self.count() == 0
    }
}

impl<P: Platform, K: WordLock<P>> References for LockRef<P, K> {
    fn with_count(count: u16) -> Self {
        Self::with_count(count)
    }

    fn count(&self) -> i32 {
        self.count()
    }

    fn get(&self) {
        self.get();
    }

    fn get_not_zero(&self) -> bool {
        self.get_not_zero()
    }

    fn get_not_dead(&self) -> bool {
        self.get_not_dead()
    }

    fn put_return(&self) -> Option<u32> {
        self.put_return()
    }

    fn put_or(&self, last: impl FnOnce(i32) -> Last) -> bool {
        let Some(guard) = self.put_or_lock() else { return false };
        if last(guard.count()) == Last::Put {
            guard.put();
        }
        true
    }

    fn kill(&self) {
        self.lock().mark_dead();
    }
}
