//! `pthread_mutex_t` of three kinds.

use core::ffi::c_int;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use super::{Pinned, had, must};
use crate::subject::Exclusive;

/// What sort of mutex.
pub trait Kind: Send + Sync + 'static {
    const TYPE: c_int = libc::PTHREAD_MUTEX_NORMAL;
    const PROTOCOL: c_int = libc::PTHREAD_PRIO_NONE;
}

/// The default.
#[derive(Debug)]
pub struct Normal;

impl Kind for Normal {}

/// Spins a little before it sleeps.
#[derive(Debug)]
pub(crate) struct Adaptive;

impl Kind for Adaptive {
    const TYPE: c_int = libc::PTHREAD_MUTEX_ADAPTIVE_NP;
}

/// Priority inheritance.
#[derive(Debug)]
pub(crate) struct Inherit;

impl Kind for Inherit {
    const PROTOCOL: c_int = libc::PTHREAD_PRIO_INHERIT;
}

/// `pthread_mutex_t` of kind `K`.
#[derive(Debug)]
pub struct Mutex<K>(Pinned<libc::pthread_mutex_t>, PhantomData<K>);

impl<K: Kind> Exclusive for Mutex<K> {
    fn new() -> Self {
        let mutex = Pinned::new(libc::PTHREAD_MUTEX_INITIALIZER);
        let mut attributes = MaybeUninit::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised before use and destroyed after; nobody else knows
        // the mutex yet.
        unsafe {
            must("pthread_mutexattr_init", libc::pthread_mutexattr_init(attributes));
            must("pthread_mutexattr_settype", libc::pthread_mutexattr_settype(attributes, K::TYPE));
            must("pthread_mutexattr_setprotocol", libc::pthread_mutexattr_setprotocol(attributes, K::PROTOCOL));
            must("pthread_mutex_init", libc::pthread_mutex_init(mutex.get(), attributes));
            libc::pthread_mutexattr_destroy(attributes);
        }
        Self(mutex, PhantomData)
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: `new` initialised the mutex, and it stays where it is.
        must("pthread_mutex_lock", unsafe { libc::pthread_mutex_lock(self.0.get()) });
        let result = section();
        // SAFETY: this thread locked it above.
        must("pthread_mutex_unlock", unsafe { libc::pthread_mutex_unlock(self.0.get()) });
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: as in `with`.
        let taken = had("pthread_mutex_trylock", unsafe { libc::pthread_mutex_trylock(self.0.get()) });
        taken.then(|| {
            let result = section();
            // SAFETY: this thread locked it above.
            must("pthread_mutex_unlock", unsafe { libc::pthread_mutex_unlock(self.0.get()) });
            result
        })
    }
}

impl<K> Drop for Mutex<K> {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more, and it is unlocked: `with` holds it for a call only.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) };
    }
}
