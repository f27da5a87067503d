//! A waiter is stopped for ever before each of its steps in turn. It owns nothing: the mutex is
//! kept for it for a while, and then for the next.

use lockyard::cancel::Until;
use lockyard::rtmutex_tree::policy::{Policy, Strict, Today};
use lockyard::wait::turn::RESERVED_NS;
use lockyard_check::scripted::{Scene, every_stop};

use super::{Mutex, acquire, have_priorities, release, scripts};

/// A thread's first wait makes its record: not one of the steps here.
macro_rules! rests {
    ($scene:expr, $($actor:expr),*) => {$(
        let own: &Mutex = Box::leak(Box::default());
        $actor.does(move || acquire(own));
        $actor.does(move || release(own));
    )*};
}

/// The victim is stopped with `behind` queued after it, and with newcomers that wait and try.
fn keeps_nobody_out<Y: Policy>([victims, behinds]: [u32; 2]) {
    let mut met = 0;
    every_stop(|stop| {
        let mutex: &Mutex<Y> = Box::leak(Box::default());
        let mut stopped = false;
        Scene::play(|scene, [holder, victim, behind, newcomer]| {
            rests!(scene, holder, victim, behind, newcomer);
            have_priorities(&[victim, behind], &[victims, behinds]);
            holder.does(move || acquire(mutex));
            let got = victim.starts_until(stop, move || acquire(mutex));
            stopped = victim.is_stopped();
            victim.freeze();
            if victim.is_in_window() {
                victim.thaw();
                victim.resumes();
                holder.does(move || release(mutex));
                scene.finish();
                got.expect("resumed");
                return victim.does(move || release(mutex));
            }
            met += 1;
            let waits = behind.starts(move || acquire(mutex));
            holder.does(move || release(mutex));
            // Its sleep ends with the promise, or with the next look.
            (0..200).for_each(|_| scene.advance(RESERVED_NS));
            assert!(waits.is_done(), "stop {stop}: kept for a stopped waiter: {mutex:?}");
            behind.does(move || release(mutex));
            for round in 0..3 {
                if !newcomer.does(move || mutex.try_acquire()) {
                    scene.advance(RESERVED_NS);
                    assert!(newcomer.does(move || mutex.try_acquire()), "stop {stop}, round {round}: {mutex:?}");
                }
                newcomer.does(move || release(mutex));
                let entered = newcomer.starts(move || acquire(mutex));
                (0..3).for_each(|_| scene.advance(RESERVED_NS));
                assert!(entered.is_done(), "stop {stop}, round {round}: shut for a stopped waiter");
                newcomer.does(move || release(mutex));
            }
            // When it goes on it is first again.
            newcomer.does(move || acquire(mutex));
            victim.thaw();
            victim.resumes();
            scene.settle();
            newcomer.does(move || release(mutex));
            scene.finish();
            got.expect("resumed");
            victim.does(move || release(mutex));
        });
        assert!(super::at_rest(mutex), "stop {stop}");
        stopped
    });
    assert!(met > 1, "never stopped outside of a window");
}

scripts! {
    fn a_stopped_waiter_keeps_nobody_out() {
        keeps_nobody_out::<Today>([0, 0]);
    }

    fn a_stopped_waiter_of_a_higher_priority_keeps_nobody_out() {
        keeps_nobody_out::<Strict>([20, 10]);
    }

    /// Two stopped waiters lapse one after the other; the third has a deadline, and is in time.
    fn each_of_two_stopped_waiters_lapses() {
        let mutex: &Mutex = Box::leak(Box::default());
        Scene::play(|scene, [holder, one, two, third]| {
            rests!(scene, holder, one, two, third);
            holder.does(move || acquire(mutex));
            let got = [one, two].map(|victim| victim.starts(move || acquire(mutex)));
            [one, two].into_iter().for_each(|victim| victim.freeze());
            let end = scene.now() + 300_000_000;
            let waits = third.starts(move || mutex.acquire_until(Until::deadline(end)));
            holder.does(move || release(mutex));
            (0..400).for_each(|_| scene.advance(RESERVED_NS));
            waits.expect("its time is over").expect("it was free before");
            third.does(move || release(mutex));
            [one, two].into_iter().for_each(|victim| victim.thaw());
            scene.settle();
            for (victim, got) in [one, two].into_iter().zip(got) {
                got.expect("thawed");
                victim.does(move || release(mutex));
                scene.settle();
            }
            scene.finish();
        });
        assert!(super::at_rest(mutex));
    }
}
