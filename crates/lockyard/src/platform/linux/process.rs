//! This process: what tells it from the process that it was forked from, and windows that no fork
//! falls into.
//!
//! # The epoch
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
//!
//! # Windows
//!
//! A lock's slow path has a few steps between which its words make sense to nobody else: a queue
//! half linked, a spinlock inside a lock held. A fork between them would leave the child with them
//! for ever. So the steps are a **window** ([`begin_window`], [`end_window`]), and a fork waits for
//! the windows of other threads.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `slot.window` | windows that the thread is in, one inside the other | the thread |
//! | `FORKS` | forks about to happen: no thread begins a window | the forking thread adds 1 before, and takes 1 away after; a child sets 0 |
//!
//! Ordering: {window := 1; light fence; load `FORKS`} against {`FORKS` += 1; full fence; a nap;
//! load every window}: one of the two sees the other, since no processor keeps a store to itself
//! for as long as a nap.
//!
//! The gate stays shut until the fork is over: the kernel copies page by page, and handlers of
//! others may come between ours and the fork. If one of them waits for a lock, the forking thread
//! opens the gate while it sleeps ([`aside`]): the owner of that lock may need a window to come to
//! its release.
//!
//! All waits end. A fork waits [`FORK_ROUNDS`] naps for a window: a thread that is stopped inside
//! one (a handler that does not return, a debugger) does not stop forks; a child made then may find
//! the one lock shut that the thread was busy with. A thread waits [`GATE_ROUNDS`] naps for a fork,
//! once: after that nobody waits for that fork any more.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use super::{Linux, strangers, threads};
use crate::platform::Platform;

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

static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many naps a fork waits for other threads' windows: some 30 ms.
const FORK_ROUNDS: u32 = 32;
/// How many naps a thread waits for a fork to be over before it begins its window nevertheless:
/// about a second.
const GATE_ROUNDS: u32 = 800;

/// How often the gate has been shut.
static SHUT: AtomicU32 = AtomicU32::new(0);
/// The number of that, when a thread last waited in vain. At first none that `SHUT` has: a thread
/// may see the gate shut and `SHUT` still 0.
static STUCK: AtomicU32 = AtomicU32::new(u32::MAX);

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
const fn after(last: u32) -> u32 {
    match last.wrapping_add(1) {
        0 | NEVER => 1,
        next => next,
    }
}

/// The calling thread, with this record's word, begins a window.
#[inline]
pub(super) fn begin_window(window: &AtomicU32) {
    let outer = window.load(Relaxed);
    window.store(outer + 1, Relaxed);
    Linux::fence_light();
    if outer == 0 && FORKS.load(Relaxed) != 0 {
        wait_for_forks(window, super::doze);
    }
}

/// The calling thread ends the window that it began last. (None, if it had no record then, or has
/// become another process.)
#[inline]
pub(super) fn end_window(window: &AtomicU32) {
    // Release: a fork that finds the window closed finds what was done in it.
    window.store(window.load(Relaxed).saturating_sub(1), Release);
}

#[cold]
fn wait_for_forks(window: &AtomicU32, mut nap: impl FnMut(u32)) {
    if threads::is_forking() {
        return;
    }
    let time = SHUT.load(Relaxed);
    for round in 0..GATE_ROUNDS {
        if STUCK.load(Relaxed) == time {
            return;
        }
        window.store(0, Release);
        nap(round);
        window.store(1, Relaxed);
        Linux::fence_light();
        if FORKS.load(Relaxed) == 0 {
            return;
        }
    }
    STUCK.store(time, Relaxed);
}

/// Shuts the gate, and waits for the windows of all other threads: `false`, if some did not end.
fn shut(mut nap: impl FnMut(u32)) -> bool {
    SHUT.fetch_add(1, Relaxed);
    FORKS.fetch_add(1, SeqCst);
    // Instead of a fence on the other side: see the module text.
    Linux::fence();
    nap(4);
    (0..FORK_ROUNDS).any(|round| {
        let closed = !threads::any_window_elsewhere();
        if !closed {
            nap(round);
        }
        closed
    })
}

/// Sleeps, for whatever: `sleep`. A thread that is about to fork opens the gate meanwhile.
#[inline]
pub(super) fn aside(sleep: impl FnOnce()) {
    if !threads::is_forking() {
        return sleep();
    }
    FORKS.fetch_sub(1, Relaxed);
    sleep();
    shut(super::doze);
}

/// Before a fork.
extern "C" fn prepare() {
    threads::set_forking(true);
    shut(super::doze);
}

/// After a fork, in the parent.
extern "C" fn parent() {
    FORKS.fetch_sub(1, Relaxed);
    threads::set_forking(false);
}

/// After a fork, in the child, whose only thread calls it.
extern "C" fn child() {
    // Where the kernel has not wiped it.
    EPOCH.0.store(0, Relaxed);
    open();
    KNOWS_ITSELF.store(VERIFIED.load(Relaxed), Relaxed);
    threads::set_forking(false);
    threads::claim_again();
    strangers::keep();
    threads::forget_ghosts();
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
fn noted_thread_id() -> Option<u32> {
    let mut clock = 0;
    // SAFETY: the calling thread, and a place for its clock's name.
    let known = unsafe { pthread_getcpuclockid(pthread_self(), &mut clock) } == 0;
    // The kernel's way of naming a clock: the id's complement, above three bits that tell which
    // clock.
    known.then_some(!(clock >> 3) as u32)
}

#[cfg(miri)]
fn noted_thread_id() -> Option<u32> {
    None
}

#[cfg(not(miri))]
unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
    fn pthread_self() -> usize;
    fn pthread_getcpuclockid(thread: usize, clock: &mut i32) -> i32;
}

/// When the program or the shared library starts: earlier than the program registers fork handlers
/// of its own, so that ours come last before a fork, and first after it. What a sandbox may forbid
/// later is asked here.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn start() {
        wipe();
        epoch();
        let right = noted_thread_id() == Some(rustix::thread::gettid().as_raw_pid() as u32);
        VERIFIED.store(right, Relaxed);
        KNOWS_ITSELF.store(right, Relaxed);
        // SAFETY: the handlers last as long as the object they are in: the C library drops them
        // with it. (It may refuse for lack of memory: children are then noticed by their wiped page
        // alone.)
        let _ = unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        super::exit::open();
        Linux::cpus();
        threads::mirror_cpus(super::topology::last_usable_cpu());
    }
    start
};

#[cfg(test)]
mod tests;
