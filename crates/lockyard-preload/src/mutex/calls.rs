//! The functions that C calls.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use libc::{EBUSY, EINVAL, clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};
use lockyard_segment::{self as segment, Call};

use super::{DESTROYED, INHERIT, KIND, MutexObject, NORMAL};
use crate::config::{self, MutexKind};
use crate::counters::{self, Fallback};
use crate::real::real;
use crate::watch::{self, Patience};
use crate::{deadline, fork};

/// What a lock call does whose mutex is of another kind. Apart from the fast path, which so needs
/// no stack.
#[inline(never)]
unsafe extern "C" fn lock_next(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: a mutex, as in C.
    if unsafe { MutexObject::at(mutex) }.lock_known() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { lock_next_slow(mutex) }
}

/// What a call does that takes the mutex and has to say where it came from. What is rare is apart,
/// so that what is not needs no stack.
macro_rules! told {
    ($($slow:ident, $for:ident, $told:ident, $rest:ident;)*) => {$(
        lockyard_segment::with_caller!(fn $slow(mutex: *mut pthread_mutex_t) => $for);

        unsafe extern "C" fn $for(mutex: *mut pthread_mutex_t, caller: Call) -> c_int {
            // SAFETY: a mutex, as in C.
            match unsafe { MutexObject::at(mutex) }.$told(caller) {
                Some(noted) => watch::note(noted, mutex.addr()),
                // SAFETY: as above.
                None => unsafe { $rest(mutex, caller) },
            }
        }
    )*};
}

told! {
    lock_slow, lock_for, lock_told, lock_passed;
    lock_next_slow, lock_next_for, lock_any_told, lock_rest;
    trylock_slow, trylock_for, lock_any_told, trylock_rest;
}

/// A mutex of the normal kind, by code that passes it on.
#[inline(never)]
unsafe extern "C" fn lock_passed(mutex: *mut pthread_mutex_t, caller: Call) -> c_int {
    // SAFETY: a mutex, as in C.
    match unsafe { MutexObject::at(mutex) }.lock_passed_told(caller) {
        Some(noted) => watch::note(noted, mutex.addr()),
        // SAFETY: as above.
        None => unsafe { lock_rest(mutex, caller) },
    }
}

/// What is left of these calls: everything but the fast paths.
macro_rules! rest {
    ($($rest:ident, $name:ident: $patience:ident;)*) => {$(
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn $rest(mutex: *mut pthread_mutex_t, caller: Call) -> c_int {
            // SAFETY: a mutex, as in C.
            let object = unsafe { MutexObject::at(mutex) };
            if let Some(noted) = object.lock_wrapped_told(caller) {
                return watch::note(noted, mutex.addr());
            }
            // SAFETY: as above.
            match unsafe { object.lock(Patience::$patience, caller) } {
                Some(result) => result,
                None => real!($name(mutex: *mut pthread_mutex_t) -> c_int),
            }
        }
    )*};
}

rest! {
    lock_rest, pthread_mutex_lock: Forever;
    trylock_rest, pthread_mutex_trylock: None;
}

/// As [`lock_next`].
#[inline(never)]
unsafe extern "C" fn unlock_next(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: a mutex, as in C.
    if unsafe { MutexObject::at(mutex) }.unlock_known() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { unlock_next_slow(mutex) }
}

/// As [`told`].
macro_rules! told_back {
    ($($slow:ident, $for:ident, $told:ident;)*) => {$(
        lockyard_segment::with_caller!(fn $slow(mutex: *mut pthread_mutex_t) => $for);

        unsafe extern "C" fn $for(mutex: *mut pthread_mutex_t, caller: Call) -> c_int {
            // SAFETY: a mutex, as in C.
            match unsafe { MutexObject::at(mutex) }.$told() {
                Some(page) => watch::forget(page, mutex.addr()),
                // SAFETY: as above.
                None => unsafe { unlock_rest(mutex, caller) },
            }
        }
    )*};
}

told_back! {
    unlock_slow, unlock_for, unlock_told;
    unlock_next_slow, unlock_next_for, unlock_known_told;
}

#[cold]
#[inline(never)]
unsafe extern "C" fn unlock_rest(mutex: *mut pthread_mutex_t, caller: Call) -> c_int {
    // SAFETY: a mutex, as in C.
    match unsafe { MutexObject::at(mutex) }.unlock(caller) {
        Some(result) => result,
        None => real!(pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int),
    }
}

/// See `pthread_mutex_lock(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: a mutex, as in C.
    let object = unsafe { MutexObject::at(mutex) };
    if object.kind() != NORMAL {
        // SAFETY: as above.
        return unsafe { lock_next(mutex) };
    }
    if object.lock_fast() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { lock_slow(mutex) }
}

/// See `pthread_mutex_trylock(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: a mutex, as in C.
    let object = unsafe { MutexObject::at(mutex) };
    if object.kind() == NORMAL && object.lock_fast() || object.lock_known() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { trylock_slow(mutex) }
}

/// [`pthread_mutex_lock`], of a function that has been called from `caller`.
///
/// # Safety
/// As in C.
pub(crate) unsafe fn lock_as(mutex: *mut pthread_mutex_t, caller: Call) -> c_int {
    // SAFETY: a mutex, as in C.
    let object = unsafe { MutexObject::at(mutex) };
    if object.kind() == NORMAL && object.lock_fast() || object.lock_known() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { lock_next_for(mutex, caller) }
}

/// [`pthread_mutex_trylock`], likewise.
///
/// # Safety
/// As in C.
pub(crate) unsafe fn trylock_as(mutex: *mut pthread_mutex_t, caller: Call) -> c_int {
    // SAFETY: a mutex, as in C.
    let object = unsafe { MutexObject::at(mutex) };
    if object.kind() == NORMAL && object.lock_fast() || object.lock_known() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { trylock_for(mutex, caller) }
}

lockyard_segment::with_caller! {
    /// See `pthread_mutex_timedlock(3p)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, at: *const timespec) => timedlock_for
}

pub(crate) unsafe extern "C" fn timedlock_for(mutex: *mut pthread_mutex_t, at: *const timespec, caller: Call) -> c_int {
    // SAFETY: a mutex and a time, as in C.
    match unsafe { MutexObject::at(mutex).lock(Patience::Until((libc::CLOCK_REALTIME, at)), caller) } {
        Some(result) => result,
        None => real!(pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, at: *const timespec) -> c_int),
    }
}

lockyard_segment::with_caller! {
    /// See `pthread_mutex_clocklock(3)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t, clock: clockid_t, at: *const timespec
    ) => clocklock_for
}

unsafe extern "C" fn clocklock_for(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    at: *const timespec,
    caller: Call,
) -> c_int {
    // SAFETY: a mutex, as in C.
    let object = unsafe { MutexObject::at(mutex) };
    if object.ours().is_some() && !deadline::knows(clock) {
        return EINVAL;
    }
    // SAFETY: a time, as in C.
    match unsafe { object.lock(Patience::Until((clock, at)), caller) } {
        Some(result) => result,
        None => {
            real!(pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, at: *const timespec) -> c_int)
        }
    }
}

/// See `pthread_mutex_unlock(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: a mutex, as in C.
    let object = unsafe { MutexObject::at(mutex) };
    if object.kind() != NORMAL {
        // SAFETY: as above.
        return unsafe { unlock_next(mutex) };
    }
    if object.unlock_fast() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { unlock_slow(mutex) }
}

unsafe extern "C" {
    fn pthread_mutexattr_gettype(attributes: *const pthread_mutexattr_t, kind: *mut c_int) -> c_int;
    fn pthread_mutexattr_getpshared(attributes: *const pthread_mutexattr_t, shared: *mut c_int) -> c_int;
    fn pthread_mutexattr_getprotocol(attributes: *const pthread_mutexattr_t, protocol: *mut c_int) -> c_int;
    fn pthread_mutexattr_getrobust(attributes: *const pthread_mutexattr_t, robust: *mut c_int) -> c_int;
}

/// The kind that the attributes ask for, or why the mutex is glibc's.
unsafe fn wanted(attributes: *const pthread_mutexattr_t) -> Result<u32, Fallback> {
    if config::mutex() == MutexKind::Glibc {
        return Err(Fallback::Chosen);
    }
    if attributes.is_null() {
        return Ok(NORMAL);
    }
    let ask = |get: unsafe extern "C" fn(*const pthread_mutexattr_t, *mut c_int) -> c_int| {
        let mut value = 0;
        // SAFETY: attributes, as in C, and a place for the value.
        unsafe { get(attributes, &mut value) };
        value
    };
    match (
        ask(pthread_mutexattr_getprotocol),
        ask(pthread_mutexattr_getrobust),
        ask(pthread_mutexattr_getpshared),
        ask(pthread_mutexattr_gettype),
    ) {
        (libc::PTHREAD_PRIO_INHERIT, libc::PTHREAD_MUTEX_STALLED, libc::PTHREAD_PROCESS_PRIVATE, kind @ 0..=3)
            if config::inheriting() =>
        {
            Ok(kind as u32 | INHERIT)
        }
        (libc::PTHREAD_PRIO_INHERIT, ..) => Err(Fallback::PriorityInheritance),
        (libc::PTHREAD_PRIO_PROTECT, ..) => Err(Fallback::PriorityCeiling),
        (_, libc::PTHREAD_MUTEX_ROBUST, ..) => Err(Fallback::Robust),
        (_, _, libc::PTHREAD_PROCESS_SHARED, _) => Err(Fallback::Shared),
        (_, _, _, kind @ 0..=3) => Ok(kind as u32),
        _ => Err(Fallback::Unknown),
    }
}

lockyard_segment::with_caller! {
    /// See `pthread_mutex_init(3p)`. A locked mutex is simply made new.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn pthread_mutex_init(mutex: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t) => init_for
}

pub(crate) unsafe extern "C" fn init_for(
    mutex: *mut pthread_mutex_t,
    attributes: *const pthread_mutexattr_t,
    caller: Call,
) -> c_int {
    // SAFETY: attributes, as in C.
    match unsafe { wanted(attributes) } {
        Ok(kind) => {
            // SAFETY: memory for a mutex that nobody uses.
            unsafe { mutex.write_bytes(0, 1) };
            // SAFETY: as above.
            let object = unsafe { MutexObject::at(mutex) };
            object.generation.store(fork::generation(), Relaxed);
            object.field(KIND).store(kind, Relaxed);
            if segment::watched() {
                object.told(if kind & INHERIT != 0 { MutexKind::Rt } else { MutexKind::Mutex }).name(caller);
            }
            0
        }
        Err(reason) => {
            counters::count(reason);
            real!(pthread_mutex_init(mutex: *mut pthread_mutex_t, attributes: *const pthread_mutexattr_t) -> c_int)
        }
    }
}

/// See `pthread_mutex_destroy(3p)`. `EBUSY` if somebody holds it or waits for it.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: a mutex, as in C.
    let object = unsafe { MutexObject::at(mutex) };
    let Some((_, lock)) = object.ours() else {
        return real!(pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int);
    };
    object.settle(lock);
    let busy = match lock {
        MutexKind::Spin => object.spin().is_locked(),
        MutexKind::Hq => object.hq().is_locked(),
        MutexKind::Rt => object.rt().is_locked() || object.rt().is_contended(),
        _ => object.raw.is_locked() || object.raw.is_contended(),
    };
    if busy {
        return EBUSY;
    }
    object.told(lock).gone();
    object.field(KIND).store(DESTROYED, Relaxed);
    0
}

/// See `pthread_mutex_consistent(3p)`: none of ours is robust.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_consistent(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: a mutex, as in C.
    match unsafe { MutexObject::at(mutex) }.ours() {
        Some(_) => EINVAL,
        None => real!(pthread_mutex_consistent(mutex: *mut pthread_mutex_t) -> c_int),
    }
}

/// See `pthread_mutex_getprioceiling(3p)`: none of ours has a ceiling.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_getprioceiling(mutex: *mut pthread_mutex_t, ceiling: *mut c_int) -> c_int {
    // SAFETY: a mutex, as in C.
    match unsafe { MutexObject::at(mutex) }.ours() {
        Some(_) => EINVAL,
        None => real!(pthread_mutex_getprioceiling(mutex: *mut pthread_mutex_t, ceiling: *mut c_int) -> c_int),
    }
}

/// See `pthread_mutex_setprioceiling(3p)`: none of ours has a ceiling.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_setprioceiling(
    mutex: *mut pthread_mutex_t,
    ceiling: c_int,
    old: *mut c_int,
) -> c_int {
    // SAFETY: a mutex, as in C.
    match unsafe { MutexObject::at(mutex) }.ours() {
        Some(_) => EINVAL,
        None => {
            real!(pthread_mutex_setprioceiling(mutex: *mut pthread_mutex_t, ceiling: c_int, old: *mut c_int) -> c_int)
        }
    }
}
