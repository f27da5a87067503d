//! Scenarios of queues: lanes of the hierarchical spinlock, waiters that CNA moves aside, spinners
//! that leave in front of each other.
//!
//! Each begins where it is about to become interesting, so that two or three threads suffice: the
//! lock is held, or is in hierarchical mode already.

use std::ptr::without_provenance;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lockyard::event::Event;
use lockyard::platform::{Patience, Platform};
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::{Pool, RawHqSpinLock, TYPE, Tunable};
use lockyard::wait::osq::Osq;

use super::super::machine::{execute, execute_from};
use super::super::setting::{Machine, Patience as Spins};
use super::super::weak::{Loom, Weak};
use super::super::world::world;
use super::exclusive::Of;
use super::{Protected, Scenario, barred};
use crate::adapters::turn_early;
use crate::lock::{Lock, Way};

/// The name of the first thread of a scenario, and where it stands in a spinlock's word that names
/// its last waiter.
pub(super) const FIRST_ID: u32 = 2;
pub(super) const ID_SHIFT: u32 = 18;

/// A spinlock and what it protects.
#[derive(Debug, Default)]
pub(super) struct Line<L> {
    pub(super) lock: L,
    pub(super) data: Protected,
}

impl<L: Lock<P = Loom>> Line<L> {
    pub(super) fn hold(&self) {
        self.lock.lock(Way::Write);
        self.data.section(Way::Write);
        self.release();
    }

    pub(super) fn release(&self) {
        // SAFETY: held: by the caller, or by who set the scene and left it to the caller.
        unsafe { self.lock.unlock(Way::Write) };
    }
}

impl Line<RawHqSpinLock<Loom>> {
    /// `any_mode`: a thread that found the lock free has taken it without a look at its queues, so
    /// that nobody may have ended the mode it began in.
    pub(super) fn finish(&self, turns: u64, any_mode: bool) {
        assert_eq!(self.data.turns(), turns);
        let word = self.lock.raw();
        let plain = word == TYPE && Loom::commons().pool.in_use() == 0;
        assert!(
            plain || any_mode && word & 0xffff == TYPE,
            "left as {word:#x}, records: {}",
            Loom::commons().pool.in_use()
        );
    }
}

/// Threads of two nodes hold a lock that is in hierarchical mode, so many `times` each. A lane is
/// left after `quota` hand-overs; after so many `vain` visits, all of them.
pub(super) fn lanes(of: &Of<'_>, times: &'static [usize], quota: u32, vain: u32) -> Scenario {
    let threads = times.len();
    let text: String = times.iter().map(usize::to_string).collect();
    of.scenario(
        &format!("lanes-{text}-quota-{quota}-vain-{vain}"),
        threads,
        barred(of.machine, threads),
        move |machine| {
            execute_from::<Weak, _>(
                machine,
                threads,
                Line::<RawHqSpinLock<Loom>>::default,
                |line| {
                    turn_early::<Loom>(0);
                    Loom::commons().pool.tunables().set(Tunable::FairnessThreshold, quota).expect("in range");
                    assert!(line.lock.begin_in_lanes(vain));
                },
                |line, me| (0..times[me]).for_each(|_| line.hold()),
                |line| line.finish(times.iter().sum::<usize>() as u64, machine.patience != Spins::Exact),
            );
        },
    )
}

/// A held lock in plain mode with waiters of two nodes: thread 0 releases it and queues, too. The
/// first hand-over says nothing of nodes, the second makes a head turn that has somebody behind it:
/// of three threads the last, who comes again; of more any, also into the lane that the queue has
/// become.
pub(super) fn turning(of: &Of<'_>, threads: usize) -> Scenario {
    // To come to a lane with more than one waiter, all of five threads must have polled once.
    let mut scenario =
        of.scenario(&format!("turning-{threads}"), threads, barred(of.machine, threads), move |machine| {
            execute_from::<Weak, _>(
                machine,
                threads,
                Line::<RawHqSpinLock<Loom>>::default,
                |line| {
                    turn_early::<Loom>(0);
                    line.lock.lock(Way::Write);
                },
                |line, me| {
                    if me == 0 {
                        line.release();
                    }
                    line.hold();
                    if me == 2 && threads == 3 {
                        line.hold();
                    }
                },
                move |line| line.finish(threads.max(4) as u64, false),
            );
        });
    if threads > 4 {
        (scenario.preemptions, scenario.machine.budget) = (Some(1), Some(8));
    }
    scenario.reaching(&[Event::HqEnter, Event::HqLeave])
}

/// Two locks whose records are at the same places of the pool.
#[derive(Debug, Default)]
struct Neighbours {
    here: Line<RawHqSpinLock<Loom>>,
    /// Somewhere else, so that its key can be chosen.
    there: Box<Line<RawHqSpinLock<Loom>>>,
}

impl Neighbours {
    fn set_up(&self) {
        turn_early::<Loom>(0);
        let home = Loom::key(&raw const self.here.lock);
        // Keys of other addresses are 16 apart, in the order in which they are asked for.
        let mut strangers = 1_usize..;
        let near = |address: usize| Pool::<Loom>::same_places(home, Loom::key(without_provenance::<u8>(address)) + 16);
        while !strangers.next().is_some_and(near) {}
        assert!(Pool::<Loom>::same_places(home, Loom::key(&raw const self.there.lock)));
        assert!(self.here.lock.begin_in_lanes(0));
    }
}

/// The last of `visitors` to a lock in hierarchical mode gives its record back; one more thread has
/// another lock take it, or the one beside it.
pub(super) fn reuse(of: &Of<'_>, visitors: usize) -> Scenario {
    let threads = visitors + 1;
    of.scenario(&format!("reuse-{threads}"), threads, barred(of.machine, threads), move |machine| {
        execute_from::<Weak, _>(
            machine,
            threads,
            Neighbours::default,
            Neighbours::set_up,
            |two, me| {
                if me < visitors {
                    return two.here.hold();
                }
                assert!(two.there.lock.begin_in_lanes(0));
                two.there.hold();
            },
            |two| {
                two.here.finish(visitors as u64, false);
                two.there.finish(1, false);
            },
        );
    })
}

/// A held lock with waiters of two nodes: thread 0 releases it and queues as the last. Of the three
/// before it the third is moved aside by the second, unless it is urgent.
pub(super) fn aside(of: &Of<'_>) -> Scenario {
    let ranked = of.machine.ranked;
    let mut scenario = of.scenario("aside", 4, of.machine, move |machine| {
        execute_from::<Weak, _>(
            machine,
            4,
            Line::<RawCnaSpinLock<Loom>>::default,
            |line| line.lock.lock(Way::Write),
            |line, me| {
                // They queue in the order of their numbers, the first as the last. (To look at the
                // tail orders nothing.)
                let me = me as u32 + FIRST_ID;
                let last_is = |id: u32| Loom::wait_window(|| (line.lock.raw() >> ID_SHIFT == id).then_some(()));
                match me - FIRST_ID {
                    0 => {
                        last_is(me + 3);
                        line.release();
                        line.hold();
                    }
                    1 => {
                        line.lock.lock(Way::Write);
                        // Whom this one has promoted finds them all there, and the lock still held.
                        last_is(FIRST_ID);
                        line.data.section(Way::Write);
                        line.release();
                    }
                    _ => {
                        last_is(me - 1);
                        line.hold();
                    }
                }
            },
            move |line| {
                assert_eq!(line.data.turns(), 4);
                assert!(line.lock.at_rest());
                let moved = world().events.borrow().contains(&Event::CnaAside);
                assert!(!(ranked && moved), "an urgent waiter was moved aside");
            },
        );
    });
    // All four must have polled several times before it begins; they do so in their order, whatever
    // the preemptions.
    (scenario.preemptions, scenario.machine.budget) = (Some(0), Some(30));
    if ranked { scenario } else { scenario.reaching(&[Event::CnaAside]) }
}

/// A spin queue, and whether somebody is its head. (No word of the model's: it must order nothing.)
#[derive(Debug, Default)]
struct Spinners {
    queue: Osq<Loom>,
    head: AtomicBool,
}

impl Spinners {
    fn spin(&self) {
        let Some(me) = Loom::current() else { return };
        if self.queue.join(me, Patience::ns(1_000)) {
            assert!(!self.head.swap(true, Relaxed), "two heads");
            // Somewhere to be overtaken.
            assert!(self.queue.is_locked());
            self.head.store(false, Relaxed);
            self.queue.leave(me);
        }
    }
}

/// Threads that join and leave, so many `times` each: those in a hurry from wherever they stand.
pub(super) fn spinners(of: &Of<'_>, times: &'static [usize]) -> Scenario {
    let threads = times.len();
    let text: String = times.iter().map(usize::to_string).collect();
    of.scenario(&format!("spinners-{text}"), threads, barred(of.machine, threads), move |machine: Machine| {
        execute::<Weak, _>(
            machine,
            threads,
            Spinners::default,
            |spinners, me| (0..times[me]).for_each(|_| spinners.spin()),
            |spinners| assert!(!spinners.queue.is_locked(), "somebody is left in the queue"),
        );
    })
}
