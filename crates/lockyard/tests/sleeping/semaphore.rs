//! Whom an up wakes, for whom units are kept, and what the events say.

use lockyard::GaveUp;
use lockyard::cancel::{CancelToken, Until};
use lockyard::event::Event;
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::semaphore::{MAX_UNITS, RawSemaphore};
use lockyard::wait::turn::{RESERVED_NS, TURN_NS};
use lockyard_check::lock::Count;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::{rests, scripts};

fn empty<S: Count<P = Scripted>>() -> S {
    S::with_units(0)
}

fn is_as_new<S: Count<P = Scripted>>(semaphore: &S, units: u32) -> bool {
    format!("{semaphore:?}") == format!("{:?}", S::with_units(units))
}

scripts! {
    /// Threads that run take units past a first waiter that sleeps, for one turn; then units are
    /// kept for it.
    fn a_sleeping_first_waiter_is_passed_for_one_turn() {
        const STEP: u64 = TURN_NS / 8;
        let semaphore = empty::<RawSemaphore<Scripted>>();
        Scene::play(|scene, [barger, waiter]| {
            let got = waiter.starts(|| semaphore.down());
            let mut passed = 0;
            loop {
                // Slow to wake up, every time.
                waiter.freeze();
                barger.does(|| assert!(semaphore.up()));
                let again = barger.does(|| semaphore.try_down());
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
            assert_eq!(scene.events(Event::SemHandoff), 1);
        });
        assert!(is_as_new(&semaphore, 0));
    }

    /// The up that obeys a request clears it: those that follow wake nobody.
    fn a_request_to_be_woken_is_obeyed_once() {
        let semaphore = empty::<RawSemaphore<Scripted>>();
        Scene::play(|scene, [upper, waiter]| {
            let got = waiter.starts(|| semaphore.down());
            waiter.freeze();
            for _ in 0..3 {
                upper.does(|| assert!(semaphore.up()));
                assert_eq!(scene.events(Event::SemWake), 1);
                assert!(upper.does(|| semaphore.try_down()));
            }
            upper.does(|| assert!(semaphore.up()));
            waiter.thaw();
            got.expect("woken");
            assert_eq!((scene.events(Event::SemWake), scene.events(Event::SemDown)), (1, 1));
            // Nobody waits any more.
            upper.does(|| assert!(semaphore.up()));
            assert_eq!((scene.events(Event::SemWake), scene.events(Event::SemHandoff)), (1, 0));
        });
        assert!(is_as_new(&semaphore, 1));
    }

    /// A unit is public before its up has looked who is to be woken. Another up meanwhile may have
    /// woken the waiter already.
    fn of_two_ups_one_wakes_the_waiter() {
        let mut between = 0;
        every_stop(|stop| {
            let semaphore = empty::<RawSemaphore<Scripted>>();
            let mut stopped = false;
            Scene::play(|scene, [first, waiter, second]| {
                let got = waiter.starts(|| semaphore.down());
                waiter.freeze();
                first.starts_until(stop, || semaphore.up());
                stopped = first.is_stopped();
                between += semaphore.units();
                second.does(|| assert!(semaphore.up()));
                first.resumes();
                assert_eq!(scene.events(Event::SemWake), 1);
                waiter.thaw();
                got.expect("woken");
            });
            assert!(is_as_new(&semaphore, 1));
            stopped
        });
        assert!(between > 0);
    }

    /// Quick ups find that the first waiter has been woken already: it wakes the next if there are
    /// units left, and asks on its behalf if not.
    fn two_quick_ups_reach_two_waiters_without_a_timer() {
        for quick in [1, 2] {
            let semaphore = empty::<RawSemaphore<Scripted>>();
            Scene::play(|scene, [upper, first, second]| {
                [first, second].into_iter().for_each(|waiter| rests(scene, waiter));
                let got = [first, second].map(|waiter| waiter.starts(|| semaphore.down()));
                first.freeze();
                (0..quick).for_each(|_| upper.does(|| assert!(semaphore.up())));
                assert_eq!(scene.events(Event::SemWake), 1);
                first.thaw();
                scene.settle();
                assert_eq!(got.each_ref().map(|got| got.is_done()), [true, quick == 2]);
                assert_eq!(scene.events(Event::SemWake), quick);
                (quick..2).for_each(|_| upper.does(|| assert!(semaphore.up())));
                scene.settle();
                assert!(got[1].is_done() && scene.events(Event::SemWake) == 2);
            });
            assert!(is_as_new(&semaphore, 0));
        }
    }

    /// A waiter for many sleeps until the last of its units comes: the ups before it wake nobody.
    fn ups_that_are_not_enough_wake_nobody() {
        for size in 2..=4 {
            let semaphore = empty::<RawSemaphore<Scripted>>();
            Scene::play(|scene, [upper, waiter]| {
                rests(scene, waiter);
                let got = waiter.starts(|| semaphore.down_many(size));
                for had in 1..size {
                    upper.does(|| assert!(semaphore.up()));
                    assert_eq!((semaphore.units(), scene.events(Event::SemWake)), (had, 0));
                }
                assert!(!got.is_done());
                upper.does(|| assert!(semaphore.up()));
                got.expect("there are enough");
                assert_eq!(scene.events(Event::SemWake), 1);
            });
            assert!(is_as_new(&semaphore, 0));
        }
    }

    /// Takers of one pass a waiter for many until its turn is over. Then the units that come back
    /// are kept for it, and those behind it get theirs after it.
    fn a_waiter_for_many_collects_when_its_turn_is_over() {
        let semaphore = RawSemaphore::<Scripted>::with_units(2);
        Scene::play(|scene, [taker, many, one]| {
            taker.does(|| assert!(semaphore.try_down()));
            let got = many.starts(|| semaphore.down_many(2));
            assert!(taker.does(|| semaphore.try_down()), "within its turn it may be passed");
            taker.does(|| assert!(semaphore.up()));
            scene.advance(2 * TURN_NS);
            assert_eq!(scene.events(Event::SemHandoff), 1);
            assert!(!taker.does(|| semaphore.try_down()), "it collects");
            let behind = one.starts(|| semaphore.down());
            assert!(!got.is_done() && !behind.is_done() && semaphore.units() == 1);
            taker.does(|| assert!(semaphore.up()));
            scene.settle();
            got.expect("what was out has come back");
            taker.does(|| assert!(semaphore.up_many(2)));
            scene.finish();
            behind.expect("after it");
        });
        assert!(is_as_new(&semaphore, 1));
    }

    /// A waiter for more than there is keeps the others out, at every stop of its leaving, until it
    /// gives up; then no up is needed.
    fn a_waiter_for_many_that_gives_up_lets_the_next_in() {
        every_stop(|stop| {
            let semaphore = RawSemaphore::<Scripted>::with_units(1);
            let token = CancelToken::<Scripted>::default();
            let mut stopped = false;
            Scene::play(|scene, [canceller, many, one]| {
                let left = many.starts_until(stop, || semaphore.down_many_until(2, Until::cancelled(&token)));
                stopped = many.is_stopped();
                let got = one.starts(|| semaphore.down());
                many.resumes();
                scene.advance(2 * TURN_NS);
                canceller.does(|| token.cancel());
                scene.finish();
                assert_eq!(left.expect("cancelled"), Err(GaveUp::Cancelled));
                got.expect("there is a unit for it");
            });
            assert!(is_as_new(&semaphore, 0));
            stopped
        });
    }

    /// Enough units are kept for a waiter for many that does not come as long as for any other.
    fn a_waiter_for_many_that_does_not_come_reserves_nothing() {
        let semaphore = RawSemaphore::<Scripted>::with_units(2);
        Scene::play(|scene, [taker, many]| {
            taker.does(|| assert!(semaphore.try_down()));
            let got = many.starts(|| semaphore.down_many(2));
            scene.advance(2 * TURN_NS);
            many.freeze();
            taker.does(|| assert!(semaphore.up()));
            assert!(!taker.does(|| semaphore.try_down()), "kept");
            scene.advance(2 * RESERVED_NS);
            assert!(taker.does(|| semaphore.try_down()), "it did not come");
            taker.does(|| assert!(semaphore.up()));
            many.thaw();
            scene.finish();
            got.expect("it came");
        });
        assert!(is_as_new(&semaphore, 0));
    }

    /// One up of many reaches as many waiters as it has units for.
    fn an_up_of_many_reaches_every_waiter() {
        let semaphore = empty::<RawSemaphore<Scripted>>();
        Scene::play(|scene, [upper, first, second, third]| {
            let got = [(first, 1), (second, 2), (third, 1)].map(|(waiter, size)| {
                let semaphore = &semaphore;
                waiter.starts(move || semaphore.down_many(size))
            });
            upper.does(|| assert!(semaphore.up_many(3)));
            scene.settle();
            // The second has its two, or the third, which is awake as well, was faster.
            let [first, second, third] = got.each_ref().map(|got| got.is_done());
            assert!(first && second != third, "{second} {third}");
            upper.does(|| assert!(semaphore.up_many(1)));
            scene.finish();
            got.into_iter().for_each(|got| got.expect("there is a unit for each"));
        });
        assert!(is_as_new(&semaphore, 0));
    }

    /// For a moment there is one unit too many, which is no reason to let in another.
    fn a_full_semaphore_stays_full() {
        fn full<S: Count<P = Scripted>>() {
            every_stop(|stop| {
                let semaphore = S::with_units(MAX_UNITS);
                let mut stopped = false;
                Scene::play(|scene, [first, second]| {
                    let more = first.starts_until(stop, || semaphore.up());
                    stopped = first.is_stopped();
                    let another = second.starts(|| semaphore.up());
                    first.resumes();
                    scene.finish();
                    assert!(!more.expect("an up does not wait") && !another.expect("an up does not wait"));
                });
                assert!(is_as_new(&semaphore, MAX_UNITS));
                stopped
            });
        }
        full::<RawSemaphore<Scripted>>();
        full::<KernelSemaphore<Scripted, DirectHandoff>>();
        full::<KernelSemaphore<Scripted, Opportunistic2008>>();
    }

    /// A thread has one place in a queue: the handler of a signal that comes while it waits polls.
    fn a_handler_takes_a_unit_on_top_of_a_wait() {
        fn handled<S: Count<P = Scripted>>() {
            every_stop(|stop| {
                let (semaphore, handlers) = (empty::<S>(), empty::<S>());
                let mut stopped = false;
                Scene::play(|scene, [waiter, upper, another]| {
                    let got = waiter.interrupted(stop, || handlers.down(), || semaphore.down());
                    stopped = waiter.is_stopped();
                    waiter.resumes();
                    another.starts(|| handlers.up());
                    if stopped {
                        waiter.wakes_spuriously();
                        assert!(!got.is_done(), "there has been no unit for it");
                    }
                    upper.starts(|| semaphore.up());
                    scene.finish();
                    got.expect("there is a unit for it");
                });
                assert!(is_as_new(&semaphore, 0));
                assert!(is_as_new(&handlers, 0) || !stopped && is_as_new(&handlers, 1));
                stopped
            });
        }
        handled::<RawSemaphore<Scripted>>();
        handled::<KernelSemaphore<Scripted, DirectHandoff>>();
        handled::<KernelSemaphore<Scripted, Opportunistic2008>>();
    }

    /// A thread that queues asks in the name of a first waiter that is late at a semaphore that is
    /// fought over, once.
    fn a_newcomer_asks_for_one_that_is_late() {
        let semaphore = empty::<RawSemaphore<Scripted>>();
        Scene::play(|scene, [upper, passed, late, newcomer, another]| {
            let before = passed.starts(|| semaphore.down());
            let got = late.starts(|| semaphore.down());
            scene.advance(TURN_NS);
            upper.does(|| assert!(semaphore.up()));
            scene.settle();
            before.expect("its turn was over");
            late.freeze();
            scene.advance(4 * TURN_NS);
            let (asked, woken) = (scene.events(Event::SemHandoff), scene.events(Event::SemWake));
            let last = [newcomer, another].map(|newcomer| {
                let got = newcomer.starts(|| semaphore.down());
                assert_eq!(scene.events(Event::SemHandoff), asked + 1);
                got
            });
            upper.does(|| assert!(semaphore.up()));
            assert_eq!(scene.events(Event::SemWake), woken, "it has been woken by the newcomer");
            assert!(!upper.does(|| semaphore.try_down()), "kept");
            late.thaw();
            scene.settle();
            got.expect("kept for it");
            upper.does(|| assert!(semaphore.up() && semaphore.up()));
            scene.finish();
            last.into_iter().for_each(|got| got.expect("there is a unit for each"));
        });
        assert!(is_as_new(&semaphore, 0));
    }

    /// Direct handoff: each up is one waiter's, in the order in which they came, whatever others
    /// try meanwhile.
    fn a_unit_given_is_nobody_elses() {
        let semaphore = empty::<KernelSemaphore<Scripted, DirectHandoff>>();
        Scene::play(|scene, [upper, first, second]| {
            let got = [first, second].map(|waiter| waiter.starts(|| semaphore.down()));
            first.freeze();
            upper.does(|| assert!(semaphore.up()));
            assert!(!upper.does(|| semaphore.try_down()));
            assert_eq!(semaphore.units(), 0);
            upper.does(|| assert!(semaphore.up()));
            assert!(!upper.does(|| semaphore.try_down()));
            assert_eq!(got.each_ref().map(|got| got.is_done()), [false, true]);
            first.thaw();
            assert!(got[0].is_done());
            assert_eq!((scene.events(Event::SemHandoff), scene.events(Event::SemWake)), (2, 2));
            assert_eq!((scene.events(Event::SemDown), scene.events(Event::SemFail)), (2, 0));
            // Nobody waits: public.
            upper.does(|| assert!(semaphore.up()));
            assert_eq!((semaphore.units(), scene.events(Event::SemHandoff)), (1, 2));
        });
        assert!(is_as_new(&semaphore, 1));
    }

    /// In every form those who give up leave nothing behind, first, last and in the middle.
    fn who_gives_up_leaves_nothing_behind() {
        fn leaves<S: Count<P = Scripted>>() {
            for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
                let semaphore = empty::<S>();
                let tokens: [CancelToken<Scripted>; 3] = Default::default();
                Scene::play(|scene, [canceller, first, second, third]| {
                    let waiters = [first, second, third];
                    let left = [0, 1, 2].map(|place: usize| {
                        let (semaphore, token) = (&semaphore, &tokens[place]);
                        waiters[place].starts(move || semaphore.down_until(Until::cancelled(token)))
                    });
                    for place in order {
                        let token = &tokens[place];
                        canceller.does(|| token.cancel());
                        scene.settle();
                        assert!(left[place].is_done());
                    }
                    left.into_iter().for_each(|left| assert_eq!(left.expect("cancelled"), Err(GaveUp::Cancelled)));
                    assert_eq!((scene.events(Event::SemFail), scene.events(Event::SemDown)), (3, 0));
                });
                assert!(is_as_new(&semaphore, 0));
            }
        }
        leaves::<RawSemaphore<Scripted>>();
        leaves::<KernelSemaphore<Scripted, DirectHandoff>>();
        leaves::<KernelSemaphore<Scripted, Opportunistic2008>>();
    }
}
