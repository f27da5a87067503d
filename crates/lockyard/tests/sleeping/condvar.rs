//! The condition variable moves sleepers into the queue of their mutex.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::wait::turn::TURN_NS;
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::{rests, scripts};

#[derive(Default)]
struct Monitor {
    mutex: RawMutex<Scripted>,
    condvar: RawCondvar<Scripted>,
}

impl Monitor {
    fn release(&self) {
        // SAFETY: each script releases what its actor holds.
        unsafe { self.mutex.release() };
    }

    /// A wait, with the mutex taken before and released afterwards.
    fn wait(&self, until: Until<'_, Scripted>) -> Result<(), GaveUp> {
        self.mutex.acquire();
        // SAFETY: acquired above, and everybody waits with this mutex.
        let waited = unsafe { self.condvar.wait(&self.mutex, until) };
        self.release();
        waited
    }

    fn is_as_new(&self) -> bool {
        self.mutex.at_rest() && format!("{:?}", self.condvar) == format!("{:?}", RawCondvar::<Scripted>::default())
    }
}

scripts! {
    /// A running thread without a priority does not take the mutex before a signalled waiter that
    /// has one.
    fn a_signalled_waiter_of_fixed_priority_is_not_passed() {
        for (priority, passes) in [(0, true), (7, false)] {
            let monitor = Monitor::default();
            Scene::play(|scene, [signaller, waiter, passer]| {
                rests(scene, waiter);
                waiter.has_priority(priority);
                let waited = waiter.starts(|| monitor.wait(Until::FOREVER));
                signaller.does(|| monitor.mutex.acquire());
                signaller.does(|| monitor.condvar.signal());
                waiter.freeze();
                signaller.does(|| monitor.release());
                assert_eq!(passer.does(|| monitor.mutex.try_acquire()), passes);
                if passes {
                    passer.does(|| monitor.release());
                }
                waiter.thaw();
                scene.settle();
                waited.expect("signalled").expect("in time");
            });
            assert!(monitor.is_as_new());
        }
    }

    /// Signals and broadcasts choose by priority, and the mutex serves those that are moved by it,
    /// before one that came there first.
    fn waiters_for_a_condition_are_served_by_priority() {
        for broadcast in [false, true] {
            let monitor = Monitor::default();
            let served = AtomicU32::new(0);
            Scene::play(|scene, [signaller, early, low, middle, high, other]| {
                [early, low, middle, high, other].into_iter().for_each(|waiter| rests(scene, waiter));
                let wait = |number: u32| {
                    let (monitor, served) = (&monitor, &served);
                    move || {
                        monitor.mutex.acquire();
                        // SAFETY: acquired above, and everybody waits with this mutex.
                        let _ = unsafe { monitor.condvar.wait(&monitor.mutex, Until::FOREVER) };
                        served.store(10 * served.load(Relaxed) + number, Relaxed);
                        monitor.release();
                    }
                };
                let waiters = [(early, 0), (low, 1), (middle, 5), (high, 9)];
                let waited = waiters.map(|(waiter, priority)| {
                    waiter.has_priority(priority);
                    waiter.starts(wait(priority))
                });
                signaller.does(|| monitor.mutex.acquire());
                let came = other.starts(|| monitor.mutex.acquire());
                match broadcast {
                    true => {
                        signaller.does(|| monitor.condvar.broadcast());
                    }
                    false => (0..4).for_each(|_| {
                        signaller.does(|| monitor.condvar.signal());
                    }),
                }
                signaller.does(|| monitor.release());
                scene.settle();
                assert_eq!(served.load(Relaxed), 951);
                came.expect("the first without a priority");
                other.does(|| monitor.release());
                scene.advance(TURN_NS);
                waited.into_iter().for_each(|waited| waited.expect("signalled"));
                assert_eq!(served.load(Relaxed), 9510);
            });
            assert!(monitor.is_as_new());
        }
    }

    /// Woken by the signal it would only wait again. One wake-up for each, when the mutex is free;
    /// and one for the second, so that it has a timer if the first is stopped.
    fn a_signalled_waiter_sleeps_until_the_mutex_is_free() {
        for detached in [false, true] {
            let monitor = Monitor::default();
            Scene::play(|scene, [signaller, first, second]| {
                [first, second].into_iter().for_each(|waiter| rests(scene, waiter));
                let waited = [first, second].map(|waiter| waiter.starts(|| monitor.wait(Until::FOREVER)));
                signaller.does(|| monitor.mutex.acquire());
                signaller.does(|| monitor.condvar.signal());
                assert!(monitor.condvar.has_waiters() && monitor.mutex.is_contended());
                signaller.does(|| monitor.condvar.broadcast());
                assert!(!monitor.condvar.has_waiters());
                scene.advance(1_000_000_000);
                assert_eq!(scene.events(Event::CondRequeue), 2);
                assert_eq!(scene.events(Event::CondWake) + scene.events(Event::MutexWake), 0);
                assert_eq!(scene.events(Event::CondSleep), 1, "the second has been woken");
                assert!(first.sleeps_for_ever() && !second.sleeps_for_ever());
                match detached {
                    false => signaller.does(|| monitor.release()),
                    // SAFETY: acquired above.
                    true => signaller.does(|| unsafe { monitor.mutex.release_detached() }),
                }
                scene.settle();
                waited.into_iter().for_each(|waited| assert_eq!(waited.expect("signalled"), Ok(())));
                assert_eq!(scene.events(Event::CondSleep), 2);
            });
            assert!(monitor.is_as_new());
        }
    }

    /// No release will come that could wake it.
    fn a_signal_beside_a_free_mutex_wakes_the_waiter() {
        let monitor = Monitor::default();
        Scene::play(|scene, [signaller, waiter]| {
            let waited = waiter.starts(|| monitor.wait(Until::FOREVER));
            assert!(monitor.condvar.has_waiters());
            signaller.does(|| monitor.condvar.signal());
            scene.settle();
            assert_eq!(waited.expect("signalled"), Ok(()));
            assert_eq!(scene.events(Event::CondRequeue), 1);
        });
        assert!(monitor.is_as_new());
    }

    /// A waiter that gives up is anywhere on its way out when the condition variable is to be
    /// destroyed: it does not touch it afterwards.
    fn draining_waits_for_those_who_give_up() {
        let mut waited = 0;
        every_stop(|stop| {
            let monitor = Monitor::default();
            let mut stopped = false;
            Scene::play(|scene, [leaver, destroyer]| {
                let deadline = Until::deadline(scene.now() + 1_000);
                let monitor = &monitor;
                let left = leaver.starts_until(stop, move || monitor.wait(deadline));
                scene.advance(1_000);
                stopped = leaver.is_stopped();
                let drained = destroyer.starts(|| monitor.condvar.drain());
                if drained.is_done() {
                    let (found, new) = (&monitor.condvar, RawCondvar::<Scripted>::default());
                    assert_eq!(format!("{found:?}"), format!("{new:?}"), "somebody is still there");
                } else {
                    waited += 1;
                }
                leaver.resumes();
                scene.finish();
                drained.expect("nobody is there");
                assert_eq!(left.expect("too late"), Err(GaveUp::TimedOut));
            });
            assert!(monitor.is_as_new());
            stopped
        });
        assert!(waited > 5, "waited {waited} times");
    }

    /// A detached release has read its first waiter's name. That one gives up; a signal puts a
    /// sleeper without a timer into the queue and asks again.
    fn a_detached_release_does_not_obey_a_later_request_by_waking_an_earlier_waiter() {
        every_stop(|stop| {
            let monitor = Monitor::default();
            let mut stopped = false;
            Scene::play(|scene, [holder, leaver, waiter]| {
                [holder, leaver, waiter].into_iter().for_each(|actor| rests(scene, actor));
                let monitor = &monitor;
                let waited = waiter.starts(|| monitor.wait(Until::FOREVER));
                holder.does(|| monitor.mutex.acquire());
                let deadline = Until::deadline(scene.now() + 1_000);
                let left = leaver.starts(move || {
                    if monitor.mutex.acquire_until(deadline).is_ok() {
                        monitor.release();
                    }
                    monitor.condvar.signal();
                });
                // SAFETY: acquired above.
                let released = holder.starts_until(stop, || unsafe { monitor.mutex.release_detached() });
                stopped = holder.is_stopped();
                scene.advance(1_000);
                holder.resumes();
                assert!(scene.can_finish(), "stop {stop}: the waiter sleeps for ever on a free mutex");
                released.expect("released");
                left.expect("left");
                waited.expect("signalled").unwrap();
            });
            assert!(monitor.is_as_new());
            stopped
        });
    }

    /// A waiter of the mutex is stopped for ever, anywhere in its wait. A thread that is signalled
    /// meanwhile, asleep, gets the mutex nevertheless.
    fn a_signalled_thread_does_not_wait_for_one_that_is_stopped() {
        for broadcast in [false, true] {
            every_stop(|stop| {
                let monitor = Monitor::default();
                let mut stopped = false;
                Scene::play(|scene, [holder, victim, waiter, second]| {
                    [holder, victim, waiter, second].into_iter().for_each(|actor| rests(scene, actor));
                    let monitor = &monitor;
                    let waited = [waiter, second].map(|waiter| waiter.starts(|| monitor.wait(Until::FOREVER)));
                    holder.does(|| monitor.mutex.acquire());
                    let got = victim.starts_until(stop, || monitor.mutex.acquire());
                    stopped = victim.is_stopped();
                    victim.freeze();
                    if victim.is_in_window() {
                        victim.thaw();
                        victim.resumes_until(u64::MAX);
                    }
                    match broadcast {
                        true => {
                            holder.does(|| monitor.condvar.broadcast());
                        }
                        false => (0..2).for_each(|_| {
                            holder.does(|| monitor.condvar.signal());
                        }),
                    }
                    holder.does(|| monitor.release());
                    scene.settle();
                    if !got.is_done() && !monitor.mutex.is_locked() {
                        (0..40).for_each(|_| scene.advance(TURN_NS));
                        let done = waited.iter().filter(|waited| waited.is_done()).count();
                        assert_eq!(done, 2, "stop {stop}: behind a stopped thread: {:?}", monitor.mutex);
                    }
                    victim.thaw();
                    victim.resumes();
                    got.expect("resumed");
                    victim.does(|| monitor.release());
                    scene.finish();
                    waited.into_iter().for_each(|waited| waited.expect("signalled").unwrap());
                });
                stopped
            });
        }
    }
}
