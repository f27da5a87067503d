//! The hierarchical queued spinlock (HQ): a [queued spinlock](super::queued) whose waiters queue by
//! NUMA node while threads of several nodes contend for it.
//!
//! In a plain queue each hand-over moves the lock word and the data across the machine. In
//! hierarchical mode a waiter writes to the queue of its own node, a *lane*, and most owners follow
//! an owner of the same node. Without contention the lock is the plain one: the same fast path,
//! four bytes, no record. How a waiter waits: see [`queued`](super::queued). A node here is a NUMA
//! node, or a last-level cache: see [`Tunable::LanesByCache`].
//!
//! *Head*: the one waiter that competes for the lock word. *Visit* of a lane: from the hand-over
//! that makes one of its waiters head to the hand-over to another lane.
//!
//! # Words
//!
//! | word or bits | meaning | set by | cleared by | legal not to |
//! |---|---|---|---|---|
//! | bits 0–8 and 10–15 | as in every kind, see [`queued`](super::queued) | | | |
//! | bit 9, [`TYPE`] | the tail may be a mark | the constructor; in all-zero memory the first taker | nobody | set it before the first taker |
//! | tail (16–31) = 0 or a name | plain mode: nobody queued, or the last waiter | as in the plain kind | as in the plain kind | – |
//! | tail = mark (1, 2, 3) | hierarchical mode: which of the lock's three places in the [pool] has its record | the head that enters the mode | the head that leaves the mode; a waiter that took it for a name, which puts it back; in the child of a fork the thread that buries ghosts | – |
//! | `chain`, `HEADSHIP` | a waiter is head, or will be told so | the head that takes the record; the waiter that finds it clear | the leaving head that finds no waiter and cannot close the lanes | – |
//! | `chain`, bit *l* | lane *l* has waiters and no head | the waiter that finds the lane empty; the head that leaves waiters there | the head that promotes the lane's first waiter | – |
//! | `lane.word` | 0: closed; use of the record, and last waiter of the lane | a waiter, by compare-exchange; the head that opens the lanes | the last waiter, as it leaves; the head that closes the lanes | – |
//! | `lane.head` | first waiter of a lane that has no head | the waiter that finds the lane empty; the head that leaves waiters there | – | – |
//!
//! The rest of a record: see [`pool`].
//!
//! # States
//!
//! | mode | event | next |
//! |---|---|---|
//! | plain | a waiter swaps its name into the tail, and gets 0 or a name | as in the plain kind |
//! | plain | a waiter gets a mark: the mode has changed since its look | it puts the mark back; it, and the waiters behind it, go to its lane |
//! | plain | a leaving head has counted contention, has a waiter behind it, and gets a record | hierarchical: its queue becomes the lane of its node |
//! | hierarchical | a waiter finds waiters in its lane | it queues behind the last |
//! | | a waiter finds its lane empty and `HEADSHIP` clear | it sets `HEADSHIP`, and is head |
//! | | a waiter finds its lane empty and `HEADSHIP` set | it sets its lane's bit in `chain`, and waits |
//! | | a waiter finds its lane closed, or open for another use | it looks at the lock word again |
//! | | a leaving head: it slept because its CPU was needed, or enough visits were in vain | it closes the lanes; plain: they form one queue, its own lane first |
//! | | a leaving head: a waiter behind it, and quota left or no other lane with waiters | it promotes that waiter |
//! | | a leaving head: quota spent, another lane has waiters | it sets its own lane's bit, and promotes the first waiter of the next lane, in a circle |
//! | | a leaving head: nobody behind it, another lane has waiters | it promotes the first waiter of the next lane |
//! | | a leaving head: no lane has waiters | it closes the lanes; plain, tail 0; it frees the record |
//! | | the same, but a waiter has the mark, or is in a lane and not yet in `chain` | it opens the lanes again, and clears `HEADSHIP` |
//! | any | a leaving head: the waiter behind it does not link itself in time | that waiter finds the node vacant, and is head: see [`lapse`](super::lapse) |
//!
//! A leaving head owns the lock, so one thread at a time changes the mode. It ends hierarchical
//! mode by a compare-exchange of the mark, which fails while a waiter has the mark. Before that it
//! closes the lanes, which fails while a waiter is in a lane and not yet in `chain`. So the mode
//! does not end while a waiter queues. When a change of mode pays: see `contention` and `lanes`.
//!
//! # Ordering
//!
//! * tail, name to mark (Acquire): the head sees the last waiter's node. It stores that name to the
//!   lane's word with Release. A waiter that puts a mark back acquires the nodes of the waiters
//!   behind it likewise, and passes them on with the lane's word.
//! * tail, mark to name or 0: Release, after the head has linked the lanes. The mark itself orders
//!   nothing: `owner` and `generation` of the record tell a waiter whether it is this lock's.
//! * `owner`, `generation`, `chain`, `lane.word`: see [`pool`].
//! * What a head tells the next head goes with `node.wait`, or with the vacant `node.next`
//!   (Release), or with `chain`.
//!
//! **Bound on bypass.** Waiters of a lane are served in order of arrival, and lanes in a circle. A
//! visit has at most 1 + [`FairnessThreshold`](Tunable::FairnessThreshold) owners from the queue
//! while another lane has waiters. With *l* lanes, *l* − 1 visits lie between two visits of a lane.
//! Threads outside the queue pass each head as in [`queued`](super::queued).
//!
//! **try_lock** fails in hierarchical mode, except for a lock that lies free for long or whose
//! waiters are ghosts: see [`lapse`](super::lapse).
//!
//! **Destruction** is that of [`queued`](super::queued): the last head frees the record before it
//! releases the lock.
//!
//! **fork.** A record of the parent is a ghost in the child: see [`pool`].
//!
//! **Not for** a lock with more threads than CPUs: the cost there is wake-ups, not distance.
//!
//! Sources: "[RFC PATCH v3 0/7] hq-spinlock" (Fedorov and Stepanov, April 2026): idea and tunables.
//! There bits 10 and 11 hold the mode, the switch needs an empty queue, a waiter adopts a queue
//! whose mode has changed, remote hand-overs are not counted, and lanes form a linked list. Cohort
//! locks: Dice, Marathe, Shavit (2012).

mod contention;
mod lanes;
pub mod pool;
pub mod tunables;

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;

use crate::event::Event;
use crate::platform::thread::NodeName;
use crate::platform::{Lanes, Ordering::*, Platform, Word};
use crate::spin::node::{Ahead, Onward, Place, TAIL_SHIFT};
use crate::spin::queued::{Kind, LOCKED_MASK, RawQueuedSpinLock, TAIL_LANE};

use contention::Past;
use lanes::{Visit, find_lane, leave_lane, queue_by_lane, queue_in_word};
use pool::{Binding, Mark};
pub use pool::{Pool, Statistics};
pub use tunables::{OutOfRange, Tunable, Tunables};

/// The bit that tells a hierarchical lock from others: bit 9 of its word.
pub const TYPE: u32 = 1 << 9;

/// The hierarchical queued spinlock: 4 bytes. See the [module text](self).
pub type RawHqSpinLock<P> = RawQueuedSpinLock<P, Hq>;

/// One queue; under contention one per NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hq;

impl<P: Platform> Kind<P> for Hq {
    const NAME: &'static str = "hq-spinlock";
    const REST: u16 = TYPE as u16;

    fn has_waiters(_lock: &RawHqSpinLock<P>, word: u32) -> bool {
        word & !(LOCKED_MASK | TYPE) != 0
    }

    #[inline(always)]
    fn enqueue(lock: &RawHqSpinLock<P>, place: &mut Place<P>, seen: u32) -> Ahead {
        let name = place.name.raw();
        let (mark, last) = match Mark::of_tail(seen >> TAIL_SHIFT) {
            Some(mark) => (mark, name),
            // As in the plain kind.
            None => match queue_in_word(lock, name) {
                Ok(ahead) => return ahead,
                Err(found) => found,
            },
        };
        queue_by_lane(lock, place, mark, last)
    }

    #[inline(always)]
    fn settles_after() -> u32 {
        P::commons().pool.tunables().get(Tunable::WaitBeforeLook)
    }

    /// Which lane is ours: when there is somebody before us, and time.
    #[inline(always)]
    fn settle(place: &mut Place<P>) {
        find_lane(place);
    }

    /// Accounts for the hand-over that made us head.
    #[inline(always)]
    fn arrange(lock: &RawHqSpinLock<P>, place: &mut Place<P>) {
        // Without a lane there was none.
        if place.lane != 0 {
            account(lock, place);
        }
    }

    #[inline(always)]
    fn leave(lock: &RawHqSpinLock<P>, place: &Place<P>, ahead: Ahead, passed: bool) -> Onward {
        if Visit::is_told(place.past) || !lock.replace_last(place.name, 0) {
            leave_others(lock, place, ahead, passed)
        } else {
            Onward::Settled
        }
    }

    #[inline(always)]
    fn are_ghosts(lock: &RawHqSpinLock<P>, word: u32) -> bool {
        match Mark::of_tail(word >> TAIL_SHIFT) {
            Some(mark) => P::commons().pool.find(P::key(lock), mark).is_ghost(),
            None => NodeName::of_tail(word).is_some_and(NodeName::is_ghost::<P>),
        }
    }

    fn bury(lock: &RawHqSpinLock<P>, word: u32) {
        NodeName::bury_last::<P>(word);
        Mark::ALL.iter().for_each(|&mark| P::commons().pool.find(P::key(lock), mark).bury());
    }
}

/// To look at the lock from outside.
#[cfg(feature = "unstable-internals")]
impl<P: Platform> RawHqSpinLock<P> {
    /// Hand-overs since the lock entered hierarchical mode; `None` in plain mode.
    pub fn statistics(&self) -> Option<Statistics> {
        let mark = Mark::of_tail(self.raw() >> TAIL_SHIFT)?;
        P::commons().pool.find(P::key(self), mark).statistics()
    }

    /// For checkers, which need four threads to get there otherwise: a lock that nobody else knows
    /// yet enters hierarchical mode, its lanes empty and `HEADSHIP` clear, as a head leaves it that
    /// has seen a waiter on its way into a lane; so many visits of lanes were in vain.
    /// `false`: the pool has no record.
    pub fn begin_in_lanes(&self, visits_in_vain: u32) -> bool {
        let Some(binding) = P::commons().pool.grab(P::key(self), 0) else { return false };
        binding.note_vain_visits(visits_in_vain);
        turn(self, &binding);
        binding.leave_chain()
    }
}

/// What the new head was told of a hand-over in the plain queue, it makes its own.
#[inline(never)]
fn account<P: Platform>(lock: &RawHqSpinLock<P>, place: &mut Place<P>) {
    if !Visit::is_told(place.past) {
        place.tries_first = false;
        place.past = Past::unpack(place.past).account(lock, place).pack();
    }
}

/// There is somebody else to think of, or there are lanes.
#[inline(never)]
fn leave_others<P: Platform>(lock: &RawHqSpinLock<P>, place: &Place<P>, ahead: Ahead, passed: bool) -> Onward {
    match Visit::unpack(place.past) {
        Some(visit) => leave_lane(lock, &P::commons().pool.find(P::key(lock), visit.mark), place, visit, passed),
        None => leave_queue(lock, place, ahead, passed),
    }
}

/// Plain mode, somebody is behind us: the next becomes head, or it is time to turn.
#[inline(never)]
fn leave_queue<P: Platform>(lock: &RawHqSpinLock<P>, place: &Place<P>, ahead: Ahead, passed: bool) -> Onward {
    let next = place.successor();
    let mut past = Past::unpack(place.past);
    past.handoffs = past.handoffs.saturating_add((Some(ahead) != next.map(Ahead::Waiter)).into());
    if past.ripe {
        if let Some(next) = next
            && let Some(binding) = P::commons().pool.grab(P::key(lock), place.lane - 1)
        {
            turn(lock, &binding);
            // The queue of all nodes: how many are in it says nothing of a lane.
            return lock.promote(next, Visit { mark: binding.mark, run: 1, first: None }.pack(), passed);
        }
        past = past.afresh();
    }
    match next {
        Some(next) => lock.promote(next, past.pack(), passed),
        None => lock.leave_vacant(place, past.pack(), passed),
    }
}

/// Into hierarchical mode: the queue becomes the lane of its head, which is the caller and owns the
/// lock.
fn turn<P: Platform>(lock: &RawHqSpinLock<P>, binding: &Binding<P>) {
    let mut last = (lock.word.load(Relaxed) >> TAIL_SHIFT) as u16;
    while let Err(found) = lock.word.compare_exchange_half(TAIL_LANE, last, binding.mark.raw(), Acquire, Relaxed) {
        last = found;
        P::relax();
    }
    // Until here the lane was closed: waiters that found the mark already wait for this.
    binding.lane(binding.current()).word.store(binding.open() | u64::from(last), Release);
    P::count(Event::HqEnter, 1);
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawHqSpinLock<crate::platform::linux::Linux>>() == 4);
