//! fork: the child's only thread goes on with the locks it held, and the parent's other threads are
//! not there.
//!
//! A thread that waited for a lock in the parent is still in its queue in the child. A process
//! therefore has a generation: 0, and one more in each child. Each object notes in which generation
//! its queue was last looked at (all-zero: 0); a thread that is about to wait, or finds others
//! waiting, first *settles* the object: if the notes are of an older generation, the queue is
//! forgotten. The fast paths do not look at queues and pay nothing.
//!
//! [`BUSY`] excludes two threads of the child that meet there at once. It says of which generation
//! they are: a child of the child, forked meanwhile, takes over. (A fork waits for the thread, but
//! not for ever.)

use core::sync::atomic::{AtomicU32, Ordering::*};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// In what an object notes, beside the generation: a thread of that one settles it.
const BUSY: u32 = 1 << 31;

/// Makes sure that `noted`, an object's generation, is the process's; runs `forget` if it was not.
#[inline(always)]
pub(crate) fn settle(noted: &AtomicU32, forget: impl FnOnce()) {
    let generation = GENERATION.load(Relaxed);
    if noted.load(Acquire) != generation {
        settle_slow(noted, generation, forget);
    }
}

#[cold]
fn settle_slow(noted: &AtomicU32, generation: u32, forget: impl FnOnce()) {
    let busy = generation | BUSY;
    Linux::begin_window();
    let seen = noted.load(Acquire);
    let mine = seen != busy && seen != generation && noted.compare_exchange(seen, busy, Acquire, Relaxed).is_ok();
    if mine {
        forget();
        noted.store(generation, Release);
    }
    Linux::end_window();
    if !mine {
        Linux::wait_window(|| (noted.load(Acquire) == generation).then_some(()));
    }
}

/// The generation, for an object that is initialised.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// In a child process, before anything else: its generation begins.
pub(crate) fn begin_generation() {
    GENERATION.fetch_add(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grandchild waited for ever for a thread of the child.
    #[test]
    fn an_object_that_a_thread_of_the_parent_was_settling_is_taken_over() {
        for before in [1, 1 | BUSY, 6 | BUSY] {
            let noted = AtomicU32::new(before);
            let mut forgotten = 0;
            settle_slow(&noted, 7, || forgotten += 1);
            assert_eq!((forgotten, noted.into_inner()), (1, 7), "{before:#x}");
        }
    }
}
