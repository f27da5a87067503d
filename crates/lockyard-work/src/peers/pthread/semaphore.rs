//! `sem_t` with one unit.

use core::mem::MaybeUninit;

use super::{Pinned, must};
use crate::subject::Exclusive;

/// `sem_t`, private to the process, with one unit: down is lock, up is unlock.
#[derive(Debug)]
pub(crate) struct Semaphore(Pinned<MaybeUninit<libc::sem_t>>);

impl Semaphore {
    #[inline(always)]
    fn get(&self) -> *mut libc::sem_t {
        self.0.get().cast()
    }
}

impl Exclusive for Semaphore {
    fn new() -> Self {
        let semaphore = Self(Pinned::new(MaybeUninit::uninit()));
        // SAFETY: nobody else knows the semaphore yet.
        must("sem_init", unsafe { libc::sem_init(semaphore.get(), 0, 1) });
        semaphore
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: `new` initialised the semaphore, and it stays where it is. It fails only if a
        // signal came in between.
        while unsafe { libc::sem_wait(self.get()) } != 0 {}
        let result = section();
        // SAFETY: as above.
        must("sem_post", unsafe { libc::sem_post(self.get()) });
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: as in `with`.
        let taken = unsafe { libc::sem_trywait(self.get()) } == 0;
        taken.then(|| {
            let result = section();
            // SAFETY: as above.
            must("sem_post", unsafe { libc::sem_post(self.get()) });
            result
        })
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more, and nobody waits.
        unsafe { libc::sem_destroy(self.get()) };
    }
}
