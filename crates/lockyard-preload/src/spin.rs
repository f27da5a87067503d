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
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};
use lockyard_segment::places::Object;
use lockyard_segment::{self as segment, Call, Caller, Holder};

use crate::config::{self, SpinKind};
use crate::counters::{self, Fallback};
use crate::real::real;
use crate::thread;
use crate::watch::{self, Patience};

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

lockyard_segment::with_caller! {
    /// See `pthread_spin_init(3p)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn pthread_spin_init(spin: *mut pthread_spinlock_t, shared: c_int) => init_for
}

unsafe extern "C" fn init_for(spin: *mut pthread_spinlock_t, shared: c_int, caller: Call) -> c_int {
    let rest = match config::spin() {
        _ if shared != libc::PTHREAD_PROCESS_PRIVATE => Err(Fallback::Shared),
        SpinKind::Glibc => Err(Fallback::Chosen),
        SpinKind::Spin => Ok(MARK),
        SpinKind::Hq => Ok(TYPE),
    };
    match rest {
        Ok(rest) => {
            Object::spinlock(spin, caller.at()).made();
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
    Object::spinlock(spin, 0).gone();
    0
}

macro_rules! calls {
    ($($doc:literal $name:ident, $slow:ident, $for:ident: $fast:expr; $call:ident;)*) => {$(
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

        lockyard_segment::with_caller!(fn $slow(spin: *mut pthread_spinlock_t) => $for);

        unsafe extern "C" fn $for(spin: *mut pthread_spinlock_t, caller: Call) -> c_int {
            match kind(spin) {
                // SAFETY: a spinlock of that kind, as in C.
                SpinKind::Spin => unsafe { $call(plain(spin), caller) },
                // SAFETY: as above.
                SpinKind::Hq => unsafe { $call(hq(spin), caller) },
                SpinKind::Glibc => real!($name(spin: *mut pthread_spinlock_t) -> c_int),
            }
        }
    )*};
}

calls! {
    "See `pthread_spin_lock(3p)`." pthread_spin_lock, lock_slow, lock_for: take; lock;
    "See `pthread_spin_trylock(3p)`." pthread_spin_trylock, trylock_slow, trylock_for: take; try_lock;
    "See `pthread_spin_unlock(3p)`." pthread_spin_unlock, unlock_slow, unlock_for: give; unlock;
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

/// A spinlock of ours.
type Queued<K> = RawQueuedSpinLock<Linux, K>;

/// Takes `lock` for the code at `caller`.
unsafe fn lock<K: Kind<Linux>>(lock: &Queued<K>, caller: Call) -> c_int {
    let wait = || {
        // Where it queues its fixed priority counts: see `rank`.
        thread::block().identity();
        lock.acquire_slow();
        0
    };
    if segment::watched() {
        told(lock, caller, Patience::Forever, || lock.try_unseen(), wait)
    } else if lock.try_unseen() {
        0
    } else {
        wait()
    }
}

unsafe fn try_lock<K: Kind<Linux>>(lock: &Queued<K>, caller: Call) -> c_int {
    if segment::watched() {
        told(lock, caller, Patience::None, || lock.try_acquire(), || EBUSY)
    } else if lock.try_acquire() {
        0
    } else {
        EBUSY
    }
}

/// Takes `lock` by `attempt`, or else `wait`, and tells of it.
#[cold]
fn told<K: Kind<Linux>>(
    lock: &Queued<K>,
    caller: Call,
    patience: Patience<()>,
    attempt: impl FnOnce() -> bool,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let object = Object::spinlock(lock, caller.at());
    let taker = |_| Caller::new(object.class(), caller.at());
    // It does not know its holder: the threads that have noted it are looked at.
    watch::take_as((taker, object.at), patience, attempt, || Some(lock.is_contended()), || Holder::Readers, wait)
}

/// # Safety
/// The caller holds it, or acts for the holder.
unsafe fn unlock<K: Kind<Linux>>(lock: &Queued<K>, _caller: Call) -> c_int {
    let at = core::ptr::from_ref(lock).addr();
    watch::releasing(at);
    // SAFETY: the caller's promise.
    unsafe { lock.release() };
    watch::released(at);
    0
}
