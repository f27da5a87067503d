//! Queueing by node: how waiters come into lanes, how heads of different lanes follow each other,
//! and how lanes become a queue again. The states are in the [module text](super).
//!
//! **Lanes.** One for each NUMA node. With [`Tunable::LanesByCache`], where nodes have several
//! last-level caches, of 4 CPUs or more on average, and there are lanes for all: one for each
//! cache. ([`Tunable::Lanes`] sets another number.) The caches of a node have consecutive numbers,
//! so its lanes are served in a row. A waiter of the plain queue looks up its lane after
//! [`Tunable::WaitBeforeLook`], a waiter that finds a mark at once. It stays in its lane when its
//! thread moves to another node. A waiter that came along with one that put a mark back is in that
//! one's lane.
//!
//! **The first try.** With [`Tunable::LanesByCache`], a head in hierarchical mode tries for the
//! lock before it reads the word: the owner that promoted it is about to release. A hand-over
//! in a lane is then three transfers of a line: the waiter's node to the owner, the node back, the
//! word to the waiter. A read before the try makes four.
//!
//! **Shares.** A head leaves its lane after a quota of hand-overs if another lane has waiters:
//! [`Tunable::FairnessThreshold`] for the most crowded lane, less in proportion for a lane that
//! fewer threads share. The first head of a visit finds out how many share the lane: the hand-overs
//! until it is head again. Until then the quota is the full one.
//!
//! **In vain.** A visit with at most [`Tunable::LocalHandoffsToIncreaseRemotes`] hand-overs is in
//! vain. After more than [`Tunable::GeneralHandoffsTurnNuma`] of these in a row, the first head of
//! the next visit ends hierarchical mode early. So does a head that slept on an exact machine:
//! there a waiter sleeps because its CPU is needed, and a wake-up costs more than distance saves.
//! The stay *paid* if it did not end early and at least [`Tunable::RemoteHandoffsKeepNuma`] visits
//! were not in vain.

use crate::event::Event;
use crate::platform::thread::NodeName;
use crate::platform::{Lanes, Ordering::*, Platform, Word};
use crate::spin::node::{Ahead, Onward, Place, TAIL_SHIFT};
use crate::spin::queued::TAIL_LANE;

use super::RawHqSpinLock;
use super::contention::{AFTER_VAIN_STAY, Past};
use super::pool::{Binding, LANES, Mark};
use super::tunables::Tunable;

/// Makes `last` the tail of the word's queue. If that took a mark away: which one, and the last of
/// the waiters that come along to a lane.
#[inline(always)]
pub(super) fn queue_in_word<P: Platform>(lock: &RawHqSpinLock<P>, last: u16) -> Result<Ahead, (Mark, u16)> {
    let before = lock.word.swap_half(TAIL_LANE, last, AcqRel);
    match Mark::of_tail(before.into()) {
        None => Ok(Ahead::of(before)),
        Some(mark) => Err((mark, put_back(lock, mark, last))),
    }
}

/// Queues `place`, and those behind it up to `last`, where `mark` says, or where the lock's word
/// says meanwhile.
#[inline(never)]
pub(super) fn queue_by_lane<P: Platform>(
    lock: &RawHqSpinLock<P>,
    place: &mut Place<P>,
    mut mark: Mark,
    mut last: u16,
) -> Ahead {
    // A mode change is a few instructions of its head, which may be descheduled in between.
    P::wait_window(|| {
        loop {
            let queued = queue_in_lane(&P::commons().pool.find(P::key(lock), mark), place, last);
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

/// Puts a mark back that we have taken for a waiter's name. The waiters that have queued behind us
/// since come along: the last of them. Until then nobody can leave hierarchical mode.
fn put_back<P: Platform>(lock: &RawHqSpinLock<P>, mark: Mark, mut last: u16) -> u16 {
    P::count(Event::HqMarkTaken, 1);
    while let Err(found) = lock.word.compare_exchange_half(TAIL_LANE, last, mark.raw(), Acquire, Relaxed) {
        last = found;
        P::relax();
    }
    last
}

/// Finds out which lane is the waiter's, + 1 (0 is not known), and notes it for heads that count
/// waiters, which may read an earlier use's. Unless it is noted already: the predecessor may be
/// about to write to this line, and a store would take it back.
pub(super) fn find_lane<P: Platform>(place: &mut Place<P>) {
    if place.lane == 0 {
        let (lane, near) = P::commons().pool.lane_of(place.thread().raw());
        (place.lane, place.tries_first) = (lane + 1, near);
        if place.node.lane.load(Relaxed) != place.lane {
            place.node.lane.store(place.lane, Relaxed);
        }
    }
}

/// Queues `place`, and those behind it up to `last`, in its lane. `None`: the lock is leaving
/// hierarchical mode, or has left it.
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

/// What a head in hierarchical mode has been told: where the record is, and the hand-overs of this
/// visit of its lane. The mode changes only by its own doing, so this is also how it knows the
/// mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) mark: Mark,
    pub(super) run: u32,
    /// The first head of the visit. When it is head again the hand-overs since then tell how many
    /// share the lane; from then on nobody.
    pub(super) first: Option<NodeName>,
}

impl Visit {
    pub(super) fn new(mark: Mark, first: NodeName) -> Self {
        Self { mark, run: 0, first: Some(first) }
    }

    /// Whether a head was told of one: whether the lock is in hierarchical mode.
    #[inline(always)]
    pub(super) fn is_told(word: u64) -> bool {
        word >> 48 & 3 != 0
    }

    pub(super) fn unpack(word: u64) -> Option<Self> {
        let mark = Mark::of_tail((word >> 48) as u32 & 3)?;
        Some(Self { mark, run: word as u32, first: NodeName::from_raw((word >> 32) as u32 & 0xffff) })
    }

    pub(super) fn pack(self) -> u64 {
        let first = self.first.map_or(0, NodeName::raw);
        u64::from(self.mark.raw()) << 48 | u64::from(first) << 32 | u64::from(self.run)
    }
}

/// A lane that fewer share than the most crowded one has a smaller quota in proportion, as soon as
/// it is known: hand-overs that it goes without count as made.
fn share<P: Platform>(binding: &Binding<P>, name: NodeName, visit: Visit) -> Visit {
    if visit.run == 0 || visit.first != Some(name) {
        return visit;
    }
    let forgone = binding.forgo(visit.run, P::commons().pool.tunables().get(Tunable::FairnessThreshold));
    Visit { run: visit.run.saturating_add(forgone), first: None, ..visit }
}

/// Hierarchical mode: the next waiter becomes head; if none waits, or it does not pay, the lock is
/// plain again.
#[inline(never)]
pub(super) fn leave_lane<P: Platform>(
    lock: &RawHqSpinLock<P>,
    binding: &Binding<P>,
    place: &Place<P>,
    visit: Visit,
    passed: bool,
) -> Onward {
    let visit = share(binding, place.name, visit);
    let run = visit.run;
    let lane = binding.lane(binding.current());
    let open = binding.open();
    let mine = open | u64::from(place.name.raw());
    let linked = NodeName::from_raw(place.node.next.load(Acquire));
    let is_last = linked.is_none()
        && lane.word.load(Relaxed) == mine
        && lane.word.compare_exchange(mine, open, Release, Relaxed).is_ok();
    let next = if is_last { None } else { linked.or_else(|| place.successor()) };
    if !is_last && next.is_none() {
        return lock.leave_vacant(place, Visit { run: run.saturating_add(1), ..visit }.pack(), passed);
    }
    let in_vain = place.gave_way || run == 0 && binding.is_in_vain();
    if in_vain && let Some(onward) = fold(lock, binding, next, passed, true) {
        return onward;
    }
    if let Some(next) = next {
        let spent = run >= P::commons().pool.tunables().get(Tunable::FairnessThreshold);
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
        if let Some(onward) = fold(lock, binding, None, passed, false) {
            return onward;
        }
        P::count(Event::HqRollback, 1);
        if binding.leave_chain() {
            return Onward::Settled;
        }
        P::relax();
    }
}

/// Out of hierarchical mode: the lanes, one behind the other, become the queue, and its first
/// waiter head. `next` is the one behind the caller in its lane. `None`: not now, somebody is on
/// its way into a lane.
fn fold<P: Platform>(
    lock: &RawHqSpinLock<P>,
    binding: &Binding<P>,
    next: Option<NodeName>,
    passed: bool,
    early: bool,
) -> Option<Onward> {
    let lasts = binding.close(next.is_none())?;
    let current = binding.current();
    let mut queue: Option<(NodeName, NodeName)> = None;
    let mut ends = [None; LANES];
    for lane in (current..).take(lasts.len()).map(|lane| lane % lasts.len() as u32) {
        let head = next.filter(|_| lane == current);
        let head = head.or_else(|| NodeName::from_raw(binding.lane(lane).head.load(Relaxed)));
        let Some((last, head)) = NodeName::from_raw(lasts[lane as usize].into()).zip(head) else { continue };
        if let Some(end) = queue.and_then(|(_, end)| end.node::<P>()) {
            // Relaxed: its thread reads it as head, made so by us or by a head after us.
            end.next.store(head.raw().into(), Relaxed);
            ends[lane as usize] = Some(end);
        }
        queue = Some((queue.map_or(head, |(first, _)| first), last));
    }
    // Release: a waiter that queues behind the last finds the links.
    let tail = queue.map_or(0, |(_, last)| last.raw());
    if lock.word.compare_exchange_half(TAIL_LANE, binding.mark.raw(), tail, Release, Relaxed).is_err() {
        // Somebody has taken the mark for a waiter's name and is about to put it back.
        ends.iter().flatten().for_each(|end| end.next.store(0, Relaxed));
        binding.reopen(&lasts);
        return None;
    }
    binding.give_back(early);
    P::count(Event::HqLeave, 1);
    Some(queue.map_or(Onward::Settled, |(first, _)| {
        let vain = if early { AFTER_VAIN_STAY } else { 0 };
        let past = Past { lane: current as u8 + 1, vain, ..Past::unpack(0) };
        lock.promote(first, past.pack(), passed)
    }))
}

/// Makes the first waiter of another lane head.
fn grant_lane<P: Platform>(
    lock: &RawHqSpinLock<P>,
    binding: &Binding<P>,
    other: u32,
    left: bool,
    run: u32,
    passed: bool,
) -> Onward {
    binding.move_to(other, left, run);
    P::count(Event::HqRemoteHandoff, 1);
    NodeName::from_raw(binding.lane(other).head.load(Relaxed))
        .map_or(Onward::Settled, |head| lock.promote(head, Visit::new(binding.mark, head).pack(), passed))
}
