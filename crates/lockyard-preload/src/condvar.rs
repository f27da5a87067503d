//! `pthread_cond_*`: our condition variable for our mutexes, glibc's for the others.
//!
//! # The object (48 bytes)
//!
//! | bytes | glibc | here |
//! |---|---|---|
//! | 0–7 | | waiters: [`RawCondvar`] |
//! | 8–11 | | generation: see `fork` |
//! | 36–39 | `__wrefs`: bit 0 process-shared, bit 1 monotonic clock | the same, and bit 31: *ours*, bit 30: *changing hands* |
//!
//! `pthread_cond_init` is glibc's: it writes the flags and zeroes. A wait decides whose the object
//! is: with one of our mutexes it is marked *ours*; until then a signal has nobody to wake in
//! either world. Process-shared ones, and those waited for with a mutex of glibc's, are glibc's,
//! and counted. An object may change hands between waits (never during one: waiting with two
//! mutexes at a time is undefined). The notes of one side, not for the other to see, are zeroed.
//!
//! **Cancellation**: see `cancel`. A cancelled waiter holds its mutex again before its cleanup
//! handlers run.
//!
//! **Returns without a signal** happen, as POSIX allows.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::*};

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, EBUSY, EINVAL, EPERM, ETIMEDOUT, clockid_t};
use libc::{pthread_cond_t, pthread_condattr_t, pthread_mutex_t, timespec};
use lockyard::cancel::{GaveUp, Until};
use lockyard::condvar::{Companion, RawCondvar};
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_segment::places::Object;
use lockyard_segment::tape::Kind;
use lockyard_segment::{self as segment, Call};

use crate::cancel::{self, Seat, pthread_testcancel};
use crate::config::{self, MutexKind};
use crate::counters::{self, Fallback};
use crate::deadline::{self, Deadline};
use crate::mutex::{ERRORCHECK, MutexObject, RECURSIVE};
use crate::real::real;
use crate::signals::Told;
use crate::{fork, thread, watch};

const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;
const OURS: u32 = 1 << 31;
const CHANGING: u32 = 1 << 30;
/// What `pthread_cond_init` wrote.
const GIVEN: u32 = SHARED | MONOTONIC;

/// A `pthread_cond_t`.
#[repr(C)]
struct CondObject {
    raw: RawCondvar<Linux>,
    generation: AtomicU32,
    rest: [AtomicU32; 6],
    flags: AtomicU32,
    more: [AtomicU32; 2],
}

const _: () = {
    assert!(size_of::<CondObject>() == size_of::<pthread_cond_t>());
    assert!(align_of::<CondObject>() <= align_of::<pthread_cond_t>());
    assert!(core::mem::offset_of!(CondObject, flags) == 36);
};

impl CondObject {
    /// # Safety
    /// `cond` points to a condition variable that lasts as long as the result is used.
    unsafe fn at<'a>(cond: *mut pthread_cond_t) -> &'a Self {
        // SAFETY: the caller's promise. Everything inside is atomic, and any bytes are valid.
        unsafe { &*cond.cast() }
    }

    fn settle(&self) {
        fork::settle(&self.generation, || {
            // SAFETY: a user of the queue settles first, so nobody of this process does.
            unsafe { self.raw.forget_waiters() };
        });
    }

    /// Makes the object ours (`to`: [`OURS`]) or glibc's (0), which nobody waits on. Whoever comes
    /// meanwhile waits until it is done.
    #[cold]
    fn change_hands(&self, to: u32) {
        loop {
            let flags = self.flags.load(Acquire);
            if flags & (OURS | CHANGING) == to {
                return;
            }
            // A fork waits for that.
            Linux::begin_window();
            let mine = flags & CHANGING == 0
                && self.flags.compare_exchange(flags, flags & GIVEN | CHANGING, Acquire, Relaxed).is_ok();
            if mine {
                // SAFETY: nobody waits, and nobody looks while the object changes hands.
                unsafe { self.raw.forget_waiters() };
                self.generation.store(if to == OURS { fork::generation() } else { 0 }, Relaxed);
                self.rest.iter().chain(&self.more).for_each(|word| word.store(0, Relaxed));
                self.flags.store(flags & GIVEN | to, Release);
                return Linux::end_window();
            }
            Linux::end_window();
            Linux::wait_window(|| (self.flags.load(Acquire) & CHANGING == 0).then_some(()));
        }
    }

    /// The queue, if the object is ours; `Err(true)`: it is glibc's, `Err(false)`: it is changing
    /// hands, or nobody's yet, so nobody waits.
    fn ours(&self) -> Result<&RawCondvar<Linux>, bool> {
        let flags = self.flags.load(Acquire);
        match flags & (OURS | CHANGING) {
            OURS => {
                self.settle();
                Ok(&self.raw)
            }
            // glibc counts those who wait above the flags that it was given.
            0 => Err(flags & !(GIVEN & !SHARED) != 0),
            _ => Err(false),
        }
    }
}

/// The mutex of a waiter, while it waits.
struct Held<'a> {
    mutex: &'a MutexObject,
    lock: MutexKind,
    /// A recursive mutex taken more than once: one level is given up, as in glibc, and the mutex
    /// stays locked.
    nested: bool,
    caller: Call,
    /// The condition variable, for the recorder.
    told: Object,
}

impl Companion<Linux> for Held<'_> {
    fn acquire(&self) {
        // A mutex with priority inheritance may refuse, of which no waiter can be told: it waits
        // for ever, as in glibc.
        while !self.nested && self.mutex.acquire_again(self.lock, self.caller) != 0 {
            Linux::nap(u32::MAX);
        }
    }

    unsafe fn release(&self) {
        if !self.nested {
            // SAFETY: the caller's promise.
            unsafe { self.mutex.release(self.lock) };
        }
    }

    fn mutex(&self) -> Option<&RawMutex<Linux>> {
        if self.nested { None } else { self.mutex.raw(self.lock) }
    }

    fn awake(&self, signalled: bool) {
        self.told.tell_end(signalled);
        if !self.nested {
            watch::awake();
        }
    }

    fn adopted(&self, moment: u64) {
        self.mutex.told(self.lock).in_wait().moved(self.caller, moment, || self.mutex.queued(self.lock));
    }
}

/// The time of a timed wait, on which clock. `None`: the condition variable's own.
type Time = Option<(Option<clockid_t>, *const timespec)>;

enum Waited {
    Done(c_int),
    Cancelled(&'static Seat),
    /// The mutex, or the condition variable, is glibc's.
    Glibc,
}

/// Waits. Leaves nothing behind that unwinding would have to clean up: the caller acts on
/// cancellation.
unsafe fn wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, time: Time, caller: Call) -> Waited {
    // SAFETY: both valid, as in C.
    let (object, mutex) = unsafe { (CondObject::at(cond), MutexObject::at(mutex)) };
    let flags = object.flags.load(Relaxed);
    let Some((kind, lock)) = mutex.ours().filter(|_| flags & SHARED == 0) else {
        if flags & (OURS | CHANGING) != 0 {
            object.change_hands(0);
        }
        if config::mutex() != MutexKind::Glibc {
            counters::count(if flags & SHARED != 0 { Fallback::Shared } else { Fallback::ForeignMutex });
        }
        return Waited::Glibc;
    };
    let deadline = match time {
        None => None,
        Some((clock, at)) => {
            let own = if flags & MONOTONIC != 0 { CLOCK_MONOTONIC } else { CLOCK_REALTIME };
            let clock = clock.unwrap_or(own);
            if !deadline::knows(clock) {
                return Waited::Done(EINVAL);
            }
            // SAFETY: a time, as in C.
            match unsafe { Deadline::new(clock, at) } {
                Ok(deadline) => Some(deadline),
                Err(error) => return Waited::Done(error),
            }
        }
    };
    let me = thread::block();
    if (kind == RECURSIVE || kind == ERRORCHECK) && !mutex.held_by(me) {
        return Waited::Done(EPERM);
    }
    let nested = kind == RECURSIVE && mutex.depth() > 1;
    if flags & OURS == 0 {
        object.change_hands(OURS);
    }
    object.settle();
    mutex.settle(lock);
    let until = deadline.as_ref().map_or(Until::FOREVER, Deadline::until);
    let seat = cancel::sit(me);
    let until = match seat {
        Some(seat) => until.or_cancelled(&seat.token),
        None => until,
    };
    let depth = mutex.depth();
    if kind == RECURSIVE || kind == ERRORCHECK {
        if nested {
            mutex.set_depth(depth - 1);
        } else {
            mutex.disown(kind);
        }
    }
    let told = Object::condition(cond, caller.at());
    told.tell(Kind::Wait);
    if !nested {
        mutex.told(lock).in_wait().idle(caller);
    }
    let held = Held { mutex, lock, nested, caller, told };
    // SAFETY: the caller holds the mutex, as in C.
    let result = unsafe { object.raw.wait(&held, until) };
    if nested {
        mutex.set_depth(mutex.depth() + 1);
    } else {
        mutex.owned(kind, lock, me);
    }
    match (result, seat) {
        (Err(GaveUp::Cancelled), Some(seat)) => Waited::Cancelled(seat),
        // The real-time clock may have been set back: then this is a return without a signal.
        (Err(_), _) if deadline.is_some_and(|deadline| deadline.over()) => Waited::Done(ETIMEDOUT),
        _ => Waited::Done(0),
    }
}

/// Waits, as a cancellation point: may unwind. `None`: ask glibc.
unsafe fn cancellable(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: Time,
    caller: Call,
) -> Option<c_int> {
    cancel::sit(thread::block());
    pthread_testcancel();
    let kind = cancel::defer();
    // SAFETY: the caller's promise.
    let waited = unsafe { wait(cond, mutex, time, caller) };
    cancel::restore(kind);
    match waited {
        Waited::Done(result) => Some(result),
        Waited::Cancelled(seat) => {
            // If cancellation is disabled the request stays with glibc, and this is a return
            // without a signal.
            seat.token.renew();
            pthread_testcancel();
            Some(0)
        }
        Waited::Glibc => None,
    }
}

lockyard_segment::with_caller! {
    /// See `pthread_cond_wait(3p)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub extern "C-unwind" fn pthread_cond_wait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t
    ) => wait_for
}

pub(crate) unsafe extern "C-unwind" fn wait_for(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    caller: Call,
) -> c_int {
    // SAFETY: as in C.
    match unsafe { cancellable(cond, mutex, None, caller) } {
        Some(result) => result,
        None => Object::condition(cond, caller.at())
            .tell_around(|| real!(pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int)),
    }
}

lockyard_segment::with_caller! {
    /// See `pthread_cond_timedwait(3p)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub extern "C-unwind" fn pthread_cond_timedwait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, at: *const timespec
    ) => timedwait_for
}

pub(crate) unsafe extern "C-unwind" fn timedwait_for(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
    caller: Call,
) -> c_int {
    // SAFETY: as in C.
    match unsafe { cancellable(cond, mutex, Some((None, at)), caller) } {
        Some(result) => result,
        None => Object::condition(cond, caller.at()).tell_around(|| {
            real!(
                pthread_cond_timedwait(
                    cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, at: *const timespec
                ) -> c_int
            )
        }),
    }
}

lockyard_segment::with_caller! {
    /// See `pthread_cond_clockwait(3)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub extern "C-unwind" fn pthread_cond_clockwait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, at: *const timespec
    ) => clockwait_for
}

unsafe extern "C-unwind" fn clockwait_for(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    at: *const timespec,
    caller: Call,
) -> c_int {
    // SAFETY: as in C.
    match unsafe { cancellable(cond, mutex, Some((Some(clock), at)), caller) } {
        Some(result) => result,
        None => Object::condition(cond, caller.at()).tell_around(|| {
            real!(
                pthread_cond_clockwait(
                    cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, at: *const timespec
                ) -> c_int
            )
        }),
    }
}

lockyard_segment::with_caller! {
    /// See `pthread_cond_signal(3p)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn pthread_cond_signal(cond: *mut pthread_cond_t) => signal_for
}

pub(crate) unsafe extern "C" fn signal_for(cond: *mut pthread_cond_t, caller: Call) -> c_int {
    Object::condition(cond, caller.at()).tell(Kind::Signal);
    // SAFETY: a condition variable, as in C.
    match unsafe { CondObject::at(cond) }.ours().map(|queue| queue.signal_told(segment::awaited)) {
        Err(true) => real!(pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int),
        _ => 0,
    }
}

lockyard_segment::with_caller! {
    /// See `pthread_cond_broadcast(3p)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn pthread_cond_broadcast(cond: *mut pthread_cond_t) => broadcast_for
}

pub(crate) unsafe extern "C" fn broadcast_for(cond: *mut pthread_cond_t, caller: Call) -> c_int {
    Object::condition(cond, caller.at()).tell(Kind::Broadcast);
    // SAFETY: a condition variable, as in C.
    match unsafe { CondObject::at(cond) }.ours().map(|queue| queue.broadcast_told(segment::awaited)) {
        Err(true) => real!(pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int),
        _ => 0,
    }
}

unsafe extern "C" {
    fn pthread_condattr_getpshared(attributes: *const pthread_condattr_t, shared: *mut c_int) -> c_int;
}

lockyard_segment::with_caller! {
    /// See `pthread_cond_init(3p)`.
    ///
    /// # Safety
    /// As in C.
    #[unsafe(no_mangle)]
    pub fn pthread_cond_init(cond: *mut pthread_cond_t, attributes: *const pthread_condattr_t) => init_for
}

pub(crate) unsafe extern "C" fn init_for(
    cond: *mut pthread_cond_t,
    attributes: *const pthread_condattr_t,
    caller: Call,
) -> c_int {
    Object::condition(cond, caller.at()).made();
    if !attributes.is_null() {
        let mut shared = 0;
        // SAFETY: attributes, as in C, and a place for the value.
        unsafe { pthread_condattr_getpshared(attributes, &mut shared) };
        if shared != 0 {
            counters::count(Fallback::Shared);
        }
    }
    real!(pthread_cond_init(cond: *mut pthread_cond_t, attributes: *const pthread_condattr_t) -> c_int)
}

/// See `pthread_cond_destroy(3p)`. `EBUSY` while somebody waits who has not been signalled.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: a condition variable, as in C.
    let object = unsafe { CondObject::at(cond) };
    let Ok(queue) = object.ours() else {
        Object::condition(cond, 0).gone();
        return real!(pthread_cond_destroy(cond: *mut pthread_cond_t) -> c_int);
    };
    if queue.has_waiters() {
        return EBUSY;
    }
    Object::condition(cond, 0).gone();
    queue.drain();
    object.change_hands(0);
    0
}
