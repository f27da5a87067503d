//! `ly_qrwlock_…`: [`lockyard::qrwlock`], with the policy of today.

use core::ffi::c_int;

use crate::calls;
use crate::layout::{Holds, ly_qrwlock_t};
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
    calls::takes!(KIND, lock: ly_qrwlock_t, Place::NONE.shared(), try_read_acquire, read_acquire)
}

/// Locks for reading if that needs no wait. EBUSY: it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_read_trylock(lock: *mut ly_qrwlock_t) -> c_int {
    calls::tries!(KIND, lock: ly_qrwlock_t, Place::NONE.shared(), try_read_acquire, EBUSY)
}

/// Unlocks what somebody has locked for reading. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_read_unlock(lock: *mut ly_qrwlock_t) -> c_int {
    calls::gives!(lock, read_release)
}

/// Locks for writing; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_write_lock(lock: *mut ly_qrwlock_t) -> c_int {
    calls::takes!(KIND, lock: ly_qrwlock_t, Place::NONE, try_write_acquire, write_acquire)
}

/// Locks for writing if that needs no wait. EBUSY: it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_write_trylock(lock: *mut ly_qrwlock_t) -> c_int {
    calls::tries!(KIND, lock: ly_qrwlock_t, Place::NONE, try_write_acquire, EBUSY)
}

/// Unlocks what somebody has locked for writing. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_write_unlock(lock: *mut ly_qrwlock_t) -> c_int {
    calls::gives!(lock, write_release)
}

/// Makes the write lock a read lock in one step. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_qrwlock_downgrade_write(lock: *mut ly_qrwlock_t) -> c_int {
    // SAFETY: the C caller's promises: a lock, which is held for writing.
    unsafe { Holds::lock(lock).downgrade() };
    0
}
