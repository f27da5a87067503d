//! The hierarchical queued spinlock (HQ): a plain queued spinlock that, while it is contended from several NUMA nodes, queues its waiters by node and
//! hands over inside a node first.
//!
//! On a machine with many nodes a plain queue sends lock word and data across the machine at every hand-over. Here arriving waiters touch only their own
//! node's queue, a *lane*, and successive owners are mostly neighbours. Without contention it is the plain lock: the same fast path, the same four
//! bytes, no record. Waiting, turns, destruction, fork: see [`queued`](super::queued).
//!
//! # Modes
//!
//! | mode | tail of the word | waiters queue | from here |
//! |---|---|---|---|
//! | plain | 0, or the last waiter | in one queue, as [`qspinlock`](super::qspinlock)'s | → hierarchical: a head that leaves, with waiters behind it and evidence of contention, and a free record |
//! | hierarchical | a mark (1, 2, 3: the name of no thread), says where the record is | in the lane of their node | → plain: a head that leaves and finds nobody in any lane, or that it does not pay |
//!
//! Only the headship's bearer changes the mode, and it owns the lock then. A waiter that sees no mark puts itself into the word's queue by a swap of the tail half, as in the plain kind.
//! If what it gets is a mark, the mode has changed since it looked: it puts the mark back, and goes to its lane with those who have queued behind it meanwhile. A bearer leaves hierarchical mode by a
//! compare-exchange of the mark; while somebody has it the bearer cannot, as while somebody is on its way into a lane. So nobody's mode ends while it queues. Locked byte, pending byte
//! and fast path are the same in both modes, and so is stealing: within a turn it keeps the lock where it is.
//!
//! **The type bit** (9) is set in a lock of this kind and clear in others, so that code which holds a raw word can tell that the tail may be a mark. A free lock's
//! word is therefore `0x200`, from its constructor on. All-zero memory is an unlocked lock all the same: whoever takes it first, in the slow path, stamps it (with everybody who comes at that
//! moment, which makes a queue where there need be none). The published lock
//! rests at `0x600`, with its mode in bits 10 and 11, which its fast path must examine; here the tail says the mode, and the fast path is that of the plain lock.
//!
//! # Lanes, chain, headship
//!
//! A [record](pool) holds a lane per node, and the *chain*: who has the headship (the right to compete for the word), and which other lanes have
//! waiters.
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
//! Lane words carry the number of the record's use: a waiter that comes too late finds its compare-exchange fail, and looks at the lock's word again. A waiter belongs to
//! the lane in which it (or the one that it has queued behind, while the mark was away) queued, wherever its thread has moved since; which lane has the headship is the record's knowledge, not the waiter's. A
//! thread that has left the queue is nobody's neighbour: its exit concerns nobody.
//!
//! **What a lane is.** One for each NUMA node; where nodes have several last-level caches, one for each cache ([`LanesByCache`](Tunable::LanesByCache)). This page says node for either: what
//! matters is that those of a lane are near each other. Lanes are served in the order of their numbers, in which the caches of a node are neighbours. Which lane is a
//! waiter's is found out when it has waited for [1 µs](Tunable::WaitBeforeLook), and less in the plain kind's way: where few threads meet, this is the plain kind.
//!
//! **A head in hierarchical mode tries before it looks.** Whoever promotes it holds the lock and is about to leave it. Inside a lane a hand-over is three transfers: the waiter's line to the
//! owner, back to the waiter, the word's line to it. To look at the word first makes it four, and where the owner is still inside, the look disturbs it as much as the attempt.
//!
//! # Contention detection
//!
//! Each head is told the hand-overs of this busy period and how many of them changed the node, and tells the next. A hand-over between two
//! waiters that alternate does not count. Nor is a change of node seen in who found nobody queued, or became head before it had looked where it is: it would have to look while it holds the lock or the lock is free, and where few
//! threads meet on slow lines that alone keeps them meeting. With more than [50](Tunable::GeneralHandoffsTurnNuma) hand-overs and more than
//! [2](Tunable::RemoteHandoffsTurnNuma) changes of node (or, if the last stay in hierarchical mode paid, at the first change) the head counts who is behind it, and with [2](Tunable::WaitersPerLaneTurnNuma)
//! waiters for each node that occurs it turns to hierarchical mode at once, when it has the lock: it takes a record, and its queue becomes its node's
//! lane. So a lock that is never idle turns, too. Too few waiters, or a pool without a free record, mean the plain queue, and a new attempt after twice as many
//! hand-overs: the count reads a line of every waiter's, which all have to be fetched back. The tunables are looked at once in four changes of node. A lock in hierarchical mode turns back when there is no waiter left; when as many visits of lanes in a row were in vain as hand-overs are needed to enter, at most
//! [2](Tunable::LocalHandoffsToIncreaseRemotes) hand-overs each; and when its head had to sleep because its CPU was needed (an exact machine tells): nearness is nothing
//! beside a wake-up. After a stay in vain it takes 32 times as many hand-overs to the next. For the same reason such waiters do not count among those that are needed to enter.
//!
//! **Shares.** A lane is left after its quota of hand-overs if others wait: [1000](Tunable::FairnessThreshold) for the most crowded one, in proportion for those that fewer threads share,
//! or one among few would have more turns than one among many. How many share a lane is seen from the first head of a visit: the hand-overs until it is head
//! again; until that is seen the quota is the full one.
//!
//! **Bound on bypass.** Inside a lane first come, first served, and lanes are served in turn: with l lanes a waiter is passed by at most (l − 1) × 1001 hand-overs for each
//! quota of its own lane, each of one turn at most. Its own turn having passed meanwhile, it is served at once when it is head.
//!
//! **try_lock** does what it does in plain mode: it succeeds if the lock is free and nobody waits. A lock in hierarchical mode has waiters.
//!
//! # Memory ordering
//!
//! * Into hierarchical mode: the tail's change from last waiter to mark (Acquire) makes that waiter's node known to the head, which hands it to newcomers with the lane's
//!   word. The mark itself orders nothing: it only says where to look, and the record says for itself whether it is this lock's.
//! * A mark that was taken for a name is put back (Acquire: the nodes of those who come along, which go to newcomers with the lane's word).
//! * Out of it: the change to 0, or to the last waiter of all lanes (Release: with the links between them), follows the closing of the lanes and precedes the
//!   record's `owner` := 0 (Release).
//! * Record and lanes: see [`pool`]. What one head tells the next travels with `promote` (Release) as in every kind, or with the headship.
//!
//! # What is different from the published series
//!
//! Its remote count is never advanced (here it is), its switch needs a queue that drains (here the head switches at once), a change of node counted
//! only after a run of more than two on one node, which strict alternation never shows (here every change counts; the run decides whether a stay paid); a
//! lock that changes mode under a waiter leaves queues to be adopted (here it cannot); lanes form a linked chain (here a word of bits, as there are few); its
//! lanes are always nodes', and its heads look first (so they do here with [`LanesByCache`](Tunable::LanesByCache) off).
//!
//! **Not good for** a lock whose threads outnumber the CPUs: then the order of sleepers matters, not their node.
//!
//! Sources: "[RFC PATCH v3 0/7] hq-spinlock" (Fedorov and Stepanov, April 2026), its idea, tunables and evaluation; cohort locks: Dice, Marathe, Shavit (2012).

pub mod pool;
pub mod tunables;

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;

use crate::event::Event;
use crate::platform::{Lanes, Ordering::*, Platform, Word};
use crate::spin::node::{Ahead, Place, QueueNode, TOLD};
use crate::spin::queued::{Kind, LOCKED_MASK, RawQueuedSpinLock, TAIL_LANE, TAIL_SHIFT};
use crate::wait::thread::NodeName;

use pool::{Binding, LANES, Mark};
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
        P::hq().tunables().get(Tunable::WaitBeforeLook)
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
    fn leave(lock: &RawHqSpinLock<P>, place: &Place<P>, ahead: Ahead, passed: bool) {
        if Visit::is_told(place.past) || !lock.replace_last(place.name, 0) {
            leave_others(lock, place, ahead, passed);
        }
    }
}

impl<P: Platform> RawHqSpinLock<P> {
    /// Hand-overs since the lock entered hierarchical mode; `None` in plain mode.
    pub fn statistics(&self) -> Option<Statistics> {
        let mark = Mark::of_tail(self.raw() >> TAIL_SHIFT)?;
        P::hq().find(P::key(self), mark).statistics()
    }

    /// For checkers, which need four threads to get there otherwise: a lock that nobody else knows yet enters hierarchical mode, its lanes empty and its headship
    /// free, as a head leaves it that has seen somebody on its way into a lane; so many visits of lanes were in vain. `false`: the pool has no record.
    #[doc(hidden)]
    pub fn begin_in_lanes(&self, visits_in_vain: u32) -> bool {
        let Some(binding) = P::hq().grab(P::key(self), 0) else { return false };
        binding.note_vain_visits(visits_in_vain);
        turn(self, &binding);
        binding.leave_chain()
    }
}

/// Makes `last` the tail of the word's queue. If that took a mark away: which one, and the last of those who come along to a lane.
#[inline(always)]
fn queue_in_word<P: Platform>(lock: &RawHqSpinLock<P>, last: u16) -> Result<Ahead, (Mark, u16)> {
    let before = lock.word.swap_half(TAIL_LANE, last, AcqRel);
    match Mark::of_tail(before.into()) {
        None => Ok(Ahead::of(before)),
        Some(mark) => Err((mark, put_back(lock, mark, last))),
    }
}

/// Queues `place`, and those behind it up to `last`, where `mark` says, or where the lock's word says meanwhile.
#[inline(never)]
fn queue_by_lane<P: Platform>(lock: &RawHqSpinLock<P>, place: &mut Place<P>, mut mark: Mark, mut last: u16) -> Ahead {
    // A mode change is a few instructions of its head, who may be descheduled in between.
    P::wait_window(|| {
        loop {
            let queued = queue_in_lane(&P::hq().find(P::key(lock), mark), place, last);
            if queued.is_some() {
                return queued;
            }
            (mark, last) = match Mark::of_tail(lock.word.load(Relaxed) >> TAIL_SHIFT) {
                Some(found) if found == mark => return None,
                Some(found) => (found, last),
                None => match queue_in_word(lock, last) {
                    Ok(ahead) => return Some(ahead),
                    Err(found) => found,
                },
            };
        }
    })
}

/// Puts a mark back that we have taken for a waiter's name. Who has queued behind us since comes along: the last of them. Until then nobody can leave hierarchical mode.
fn put_back<P: Platform>(lock: &RawHqSpinLock<P>, mark: Mark, mut last: u16) -> u16 {
    P::count(Event::HqMarkTaken, 1);
    while let Err(found) = lock.word.compare_exchange_half(TAIL_LANE, last, mark.raw(), Acquire, Relaxed) {
        last = found;
        P::relax();
    }
    last
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
fn leave_others<P: Platform>(lock: &RawHqSpinLock<P>, place: &Place<P>, ahead: Ahead, passed: bool) {
    match Visit::unpack(place.past) {
        Some(visit) => leave_lane(lock, &P::hq().find(P::key(lock), visit.mark), place, visit, passed),
        None => leave_queue(lock, place, ahead, passed),
    }
}

/// Finds out which lane is the waiter's, + 1 (0 is not known), and notes it for heads that count waiters, who may read an earlier use's. Unless it is noted already: the predecessor may
/// be about to write to this line, and a store would take it back.
fn find_lane<P: Platform>(place: &mut Place<P>) {
    if place.lane == 0 {
        let (lane, near) = P::hq().lane_of(place.thread().raw());
        (place.lane, place.tries_first) = (lane + 1, near);
        if place.node.lane.load(Relaxed) != place.lane {
            place.node.lane.store(place.lane, Relaxed);
        }
    }
}

/// Queues `place`, and those behind it up to `last`, in its lane. `None`: the lock is leaving hierarchical mode, or has left it.
fn queue_in_lane<P: Platform>(binding: &Binding<P>, place: &mut Place<P>, last: u16) -> Option<Ahead> {
    find_lane(place);
    let (open, lanes) = binding.look()?;
    let number = (place.lane - 1) % lanes;
    let lane = binding.lane(number);
    let mut seen = lane.word.load(Relaxed);
    loop {
        if seen >> 16 != open >> 16 {
            return None;
        }
        let next = open | u64::from(last);
        match lane.word.compare_exchange_weak(seen, next, AcqRel, Relaxed) {
            Ok(_) => break,
            Err(found) => seen = found,
        }
        P::relax();
    }
    if let before @ Ahead::Waiter(_) = Ahead::of(seen as u16) {
        return Some(before);
    }
    lane.head.store(place.name.raw().into(), Relaxed);
    // As head we shall want to know; unless somebody else makes us head, and tells us.
    place.past = Visit::new(binding.mark, place.name).pack();
    Some(if binding.enter_chain(number) { Ahead::Nobody } else { Ahead::Others })
}

/// From 50 hand-overs to 25,600.
const MOST_VAIN: u8 = 9;
/// After a stay that did not pay: 1,600. It takes a hundred to find that out, and so few in so many are not felt.
const AFTER_VAIN_STAY: u8 = 5;
/// The bit that says so in what a head is told; 48 and 49 have a [`Visit`]'s mark.
const RIPE: u32 = 50;
const _: () = assert!(RIPE < TOLD);
/// So many changes of the node from one look at the tunables to the next.
const LOOK: u16 = 4;

/// What a head in plain mode knows of this busy period.
#[derive(Debug, Clone, Copy)]
struct Past {
    handoffs: u16,
    /// Those that changed the node.
    remote: u16,
    /// The lane of the last head, + 1; 0: it found nobody queued, and has not looked where it is.
    lane: u8,
    /// How often there were too few waiters to turn: each time it takes twice as many hand-overs to the next count, which reads a line of every waiter's.
    vain: u8,
    /// It is time to turn.
    ripe: bool,
}

impl Past {
    fn unpack(word: u64) -> Self {
        Self {
            handoffs: word as u16,
            remote: (word >> 16) as u16,
            lane: (word >> 32) as u8,
            vain: (word >> 40) as u8,
            ripe: word >> RIPE & 1 != 0,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.handoffs)
            | u64::from(self.remote) << 16
            | u64::from(self.lane) << 32
            | u64::from(self.vain) << 40
            | u64::from(self.ripe) << RIPE
    }

    /// What the new head `place` makes of what it was told.
    fn account<P: Platform>(self, lock: &RawHqSpinLock<P>, place: &Place<P>) -> Self {
        let lane = place.lane as u8;
        let moved = self.lane != 0 && self.lane != lane;
        let past = Self { remote: self.remote.saturating_add(moved.into()), lane, ..self };
        if !moved {
            // Nothing more to do in a queue of one node.
            return past;
        }
        if !(past.remote == 1 || past.remote.is_multiple_of(LOOK)) {
            return past;
        }
        let pool = P::hq();
        let more = |count: u16, than: Tunable| u32::from(count) > pool.tunables().get(than) << past.vain;
        let contended =
            more(past.handoffs, Tunable::GeneralHandoffsTurnNuma) && more(past.remote, Tunable::RemoteHandoffsTurnNuma);
        let warm = past.vain == 0 && pool.is_warm(P::key(lock));
        if !(contended || warm) || pool.lane_count() == 1 {
            return past;
        }
        if is_crowded(place.node, pool) { Self { ripe: true, ..past } } else { past.afresh() }
    }

    /// From the beginning, for twice as many hand-overs.
    fn afresh(self) -> Self {
        Self { handoffs: 0, remote: 0, vain: (self.vain + 1).min(MOST_VAIN), ripe: false, ..self }
    }
}

/// Whether there are enough waiters behind the head for each lane that occurs. Lanes of one waiter would make every hand-over a remote one; and to
/// wake a waiter costs more than any distance, so that those who sleep for want of a CPU do not count.
fn is_crowded<P: Platform>(head: &'static QueueNode<P>, pool: &Pool<P>) -> bool {
    let crowd = pool.tunables().get(Tunable::WaitersPerLaneTurnNuma);
    let (mut node, mut seen, mut waiters) = (head, 0u64, 0);
    for _ in 0..crowd * pool.lane_count() {
        let Some(next) = NodeName::from_raw(node.next.load(Acquire)).and_then(NodeName::node) else { break };
        node = next;
        if !node.gives_way() {
            seen |= 1 << (node.lane.load(Relaxed) % 64);
            waiters += 1;
        }
    }
    waiters > 0 && waiters >= crowd * seen.count_ones()
}

/// What a head in hierarchical mode has been told: where the record is, and the hand-overs of this visit of its lane. The mode changes only by its own
/// doing, so this is also how it knows the mode.
#[derive(Debug, Clone, Copy)]
struct Visit {
    mark: Mark,
    run: u32,
    /// The first head of the visit. When it is head again the hand-overs since then tell how many share the lane; from then on nobody.
    first: Option<NodeName>,
}

impl Visit {
    fn new(mark: Mark, first: NodeName) -> Self {
        Self { mark, run: 0, first: Some(first) }
    }

    /// Whether a head was told of one: whether the lock is in hierarchical mode.
    #[inline(always)]
    fn is_told(word: u64) -> bool {
        word >> 48 & 3 != 0
    }

    fn unpack(word: u64) -> Option<Self> {
        let mark = Mark::of_tail((word >> 48) as u32 & 3)?;
        Some(Self { mark, run: word as u32, first: NodeName::from_raw((word >> 32) as u32 & 0xffff) })
    }

    fn pack(self) -> u64 {
        let first = self.first.map_or(0, NodeName::raw);
        u64::from(self.mark.raw()) << 48 | u64::from(first) << 32 | u64::from(self.run)
    }
}

/// Plain mode, somebody is behind us: the next becomes head, or it is time to turn.
#[inline(never)]
fn leave_queue<P: Platform>(lock: &RawHqSpinLock<P>, place: &Place<P>, ahead: Ahead, passed: bool) {
    let next = place.successor();
    let mut past = Past::unpack(place.past);
    past.handoffs = past.handoffs.saturating_add((ahead != Ahead::Waiter(next)).into());
    if past.ripe {
        if let Some(binding) = P::hq().grab(P::key(lock), place.lane - 1) {
            turn(lock, &binding);
            // The queue of all nodes: how many are in it says nothing of a lane.
            return lock.promote(next, Visit { mark: binding.mark, run: 1, first: None }.pack(), passed);
        }
        past = past.afresh();
    }
    lock.promote(next, past.pack(), passed);
}

/// Into hierarchical mode: the queue becomes the lane of its head, which is the caller and owns the lock.
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

/// A lane that fewer share than the most crowded one has a smaller quota in proportion, as soon as it is known: hand-overs that it goes without count as made.
fn share<P: Platform>(binding: &Binding<P>, name: NodeName, visit: Visit) -> Visit {
    if visit.run == 0 || visit.first != Some(name) {
        return visit;
    }
    let forgone = binding.forgo(visit.run, P::hq().tunables().get(Tunable::FairnessThreshold));
    Visit { run: visit.run.saturating_add(forgone), first: None, ..visit }
}

/// Hierarchical mode: whoever is next becomes head; if nobody is, or it does not pay, the lock is plain again.
#[inline(never)]
fn leave_lane<P: Platform>(
    lock: &RawHqSpinLock<P>,
    binding: &Binding<P>,
    place: &Place<P>,
    visit: Visit,
    passed: bool,
) {
    let visit = share(binding, place.name, visit);
    let run = visit.run;
    let lane = binding.lane(binding.current());
    let open = binding.open();
    let mine = open | u64::from(place.name.raw());
    let linked = NodeName::from_raw(place.node.next.load(Acquire));
    let is_last = linked.is_none()
        && lane.word.load(Relaxed) == mine
        && lane.word.compare_exchange(mine, open, Release, Relaxed).is_ok();
    let next = (!is_last).then(|| linked.unwrap_or_else(|| place.successor()));
    let in_vain = place.gave_way || run == 0 && binding.is_in_vain();
    if in_vain && fold(lock, binding, next, passed, true) {
        return;
    }
    if let Some(next) = next {
        let spent = run >= P::hq().tunables().get(Tunable::FairnessThreshold);
        let Some(other) = spent.then(|| binding.next_lane()).flatten() else {
            P::count(Event::HqLocalHandoff, 1);
            return lock.promote(next, Visit { run: run.saturating_add(1), ..visit }.pack(), passed);
        };
        P::count(Event::HqForcedHandoff, 1);
        lane.head.store(next.raw().into(), Relaxed);
        return grant_lane(lock, binding, other, true, run, passed);
    }
    loop {
        if let Some(other) = binding.next_lane() {
            return grant_lane(lock, binding, other, false, run, passed);
        }
        if fold(lock, binding, None, passed, false) {
            return;
        }
        P::count(Event::HqRollback, 1);
        if binding.leave_chain() {
            return;
        }
        P::relax();
    }
}

/// Out of hierarchical mode: the lanes, one behind the other, become the queue, and its first waiter head. `next` is the one behind the caller in its lane.
/// `false`: not now, somebody is on its way into a lane.
fn fold<P: Platform>(
    lock: &RawHqSpinLock<P>,
    binding: &Binding<P>,
    next: Option<NodeName>,
    passed: bool,
    early: bool,
) -> bool {
    let Some(lasts) = binding.close(next.is_none()) else { return false };
    let current = binding.current();
    let mut queue: Option<(NodeName, NodeName)> = None;
    let mut ends = [None; LANES];
    for lane in (current..).take(lasts.len()).map(|lane| lane % lasts.len() as u32) {
        let head = next.filter(|_| lane == current);
        let head = head.or_else(|| NodeName::from_raw(binding.lane(lane).head.load(Relaxed)));
        let Some((last, head)) = NodeName::from_raw(lasts[lane as usize].into()).zip(head) else { continue };
        if let Some(end) = queue.and_then(|(_, end)| end.node::<P>()) {
            // Relaxed: its thread reads it as head, whom we have made so, or somebody after us.
            end.next.store(head.raw().into(), Relaxed);
            ends[lane as usize] = Some(end);
        }
        queue = Some((queue.map_or(head, |(first, _)| first), last));
    }
    // Release: who queues behind the last finds the links.
    let tail = queue.map_or(0, |(_, last)| last.raw());
    if lock.word.compare_exchange_half(TAIL_LANE, binding.mark.raw(), tail, Release, Relaxed).is_err() {
        // Somebody has taken the mark for a waiter's name and is about to put it back.
        ends.iter().flatten().for_each(|end| end.next.store(0, Relaxed));
        binding.reopen(&lasts);
        return false;
    }
    binding.give_back(early);
    P::count(Event::HqLeave, 1);
    if let Some((first, _)) = queue {
        let vain = if early { AFTER_VAIN_STAY } else { 0 };
        let past = Past { lane: current as u8 + 1, vain, ..Past::unpack(0) };
        lock.promote(first, past.pack(), passed);
    }
    true
}

/// Makes the first waiter of another lane head.
fn grant_lane<P: Platform>(
    lock: &RawHqSpinLock<P>,
    binding: &Binding<P>,
    other: u32,
    left: bool,
    run: u32,
    passed: bool,
) {
    binding.move_to(other, left, run);
    P::count(Event::HqRemoteHandoff, 1);
    if let Some(head) = NodeName::from_raw(binding.lane(other).head.load(Relaxed)) {
        lock.promote(head, Visit::new(binding.mark, head).pack(), passed);
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawHqSpinLock<crate::platform::linux::Linux>>() == 4);
