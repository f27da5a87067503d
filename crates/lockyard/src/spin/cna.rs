//! The compact NUMA-aware lock (CNA): the queued spinlock whose head moves waiters of other NUMA
//! nodes aside.
//!
//! Word, waiting, destruction: see [`queued`](super::queued). A comparator: it improves locality
//! without any memory beyond the queue's nodes, but every newcomer still swaps itself into the one
//! tail. [`hq`](super::hq) also keeps arrivals apart.
//!
//! # The queues
//!
//! *Primary*: the plain queue, from the head to the word's tail. *Secondary*: the waiters that were
//! moved aside, a circle through `next`. Each head tells the next one the last of the circle.
//!
//! | field of a node | meaning | written by |
//! |---|---|---|
//! | `next` | successor | a newcomer behind the last; the head, for waiters between itself and the last, and in the circle |
//! | `lane` | NUMA node + 1; [`PRIORITY`] for a real-time waiter, which is never moved; 0 until it has looked, and in a waiter that queued with nobody before it | its thread: 0 before it queues, the node after it has linked itself |
//! | `wait` | told to a new head: last of the circle, node preferred, since when; 0: none | promoter |
//!
//! * **Order** (a new head, before it competes): while the next waiter is of another node and not
//!   the last, it goes to the end of the circle. With nobody aside this is done once in
//!   [`SHUFFLE_ONE_IN`] times only, so that a queue of one node pays nothing and short queues keep
//!   their order.
//! * **Leave**: the next waiter becomes head and gets the circle. If nobody is behind, the circle
//!   becomes the queue: its last the word's tail.
//! * **Flush**: if somebody has been aside for [`ASIDE_NS`] the circle goes in front of the primary
//!   queue.
//!
//! # Invariants
//!
//! 1. Only the head changes the circle, and the links of waiters between itself and the last.
//! 2. The last primary waiter, which the word's tail names, is not moved: a newcomer links itself
//!    behind a node of the primary queue.
//! 3. The order within a node, and within the circle, is first come, first served.
//!
//! **Bound on bypass.** A waiter is moved aside at most once per flush, and is in front of all
//! newer waiters one hand-over after [`ASIDE_NS`]. With n threads waiting that adds [`ASIDE_NS`]
//! and n turns to the plain bound.
//!
//! # Memory ordering
//!
//! The circle's links are plain stores of one head, read by the next: the Release of `promote` and
//! the Acquire of the waiter order them. `next` of a waiter that is moved was stored by its
//! successor with Release and is loaded with Acquire. When the circle becomes the queue its end is
//! nulled before the Release that publishes it as tail, so a newcomer's link cannot be overwritten.
//!
//! Sources: Dice and Kogan, "Compact NUMA-aware Locks" (EuroSys 2019); "Add NUMA-awareness to
//! qspinlock" v15 (Kogan, 2021).

use crate::event::Event;
use crate::platform::thread::NodeName;
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::node::{Ahead, Onward, Place, QueueNode, TOLD};
use crate::spin::queued::{Kind, LOCKED_MASK, RawQueuedSpinLock};

/// How long somebody may be aside before the circle goes first: `numa_spinlock_threshold_ns`.
pub const ASIDE_NS: u64 = 1_000_000;
/// How rarely a head begins to move waiters aside.
pub const SHUFFLE_ONE_IN: u64 = 128;
/// The `lane` of a waiter that is never moved aside.
pub const PRIORITY: u32 = u32::MAX;
/// The `lane` of a waiter that has not looked yet, and is not moved either.
const UNKNOWN: u32 = 0;
/// How many waiters one head moves at most: its own competing must not wait for a long queue.
const MOVES: u32 = 64;

/// The compact NUMA-aware queued spinlock: 4 bytes. See the [module text](self).
pub type RawCnaSpinLock<P> = RawQueuedSpinLock<P, Cna>;

/// One queue, and the waiters that were moved aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cna;

impl<P: Platform> Kind<P> for Cna {
    const NAME: &'static str = "cna";

    #[inline(always)]
    fn enqueue(lock: &RawCnaSpinLock<P>, place: &mut Place<P>, _seen: u32) -> Ahead {
        // Of an earlier use.
        place.node.lane.store(UNKNOWN, Relaxed);
        lock.swap_tail(place)
    }

    #[inline(always)]
    fn settle(place: &mut Place<P>) {
        find_lane(place);
    }

    #[inline(always)]
    fn arrange(lock: &RawCnaSpinLock<P>, place: &mut Place<P>) {
        // Where it is unknown it has just queued, with nobody before it: nobody is behind it
        // either, or only just.
        if place.lane != UNKNOWN {
            shuffle(lock, place);
        }
    }

    #[inline(always)]
    fn leave(lock: &RawCnaSpinLock<P>, place: &Place<P>, _ahead: Ahead, passed: bool) -> Onward {
        if let Some(circle) = Circle::unpack(place.past) {
            return leave_with(lock, place, circle, passed);
        }
        if lock.replace_last(place.name, 0) { Onward::Settled } else { lock.hand_on(place, 0, passed) }
    }
}

/// The lane of a waiter that is linked: while it looks for it nobody waits for that, and the head
/// leaves it where it is.
#[inline(never)]
fn find_lane<P: Platform>(place: &mut Place<P>) {
    place.lane = if P::is_realtime(place.thread()) { PRIORITY } else { P::node() + 1 };
    place.node.lane.store(place.lane, Relaxed);
}

/// What a head does while the lock is held: goes on with the circle, or begins one if it is its
/// turn.
#[inline(never)]
fn shuffle<P: Platform>(lock: &RawCnaSpinLock<P>, place: &mut Place<P>) {
    let mut circle = Circle::unpack(place.past);
    if circle.is_none() && !is_shuffled(place) {
        return;
    }
    // A head needs no protection.
    let own = if place.lane == PRIORITY { P::node() + 1 } else { place.lane };
    let preferred = circle.map_or(own, |circle| circle.preferred);
    for _ in 0..MOVES {
        let busy = lock.word.load(Relaxed) & LOCKED_MASK != 0;
        if !busy || !move_aside(place.node, preferred, &mut circle) {
            break;
        }
    }
    place.past = circle.map_or(0, Circle::pack);
}

/// The waiters that are aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Circle {
    /// The last of them, by whose `next` they are found.
    last: NodeName,
    /// The node whose waiters go first meanwhile, + 1.
    preferred: u32,
    /// When the first of them was moved, in units of [`BEAT_NS`].
    begun: u64,
}

/// The unit of a circle's age.
const BEAT_NS: u64 = 1 << 10;
/// Bits of a circle's beginning: nobody is aside for the five hours after which it begins anew.
const BEGUN: u32 = TOLD - 28;

impl Circle {
    fn now<P: Platform>() -> u64 {
        (P::now() / BEAT_NS) % (1 << BEGUN)
    }

    fn age_ns<P: Platform>(self) -> u64 {
        Self::now::<P>().wrapping_sub(self.begun) % (1 << BEGUN) * BEAT_NS
    }

    fn unpack(told: u64) -> Option<Self> {
        let last = NodeName::from_raw(told as u32 & 0xffff)?;
        Some(Self { last, preferred: (told >> 16) as u32 & 0xfff, begun: told >> 28 })
    }

    fn pack(self) -> u64 {
        u64::from(self.last.raw()) | u64::from(self.preferred & 0xfff) << 16 | self.begun << 28
    }
}

/// With a circle: the next waiter becomes head and gets the circle; if nobody is behind, or the
/// circle is older than [`ASIDE_NS`], its first waiter becomes head.
#[inline(never)]
fn leave_with<P: Platform>(lock: &RawCnaSpinLock<P>, place: &Place<P>, circle: Circle, passed: bool) -> Onward {
    let Some(end) = circle.last.node::<P>() else { return Onward::Settled };
    let promote =
        |first: u32| NodeName::from_raw(first).map_or(Onward::Settled, |first| lock.promote(first, 0, passed));
    // Only then: the last one's line is far away, and its thread watches it.
    if lock.is_last(place.name) {
        let first = end.next.load(Relaxed);
        end.next.store(0, Relaxed);
        if lock.replace_last(place.name, circle.last.raw()) {
            P::count(Event::CnaSplice, 1);
            return promote(first);
        }
        end.next.store(first, Relaxed);
    }
    match place.successor() {
        Some(next) if circle.age_ns::<P>() > ASIDE_NS => {
            P::count(Event::CnaFlush, 1);
            let first = end.next.load(Relaxed);
            end.next.store(next.raw().into(), Relaxed);
            promote(first)
        }
        Some(next) => lock.promote(next, circle.pack(), passed),
        None => lock.leave_vacant(place, circle.pack(), passed),
    }
}

/// Whether this head is the one in [`SHUFFLE_ONE_IN`] that begins a circle. Its draw is a time of
/// its own.
fn is_shuffled<P: Platform>(place: &Place<P>) -> bool {
    (place.due().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(SHUFFLE_ONE_IN)
}

/// Moves the waiter behind `head` aside if it is of another node than `preferred` and not the last.
/// Whether another one may follow.
#[inline(never)]
fn move_aside<P: Platform>(head: &QueueNode<P>, preferred: u32, circle: &mut Option<Circle>) -> bool {
    let mut moved = || {
        let name = NodeName::from_raw(head.next.load(Acquire))?;
        let node: &QueueNode<P> = name.node()?;
        let lane = node.lane.load(Relaxed);
        if lane == preferred || lane == PRIORITY || lane == UNKNOWN {
            return None;
        }
        let behind = NodeName::from_raw(node.next.load(Acquire))?;
        let begun = match *circle {
            None => {
                node.next.store(name.raw().into(), Relaxed);
                Circle::now::<P>()
            }
            Some(Circle { last, begun, .. }) => {
                let last = last.node::<P>()?;
                node.next.store(last.next.load(Relaxed), Relaxed);
                last.next.store(name.raw().into(), Relaxed);
                begun
            }
        };
        *circle = Some(Circle { last: name, preferred, begun });
        // Release: a thread that finds `behind` through us finds what it wrote before linking.
        head.next.store(behind.raw().into(), Release);
        P::count(Event::CnaAside, 1);
        Some(())
    };
    moved().is_some()
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawCnaSpinLock<crate::platform::linux::Linux>>() == 4);

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn a_circle_travels_with_the_headship() {
        assert_eq!((BEAT_NS, BEGUN, TOLD), (1024, 34, 62));
        assert_eq!(Circle::unpack(0), None);
        let last = NodeName::from_raw(0xfedc).unwrap();
        for (preferred, begun) in [(1, 0), (0xa5a, (1 << BEGUN) - 1), (0xfff, 1)] {
            let circle = Circle { last, preferred, begun };
            assert_eq!(Circle::unpack(circle.pack()), Some(circle));
            assert_eq!(circle.pack() >> TOLD, 0);
        }
        // Of a node beyond those that fit the rest is known, and of the time all.
        let circle = Circle { last, preferred: 0x1005, begun: 7 };
        assert_eq!(Circle::unpack(circle.pack()), Some(Circle { preferred: 5, ..circle }));
    }

    #[test]
    fn the_age_of_a_circle_is_known_for_five_hours() {
        let hour = 3_600_000_000_000;
        // There is room for it in what a head is told.
        assert_eq!(Circle::now::<Linux>() >> BEGUN, 0);
        for beats in [0, 1_000, 4 * hour / BEAT_NS] {
            let begun = Circle::now::<Linux>().wrapping_sub(beats) % (1 << BEGUN);
            let age = Circle { last: NodeName::from_raw(4).unwrap(), preferred: 1, begun }.age_ns::<Linux>();
            // What the test takes comes on top.
            assert!((beats * BEAT_NS..beats * BEAT_NS + hour / 2).contains(&age), "{age}");
        }
    }
}
