//! `mtx_*` and `cnd_*` of C11, and the names with two underscores that older libraries call.
//!
//! glibc's C11 functions call its own pthread functions by private names, so ours have to stand for
//! both. The objects have the layouts of `pthread_mutex_t` and `pthread_cond_t`; results are other
//! numbers. The names with two underscores are other entries of the same code.

use core::ffi::{c_int, c_void};

use libc::{pthread_mutex_t, pthread_mutexattr_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};
use lockyard_segment::Call;

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

/// C11's functions, which tell where they have been called from.
macro_rules! with_callers {
    ($($abi:literal $name:ident => $for:ident($($argument:ident: $type:ty),*), $caller:ident = $call:expr;)*) => {$(
        lockyard_segment::with_caller! {
            #[doc = concat!("C11 `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As in C.
            #[unsafe(no_mangle)]
            pub extern $abi fn $name($($argument: $type),*) => $for
        }

        unsafe extern $abi fn $for($($argument: $type,)* $caller: Call) -> c_int {
            // SAFETY: as in C.
            result(unsafe { $call })
        }
    )*};
}

with_callers! {
    "C" mtx_init => mtx_init_for(object: *mut c_void, kind: c_int), caller = init(object.cast(), kind, caller);
    "C" mtx_lock => mtx_lock_for(object: *mut c_void), caller = mutex::lock_as(object.cast(), caller);
    "C" mtx_trylock => mtx_trylock_for(object: *mut c_void), caller = mutex::trylock_as(object.cast(), caller);
    "C" mtx_timedlock => mtx_timedlock_for(object: *mut c_void, at: *const timespec), caller =
        mutex::timedlock_for(object.cast(), at, caller);
    "C" cnd_init => cnd_init_for(object: *mut c_void), caller = condvar::init_for(object.cast(), core::ptr::null(), caller);
    "C" cnd_signal => cnd_signal_for(object: *mut c_void), caller = condvar::signal_for(object.cast(), caller);
    "C" cnd_broadcast => cnd_broadcast_for(object: *mut c_void), caller = condvar::broadcast_for(object.cast(), caller);
    "C-unwind" cnd_wait => cnd_wait_for(object: *mut c_void, held: *mut c_void), caller =
        condvar::wait_for(object.cast(), held.cast(), caller);
    "C-unwind" cnd_timedwait => cnd_timedwait_for(object: *mut c_void, held: *mut c_void, at: *const timespec), caller =
        condvar::timedwait_for(object.cast(), held.cast(), at, caller);
}

unsafe fn init(mutex: *mut pthread_mutex_t, kind: c_int, caller: Call) -> c_int {
    let mut attributes = core::mem::MaybeUninit::<pthread_mutexattr_t>::uninit();
    // SAFETY: memory for attributes; then initialised; then memory for a mutex, as in C. (glibc's
    // attributes own nothing, and need no destruction.)
    unsafe {
        pthread_mutexattr_init(attributes.as_mut_ptr());
        if kind & RECURSIVE != 0 {
            pthread_mutexattr_settype(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_RECURSIVE);
        }
        mutex::init_for(mutex, attributes.as_ptr(), caller)
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

/// C11 `cnd_destroy`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cnd_destroy(cond: *mut c_void) {
    // SAFETY: as in C.
    unsafe { condvar::pthread_cond_destroy(cond.cast()) };
}

/// C11 `mtx_unlock`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtx_unlock(mutex: *mut c_void) -> c_int {
    // SAFETY: as in C.
    result(unsafe { mutex::pthread_mutex_unlock(mutex.cast()) })
}

macro_rules! aliases {
    ($($name:ident($($argument:ident: $type:ty),*) = $module:ident::$target:ident;)*) => {$(
        lockyard_segment::alias! {
            #[doc = concat!("As `", stringify!($target), "`.")]
            ///
            /// # Safety
            /// As in C.
            #[unsafe(no_mangle)]
            pub fn $name($($argument: $type),*) = $module::$target
        }
    )*};
}

aliases! {
    __pthread_mutex_init(object: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t) = mutex::pthread_mutex_init;
    __pthread_mutex_destroy(object: *mut pthread_mutex_t) = mutex::pthread_mutex_destroy;
    __pthread_mutex_lock(object: *mut pthread_mutex_t) = mutex::pthread_mutex_lock;
    __pthread_mutex_trylock(object: *mut pthread_mutex_t) = mutex::pthread_mutex_trylock;
    __pthread_mutex_unlock(object: *mut pthread_mutex_t) = mutex::pthread_mutex_unlock;
    __pthread_rwlock_init(object: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t) = rwlock::pthread_rwlock_init;
    __pthread_rwlock_destroy(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_destroy;
    __pthread_rwlock_rdlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_rdlock;
    __pthread_rwlock_tryrdlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_tryrdlock;
    __pthread_rwlock_wrlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_wrlock;
    __pthread_rwlock_trywrlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_trywrlock;
    __pthread_rwlock_unlock(object: *mut pthread_rwlock_t) = rwlock::pthread_rwlock_unlock;
}
