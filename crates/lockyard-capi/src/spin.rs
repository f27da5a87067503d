//! `ly_spin_…` and `ly_hq_spin_…`: [`lockyard::spin`].

use core::ffi::c_int;

use crate::calls;
use crate::layout::{ly_hq_spinlock_t, ly_spinlock_t};
use crate::watch::{self, Kind, Place};

static PLAIN: Kind = Kind::new("ly_spinlock", watch::noted, watch::queued!(ly_spinlock_t, is_contended));
static HQ: Kind = Kind::new("hq_spinlock", watch::noted, watch::queued!(ly_hq_spinlock_t, is_contended));

/// Makes `*lock` unlocked, whatever it was. Not needed for zeroed memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_spin_init(lock: *mut ly_spinlock_t) {
    // SAFETY: the C caller's promise; zero is an unlocked lock.
    unsafe { lock.write_bytes(0, 1) };
}

/// Locks; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_spin_lock(lock: *mut ly_spinlock_t) -> c_int {
    calls::takes!(PLAIN, lock: ly_spinlock_t, Place::NONE, try_acquire, acquire)
}

/// Locks if it is free and nobody waits: never overtakes. EBUSY: it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_spin_trylock(lock: *mut ly_spinlock_t) -> c_int {
    calls::tries!(PLAIN, lock: ly_spinlock_t, Place::NONE, try_acquire, EBUSY)
}

/// Unlocks what somebody has locked. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_spin_unlock(lock: *mut ly_spinlock_t) -> c_int {
    calls::gives!(lock, release)
}

/// Makes `*lock` unlocked, whatever it was. Not needed for zeroed memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_hq_spin_init(lock: *mut ly_hq_spinlock_t) {
    // SAFETY: the C caller's promise; zero is an unlocked lock.
    unsafe { lock.write_bytes(0, 1) };
}

/// Locks; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_hq_spin_lock(lock: *mut ly_hq_spinlock_t) -> c_int {
    calls::takes!(HQ, lock: ly_hq_spinlock_t, Place::NONE, try_acquire, acquire)
}

/// Locks if it is free and nobody waits: never overtakes. EBUSY: it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_hq_spin_trylock(lock: *mut ly_hq_spinlock_t) -> c_int {
    calls::tries!(HQ, lock: ly_hq_spinlock_t, Place::NONE, try_acquire, EBUSY)
}

/// Unlocks what somebody has locked. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_hq_spin_unlock(lock: *mut ly_hq_spinlock_t) -> c_int {
    calls::gives!(lock, release)
}
