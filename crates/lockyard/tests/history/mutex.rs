//! The mutex's historical bugs.

use lockyard::cancel::{CancelToken, Until};
use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::wait::turn::TURN_NS;
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::scripts;

fn release(mutex: &RawMutex<Scripted>) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { mutex.release() };
}

scripts! {
    /// M1: threads that run took the mutex again and again past a first waiter that slept. Here:
    /// for one turn, then it is kept for the waiter.
    fn m1_a_sleeping_first_waiter_does_not_starve() {
        const STEP: u64 = TURN_NS / 8;
        let mutex = RawMutex::default();
        Scene::play(|scene, [barger, waiter]| {
            barger.does(|| mutex.acquire());
            let got = waiter.starts(|| mutex.acquire());
            let mut passed = 0;
            loop {
                // Slow to wake up, every time.
                waiter.freeze();
                barger.does(|| release(&mutex));
                let again = barger.does(|| mutex.try_acquire());
                waiter.thaw();
                if !again {
                    break;
                }
                passed += 1;
                assert!(passed <= 10, "passed {passed} times, for longer than its turn");
                scene.advance(STEP);
            }
            assert!(passed > 0, "within its turn it may be passed");
            got.expect("kept for it");
            assert_eq!(scene.events(Event::MutexHandoff), 1);
            waiter.does(|| release(&mutex));
        });
        assert!(mutex.at_rest());
    }

    /// M2: a waiter that woke for no reason took its own name, or a free moment, for a hand-over.
    fn m2_a_spurious_wakeup_is_not_a_handoff() {
        let mutex = RawMutex::default();
        Scene::play(|scene, [holder, waiter]| {
            holder.does(|| mutex.acquire());
            let got = waiter.starts(|| mutex.acquire());
            for round in 0..8 {
                waiter.wakes_spuriously();
                if round % 2 == 1 {
                    scene.advance(TURN_NS / 2);
                }
                assert!(!got.is_done() && mutex.is_locked());
            }
            holder.does(|| release(&mutex));
            scene.settle();
            got.expect("released");
            // Its own second try fails: nothing in the word says that the mutex was meant for it.
            assert!(!waiter.does(|| mutex.try_acquire()));
            waiter.does(|| release(&mutex));
        });
        assert!(mutex.at_rest());
    }

    /// M3: a request for handoff could fall on a mutex that had just been released, and be lost to
    /// whoever took it, again and again. Stopped anywhere, a first waiter whose turn is over is
    /// served by the next release at the latest.
    fn m3_a_handoff_request_is_not_lost_to_a_stealer() {
        let stops = every_stop(|stop| {
            let mutex = RawMutex::default();
            let mut stopped = false;
            Scene::play(|scene, [holder, waiter, stealer]| {
                holder.does(|| mutex.acquire());
                let got = waiter.starts_until(stop, || mutex.acquire());
                scene.advance(10 * TURN_NS);
                stopped = waiter.is_stopped();
                holder.starts(|| release(&mutex));
                // The mutex may be free now: in between, somebody takes it.
                let stole = stealer.does(|| mutex.try_acquire());
                waiter.resumes();
                if !stole {
                    scene.finish();
                    got.expect("nobody else has it");
                } else {
                    scene.advance(10 * TURN_NS);
                    assert!(!got.is_done());
                    waiter.freeze();
                    stealer.does(|| release(&mutex));
                    assert!(!stealer.does(|| mutex.try_acquire()), "stolen twice from a waiter whose turn is over");
                    waiter.thaw();
                    scene.finish();
                    got.expect("kept for it");
                }
                waiter.does(|| release(&mutex));
            });
            assert!(mutex.at_rest());
            stopped
        });
        assert!(stops > 20);
    }

    /// M-I6: a first waiter that has asked and then gives up leaves its request to the next, who
    /// was woken.
    fn a_request_left_behind_serves_the_next() {
        let mutex = RawMutex::default();
        let token = CancelToken::default();
        Scene::play(|scene, [holder, first, second, canceller]| {
            holder.does(|| mutex.acquire());
            let left = first.starts(|| mutex.acquire_until(Until::cancelled(&token)));
            let got = second.starts(|| mutex.acquire());
            scene.advance(10 * TURN_NS);
            canceller.does(|| token.cancel());
            assert!(left.expect("cancelled").is_err());
            holder.does(|| release(&mutex));
            scene.finish();
            got.expect("first by now");
            second.does(|| release(&mutex));
        });
        assert!(mutex.at_rest());
    }
}
