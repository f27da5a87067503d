//! `pthread_spin_*`: four bytes, which a queued spinlock fills.
//!
//! There is no bit to spare that would say whose the lock is. So a process-shared one, which is glibc's, is noted by address in a small table; before the first of them
//! nobody looks there. A process that meets a shared spinlock which another one initialised cannot tell (`LOCKYARD_SPIN=glibc` is for such).
//!
//! `pthread_spin_init` and the rest are taken over together: all-zero is unlocked here and locked in glibc on x86-64.
//!
//! **fork**: waiters of the parent stay in the child's word. A spinlock held across a fork while others wait for it may be released there, not taken again.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use libc::{EAGAIN, EBUSY, EINVAL, pthread_spinlock_t};
use lockyard::platform::linux::Linux;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;

use crate::config::{self, SpinKind};
use crate::counters::{self, Fallback};
use crate::real::real;

const PLACES: usize = 64;

/// Addresses of process-shared spinlocks; 0: free.
static SHARED: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
/// Places ever used.
static USED: AtomicU32 = AtomicU32::new(0);

fn is_shared(spin: *mut pthread_spinlock_t) -> bool {
    let used = USED.load(Acquire) as usize;
    used != 0 && SHARED.iter().take(used).any(|place| place.load(Relaxed) == spin.addr())
}

/// `false`: the table is full.
fn note_shared(spin: *mut pthread_spinlock_t) -> bool {
    let taken = is_shared(spin)
        || SHARED.iter().enumerate().any(|(index, place)| {
            let mine = place.compare_exchange(0, spin.addr(), AcqRel, Relaxed).is_ok();
            if mine {
                USED.fetch_max(index as u32 + 1, AcqRel);
            }
            mine
        });
    if taken {
        config::share_spins();
        counters::count(Fallback::Shared);
    }
    taken
}

fn forget_shared(spin: *mut pthread_spinlock_t) {
    if USED.load(Acquire) != 0 {
        for place in &SHARED {
            let _ = place.compare_exchange(spin.addr(), 0, AcqRel, Relaxed);
        }
    }
}

/// Which lock serves this object.
fn kind(spin: *mut pthread_spinlock_t) -> SpinKind {
    if is_shared(spin) { SpinKind::Glibc } else { config::spin() }
}

unsafe fn plain<'a>(spin: *mut pthread_spinlock_t) -> &'a RawQSpinLock<Linux> {
    // SAFETY: four bytes of a spinlock, as in C; one kind for the whole process.
    unsafe { &*spin.cast() }
}

unsafe fn hq<'a>(spin: *mut pthread_spinlock_t) -> &'a RawHqSpinLock<Linux> {
    // SAFETY: as in `plain`.
    unsafe { &*spin.cast() }
}

/// See `pthread_spin_init(3p)`. `EAGAIN`: there are more process-shared ones than this library can tell apart.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_init(spin: *mut pthread_spinlock_t, shared: c_int) -> c_int {
    if shared == libc::PTHREAD_PROCESS_SHARED {
        if !note_shared(spin) {
            return EAGAIN;
        }
    } else if config::spin() != SpinKind::Glibc {
        if shared != libc::PTHREAD_PROCESS_PRIVATE {
            return EINVAL;
        }
        forget_shared(spin);
        // SAFETY: memory for a spinlock that nobody uses.
        unsafe { spin.write(0) };
        return 0;
    } else {
        counters::count(Fallback::Chosen);
    }
    real!(pthread_spin_init(spin: *mut pthread_spinlock_t, shared: c_int) -> c_int)
}

/// See `pthread_spin_destroy(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_destroy(spin: *mut pthread_spinlock_t) -> c_int {
    if kind(spin) == SpinKind::Glibc {
        forget_shared(spin);
        return real!(pthread_spin_destroy(spin: *mut pthread_spinlock_t) -> c_int);
    }
    0
}

macro_rules! calls {
    ($($doc:literal $name:ident, $slow:ident: $lock:ident => $call:expr;)*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(spin: *mut pthread_spinlock_t) -> c_int {
            if config::spin_is_default() {
                // SAFETY: a spinlock, as in C.
                let $lock = unsafe { plain(spin) };
                return $call;
            }
            // SAFETY: as in C.
            unsafe { $slow(spin) }
        }

        #[inline(never)]
        unsafe extern "C" fn $slow(spin: *mut pthread_spinlock_t) -> c_int {
            match kind(spin) {
                SpinKind::Spin => {
                    // SAFETY: a spinlock, as in C.
                    let $lock = unsafe { plain(spin) };
                    $call
                }
                SpinKind::Hq => {
                    // SAFETY: as above.
                    let $lock = unsafe { hq(spin) };
                    $call
                }
                SpinKind::Glibc => real!($name(spin: *mut pthread_spinlock_t) -> c_int),
            }
        }
    )*};
}

calls! {
    "See `pthread_spin_lock(3p)`." pthread_spin_lock, lock_slow: lock => {
        lock.acquire();
        0
    };
    "See `pthread_spin_trylock(3p)`." pthread_spin_trylock, trylock_slow: lock => {
        if lock.try_acquire() { 0 } else { EBUSY }
    };
    "See `pthread_spin_unlock(3p)`." pthread_spin_unlock, unlock_slow: lock => {
        // SAFETY: the caller holds it, as in C.
        unsafe { lock.release() };
        0
    };
}
