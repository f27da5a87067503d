//! Proxy locking: signals that move sleepers to the mutex.

use lockyard::cancel::Until;
use lockyard::rtmutex::Refused;
use lockyard::rtmutex::condvar::RawRtCondvar;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::{Mutex, acquire, at_rest, have_priorities, priorities, release, scripts};

type Condvar = RawRtCondvar<Scripted>;

fn wait(condvar: &Condvar, mutex: &Mutex, until: Until<'_, Scripted>) -> Result<bool, Refused> {
    // SAFETY: each script waits with the mutex held.
    unsafe { condvar.wait(mutex, until) }
}

scripts! {
    /// A signal under the mutex moves the most urgent sleeper; it lends at once, and runs when the mutex is released.
    fn a_signal_moves_the_most_urgent() {
        let (mutex, condvar): (Mutex, Condvar) = Default::default();
        let (mutex, condvar) = (&mutex, &condvar);
        Scene::play(|_, [low, high, signaller]| {
            have_priorities(&[low, high, signaller], &[5, 50, 1]);
            let sleep = move || {
                acquire(mutex);
                let signalled = wait(condvar, mutex, Until::FOREVER);
                release(mutex);
                signalled
            };
            let first = low.starts(sleep);
            let second = high.starts(sleep);
            assert!(!mutex.is_locked() && condvar.has_sleepers());
            signaller.does(move || acquire(mutex));
            assert!(signaller.does(move || condvar.notify_one(mutex)));
            assert_eq!(priorities([low, high, signaller]), [5, 50, 50]);
            assert!(!second.is_done());
            signaller.does(move || release(mutex));
            assert_eq!(second.expect("signalled"), Ok(true));
            assert_eq!(signaller.priority(), 1);
            assert!(!first.is_done());
            assert!(signaller.does(move || condvar.notify_one(mutex)), "the mutex is free: the sleeper owns it at once");
            assert_eq!(first.expect("signalled"), Ok(true));
            assert!(!signaller.does(move || condvar.notify_one(mutex)));
        });
        assert!(at_rest(mutex) && !condvar.has_sleepers());
    }

    /// All are moved, most urgent first; none of them is woken to a mutex that is held.
    fn all_are_moved() {
        let (mutex, condvar): (Mutex, Condvar) = Default::default();
        let (mutex, condvar) = (&mutex, &condvar);
        let order = std::sync::Mutex::new(Vec::new());
        let (mutex, condvar, order) = (mutex, condvar, &order);
        Scene::play(|scene, [a, b, c, signaller]| {
            have_priorities(&[a, b, c], &[10, 30, 20]);
            let got = [(a, 10), (b, 30), (c, 20)].map(|(actor, name)| {
                actor.starts(move || {
                    acquire(mutex);
                    let signalled = wait(condvar, mutex, Until::FOREVER);
                    order.lock().unwrap().push(name);
                    release(mutex);
                    signalled
                })
            });
            signaller.does(move || {
                acquire(mutex);
                condvar.notify_all(mutex);
            });
            assert_eq!(signaller.priority(), 30);
            signaller.does(move || release(mutex));
            scene.settle();
            got.into_iter().for_each(|wait| assert_eq!(wait.expect("signalled"), Ok(true)));
            assert_eq!(*order.lock().unwrap(), [30, 20, 10]);
        });
        assert!(at_rest(mutex));
    }

    /// A deadline and a signal at the same time, with a stop everywhere: the signal is taken by one sleeper, and every sleeper has the mutex afterwards.
    fn a_timeout_against_a_signal() {
        every_stop(|stop| {
            let (mutex, condvar): (Mutex, Condvar) = Default::default();
            let (mutex, condvar) = (&mutex, &condvar);
            let mut stopped = false;
            Scene::play(|scene, [leaver, patient, signaller]| {
                have_priorities(&[leaver, patient], &[20, 10]);
                let end = scene.now() + 1_000;
                let sleep = |until| {
                    acquire(mutex);
                    let signalled = wait(condvar, mutex, until);
                    assert!(mutex.is_locked());
                    release(mutex);
                    signalled
                };
                let first = leaver.starts_until(stop, move || sleep(Until::deadline(end)));
                let second = patient.starts(move || sleep(Until::FOREVER));
                scene.advance(2_000);
                // It may have to wait for the leaver, which may be stopped with the condition variable's lock.
                signaller.starts(move || condvar.notify_one(mutex));
                stopped = leaver.is_stopped();
                leaver.resumes();
                scene.advance(10_000_000);
                // Whoever had it: the rest is woken by hand.
                signaller.does(move || condvar.notify_all(mutex));
                scene.finish_all();
                assert!(first.expect("ended").is_ok());
                assert_eq!(second.expect("ended"), Ok(true));
            });
            assert!(at_rest(mutex) && !condvar.has_sleepers());
            stopped
        });
    }
}
