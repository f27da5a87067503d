//! When a hierarchical lock begins to queue by node, and when it does not.

#![allow(clippy::disallowed_types)] // settings belong to all locks of a machine, so that one test at a time changes them; and notes of tests

use std::sync::{Mutex, MutexGuard, PoisonError};

use lockyard::event::Event;
use lockyard::platform::{Ordering, Platform};
use lockyard::spin::hq::pool::lane_count;
use lockyard::spin::hq::{RawHqSpinLock, Tunable};
use lockyard_check::scripted::{Actor, NODES, Scene};

use super::machine::{CACHES, CPUS, Exact, soon};
use super::scripts;

pub(crate) type Hq = RawHqSpinLock<Exact>;

/// The holder of this may set what it wants: everything else is as it was at first, but that
/// waiters look at once where they are, as scripts let no time pass.
pub(crate) fn settings(changes: &[(Tunable, u32)]) -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    has(NODES, 2);
    for &tunable in Tunable::ALL {
        Exact::commons().pool.tunables().set(tunable, tunable.default()).expect("in range");
    }
    for &(tunable, value) in [(Tunable::WaitBeforeLook, 0)].iter().chain(changes) {
        Exact::commons().pool.tunables().set(tunable, value).expect("in range");
    }
    alone
}

/// What the machine says of itself.
pub(crate) fn has(caches: u32, cpus: u32) {
    CACHES.store(caches, Ordering::Relaxed);
    CPUS.store(cpus, Ordering::Relaxed);
}

/// Evidence that is needed: hand-overs, changes of node.
pub(crate) fn evidence(handoffs: u32, remote: u32) -> MutexGuard<'static, ()> {
    settings(&[(Tunable::GeneralHandoffsTurnNuma, handoffs), (Tunable::RemoteHandoffsTurnNuma, remote)])
}

/// A queue of waiters on these nodes, behind one that found nobody queued and so tells nothing of
/// its node, and another queue (those of `late`) that comes when so many of them have been served.
/// In which of their sections, in the order in which they were served, was the lock in hierarchical
/// mode?
fn modes(lock: &Hq, nodes: &[u32], late: (usize, &[u32])) -> Vec<bool> {
    let modes = Mutex::new(Vec::new());
    // SAFETY: each is told to a thread that holds the lock.
    let release = || unsafe { lock.release() };
    let section = || {
        lock.acquire();
        modes.lock().unwrap().push(lock.statistics().is_some());
    };
    Scene::play_with(2 + nodes.len() + late.1.len(), |scene, actors| {
        let (holder, waiters) = actors.split_first().unwrap();
        let (opener, waiters) = waiters.split_last().unwrap();
        actors.iter().for_each(|actor| actor.is_on_cpu(true));
        holder.does(|| lock.acquire());
        opener.starts(move || {
            lock.acquire();
            release();
        });
        let (early, after) = waiters.split_at(nodes.len());
        for (number, (actor, node)) in early.iter().zip(nodes).enumerate() {
            actor.is_on_node(*node);
            actor.starts(move || {
                section();
                if number + 1 != late.0 {
                    release();
                }
            });
        }
        holder.does(release);
        soon(scene, || late.0 == 0 || early[late.0 - 1].is_idle());
        for (actor, node) in after.iter().zip(late.1) {
            actor.is_on_node(*node);
            actor.starts(move || {
                section();
                release();
            });
        }
        if late.0 > 0 {
            early[late.0 - 1].does(release);
        }
        soon(scene, || waiters.iter().all(Actor::is_idle));
    });
    modes.into_inner().unwrap()
}

/// The first in whose section the lock was in hierarchical mode, among waiters of two nodes by
/// turns.
fn turned_at(waiters: usize) -> Option<usize> {
    let nodes: Vec<u32> = (0..waiters as u32).map(|number| number % 2).collect();
    modes(&Hq::default(), &nodes, (0, &[])).iter().position(|by_node| *by_node)
}

scripts! {
    /// More hand-overs (one of them to the first), and more of them to another node, than are set.
    /// The settings are looked at with the first change of node, and with each fourth.
    fn a_lock_turns_when_there_is_evidence() {
        let expected = [((1, 0), 1), ((2, 0), 4), ((0, 1), 4), ((4, 3), 4), ((5, 0), 8), ((0, 4), 8), ((8, 2), 8), ((9, 2), 12)];
        for ((handoffs, remote), turned) in expected {
            let _alone = evidence(handoffs, remote);
            assert_eq!(turned_at(18), Some(turned), "more than {handoffs}, {remote}");
        }
    }

    /// A waiter looks where it is when it has waited for as long as is set; one that is head before
    /// that has changed no node.
    fn who_is_head_soon_is_no_evidence() {
        for (wait, turns) in [(0, false), (999, false), (1_000, true)] {
            let _alone = settings(&[
                (Tunable::GeneralHandoffsTurnNuma, 0),
                (Tunable::RemoteHandoffsTurnNuma, 0),
                (Tunable::WaitBeforeLook, Tunable::WaitBeforeLook.default()),
            ]);
            let lock = &Hq::default();
            // SAFETY: each is told to a thread that holds the lock.
            let release = move || unsafe { lock.release() };
            Scene::play_with(12, |scene, actors| {
                actors.iter().for_each(|actor| actor.is_on_cpu(true));
                let (holder, waiters) = actors.split_first().unwrap();
                holder.does(|| lock.acquire());
                for (number, actor) in (0..).zip(waiters) {
                    actor.is_on_node(number % 2);
                    actor.starts(move || {
                        lock.acquire();
                        release();
                    });
                }
                scene.advance(wait);
                holder.does(release);
                soon(scene, || waiters.iter().all(Actor::is_idle));
                assert_eq!(scene.events(Event::HqEnter) > 0, turns, "after {wait} ns");
            });
        }
    }

    /// Hand-overs inside a node count, and are no change of node.
    fn neighbours_are_no_evidence_for_distance() {
        let nodes = [0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1];
        for (handoffs, turned) in [(5, 5), (6, 8)] {
            let _alone = evidence(handoffs, 0);
            let modes = modes(&Hq::default(), &nodes, (0, &[]));
            assert_eq!(modes.iter().position(|by_node| *by_node), Some(turned));
        }
        let _alone = evidence(0, 0);
        assert!(!modes(&Hq::default(), &[1; 12], (0, &[])).contains(&true));
    }

    /// Two waiters for each node that occurs, in a queue of at most two for each node of the
    /// machine.
    fn a_lock_turns_for_a_crowd_only() {
        let _alone = evidence(0, 0);
        let turns = |nodes: &[u32]| modes(&Hq::default(), nodes, (0, &[])).contains(&true);
        // Behind the first of another node.
        assert!(!turns(&[0, 1]) && !turns(&[0, 1, 1]) && turns(&[0, 1, 1, 1]) && turns(&[0, 1, 2, 2]));
        assert!(!turns(&[0, 1, 0, 1]) && !turns(&[0, 1, 0, 1, 2]) && turns(&[0, 1, 1, 1, 2, 2]));
        assert!(turns(&[0, 1, 0, 1, 0, 1]) && !turns(&[0, 1, 0, 1, 2, 0, 1]) && turns(&[0, 1, 0, 1, 2, 0, 1, 2]));
    }

    /// The queue becomes the lane of who turns, and with the last in it the lock is plain again. A
    /// lock with one lane never turns.
    fn a_lock_without_waiters_is_plain_again() {
        {
            let _alone = evidence(0, 0);
            let (no, yes) = (false, true);
            assert_eq!(modes(&Hq::default(), &[0, 1, 1, 1, 1], (0, &[])), [no, yes, yes, yes, no]);
        }
        let _alone = settings(&[
            (Tunable::GeneralHandoffsTurnNuma, 0),
            (Tunable::RemoteHandoffsTurnNuma, 0),
            (Tunable::Lanes, 1),
        ]);
        assert_eq!(modes(&Hq::default(), &[0, 1, 1, 1, 1], (0, &[])), [false; 5]);
    }

    /// A lock whose lanes have paid turns again at the first change of node; after a stay that did
    /// not pay it takes all the evidence.
    fn a_lock_that_was_well_served_by_lanes_turns_soon() {
        // Three hand-overs in the first lane pay, two do not.
        for (nodes, paid) in [([0, 1, 1, 1, 1].as_slice(), true), (&[0, 1, 1, 1], false)] {
            let lock = Hq::default();
            {
                let _alone = evidence(0, 0);
                // While the one that turns is inside, others come to a lane of their own.
                assert!(modes(&lock, nodes, (2, &[2, 2])).contains(&true));
            }
            let _alone = evidence(50, 2);
            assert_eq!(modes(&lock, &[0, 1, 1, 1], (0, &[])).contains(&true), paid, "{nodes:?}");
            // The same lock once more: the last stay has seen one lane only.
            assert!(!modes(&lock, &[0, 1, 1, 1], (0, &[])).contains(&true));
        }
    }

    /// Lanes that were visited in vain become a queue, and it takes 32 times as many hand-overs to
    /// the next stay.
    fn a_stay_in_vain_makes_careful() {
        let _alone = evidence(1, 0);
        for in_vain in [false, true] {
            let lock = &Hq::default();
            Scene::play_with(15, |scene, actors| {
                actors.iter().for_each(|actor| actor.is_on_cpu(true));
                // SAFETY: each is told to a thread that holds the lock.
                let release = move || unsafe { lock.release() };
                let cycle = move || {
                    lock.acquire();
                    release();
                };
                let (holder, waiters) = actors.split_first().unwrap();
                holder.does(|| lock.acquire());
                // More visits than hand-overs are needed to enter.
                assert!(lock.begin_in_lanes(1 + u32::from(in_vain)));
                waiters[0].is_on_node(0);
                waiters[0].starts(|| lock.acquire());
                waiters[1].is_on_node(1);
                waiters[1].starts(cycle);
                holder.does(release);
                assert_eq!((lock.statistics().is_none(), scene.events(Event::HqLeave)), (in_vain, i64::from(in_vain)));
                for (number, actor) in (0..).zip(&waiters[2..]) {
                    actor.is_on_node(number % 2);
                    actor.starts(cycle);
                }
                waiters[0].does(release);
                scene.finish();
                // The twelve would have been enough: see above.
                assert_eq!(scene.events(Event::HqEnter), 1);
            });
        }
    }

    /// A lane for each node; for each cache where nodes have several, with at least four CPUs each,
    /// and there are lanes enough; or as many as are wished.
    fn lanes_are_nodes_or_caches() {
        let _alone = settings(&[]);
        for (caches, cpus, lanes) in
            [(3, 100, 3), (2, 100, 3), (6, 24, 6), (6, 23, 3), (32, 128, 32), (33, 1000, 3)]
        {
            has(caches, cpus);
            assert_eq!(lane_count(Exact::commons().pool), lanes, "{caches} caches, {cpus} CPUs");
        }
        has(6, 24);
        Exact::commons().pool.tunables().set(Tunable::LanesByCache, 0).expect("in range");
        assert_eq!(lane_count(Exact::commons().pool), 3);
        Exact::commons().pool.tunables().set(Tunable::Lanes, 5).expect("in range");
        assert_eq!(lane_count(Exact::commons().pool), 5);
    }

    /// Which waiters are neighbours: those of a node, of a cache, or whose names leave the same
    /// remainder.
    fn waiters_of_a_lane_are_neighbours() {
        let early = [
            (Tunable::GeneralHandoffsTurnNuma, 0),
            (Tunable::RemoteHandoffsTurnNuma, 0),
            (Tunable::WaitersPerLaneTurnNuma, 1),
        ];
        let is_remote = |all: u32, by_cache: u32, lanes: u32, is_other: fn(&Actor<'_>, &Actor<'_>) -> bool, prepare: fn(usize, &Actor<'_>)| {
            let _alone = settings(&early);
            Exact::commons().pool.tunables().set(Tunable::LanesByCache, by_cache).expect("in range");
            Exact::commons().pool.tunables().set(Tunable::Lanes, lanes).expect("in range");
            has(all, 24);
            let lock = &Hq::default();
            let mut turned = false;
            Scene::play_with(12, |scene, actors| {
                let cycle = move || {
                    lock.acquire();
                    // SAFETY: acquired above.
                    unsafe { lock.release() };
                };
                actors.iter().for_each(|actor| actor.is_on_cpu(true));
                actors.iter().enumerate().for_each(|(number, actor)| prepare(number, actor));
                // The holder, one that finds nobody queued, the first behind it, and some that are
                // as the first is, or are not.
                let (holder, others) = actors.split_first().unwrap();
                let (opener, others) = others.split_last().unwrap();
                let (first, rest) = others.split_first().unwrap();
                let rest: Vec<_> = rest.iter().filter(|actor| is_other(first, actor)).take(4).collect();
                assert!(rest.len() > 1);
                holder.does(|| lock.acquire());
                opener.starts(cycle);
                first.starts(cycle);
                rest.iter().for_each(|actor| drop(actor.starts(cycle)));
                // SAFETY: acquired above.
                holder.does(|| unsafe { lock.release() });
                soon(scene, || actors.iter().all(Actor::is_idle));
                turned = scene.events(Event::HqEnter) > 0;
                actors.iter().for_each(|actor| actor.has_priority(0));
            });
            turned
        };
        let same_node = |_: usize, actor: &Actor<'_>| actor.is_on_node(1);
        let caches = |number: usize, actor: &Actor<'_>| {
            actor.is_on_node(1);
            actor.has_priority(u32::from(number > 1));
        };
        let nodes = |number: usize, actor: &Actor<'_>| actor.is_on_node(u32::from(number > 1));
        let any = |_: &Actor<'_>, _: &Actor<'_>| true;
        assert!(!is_remote(6, 1, 0, any, same_node) && is_remote(6, 1, 0, any, caches) && is_remote(6, 1, 0, any, nodes));
        assert!(!is_remote(6, 0, 0, any, caches) && is_remote(6, 0, 0, any, nodes));
        assert!(!is_remote(6, 1, 2, |one, other| one.id().raw() % 2 == other.id().raw() % 2, nodes));
        assert!(is_remote(6, 1, 2, |one, other| one.id().raw() % 2 != other.id().raw() % 2, same_node));
        // As many caches as nodes: one node may have two of them and another no CPU, but on the
        // whole nodes do not have several.
        assert!(!is_remote(NODES, 1, 0, any, caches) && is_remote(NODES, 1, 0, any, nodes));
    }
}
