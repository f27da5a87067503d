//! `ly_qrwlock_…`: [`lockyard::qrwlock`], with the policy of today.

use core::ffi::c_int;

use crate::layout::{Holds, ly_qrwlock_t};
use crate::site;
use crate::watch::{self, Kind, Place};

static KIND: Kind = Kind::new("qrwlock", watch::noted, watch::queued!(ly_qrwlock_t, is_contended));

/// Makes `*lock` unlocked, whatever it was. Not needed for zeroed memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_init(lock: *mut ly_qrwlock_t) {
    // SAFETY: the C caller's promise; zero is an unlocked lock.
    unsafe { lock.write_bytes(0, 1) };
}

/// Locks for reading; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_read_lock(lock: *mut ly_qrwlock_t) -> c_int {
    site::sited!(|site, lock: *mut ly_qrwlock_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(lock) };
        watch::take(&KIND, Place::NONE.shared().at(site), lock, || inner.try_read_acquire(), || inner.read_acquire());
        0
    })
}

/// Locks for reading if that needs no wait. EBUSY: it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_read_trylock(lock: *mut ly_qrwlock_t) -> c_int {
    site::sited!(|site, lock: *mut ly_qrwlock_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(lock) };
        watch::attempt(&KIND, Place::NONE.shared().at(site), lock, || inner.try_read_acquire(), libc::EBUSY)
    })
}

/// Unlocks what somebody has locked for reading. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_read_unlock(lock: *mut ly_qrwlock_t) -> c_int {
    watch::giving(lock);
    // SAFETY: the C caller's promises: a lock, which is held for reading.
    unsafe { Holds::lock(lock).read_release() };
    watch::give(lock);
    0
}

/// Locks for writing; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_write_lock(lock: *mut ly_qrwlock_t) -> c_int {
    site::sited!(|site, lock: *mut ly_qrwlock_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(lock) };
        watch::take(&KIND, Place::NONE.at(site), lock, || inner.try_write_acquire(), || inner.write_acquire());
        0
    })
}

/// Locks for writing if that needs no wait. EBUSY: it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_write_trylock(lock: *mut ly_qrwlock_t) -> c_int {
    site::sited!(|site, lock: *mut ly_qrwlock_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(lock) };
        watch::attempt(&KIND, Place::NONE.at(site), lock, || inner.try_write_acquire(), libc::EBUSY)
    })
}

/// Unlocks what somebody has locked for writing. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_write_unlock(lock: *mut ly_qrwlock_t) -> c_int {
    watch::giving(lock);
    // SAFETY: the C caller's promises: a lock, which is held for writing.
    unsafe { Holds::lock(lock).write_release() };
    watch::give(lock);
    0
}

/// Makes the write lock a read lock in one step. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_downgrade_write(lock: *mut ly_qrwlock_t) -> c_int {
    // SAFETY: the C caller's promises: a lock, which is held for writing.
    unsafe { Holds::lock(lock).downgrade() };
    0
}
