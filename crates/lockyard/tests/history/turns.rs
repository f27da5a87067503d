//! What was wrong with taking turns: CPUs that fell idle although nobody fought over the lock.

use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::wait::turn::TURN_NS;
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::scripts;

fn release(mutex: &RawMutex<Scripted>) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { mutex.release() };
}

scripts! {
    /// Each waiter woke the next, and no other: a queue behind a holder that had slept emptied at
    /// the pace of one wait for a CPU each.
    fn a_queue_that_nobody_fights_over_opens_up() {
        let sem = RawRwSem::<Scripted>::default();
        Scene::play(|scene, [holder, first, second, third, fourth]| {
            holder.does(|| sem.write_acquire());
            let waiters = [first, second, third, fourth];
            let begin = scene.now();
            let turns = waiters.map(|waiter| {
                waiter.starts(|| {
                    sem.read_acquire();
                    // SAFETY: just acquired.
                    unsafe { sem.read_release() };
                })
            });
            // Slow to wake up.
            waiters[1..].iter().for_each(|waiter| waiter.freeze());
            // SAFETY: the holder holds it.
            holder.does(|| unsafe { sem.write_release() });
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
        assert!(sem.at_rest());
    }

    /// The owner of a mutex made three wake-ups in its section. With 200 threads that sleep between
    /// their sections, on two CPUs, most of those that came meanwhile queued as well.
    fn an_owner_wakes_only_the_next_and_the_others_look_at_the_end_of_their_turns() {
        let mutex = RawMutex::default();
        Scene::play(|scene, [holder, first, second, third, fourth]| {
            holder.does(|| mutex.acquire());
            let waiters = [first, second, third, fourth];
            let turns = waiters.map(|waiter| {
                waiter.starts(|| {
                    mutex.acquire();
                    release(&mutex);
                })
            });
            let before = scene.events(Event::ParkWake);
            // Slow to wake up: it has a CPU again when all others are through.
            waiters[1].freeze();
            holder.does(|| release(&mutex));
            scene.settle();
            let through = || [0, 1, 2, 3].map(|place: usize| turns[place].is_done());
            assert_eq!(through(), [true, false, false, false]);
            assert_eq!(scene.events(Event::ParkWake) - before, 2, "the first, and the next");
            scene.advance(3 * TURN_NS);
            assert_eq!(through(), [true, false, true, false]);
            scene.advance(TURN_NS);
            assert_eq!(through(), [true, false, true, true]);
            waiters[1].thaw();
            scene.settle();
            assert!(turns[1].is_done());
        });
        assert!(mutex.at_rest());
    }

    /// A waiter took the mutex, and then waited for the wait lock, to leave the queue: for as long
    /// as the thread that had that one was off its CPU, nobody had the use of the mutex.
    fn a_woken_waiter_has_the_wait_lock_before_the_mutex() {
        let stops = every_stop(|stop| {
            let mutex = RawMutex::default();
            let mut stopped = false;
            Scene::play(|scene, [holder, waiter, joins, newcomer]| {
                holder.does(|| mutex.acquire());
                let got = waiter.starts(|| mutex.acquire());
                // Off its CPU while it joins the queue, perhaps in the section.
                let last = joins.starts_until(stop, || mutex.acquire());
                stopped = joins.is_stopped();
                holder.does(|| release(&mutex));
                scene.settle();
                let free = newcomer.does(|| mutex.try_acquire());
                assert!(free || got.is_done() || last.is_done(), "a thread that goes on has the use of it");
                if free {
                    newcomer.does(|| release(&mutex));
                }
                joins.resumes();
                // In the order in which they get it.
                let mut left = vec![(waiter, got), (joins, last)];
                for _ in 0..100 {
                    scene.advance(TURN_NS);
                    let Some(at) = left.iter().position(|(_, outcome)| outcome.is_done()) else { continue };
                    let (actor, outcome) = left.swap_remove(at);
                    outcome.expect("open");
                    actor.does(|| release(&mutex));
                }
                assert!(left.is_empty(), "not served in a hundred turns");
            });
            assert!(mutex.at_rest());
            stopped
        });
        assert!(stops > 20, "{stops}");
    }

    /// Not so one whose turn is over: nobody is to pass it while it waits for the wait lock.
    fn a_waiter_whose_turn_is_over_has_the_mutex_before_the_wait_lock() {
        let stops = every_stop(|stop| {
            let mutex = RawMutex::default();
            let mut stopped = false;
            Scene::play(|scene, [holder, waiter, joins]| {
                holder.does(|| mutex.acquire());
                let got = waiter.starts(|| mutex.acquire());
                let last = joins.starts_until(stop, || mutex.acquire());
                stopped = joins.is_stopped();
                // It asks for the mutex to be handed over.
                scene.advance(TURN_NS);
                holder.does(|| release(&mutex));
                scene.settle();
                assert!(mutex.is_locked(), "it has it");
                joins.resumes();
                got.expect("served");
                waiter.does(|| release(&mutex));
                scene.finish();
                last.expect("open");
                joins.does(|| release(&mutex));
            });
            assert!(mutex.at_rest());
            stopped
        });
        assert!(stops > 20, "{stops}");
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
