//! What was wrong with taking turns: CPUs that fell idle although nobody fought over the lock.

use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::wait::turn::TURN_NS;
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted};

use super::scripts;

fn release(mutex: &RawMutex<Scripted>) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { mutex.release() };
}

scripts! {
    /// Each waiter woke the next, and no other: a queue behind a holder that had slept emptied at
    /// the pace of one wait for a CPU each.
    fn a_queue_that_nobody_fights_over_opens_up() {
        let mutex = RawMutex::default();
        Scene::play(|scene, [holder, first, second, third, fourth]| {
            holder.does(|| mutex.acquire());
            let waiters = [first, second, third, fourth];
            let begin = scene.now();
            let turns = waiters.map(|waiter| {
                waiter.starts(|| {
                    mutex.acquire();
                    release(&mutex);
                })
            });
            // Slow to wake up.
            waiters[1..].iter().for_each(|waiter| waiter.freeze());
            holder.does(|| release(&mutex));
            scene.settle();
            assert_eq!([0, 1, 2, 3].map(|place: usize| turns[place].is_done()), [true, false, false, false]);
            // The first was not passed: it has woken the next, and two of those that sleep long.
            for place in [3, 2, 1] {
                waiters[place].thaw();
                scene.settle();
                assert!(turns[place].is_done(), "waiter {place}");
            }
            assert_eq!(scene.now(), begin, "nobody needed a timer");
        });
        assert!(mutex.at_rest());
    }

    /// A newcomer closed the mutex in the name of a first waiter that had been woken and
    /// waited for a CPU. All others queued up behind it.
    fn an_open_mutex_is_not_kept_for_one_that_does_not_run() {
        let mutex = RawMutex::default();
        Scene::play(|scene, [holder, first, newcomer]| {
            holder.does(|| mutex.acquire());
            let got = first.starts(|| mutex.acquire());
            first.freeze();
            holder.does(|| release(&mutex));
            assert_eq!(scene.events(Event::MutexWake), 1);
            assert!(holder.does(|| mutex.try_acquire()));
            let last = newcomer.starts(|| mutex.acquire());
            holder.does(|| release(&mutex));
            assert!(holder.does(|| mutex.try_acquire()), "nobody has been passed so far");
            assert_eq!(scene.events(Event::MutexHandoff), 0);
            holder.does(|| release(&mutex));
            first.thaw();
            scene.settle();
            got.expect("open");
            first.does(|| release(&mutex));
            scene.finish();
            last.expect("open");
            newcomer.does(|| release(&mutex));
        });
        assert!(mutex.at_rest());
    }

    /// At a mutex that is fought over, as the waiter before has found, it is kept: they give way.
    fn a_mutex_that_is_fought_over_is_kept_for_one_that_is_late() {
        let mutex = RawMutex::default();
        Scene::play(|scene, [holder, passed, late, newcomer]| {
            holder.does(|| mutex.acquire());
            let before = passed.starts(|| mutex.acquire());
            let got = late.starts(|| mutex.acquire());
            scene.advance(TURN_NS);
            holder.does(|| release(&mutex));
            scene.settle();
            before.expect("its turn was over");
            late.freeze();
            passed.does(|| release(&mutex));
            scene.advance(4 * TURN_NS);
            assert!(holder.does(|| mutex.try_acquire()));
            let last = newcomer.starts(|| mutex.acquire());
            holder.does(|| release(&mutex));
            assert!(!holder.does(|| mutex.try_acquire()), "kept");
            late.thaw();
            scene.settle();
            got.expect("kept for it");
            late.does(|| release(&mutex));
            scene.finish();
            last.expect("open");
            newcomer.does(|| release(&mutex));
        });
        assert!(mutex.at_rest());
    }
}
