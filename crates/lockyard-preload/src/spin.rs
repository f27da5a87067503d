//! `pthread_spin_*`: four bytes, which a queued spinlock fills.
//!
//! # Whose is a word?
//!
//! A process-shared spinlock is glibc's. A process may meet one that another process has
//! initialised, with this library or without it, so the word itself says whose it is:
//!
//! | word | whose |
//! |---|---|
//! | bits 11 to 31 all ones | glibc's: on x86-64 -n is locked with n waiters (at most 2,048) |
//! | bit 10 ([`MARK`]) | ours, queued |
//! | bit 9 ([`TYPE`]), not bit 10 | ours, queued by node |
//! | any other | glibc's: on x86-64 1 is free, 0 is locked |
//!
//! The tail in a word of ours, bits 16 to 31, is never all ones: the record with the last short
//! name is never lent (see `strangers` in the library), and no thread's.
//!
//! `pthread_spin_init` writes the mark for private spinlocks, and leaves the others to glibc. A
//! word of ours keeps its mark for ever. The fast path looks for a free word with the mark, finds
//! none in a word of glibc's (byte 1 is 0, or 248 and above), and changes nothing there. The slow
//! path sees whose the word is; once it has seen one of glibc's the process has no fast paths for
//! spinlocks any more, so that no owner of such a lock releases it as if it were ours.
//!
//! | initialised | used from processes | works |
//! |---|---|---|
//! | process-shared, with this library or without | with it, without it, both | yes |
//! | private, by a process with this library | of one that maps it, too | no: a mistake of the program's, on glibc without consequences |
//! | by no call | any | no: glibc on x86-64 takes zeroes for a locked one, and so it is here |
//!
//! A process that releases what another process has locked must have tried to lock it once.
//!
//! **fork**: see [`spin::queued`](lockyard::spin::queued): the parent's waiters do not exist in the
//! child.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::*};

use libc::{EBUSY, pthread_spinlock_t};
use lockyard::platform::linux::Linux;
use lockyard::spin::hq::{RawHqSpinLock, TYPE};
use lockyard::spin::qspinlock::{MARK, RawMarkedSpinLock};

use crate::config::{self, SpinKind};
use crate::counters::{self, Fallback};
use crate::real::real;
use crate::thread;

/// From here on words are glibc's, below 0.
const BELOW_ZERO: u32 = u32::MAX << 11;

/// Which lock serves this object.
fn kind(spin: *mut pthread_spinlock_t) -> SpinKind {
    // SAFETY: four bytes of a spinlock, as in C.
    let word = unsafe { &*spin.cast::<AtomicU32>() }.load(Relaxed);
    if word >= BELOW_ZERO || word & (MARK | TYPE) == 0 {
        config::share_spins();
        SpinKind::Glibc
    } else if word & MARK != 0 {
        SpinKind::Spin
    } else {
        SpinKind::Hq
    }
}

unsafe fn plain<'a>(spin: *mut pthread_spinlock_t) -> &'a RawMarkedSpinLock<Linux> {
    // SAFETY: four bytes of a spinlock, as in C, with the mark; or nothing but `try_unseen` is
    // called.
    unsafe { &*spin.cast() }
}

unsafe fn hq<'a>(spin: *mut pthread_spinlock_t) -> &'a RawHqSpinLock<Linux> {
    // SAFETY: four bytes of a spinlock, as in C, with the type bit.
    unsafe { &*spin.cast() }
}

/// See `pthread_spin_init(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_init(spin: *mut pthread_spinlock_t, shared: c_int) -> c_int {
    let rest = match config::spin() {
        _ if shared != libc::PTHREAD_PROCESS_PRIVATE => Err(Fallback::Shared),
        SpinKind::Glibc => Err(Fallback::Chosen),
        SpinKind::Spin => Ok(MARK),
        SpinKind::Hq => Ok(TYPE),
    };
    match rest {
        Ok(rest) => {
            // SAFETY: memory for a spinlock that nobody uses.
            unsafe { spin.write(rest as pthread_spinlock_t) };
            0
        }
        Err(reason) => {
            counters::count(reason);
            real!(pthread_spin_init(spin: *mut pthread_spinlock_t, shared: c_int) -> c_int)
        }
    }
}

/// See `pthread_spin_destroy(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_spin_destroy(spin: *mut pthread_spinlock_t) -> c_int {
    if kind(spin) == SpinKind::Glibc {
        return real!(pthread_spin_destroy(spin: *mut pthread_spinlock_t) -> c_int);
    }
    0
}

macro_rules! calls {
    ($($doc:literal $name:ident, $slow:ident: $fast:expr; $lock:ident => $call:expr;)*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(spin: *mut pthread_spinlock_t) -> c_int {
            if config::spin_is_default() && $fast(spin) {
                return 0;
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

/// Takes it if it is free and ours.
#[inline(always)]
fn take(spin: *mut pthread_spinlock_t) -> bool {
    // SAFETY: a spinlock, as in C.
    unsafe { plain(spin) }.try_unseen()
}

/// Gives it up: no spinlock that this process could hold is glibc's.
#[inline(always)]
fn give(spin: *mut pthread_spinlock_t) -> bool {
    // SAFETY: the caller holds it, as in C.
    unsafe { plain(spin).release() };
    true
}

calls! {
    "See `pthread_spin_lock(3p)`." pthread_spin_lock, lock_slow: take; lock => {
        if !lock.try_unseen() {
            // Where it queues its fixed priority counts: see `rank`.
            thread::block().identity();
            lock.acquire_slow();
        }
        0
    };
    "See `pthread_spin_trylock(3p)`." pthread_spin_trylock, trylock_slow: take; lock => {
        if lock.try_acquire() { 0 } else { EBUSY }
    };
    "See `pthread_spin_unlock(3p)`." pthread_spin_unlock, unlock_slow: give; lock => {
        // SAFETY: the caller holds it, as in C.
        unsafe { lock.release() };
        0
    };
}
