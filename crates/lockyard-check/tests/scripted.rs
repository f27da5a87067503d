//! The theatre itself: what a script may rely on. And the suite, played in it: a second platform
//! for the same cases.

use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard_check::conformance_of;
use lockyard_check::lock::{Lock, Way};
use lockyard_check::scripted::{Scene, Scripted, every_stop};
use lockyard_check::stage::{Seats, Steps};

conformance_of!(scripted, Scripted);

#[test]
fn waiting_is_a_fact() {
    let mutex = RawMutex::<Scripted>::default();
    Scene::play(|scene, [holder, waiter]| {
        holder.does(|| mutex.lock(Way::Write));
        let got = waiter.starts(|| mutex.lock(Way::Write));
        assert!(waiter.waits() && !got.is_done());
        // SAFETY: locked above.
        holder.does(|| unsafe { mutex.unlock(Way::Write) });
        scene.settle();
        assert!(got.is_done());
        assert_eq!(scene.events(Event::MutexWake), 1);
        // SAFETY: the waiter has it.
        waiter.does(|| unsafe { mutex.unlock(Way::Write) });
    });
    assert!(mutex.at_rest());
}

#[test]
fn a_step_is_an_operation_on_a_word() {
    let mutex = RawMutex::<Scripted>::default();
    Scene::play(|_, [actor]| {
        // Its first lock gives it its name; later ones are one compare-exchange.
        actor.does(|| mutex.lock(Way::Write));
        // SAFETY: locked above.
        actor.does(|| unsafe { mutex.unlock(Way::Write) });
        actor.does(|| mutex.lock(Way::Write));
        assert_eq!(actor.steps(), 1);
        // SAFETY: locked above.
        actor.does(|| unsafe { mutex.unlock(Way::Write) });
        assert_eq!(actor.steps(), 1);
    });
}

#[test]
fn a_stopped_actor_has_not_made_its_step() {
    let mutex = RawMutex::<Scripted>::default();
    let stops = every_stop(|stop| {
        let mut stopped = false;
        Scene::play(|scene, [actor]| {
            actor.starts_until(stop, || mutex.lock(Way::Write));
            stopped = actor.is_stopped();
            assert_eq!(mutex.is_locked(), !stopped);
            actor.resumes();
            scene.finish();
            // SAFETY: locked above.
            actor.does(|| unsafe { mutex.unlock(Way::Write) });
        });
        stopped
    });
    assert!(stops >= 1);
}

#[test]
fn the_clock_is_the_scripts() {
    let mutex = &RawMutex::<Scripted>::default();
    Scene::play(|scene, [holder, waiter]| {
        holder.does(|| mutex.lock(Way::Write));
        let end = scene.now() + 5_000;
        let result = waiter.starts(move || mutex.acquire_until(lockyard::cancel::Until::deadline(end)));
        scene.advance(4_999);
        assert!(waiter.waits());
        scene.advance(1);
        assert_eq!(result.expect("its deadline has come"), Err(lockyard::GaveUp::TimedOut));
        // SAFETY: locked above.
        holder.does(|| unsafe { mutex.unlock(Way::Write) });
    });
}

#[test]
fn a_handler_runs_on_the_actors_own_thread() {
    let mutex = RawMutex::<Scripted>::default();
    let handled = Steps::<Scripted>::default();
    let seats = Seats::<Scripted>::new(2);
    Scene::play(|_, [actor]| {
        let handler = || {
            seats.sit(0);
            handled.advance();
        };
        let task = || {
            seats.sit(1);
            mutex.lock(Way::Write);
        };
        let done = actor.interrupted(1, handler, task);
        assert_eq!((actor.is_stopped(), handled.count()), (true, 0));
        actor.resumes();
        done.expect("nobody else is here");
        assert_eq!((handled.count(), seats.occupant(0)), (1, seats.occupant(1)));
        // SAFETY: locked above.
        actor.does(|| unsafe { mutex.unlock(Way::Write) });
    });
}
