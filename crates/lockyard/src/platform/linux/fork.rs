//! Windows that no fork falls into, and what happens before and after a fork.
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

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use super::Linux;
use super::epoch::{self, FORKS};
use super::threads::{self, strangers};
use crate::platform::{Platform, Thread};

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

/// The calling thread begins a window. An anonymous thread has none.
#[inline]
pub(super) fn begin_window() {
    let Some(window) = threads::window() else { return };
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
pub(super) fn end_window() {
    if let Some(window) = threads::known_window() {
        // Release: a fork that finds the window closed finds what was done in it.
        window.store(window.load(Relaxed).saturating_sub(1), Release);
    }
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

/// What runs in a child: see [`Platform::in_children`].
type InChildren = fn(&Thread<Linux>, Option<&Thread<Linux>>);

/// An [`InChildren`], or null.
static IN_CHILDREN: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Notes what shall run in children.
pub(super) fn in_children(call: InChildren) {
    // Relaxed: read in a child, which has a copy.
    IN_CHILDREN.store(call as *mut (), Relaxed);
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
    epoch::open_in_child();
    threads::set_forking(false);
    threads::claim_again();
    strangers::keep();
    let call = IN_CHILDREN.load(Relaxed);
    if !call.is_null() {
        // SAFETY: `in_children` stored an `InChildren`.
        threads::for_ghosts(unsafe { core::mem::transmute::<*mut (), InChildren>(call) });
    }
}

#[cfg(not(miri))]
unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// When the program or the shared library starts: earlier than the program registers fork handlers
/// of its own, so that ours come last before a fork, and first after it. What a sandbox may forbid
/// later is asked here.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn start() {
        epoch::start();
        // SAFETY: the handlers last as long as the object they are in: the C library drops them
        // with it. (It may refuse for lack of memory: children are then noticed by their wiped page
        // alone.)
        let _ = unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        threads::exit::open();
        Linux::cpus();
        threads::mirror_cpus(super::topology::last_usable_cpu());
    }
    start
};

#[cfg(test)]
mod tests;
