//! A thread that is signalled asleep has no timer: others are to see that it gets the mutex,
//! whichever of them are stopped.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::wait::turn::{GRACE_NS, RESERVED_NS, TURN_NS};
use lockyard_check::scripted::{Scene, Scripted};

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

    /// A wait, with the mutex taken before and released afterwards.
    fn wait(&self) -> Result<(), GaveUp> {
        self.mutex.acquire();
        // SAFETY: acquired above, and all wait with this mutex.
        let waited = unsafe { self.condvar.wait(&self.mutex, Until::FOREVER) };
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
