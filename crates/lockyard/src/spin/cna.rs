//! The compact NUMA-aware lock (CNA): the queued spinlock whose head moves waiters of other NUMA nodes aside.
//!
//! Word, waiting, destruction: see [`queued`](super::queued). A comparator: it improves locality without any memory beyond the queue's nodes,
//! but every newcomer still swaps itself into the one tail. [`hq`](super::hq) also keeps arrivals apart.
//!
//! # The queues
//!
//! *Primary*: the plain queue, from the head to the word's tail. *Secondary*: those who were moved aside, a circle through `next`, named by its
//! last; it travels with the headship.
//!
//! | field of a node | meaning | written by |
//! |---|---|---|
//! | `next` | successor | a newcomer behind the last; the head, for waiters between itself and the last, and in the circle |
//! | `lane` | NUMA node + 1; [`PRIORITY`] for a real-time waiter, which is never moved; of no account in a waiter that queued with nobody before it | its thread before it queues; the head that hands it the circle: the node preferred so far |
//! | `aside` | last of the circle, 0: nobody is aside | as head: its thread; before that whoever promotes it |
//! | `past` | when the circle was begun (ns); 0: there is none | likewise |
//!
//! * **Order** (a new head, before it competes): while the next waiter is of another node and not the last, it goes to the end of the circle. With nobody aside this is
//!   done once in [`SHUFFLE_ONE_IN`] times only, so that a queue of one node pays nothing and short queues keep their order.
//! * **Leave**: the next waiter gets the headship and the circle. If nobody is behind, the circle becomes the queue: its last the word's tail.
//! * **Flush**: if somebody has been aside for [`ASIDE_NS`] the circle goes in front of the primary queue.
//!
//! # Invariants
//!
//! 1. Only the head changes the circle, and the links of waiters between itself and the last.
//! 2. The last primary waiter, whom the word's tail names, is not moved: a newcomer links itself behind a node of the primary queue.
//! 3. The order within a node, and within the circle, is first come, first served.
//!
//! **Bound on bypass.** A waiter is moved aside at most once per flush, and is in front of all newer waiters one hand-over after [`ASIDE_NS`]. With n threads
//! waiting that adds [`ASIDE_NS`] and n turns to the plain bound.
//!
//! # Memory ordering
//!
//! Circle and notes are plain stores of one head, read by the next: the Release of `promote` and the Acquire of the waiter order them. `next` of a
//! waiter that is moved was stored by its successor with Release and is loaded with Acquire. When the circle becomes the queue its end is nulled before the Release that
//! publishes it as tail, so a newcomer's link cannot be overwritten.
//!
//! Sources: Dice and Kogan, "Compact NUMA-aware Locks" (EuroSys 2019); "Add NUMA-awareness to qspinlock" v15 (Kogan, 2021).

use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::queued::{Ahead, Kind, LOCKED_MASK, Place, QueueNode, RawQueuedSpinLock};
use crate::wait::thread::NodeName;

/// How long somebody may be aside before the circle goes first: `numa_spinlock_threshold_ns`.
pub const ASIDE_NS: u64 = 1_000_000;
/// How rarely a head begins to move waiters aside.
pub const SHUFFLE_ONE_IN: u64 = 128;
/// The `lane` of a waiter that is never moved aside.
pub const PRIORITY: u32 = u32::MAX;
/// How many waiters one head moves at most: its own competing must not wait for a long queue.
const MOVES: u32 = 64;

/// The compact NUMA-aware queued spinlock: 4 bytes. See the [module text](self).
pub type RawCnaSpinLock<P> = RawQueuedSpinLock<P, Cna>;

/// One queue, and those who were moved aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cna;

impl<P: Platform> Kind<P> for Cna {
    const NAME: &'static str = "cna";

    fn enqueue(lock: &RawCnaSpinLock<P>, place: &mut Place<P>, seen: u32) -> Ahead {
        place.node.aside.store(0, Relaxed);
        if NodeName::of_tail(seen).is_none() && lock.replace_nobody(place).is_ok() {
            return Ahead::Nobody;
        }
        let lane = if P::is_realtime(place.thread()) { PRIORITY } else { P::node() + 1 };
        place.node.lane.store(lane, Relaxed);
        place.node.past.store(0, Relaxed);
        place.lane = lane;
        lock.swap_tail(place)
    }

    fn arrange(lock: &RawCnaSpinLock<P>, place: &mut Place<P>) {
        // Without a lane it has just queued, with nobody before it: nobody is behind it either, or only just.
        if place.lane == 0 || place.node.aside.load(Relaxed) == 0 && !is_shuffled(place) {
            return;
        }
        if place.node.lane.load(Relaxed) == PRIORITY {
            place.node.lane.store(P::node() + 1, Relaxed); // a head needs no protection
        }
        for _ in 0..MOVES {
            let busy = lock.word.load(Relaxed) & LOCKED_MASK != 0;
            if !busy || !move_aside(place.node) {
                return;
            }
        }
    }

    fn leave(lock: &RawCnaSpinLock<P>, place: &Place<P>, _ahead: Ahead, passed: bool) {
        if let Some(circle) = circle(place.node) {
            return leave_with(lock, place, circle, passed);
        }
        if !lock.replace_last(place.name, 0) {
            lock.promote(place.successor(), passed);
        }
    }
}

/// With somebody aside: the headship and the circle go to the next; if nobody is behind, or those aside have waited long enough, they are next.
#[inline(never)]
fn leave_with<P: Platform>(
    lock: &RawCnaSpinLock<P>,
    place: &Place<P>,
    (last, circle): (NodeName, &'static QueueNode<P>),
    passed: bool,
) {
    let node = place.node;
    let first = circle.next.load(Relaxed);
    circle.next.store(0, Relaxed);
    if lock.replace_last(place.name, last.raw()) {
        P::count(Event::CnaSplice, 1);
        return promote_first(lock, first, passed);
    }
    let next = place.successor();
    if P::now().saturating_sub(node.past.load(Relaxed)) > ASIDE_NS {
        P::count(Event::CnaFlush, 1);
        circle.next.store(next.raw().into(), Relaxed);
        return promote_first(lock, first, passed);
    }
    circle.next.store(first, Relaxed);
    if let Some(to) = next.node::<P>() {
        to.lane.store(node.lane.load(Relaxed), Relaxed);
        to.aside.store(last.raw().into(), Relaxed);
        to.past.store(node.past.load(Relaxed), Relaxed);
    }
    lock.promote(next, passed);
}

/// Whether this head is the one in [`SHUFFLE_ONE_IN`] that begins a circle. Its draw is a time of its own.
fn is_shuffled<P: Platform>(place: &Place<P>) -> bool {
    (place.due().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(SHUFFLE_ONE_IN)
}

/// The last of those who are aside, and its node.
fn circle<P: Platform>(head: &QueueNode<P>) -> Option<(NodeName, &'static QueueNode<P>)> {
    let last = NodeName::from_raw(head.aside.load(Relaxed))?;
    Some((last, last.node()?))
}

/// Moves the waiter behind `head` aside if it is of another node and not the last. Whether another one may follow.
#[inline(never)]
fn move_aside<P: Platform>(head: &QueueNode<P>) -> bool {
    let moved = || {
        let name = NodeName::from_raw(head.next.load(Acquire))?;
        let node: &QueueNode<P> = name.node()?;
        let lane = node.lane.load(Relaxed);
        if lane == head.lane.load(Relaxed) || lane == PRIORITY {
            return None;
        }
        let behind = NodeName::from_raw(node.next.load(Acquire))?;
        match circle(head) {
            None => {
                node.next.store(name.raw().into(), Relaxed);
                head.past.store(P::now(), Relaxed);
            }
            Some((_, last)) => {
                node.next.store(last.next.load(Relaxed), Relaxed);
                last.next.store(name.raw().into(), Relaxed);
            }
        }
        head.aside.store(name.raw().into(), Relaxed);
        // Release: whoever finds `behind` through us finds what it wrote before it linked itself.
        head.next.store(behind.raw().into(), Release);
        P::count(Event::CnaAside, 1);
        Some(())
    };
    moved().is_some()
}

/// Those who were aside come first: nobody is aside any more.
fn promote_first<P: Platform>(lock: &RawCnaSpinLock<P>, first: u32, passed: bool) {
    let Some(first) = NodeName::from_raw(first) else { return };
    if let Some(to) = first.node::<P>() {
        to.aside.store(0, Relaxed);
        to.past.store(0, Relaxed);
    }
    lock.promote(first, passed);
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawCnaSpinLock<crate::platform::linux::Linux>>() == 4);
