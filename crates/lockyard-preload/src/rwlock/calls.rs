//! The functions that C calls.

use core::ffi::c_int;

use libc::{EINVAL, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};
use lockyard_segment::{self as segment, Call};

use super::RwlockObject;
use super::lock::Lock;
use super::moving::{PerCpu, ReadMostly};
use crate::config;
use crate::counters::{self, Fallback};
use crate::deadline::{self, Deadline};
use crate::policies::{RwlockKind, with_lock};
use crate::real::real;
use crate::watch::Patience;
use crate::{thread, watch};

macro_rules! calls {
    ($(
        $doc:literal $name:ident, $slow:ident, $for:ident, $rest:ident:
        $fast:ident, $told:ident, $method:ident, $patience:ident, $shared:literal, $wait:literal;
    )*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(rwlock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: a rwlock, as in C.
            if unsafe { RwlockObject::$fast(rwlock) || $shared && RwlockObject::read_moving(rwlock, $wait) } {
                return 0;
            }
            // SAFETY: as above.
            unsafe { $slow(rwlock) }
        }

        lockyard_segment::with_caller!(fn $slow(rwlock: *mut pthread_rwlock_t) => $for);

        unsafe extern "C" fn $for(rwlock: *mut pthread_rwlock_t, caller: Call) -> c_int {
            // SAFETY: a rwlock, as in C.
            match unsafe { RwlockObject::$told(rwlock, caller, watch::plain) } {
                Some(noted) => watch::note(noted, rwlock.addr()),
                // SAFETY: as above.
                None => unsafe { $rest(rwlock, caller) },
            }
        }

        #[cold]
        #[inline(never)]
        unsafe extern "C" fn $rest(rwlock: *mut pthread_rwlock_t, caller: Call) -> c_int {
            // SAFETY: a rwlock, as in C.
            if let Some(noted) = unsafe { RwlockObject::$told(rwlock, caller, watch::wrapped) } {
                return watch::note(noted, rwlock.addr());
            }
            // SAFETY: as above.
            let result = unsafe { RwlockObject::ours(rwlock) }
                .and_then(|object| with_lock!(config::rwlock(), object, lock => object.$method(lock, Patience::$patience, caller)));
            match result {
                Some(result) => result,
                None => real!($name(rwlock: *mut pthread_rwlock_t) -> c_int),
            }
        }
    )*};
}

calls! {
    "See `pthread_rwlock_rdlock(3p)`." pthread_rwlock_rdlock, rdlock_slow, rdlock_for, rdlock_rest:
        read_fast, read_told, read, Forever, true, true;
    "See `pthread_rwlock_tryrdlock(3p)`." pthread_rwlock_tryrdlock, tryrdlock_slow, tryrdlock_for, tryrdlock_rest:
        read_fast, read_told, read, None, true, false;
    "See `pthread_rwlock_wrlock(3p)`." pthread_rwlock_wrlock, wrlock_slow, wrlock_for, wrlock_rest:
        write_fast, write_told, write, Forever, false, true;
    "See `pthread_rwlock_trywrlock(3p)`." pthread_rwlock_trywrlock, trywrlock_slow, trywrlock_for, trywrlock_rest:
        write_fast, write_told, write, None, false, false;
}

macro_rules! timed_calls {
    ($($doc:literal $name:ident => $for:ident($($clock:ident: $type:ty)?), $default:expr, $method:ident;)*) => {$(
        lockyard_segment::with_caller! {
            #[doc = $doc]
            /// The time is looked at first, as in glibc.
            ///
            /// # Safety
            /// As in C.
            #[unsafe(no_mangle)]
            pub fn $name(rwlock: *mut pthread_rwlock_t, $($clock: $type,)? at: *const timespec) => $for
        }

        unsafe extern "C" fn $for(
            rwlock: *mut pthread_rwlock_t, $($clock: $type,)? at: *const timespec, caller: Call
        ) -> c_int {
            // SAFETY: a rwlock, as in C.
            let Some(object) = (unsafe { RwlockObject::ours(rwlock) }) else {
                return real!($name(rwlock: *mut pthread_rwlock_t $(, $clock: $type)?, at: *const timespec) -> c_int);
            };
            let clock = $default;
            $(let clock = if clock == NAMED { $clock } else { clock };)?
            if !deadline::knows(clock) {
                return EINVAL;
            }
            // SAFETY: a time, as in C.
            match unsafe { Deadline::new(clock, at) } {
                Err(error) => error,
                Ok(deadline) => {
                    with_lock!(config::rwlock(), object, lock => object.$method(lock, Patience::Until(deadline), caller)).unwrap_or(EINVAL)
                }
            }
        }
    )*};
}

/// In place of a clock: the caller names one.
const NAMED: clockid_t = -1;

timed_calls! {
    "See `pthread_rwlock_timedrdlock(3p)`." pthread_rwlock_timedrdlock => timedrdlock_for(), libc::CLOCK_REALTIME, read;
    "See `pthread_rwlock_timedwrlock(3p)`." pthread_rwlock_timedwrlock => timedwrlock_for(), libc::CLOCK_REALTIME, write;
    "See `pthread_rwlock_clockrdlock(3)`." pthread_rwlock_clockrdlock => clockrdlock_for(clock: clockid_t), NAMED, read;
    "See `pthread_rwlock_clockwrlock(3)`." pthread_rwlock_clockwrlock => clockwrlock_for(clock: clockid_t), NAMED, write;
}

/// See `pthread_rwlock_unlock(3p)`. `EPERM` if nobody holds it.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: a rwlock, as in C.
    let Some((object, lock)) = (unsafe { RwlockObject::default(rwlock) }) else {
        // SAFETY: as above.
        return unsafe { if RwlockObject::unlock_moving(rwlock) { 0 } else { unlock_slow(rwlock) } };
    };
    // SAFETY: held for reading, by the caller or by whom it acts for; if nobody holds it nothing is
    // done.
    if unsafe { lock.try_read_release_unasked() } {
        // The object may be gone: its address is used.
        thread::block().holds.remove(rwlock.addr());
        return 0;
    }
    object.unlock(lock)
}

lockyard_segment::with_caller!(fn unlock_slow(rwlock: *mut pthread_rwlock_t) => unlock_for);

unsafe extern "C" fn unlock_for(rwlock: *mut pthread_rwlock_t, caller: Call) -> c_int {
    // SAFETY: a rwlock, as in C.
    match unsafe { RwlockObject::unlock_told(rwlock) } {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { unlock_rest(rwlock, caller) },
    }
}

#[cold]
#[inline(never)]
unsafe extern "C" fn unlock_rest(rwlock: *mut pthread_rwlock_t, caller: Call) -> c_int {
    // SAFETY: a rwlock, as in C.
    let result = unsafe { RwlockObject::ours(rwlock) }.and_then(|object| {
        with_lock!(config::rwlock(), object, lock => {
            // The kernel's policies let waiters in under the wait lock, which in a child may be a
            // dead thread's.
            object.settle(lock);
            object.told(false).releasing(caller);
            let result = object.unlock(lock);
            if result == 0 {
                watch::released(rwlock.addr());
            }
            result
        })
    });
    match result {
        Some(result) => result,
        None => real!(pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t) -> c_int),
    }
}

unsafe extern "C" {
    fn pthread_rwlockattr_getpshared(attributes: *const pthread_rwlockattr_t, shared: *mut c_int) -> c_int;
}

lockyard_segment::with_caller! {
    /// See `pthread_rwlock_init(3p)`: glibc writes the kind and whether it is shared, and zeroes.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn pthread_rwlock_init(rwlock: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t) => init_for
}

unsafe extern "C" fn init_for(
    rwlock: *mut pthread_rwlock_t,
    attributes: *const pthread_rwlockattr_t,
    caller: Call,
) -> c_int {
    let mut shared = 0;
    if !attributes.is_null() {
        // SAFETY: attributes, as in C, and a place for the value.
        unsafe { pthread_rwlockattr_getpshared(attributes, &mut shared) };
    }
    if shared != 0 {
        counters::count(Fallback::Shared);
    } else if config::rwlock() == RwlockKind::Glibc {
        counters::count(Fallback::Chosen);
    }
    let result =
        real!(pthread_rwlock_init(rwlock: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t) -> c_int);
    if result == 0
        && segment::watched()
        // SAFETY: a rwlock, which has just been initialised.
        && let Some(object) = unsafe { RwlockObject::ours(rwlock) }
    {
        object.told(false).name(caller);
    }
    result
}

/// See `pthread_rwlock_destroy(3p)`. Always succeeds, as in glibc.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: a rwlock, as in C.
    match unsafe { RwlockObject::ours(rwlock) } {
        Some(object) => {
            object.told(false).gone();
            // SAFETY: as in C: nobody uses it, but in a release that is detached.
            with_lock!(config::rwlock(), object, lock => unsafe { lock.retire() });
            0
        }
        None => real!(pthread_rwlock_destroy(rwlock: *mut pthread_rwlock_t) -> c_int),
    }
}
