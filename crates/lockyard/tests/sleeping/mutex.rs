//! Whom a release of the mutex wakes, and for whom it is kept.

use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::wait::turn::{GRACE_NS, RESERVED_NS, TURN_NS, TURNS_NS};
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::scripts;

/// The two forms of a release.
const RELEASES: [fn(&RawMutex<Scripted>); 2] = [
    // SAFETY: each script releases what its actor holds.
    |mutex| unsafe { mutex.release() },
    // SAFETY: as above.
    |mutex| unsafe { mutex.release_detached() },
];

scripts! {
    /// The release that obeys a request clears it: those that follow wake nobody.
    fn a_request_to_be_woken_is_obeyed_once() {
        for release in RELEASES {
            let mutex = RawMutex::default();
            Scene::play(|scene, [holder, waiter]| {
                holder.does(|| mutex.acquire());
                assert!(!mutex.is_contended());
                let got = waiter.starts(|| mutex.acquire());
                assert!(mutex.is_contended());
                // Slow to wake up.
                waiter.freeze();
                for _ in 0..3 {
                    holder.does(|| release(&mutex));
                    assert_eq!(scene.events(Event::MutexWake), 1);
                    assert!(holder.does(|| mutex.try_acquire()));
                }
                holder.does(|| release(&mutex));
                waiter.thaw();
                got.expect("woken");
                assert!(!mutex.is_contended());
                waiter.does(|| release(&mutex));
                assert_eq!(scene.events(Event::MutexWake), 1);
            });
            assert!(mutex.at_rest());
        }
    }

    /// Waiters of fixed priorities are served by them, however long they have waited. Those without
    /// come after them, in order, and the mutex does not lie idle before the first of them.
    fn waiters_are_served_by_priority() {
        for release in RELEASES {
            for turns in [0, 1, 5, 1_000] {
                let mutex = RawMutex::default();
                Scene::play(|scene, [holder, early, low, middle, high, late]| {
                    holder.does(|| mutex.acquire());
                    let waiters = [(early, 0), (low, 1), (middle, 5), (high, 9), (late, 0)];
                    let got = waiters.map(|(waiter, priority)| {
                        super::rests(scene, waiter);
                        waiter.has_priority(priority);
                        waiter.starts(|| mutex.acquire())
                    });
                    for _ in 0..turns {
                        scene.advance(TURN_NS);
                    }
                    holder.does(|| release(&mutex));
                    scene.settle();
                    for next in [3, 2, 1, 0, 4] {
                        if next == 4 {
                            scene.advance(TURNS_NS);
                        }
                        let have = [0, 1, 2, 3, 4].map(|number| got[number].is_done());
                        assert!(have[next], "after {turns} turns: {next} is next, {have:?}");
                        waiters[next].0.does(|| release(&mutex));
                        scene.settle();
                    }
                    got.into_iter().for_each(|turn| turn.expect("served"));
                });
                assert!(mutex.at_rest());
            }
        }
    }

    /// A running thread without a priority does not pass a waiter that has one.
    fn a_waiter_of_fixed_priority_is_not_passed() {
        for release in RELEASES {
            let mutex = RawMutex::default();
            Scene::play(|scene, [holder, waiter, urgent, passer]| {
                holder.does(|| mutex.acquire());
                let first = waiter.starts(|| mutex.acquire());
                urgent.has_priority(9);
                let got = urgent.starts(|| mutex.acquire());
                urgent.freeze();
                holder.does(|| release(&mutex));
                assert!(!passer.does(|| mutex.try_acquire()), "kept");
                urgent.thaw();
                scene.settle();
                got.expect("kept for it");
                urgent.does(|| release(&mutex));
                scene.advance(TURN_NS);
                first.expect("its turn was over");
                waiter.does(|| release(&mutex));
            });
            assert!(mutex.at_rest());
        }
    }

    /// The mutex is free before its releaser has looked who is to be woken. A thread that takes and
    /// releases it meanwhile may have woken the waiter already.
    fn of_two_releases_one_wakes_the_waiter() {
        for release in RELEASES {
            let mut between = 0;
            every_stop(|stop| {
                let mutex = RawMutex::default();
                let mut stopped = false;
                Scene::play(|scene, [holder, waiter, passer]| {
                    holder.does(|| mutex.acquire());
                    let got = waiter.starts(|| mutex.acquire());
                    waiter.freeze();
                    holder.starts_until(stop, || release(&mutex));
                    stopped = holder.is_stopped();
                    if passer.does(|| mutex.try_acquire()) {
                        between += u32::from(stopped);
                        passer.does(|| release(&mutex));
                    }
                    holder.resumes();
                    assert_eq!(scene.events(Event::MutexWake), 1);
                    waiter.thaw();
                    got.expect("woken");
                    waiter.does(|| release(&mutex));
                });
                assert!(mutex.at_rest());
                stopped
            });
            assert!(between > 0);
        }
    }

    /// A newcomer asks in the name of a first waiter that is late, once, and wakes it. The
    /// release need not, and the mutex is kept in either form.
    fn a_release_wakes_nobody_who_has_not_asked() {
        for release in RELEASES {
            let mutex = RawMutex::default();
            Scene::play(|scene, [holder, passed, late, newcomer, another]| {
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
                let (asked, woken) = (scene.events(Event::MutexHandoff), scene.events(Event::MutexWake));
                let last = [newcomer, another].map(|newcomer| {
                    let turn = newcomer.starts(|| {
                        mutex.acquire();
                        release(&mutex);
                    });
                    assert_eq!(scene.events(Event::MutexHandoff), asked + 1);
                    turn
                });
                holder.does(|| release(&mutex));
                assert_eq!(scene.events(Event::MutexWake), woken);
                assert!(!holder.does(|| mutex.try_acquire()), "kept");
                late.thaw();
                scene.settle();
                got.expect("kept for it");
                late.does(|| release(&mutex));
                scene.finish();
                last.into_iter().for_each(|turn| turn.expect("open"));
            });
            assert!(mutex.at_rest());
        }
    }

    /// A newcomer asks for handoff in the name of a late first waiter that has the mutex already
    /// and has not left the queue yet.
    fn handoff_that_was_asked_for_an_owner_goes_with_it() {
        let mut met = 0;
        every_stop(|stop| {
            let mutex = RawMutex::<Scripted>::default();
            let mut stopped = false;
            Scene::play(|scene, [h, p, f, n, b, x]| {
                let mutex = &mutex;
                [h, p, f, n, b, x].into_iter().for_each(|actor| super::rests(scene, actor));
                // SAFETY: each script releases what its actor holds.
                let release = || unsafe { mutex.release() };
                let acquire = || mutex.acquire();
                h.does(acquire);
                let got_p = p.starts(acquire);
                let got_f = f.starts_until(stop, acquire);
                let early = f.is_stopped();
                f.resumes_until(u64::MAX);
                let got_n = n.starts(acquire);
                p.freeze();
                h.does(release);
                assert!(h.does(|| mutex.try_acquire()));
                p.thaw();
                h.does(release);
                scene.advance(TURN_NS);
                assert!(got_p.is_done(), "p has it after its turn");
                p.does(release);
                // F is first and sleeps without a request. It listens, is woken, and is passed.
                let mut early = early;
                assert!(h.does(|| mutex.try_acquire()));
                f.wakes_spuriously();
                early |= f.is_stopped();
                f.resumes_until(u64::MAX);
                f.freeze();
                h.does(release);
                assert!(h.does(|| mutex.try_acquire()));
                f.thaw();
                early |= f.is_stopped();
                f.resumes_until(u64::MAX);
                h.does(release);
                f.freeze();
                scene.advance(TURN_NS + GRACE_NS + 1_000);
                f.thaw();
                let at_stop = f.is_stopped();
                stopped = early || at_stop;
                let mut got_b = None;
                if at_stop && mutex.is_locked() {
                    met += 1;
                    got_b = Some(b.starts(acquire));
                }
                f.resumes();
                assert!(got_f.is_done());
                f.does(release);
                scene.settle();
                if !mutex.is_locked() && !got_n.is_done() {
                    assert!(x.does(|| mutex.try_acquire()), "stop {stop}: free, shut, and nobody has been woken");
                    x.does(release);
                }
                for _ in 0..20 {
                    scene.advance(10 * TURN_NS);
                    if mutex.is_locked() {
                        // The one that has it gives it back.
                        x.does(release);
                    }
                }
                drop((got_n, got_b));
                scene.finish();
            });
            stopped
        });
        assert!(met > 0, "the newcomer never met an owner in the queue");
    }

    /// A waiter is stopped for ever, anywhere in its wait: it owns nothing, so others get the
    /// mutex, again and again, by a try as well.
    fn a_waiter_that_is_stopped_keeps_nobody_out() {
        for (release, before) in RELEASES.into_iter().flat_map(|release| [(release, 0), (release, 3 * TURN_NS)]) {
            every_stop(|stop| {
                let mutex = RawMutex::<Scripted>::default();
                let mut stopped = false;
                Scene::play(|scene, [holder, victim, passer, newcomer]| {
                    [holder, victim, passer, newcomer].into_iter().for_each(|actor| super::rests(scene, actor));
                    let mutex = &mutex;
                    holder.does(|| mutex.acquire());
                    let got = victim.starts_until(stop, || mutex.acquire());
                    scene.advance(before);
                    stopped = victim.is_stopped();
                    // Now it stays where it is, asleep or stopped.
                    victim.freeze();
                    holder.does(|| release(mutex));
                    if !mutex.is_locked() && !victim.is_in_window() {
                        if !passer.does(|| mutex.try_acquire()) {
                            scene.advance(RESERVED_NS);
                            let open = passer.does(|| mutex.try_acquire());
                            assert!(open, "stop {stop}: a try is refused for a stopped waiter: {mutex:?}");
                        }
                        passer.does(|| release(mutex));
                        for round in 0..5 {
                            let entered = newcomer.starts(|| mutex.acquire());
                            (0..8).for_each(|_| scene.advance(TURN_NS));
                            assert!(entered.is_done(), "stop {stop}, round {round}: shut for a stopped waiter");
                            newcomer.does(|| release(mutex));
                        }
                    }
                    victim.thaw();
                    victim.resumes();
                    scene.finish();
                    got.expect("resumed");
                    victim.does(|| release(mutex));
                });
                assert!(mutex.at_rest());
                stopped
            });
        }
    }

    /// A fair release: the waiter is next, wherever it is asleep or about to be.
    fn a_fair_release_hands_over() {
        every_stop(|stop| {
            let mutex = RawMutex::<Scripted>::default();
            let mut stopped = false;
            Scene::play(|scene, [holder, waiter, newcomer]| {
                [holder, waiter, newcomer].into_iter().for_each(|actor| super::rests(scene, actor));
                let mutex = &mutex;
                holder.does(|| mutex.acquire());
                let waits = waiter.starts_until(stop, || mutex.acquire());
                stopped = waiter.is_stopped();
                let queued = mutex.is_contended() && !waiter.is_in_window();
                if queued {
                    // SAFETY: acquired above.
                    holder.does(|| unsafe { mutex.release_fair() });
                    // Nobody passes it, however often it tries.
                    for passer in [holder, newcomer, holder] {
                        assert!(mutex.is_locked() || !passer.does(|| mutex.try_acquire()), "stop {stop}");
                    }
                    waiter.resumes();
                    scene.settle();
                    assert!(waits.is_done() && mutex.is_locked(), "stop {stop}");
                } else {
                    waiter.resumes();
                    scene.settle();
                    // SAFETY: acquired above.
                    holder.does(|| unsafe { mutex.release_fair() });
                }
                scene.finish();
                waits.expect("released");
                waiter.does(|| RELEASES[0](mutex));
            });
            assert!(mutex.at_rest());
            stopped
        });
    }
}
