//! The condition variable moves sleepers into the queue of their mutex.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::event::Event;
use lockyard::mutex::RawMutex;
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
    /// Woken by the signal it would only wait again. One wake-up for each, when the mutex is free.
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
                assert_eq!(scene.events(Event::CondSleep), 0, "somebody has been woken");
                match detached {
                    false => signaller.does(|| monitor.release()),
                    // SAFETY: acquired above.
                    true => signaller.does(|| unsafe { monitor.mutex.release_detached() }),
                }
                scene.settle();
                waited.into_iter().for_each(|waited| assert_eq!(waited.expect("signalled"), Ok(())));
                assert_eq!((scene.events(Event::CondSleep), scene.events(Event::MutexSleep)), (2, 0));
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

    /// Whoever gives up is anywhere on its way out when the condition variable is to be destroyed: it does not touch it afterwards.
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
}
