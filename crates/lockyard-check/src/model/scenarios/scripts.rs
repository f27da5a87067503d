//! Scenarios in which it is fixed who comes when: each thread waits until those before it are
//! there.
//!
//! Some weakened orderings show themselves only where three or four threads stand in one
//! constellation, which takes more preemptions and more polls than can be explored from the
//! beginning. Here the threads wait for it, by looks that order nothing: so nobody knows more of
//! the others than the lock has told it. Where that leaves too many orders to be explored, the
//! threads first take their places in one of them, and exploring begins at the release that sets
//! all in motion.

use lockyard::event::Event;
use lockyard::history::rwsem::{KernelRwSem, policy::XaddBaseline};
use lockyard::platform::Platform;
use lockyard::platform::thread::ThreadId;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};

use super::super::machine::{execute, execute_from};
use super::super::weak::{Loom, Weak, explore_from_here, explore_no_further, settle_first};
use super::Scenario;
use super::exclusive::Of;
use super::queueing::{FIRST_ID, ID_SHIFT, Line};
use crate::adapters::turn_early;
use crate::lock::{Lock, Way};

impl<K: Kind<Loom>> Line<RawQueuedSpinLock<Loom, K>> {
    /// Waits until the lock's word shows this.
    fn once(&self, shows: impl Fn(u32) -> bool) {
        Loom::wait_window(|| shows(self.lock.raw()).then_some(()));
    }

    fn hold_until(&self, shows: impl Fn(u32) -> bool) {
        self.lock.lock(Way::Write);
        self.data.section(Way::Write);
        self.once(shows);
        self.release();
    }
}

/// The last in the queue is thread `number`.
fn last_is(number: usize) -> impl Fn(u32) -> bool {
    move |word| word >> ID_SHIFT == number as u32 + FIRST_ID
}

fn is_held(word: u32) -> bool {
    word & 0xff != 0
}

/// The tail is the mark of hierarchical mode.
fn in_lanes(word: u32) -> bool {
    word >> 16 != 0 && word >> ID_SHIFT == 0
}

/// Waits until thread `number` is on its way into a queue; it gets there before it lets others run,
/// unless it is preempted.
fn once_waiting(number: usize) {
    let id = ThreadId::from_raw(number as u32 + FIRST_ID).expect("not zero");
    Loom::wait_window(|| (!Loom::thread(id).is_idle()).then_some(()));
}

/// A head turns to hierarchical mode, and the last waiter of the plain queue has come after the
/// head had the lock: of that one it has nothing but the name. It hands that name to a newcomer
/// with the lane's word, and the newcomer links itself to the waiter's node. Of five threads, as
/// the first hand-over says nothing of nodes.
pub(super) fn turning_late(of: &Of<'_>) -> Scenario {
    let mut scenario = of.scenario("turning-late", 5, of.machine, |machine| {
        execute_from::<Weak, _>(
            machine,
            5,
            Line::<RawHqSpinLock<Loom>>::default,
            |line| {
                turn_early::<Loom>(0);
                line.lock.lock(Way::Write);
                settle_first();
            },
            |line, me| match me {
                0 => {
                    line.once(last_is(4));
                    line.release();
                    line.once(|word| !last_is(4)(word) && !last_is(2)(word));
                    explore_no_further();
                    line.hold();
                }
                1 => line.hold(),
                2 => {
                    line.once(last_is(1));
                    line.hold();
                    explore_from_here();
                    // By thread 3, who is about to turn; or it has turned already.
                    line.once(|word| is_held(word) || !last_is(4)(word));
                    line.hold();
                }
                _ => {
                    line.once(last_is(me - 1));
                    line.hold();
                }
            },
            |line| line.finish(6, false),
        );
    });
    // The one preemption: of the head that has the lock and is about to turn.
    (scenario.preemptions, scenario.machine.budget) = (Some(1), Some(4));
    scenario.reaching(&[Event::HqEnter, Event::HqLeave])
}

/// A lane is left for want of waiters, and it does not pay: the head folds the lanes, of which the
/// other has two waiters. Of the second it has nothing but the name, which becomes the word's tail;
/// a newcomer links itself to that one's node.
pub(super) fn folding(of: &Of<'_>) -> Scenario {
    let mut scenario = of.scenario("folding", 4, of.machine, |machine| {
        execute_from::<Weak, _>(
            machine,
            4,
            Line::<RawHqSpinLock<Loom>>::default,
            |line| {
                turn_early::<Loom>(0);
                line.lock.lock(Way::Write);
                assert!(line.lock.begin_in_lanes(1));
            },
            |line, me| match me {
                0 => {
                    once_waiting(3);
                    line.release();
                    line.once(|word| !in_lanes(word));
                    line.hold();
                }
                // Its release would tell the newcomer all that it knows: not before that one is
                // there.
                2 => line.hold_until(last_is(0)),
                _ => {
                    once_waiting(if me == 1 { 2 } else { 1 });
                    line.hold();
                }
            },
            |line| line.finish(4, false),
        );
    });
    (scenario.preemptions, scenario.machine.budget) = (Some(0), Some(40));
    scenario.reaching(&[Event::HqLeave])
}

/// A head of a lane makes the second one head, who must hear that it is in a lane: one that takes
/// itself for the head of a plain queue waits for ever.
pub(super) fn handing_over(of: &Of<'_>) -> Scenario {
    let mut scenario = of.scenario("handing-over", 3, of.machine, |machine| {
        execute_from::<Weak, _>(
            machine,
            3,
            Line::<RawHqSpinLock<Loom>>::default,
            |line| {
                turn_early::<Loom>(0);
                line.lock.lock(Way::Write);
                assert!(line.lock.begin_in_lanes(0));
            },
            |line, me| match me {
                0 => line.hold(),
                1 => {
                    once_waiting(2);
                    line.release();
                }
                _ => {
                    once_waiting(0);
                    line.hold();
                }
            },
            |line| line.finish(2, true),
        );
    });
    (scenario.preemptions, scenario.machine.budget) = (Some(0), Some(20));
    scenario.reaching(&[Event::HqLocalHandoff])
}

/// The owner releases once two writers have spun in vain and queued. It must not leave the waking
/// to a spinner that it takes for being there still.
pub(super) fn spun_in_vain(of: &Of<'_>) -> Scenario {
    let mut scenario = of.scenario("spun-in-vain", 3, of.machine, |machine| {
        execute::<Weak, _>(
            machine,
            3,
            Line::<KernelRwSem<Loom, XaddBaseline>>::default,
            |line, me| match me {
                0 => {
                    line.lock.lock(Way::Write);
                    line.data.section(Way::Write);
                    (1..3).for_each(once_waiting);
                    line.release();
                }
                _ => {
                    Loom::wait_window(|| line.lock.is_locked().then_some(()));
                    line.hold();
                }
            },
            |line| {
                assert_eq!(line.data.turns(), 3);
                assert!(line.lock.at_rest());
            },
        );
    });
    (scenario.preemptions, scenario.machine.budget) = (Some(0), Some(20));
    scenario
}
