//! `sem_*`: a count and a number of sleepers in one word.
//!
//! # The object (32 bytes)
//!
//! | bytes | glibc | here |
//! |---|---|---|
//! | 0–3 | value | value |
//! | 4–7 | waiters | threads that sleep, or are about to, until the value is not 0 |
//! | 8–11 | private or shared | `TAG`: ours, written by `sem_init(…, 0, …)`. Anything else is glibc's: process-shared ones, and what `sem_open` returns |
//!
//! Not [`RawSemaphore`](lockyard::semaphore): `sem_post` may be called from a signal handler that
//! has interrupted anything, also a call on the same semaphore, and `sem_wait` must tell that it
//! was interrupted. So: no lock, one read-modify-write, and the kernel's queue. Newcomers may take
//! a unit past sleepers, as in glibc; a sleeper that wakes in vain sleeps again, without bound.
//!
//! | operation | word |
//! |---|---|
//! | post | value + 1; wakes one if there are waiters |
//! | try | value − 1 if not 0 |
//! | wait | try; waiters + 1; then (value − 1, waiters − 1) in one step when the value is not 0, asleep while it is |
//! | give up | takes a unit if there is one after all, in the step that would take it out of the waiters: so no wake-up is used up for nothing |
//!
//! **Ordering.** Post is Release, taking a unit Acquire. **Destruction.** A post does not touch the
//! word after its addition: the semaphore may be gone. (The wake-up that may follow names its
//! address only.) **fork**: the parent's sleepers stay counted in the child; it makes posts there a
//! system call dearer.

use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use libc::{EAGAIN, EINTR, EINVAL, EOVERFLOW, ETIMEDOUT, clockid_t, sem_t, timespec};
use lockyard::platform::linux::Linux;
use lockyard::platform::{Patience, Platform};
use lockyard_segment::Call;
use lockyard_segment::places::Object;
use lockyard_segment::tape::Kind;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

use crate::cancel::{self, Seat, pthread_testcancel};
use crate::config;
use crate::counters::{self, Fallback};
use crate::deadline::{self, Deadline};
use crate::real::real;
use crate::signals::{Told, recorded};
use crate::thread;

/// What neither a private nor a shared semaphore of glibc's has there.
const TAG: u32 = 0x4c59_5345;
const VALUE: u64 = 0xffff_ffff;
const SECOND: u64 = 1_000_000_000;
const WAITER: u64 = 1 << 32;
const MAX: u32 = i32::MAX as u32;
/// How long a newcomer hopes for a post before it sleeps.
const HOPE_NS: u32 = 1_000;

/// A `sem_t` of ours.
#[repr(C)]
struct SemObject {
    word: AtomicU64,
    tag: AtomicU32,
    unused: [AtomicU32; 5],
}

const _: () = {
    assert!(size_of::<SemObject>() == size_of::<sem_t>() && align_of::<SemObject>() <= align_of::<sem_t>());
    assert!(core::mem::offset_of!(SemObject, tag) == 8);
};

enum Waited {
    Done(c_int),
    /// Somebody asks the thread to look whether it was cancelled.
    Asked,
}

impl SemObject {
    /// The semaphore, if it is ours.
    ///
    /// # Safety
    /// `semaphore` points to a semaphore that lasts as long as the result is used.
    #[inline(always)]
    unsafe fn ours<'a>(semaphore: *mut sem_t) -> Option<&'a Self> {
        // SAFETY: the caller's promise. Everything inside is atomic, and any bytes are valid.
        let object = unsafe { &*semaphore.cast::<Self>() };
        (object.tag.load(Relaxed) == TAG).then_some(object)
    }

    fn value(&self) -> &AtomicU32 {
        let half = if cfg!(target_endian = "little") { 0 } else { 1 };
        // SAFETY: inside the object and aligned. The futex call names it; it is never read or
        // written here.
        unsafe { &*core::ptr::from_ref(self).cast::<AtomicU32>().add(half) }
    }

    /// Takes a unit, and `also`, if there is one.
    #[inline]
    fn take(&self, also: u64) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & VALUE != 0 {
            match self.word.compare_exchange_weak(word, word - 1 - also, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    fn post(&self) -> c_int {
        let word = self.word.fetch_add(1, Release);
        if (word & VALUE) as u32 >= MAX {
            self.word.fetch_sub(1, Relaxed);
            return EOVERFLOW;
        }
        if word >= WAITER {
            // The semaphore may be gone; a wake-up of what lies there now does no harm.
            let _ = futex::wake(self.value(), Flags::PRIVATE, 1);
        }
        0
    }

    /// A waiter gives up: takes a unit if there is one after all.
    fn give_up(&self, why: c_int) -> c_int {
        let mut word = self.word.load(Relaxed);
        loop {
            let unit = u64::from(word & VALUE != 0);
            match self.word.compare_exchange_weak(word, word - WAITER - unit, Acquire, Relaxed) {
                Ok(_) => return if unit != 0 { 0 } else { why },
                Err(found) => word = found,
            }
        }
    }

    #[cold]
    fn wait(&self, deadline: Option<&Deadline>, seat: Option<&Seat>) -> Waited {
        if Linux::spin(Patience::ns(HOPE_NS), || self.take(0).then_some(())).is_some() {
            return Waited::Done(0);
        }
        self.word.fetch_add(WAITER, Relaxed);
        if let Some(seat) = seat {
            seat.sleeps_on(self.value());
        }
        let waited = loop {
            if self.take(WAITER) {
                break Waited::Done(0);
            }
            if seat.is_some_and(Seat::asked) {
                break match self.give_up(EINTR) {
                    0 => Waited::Done(0),
                    _ => Waited::Asked,
                };
            }
            // On the caller's own clock: the kernel then obeys a setting of it.
            let (realtime, until) = deadline.map_or((false, None), |deadline| {
                let (realtime, ns) = deadline.own();
                let at = Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as _ };
                (realtime, Some(at))
            });
            let flags = if realtime { Flags::PRIVATE | Flags::CLOCK_REALTIME } else { Flags::PRIVATE };
            let slept = futex::wait_bitset(self.value(), flags, 0, until.as_ref(), core::num::NonZeroU32::MAX);
            match slept {
                Err(Errno::INTR) => break Waited::Done(self.give_up(EINTR)),
                Err(Errno::TIMEDOUT) if deadline.is_some_and(Deadline::over) => {
                    break Waited::Done(self.give_up(ETIMEDOUT));
                }
                _ => {}
            }
        };
        if let Some(seat) = seat {
            seat.awake();
        }
        waited
    }
}

/// The semaphore at `object`, as the recorder knows it.
fn told<T>(object: *const T) -> Object {
    Object::semaphore(object, 0)
}

/// A unit was taken without a wait. 0: success.
#[inline(always)]
fn taken<T>(object: *const T) -> c_int {
    told(object).tell(Kind::Wait);
    0
}

/// A `wait` for a semaphore of the C library's, as a cancellation point: may unwind. The recorder
/// is told whether a unit was there. A time that is none is refused by the C library.
#[inline(always)]
unsafe fn waits(semaphore: *mut sem_t, has_time: bool, wait: impl FnOnce() -> c_int) -> c_int {
    if !has_time || recorded().is_none() {
        return wait();
    }
    pthread_testcancel();
    // SAFETY: the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    if real!(sem_trywait(semaphore: *mut sem_t) -> c_int) == 0 {
        told(semaphore).tell(Kind::Wait);
        return 0;
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    told(semaphore).tell_around(wait)
}

/// Whether `at` is a time.
unsafe fn is_time(at: *const timespec) -> bool {
    // SAFETY: a time or null, as in C.
    unsafe { at.as_ref() }.is_some_and(|at| (0..1_000_000_000).contains(&at.tv_nsec))
}

/// Sets errno, as these functions do. 0 for success, otherwise −1.
fn report(error: c_int) -> c_int {
    if error == 0 {
        return 0;
    }
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Takes a unit that is there, as a cancellation point: may unwind.
#[inline(always)]
fn take_at_once(object: &SemObject) -> bool {
    pthread_testcancel();
    object.take(0) && taken(object) == 0
}

/// Waits, as a cancellation point: may unwind.
#[cold]
unsafe fn cancellable(object: &SemObject, time: Option<(clockid_t, *const timespec)>) -> c_int {
    // The time is looked at first, as in glibc.
    let deadline = match time {
        None => None,
        // SAFETY: a time, as in C.
        Some((clock, at)) => match unsafe { Deadline::new(clock, at) } {
            Ok(deadline) => Some(deadline),
            Err(error) => return report(error),
        },
    };
    let seat = cancel::sit(thread::block());
    // Again: a request between the first look and the seat found nobody.
    pthread_testcancel();
    let is_taken = object.take(0);
    told(object).tell(Kind::Wait);
    if is_taken {
        return 0;
    }
    loop {
        let kind = cancel::defer();
        let waited = object.wait(deadline.as_ref(), seat);
        cancel::restore(kind);
        match waited {
            Waited::Done(error) => {
                told(object).tell_end(error == 0);
                return report(error);
            }
            // If cancellation is disabled, the wait goes on.
            Waited::Asked => pthread_testcancel(),
        }
    }
}

lockyard_segment::with_caller! {
    /// See `sem_init(3p)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn sem_init(semaphore: *mut sem_t, shared: c_int, value: c_uint) => init_for
}

unsafe extern "C" fn init_for(semaphore: *mut sem_t, shared: c_int, value: c_uint, caller: Call) -> c_int {
    Object::semaphore(semaphore, caller.at()).made();
    if shared != 0 || !config::semaphores() {
        counters::count(if shared != 0 { Fallback::Shared } else { Fallback::Chosen });
        return real!(sem_init(semaphore: *mut sem_t, shared: c_int, value: c_uint) -> c_int);
    }
    if value > MAX {
        return report(EINVAL);
    }
    // SAFETY: memory for a semaphore that nobody uses.
    unsafe { semaphore.write_bytes(0, 1) };
    // SAFETY: as above; all-zero is valid.
    let object = unsafe { &*semaphore.cast::<SemObject>() };
    object.word.store(value.into(), Relaxed);
    object.tag.store(TAG, Release);
    0
}

/// See `sem_destroy(3p)`. Always succeeds, as in glibc; while somebody waits, which is undefined,
/// the object stays what it is.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_destroy(semaphore: *mut sem_t) -> c_int {
    told(semaphore).gone();
    // SAFETY: a semaphore, as in C.
    match unsafe { SemObject::ours(semaphore) } {
        Some(object) => {
            if object.word.load(Relaxed) < WAITER {
                object.tag.store(0, Relaxed);
            }
            0
        }
        None => real!(sem_destroy(semaphore: *mut sem_t) -> c_int),
    }
}

/// See `sem_post(3p)`. Async-signal-safe.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(semaphore: *mut sem_t) -> c_int {
    told(semaphore).tell(Kind::Signal);
    // SAFETY: a semaphore, as in C.
    match unsafe { SemObject::ours(semaphore) } {
        Some(object) => report(object.post()),
        None => real!(sem_post(semaphore: *mut sem_t) -> c_int),
    }
}

/// See `sem_trywait(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_trywait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: a semaphore, as in C.
    match unsafe { SemObject::ours(semaphore) } {
        Some(object) if object.take(0) => taken(semaphore),
        Some(_) => {
            told(semaphore).tell(Kind::FailWrite);
            report(EAGAIN)
        }
        None => match real!(sem_trywait(semaphore: *mut sem_t) -> c_int) {
            0 => taken(semaphore),
            result => {
                told(semaphore).tell(Kind::FailWrite);
                result
            }
        },
    }
}

/// See `sem_wait(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: a semaphore, as in C.
    match unsafe { SemObject::ours(semaphore) } {
        Some(object) if take_at_once(object) => 0,
        // SAFETY: no time is given.
        Some(object) => unsafe { cancellable(object, None) },
        None => {
            let wait = || real!(sem_wait(semaphore: *mut sem_t) -> c_int);
            // SAFETY: a semaphore, as in C.
            unsafe { waits(semaphore, true, wait) }
        }
    }
}

/// See `sem_timedwait(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_timedwait(semaphore: *mut sem_t, at: *const timespec) -> c_int {
    // SAFETY: a semaphore, as in C.
    match unsafe { SemObject::ours(semaphore) } {
        // SAFETY: a time, as in C.
        Some(object) => unsafe { cancellable(object, Some((libc::CLOCK_REALTIME, at))) },
        None => {
            let wait = || real!(sem_timedwait(semaphore: *mut sem_t, at: *const timespec) -> c_int);
            // SAFETY: a semaphore, as in C.
            unsafe { waits(semaphore, is_time(at), wait) }
        }
    }
}

/// See `sem_clockwait(3)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, at: *const timespec) -> c_int {
    // SAFETY: a semaphore, as in C.
    match unsafe { SemObject::ours(semaphore) } {
        Some(_) if !deadline::knows(clock) => report(EINVAL),
        // SAFETY: a time, as in C.
        Some(object) => unsafe { cancellable(object, Some((clock, at))) },
        None => {
            let wait = || real!(sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, at: *const timespec) -> c_int);
            // SAFETY: a semaphore, as in C.
            unsafe { waits(semaphore, deadline::knows(clock) && is_time(at), wait) }
        }
    }
}

/// See `sem_getvalue(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_getvalue(semaphore: *mut sem_t, value: *mut c_int) -> c_int {
    // SAFETY: a semaphore, as in C.
    match unsafe { SemObject::ours(semaphore) } {
        Some(object) => {
            // SAFETY: a place for the value, as in C.
            unsafe { *value = (object.word.load(Relaxed) & VALUE) as c_int };
            0
        }
        None => real!(sem_getvalue(semaphore: *mut sem_t, value: *mut c_int) -> c_int),
    }
}
