//! The hierarchical spinlock's own states, step by step: into the lanes, between them, back;
//! everybody stopped everywhere.
//!
//! Actors are dealt out over three NUMA nodes. The lock under test turns at the first change of
//! node that it sees, which is that of the second hand-over (a first waiter says nothing of its
//! node; the scripts call it the opener), and leaves a lane after two hand-overs.

use std::cell::Cell;

use lockyard::event::Event;
use lockyard::platform::Platform;
use lockyard::spin::hq::{RawHqSpinLock, Tunable};
use lockyard::wait::turn::TURN_NS;
use lockyard_check::adapters::EagerHq;
use lockyard_check::lock::Lock;
use lockyard_check::preempted;
use lockyard_check::scripted::{Actor, NODES, Scene, Scripted, every_stop};
use lockyard_check::scripts;
use lockyard_check::stage::Steps;

type Hq = EagerHq<Scripted>;

preempted!(sweeps: Hq, [exclusive]);

/// A lock, and what it protects: a count that is not atomic in effect.
#[derive(Default)]
struct Stand {
    lock: Hq,
    inside: Steps<Scripted>,
    sections: Steps<Scripted>,
}

impl Stand {
    fn lock(&self) -> &RawHqSpinLock<Scripted> {
        &self.lock.0
    }

    fn release(&self) {
        // SAFETY: each script releases what one of its actors holds.
        unsafe { self.lock().release() };
    }

    fn cycle(&self) {
        self.lock().acquire();
        assert_eq!(self.inside.advance(), 1, "two owners");
        self.sections.advance();
        self.inside.retreat();
        self.release();
    }

    fn cycles(&self, count: u32) {
        (0..count).for_each(|_| self.cycle());
    }

    /// After the scene: everybody was served, and the lock is a plain one without waiters.
    fn finish(&self, sections: u32) {
        assert_eq!(self.sections.count(), sections);
        assert!(self.lock.at_rest() && self.lock().statistics().is_none(), "{:?}", self.lock);
    }
}

scripts! {
    /// Five waiters of three nodes: the queue becomes a lane, newcomers queue by node, each is
    /// served, the lock is plain again.
    fn a_contended_lock_turns_and_comes_back() {
        let stand = Stand::default();
        Scene::play(|scene, [holder, a, b, c, d, e, f]| {
            holder.does(|| stand.lock().acquire());
            for actor in [a, b, c, d] {
                actor.starts(|| stand.cycle());
            }
            // `b` hands over to `c` of another node, who has `d` behind it.
            holder.starts(|| stand.release());
            scene.finish();
            assert_eq!(scene.events(Event::HqEnter), 1);
            assert_eq!(scene.events(Event::HqLeave), 1);
            holder.does(|| stand.lock().acquire());
            for actor in [a, b, c, d, e, f] {
                actor.starts(|| stand.cycles(2));
            }
            holder.starts(|| stand.release());
            scene.finish();
            assert_eq!(scene.events(Event::HqEnter), scene.events(Event::HqLeave));
            assert_eq!(scene.events(Event::HqConflict), 0);
        });
        stand.finish(16);
    }

    /// In hierarchical mode: waiters of a node are served together, those of others next, and
    /// nobody is forgotten.
    fn lanes_are_served_in_turn() {
        let stand = Stand::default();
        #[allow(clippy::disallowed_types)] // notes of the test, not part of what is tested
        let order = std::sync::Mutex::new(Vec::new());
        Scene::play_with(11, |scene, actors| {
            let (holder, waiters) = actors.split_first().unwrap();
            let (opener, waiters) = waiters.split_last().unwrap();
            let (first, late) = waiters.split_at(3);
            holder.does(|| stand.lock().acquire());
            let turner = |number: usize| {
                stand.lock().acquire();
                order.lock().unwrap().push(number as u32 % NODES);
                stand.release();
            };
            // Behind the opener nodes 1, 2, 0: the second of them turns, as soon as it has the
            // lock.
            opener.starts(|| stand.cycle());
            for (number, actor) in (1..).zip(first) {
                actor.starts(move || turner(number));
            }
            holder.starts(|| stand.release());
            scene.finish();
            assert_eq!(order.lock().unwrap().len(), 3);
            order.lock().unwrap().clear();
            // And now with a crowd that arrives while the lock is in hierarchical mode: the third
            // of four waiters is stopped in its section.
            holder.does(|| stand.lock().acquire());
            opener.starts(|| stand.cycle());
            let hold = || {
                stand.lock().acquire();
                order.lock().unwrap().push(9);
            };
            first[0].starts(move || turner(1));
            first[1].starts(hold);
            first[2].starts(move || turner(0));
            holder.starts(|| stand.release());
            assert!(stand.lock().statistics().is_some(), "the second has turned");
            for (number, actor) in late.iter().enumerate() {
                actor.is_on_node(number as u32);
                actor.starts(move || turner(number));
            }
            assert!(late.iter().all(Actor::waits));
            assert!(!stand.lock().try_acquire() && stand.lock().is_contended());
            first[1].starts(|| stand.release());
            scene.finish();
            // The lane of the second (node 2) holds the third (node 0) and two of node 2: quota 2,
            // then round the table.
            assert_eq!(*order.lock().unwrap(), [1, 9, 0, 2, 0, 0, 1, 1, 2]);
            assert!(scene.events(Event::HqForcedHandoff) >= 1);
        });
        assert!(stand.lock.at_rest());
    }

    /// Lanes that were visited in vain become one queue, lane after lane, with waiters in all of
    /// them. The head that does it is stopped before each of its steps, while a newcomer comes.
    fn lanes_fold_into_a_queue() {
        let folded = Cell::new(0);
        let fold = |stop: Option<u64>| {
            let stand = Stand::default();
            #[allow(clippy::disallowed_types)] // as above
            let order = std::sync::Mutex::new(Vec::new());
            let mut stopped = false;
            Scene::play_with(12, |scene, actors| {
                let turner = |number: usize| {
                    stand.lock().acquire();
                    assert_eq!(stand.inside.advance(), 1, "two owners");
                    stand.sections.advance();
                    order.lock().unwrap().push(number);
                    stand.inside.retreat();
                    stand.release();
                };
                actors[0].does(|| stand.lock().acquire());
                // Behind the opener nodes 1, 2, 0: the second turns, and stays in its section with
                // the third behind it in its lane.
                actors[11].starts(|| stand.cycle());
                actors[1].starts(move || turner(1));
                actors[2].starts(|| stand.lock().acquire());
                actors[3].starts(move || turner(3));
                actors[0].starts(|| stand.release());
                assert!(stand.lock().statistics().is_some(), "the second has turned");
                // One waiter of node 0 only: its visit will be in vain, and the first of node 1
                // finds that. Three of node 2, who have the third's lane.
                for (number, node) in [(4, 2), (5, 2), (6, 2), (7, 0), (8, 1), (9, 1)] {
                    actors[number].is_on_node(node);
                    match stop.filter(|_| number == 8) {
                        Some(stop) => drop(actors[number].starts_until(stop, move || turner(number))),
                        None => drop(actors[number].starts(move || turner(number))),
                    }
                }
                actors[2].starts(|| stand.release());
                stopped = actors[8].is_stopped();
                if stop.is_none() {
                    scene.finish();
                }
                actors[10].starts(move || turner(10));
                actors[8].resumes();
                scene.finish_all();
                folded.set(folded.get() + scene.events(Event::HqLeave));
            });
            assert_eq!(order.lock().unwrap().len(), 9, "somebody was lost");
            stand.finish(10);
            (stopped, order.into_inner().unwrap())
        };
        // Two of node 2 (the quota), node 0, the first of node 1: and now the second of node 1, and
        // the rest of node 2.
        assert_eq!(fold(None).1, [1, 3, 4, 7, 8, 9, 5, 6, 10]);
        let stops = every_stop(|stop| fold(Some(stop)).0);
        assert!(stops > 30 && folded.get() > stops as i64, "{stops} stops, {} times out of the lanes", folded.get());
    }

    /// The last waiter closes the lanes while somebody comes, to another lane or its own: both
    /// stopped before each of their steps, and gone on in either order.
    fn lanes_close_while_somebody_comes() {
        let rolled_back = Cell::new(0);
        for (node, newcomer_first) in [(1, false), (1, true), (2, false), (2, true)] {
            every_stop(|last_stop| {
                let mut any = false;
                every_stop(|new_stop| {
                    let stand = Stand::default();
                    let mut both = (false, false);
                    Scene::play(|scene, [holder, first, turner, last, newcomer, opener]| {
                        holder.does(|| stand.lock().acquire());
                        opener.starts(|| stand.cycle());
                        first.starts(|| stand.cycle());
                        turner.starts(|| stand.lock().acquire());
                        last.starts_until(last_stop, || stand.cycle());
                        holder.starts(|| stand.release());
                        newcomer.is_on_node(node);
                        newcomer.starts_until(new_stop, || stand.cycle());
                        // Unless it waits for one who is stopped before linking itself.
                        let released = turner.starts_if_idle(|| stand.release()).is_some();
                        both = (last.is_stopped(), newcomer.is_stopped());
                        let order = if newcomer_first { [newcomer, last] } else { [last, newcomer] };
                        for actor in order {
                            actor.resumes();
                            scene.settle();
                        }
                        // Where it or the one before it was woken in vain it waits for its own
                        // timer.
                        let mut turns = 0;
                        while !released && turner.starts_if_idle(|| stand.release()).is_none() {
                            turns += 1;
                            assert!(turns < 10, "the turner gets the lock in its turn");
                            scene.advance(TURN_NS);
                        }
                        scene.finish_all();
                        rolled_back.set(rolled_back.get() + scene.events(Event::HqRollback));
                    });
                    stand.finish(4);
                    any |= both.0;
                    both.1
                });
                any
            });
        }
        assert!(rolled_back.get() > 0);
    }

    /// A newcomer sees a queue, the lock turns, and it takes the mark of the lanes for the name of
    /// the last waiter: stopped before each of its steps from there on, while another one comes and
    /// everybody goes on as far as they can. Until the mark is back nobody can leave the lanes.
    fn the_mark_of_the_lanes_is_away() {
        let (taken, rolled_back) = (Cell::new(0), Cell::new(0));
        every_stop(|first_stop| {
            let mut any = false;
            every_stop(|steps| {
                let stand = Stand::default();
                let mut again = false;
                Scene::play(|scene, [holder, first, turner, last, newcomer, late, opener]| {
                    holder.does(|| stand.lock().acquire());
                    opener.starts(|| stand.cycle());
                    first.starts(|| stand.cycle());
                    turner.starts(|| stand.lock().acquire());
                    last.starts(|| stand.cycle());
                    newcomer.starts_until(first_stop, || stand.cycle());
                    any |= newcomer.is_stopped();
                    // The turner has the lock and turns, unless it waits for the newcomer's link.
                    holder.starts(|| stand.release());
                    newcomer.resumes_until(steps + 1);
                    again = newcomer.is_stopped();
                    late.starts(|| stand.cycle());
                    // Everybody in the lanes is served, and the last of them cannot leave.
                    let mut released = turner.starts_if_idle(|| stand.release()).is_some();
                    rolled_back.set(rolled_back.get() + scene.events(Event::HqRollback));
                    newcomer.resumes();
                    scene.settle();
                    while !released {
                        released = turner.starts_if_idle(|| stand.release()).is_some();
                        scene.advance(TURN_NS);
                    }
                    scene.finish_all();
                    taken.set(taken.get() + scene.events(Event::HqMarkTaken));
                });
                stand.finish(5);
                again
            });
            any
        });
        assert!(taken.get() > 10 && rolled_back.get() > 0, "{} taken, {} kept", taken.get(), rolled_back.get());
    }

    /// Threads that have moved to another node since they queued are served where they queued.
    fn waiters_change_their_node() {
        for to in 0..NODES {
            let stand = Stand::default();
            Scene::play(|scene, [holder, a, b, c, d, e]| {
                holder.does(|| stand.lock().acquire());
                for actor in [a, b, c, d, e] {
                    actor.starts(|| stand.cycles(2));
                    actor.is_on_node(to);
                }
                holder.starts(|| stand.release());
                scene.finish();
            });
            stand.finish(10);
        }
    }

    /// Each of five waiters stopped before each of its steps, from its arrival to its last unlock,
    /// while the others go on as far as they can and a newcomer comes.
    fn everybody_is_preempted_everywhere() {
        let turned = Cell::new(0);
        for victim in 0..5 {
            let stops = every_stop(|stop| {
                let stand = Stand::default();
                let mut stopped = false;
                Scene::play(|scene, [holder, a, b, c, d, e, late]| {
                    holder.does(|| stand.lock().acquire());
                    for (number, actor) in [a, b, c, d, e].into_iter().enumerate() {
                        if number == victim {
                            actor.starts_until(stop, || stand.cycles(2));
                        } else {
                            actor.starts(|| stand.cycles(2));
                        }
                    }
                    holder.starts(|| stand.release());
                    late.starts(|| stand.cycles(2));
                    stopped = [a, b, c, d, e][victim].is_stopped();
                    [a, b, c, d, e][victim].resumes();
                    scene.finish_all();
                    turned.set(turned.get() + scene.events(Event::HqEnter));
                });
                stand.finish(12);
                stopped
            });
            assert!(stops > 20, "{stops}");
        }
        assert!(turned.get() > 200, "{}", turned.get());
    }

    /// Two of them stopped, at every pair of places of a coarse grid.
    fn two_are_preempted() {
        let rolled_back = Cell::new(0);
        for grid in 0..4 {
            every_stop(|first_stop| {
                let mut any = false;
                every_stop(|second_stop| {
                    let stand = Stand::default();
                    let mut both = (false, false);
                    Scene::play(|scene, [holder, a, b, c, d]| {
                        holder.does(|| stand.lock().acquire());
                        a.starts(|| stand.cycle());
                        b.starts_until(first_stop * 4 + grid, || stand.cycles(2));
                        c.starts(|| stand.cycle());
                        d.starts_until(second_stop * 5 + grid, || stand.cycles(2));
                        holder.starts(|| stand.release());
                        both = (b.is_stopped(), d.is_stopped());
                        b.resumes();
                        scene.settle();
                        d.resumes();
                        scene.finish_all();
                        rolled_back.set(rolled_back.get() + scene.events(Event::HqRollback));
                    });
                    stand.finish(6);
                    any |= both.0;
                    both.1
                });
                any
            });
        }
        assert!(rolled_back.get() > 0);
    }

    /// A lock that is made is at rest as one that was released: nobody takes the slow path for
    /// being first.
    fn the_first_of_many_takes_the_fast_path() {
        for lock in [const { RawHqSpinLock::<Scripted>::new() }, RawHqSpinLock::default()] {
            assert_eq!((lock.raw(), lock.is_locked(), lock.is_contended()), (lockyard::spin::hq::TYPE, false, false));
            Scene::play(|scene, [actor]| {
                actor.does(|| lock.acquire());
                assert_eq!(scene.events(Event::PvLockStealing), 0);
            });
            assert_eq!(lock.raw(), lockyard::spin::hq::TYPE | 1);
        }
    }

    /// All-zero memory is an unlocked lock; its first slow path makes it a hierarchical one, and
    /// code that holds the word can tell.
    fn all_zero_is_unlocked() {
        let lock = RawHqSpinLock::<Scripted>::zeroed();
        assert_eq!((lock.raw(), lock.is_locked(), lock.is_contended()), (0, false, false));
        assert!(lock.try_acquire() && lock.is_locked() && !lock.is_contended() && !lock.try_acquire());
        // SAFETY: acquired above.
        unsafe { lock.release() };
        assert_eq!(lock.raw(), lockyard::spin::hq::TYPE);
        let lock = RawHqSpinLock::<Scripted>::zeroed();
        Scene::play(|_, [actor]| actor.does(|| lock.acquire()));
        assert_eq!(lock.raw(), lockyard::spin::hq::TYPE | 1);
    }

    /// Settings are checked, and read back; all-zero memory has the defaults.
    fn settings() {
        let tunables = lockyard::spin::hq::Tunables::<Scripted>::default();
        for &tunable in Tunable::ALL {
            assert_eq!(tunables.get(tunable), tunable.default());
            tunables.set(tunable, tunable.most()).unwrap();
            assert_eq!(tunables.get(tunable), tunable.most());
        }
        let refused = tunables.set(Tunable::Lanes, 33).unwrap_err();
        assert_eq!(refused.to_string(), "LOCKYARD_HQ_LANES: a number from 0 to 32 is needed");
        assert_eq!(tunables.get(Tunable::Lanes), 32);
        assert!(Scripted::commons().pool.tunables().get(Tunable::FairnessThreshold) > 0);
    }
}
