//! This process: what tells it from the process that it was forked from, and windows that no fork falls into.
//!
//! # The epoch
//!
//! A process has an **epoch**, a number that no ancestor had. A process id does not serve: it repeats in another PID namespace, and along a chain of forks.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `EPOCH` | the epoch; 0 in a process that has not opened one | the program's start; the child's fork handler; where that was passed by (`_Fork`, a raw `clone`), the kernel wipes the page (`MADV_WIPEONFORK`) and the first to ask opens one |
//! | `LAST` | the last epoch opened by this process or an ancestor | the opener; a child has a copy, so no number is used twice along a chain of forks |
//!
//! A thread record notes the epoch in which a thread claimed it. A record of another epoch is a copy of a thread that this process does not have: it
//! waits for nothing, will never come, and is never given to a thread (see `threads`). Where the kernel cannot wipe, a raw `clone` goes unnoticed.
//!
//! # Windows
//!
//! A lock's slow path has a few steps between which its words make sense to nobody else: a queue half linked, a spinlock inside a lock held. A fork between them would leave
//! the child with them for ever. So the steps are a **window** ([`begin_window`], [`end_window`]), and a fork waits for the windows of other threads.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `slot.window` | windows that the thread is in, one inside the other | the thread |
//! | `FORKS` | forks about to happen: no thread begins a window | the forking thread adds 1 before, and takes 1 away after; a child sets 0 |
//!
//! Ordering: {window := 1; light fence; load `FORKS`} against {`FORKS` += 1; heavy fence; load every window}: one of the two sees the other.
//! Both waits end: a thread waits [`GATE_ROUNDS`] naps for a fork, a fork [`FORK_ROUNDS`] naps for a window. A thread that is stopped inside a window (a handler that does not
//! return, a debugger) therefore does not stop forks; a child made then may find the one lock shut that the thread was busy with.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use super::{Linux, threads};
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
/// How many naps a thread waits for a fork to be over before it begins its window nevertheless: some milliseconds.
const GATE_ROUNDS: u32 = 12;

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
    #[cfg(not(miri))]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the range is exactly one static of ours; the advice changes nothing but what a child finds in it.
        let wiped =
            unsafe { madvise((&raw const EPOCH).cast_mut().cast(), size_of::<Wiped>(), Advice::LinuxWipeOnFork) };
        WIPES.store(wiped.is_ok(), Relaxed);
    }
    let next = after(LAST.fetch_add(1, Relaxed));
    match EPOCH.0.compare_exchange(0, next, AcqRel, Acquire) {
        Ok(_) => next,
        Err(opened) => opened,
    }
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
        wait_for_forks(window);
    }
}

/// The calling thread ends the window that it began last.
#[inline]
pub(super) fn end_window(window: &AtomicU32) {
    // Release: a fork that finds the window closed finds what was done in it.
    window.store(window.load(Relaxed).wrapping_sub(1), Release);
}

#[cold]
fn wait_for_forks(window: &AtomicU32) {
    if threads::is_forking() {
        return;
    }
    for round in 0..GATE_ROUNDS {
        window.store(0, Release);
        Linux::nap(round);
        window.store(1, Relaxed);
        Linux::fence_light();
        if FORKS.load(Relaxed) == 0 {
            return;
        }
    }
}

/// Before a fork: waits for the windows of all other threads.
extern "C" fn prepare() {
    threads::set_forking(true);
    FORKS.fetch_add(1, Relaxed);
    // Where there is no heavy fence the round below gives the other side time to see the count: a hint is all that is left.
    if !Linux::fence_heavy() {
        Linux::nap(4);
    }
    for round in 0..FORK_ROUNDS {
        if !threads::any_window_elsewhere() {
            break;
        }
        Linux::nap(round);
    }
}

/// After a fork, in the parent.
extern "C" fn parent() {
    FORKS.fetch_sub(1, Relaxed);
    threads::set_forking(false);
}

/// In a child: the forks of the parent are not ours.
pub(super) fn forget_forks() {
    FORKS.store(0, Relaxed);
    threads::set_forking(false);
}

/// After a fork, in the child, whose only thread calls it.
extern "C" fn child() {
    // Where the kernel has not wiped it.
    EPOCH.0.store(0, Relaxed);
    open();
    // Also where the forking thread has no record that it could claim again.
    forget_forks();
    threads::claim_again();
    threads::forget_ghosts();
}

#[cfg(not(miri))]
unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// When the program or the shared library starts: earlier than the program registers fork handlers of its own, so that ours come last before a fork, and first after it.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn start() {
        epoch();
        // SAFETY: the handlers last as long as the object they are in: the C library drops them with it. (It may refuse for lack of memory: children are then
        // noticed by their wiped page alone.)
        let _ = unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
    start
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_go_on_and_pass_by_the_two_that_mean_something_else() {
        assert_eq!([0, 1, u32::MAX - 2, u32::MAX - 1, u32::MAX].map(after), [1, 2, u32::MAX - 1, 1, 1]);
    }

    #[test]
    fn the_epoch_is_opened_at_the_start() {
        assert!(known_epoch() != 0 && epoch() == known_epoch());
    }
}
