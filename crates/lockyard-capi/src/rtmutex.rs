//! `ly_rtmutex_…`: [`lockyard::rtmutex`].

use core::ffi::c_int;

use libc::timespec;
use lockyard::rtmutex::PiError;
use lockyard_segment::Holder;

use crate::calls;
use crate::deadline::Code;
use crate::layout::{Holds, ly_rtmutex_t};
use crate::site;
use crate::watch::{self, Kind, Place};

static KIND: Kind = Kind::new("rtmutex", owner, watch::queued!(ly_rtmutex_t, is_contended));

/// # Safety
/// A mutex is at `lock`.
unsafe fn owner(lock: usize) -> Holder {
    // SAFETY: the caller's promise.
    Holder::Thread(unsafe { Holds::lock(core::ptr::with_exposed_provenance_mut::<ly_rtmutex_t>(lock)) }.owner())
}

impl Code for PiError {
    fn code(self) -> c_int {
        match self {
            // Nobody here waits with a token.
            Self::TimedOut | Self::Cancelled => libc::ETIMEDOUT,
            Self::Deadlock => libc::EDEADLK,
            Self::OwnerDied => libc::ENOTRECOVERABLE,
            Self::NotOwner => libc::EPERM,
            Self::Corrupt => libc::EINVAL,
        }
    }
}

/// Makes `*mutex` unlocked, whatever it was. Not needed for zeroed memory. In a forked child, for
/// one that another thread held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rtmutex_init(mutex: *mut ly_rtmutex_t) {
    // SAFETY: the C caller's promise; zero is an unlocked mutex.
    unsafe { mutex.write_bytes(0, 1) };
}

/// Locks the mutex; waits for it, and lends its owner the caller's priority meanwhile.
///
/// EDEADLK: the caller has locked it already, or its owner waits, perhaps through others, for one
/// that the caller has locked. ENOTRECOVERABLE: a thread has ended that had it locked; it stays
/// locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rtmutex_lock(mutex: *mut ly_rtmutex_t) -> c_int {
    site::sited!(|site, mutex: *mut ly_rtmutex_t| {
        // SAFETY: the C caller's promise.
        let inner = unsafe { Holds::lock(mutex) };
        if watch::at_once(&KIND, Place::NONE.at(site), mutex, || inner.try_acquire()) {
            return 0;
        }
        watch::wait_or_fail(&KIND, Place::NONE.at(site), mutex, || inner.acquire().code())
    })
}

/// Locks the mutex if it is free and not kept for a waiter. EBUSY: it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rtmutex_trylock(mutex: *mut ly_rtmutex_t) -> c_int {
    calls::tries!(KIND, mutex: ly_rtmutex_t, Place::NONE, try_acquire, EBUSY)
}

/// As ly_rtmutex_lock, until `*abstime`, a time of CLOCK_REALTIME.
///
/// Also ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and
/// 999999999. A mutex that is free is locked whatever the time says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rtmutex_timedlock(mutex: *mut ly_rtmutex_t, abstime: *const timespec) -> c_int {
    site::sited!(|site, mutex: *mut ly_rtmutex_t, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { until(mutex, libc::CLOCK_REALTIME, abstime, site) }
    })
}

/// As ly_rtmutex_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rtmutex_clocklock(
    mutex: *mut ly_rtmutex_t,
    clock: c_int,
    abstime: *const timespec,
) -> c_int {
    site::sited!(|site, mutex: *mut ly_rtmutex_t, clock: c_int, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { until(mutex, clock, abstime, site) }
    })
}

calls::until!(until, KIND, mutex: ly_rtmutex_t, Place::NONE, try_acquire, acquire_until);

/// Unlocks the mutex. EPERM: the caller has not locked it; nothing happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_rtmutex_unlock(mutex: *mut ly_rtmutex_t) -> c_int {
    watch::giving(mutex);
    // SAFETY: the C caller's promise; who does not hold it is told so.
    let result = unsafe { Holds::lock(mutex).release() }.code();
    if result == 0 {
        watch::give(mutex);
    }
    result
}
