//! A waiter is stopped for ever before each of its steps in turn. It owns nothing: the mutex is
//! kept for it for a while, and then for the next.

use lockyard::cancel::Until;
use lockyard::mutex::RawMutex;
use lockyard::rtmutex_tree::policy::{Policy, Strict, Today};
use lockyard::wait::turn::RESERVED_NS;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::condvar::{Condvar, sleep};
use super::{Mutex, acquire, have_priorities, release, scripts};

/// A thread's first wait makes its record: not one of the steps here.
macro_rules! rests {
    ($scene:expr, $($actor:expr),*) => {
        // Not the beginning of time, which means "never".
        $scene.advance(1);
        $(
        let own: &Mutex = Box::leak(Box::default());
        $actor.does(move || acquire(own));
        $actor.does(move || release(own));
        )*
    };
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

    /// The first waiter sleeps without a timer; a more urgent one comes before it, and is stopped.
    fn a_waiter_that_has_been_displaced_looks() {
        let mutex: &Mutex = Box::leak(Box::default());
        Scene::play(|scene, [holder, waiter, urgent]| {
            rests!(scene, holder, waiter, urgent);
            have_priorities(&[waiter, urgent], &[10, 20]);
            holder.does(move || acquire(mutex));
            let waits = waiter.starts(move || acquire(mutex));
            let got = urgent.starts(move || acquire(mutex));
            urgent.freeze();
            holder.does(move || release(mutex));
            (0..200).for_each(|_| scene.advance(RESERVED_NS));
            waits.expect("free, and promised to a stopped waiter");
            waiter.does(move || release(mutex));
            urgent.thaw();
            scene.settle();
            got.expect("thawed");
            urgent.does(move || release(mutex));
        });
        assert!(super::at_rest(mutex));
    }

    /// A release promises the mutex, and its thread is stopped before it wakes the heir. Others
    /// come and go; the heir is woken by them.
    fn a_promise_without_its_wake_up_is_made_good() {
        every_stop(|stop| {
            let mutex: &Mutex<Strict> = Box::leak(Box::default());
            let mut stopped = false;
            Scene::play(|scene, [holder, waiter, newcomer]| {
                rests!(scene, holder, waiter, newcomer);
                holder.does(move || acquire(mutex));
                let waits = waiter.starts(move || acquire(mutex));
                let released = holder.starts_until(stop, move || release(mutex));
                stopped = holder.is_stopped();
                if stopped && !holder.is_in_window() && !mutex.is_locked() && !waits.is_done() {
                    for _ in 0..3 {
                        let entered = newcomer.starts(move || acquire(mutex));
                        (0..3).for_each(|_| scene.advance(RESERVED_NS));
                        if waits.is_done() {
                            break;
                        }
                        assert!(entered.is_done(), "stop {stop}");
                        newcomer.does(move || release(mutex));
                        (0..3).for_each(|_| scene.advance(RESERVED_NS));
                    }
                    assert!(waits.is_done(), "stop {stop}: asleep beside a free mutex");
                }
                holder.resumes();
                scene.settle();
                released.expect("resumed");
                waits.expect("released");
                waiter.does(move || release(mutex));
                scene.settle();
                // A newcomer that queued behind the waiter.
                if mutex.is_locked() {
                    newcomer.does(move || release(mutex));
                }
                scene.finish();
            });
            assert!(super::at_rest(mutex), "stop {stop}");
            stopped
        });
    }

    /// Two sleepers of a condition variable are moved to the mutex; the first is stopped.
    fn a_moved_sleeper_behind_a_stopped_one_looks() {
        let mutex: &Mutex = Box::leak(Box::default());
        let condvar: &Condvar = Box::leak(Box::default());
        Scene::play(|scene, [first, second, signaller]| {
            rests!(scene, first, second, signaller);
            let slept = [first, second].map(|sleeper| sleeper.starts(move || sleep(condvar, mutex, Until::FOREVER)));
            first.freeze();
            signaller.does(move || acquire(mutex));
            signaller.does(move || condvar.notify_all(mutex));
            scene.settle();
            signaller.does(move || release(mutex));
            (0..300).for_each(|_| scene.advance(RESERVED_NS));
            assert!(slept[1].is_done(), "free, and promised to a stopped sleeper: {mutex:?}");
            first.thaw();
            scene.finish();
            slept.into_iter().for_each(|slept| assert_eq!(slept.expect("signalled"), Ok(true)));
        });
        assert!(super::at_rest(mutex));
    }

    /// A wait for another lock ends by its deadline just as its reservation lapses: the mark that
    /// stays on the record means nothing to this mutex.
    fn a_mark_of_an_earlier_wait_is_forgotten() {
        every_stop(|stop| {
            let other: &RawMutex<Scripted> = Box::leak(Box::default());
            let mutex: &Mutex = Box::leak(Box::default());
            let condvar: &Condvar = Box::leak(Box::default());
            let mut stopped = false;
            Scene::play(|scene, [holder, sleeper, rival]| {
                rests!(scene, holder, sleeper, rival);
                holder.does(|| other.acquire());
                let end = scene.now() + 2_000_000;
                let gave_up = sleeper.starts_until(stop, move || other.acquire_until(Until::deadline(end)).is_err());
                (0..3).for_each(|_| scene.advance(RESERVED_NS));
                stopped = sleeper.is_stopped();
                sleeper.freeze();
                // SAFETY: acquired above.
                holder.does(|| unsafe { other.release() });
                for _ in 0..4 {
                    if rival.does(|| other.try_acquire()) {
                        // SAFETY: acquired above.
                        rival.does(|| unsafe { other.release() });
                    }
                    scene.advance(RESERVED_NS);
                }
                sleeper.thaw();
                sleeper.resumes();
                scene.settle();
                if !gave_up.expect("its time is over") {
                    // SAFETY: acquired above.
                    sleeper.does(|| unsafe { other.release() });
                }
                let slept = sleeper.starts(move || sleep(condvar, mutex, Until::FOREVER));
                holder.does(move || acquire(mutex));
                assert!(holder.does(move || condvar.notify_one(mutex)));
                holder.does(move || release(mutex));
                scene.settle();
                assert_eq!(slept.expect("signalled"), Ok(true), "stop {stop}");
                scene.finish();
            });
            stopped
        });
    }
}
