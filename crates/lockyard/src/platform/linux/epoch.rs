//! This process: what tells it from the process that it was forked from, and its threads from each
//! other.
//!
//! A process has an **epoch**, a number that no ancestor had. A process id does not serve: it
//! repeats in another PID namespace, and along a chain of forks.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `EPOCH` | the epoch; 0 in a process that has not opened one | the program's start; the child's fork handler; where that was passed by (`_Fork`, a raw `clone`), the kernel wipes the page (`MADV_WIPEONFORK`) and the first to ask opens one |
//! | `LAST` | the last epoch opened by this process or an ancestor | the opener; a child has a copy, so no number is used twice along a chain of forks |
//!
//! A thread record notes the epoch in which a thread claimed it. A record of another epoch is a
//! copy of a thread that this process does not have: it waits for nothing, will never come, and is
//! never given to a thread (see `threads`). Where the kernel cannot wipe, a raw `clone` goes
//! unnoticed.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// As large as the largest page of the architecture, and alone on it.
#[repr(C)]
#[cfg_attr(target_arch = "x86_64", repr(align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(65536)))]
struct Wiped(AtomicU32);

static EPOCH: Wiped = Wiped(AtomicU32::new(0));
static LAST: AtomicU32 = AtomicU32::new(0);

/// The epoch of a thread that was never known: no process's.
pub(super) const NEVER: u32 = u32::MAX;

/// Whether the kernel wipes the page in children that no handler is told of.
static WIPES: AtomicBool = AtomicBool::new(false);

/// Forks about to happen in this process: see `fork`.
pub(super) static FORKS: AtomicU32 = AtomicU32::new(0);

/// The epoch, or 0 if none has been opened. One load.
#[inline(always)]
pub(super) fn known_epoch() -> u32 {
    EPOCH.0.load(Relaxed)
}

/// The epoch.
#[inline]
pub(super) fn epoch() -> u32 {
    match EPOCH.0.load(Acquire) {
        0 => open(),
        open => open,
    }
}

/// Whether the caller is the only thread of a child.
pub(super) fn is_alone_in_child() -> bool {
    /// The epoch in which there was more than one, or nobody could tell.
    static CROWDED: AtomicU32 = AtomicU32::new(0);
    let epoch = epoch();
    if epoch <= 1 || CROWDED.load(Relaxed) == epoch {
        return false;
    }
    // Each thread is a folder, which counts as a link beside two others.
    let alone = rustix::fs::stat(c"/proc/self/task").is_ok_and(|found| found.st_nlink == 3);
    if !alone {
        CROWDED.store(epoch, Relaxed);
    }
    alone
}

/// Whether every child has another epoch, also one that was made behind the C library's back.
pub(super) fn is_exact() -> bool {
    WIPES.load(Relaxed)
}

#[cold]
fn open() -> u32 {
    let next = after(LAST.fetch_add(1, Relaxed));
    match EPOCH.0.compare_exchange(0, next, AcqRel, Acquire) {
        Ok(_) => {
            // The forks of the parent are not ours. A child that was made behind the C library's
            // back may know its threads by their old ids.
            FORKS.store(0, Relaxed);
            KNOWS_ITSELF.store(false, Relaxed);
            next
        }
        Err(opened) => opened,
    }
}

/// Asks the kernel to wipe the epoch's page in children. They inherit that.
#[cfg(not(miri))]
fn wipe() {
    use rustix::mm::{Advice, madvise};
    // SAFETY: the range is exactly one static of ours; the advice changes nothing but what a child
    // finds in it.
    let wiped = unsafe { madvise((&raw const EPOCH).cast_mut().cast(), size_of::<Wiped>(), Advice::LinuxWipeOnFork) };
    WIPES.store(wiped.is_ok(), Relaxed);
}

/// The epoch after the one numbered `last`: neither 0, which is a wiped page, nor [`NEVER`].
pub(super) const fn after(last: u32) -> u32 {
    match last.wrapping_add(1) {
        0 | NEVER => 1,
        next => next,
    }
}

/// Whether the C library's note of a thread's kernel id was found right, at the start, and whether
/// it is right in this process.
static VERIFIED: AtomicBool = AtomicBool::new(false);
static KNOWS_ITSELF: AtomicBool = AtomicBool::new(false);

/// The calling thread's kernel id. As a rule without a system call: the C library has it, and tells
/// it as part of the name of the thread's clock.
pub(super) fn thread_id() -> u32 {
    let noted = if KNOWS_ITSELF.load(Relaxed) { noted_thread_id() } else { None };
    noted.unwrap_or_else(|| rustix::thread::gettid().as_raw_pid() as u32)
}

#[cfg(not(miri))]
pub(super) fn noted_thread_id() -> Option<u32> {
    let mut clock = 0;
    // SAFETY: the calling thread, and a place for its clock's name.
    let known = unsafe { pthread_getcpuclockid(pthread_self(), &mut clock) } == 0;
    // The kernel's way of naming a clock: the id's complement, above three bits that tell which
    // clock.
    known.then_some(!(clock >> 3) as u32)
}

#[cfg(miri)]
pub(super) fn noted_thread_id() -> Option<u32> {
    None
}

#[cfg(not(miri))]
unsafe extern "C" {
    fn pthread_self() -> usize;
    fn pthread_getcpuclockid(thread: usize, clock: &mut i32) -> i32;
}

/// In a child: opens its epoch, whether the kernel has wiped the page or not.
pub(super) fn open_in_child() {
    EPOCH.0.store(0, Relaxed);
    open();
    KNOWS_ITSELF.store(VERIFIED.load(Relaxed), Relaxed);
}

/// At the start of the program, or of the shared library: asks what a sandbox may forbid later.
#[cfg(not(miri))]
pub(super) fn start() {
    wipe();
    epoch();
    let right = noted_thread_id() == Some(rustix::thread::gettid().as_raw_pid() as u32);
    VERIFIED.store(right, Relaxed);
    KNOWS_ITSELF.store(right, Relaxed);
}
