//! What a release that may be the last thing done to an rwsem still touches.

use lockyard::cancel::Until;
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::scripts;

scripts! {
    /// It has seen that somebody waits, and before it has looked for whom, nobody does. Whoever
    /// finds the lock free then may free its memory, too.
    fn a_detached_release_is_over_when_the_lock_is_free() {
        const PATIENCE_NS: u64 = 10_000;
        every_stop(|first| {
            let mut stopped = false;
            every_stop(|second| {
                let lock = KernelRwSem::<Scripted, policy::TodayKernel>::default();
                let mut again = false;
                Scene::play(|scene, [holder, waiter]| {
                    holder.does(|| lock.write_acquire());
                    let (lock, deadline) = (&lock, scene.now() + PATIENCE_NS);
                    let waited = waiter.starts(move || lock.write_acquire_until(Until::deadline(deadline)));
                    // SAFETY: acquired above.
                    holder.starts_until(first, || unsafe { lock.write_release_detached() });
                    stopped = holder.is_stopped();
                    scene.advance(PATIENCE_NS);
                    holder.resumes_until(second + 1);
                    again = holder.is_stopped();
                    let gave_up = waited.is_done() && !lock.is_locked();
                    if again && gave_up {
                        assert!(lock.at_rest(), "free, and still in use after {first} and {second} steps");
                    }
                    holder.resumes();
                    if waited.expect("released").is_ok() {
                        // SAFETY: the waiter has it.
                        waiter.does(|| unsafe { lock.write_release() });
                    }
                });
                assert!(lock.at_rest());
                again
            });
            stopped
        });
    }
}
