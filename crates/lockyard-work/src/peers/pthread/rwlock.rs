//! `pthread_rwlock_t` of both kinds glibc knows.

use core::ffi::c_int;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::{Pinned, had, must};
use crate::subject::{Exclusive, Shared};

/// Who goes first. Numbers are glibc's (`PTHREAD_RWLOCK_PREFER_…_NP`), which the libc crate does
/// not list for it.
pub trait Kind: Send + Sync + 'static {
    const KIND: c_int;
}

/// The default: readers go first.
#[derive(Debug)]
pub struct PreferReader;

impl Kind for PreferReader {
    const KIND: c_int = 0;
}

/// Writers go first; readers must not nest.
#[derive(Debug)]
pub(crate) struct PreferWriter;

impl Kind for PreferWriter {
    const KIND: c_int = 2;
}

/// `pthread_rwlock_t` of kind `K`.
#[derive(Debug)]
pub struct RwLock<K>(Pinned<libc::pthread_rwlock_t>, PhantomData<K>);

impl<K> RwLock<K> {
    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: called by `with` and `with_shared` after they have locked.
        must("pthread_rwlock_unlock", unsafe { libc::pthread_rwlock_unlock(self.0.get()) });
    }
}

impl<K: Kind> Exclusive for RwLock<K> {
    fn new() -> Self {
        let lock = Pinned::new(libc::PTHREAD_RWLOCK_INITIALIZER);
        let mut attributes = MaybeUninit::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised before use and destroyed after; nobody else knows
        // the lock yet.
        unsafe {
            must("pthread_rwlockattr_init", libc::pthread_rwlockattr_init(attributes));
            must("pthread_rwlockattr_setkind_np", libc::pthread_rwlockattr_setkind_np(attributes, K::KIND));
            must("pthread_rwlock_init", libc::pthread_rwlock_init(lock.get(), attributes));
            libc::pthread_rwlockattr_destroy(attributes);
        }
        Self(lock, PhantomData)
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: `new` initialised the lock, and it stays where it is.
        must("pthread_rwlock_wrlock", unsafe { libc::pthread_rwlock_wrlock(self.0.get()) });
        let result = section();
        self.unlock();
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: as in `with`.
        let taken = had("pthread_rwlock_trywrlock", unsafe { libc::pthread_rwlock_trywrlock(self.0.get()) });
        taken.then(|| {
            let result = section();
            self.unlock();
            result
        })
    }
}

impl<K: Kind> Shared for RwLock<K> {
    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: `new` initialised the lock, and it stays where it is.
        must("pthread_rwlock_rdlock", unsafe { libc::pthread_rwlock_rdlock(self.0.get()) });
        let result = section();
        self.unlock();
        result
    }

    fn try_with_shared<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: as in `with`.
        let taken = had("pthread_rwlock_tryrdlock", unsafe { libc::pthread_rwlock_tryrdlock(self.0.get()) });
        taken.then(|| {
            let result = section();
            self.unlock();
            result
        })
    }
}

impl<K> Drop for RwLock<K> {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more, and it is unlocked: locks are held for a call only.
        unsafe { libc::pthread_rwlock_destroy(self.0.get()) };
    }
}
