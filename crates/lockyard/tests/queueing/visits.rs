//! How a hierarchical lock serves its lanes, and how waiters find theirs.

#![allow(clippy::disallowed_types)] // notes of tests

use std::sync::Mutex;

use lockyard::event::Event;
use lockyard::platform::{Platform, Pool};
use lockyard::spin::hq::{RawHqSpinLock, TYPE, Tunable};
use lockyard_check::scripted::{Actor, NODES, Outcome, Scene, Scripted, every_stop};

use super::lanes::{Hq, evidence, has, settings};
use super::machine::soon;
use super::scripts;

scripts! {
    /// A lane has as many hand-overs as are set, and one among fewer waiters so many fewer, once
    /// that is known: when its first is head again.
    fn a_lane_has_a_share_in_proportion_to_its_crowd() {
        // In the lane of six the first comes round twice in a visit: the second time says nothing
        // of how many they are.
        let _alone = settings(&[(Tunable::FairnessThreshold, 14)]);
        let lock = &Hq::default();
        let mut lanes = Vec::new();
        // SAFETY: each is told to a thread that holds the lock.
        let release = || unsafe { lock.release() };
        Scene::play_with(10, |scene, actors| {
            actors.iter().for_each(|actor| actor.is_on_cpu(true));
            let (holder, waiters) = actors.split_first().unwrap();
            holder.does(|| lock.acquire());
            assert!(lock.begin_in_lanes(0));
            // Six of a node, three of another: the owner has left two in its lane at least.
            let queue = |number: usize| {
                waiters[number].is_on_node(u32::from(number > 5));
                Some(waiters[number].starts(|| lock.acquire()))
            };
            let mut waits: Vec<Option<Outcome<()>>> = (0..9).map(queue).collect();
            holder.does(release);
            for round in 0..55 {
                let is_owner = |wait: &Option<Outcome<()>>| wait.as_ref().is_some_and(Outcome::is_done);
                soon(scene, || waits.iter().any(is_owner));
                let owner = waits.iter().position(is_owner).expect("somebody has it");
                waiters[owner].does(release);
                // In the end they do not come again.
                waits[owner] = if round < 46 { queue(owner) } else { None };
                lanes.push(owner > 5);
            }
        });
        let visits: Vec<_> = lanes[..46].chunk_by(|one, other| one == other).map(|visit| (visit[0], visit.len())).collect();
        // Fourteen hand-overs are fifteen sections; half as many waiters have seven.
        assert_eq!(visits, [(false, 15), (true, 8)].repeat(2));
        assert!(lock.statistics().is_none() && !lock.is_locked());
    }

    /// When lanes become a queue its first waiter knows from which lane it has the lock: of another
    /// one it has changed the node, of the same one not.
    fn out_of_lanes_a_change_of_node_counts() {
        let _alone = evidence(0, 0);
        for caches in [NODES, 2 * NODES] {
            has(caches, 24);
            // Looked at with the first change, and with the fourth; before the first hand-over
            // inside the queue there is no evidence.
            for (node, turned) in [(0, 1), (1, 3)] {
                let lock = &Hq::default();
                let modes = Mutex::new(Vec::new());
                // SAFETY: each is told to a thread that holds the lock.
                let release = || unsafe { lock.release() };
                let section = || {
                    lock.acquire();
                    modes.lock().unwrap().push(lock.statistics().is_some());
                    release();
                };
                Scene::play_with(14, |scene, actors| {
                    actors.iter().for_each(|actor| actor.is_on_cpu(true));
                    let (holder, others) = actors.split_first().unwrap();
                    let (last, waiters) = others.split_first().unwrap();
                    holder.does(|| lock.acquire());
                    assert!(lock.begin_in_lanes(1));
                    last.is_on_node(0);
                    last.starts(|| lock.acquire());
                    for (number, actor) in (0..).zip(waiters) {
                        // By turns, from whichever node the first is of.
                        actor.is_on_node((node + number) % 2);
                        actor.starts(section);
                        if number == 0 {
                            // The visit was in vain: with the first behind it, it makes a queue of
                            // the lanes.
                            holder.does(release);
                            soon(scene, || last.is_idle());
                            assert_eq!((scene.events(Event::HqLeave), lock.statistics()), (1, None));
                        }
                    }
                    last.does(release);
                    soon(scene, || waiters.iter().all(Actor::is_idle));
                });
                let modes = modes.into_inner().unwrap();
                assert_eq!(modes.iter().position(|by_node| *by_node), Some(turned), "{caches} caches, node {node}");
            }
        }
    }

    /// A waiter that sees the mark of the lanes goes to its lane, and leaves the mark where it is.
    fn the_mark_stays_for_those_who_see_it() {
        let _alone = settings(&[]);
        let lock = &Hq::default();
        // SAFETY: each is told to a thread that holds the lock.
        let release = move || unsafe { lock.release() };
        Scene::play_with(7, |scene, actors| {
            actors.iter().for_each(|actor| actor.is_on_cpu(true));
            let (holder, waiters) = actors.split_first().unwrap();
            holder.does(|| lock.acquire());
            assert!(lock.begin_in_lanes(0));
            for actor in waiters {
                actor.starts(move || {
                    lock.acquire();
                    release();
                });
            }
            holder.does(release);
            soon(scene, || waiters.iter().all(Actor::is_idle));
            assert_eq!((scene.events(Event::HqMarkTaken), scene.events(Event::HqLeave)), (0, 1));
        });
    }

    /// A waiter that looks where its lock's record was, and goes on when another lock has it,
    /// queues with its own lock: wherever it stops on its way, and also if its lock is in lanes
    /// again by then, whose record is elsewhere.
    fn nobody_queues_in_the_lanes_of_another_lock() {
        let locks: Vec<RawHqSpinLock<Scripted>> = (0..1_000).map(|_| RawHqSpinLock::default()).collect();
        let (lock, others) = locks.split_first().unwrap();
        let is_near = |other: &&RawHqSpinLock<Scripted>| {
            Pool::<Scripted>::same_places(Scripted::key(lock), Scripted::key(*other))
        };
        let other = others.iter().find(is_near).expect("one in 64");
        // SAFETY: each is told to a thread that holds the lock.
        let release = |lock: &RawHqSpinLock<Scripted>| unsafe { lock.release() };
        let (mut moved, mut elsewhere) = (0, 0);
        let mut play = |stop: u64, again: bool| {
            let mut stopped = false;
            Scene::play(|scene, [holder, first, late, stranger, waiter]| {
                holder.does(|| lock.acquire());
                assert!(lock.begin_in_lanes(0));
                first.is_on_node(0);
                let got = first.starts(|| lock.acquire());
                late.is_on_node(1);
                let entered = late.starts_until(stop, || lock.acquire());
                stopped = late.is_stopped();
                // The first finds nobody behind it, as long as the late one has not come to its
                // lane.
                holder.does(|| release(lock));
                got.expect("woken");
                first.does(|| release(lock));
                moved += i32::from(stopped && lock.statistics().is_none());
                stranger.does(|| other.acquire());
                assert!(other.begin_in_lanes(0));
                waiter.is_on_node(0);
                waiter.starts(|| other.acquire());
                if again && stopped && lock.statistics().is_none() {
                    holder.does(|| lock.acquire());
                    assert!(lock.begin_in_lanes(0));
                    elsewhere += 1;
                    holder.does(|| release(lock));
                }
                late.resumes();
                entered.expect("its lock is free");
                late.does(|| release(lock));
                stranger.does(|| release(other));
                scene.finish();
                waiter.does(|| release(other));
                if lock.statistics().is_some() {
                    // The late one had it as soon as it came; lanes go when one that comes through
                    // them leaves nobody.
                    holder.does(|| lock.acquire());
                    first.starts(|| lock.acquire());
                    holder.does(|| release(lock));
                    scene.finish();
                    first.does(|| release(lock));
                }
            });
            assert_eq!((lock.raw(), other.raw()), (TYPE, TYPE), "before step {stop}");
            stopped
        };
        every_stop(|stop| {
            let stopped = play(stop, false);
            stopped | play(stop, true)
        });
        assert!(moved > 10 && elsewhere > 5, "{moved}, {elsewhere}");
    }
}
