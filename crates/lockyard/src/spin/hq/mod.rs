//! The hierarchical queued spinlock (HQ): a plain queued spinlock that, while it is contended from
//! several NUMA nodes, queues its waiters by node and hands over inside a node first.
//!
//! On a machine with many nodes a plain queue sends lock word and data across the machine at every
//! hand-over. Here arriving waiters touch only their own node's queue, a *lane*, and successive
//! owners are mostly neighbours. Without contention it is the plain lock: the same fast path, the
//! same four bytes, no record. Waiting, turns, destruction, fork: see [`queued`](super::queued).
//!
//! # Modes
//!
//! | mode | tail of the word | waiters queue | from here |
//! |---|---|---|---|
//! | plain | 0, or the last waiter | in one queue, as [`qspinlock`](super::qspinlock)'s | → hierarchical: a head that leaves, with waiters behind it and evidence of contention, and a free record |
//! | hierarchical | a mark (1, 2, 3: the name of no thread), says where the record is | in the lane of their node | → plain: a head that leaves and finds nobody in any lane, or that it does not pay |
//!
//! Only the headship's bearer changes the mode, and it owns the lock then. A waiter that sees no
//! mark puts itself into the word's queue by a swap of the tail half, as in the plain kind. If what
//! it gets is a mark, the mode has changed since it looked: it puts the mark back, and goes to its
//! lane with those who have queued behind it meanwhile. A bearer leaves hierarchical mode by a
//! compare-exchange of the mark; while somebody has it the bearer cannot, as while somebody is on
//! its way into a lane. So nobody's mode ends while it queues. Locked byte, pending byte and fast
//! path are the same in both modes, and so is stealing: within a turn it keeps the lock where it
//! is.
//!
//! **The type bit** (9) is set in a lock of this kind and clear in others, so that code which holds
//! a raw word can tell that the tail may be a mark. A free lock's word is therefore `0x200`, from
//! its constructor on. All-zero memory is an unlocked lock all the same: the thread that takes it
//! first, in the slow path, stamps it (with everybody who comes at that moment, which makes a queue
//! where there need be none). The published lock rests at `0x600`, with its mode in bits 10 and 11,
//! which its fast path must examine; here the tail says the mode, and the fast path is that of the
//! plain lock.
//!
//! # Lanes, chain, headship
//!
//! A [record](pool) holds a lane per node, and the *chain*: who has the headship (the right to
//! compete for the word), and which other lanes have waiters.
//!
//! | who | finds | does |
//! |---|---|---|
//! | waiter | its lane has waiters | queues behind the last, as in any queue |
//! | waiter | its lane is empty, headship free | is head |
//! | waiter | its lane is empty, headship elsewhere | notes its lane in the chain, waits to be granted |
//! | head, having taken the lock | its CPU was needed while it waited, or visits of lanes have long been in vain | strings the lanes together: they are the word's queue again |
//! | head, having taken the lock | somebody behind it in the lane, quota left | promotes that one |
//! | head | quota spent, other lanes in the chain | leaves its lane in the chain, promotes the head of the next lane, round the table |
//! | head | its lane empty, other lanes in the chain | promotes the head of the next lane |
//! | head | nobody anywhere | closes all lanes, takes the mark out of the word, gives the record back |
//! | head | nobody, but somebody on its way into a lane | opens the lanes again and leaves the headship free for that one |
//!
//! Lane words carry the number of the record's use: a waiter that comes too late finds its
//! compare-exchange fail, and looks at the lock's word again. A waiter belongs to the lane in which
//! it (or the one that it has queued behind, while the mark was away) queued, wherever its thread
//! has moved since; which lane has the headship is the record's knowledge, not the waiter's. A
//! thread that has left the queue is nobody's neighbour: its exit concerns nobody.
//!
//! **What a lane is.** One for each NUMA node; where nodes have several last-level caches, one for
//! each cache ([`LanesByCache`](Tunable::LanesByCache)). This page says node for either: what
//! matters is that those of a lane are near each other. Lanes are served in the order of their
//! numbers, in which the caches of a node are neighbours. Which lane is a waiter's is found out
//! when it has waited for [1 µs](Tunable::WaitBeforeLook), and less in the plain kind's way: where
//! few threads meet, this is the plain kind.
//!
//! **A head in hierarchical mode tries before it looks.** Whoever promotes it holds the lock and is
//! about to leave it. Inside a lane a hand-over is three transfers: the waiter's line to the owner,
//! back to the waiter, the word's line to it. To look at the word first makes it four, and where
//! the owner is still inside, the look disturbs it as much as the attempt.
//!
//! # Contention detection
//!
//! Each head is told the hand-overs of this busy period and how many of them changed the node, and
//! tells the next. A hand-over between two waiters that alternate does not count. Nor is a change
//! of node seen in who found nobody queued, or became head before it had looked where it is: it
//! would have to look while it holds the lock or the lock is free, and where few threads meet on
//! slow lines that alone keeps them meeting. With more than [50](Tunable::GeneralHandoffsTurnNuma)
//! hand-overs and more than [2](Tunable::RemoteHandoffsTurnNuma) changes of node (or, if the last
//! stay in hierarchical mode paid, at the first change) the head counts who is behind it, and with
//! [2](Tunable::WaitersPerLaneTurnNuma) waiters for each node that occurs it turns to hierarchical
//! mode at once, when it has the lock: it takes a record, and its queue becomes its node's lane. So
//! a lock that is never idle turns, too. Too few waiters, or a pool without a free record, mean the
//! plain queue, and a new attempt after twice as many hand-overs: the count reads a line of every
//! waiter's, which all have to be fetched back. The tunables are looked at once in four changes of
//! node. A lock in hierarchical mode turns back when there is no waiter left; when as many visits
//! of lanes in a row were in vain as hand-overs are needed to enter, at most
//! [2](Tunable::LocalHandoffsToIncreaseRemotes) hand-overs each; and when its head had to sleep
//! because its CPU was needed (an exact machine tells): nearness is nothing beside a wake-up. After
//! a stay in vain it takes 32 times as many hand-overs to the next. For the same reason such
//! waiters do not count among those that are needed to enter.
//!
//! **Shares.** A lane is left after its quota of hand-overs if others wait:
//! [1000](Tunable::FairnessThreshold) for the most crowded one, in proportion for those that fewer
//! threads share, or one among few would have more turns than one among many. How many share a lane
//! is seen from the first head of a visit: the hand-overs until it is head again; until that is
//! seen the quota is the full one.
//!
//! **Bound on bypass.** Inside a lane first come, first served, and lanes are served in turn: with
//! l lanes a waiter is passed by at most (l − 1) × 1001 hand-overs for each quota of its own lane,
//! each of one turn at most. Its own turn having passed meanwhile, it is served at once when it is
//! head.
//!
//! **try_lock** does what it does in plain mode: it succeeds if the lock is free and nobody waits.
//! A lock in hierarchical mode has waiters.
//!
//! # Memory ordering
//!
//! * Into hierarchical mode: the tail's change from last waiter to mark (Acquire) makes that
//!   waiter's node known to the head, which hands it to newcomers with the lane's word. The mark
//!   itself orders nothing: it only says where to look, and the record says for itself whether it
//!   is this lock's.
//! * A mark that was taken for a name is put back (Acquire: the nodes of those who come along,
//!   which go to newcomers with the lane's word).
//! * Out of it: the change to 0, or to the last waiter of all lanes (Release: with the links
//!   between them), follows the closing of the lanes and precedes the record's `owner` := 0
//!   (Release).
//! * Record and lanes: see [`pool`]. What one head tells the next travels with `promote` (Release)
//!   as in every kind, or with the headship.
//!
//! # What is different from the published series
//!
//! Its remote count is never advanced (here it is), its switch needs a queue that drains (here the
//! head switches at once), a change of node counted only after a run of more than two on one node,
//! which strict alternation never shows (here every change counts; the run decides whether a stay
//! paid); a lock that changes mode under a waiter leaves queues to be adopted (here it cannot);
//! lanes form a linked chain (here a word of bits, as there are few); its lanes are always nodes',
//! and its heads look first (so they do here with [`LanesByCache`](Tunable::LanesByCache) off).
//!
//! **Not good for** a lock whose threads outnumber the CPUs: then the order of sleepers matters,
//! not their node.
//!
//! Sources: "[RFC PATCH v3 0/7] hq-spinlock" (Fedorov and Stepanov, April 2026), its idea, tunables
//! and evaluation; cohort locks: Dice, Marathe, Shavit (2012).

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

impl<P: Platform> RawHqSpinLock<P> {
    /// Hand-overs since the lock entered hierarchical mode; `None` in plain mode.
    pub fn statistics(&self) -> Option<Statistics> {
        let mark = Mark::of_tail(self.raw() >> TAIL_SHIFT)?;
        P::commons().pool.find(P::key(self), mark).statistics()
    }

    /// For checkers, which need four threads to get there otherwise: a lock that nobody else knows
    /// yet enters hierarchical mode, its lanes empty and its headship free, as a head leaves it
    /// that has seen somebody on its way into a lane; so many visits of lanes were in vain.
    /// `false`: the pool has no record.
    #[doc(hidden)]
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
    // Until here the lane was closed: those who found the mark already wait for this.
    binding.lane(binding.current()).word.store(binding.open() | u64::from(last), Release);
    P::count(Event::HqEnter, 1);
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawHqSpinLock<crate::platform::linux::Linux>>() == 4);
