//! On a machine that says when a CPU is needed: a waiter that is awake is not passed, and one that
//! sleeps does so for want of a CPU.

#![allow(clippy::disallowed_types)] // a guard of the test's own

use std::sync::MutexGuard;

use lockyard::event::Event;
use lockyard::spin::hq::{Hq, RawHqSpinLock, Tunable};
use lockyard::spin::qspinlock::{Plain, RawQSpinLock};
use lockyard::spin::queued::{EXACT_COMPETE_NS, Kind, RawQueuedSpinLock, STEAL_NS};
use lockyard_check::scripted::Scene;

use super::lanes::settings;
use super::machine::{Exact, soon};
use super::scripts;
use super::word::{ASLEEP, LOCKED, PENDING, state};

fn release<K: Kind<Exact>>(lock: &RawQueuedSpinLock<Exact, K>) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { lock.release() };
}

fn cycle<K: Kind<Exact>>(lock: &RawQueuedSpinLock<Exact, K>) {
    lock.acquire();
    release(lock);
}

/// Lets hierarchical locks leave the plain queue at the first change of node, if one waiter is
/// there.
fn turn_early() -> MutexGuard<'static, ()> {
    settings(&[
        (Tunable::GeneralHandoffsTurnNuma, 0),
        (Tunable::RemoteHandoffsTurnNuma, 0),
        (Tunable::WaitersPerLaneTurnNuma, 1),
    ])
}

/// A head sleeps and is passed, wakes up and is pending, in turns.
fn sleeping_head<K: Kind<Exact>>() {
    let lock = RawQueuedSpinLock::<Exact, K>::default();
    Scene::play(|scene, [holder, head, newcomer, late]| {
        [holder, head, newcomer, late].iter().for_each(|actor| actor.is_on_cpu(true));
        holder.does(|| lock.acquire());
        let got = head.starts(|| lock.acquire());
        scene.advance(u64::from(EXACT_COMPETE_NS) - 1);
        assert_eq!((state(&lock), head.sleeps_for_ever()), (LOCKED, false));
        head.is_on_cpu(false);
        scene.settle();
        // The first to take a hierarchical lock stamps it, which counts as well.
        let before = scene.events(Event::PvLockStealing);
        let mut owner = holder;
        for (round, next) in [newcomer, holder, newcomer].into_iter().enumerate() {
            assert_eq!((state(&lock), head.sleeps_for_ever()), (LOCKED | ASLEEP, true), "round {round}");
            head.freeze();
            owner.does(|| release(&lock));
            next.does(|| lock.acquire());
            owner = next;
            assert_eq!(scene.events(Event::PvLockStealing) - before, round as i64 + 1);
            // It runs and finds the lock taken: pending, as long as it spins.
            head.is_on_cpu(true);
            head.thaw();
            assert_eq!((state(&lock), head.sleeps_for_ever()), (LOCKED | PENDING, false));
            scene.advance(u64::from(EXACT_COMPETE_NS) - 1);
            assert_eq!(state(&lock), LOCKED | PENDING);
            scene.advance(1);
            assert_eq!(scene.events(Event::PvWaitAgain), round as i64);
        }
        // Once more, and the one that passes is gone while it is pending: it is next.
        head.freeze();
        owner.does(|| release(&lock));
        late.does(|| lock.acquire());
        head.thaw();
        assert_eq!(state(&lock), LOCKED | PENDING);
        let last = holder.starts(|| lock.acquire());
        late.does(|| release(&lock));
        assert!(got.is_done() && !last.is_done());
        assert_eq!(state(&lock), LOCKED);
        head.does(|| release(&lock));
        last.expect("the next");
        holder.does(|| release(&lock));
    });
    assert_eq!(lock.raw(), u32::from(K::REST));
}

scripts! {
    /// Newcomers queue behind a head that is not asleep, also when it stops for a while before it
    /// takes a free lock.
    fn nobody_passes_a_head_that_is_awake() {
        let mut open = 0;
        for stop in 0..24 {
            let lock = RawQSpinLock::<Exact>::default();
            Scene::play(|scene, [holder, head, newcomer]| {
                [holder, head, newcomer].iter().for_each(|actor| actor.is_on_cpu(true));
                holder.does(|| lock.acquire());
                head.starts_until(stop, || cycle(&lock));
                holder.does(|| release(&lock));
                let queued = lock.raw() >> 16 != 0;
                open += i32::from(queued && state(&lock) == 0);
                let got = newcomer.starts(|| lock.acquire());
                assert_eq!(got.is_done(), !queued, "before step {stop}");
                head.resumes();
                scene.settle();
                assert!(got.is_done());
                newcomer.does(|| release(&lock));
                scene.finish();
            });
            assert_eq!(lock.raw(), 0);
        }
        assert!(open > 3, "{open}");
    }

    /// When its CPU is needed the head sleeps, and the word says so: it is passed until it runs
    /// again, however often.
    fn a_head_that_sleeps_is_passed_until_it_runs() {
        sleeping_head::<Plain>();
    }

    /// The same beside the type bit.
    fn a_hierarchical_lock_keeps_its_type_while_its_head_sleeps() {
        sleeping_head::<Hq>();
    }

    /// Behind a head that sleeps a newcomer tries for a while before it queues; where nobody can be
    /// passed, or nobody is there, it queues at once.
    fn a_newcomer_tries_where_it_may_pass() {
        let lock = RawQSpinLock::<Exact>::default();
        Scene::play(|scene, [holder, head, newcomer, other]| {
            [holder, head, newcomer, other].iter().for_each(|actor| actor.is_on_cpu(true));
            let last = || lock.raw() >> 16;
            holder.does(|| lock.acquire());
            head.starts(|| lock.acquire());
            let alone = last();
            assert_ne!(alone, 0);
            head.is_on_cpu(false);
            scene.settle();
            newcomer.starts(|| lock.acquire());
            scene.advance(u64::from(STEAL_NS) - 1);
            assert_eq!(last(), alone);
            scene.advance(1);
            let behind = last();
            assert_ne!(behind, alone);
            // Pending: it runs again, and is next.
            head.is_on_cpu(true);
            head.wakes_spuriously();
            assert_eq!(state(&lock), LOCKED | PENDING);
            other.starts(|| lock.acquire());
            assert_ne!(last(), behind);
            for actor in [holder, head, newcomer, other] {
                soon(scene, || actor.is_idle());
                actor.does(|| release(&lock));
            }
        });
        assert_eq!(lock.raw(), 0);
    }

    /// A queued waiter spins for as long as its CPU is its own, also behind one that sleeps. If it
    /// sleeps it is marked as a sleeping head by who makes it one, whose unlock wakes it.
    fn a_queued_waiter_spins_until_its_cpu_is_needed() {
        let lock = RawQSpinLock::<Exact>::default();
        Scene::play(|scene, [holder, head, behind, newcomer]| {
            [holder, head, behind, newcomer].iter().for_each(|actor| actor.is_on_cpu(true));
            holder.does(|| lock.acquire());
            let first = head.starts(|| lock.acquire());
            let second = behind.starts(|| lock.acquire());
            head.is_on_cpu(false);
            scene.advance(1_000_000_000);
            assert!(head.sleeps_for_ever());
            assert_eq!(scene.events(Event::PvWaitNode), 0);
            behind.is_on_cpu(false);
            scene.settle();
            assert_eq!(scene.events(Event::PvWaitNode), 1);
            // The first has been passed by nobody but could have been; no timer is needed for the
            // next.
            let now = scene.now();
            holder.does(|| release(&lock));
            assert!(first.is_done() && !second.is_done());
            assert_eq!(state(&lock), LOCKED | ASLEEP);
            behind.freeze();
            head.does(|| release(&lock));
            newcomer.does(|| lock.acquire());
            newcomer.does(|| release(&lock));
            behind.thaw();
            assert!(second.is_done());
            assert_eq!((state(&lock), scene.now()), (LOCKED, now));
            behind.does(|| release(&lock));
        });
        assert_eq!(lock.raw(), 0);
    }

    /// A waiter that sleeps for want of a CPU is none of those for whom it pays to queue by node.
    fn sleepers_are_no_crowd() {
        let _alone = turn_early();
        for asleep in [false, true] {
            let lock = RawHqSpinLock::<Exact>::default();
            Scene::play(|scene, [holder, first, second, third, opener]| {
                [holder, first, second, opener].iter().for_each(|actor| actor.is_on_cpu(true));
                holder.does(|| lock.acquire());
                opener.starts(|| cycle(&lock));
                first.starts(|| cycle(&lock));
                second.starts(|| lock.acquire());
                third.is_on_cpu(!asleep);
                third.starts(|| cycle(&lock));
                assert_eq!(scene.events(Event::PvWaitNode), i64::from(asleep));
                holder.does(|| release(&lock));
                soon(scene, || second.is_idle());
                assert_eq!(lock.statistics().is_some(), !asleep);
                second.does(|| release(&lock));
                scene.finish();
            });
            assert_eq!(state(&lock), 0);
        }
    }

    /// A head in hierarchical mode whose CPU was needed while it waited makes one queue of the
    /// lanes: to wake somebody costs more than any distance.
    fn lanes_are_not_for_sleepers() {
        let _alone = turn_early();
        for asleep in [false, true] {
            let lock = RawHqSpinLock::<Exact>::default();
            Scene::play(|scene, [holder, first, second, third, fourth, fifth, opener]| {
                [holder, first, second, third, fourth, fifth, opener].iter().for_each(|actor| actor.is_on_cpu(true));
                holder.does(|| lock.acquire());
                opener.starts(|| cycle(&lock));
                first.starts(|| cycle(&lock));
                second.starts(|| lock.acquire());
                third.starts(|| lock.acquire());
                holder.does(|| release(&lock));
                soon(scene, || second.is_idle());
                assert!(lock.statistics().is_some(), "the second has turned");
                // The lane of the second has the third, and this one; another has the last.
                fourth.is_on_node(2);
                let got = fourth.starts(|| lock.acquire());
                fifth.is_on_node(1);
                let last = fifth.starts(|| lock.acquire());
                fourth.is_on_cpu(!asleep);
                scene.settle();
                assert_eq!(scene.events(Event::PvWaitNode), i64::from(asleep));
                second.does(|| release(&lock));
                fourth.is_on_cpu(true);
                third.does(|| release(&lock));
                got.expect("made head by the third");
                assert_eq!((lock.statistics().is_none(), scene.events(Event::HqLeave)), (asleep, i64::from(asleep)));
                assert!(!last.is_done());
                fourth.does(|| release(&lock));
                last.expect("behind the fourth");
                fifth.does(|| release(&lock));
            });
            assert_eq!(state(&lock), 0);
        }
    }
}
