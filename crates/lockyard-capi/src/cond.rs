//! `ly_cond_…`: [`lockyard::condvar`], for `ly_mutex_t`.

use core::ffi::c_int;

use libc::timespec;
use lockyard::cancel::Until;
use lockyard::platform::linux::Linux;
use lockyard_segment as segment;
use lockyard_segment::tape::Kind;

use crate::deadline::{self, Code};
use crate::layout::{Holds, ly_cond_t, ly_mutex_t};
use crate::mutex;
use crate::site::{self, Site};
use crate::watch;

/// Makes `*cond` one without waiters, whatever it was. Not needed for zeroed memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_cond_init(cond: *mut ly_cond_t) {
    // What was there before is not destroyed by a call.
    Site::UNWATCHED.condition(cond).gone();
    // SAFETY: the C caller's promise; zero is without waiters.
    unsafe { cond.write_bytes(0, 1) };
}

/// Unlocks the mutex, which the caller must have locked, waits for a signal, and locks the mutex
/// again: no signal is lost in between. May return without a signal. All that wait at the same time
/// must do so with the same mutex. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_cond_wait(cond: *mut ly_cond_t, mutex: *mut ly_mutex_t) -> c_int {
    site::sited!(|site, cond: *mut ly_cond_t, mutex: *mut ly_mutex_t| {
        // SAFETY: the C caller's promises.
        unsafe { wait(cond, mutex, Until::FOREVER, site) }
    })
}

/// As ly_cond_wait, until `*abstime`, a time of CLOCK_REALTIME.
///
/// ETIMEDOUT: there was no signal until then. EINVAL: the nanoseconds are not between 0 and
/// 999999999; the mutex was not unlocked. The mutex is locked in each case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_cond_timedwait(
    cond: *mut ly_cond_t,
    mutex: *mut ly_mutex_t,
    abstime: *const timespec,
) -> c_int {
    site::sited!(|site, cond: *mut ly_cond_t, mutex: *mut ly_mutex_t, abstime: *const timespec| {
        // SAFETY: the C caller's promises.
        unsafe { wait_until(cond, mutex, libc::CLOCK_REALTIME, abstime, site) }
    })
}

/// As ly_cond_timedwait, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_cond_clockwait(
    cond: *mut ly_cond_t,
    mutex: *mut ly_mutex_t,
    clock: c_int,
    abstime: *const timespec,
) -> c_int {
    site::sited!(|site, cond: *mut ly_cond_t, mutex: *mut ly_mutex_t, clock: c_int, abstime: *const timespec| {
        // SAFETY: the C caller's promises.
        unsafe { wait_until(cond, mutex, clock, abstime, site) }
    })
}

/// Wakes the thread that has waited longest, if one waits; it returns when it has the mutex. The
/// caller may hold the mutex or not. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_cond_signal(cond: *mut ly_cond_t) -> c_int {
    site::sited!(|site, cond: *mut ly_cond_t| {
        watch::tell(site.condition(cond), Kind::Signal);
        // SAFETY: the C caller's promise.
        unsafe { Holds::lock(cond) }.signal_told(segment::awaited);
        0
    })
}

/// Wakes all threads that wait now, one after another as the mutex becomes free. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_cond_broadcast(cond: *mut ly_cond_t) -> c_int {
    site::sited!(|site, cond: *mut ly_cond_t| {
        watch::tell(site.condition(cond), Kind::Broadcast);
        // SAFETY: the C caller's promise.
        unsafe { Holds::lock(cond) }.broadcast_told(segment::awaited);
        0
    })
}

/// # Safety
/// As [`wait`], and `abstime` points to a time.
unsafe fn wait_until(
    cond: *mut ly_cond_t,
    mutex: *mut ly_mutex_t,
    clock: c_int,
    abstime: *const timespec,
    site: Site,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { deadline::end(clock, abstime) } {
        // SAFETY: the caller's promises.
        Ok(until) => unsafe { wait(cond, mutex, until, site) },
        Err(error) => error,
    }
}

/// # Safety
/// `cond` and `mutex` point to theirs, the caller holds `mutex`, and others wait with no other one.
unsafe fn wait(cond: *mut ly_cond_t, mutex: *mut ly_mutex_t, until: Until<'static, Linux>, site: Site) -> c_int {
    // SAFETY: the caller's promise.
    let (cond, held) = unsafe { (Holds::lock(cond), mutex::Held::new(mutex, site.condition(cond), site)) };
    // SAFETY: the caller's promise.
    unsafe { cond.wait(&held, until) }.code()
}
