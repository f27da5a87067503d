//! `ly_read_mostly_…`: [`lockyard::rwsem::apart`], with the policy that learns.

use core::ffi::{c_char, c_int};

use libc::timespec;

use crate::calls;
use crate::layout::{Holds, ly_read_mostly_t};
use crate::site;
use crate::watch::{self, Kind, Place};

static KIND: Kind = Kind::new("read_mostly", watch::noted, watch::queued!(ly_read_mostly_t, may_be_contended));

/// Makes `*lock` unlocked, whatever it was. Not needed for zeroed memory. A lock that was used: see
/// ly_read_mostly_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_init(lock: *mut ly_read_mostly_t) {
    // SAFETY: the C caller's promise; zero is an unlocked lock.
    unsafe { lock.write_bytes(0, 1) };
}

/// Gives back the counters that the lock has borrowed: before its memory is freed or initialised
/// again. The lock may be used meanwhile, and after that. EBUSY: it is held, some 10 ms after the
/// call if for writing; nothing was done.
///
/// Without this call the lock keeps its counters: after 32 such
/// locks in a process the readers of new ones share a line, as those of ly_rwsem_t do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_destroy(lock: *mut ly_read_mostly_t) -> c_int {
    // SAFETY: the C caller's promise: a lock.
    if unsafe { Holds::lock(lock) }.part_with_counters() { 0 } else { libc::EBUSY }
}

/// Locks for reading; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_read_lock(lock: *mut ly_read_mostly_t) -> c_int {
    site::sited!(|site, lock: *mut ly_read_mostly_t| {
        // SAFETY: the C caller's promise: a lock.
        let inner = unsafe { Holds::lock(lock) };
        watch::take(&KIND, place(lock).shared().at(site), lock, || read_at_once(inner), || inner.read_acquire());
        0
    })
}

/// A read that needs no wait, of one that is watched. It does what `read_acquire` does, and a try
/// does not, so that readers go apart: statistics are of the lock as it is without them.
fn read_at_once(lock: &<ly_read_mostly_t as Holds>::Lock) -> bool {
    lock.meet();
    lock.try_read_apart(true) || lock.try_read_acquire()
}

/// Locks for reading if that needs no wait. EBUSY: it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_read_trylock(lock: *mut ly_read_mostly_t) -> c_int {
    calls::tries!(KIND, lock: ly_read_mostly_t, place(lock).shared(), try_read_acquire, EBUSY)
}

/// Locks for reading; waits for it until `*abstime`, a time of CLOCK_REALTIME.
///
/// ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_read_timedlock(lock: *mut ly_read_mostly_t, abstime: *const timespec) -> c_int {
    site::sited!(|site, lock: *mut ly_read_mostly_t, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { read_until(lock, libc::CLOCK_REALTIME, abstime, site) }
    })
}

/// As ly_read_mostly_read_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another
/// clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_read_clocklock(
    lock: *mut ly_read_mostly_t,
    clock: c_int,
    abstime: *const timespec,
) -> c_int {
    site::sited!(|site, lock: *mut ly_read_mostly_t, clock: c_int, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { read_until(lock, clock, abstime, site) }
    })
}

calls::until!(read_until, KIND, lock: ly_read_mostly_t, place(lock).shared(), try_read_acquire, read_acquire_until);

/// Unlocks what the caller locked for reading. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_read_unlock(lock: *mut ly_read_mostly_t) -> c_int {
    calls::gives!(lock, read_release)
}

/// Locks for writing; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_write_lock(lock: *mut ly_read_mostly_t) -> c_int {
    calls::takes!(KIND, lock: ly_read_mostly_t, place(lock), try_write_acquire, write_acquire)
}

/// Locks for writing if that needs no wait. EBUSY: it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_write_trylock(lock: *mut ly_read_mostly_t) -> c_int {
    calls::tries!(KIND, lock: ly_read_mostly_t, place(lock), try_write_acquire, EBUSY)
}

/// Locks for writing; waits for it until `*abstime`, a time of CLOCK_REALTIME.
///
/// ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_write_timedlock(
    lock: *mut ly_read_mostly_t,
    abstime: *const timespec,
) -> c_int {
    site::sited!(|site, lock: *mut ly_read_mostly_t, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { write_until(lock, libc::CLOCK_REALTIME, abstime, site) }
    })
}

/// As ly_read_mostly_write_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL:
/// another clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_write_clocklock(
    lock: *mut ly_read_mostly_t,
    clock: c_int,
    abstime: *const timespec,
) -> c_int {
    site::sited!(|site, lock: *mut ly_read_mostly_t, clock: c_int, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { write_until(lock, clock, abstime, site) }
    })
}

calls::until!(write_until, KIND, lock: ly_read_mostly_t, place(lock), try_write_acquire, write_acquire_until);

/// Unlocks what the caller locked for writing. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_write_unlock(lock: *mut ly_read_mostly_t) -> c_int {
    calls::gives!(lock, write_release)
}

/// Makes the caller's write lock a read lock in one step: no writer comes in between, waiting
/// readers are let in. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_downgrade_write(lock: *mut ly_read_mostly_t) -> c_int {
    // SAFETY: the C caller's promises: a lock, which it holds for writing.
    unsafe { Holds::lock(lock).downgrade() };
    0
}

/// Names the class under which `lockyard stat` shows the lock; see ly_mutex_set_class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_read_mostly_set_class(lock: *mut ly_read_mostly_t, name: *const c_char) -> c_int {
    // SAFETY: the C caller's promises.
    unsafe { KIND.set(class_word(lock), name) }
}

/// The word that the rwsem in the lock, behind its gate, leaves to its embedder.
fn class_word(lock: *mut ly_read_mostly_t) -> *mut u32 {
    Holds::place(lock).cast::<u32>().cast_mut().wrapping_add(16 + 7)
}

fn place(lock: *mut ly_read_mostly_t) -> Place {
    // SAFETY: nobody else uses that word.
    unsafe { Place::new(class_word(lock)) }
}
