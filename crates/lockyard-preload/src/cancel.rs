//! `pthread_cancel`: waking a thread that waits in one of ours.
//!
//! glibc ends a wait of its own by a signal, from whose handler it unwinds the stack. Ours is not
//! to be left in the middle: queues would keep a dead thread. So a wait runs with deferred
//! cancellation, `pthread_cancel` is asked for here as well, and wakes the thread; the waiter
//! leaves the queue, takes its mutex back, and *then* acts on the request, by `pthread_testcancel`
//! at the end of the outermost call. No frame in between has anything to clean up.
//!
//! # Seats
//!
//! One per thread record, in a table by its name: which thread sits there, a token that ends its
//! wait on a condition variable, and the word on which it waits as for a semaphore. A thread sits
//! down before its first cancellation point here, and looks for a request (`pthread_testcancel`)
//! after it. One of the two is always seen: a request that glibc notes before that look, or the
//! seat that the canceller looks for after glibc has noted it (`SeqCst` on both sides: each writes
//! one word and reads the other's). The seat of a dead thread keeps its name; another thread of
//! that name may be woken for nothing.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence};

use libc::pthread_t;
use lockyard::cancel::CancelToken;
use lockyard::platform::Platform;
use lockyard::platform::linux::table::{Place, Table};
use lockyard::platform::linux::{Linux, threads};
use rustix::thread::futex;

use crate::fork;
use crate::real::real;
use crate::thread::Block;

/// Where a thread can be found while it waits.
pub(crate) struct Seat {
    thread: AtomicU64,
    /// In which generation of the process (see `fork`) it sat down.
    generation: AtomicU32,
    /// Ends waits on condition variables.
    pub(crate) token: CancelToken<Linux>,
    /// The word the thread sleeps on, in a semaphore; null: in none.
    word: AtomicPtr<AtomicU32>,
    /// How many requests there have been to look, and how many of them the thread has seen.
    requests: AtomicU32,
    seen: AtomicU32,
}

// SAFETY: zero words.
unsafe impl Place for Seat {
    const NEW: Self = Self {
        thread: AtomicU64::new(0),
        generation: AtomicU32::new(0),
        token: CancelToken::new(),
        word: AtomicPtr::new(core::ptr::null_mut()),
        requests: AtomicU32::new(0),
        seen: AtomicU32::new(0),
    };
}

static TABLE: Table<Seat> = Table::new();

unsafe extern "C-unwind" {
    /// Ends the thread if it was cancelled: unwinds.
    pub(crate) safe fn pthread_testcancel();
    fn pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int;
}

const DEFERRED: c_int = 0;

/// From here on the thread is not cancelled in the middle of anything. Returns what [`restore`]
/// needs.
pub(crate) fn defer() -> c_int {
    let mut old = DEFERRED;
    // SAFETY: a place for the old type.
    unsafe { pthread_setcanceltype(DEFERRED, &mut old) };
    old
}

/// As before [`defer`]. May unwind.
pub(crate) fn restore(old: c_int) {
    if old != DEFERRED {
        let mut ours = 0;
        // SAFETY: a type that was in force, and a place for the present one.
        unsafe { pthread_setcanceltype(old, &mut ours) };
    }
}

/// The calling thread's seat. `None`: it has no record, and is not woken by cancellation, but its
/// waits are naps.
pub(crate) fn sit(me: &Block) -> Option<&'static Seat> {
    let index = Linux::id().or_else(|| Linux::current().map(|thread| thread.id())).filter(|id| !id.is_anonymous())?;
    let seat = TABLE.claim(index.raw())?;
    if !me.seated.get() {
        seat.token.renew();
        seat.word.store(core::ptr::null_mut(), Relaxed);
        seat.generation.store(fork::generation(), Relaxed);
        // SAFETY: no conditions.
        seat.thread.store(unsafe { libc::pthread_self() }, SeqCst);
        fence(SeqCst);
        me.seated.set(true);
    }
    Some(seat)
}

impl Seat {
    /// The thread is about to sleep on `word`, and will look for requests whenever it is
    /// [`asked`](Self::asked).
    pub(crate) fn sleeps_on(&self, word: &AtomicU32) {
        self.word.store(core::ptr::from_ref(word).cast_mut(), SeqCst);
        // Before the look for a request that follows: see the module text.
        fence(SeqCst);
    }

    /// It does not sleep there any more.
    pub(crate) fn awake(&self) {
        self.word.store(core::ptr::null_mut(), Release);
    }

    /// Whether somebody has asked the thread to look for a request since the last time.
    pub(crate) fn asked(&self) -> bool {
        let requests = self.requests.load(Acquire);
        self.seen.swap(requests, AcqRel) != requests
    }

    /// Makes the thread look for a request.
    fn ask(&self) {
        self.token.cancel();
        let request = self.requests.fetch_add(1, AcqRel).wrapping_add(1);
        let mut round = 0;
        // It may be between its look and its sleep: wake it until it has looked.
        loop {
            let word = self.word.load(SeqCst);
            if word.is_null() || self.seen.load(Acquire).wrapping_sub(request) as i32 >= 0 {
                return;
            }
            // SAFETY: while the thread says that it sleeps there, the semaphore exists; only its
            // address is used.
            let _ = futex::wake(unsafe { &*word }, futex::Flags::PRIVATE, i32::MAX as u32);
            Linux::nap(round);
            round += 1;
        }
    }
}

/// In a child process: nobody but the caller sits anywhere.
pub(crate) fn forget() {
    if let Some(id) = Linux::id().filter(|id| !id.is_anonymous()) {
        let Some(seat) = TABLE.get(id.raw()) else { return };
        // SAFETY: the only thread of this process, and it does not wait.
        unsafe { seat.token.forget_waiters() };
        seat.generation.store(fork::generation(), Relaxed);
    }
}

/// See `pthread_cancel(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    let result = real!(pthread_cancel(thread: pthread_t) -> c_int);
    if result == 0 {
        fence(SeqCst);
        for (_, seat) in TABLE.mapped(threads::last_name()) {
            // (Locks of a parent's seat may be held for ever.)
            if seat.thread.load(SeqCst) == thread && seat.generation.load(Relaxed) == fork::generation() {
                seat.ask();
            }
        }
    }
    result
}
