//! `ly_spin_…` and `ly_hq_spin_…`: [`lockyard::spin`].

use core::ffi::c_int;

use crate::layout::{Holds, ly_hq_spinlock_t, ly_spinlock_t};
use crate::site;
use crate::watch::{self, Kind, Place};

static PLAIN: Kind = Kind::new("spinlock", watch::noted, watch::queued!(ly_spinlock_t, is_contended));
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
    site::sited!(|site, lock: *mut ly_spinlock_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(lock) };
        watch::take(&PLAIN, Place::NONE.at(site), lock, || inner.try_acquire(), || inner.acquire());
        0
    })
}

/// Locks if it is free and nobody waits: never overtakes. EBUSY: it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_spin_trylock(lock: *mut ly_spinlock_t) -> c_int {
    site::sited!(|site, lock: *mut ly_spinlock_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(lock) };
        watch::attempt(&PLAIN, Place::NONE.at(site), lock, || inner.try_acquire(), libc::EBUSY)
    })
}

/// Unlocks what somebody has locked. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_spin_unlock(lock: *mut ly_spinlock_t) -> c_int {
    watch::giving(lock);
    // SAFETY: the C caller's promises: a lock, which is held.
    unsafe { Holds::lock(lock).release() };
    watch::give(lock);
    0
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
    site::sited!(|site, lock: *mut ly_hq_spinlock_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(lock) };
        watch::take(&HQ, Place::NONE.at(site), lock, || inner.try_acquire(), || inner.acquire());
        0
    })
}

/// Locks if it is free and nobody waits: never overtakes. EBUSY: it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_hq_spin_trylock(lock: *mut ly_hq_spinlock_t) -> c_int {
    site::sited!(|site, lock: *mut ly_hq_spinlock_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(lock) };
        watch::attempt(&HQ, Place::NONE.at(site), lock, || inner.try_acquire(), libc::EBUSY)
    })
}

/// Unlocks what somebody has locked. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_hq_spin_unlock(lock: *mut ly_hq_spinlock_t) -> c_int {
    watch::giving(lock);
    // SAFETY: the C caller's promises: a lock, which is held.
    unsafe { Holds::lock(lock).release() };
    watch::give(lock);
    0
}
