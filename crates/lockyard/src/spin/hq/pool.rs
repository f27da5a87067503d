//! The pool of records: where the lanes of contended hierarchical locks are, for as long as they
//! are contended.
//!
//! A static table per platform, bounded, never grown, all-zero when unused: untouched pages of it
//! cost nothing. A record is found from the lock's key and the mark in the lock word, which says at
//! which of three places of the table it is. The lanes of one number lie together, one page of 4
//! KiB for all records, so that a node's lanes share no page with another node's.
//!
//! | word | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `owner` | key of the lock that has the record, + 1; 0: free | the head that takes the record | the head that gives it back; in the child of a fork the thread that buries ghosts |
//! | `generation` | number of this use of the record | the head that takes the record, before a waiter can queue | – |
//! | `lanes` | how many lanes this use has (bits 0 to 5); above, the low bits of the process's [epoch](Platform::epoch) | likewise | – |
//! | `warm` | key of the lock that last had the record, + 1, if that stay paid: a hint, read in the first place only | the head that gives the record back | likewise |
//! | `current` | the lane of the head | the head that takes the record, or promotes the waiter of another lane; the waiter that sets `HEADSHIP` | – |
//! | `chain` | `HEADSHIP`, and a bit for each other lane with waiters | a waiter that finds its lane empty; the head for the lane that it leaves | the head |
//! | `lane.word` | generation << 16, last waiter of the lane; 0: closed | a waiter, by compare-exchange, if the generation is the one that it knows; the head that opens the lane | the last waiter, as it leaves; the head that closes the lane |
//! | `lane.head` | first waiter of a lane without the head | the waiter that finds the lane empty; the head that leaves waiters there | – |
//! | the rest of the second line | counts of visits and hand-overs, shares | the head | the head that takes the record |
//!
//! **Ordering.**
//!
//! * `generation` is stored with Release, after `owner`, and loaded with Acquire, before `owner` is
//!   loaded again. A waiter that reads the generation of another lock's use finds that lock's
//!   `owner`, or a later one. If the later one is its own lock again, the use with that generation
//!   is over: its lanes are closed, and the waiter's compare-exchange fails. With the generation
//!   come `lanes`, `chain` and the rest of a use's beginning. (`lanes` of a later use does no harm:
//!   no lane of that use has this generation.)
//! * `owner` := 0 (Release) hands the record to the head that takes it next (Acquire).
//! * `lane.word` passes nodes: a waiter enters with AcqRel, the last waiter leaves with Release,
//!   the head closes with Acquire and opens again with Release.
//! * `chain` passes `lane.head` from the waiter that finds the lane empty (Release) to the head
//!   that goes there (Acquire). With `HEADSHIP` clear it also passes the words that only heads
//!   write, from the head that clears it to the waiter that sets it.
//! * The other words: heads follow each other under the lock.
//!
//! **fork.** A record of another epoch is a copy: the waiters in its lanes are in the parent. Its
//! lanes are closed to threads of the child (`look`). The thread of the child that takes the mark,
//! or the ghost that had taken the mark for a name, out of the lock's word gives the record back.
//! No other thread touches it meanwhile, since a record with an owner is not taken. Records of
//! locks that the child never contends for stay lent there.

use crate::event::Event;
use crate::platform::record::{Headship, Lane, Record, Tunables};
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::hq::tunables::Tunable;

pub use crate::platform::record::{LANES, Pool, RECORDS};

/// In `lanes`: their number.
const LANES_MASK: u32 = 63;
const _: () = assert!(LANES <= LANES_MASK as usize);
/// A last-level cache of fewer CPUs is not worth a lane.
pub(super) const CPUS_PER_CACHE: u32 = 4;
/// Somebody is head. (In `chain`, above the lanes' bits.)
pub(super) const HEADSHIP: u64 = 1 << LANES;

/// What stands in the tail of a lock in hierarchical mode: a name of no thread, which says where
/// its record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u16);

impl Mark {
    pub(super) const ALL: [Self; 3] = [Self(3), Self(2), Self(1)];
    /// Of the first place: where the record is unless others were there first.
    pub(super) const HOME: Self = Self::ALL[0];

    pub(super) fn of_tail(tail: u32) -> Option<Self> {
        (1..=3).contains(&tail).then_some(Self(tail as u16))
    }

    pub(super) fn raw(self) -> u16 {
        self.0
    }
}

/// Hand-overs of a lock since it entered hierarchical mode. Those of the visit under way are not
/// yet counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Inside a lane.
    pub local: u32,
    /// To another lane.
    pub remote: u32,
}

/// How many lanes a lock gets. One: hierarchical mode would be of no use.
pub fn lane_count<P: Platform>(pool: &Pool<P>) -> u32 {
    match pool.tunables.get(Tunable::Lanes) {
        0 if Pool::<P>::is_by_cache(pool.tunables.get(Tunable::LanesByCache) != 0) => P::caches().max(1),
        0 => P::nodes().clamp(1, LANES as u32),
        lanes => lanes,
    }
}

/// To look at the pool from outside.
#[cfg(feature = "unstable-internals")]
impl<P: Platform> Pool<P> {
    /// Locks in hierarchical mode now.
    pub fn in_use(&self) -> u32 {
        self.census.in_use.load(Relaxed)
    }

    /// The most there were at a time, since the last call. Of two locks that turn at the same time
    /// one may not be counted here.
    pub fn most_in_use(&self) -> u32 {
        self.census.most_in_use.swap(self.in_use(), Relaxed)
    }

    /// What the heads of a lock note for each other. A checker must have been told of each.
    pub fn notes(&self) -> impl Iterator<Item = &P::U32> {
        self.records.iter().flat_map(|record| {
            let Headship { paid, unpaid, crowd, forgone, .. } = &record.second_line;
            [&record.current, paid, unpaid, crowd, forgone]
        })
    }

    /// Whether locks with these keys have the same places.
    pub fn same_places(one: u64, other: u64) -> bool {
        Self::index(one, Mark::HOME) == Self::index(other, Mark::HOME)
    }
}

impl<P: Platform> Pool<P> {
    /// What can be set.
    #[inline]
    pub fn tunables(&self) -> &Tunables<P> {
        &self.tunables
    }

    /// Whether lanes are those of last-level caches: if that is wished, nodes have several, enough
    /// CPUs share one, and there are lanes enough.
    fn is_by_cache(near: bool) -> bool {
        let caches = P::caches();
        near && caches > P::nodes() && caches <= LANES as u32 && P::cpus() >= caches * CPUS_PER_CACHE
    }

    /// The lane of the calling thread, called `id`; and whether those of a lane are taken for near
    /// each other. Each setting is read once: a waiter that asks may be made head at any moment.
    pub(super) fn lane_of(&self, id: u32) -> (u32, bool) {
        let near = self.tunables.get(Tunable::LanesByCache) != 0;
        let lane = match self.tunables.get(Tunable::Lanes) {
            0 if Self::is_by_cache(near) => P::cache() % P::caches().max(1),
            0 => P::node() % P::nodes().clamp(1, LANES as u32),
            lanes => id % lanes,
        };
        (lane, near)
    }

    /// The process's epoch, as `lanes` has it.
    fn epoch() -> u32 {
        P::epoch() << LANES_MASK.trailing_ones()
    }

    /// Two rounds of Fibonacci hashing: one puts locks that are 48 or 72 bytes apart, as in an
    /// array, into 15 of 64 places.
    fn index(key: u64, mark: Mark) -> usize {
        const GOLDEN: u64 = 0x61c8_8646_80b5_83eb;
        let once = key.wrapping_mul(GOLDEN);
        let home = (once ^ once >> 32).wrapping_mul(GOLDEN) >> (64 - RECORDS.ilog2());
        (home as usize + usize::from(Mark::HOME.0 - mark.0)) % RECORDS
    }

    /// The record of the lock with `key` and `mark`, if it has it still.
    pub(super) fn find(&'static self, key: u64, mark: Mark) -> Binding<P> {
        let index = Self::index(key, mark);
        Binding { pool: self, index, record: &self.records[index], key, mark }
    }

    /// Whether the last stay of this lock in hierarchical mode paid. A hint.
    pub(super) fn is_warm(&self, key: u64) -> bool {
        self.records[Self::index(key, Mark::HOME)].warm.load(Relaxed) == key + 1
    }

    /// Takes a free record for the lock with `key`, whose owner and head the caller is, with
    /// `current` as the head's lane. Its other lanes are open, and a waiter may find them before
    /// the mark stands in the lock word: a head that takes a record must go on and turn.
    pub(super) fn grab(&'static self, key: u64, hint: u32) -> Option<Binding<P>> {
        let mut places = Mark::ALL.iter().map(|&mark| self.find(key, mark));
        let mut free = |binding: &Binding<P>| {
            let owner = &binding.record.owner;
            owner.load(Relaxed) == 0 && owner.compare_exchange(0, key + 1, Acquire, Relaxed).is_ok()
        };
        let Some(binding) = places.find(&mut free) else {
            P::count(Event::HqConflict, 1);
            return None;
        };
        let record = binding.record;
        let generation = (record.generation.load(Relaxed) + 1) & (u64::MAX >> 16);
        let lanes = lane_count(self);
        let current = hint % lanes;
        record.lanes.store(lanes | Self::epoch(), Relaxed);
        record.current.store(current, Relaxed);
        let Headship { chain, paid, unpaid, local, remote, crowd, forgone } = &record.second_line;
        chain.store(HEADSHIP, Relaxed);
        [paid, unpaid, local, remote, crowd, forgone].into_iter().for_each(|word| word.store(0, Relaxed));
        record.generation.store(generation.max(1), Release);
        for lane in (0..lanes).filter(|lane| *lane != current) {
            binding.lane(lane).word.store(binding.open(), Relaxed);
        }
        let in_use = self.census.in_use.fetch_add(1, Relaxed) + 1;
        if in_use > self.census.most_in_use.load(Relaxed) {
            self.census.most_in_use.store(in_use, Relaxed);
        }
        Some(binding)
    }
}

/// A lock and its record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Binding<P: Platform> {
    pool: &'static Pool<P>,
    index: usize,
    record: &'static Record<P>,
    key: u64,
    pub(super) mark: Mark,
}

impl<P: Platform> Binding<P> {
    pub(super) fn lane(&self, lane: u32) -> &'static Lane<P> {
        &self.pool.lanes[lane as usize % LANES][self.index]
    }

    /// The word of an open lane without waiters, for the present use of the record.
    pub(super) fn open(&self) -> u64 {
        self.record.generation.load(Relaxed) << 16
    }

    /// The word of an empty lane and how many lanes there are, if the record is still this lock's.
    /// For threads that do not hold the lock in hierarchical mode.
    pub(super) fn look(&self) -> Option<(u64, u32)> {
        if self.record.owner.load(Relaxed) != self.key + 1 {
            return None;
        }
        let open = self.record.generation.load(Acquire) << 16;
        let lanes = self.record.lanes.load(Relaxed);
        if lanes & !LANES_MASK != Pool::<P>::epoch() {
            return None;
        }
        let lanes = lanes & LANES_MASK;
        // A record that is being grabbed for the first time has no generation yet, and its lanes
        // are closed.
        (self.record.owner.load(Relaxed) == self.key + 1 && open != 0).then_some((open, lanes.max(1)))
    }

    pub(super) fn current(&self) -> u32 {
        self.record.current.load(Relaxed)
    }

    /// A waiter has found `lane` empty: whether it is head. If not, its lane is noted, and a head
    /// will promote it.
    pub(super) fn enter_chain(&self, lane: u32) -> bool {
        let chain = &self.record.second_line.chain;
        let mut seen = chain.load(Relaxed);
        loop {
            let free = seen & HEADSHIP == 0;
            let next = if free { seen | HEADSHIP } else { seen | 1 << lane };
            match chain.compare_exchange_weak(seen, next, AcqRel, Relaxed) {
                Ok(_) => {
                    if free {
                        self.record.current.store(lane, Relaxed);
                    }
                    return free;
                }
                Err(found) => seen = found,
            }
            P::relax();
        }
    }

    /// The next lane after the current one that has waiters, round the table.
    pub(super) fn next_lane(&self) -> Option<u32> {
        let waiting = self.record.second_line.chain.load(Relaxed) & (HEADSHIP - 1);
        let after = self.current() + 1;
        let from = waiting >> after << after;
        [from, waiting].into_iter().find(|lanes| *lanes != 0).map(u64::trailing_zeros)
    }

    /// Makes `lane` the lane of the head, after `run` hand-overs inside the current one, which has
    /// waiters `left` or not.
    pub(super) fn move_to(&self, lane: u32, left: bool, run: u32) {
        let Headship { chain, paid, unpaid, local, remote, forgone, .. } = &self.record.second_line;
        let run = run.saturating_sub(forgone.load(Relaxed));
        forgone.store(0, Relaxed);
        if left {
            chain.fetch_or(1 << self.current(), Relaxed);
        }
        chain.fetch_and(!(1 << lane), Acquire);
        self.record.current.store(lane, Relaxed);
        let add = |word: &P::U32, count: u32| word.store(word.load(Relaxed).wrapping_add(count), Relaxed);
        let pays = run > self.pool.tunables.get(Tunable::LocalHandoffsToIncreaseRemotes);
        add(paid, u32::from(pays));
        unpaid.store(if pays { 0 } else { unpaid.load(Relaxed).saturating_add(1) }, Relaxed);
        add(local, run);
        add(remote, 1);
    }

    /// The current lane is shared by `crowd` waiters: the hand-overs of a quota of `quota` that it
    /// goes without, because another lane is shared by more.
    pub(super) fn forgo(&self, crowd: u32, quota: u32) -> u32 {
        let Headship { crowd: most_crowded, forgone, .. } = &self.record.second_line;
        let most = most_crowded.load(Relaxed).max(crowd);
        let fewer = most - crowd;
        most_crowded.store(most - fewer.div_ceil(8), Relaxed);
        let without = (u64::from(quota) * u64::from(fewer) / u64::from(most.max(1))) as u32;
        forgone.store(without, Relaxed);
        without
    }

    /// Whether as many visits in a row did not pay as hand-overs are needed to leave the plain
    /// queue.
    pub(super) fn is_in_vain(&self) -> bool {
        self.record.second_line.unpaid.load(Relaxed) > self.pool.tunables.get(Tunable::GeneralHandoffsTurnNuma)
    }

    /// As if so many visits had been in vain: for checkers.
    pub(super) fn note_vain_visits(&self, visits: u32) {
        self.record.second_line.unpaid.store(visits, Relaxed);
    }

    /// Clears `HEADSHIP`: the next waiter will be head. `false`: a lane has waiters.
    pub(super) fn leave_chain(&self) -> bool {
        self.record.second_line.chain.compare_exchange(HEADSHIP, 0, Release, Relaxed).is_ok()
    }

    /// Closes all lanes and returns the last waiter of each, 0 for none. For the head, which is
    /// still in its lane or has `left` it. `None`: a waiter is on its way into a lane, and the
    /// lanes are as they were.
    pub(super) fn close(&self, left: bool) -> Option<[u16; LANES]> {
        let open = self.open();
        let lanes = self.record.lanes.load(Relaxed) & LANES_MASK;
        // Acquire: the first waiters of the lanes that are noted.
        let noted = self.record.second_line.chain.load(Acquire) | u64::from(!left) << self.current();
        let mut lasts = [0; LANES];
        for lane in 0..lanes {
            let word = &self.lane(lane).word;
            let mut seen = word.load(Relaxed);
            while seen == open || noted >> lane & 1 != 0 {
                match word.compare_exchange_weak(seen, 0, Acquire, Relaxed) {
                    Ok(_) => break,
                    Err(found) => seen = found,
                }
                P::relax();
            }
            if seen != open && noted >> lane & 1 == 0 {
                self.reopen(&lasts[..lane as usize]);
                return None;
            }
            lasts[lane as usize % LANES] = seen as u16;
        }
        Some(lasts)
    }

    /// Opens the lanes again that were closed with these last waiters.
    pub(super) fn reopen(&self, lasts: &[u16]) {
        let open = self.open();
        let closed = (0..self.record.lanes.load(Relaxed) & LANES_MASK).zip(lasts);
        // Release: a thread that queues behind them must know of what was stored to their nodes.
        closed.for_each(|(lane, last)| self.lane(lane).word.store(open | u64::from(*last), Release));
    }

    /// Gives the record back; the stay in hierarchical mode ended for want of waiters, or `early`.
    /// The lanes are closed and the mark is gone from the lock word.
    pub(super) fn give_back(self, early: bool) {
        let keep = self.pool.tunables.get(Tunable::RemoteHandoffsKeepNuma);
        let paid = !early && self.record.second_line.paid.load(Relaxed) >= keep;
        self.record.warm.store(if paid { self.key + 1 } else { 0 }, Relaxed);
        self.pool.census.in_use.fetch_sub(1, Relaxed);
        self.record.owner.store(0, Release);
    }

    /// Whether the record is a copy of that which the lock had in a process from which this one was
    /// forked.
    pub(super) fn is_ghost(&self) -> bool {
        P::epoch() > 1
            && self.record.owner.load(Acquire) == self.key + 1
            && self.record.lanes.load(Relaxed) & !LANES_MASK != Pool::<P>::epoch()
    }

    /// Gives such a record back. Only for the one that has taken its mark, or the ghost that had
    /// the mark, out of the lock's word.
    pub(super) fn bury(&self) {
        if self.is_ghost() {
            self.pool.census.in_use.fetch_sub(1, Relaxed);
            self.record.owner.store(0, Release);
        }
    }

    pub(super) fn statistics(&self) -> Option<Statistics> {
        self.look()?;
        let Headship { local, remote, .. } = &self.record.second_line;
        Some(Statistics { local: local.load(Relaxed), remote: remote.load(Relaxed) })
    }
}
