//! The state of every cache line that was ever touched.
//!
//! ```text
//! nobody ──load──▶ owner (exclusive, clean)         owner: one core may read and write
//!   owner ──load by c──▶ owner and c share          shared: any number of cores may read
//!   any ──write by c──▶ owner c                     all other copies are gone, their watchers wake
//! ```
//!
//! A line's identity is the order in which lines were first touched; its address is only used to
//! find it. Addresses inside the arena count as offsets, so that nothing depends on where the host
//! mapped it. Caches belong to cores: hardware threads of one core share their copies. Capacity and
//! conflict misses are ignored, except that an owned line which its core has not touched for
//! `t_evict` of busy time comes from L3.

use std::collections::VecDeque;

use super::distance::{self, Clusters};
use crate::engine::heap::Ps;

/// No core, no task, no line.
pub(crate) const NOBODY: u32 = u32::MAX;
/// No core.
pub(crate) const NO_CORE: u16 = u16::MAX;

/// Who asked for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A task that waits for it.
    Task(u32),
    /// A task of a CPU that will load it, and does not wait.
    Ahead { cpu: u32 },
    /// The timer's handler of a CPU.
    Interrupt { cpu: u32 },
    /// The store buffer of a CPU; the number names the store.
    Buffer { cpu: u32, store: u64 },
}

/// A request for a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) asker: Asker,
    pub(crate) core: u16,
    /// For writing.
    pub(crate) owning: bool,
    /// A load that takes a line over which its owner has written.
    pub(crate) taking: bool,
    pub(crate) issued: Ps,
    /// Factor on all its latencies, in 1/1024.
    pub(crate) jitter: u64,
    /// The data's share of its way, in 1/1024.
    pub(crate) data_share: u64,
}

/// The request that will be granted next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) request: Request,
    /// When it reaches the point where requests are ordered.
    pub(crate) arrives: Ps,
    /// From then on nothing can overtake it.
    pub(crate) committed: Ps,
    /// When it reaches the copies.
    pub(crate) lost: Ps,
    /// How often the owner may still use the line after that.
    pub(crate) burst: u32,
    /// Whether all other copies go: a write, or a load that takes the line over.
    pub(crate) moves: bool,
    /// Whether watchers will be told then.
    pub(crate) announced: bool,
}

/// Who has copies, when more than one core may.
#[derive(Debug, Default)]
pub(crate) struct Sharers {
    bits: Vec<u64>,
    /// Copies in each cluster.
    clusters: Vec<u16>,
    /// Clusters with copies.
    present: Clusters,
    /// Copies in each sharing domain of the last-level cache.
    domains: Vec<u16>,
    /// When each domain's cache can serve the next reader.
    free_at: Vec<Ps>,
    count: u32,
}

impl Sharers {
    #[inline(always)]
    pub(crate) fn contains(&self, core: u16) -> bool {
        self.bits.get(usize::from(core) / 64).is_some_and(|word| word >> (core % 64) & 1 != 0)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn add(&mut self, shape: &Shape, core: u16) {
        if self.bits.is_empty() {
            self.bits.resize(shape.cores.div_ceil(64), 0);
            self.clusters.resize(shape.clusters, 0);
            self.present = distance::none(shape.clusters);
            self.domains.resize(shape.domains, 0);
            self.free_at.resize(shape.domains, 0);
        }
        if !self.contains(core) {
            self.bits[usize::from(core) / 64] |= 1 << (core % 64);
            let cluster = shape.cluster_of[usize::from(core)];
            self.clusters[usize::from(cluster)] += 1;
            distance::add(&mut self.present, cluster);
            self.domains[usize::from(shape.domain_of[usize::from(core)])] += 1;
            self.count += 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.count != 0 {
            self.bits.fill(0);
            self.clusters.fill(0);
            self.present.fill(0);
            // Times need not be: a domain's is set with its first copy.
            self.domains.fill(0);
            self.count = 0;
        }
    }

    pub(crate) fn in_domain(&self, domain: u16) -> bool {
        self.domains.get(usize::from(domain)).is_some_and(|&count| count != 0)
    }

    /// The set of the clusters with a copy that `core` does not hold itself, word by word.
    #[inline(always)]
    pub(crate) fn others(&self, shape: &Shape, core: u16) -> impl Fn(usize) -> u64 + '_ {
        let own = shape.cluster_of[usize::from(core)];
        let alone = self.contains(core) && self.clusters[usize::from(own)] == 1;
        let (hidden, bit) = if alone { (usize::from(own) / 64, 1 << (own % 64)) } else { (0, 0) };
        move |index| self.present[index] & if index == hidden { !bit } else { u64::MAX }
    }

    /// The next slot of a domain's cache, at `now` or later.
    pub(crate) fn slot(&mut self, domain: u16, ready: Ps, spacing: Ps) -> Ps {
        let free = &mut self.free_at[usize::from(domain)];
        *free = ready.max(*free + spacing);
        *free
    }

    /// The domain's first copy arrives at `done`.
    pub(crate) fn first(&mut self, domain: u16, done: Ps) {
        self.free_at[usize::from(domain)] = done;
    }
}

/// What sharer sets need to know of the machine.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) cores: usize,
    pub(crate) clusters: usize,
    pub(crate) domains: usize,
    pub(crate) cluster_of: Vec<u16>,
    pub(crate) domain_of: Vec<u16>,
}

/// A line.
#[derive(Debug)]
pub(crate) struct Line {
    /// The core that may write.
    pub(crate) owner: u16,
    /// The core that wrote last, or got the line last: supplies it.
    pub(crate) last: u16,
    /// The node whose memory holds it.
    pub(crate) home: u16,
    /// A shared line is newer than memory.
    pub(crate) dirty: bool,
    /// The owner has written to it since it came.
    pub(crate) written: bool,
    /// The CPU that touched the owned line last.
    pub(crate) last_cpu: u32,
    pub(crate) sharers: Sharers,
    /// When the line can go on to the next owner.
    pub(crate) free_at: Ps,
    /// When the last fill under way is done.
    pub(crate) filled: Ps,
    /// When the home can serve the next cache.
    pub(crate) home_free: Ps,
    /// When its owner touched it last, and how long the owner's core had idled by then.
    pub(crate) touched: Ps,
    pub(crate) idle_then: Ps,
    /// Rises with each change of its words.
    pub(crate) version: u32,
    /// Distinguishes plans for `flight`.
    pub(crate) stamp: u32,
    pub(crate) flight: Option<Flight>,
    /// Later requests, in order of issue.
    pub(crate) pending: VecDeque<Request>,
    /// Spinning tasks, with the stamp of their wait.
    pub(crate) watchers: Vec<(u32, u32)>,
    /// Where it is, for its name: an offset into the arena, or an address outside, or a kernel
    /// line's number.
    pub(crate) place: Place,
    /// Transfers between cores or from memory.
    pub(crate) transfers: u64,
}

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Offset into the arena / 64.
    Arena(usize),
    /// Address / 64.
    Outside(usize),
    /// The simulated kernel's own.
    Kernel(KernelLine),
}

/// Lines of the simulated kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelLine {
    /// A CPU's run queue.
    RunQueue(u32),
    /// A futex hash bucket's lock.
    Bucket(u32),
    /// A task's own lock.
    Task(u32),
    /// A task's node in the queue for a bucket's lock.
    Node(u32),
    /// The map of real-time priorities of all CPUs.
    Priorities,
    /// What every CPU's timer handler writes.
    Timekeeping,
    /// The lock of the timer that refills real-time tasks' budget.
    Budget,
}

impl Line {
    fn new(place: Place, home: u16) -> Self {
        Self {
            owner: NO_CORE,
            last: NO_CORE,
            home,
            dirty: false,
            written: false,
            last_cpu: NOBODY,
            sharers: Sharers::default(),
            free_at: 0,
            filled: 0,
            home_free: 0,
            touched: 0,
            idle_then: 0,
            version: 0,
            stamp: 0,
            flight: None,
            pending: VecDeque::new(),
            watchers: Vec::new(),
            place,
            transfers: 0,
        }
    }

    /// Whether a request that leaves no other copies has reached them: they are as good as gone.
    #[inline(always)]
    fn invalidated(&self, now: Ps) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.moves && now >= flight.lost)
    }

    /// Whether `core` shares the line and may still read its copy at `now`.
    #[inline(always)]
    pub(crate) fn shared_by(&self, core: u16, now: Ps) -> bool {
        self.sharers.contains(core) && !self.invalidated(now)
    }

    /// Whether `core` has a copy that it may read at `now`.
    #[inline(always)]
    pub(crate) fn held_by(&self, core: u16, now: Ps) -> bool {
        (self.owner == core || self.sharers.contains(core)) && !self.invalidated(now)
    }

    /// Whether `core` owns the line and a write (a read if not `writing`) of it finds it there at
    /// `now`. Once another core's request has reached it, the line is as good as gone: the owner
    /// gets a bounded burst out of it.
    #[inline(always)]
    pub(crate) fn serves(&mut self, core: u16, writing: bool, now: Ps) -> bool {
        if self.owner != core {
            return false;
        }
        match &mut self.flight {
            Some(flight) if now >= flight.lost && (writing || flight.moves) => {
                let served = flight.burst != 0;
                flight.burst = flight.burst.saturating_sub(1);
                served
            }
            _ => true,
        }
    }

    /// Whether nobody has, or has asked for, a copy.
    pub(crate) fn untouched(&self) -> bool {
        self.owner == NO_CORE && self.sharers.count() == 0 && self.flight.is_none() && self.pending.is_empty()
    }
}

/// All lines, and how to find one.
#[derive(Debug)]
pub(crate) struct Lines {
    all: Vec<Line>,
    /// Open addressing: key of the place, number of the line + 1.
    slots: Vec<(usize, u32)>,
    pub(crate) shape: Shape,
    base: usize,
    len: usize,
}

const LINE_SHIFT: u32 = 6;

impl Lines {
    /// No lines; the arena is at `base`.
    pub(crate) fn new(shape: Shape, base: usize, len: usize) -> Self {
        Self { all: Vec::new(), slots: vec![(0, 0); 1024], shape, base, len }
    }

    /// The place of an address.
    #[inline(always)]
    pub(crate) fn place(&self, address: usize) -> Place {
        let offset = address.wrapping_sub(self.base);
        if offset < self.len { Place::Arena(offset >> LINE_SHIFT) } else { Place::Outside(address >> LINE_SHIFT) }
    }

    #[inline(always)]
    fn key(&self, address: usize) -> usize {
        // Arena lines and outside lines cannot collide: the arena's own addresses are what the
        // offsets stand for.
        address >> LINE_SHIFT
    }

    #[inline(always)]
    fn slot(&self, key: usize) -> usize {
        let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// The line of `address`; touched for the first time, it gets its home on `node`.
    #[inline(always)]
    pub(crate) fn find(&mut self, address: usize, node: u16) -> u32 {
        let key = self.key(address);
        let mut slot = self.slot(key);
        loop {
            let (found, number) = self.slots[slot];
            if found == key && number != 0 {
                return number - 1;
            }
            if number == 0 {
                return self.first_touch(address, node);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    #[cold]
    fn first_touch(&mut self, address: usize, node: u16) -> u32 {
        let number = self.create(self.place(address), node);
        self.insert(self.key(address), number + 1);
        if self.all.len() * 2 > self.slots.len() {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![(0, 0); old.len() * 2];
            for (key, number) in old.into_iter().filter(|slot| slot.1 != 0) {
                self.insert(key, number);
            }
        }
        number
    }

    fn insert(&mut self, key: usize, number: u32) {
        let mut slot = self.slot(key);
        while self.slots[slot].1 != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (key, number);
    }

    /// A new line that has no address.
    pub(crate) fn create(&mut self, place: Place, node: u16) -> u32 {
        let number = self.all.len() as u32;
        self.all.push(Line::new(place, node));
        number
    }

    /// A line, and beside it what its sharer set needs.
    pub(crate) fn with_shape(&mut self, line: u32) -> (&mut Line, &Shape) {
        (&mut self.all[line as usize], &self.shape)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Line> {
        self.all.iter()
    }
}

impl std::ops::Index<u32> for Lines {
    type Output = Line;

    #[inline(always)]
    fn index(&self, line: u32) -> &Line {
        &self.all[line as usize]
    }
}

impl std::ops::IndexMut<u32> for Lines {
    #[inline(always)]
    fn index_mut(&mut self, line: u32) -> &mut Line {
        &mut self.all[line as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape { cores: 100, clusters: 2, domains: 2, cluster_of: vec![0; 100], domain_of: vec![1; 100] }
    }

    #[test]
    fn lines_are_numbered_by_first_touch() {
        let mut lines = Lines::new(shape(), 1 << 20, 1 << 16);
        for round in 0..2 {
            for n in 0..10_000 {
                assert_eq!(lines.find(64 * (n * 7 % 10_000) + round, 0), n as u32);
            }
        }
        let inside = lines.find((1 << 20) + 130, 3);
        assert_eq!((lines[inside].place, lines[inside].home), (Place::Arena(2), 3));
    }

    #[test]
    fn sharers_are_counted_by_cluster() {
        let shape = shape();
        let mut sharers = Sharers::default();
        assert!(!sharers.contains(99));
        for core in [0, 99, 99] {
            sharers.add(&shape, core);
        }
        assert_eq!(
            (sharers.count(), sharers.contains(99), sharers.in_domain(1), sharers.in_domain(0)),
            (2, true, true, false)
        );
        assert_eq!(sharers.others(&shape, 0)(0), 1);
        sharers.clear();
        assert_eq!((sharers.count(), sharers.contains(0)), (0, false));
        sharers.add(&shape, 5);
        assert_eq!((sharers.others(&shape, 5)(0), sharers.others(&shape, 6)(0)), (0, 1));
    }
}
