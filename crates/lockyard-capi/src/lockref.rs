//! `ly_lockref_…`: [`lockyard::lockref`].

use core::ffi::c_int;
use core::mem::forget;

use lockyard::lockref::LockRef;
use lockyard::platform::linux::Linux;

use crate::layout::{Holds, ly_lockref_t};

/// Makes `*object` unlocked, with `count` references (at most 65535).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_init(object: *mut ly_lockref_t, count: u16) {
    // SAFETY: the C caller's promise: memory of the size and alignment of a lockref.
    unsafe { object.cast::<LockRef<Linux>>().write(LockRef::with_count(count)) };
}

/// Takes one more reference: the caller has one. Of a dead object none is counted; above 2147483647
/// they are not told apart, and the object is never given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_get(object: *mut ly_lockref_t) {
    // SAFETY: the C caller's promise.
    unsafe { Holds::lock(object) }.get();
}

/// Takes a reference if there is one already, and there are fewer than 2147483647. Whether it did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_get_not_zero(object: *mut ly_lockref_t) -> bool {
    // SAFETY: the C caller's promise.
    unsafe { Holds::lock(object) }.get_not_zero()
}

/// Takes a reference unless the object is dead, or there are 2147483647. Whether it did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_get_not_dead(object: *mut ly_lockref_t) -> bool {
    // SAFETY: the C caller's promise.
    unsafe { Holds::lock(object) }.get_not_dead()
}

/// Gives a reference up without ever taking the lock: how many are left. -1: there was none, or the
/// lock was in the way; nothing was given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_put_return(object: *mut ly_lockref_t) -> i32 {
    // SAFETY: the C caller's promise.
    let left = unsafe { Holds::lock(object) }.put_return();
    left.map_or(-1, u32::cast_signed)
}

/// Gives a reference up, and returns true, unless it is the last: then nothing is given up, the
/// object is locked, and it returns false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_put_or_lock(object: *mut ly_lockref_t) -> bool {
    // SAFETY: the C caller's promise.
    let object = unsafe { Holds::lock(object) };
    object.put_or_lock().map(forget).is_none()
}

/// Locks; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_lock(object: *mut ly_lockref_t) -> c_int {
    // SAFETY: the C caller's promise.
    forget(unsafe { Holds::lock(object) }.lock());
    0
}

/// Locks if it is free and nobody waits. EBUSY: it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_trylock(object: *mut ly_lockref_t) -> c_int {
    // SAFETY: the C caller's promise.
    let guard = unsafe { Holds::lock(object) }.try_lock();
    if guard.map(forget).is_some() { 0 } else { libc::EBUSY }
}

/// Unlocks what somebody has locked. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_unlock(object: *mut ly_lockref_t) -> c_int {
    // SAFETY: the C caller's promises: an object, which is locked.
    unsafe { Holds::lock(object).force_unlock() };
    0
}

/// Takes a reference to an object that the caller has locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_get_locked(object: *mut ly_lockref_t) {
    // SAFETY: the C caller's promises: an object, which it has locked.
    let guard = unsafe { Holds::lock(object).make_guard_unchecked() };
    guard.get();
    forget(guard);
}

/// Gives up a reference to an object that the caller has locked, the last one too. How many are
/// left; nothing happens if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_put_locked(object: *mut ly_lockref_t) -> u32 {
    // SAFETY: the C caller's promises: an object, which it has locked.
    let guard = unsafe { Holds::lock(object).make_guard_unchecked() };
    let left = guard.put();
    forget(guard);
    left
}

/// Nobody gets a reference to the object any more, whatever is called. The caller has locked it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_mark_dead(object: *mut ly_lockref_t) {
    // SAFETY: the C caller's promises: an object, which it has locked.
    let guard = unsafe { Holds::lock(object).make_guard_unchecked() };
    guard.mark_dead();
    forget(guard);
}

/// The references: negative if the object is dead. Stale when it returns, unless the caller has
/// locked the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_lockref_count(object: *const ly_lockref_t) -> i32 {
    // SAFETY: the C caller's promise.
    unsafe { Holds::lock(object.cast_mut()) }.count()
}
