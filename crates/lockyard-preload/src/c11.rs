//! `mtx_*` and `cnd_*` of C11, and the names with two underscores that older libraries call.
//!
//! glibc's C11 functions call its own pthread functions by private names, so ours have to stand for
//! both. The objects have the layouts of `pthread_mutex_t` and `pthread_cond_t`; results are other
//! numbers.

use core::ffi::{c_int, c_void};

use libc::{pthread_cond_t, pthread_mutex_t, pthread_mutexattr_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

use crate::{condvar, mutex, rwlock};

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

/// The one property that matters: every mutex can be waited for with a time. Unknown ones are
/// ignored, as in glibc.
const RECURSIVE: c_int = 1;

fn result(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

unsafe extern "C" {
    fn pthread_mutexattr_init(attributes: *mut pthread_mutexattr_t) -> c_int;
    fn pthread_mutexattr_settype(attributes: *mut pthread_mutexattr_t, kind: c_int) -> c_int;
}

/// C11 `mtx_init`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_init(mutex: *mut c_void, kind: c_int) -> c_int {
    let mut attributes = core::mem::MaybeUninit::<pthread_mutexattr_t>::uninit();
    // SAFETY: memory for attributes; then initialised; then memory for a mutex, as in C. (glibc's
    // attributes own nothing, and need no destruction.)
    unsafe {
        pthread_mutexattr_init(attributes.as_mut_ptr());
        if kind & RECURSIVE != 0 {
            pthread_mutexattr_settype(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_RECURSIVE);
        }
        result(mutex::pthread_mutex_init(mutex.cast(), attributes.as_ptr()))
    }
}

/// C11 `mtx_destroy`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_destroy(mutex: *mut c_void) {
    // SAFETY: as in C.
    unsafe { mutex::pthread_mutex_destroy(mutex.cast()) };
}

/// C11 `cnd_init`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_init(cond: *mut c_void) -> c_int {
    // SAFETY: as in C.
    result(unsafe { condvar::pthread_cond_init(cond.cast(), core::ptr::null()) })
}

/// C11 `cnd_destroy`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_destroy(cond: *mut c_void) {
    // SAFETY: as in C.
    unsafe { condvar::pthread_cond_destroy(cond.cast()) };
}

macro_rules! aliases {
    ($map:ident: $($abi:literal $name:ident($($argument:ident: $type:ty),*) = $module:ident::$target:ident($($value:expr),*);)*) => {$(
        #[doc = concat!("As `", stringify!($target), "`.")]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern $abi fn $name($($argument: $type),*) -> c_int {
            // SAFETY: as in C.
            $map(unsafe { $module::$target($($value),*) })
        }
    )*};
}

aliases! { result:
    "C" mtx_lock(object: *mut c_void) = mutex::pthread_mutex_lock(object.cast());
    "C" mtx_trylock(object: *mut c_void) = mutex::pthread_mutex_trylock(object.cast());
    "C" mtx_timedlock(object: *mut c_void, at: *const timespec) = mutex::pthread_mutex_timedlock(object.cast(), at);
    "C" mtx_unlock(object: *mut c_void) = mutex::pthread_mutex_unlock(object.cast());
    "C" cnd_signal(object: *mut c_void) = condvar::pthread_cond_signal(object.cast());
    "C" cnd_broadcast(object: *mut c_void) = condvar::pthread_cond_broadcast(object.cast());
    "C-unwind" cnd_wait(object: *mut c_void, held: *mut c_void) = condvar::pthread_cond_wait(object.cast::<pthread_cond_t>(), held.cast());
    "C-unwind" cnd_timedwait(object: *mut c_void, held: *mut c_void, at: *const timespec) = condvar::pthread_cond_timedwait(object.cast::<pthread_cond_t>(), held.cast(), at);
}

fn same(error: c_int) -> c_int {
    error
}

aliases! { same:
    "C" __pthread_mutex_init(object: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t) = mutex::pthread_mutex_init(object, attributes);
    "C" __pthread_mutex_destroy(object: *mut pthread_mutex_t) = mutex::pthread_mutex_destroy(object);
    "C" __pthread_mutex_lock(object: *mut pthread_mutex_t) = mutex::pthread_mutex_lock(object);
    "C" __pthread_mutex_trylock(object: *mut pthread_mutex_t) = mutex::pthread_mutex_trylock(object);
    "C" __pthread_mutex_unlock(object: *mut pthread_mutex_t) = mutex::pthread_mutex_unlock(object);
    "C" __pthread_rwlock_init(object: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t) = rwlock::pthread_rwlock_init(object, attributes);
    "C" __pthread_rwlock_destroy(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_destroy(object);
    "C" __pthread_rwlock_rdlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_rdlock(object);
    "C" __pthread_rwlock_tryrdlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_tryrdlock(object);
    "C" __pthread_rwlock_wrlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_wrlock(object);
    "C" __pthread_rwlock_trywrlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_trywrlock(object);
    "C" __pthread_rwlock_unlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_unlock(object);
}
