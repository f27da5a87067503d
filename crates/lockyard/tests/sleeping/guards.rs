//! A thread that is signalled asleep has no timer: others are to see that it gets the mutex,
//! whichever of them are stopped.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::wait::turn::{GRACE_NS, RESERVED_NS, TURN_NS};
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::{rests, scripts};

#[derive(Default, Debug)]
struct Monitor {
    mutex: RawMutex<Scripted>,
    condvar: RawCondvar<Scripted>,
}

impl Monitor {
    fn release(&self) {
        // SAFETY: each script releases what its actor holds.
        unsafe { self.mutex.release_detached() }
    }

    /// A wait, with the mutex taken before, and held afterwards.
    fn wait_and_hold(&self) -> Result<(), GaveUp> {
        self.mutex.acquire();
        // SAFETY: acquired above, and all wait with this mutex.
        unsafe { self.condvar.wait(&self.mutex, Until::FOREVER) }
    }

    /// The same, with the mutex released afterwards.
    fn wait(&self) -> Result<(), GaveUp> {
        let waited = self.wait_and_hold();
        self.release();
        waited
    }
}

scripts! {
    /// Two threads are stopped before they are signalled. One that is signalled later does not rely
    /// on them.
    fn a_guard_that_has_not_run_guards_nobody() {
        let monitor = Monitor::default();
        Scene::play(|scene, [holder, first, guard, late]| {
            let monitor = &monitor;
            [holder, first, guard, late].into_iter().for_each(|actor| rests(scene, actor));
            let stopped = [first, guard].map(|actor| actor.starts(|| monitor.wait()));
            holder.does(|| monitor.mutex.acquire());
            [first, guard].into_iter().for_each(|actor| actor.freeze());
            holder.does(|| monitor.condvar.broadcast());
            holder.does(|| monitor.release());
            scene.advance(GRACE_NS + 1);
            let waited = late.starts(|| monitor.wait());
            assert!(late.waits() && holder.does(|| monitor.mutex.try_acquire()));
            holder.does(|| monitor.condvar.signal());
            holder.does(|| monitor.release());
            (0..40).for_each(|_| scene.advance(TURN_NS));
            let done = waited.is_done();
            [first, guard].into_iter().for_each(|actor| actor.thaw());
            scene.finish();
            drop((stopped, waited));
            assert!(done, "signalled, and asleep beside a free mutex");
        });
    }

    /// The guard has run, becomes first, and is stopped in its sleep. The thread behind it, without
    /// a timer, gets the mutex: after a reservation that a try ends (`reserved`), or without one.
    fn a_guard_that_is_stopped_as_first_waiter_keeps_nobody_asleep() {
        for reserved in [false, true] {
            let monitor = Monitor::default();
            Scene::play(|scene, [holder, before, guard, behind, passer]| {
                let monitor = &monitor;
                [holder, before, guard, behind, passer].into_iter().for_each(|actor| rests(scene, actor));
                let signalled = [guard, behind].map(|actor| actor.starts(|| monitor.wait()));
                holder.does(|| monitor.mutex.acquire());
                let got = before.starts(|| monitor.mutex.acquire());
                holder.does(|| monitor.condvar.broadcast());
                scene.advance(3 * TURN_NS);
                holder.does(|| monitor.release());
                scene.settle();
                assert!(got.is_done());
                if reserved {
                    scene.advance(3 * TURN_NS);
                }
                guard.freeze();
                before.does(|| monitor.release());
                if reserved && !passer.does(|| monitor.mutex.try_acquire()) {
                    scene.advance(RESERVED_NS + 1);
                    assert!(passer.does(|| monitor.mutex.try_acquire()), "the reservation has ended");
                    passer.does(|| monitor.release());
                }
                for _ in 0..20 {
                    scene.advance(10 * TURN_NS);
                    if passer.does(|| monitor.mutex.try_acquire()) {
                        passer.does(|| monitor.release());
                    }
                }
                let done = signalled[1].is_done();
                guard.thaw();
                scene.finish();
                drop(signalled);
                assert!(done, "asleep beside a free mutex");
            });
        }
    }

    /// The guard has looked often in vain, so its turn ends far in the future; then it is stopped
    /// and loses a reservation. It guards nobody who is signalled after that.
    fn a_guard_that_has_lapsed_guards_nobody() {
        for turns in [10, 20, 30, 60, 200] {
            let monitor = Monitor::default();
            Scene::play(|scene, [holder, before, guard, late, passer]| {
                let monitor = &monitor;
                [holder, before, guard, late, passer].into_iter().for_each(|actor| rests(scene, actor));
                let [stopped, waited] = [guard, late].map(|actor| actor.starts(|| monitor.wait()));
                holder.does(|| monitor.mutex.acquire());
                let gives_up = before.starts(|| monitor.mutex.acquire_until(Until::after(3 * TURN_NS)).is_err());
                holder.does(|| monitor.condvar.signal());
                (0..turns).for_each(|_| scene.advance(TURN_NS));
                assert!(gives_up.expect("its time is up"));
                guard.freeze();
                holder.does(|| monitor.release());
                scene.settle();
                let taken = passer.does(|| monitor.mutex.try_acquire());
                scene.advance(RESERVED_NS + 1);
                assert!(!taken && passer.does(|| monitor.mutex.try_acquire()), "the reservation has ended");
                passer.does(|| monitor.condvar.signal());
                passer.does(|| monitor.release());
                (0..40).for_each(|_| scene.advance(TURN_NS));
                let done = waited.is_done();
                guard.thaw();
                scene.finish();
                drop((stopped, waited));
                assert!(done, "{turns} turns: signalled, and asleep beside a free mutex");
            });
        }
    }

    /// The guard has run, sleeps with a timer, and is stopped; the first waiter gives up and wakes
    /// it. It guards nobody who is signalled after that, nor one that was signalled before.
    fn a_guard_that_was_woken_and_has_not_run_guards_nobody() {
        for before in [false, true] {
            let monitor = Monitor::default();
            Scene::play(|scene, [holder, first, guard, late, passer]| {
                let monitor = &monitor;
                [holder, first, guard, late, passer].into_iter().for_each(|actor| rests(scene, actor));
                let [stopped, waited] = [guard, late].map(|actor| actor.starts(|| monitor.wait()));
                holder.does(|| monitor.mutex.acquire());
                let gives_up = first.starts(|| monitor.mutex.acquire_until(Until::after(TURN_NS / 2)).is_err());
                holder.does(|| monitor.condvar.signal());
                scene.advance(TURN_NS / 4);
                guard.freeze();
                if before {
                    holder.does(|| monitor.condvar.signal());
                }
                scene.advance(TURN_NS / 4 + 1);
                assert!(gives_up.expect("its time is up"));
                if !before {
                    holder.does(|| monitor.condvar.signal());
                }
                holder.does(|| monitor.release());
                for _ in 0..40 {
                    scene.advance(TURN_NS);
                    // The fast path asks nobody.
                    if passer.does(|| monitor.mutex.try_acquire()) {
                        passer.does(|| monitor.release());
                    }
                }
                let done = waited.is_done();
                guard.thaw();
                scene.finish();
                drop((stopped, waited));
                assert!(done, "signalled before: {before}; asleep beside a free mutex");
            });
        }
    }

    /// The first waiter is stopped. The guard is served past it and leaves; those that it has woken
    /// in its place give up. The thread that relied on the guard gets the mutex.
    fn a_guard_that_was_served_leaves_nobody_asleep() {
        let monitor = Monitor::default();
        Scene::play(|scene, [holder, first, early, middle, late, guard, behind]| {
            let monitor = &monitor;
            let all = [holder, first, early, middle, late, guard, behind];
            all.into_iter().for_each(|actor| rests(scene, actor));
            let served = guard.starts(|| monitor.wait_and_hold());
            let waited = behind.starts(|| monitor.wait());
            holder.does(|| monitor.mutex.acquire());
            let stopped = first.starts(|| monitor.mutex.acquire());
            first.freeze();
            // In turns: of two that give up at once, one may sleep a turn for the wait lock.
            let gone = [(early, 1), (middle, 2), (late, 3)].map(|(actor, place)| {
                let patience = TURN_NS / 2 + place;
                actor.starts(move || monitor.mutex.acquire_until(Until::after(patience)).is_err())
            });
            guard.freeze();
            holder.does(|| monitor.condvar.signal());
            holder.does(|| monitor.condvar.signal());
            holder.does(|| monitor.release());
            guard.thaw();
            scene.settle();
            assert_eq!(served.expect("the mutex is free"), Ok(()));
            scene.advance(TURN_NS / 2);
            for gone in gone {
                scene.advance(1);
                assert!(gone.expect("its time is up"));
            }
            guard.does(|| monitor.release());
            (0..40).for_each(|_| scene.advance(TURN_NS));
            let done = waited.is_done();
            first.thaw();
            scene.settle();
            if stopped.is_done() {
                first.does(|| monitor.release());
            }
            scene.finish();
            assert!(done, "signalled, and asleep beside a free mutex");
        });
    }

    /// The thread right behind the guard is stopped as well. A guard that leaves wakes one more.
    fn a_guard_that_was_passed_wakes_one_beyond_the_next() {
        let monitor = Monitor::default();
        Scene::play(|scene, [holder, first, guard, next, behind]| {
            let monitor = &monitor;
            [holder, first, guard, next, behind].into_iter().for_each(|actor| rests(scene, actor));
            let stopped = first.starts(|| monitor.wait());
            let served = guard.starts(|| monitor.wait_and_hold());
            let [late, waited] = [next, behind].map(|actor| actor.starts(|| monitor.wait()));
            [first, next].into_iter().for_each(|actor| actor.freeze());
            holder.does(|| monitor.mutex.acquire());
            holder.does(|| monitor.condvar.broadcast());
            scene.advance(3 * TURN_NS);
            holder.does(|| monitor.release());
            for _ in 0..10 {
                if !served.is_done() {
                    scene.advance(TURN_NS);
                }
            }
            assert!(served.is_done());
            guard.does(|| monitor.release());
            (0..40).for_each(|_| scene.advance(TURN_NS));
            let done = waited.is_done();
            [first, next].into_iter().for_each(|actor| actor.thaw());
            scene.finish();
            drop((stopped, late));
            assert!(done, "signalled, and asleep beside a free mutex");
        });
    }

    /// The same, and the owner before the guard was not passed: it woke nobody but the guard.
    fn a_guard_that_does_not_run_leaves_nobody_asleep_beside_a_free_mutex() {
        let monitor = Monitor::default();
        Scene::play(|scene, [holder, first, guard, behind]| {
            let monitor = &monitor;
            [holder, first, guard, behind].into_iter().for_each(|actor| rests(scene, actor));
            let served = first.starts(|| monitor.wait());
            let late = guard.starts(|| monitor.wait());
            let waited = behind.starts(|| monitor.wait());
            guard.freeze();
            holder.does(|| monitor.mutex.acquire());
            holder.does(|| monitor.condvar.broadcast());
            holder.does(|| monitor.release());
            (0..40).for_each(|_| scene.advance(TURN_NS));
            let done = [served.is_done(), waited.is_done()];
            guard.thaw();
            scene.finish();
            drop((served, late));
            assert_eq!(done, [true; 2], "signalled, and asleep beside a free mutex");
        });
    }

    /// As `a_waiter_behind_a_stopped_one_has_a_turn`; that one was signalled, and has no timer.
    fn a_waiter_behind_a_stopped_one_that_was_signalled_has_a_turn() {
        let monitor = Monitor::default();
        Scene::play(|scene, [owner, stopped, waiter]| {
            let monitor = &monitor;
            [owner, stopped, waiter].into_iter().for_each(|actor| rests(scene, actor));
            let signalled = stopped.starts(|| monitor.wait());
            stopped.freeze();
            owner.does(|| monitor.mutex.acquire());
            owner.does(|| monitor.condvar.signal());
            let got = waiter.starts(|| monitor.mutex.acquire());
            for _ in 0..100 {
                scene.advance(TURN_NS / 4);
                owner.does(|| monitor.release());
                if got.is_done() || !owner.does(|| monitor.mutex.try_acquire()) {
                    break;
                }
            }
            scene.advance(2 * RESERVED_NS);
            let served = got.is_done();
            if served {
                waiter.does(|| monitor.release());
            } else {
                owner.does(|| monitor.release());
            }
            stopped.thaw();
            scene.finish();
            drop((signalled, got));
            assert!(served, "passed 100 times");
        });
    }

    /// A waiter is stopped in a look as first waiter, loses its place, and goes on: what it asks is
    /// asked for another. That one is woken by the next release, or the mutex is open to all.
    fn a_look_that_began_as_first_keeps_no_free_mutex_shut() {
        let mut took = 0;
        every_stop(|stop| {
            let mut stopped = false;
            for more in 0..12 {
                let mutex = RawMutex::<Scripted>::default();
                Scene::play(|scene, [holder, moved, between, next, passer]| {
                    let mutex = &mutex;
                    [holder, moved, between, next, passer].into_iter().for_each(|actor| rests(scene, actor));
                    // SAFETY: each script releases what its actor holds.
                    let release = || unsafe { mutex.release() };
                    let section = move || {
                        mutex.acquire();
                        release();
                    };
                    holder.does(|| mutex.acquire());
                    let slow = moved.starts_until(stop, section);
                    if moved.is_stopped() {
                        // Before its first sleep: it has the wait lock, or will see all that comes.
                        stopped = true;
                        moved.resumes();
                        holder.does(release);
                        scene.finish();
                        return;
                    }
                    scene.advance(TURN_NS + 1);
                    stopped = moved.is_stopped();
                    // The next one's turn is long enough for all that follows.
                    let gone = between.starts(move || {
                        if mutex.acquire_until(Until::after(TURN_NS / 2)).is_ok() {
                            release();
                        }
                    });
                    let got = next.starts(section);
                    // SAFETY: as above.
                    holder.does(|| unsafe { mutex.release_fair() });
                    scene.advance(RESERVED_NS + 1);
                    let mut taken = passer.does(|| mutex.try_acquire());
                    // Its wake-up is too late; it sleeps on, and has asked for nothing more.
                    next.freeze();
                    if taken {
                        passer.does(release);
                        taken = passer.does(|| mutex.try_acquire());
                    }
                    next.thaw();
                    scene.settle();
                    moved.resumes_until(more);
                    if taken {
                        passer.does(release);
                    }
                    moved.resumes();
                    scene.settle();
                    took += u32::from(slow.is_done() && !got.is_done());
                    let open = passer.does(|| mutex.try_acquire());
                    if open {
                        passer.does(release);
                    }
                    scene.finish();
                    assert!(open, "stopped before step {stop}, then {more}: shut, and its first waiter sleeps");
                    assert!(slow.is_done() && gone.is_done() && got.is_done());
                });
            }
            stopped
        });
        assert!(took > 5, "{took} times");
    }

    /// An owner that releases and takes the mutex again at once is always faster than a waiter that
    /// wakes up. The waiter is behind one that is stopped.
    fn a_waiter_behind_a_stopped_one_has_a_turn() {
        let mutex = RawMutex::<Scripted>::default();
        Scene::play(|scene, [owner, stopped, waiter]| {
            let mutex = &mutex;
            [owner, stopped, waiter].into_iter().for_each(|actor| rests(scene, actor));
            // SAFETY: each script releases what its actor holds.
            let release = || unsafe { mutex.release() };
            owner.does(|| mutex.acquire());
            let never = stopped.starts(|| mutex.acquire());
            stopped.freeze();
            let got = waiter.starts(|| mutex.acquire());
            let mut rounds = 0;
            while !got.is_done() && rounds < 1_000 {
                scene.advance(TURN_NS / 4);
                owner.does(release);
                if !owner.does(|| mutex.try_acquire()) {
                    scene.settle();
                    if !got.is_done() {
                        owner.does(|| mutex.try_acquire());
                    }
                }
                rounds += 1;
            }
            assert!(got.is_done(), "passed {rounds} times; handoffs: {}", scene.events(Event::MutexHandoff));
            waiter.does(release);
            stopped.thaw();
            scene.finish();
            assert!(never.is_done());
            stopped.does(release);
        });
    }
}
