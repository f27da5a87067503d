//! The event queue: what happens next, and in which order.
//!
//! A 4-ary heap keyed by (time, sequence number). The sequence number is handed out in the order of
//! insertion, so events at one time happen in the order in which they were scheduled: a total
//! order, the same on every host. Four children to a node halve the depth of a binary heap and fit
//! two cache lines; with a few hundred entries a push or a pop costs 10 to 20 ns.
//!
//! Events are never removed: what they refer to carries a generation number, and an event with an
//! old one is ignored when it comes up.

/// Simulated time in picoseconds.
pub(crate) type Ps = u64;

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A task goes on: its computation, its fill or its poll is due.
    Task { task: u32, stamp: u32 },
    /// The request in flight on a line has reached the other copies.
    Commit { line: u32, stamp: u32 },
    /// The request in flight on a line is granted.
    Grant { line: u32, stamp: u32 },
    /// A CPU has finished switching to its current task.
    Switched { cpu: u32, stamp: u32 },
    /// A CPU's scheduler tick.
    Tick { cpu: u32 },
    /// The timers of all CPUs.
    Ticks,
    /// A sleeping task's timer.
    Timer { task: u32, stamp: u32 },
    /// A spinning task's patience is spent.
    SpinLimit { task: u32, stamp: u32 },
    /// A wake-up reaches the target's run queue.
    Wake { task: u32 },
    /// A task that was asked to give way politely is preempted.
    Force { cpu: u32, stamp: u32 },
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The time, and below it the sequence number: one comparison without a branch.
    key: u128,
    what: What,
}

impl Entry {
    #[inline(always)]
    fn new(time: Ps, sequence: u64, what: What) -> Self {
        Self { key: u128::from(time) << 64 | u128::from(sequence), what }
    }

    #[inline(always)]
    fn time(&self) -> Ps {
        (self.key >> 64) as Ps
    }

    #[inline(always)]
    fn before(&self, other: &Self) -> bool {
        self.key < other.key
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
    sequence: u64,
}

const CHILDREN: usize = 4;

impl Heap {
    /// The time of the next event; `Ps::MAX` if there is none.
    #[inline(always)]
    pub(crate) fn next_time(&self) -> Ps {
        self.entries.first().map_or(Ps::MAX, Entry::time)
    }

    /// Whether nothing is due, ever.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Schedules `what` at `time`, after everything scheduled for that time so far.
    #[inline]
    pub(crate) fn push(&mut self, time: Ps, what: What) {
        let entry = Entry::new(time, self.sequence, what);
        self.sequence += 1;
        let hole = self.entries.len();
        self.entries.push(entry);
        self.rise(hole, entry);
    }

    /// Puts `entry` where the hole is, or nearer to the front.
    #[inline(always)]
    fn rise(&mut self, mut hole: usize, entry: Entry) {
        while hole > 0 {
            let parent = self.entries[(hole - 1) / CHILDREN];
            if !entry.before(&parent) {
                break;
            }
            self.entries[hole] = parent;
            hole = (hole - 1) / CHILDREN;
        }
        self.entries[hole] = entry;
    }

    /// Takes the next event out.
    ///
    /// The hole goes down to a leaf before the last entry, which most often belongs there, is put
    /// in: it is not compared on the way.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Ps, What)> {
        let last = self.entries.pop()?;
        let Some(&first) = self.entries.first() else { return Some((last.time(), last.what)) };
        let mut hole = 0;
        loop {
            let from = hole * CHILDREN + 1;
            let Some(children) = self.entries.get(from..) else { break };
            let (least, entry) = match children.first_chunk::<CHILDREN>() {
                Some([a, b, c, d]) => {
                    let (left, one) = if b.before(a) { (1, b) } else { (0, a) };
                    let (right, two) = if d.before(c) { (3, d) } else { (2, c) };
                    if two.before(one) { (right, *two) } else { (left, *one) }
                }
                None => match children.iter().enumerate().min_by_key(|(_, entry)| entry.key) {
                    Some((index, entry)) => (index, *entry),
                    None => break,
                },
            };
            self.entries[hole] = entry;
            hole = from + least;
        }
        self.rise(hole, last);
        Some((first.time(), first.what))
    }

    /// How many events were ever scheduled.
    pub(crate) fn scheduled(&self) -> u64 {
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::random::Random;

    #[test]
    fn events_come_out_by_time_and_then_in_order_of_insertion() {
        let mut heap = Heap::default();
        let mut random = Random::new(1, 0);
        for task in 0..5_000 {
            heap.push(random.below(200).into(), What::Wake { task });
        }
        let mut last = (0, 0);
        while let Some((time, What::Wake { task })) = heap.pop() {
            assert!(last <= (time, task));
            last = (time, task);
        }
        assert_eq!(heap.scheduled(), 5_000);
    }
}
