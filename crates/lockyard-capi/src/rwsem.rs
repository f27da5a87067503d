//! `ly_rwsem_…`: [`lockyard::rwsem`], with the policy of today.

use core::ffi::{c_char, c_int};

use libc::timespec;

use crate::calls;
use crate::layout::{Holds, ly_rwsem_t};
use crate::site;
use crate::watch::{self, Kind, Place};

static KIND: Kind = Kind::new("rwsem", watch::noted, watch::queued!(ly_rwsem_t, may_be_contended));

/// Makes `*sem` unlocked, whatever it was. Not needed for zeroed memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_init(sem: *mut ly_rwsem_t) {
    // SAFETY: the C caller's promise; zero is an unlocked lock.
    unsafe { sem.write_bytes(0, 1) };
}

/// Locks for reading; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_down_read(sem: *mut ly_rwsem_t) -> c_int {
    calls::takes!(KIND, sem: ly_rwsem_t, place(sem).shared(), try_read_acquire, read_acquire)
}

/// Locks for reading if that needs no wait. EBUSY: it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_down_read_trylock(sem: *mut ly_rwsem_t) -> c_int {
    calls::tries!(KIND, sem: ly_rwsem_t, place(sem).shared(), try_read_acquire, EBUSY)
}

/// Locks for reading; waits for it until `*abstime`, a time of CLOCK_REALTIME.
///
/// ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_down_read_timedlock(sem: *mut ly_rwsem_t, abstime: *const timespec) -> c_int {
    site::sited!(|site, sem: *mut ly_rwsem_t, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { down_read_until(sem, libc::CLOCK_REALTIME, abstime, site) }
    })
}

/// As ly_rwsem_down_read_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another
/// clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_down_read_clocklock(
    sem: *mut ly_rwsem_t,
    clock: c_int,
    abstime: *const timespec,
) -> c_int {
    site::sited!(|site, sem: *mut ly_rwsem_t, clock: c_int, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { down_read_until(sem, clock, abstime, site) }
    })
}

calls::until!(down_read_until, KIND, sem: ly_rwsem_t, place(sem).shared(), try_read_acquire, read_acquire_until);

/// Unlocks what the caller locked for reading. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_up_read(sem: *mut ly_rwsem_t) -> c_int {
    calls::gives!(sem, read_release)
}

/// Locks for writing; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_down_write(sem: *mut ly_rwsem_t) -> c_int {
    calls::takes!(KIND, sem: ly_rwsem_t, place(sem), try_write_acquire, write_acquire)
}

/// Locks for writing if that needs no wait. EBUSY: it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_down_write_trylock(sem: *mut ly_rwsem_t) -> c_int {
    calls::tries!(KIND, sem: ly_rwsem_t, place(sem), try_write_acquire, EBUSY)
}

/// Locks for writing; waits for it until `*abstime`, a time of CLOCK_REALTIME.
///
/// ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_down_write_timedlock(sem: *mut ly_rwsem_t, abstime: *const timespec) -> c_int {
    site::sited!(|site, sem: *mut ly_rwsem_t, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { down_write_until(sem, libc::CLOCK_REALTIME, abstime, site) }
    })
}

/// As ly_rwsem_down_write_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another
/// clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_down_write_clocklock(
    sem: *mut ly_rwsem_t,
    clock: c_int,
    abstime: *const timespec,
) -> c_int {
    site::sited!(|site, sem: *mut ly_rwsem_t, clock: c_int, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { down_write_until(sem, clock, abstime, site) }
    })
}

calls::until!(down_write_until, KIND, sem: ly_rwsem_t, place(sem), try_write_acquire, write_acquire_until);

/// Unlocks what the caller locked for writing. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_up_write(sem: *mut ly_rwsem_t) -> c_int {
    calls::gives!(sem, write_release)
}

/// Makes the caller's write lock a read lock in one step: no writer comes in between, waiting
/// readers are let in. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_downgrade_write(sem: *mut ly_rwsem_t) -> c_int {
    // SAFETY: the C caller's promises: a lock, which it holds for writing.
    unsafe { Holds::lock(sem).downgrade() };
    0
}

/// Names the class under which `lockyard stat` shows the lock; see ly_mutex_set_class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rwsem_set_class(sem: *mut ly_rwsem_t, name: *const c_char) -> c_int {
    // SAFETY: the C caller's promises.
    unsafe { KIND.set(class_word(sem), name) }
}

/// The word that the lock leaves to its embedder: its last.
fn class_word(sem: *mut ly_rwsem_t) -> *mut u32 {
    sem.cast::<u32>().wrapping_add(7)
}

fn place(sem: *mut ly_rwsem_t) -> Place {
    // SAFETY: nobody else uses that word.
    unsafe { Place::new(class_word(sem)) }
}
