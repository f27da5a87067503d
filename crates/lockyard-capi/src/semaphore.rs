//! `ly_sem_…`: [`lockyard::semaphore`], with its default policy.

use core::ffi::{c_char, c_int, c_uint};

use libc::timespec;
use lockyard::platform::linux::Linux;
use lockyard::semaphore::{MAX_UNITS, RawSemaphore};

use crate::calls;
use crate::layout::{Holds, ly_sem_t};
use crate::site;
use crate::watch::{self, Kind, Place};

static KIND: Kind = Kind::new("semaphore", watch::unknown, watch::untold);

/// Makes `*sem` a semaphore with `units`. EINVAL: more than LY_SEM_MAX; nothing was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_sem_init(sem: *mut ly_sem_t, units: c_uint) -> c_int {
    if units > MAX_UNITS {
        return libc::EINVAL;
    }
    // SAFETY: the C caller's promise: memory of the size and alignment of a semaphore.
    unsafe { sem.cast::<RawSemaphore<Linux>>().write(RawSemaphore::const_with_units(units)) };
    0
}

/// Takes a unit; waits for one. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_sem_wait(sem: *mut ly_sem_t) -> c_int {
    calls::takes!(KIND, sem: ly_sem_t, place(sem), try_down, down)
}

/// Takes a unit if there is one that is not kept for a waiter. EAGAIN: there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_sem_trywait(sem: *mut ly_sem_t) -> c_int {
    calls::tries!(KIND, sem: ly_sem_t, place(sem), try_down, EAGAIN)
}

/// Takes a unit; waits for one until `*abstime`, a time of CLOCK_REALTIME.
///
/// ETIMEDOUT: then there was none. EINVAL: the nanoseconds are not between 0 and 999999999.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_sem_timedwait(sem: *mut ly_sem_t, abstime: *const timespec) -> c_int {
    site::sited!(|site, sem: *mut ly_sem_t, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { until(sem, libc::CLOCK_REALTIME, abstime, site) }
    })
}

/// As ly_sem_timedwait, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_sem_clockwait(sem: *mut ly_sem_t, clock: c_int, abstime: *const timespec) -> c_int {
    site::sited!(|site, sem: *mut ly_sem_t, clock: c_int, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { until(sem, clock, abstime, site) }
    })
}

calls::until!(until, KIND, sem: ly_sem_t, place(sem), try_down, down_until);

/// Adds a unit and wakes a waiter, if there is one that listens. Safe in signal handlers.
/// EOVERFLOW: there are LY_SEM_MAX already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_sem_post(sem: *mut ly_sem_t) -> c_int {
    // SAFETY: the C caller's promise.
    let added = unsafe { Holds::lock(sem) }.up();
    watch::give(sem);
    if added { 0 } else { libc::EOVERFLOW }
}

/// The units there are. Stale when it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_sem_getvalue(sem: *const ly_sem_t) -> c_uint {
    // SAFETY: the C caller's promise.
    unsafe { Holds::lock(sem.cast_mut()) }.units()
}

/// Names the class under which `lockyard stat` shows the semaphore; see ly_mutex_set_class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_sem_set_class(sem: *mut ly_sem_t, name: *const c_char) -> c_int {
    // SAFETY: the C caller's promises.
    unsafe { KIND.set(class_word(sem), name) }
}

/// The word that the semaphore leaves to its embedder: after the first two.
fn class_word(sem: *mut ly_sem_t) -> *mut u32 {
    sem.cast::<u32>().wrapping_add(2)
}

fn place(sem: *mut ly_sem_t) -> Place {
    // SAFETY: nobody else uses that word.
    unsafe { Place::new(class_word(sem)) }
}
