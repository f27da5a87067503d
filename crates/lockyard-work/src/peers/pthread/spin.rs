//! `pthread_spinlock_t`.

use super::{Pinned, had, must};
use crate::subject::Exclusive;

/// `pthread_spinlock_t`, private to the process.
#[derive(Debug)]
pub struct Spin(Pinned<libc::pthread_spinlock_t>);

impl Exclusive for Spin {
    fn new() -> Self {
        let lock = Pinned::new(0);
        // SAFETY: nobody else knows the lock yet.
        must("pthread_spin_init", unsafe { libc::pthread_spin_init(lock.get(), libc::PTHREAD_PROCESS_PRIVATE) });
        Self(lock)
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: `new` initialised the lock, and it stays where it is.
        must("pthread_spin_lock", unsafe { libc::pthread_spin_lock(self.0.get()) });
        let result = section();
        // SAFETY: this thread locked it above.
        must("pthread_spin_unlock", unsafe { libc::pthread_spin_unlock(self.0.get()) });
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: as in `with`.
        let taken = had("pthread_spin_trylock", unsafe { libc::pthread_spin_trylock(self.0.get()) });
        taken.then(|| {
            let result = section();
            // SAFETY: this thread locked it above.
            must("pthread_spin_unlock", unsafe { libc::pthread_spin_unlock(self.0.get()) });
            result
        })
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more, and it is unlocked.
        unsafe { libc::pthread_spin_destroy(self.0.get()) };
    }
}
