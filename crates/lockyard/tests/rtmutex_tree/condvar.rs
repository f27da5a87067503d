//! Proxy locking: signals that move sleepers to the mutex.

use lockyard::cancel::Until;
use lockyard::rtmutex_tree::condvar::RawTreeRtCondvar;
use lockyard::rtmutex_tree::{Refused, audit};
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::{Mutex, acquire, at_rest, have_priorities, priorities, release, scripts};

pub(super) type Condvar = RawTreeRtCondvar<Scripted>;

fn wait(condvar: &Condvar, mutex: &Mutex, until: Until<'_, Scripted>) -> Result<bool, Refused> {
    // SAFETY: each script waits with the mutex held.
    unsafe { condvar.wait(mutex, until) }
}

/// Locks, waits, and unlocks: a sleeper's whole task.
pub(super) fn sleep(condvar: &Condvar, mutex: &Mutex, until: Until<'_, Scripted>) -> Result<bool, Refused> {
    acquire(mutex);
    let signalled = wait(condvar, mutex, until);
    assert!(mutex.is_locked());
    release(mutex);
    signalled
}

scripts! {
    /// A signal under the mutex moves the most urgent sleeper; it lends at once, and runs when the
    /// mutex is released.
    fn a_signal_moves_the_most_urgent() {
        let (mutex, condvar): (Mutex, Condvar) = Default::default();
        let (mutex, condvar) = (&mutex, &condvar);
        Scene::play(|_, [low, high, signaller]| {
            have_priorities(&[low, high, signaller], &[5, 50, 1]);
            let first = low.starts(|| sleep(condvar, mutex, Until::FOREVER));
            let second = high.starts(|| sleep(condvar, mutex, Until::FOREVER));
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

    /// What was lent to a sleeper while it held the mutex does not lend it a better place among the
    /// sleepers.
    fn a_loan_buys_no_place() {
        let (mutex, condvar): (Mutex, Condvar) = Default::default();
        let (mutex, condvar) = (&mutex, &condvar);
        Scene::play(|_, [low, middle, high]| {
            have_priorities(&[low, middle, high], &[5, 20, 50]);
            let second = middle.starts(|| sleep(condvar, mutex, Until::FOREVER));
            low.does(move || acquire(mutex));
            let taken = high.starts(move || acquire(mutex));
            assert_eq!(low.priority(), 50);
            let first = low.starts(move || {
                let signalled = wait(condvar, mutex, Until::FOREVER);
                release(mutex);
                signalled
            });
            taken.expect("the mutex was free");
            assert_eq!(low.priority(), 5);
            high.does(move || release(mutex));
            assert!(high.does(move || condvar.notify_one(mutex)));
            assert_eq!(second.expect("the most urgent"), Ok(true));
            assert!(!first.is_done());
            assert!(high.does(move || condvar.notify_one(mutex)));
            assert_eq!(first.expect("signalled"), Ok(true));
        });
        assert!(at_rest(mutex));
    }

    /// A sleeper that gives back a loan while it is moved to the mutex already waits there by its
    /// own priority afterwards.
    fn a_loan_ends_as_its_bearer_is_moved() {
        let mut moved = 0;
        every_stop(|stop| {
            let (mutex, condvar): (Mutex, Condvar) = Default::default();
            let (mutex, condvar) = (&mutex, &condvar);
            let mut stopped = false;
            Scene::play(|scene, [low, high, signaller]| {
                have_priorities(&[low, high, signaller], &[5, 50, 1]);
                low.does(move || acquire(mutex));
                let taken = high.starts(move || acquire(mutex));
                let slept = low.starts_until(stop, move || {
                    let signalled = wait(condvar, mutex, Until::FOREVER);
                    release(mutex);
                    signalled
                });
                signaller.starts(move || condvar.notify_one(mutex));
                stopped = low.is_stopped();
                low.resumes();
                scene.run_dry();
                assert!(taken.is_done());
                if !slept.is_done() && !condvar.has_sleepers() {
                    moved += 1;
                    let names = [low.id(), high.id(), signaller.id()];
                    let settled = audit::check_settled(&[mutex], names.into_iter());
                    assert!(settled.is_ok(), "stop {stop}: {}", settled.unwrap_err());
                }
                high.starts(move || release(mutex));
                scene.run_dry();
                signaller.starts(move || condvar.notify_all(mutex));
                scene.finish_all();
                assert_eq!(slept.expect("signalled"), Ok(true));
            });
            assert!(at_rest(mutex) && !condvar.has_sleepers());
            stopped
        });
        assert!(moved > 0);
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

    /// A deadline and a signal at the same time, with a stop everywhere: the signal is taken by one
    /// sleeper, and every sleeper has the mutex afterwards.
    fn a_timeout_against_a_signal() {
        every_stop(|stop| {
            let (mutex, condvar): (Mutex, Condvar) = Default::default();
            let (mutex, condvar) = (&mutex, &condvar);
            let mut stopped = false;
            Scene::play(|scene, [leaver, patient, signaller]| {
                have_priorities(&[leaver, patient], &[20, 10]);
                let end = scene.now() + 1_000;
                let first = leaver.starts_until(stop, move || sleep(condvar, mutex, Until::deadline(end)));
                let second = patient.starts(move || sleep(condvar, mutex, Until::FOREVER));
                scene.advance(2_000);
                // It may have to wait for the leaver, which may be stopped with the condition
                // variable's lock.
                signaller.starts(move || condvar.notify_one(mutex));
                stopped = leaver.is_stopped();
                leaver.resumes();
                // Any of them had it: the rest is woken by hand, when it sleeps there and not for a
                // turn at the mutex or at a lock inside.
                scene.run_dry();
                signaller.starts(move || condvar.notify_all(mutex));
                scene.finish_all();
                assert!(first.expect("ended").is_ok());
                assert_eq!(second.expect("ended"), Ok(true));
            });
            assert!(at_rest(mutex) && !condvar.has_sleepers());
            stopped
        });
    }
}
