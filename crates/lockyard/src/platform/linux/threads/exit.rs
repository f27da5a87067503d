//! The end of a thread: how its record comes to be free without a question to the kernel.
//!
//! A thread-local destructor of Rust's allocates, and runs in an order that breaks locks used by
//! other destructors. A value of POSIX's, under a key, does neither: the first keys of a process
//! have room in every thread, and the C library runs their destructors in up to [`ROUNDS`] rounds,
//! as long as a destructor sets its value again. Ours does so until the last round, and gives the
//! record back then ([`super::leave`]). Destructors that run even later find a thread without a
//! record, which waits as such: rarely, and never for nothing.
//!
//! | `KEY` | meaning |
//! |---|---|
//! | [`NONE`] | no key with room: the kernel is asked whether the owner of a record lives |
//! | [`CLOSED`] | the library is being unloaded, or the process ends: threads that end now keep their records |
//! | other | the key, plus one |
//!
//! A thread that ends by the bare system call gives no notice. Its record is found when there are
//! no others left: then the kernel is asked.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

const NONE: u32 = 0;
const CLOSED: u32 = u32::MAX;

static KEY: AtomicU32 = AtomicU32::new(NONE);

/// What is told that the calling thread has no record any more: a `fn()`, or null.
static TOLD: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// `told` is called by every thread that ends, when its record is about to be another's: what was
/// kept of the record is to be forgotten. One function at a time; it stays loaded.
pub fn when_left(told: fn()) {
    TOLD.store(told as *mut (), Release);
}

/// The calling thread has no record any more.
pub(super) fn tell() {
    let told = TOLD.load(Acquire);
    if !told.is_null() {
        // SAFETY: not null: `when_left` stored a `fn()`.
        unsafe { core::mem::transmute::<*mut (), fn()>(told)() };
    }
}

/// As POSIX has it, and every C library on Linux.
const ROUNDS: usize = 4;

/// Keys below this have room in every thread; for others the C library would allocate.
const WITH_ROOM: u32 = 32;

/// Whether threads tell of their end.
pub(super) fn is_told() -> bool {
    KEY.load(Relaxed) != NONE
}

#[cfg(not(miri))]
unsafe extern "C" {
    fn pthread_key_create(key: &mut u32, destructor: extern "C" fn(*mut c_void)) -> i32;
    fn pthread_key_delete(key: u32) -> i32;
    fn pthread_setspecific(key: u32, value: *const c_void) -> i32;
}

/// At the start of the program, or of the shared library.
#[cfg(not(miri))]
pub(in super::super) fn open() {
    let mut key = 0;
    // SAFETY: a place for the key. The destructor lasts until `close`, which the unloading of the
    // object it is in begins with.
    if unsafe { pthread_key_create(&mut key, round) } != 0 {
        return;
    }
    if key < WITH_ROOM {
        KEY.store(key + 1, Release);
    } else {
        // SAFETY: created above, and nobody has used it.
        unsafe { pthread_key_delete(key) };
    }
}

/// When the object that this code is in is unloaded, or the process ends.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".fini_array")]
static CLOSE: extern "C" fn() = {
    extern "C" fn close() {
        if let Some(key) = key() {
            KEY.store(CLOSED, Release);
            // SAFETY: created by `open`, and not deleted before. A thread that is about to set its
            // value is refused.
            unsafe { pthread_key_delete(key) };
        }
    }
    close
};

#[cfg(not(miri))]
fn key() -> Option<u32> {
    Some(KEY.load(Acquire)).filter(|&key| key != NONE && key != CLOSED).map(|key| key - 1)
}

/// The calling thread, which has got a record, will tell of its end.
pub(super) fn expect() {
    set(1);
}

#[cfg(not(miri))]
fn set(round: usize) {
    if let Some(key) = key() {
        // SAFETY: a key that exists, or is refused. There is room for the value, which is no
        // pointer to anything.
        unsafe { pthread_setspecific(key, core::ptr::without_provenance(round)) };
    }
}

#[cfg(miri)]
fn set(_round: usize) {}

/// One round of destructors.
#[cfg(not(miri))]
extern "C" fn round(value: *mut c_void) {
    match value.addr() {
        ROUNDS.. => super::leave(),
        round => set(round + 1),
    }
}
