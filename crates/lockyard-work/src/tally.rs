//! What was counted in a run's window: by each thread, by the locks, in all.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::Histogram;
use crate::machine::Usage;

/// What a locking thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads and writes as it comes.
    Both,
    /// Reads for life.
    Reader,
    /// Writes for life.
    Writer,
}

/// What one thread did in the window.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) role: Role,
    /// Read turns begun and ended before the window closed.
    pub(crate) reads: u64,
    /// Write turns, likewise.
    pub(crate) writes: u64,
    /// Waits that ended in the window, and the one that was open when it closed.
    pub(crate) waits: Histogram,
    /// Whatever larger unit the workload counts.
    pub(crate) jobs: u64,
    /// From the window's beginning until the thread was done with its work, ns.
    pub(crate) took: u64,
    /// Lengths of batches, for workloads that time those.
    pub(crate) batches: Vec<u64>,
    /// Sections that found somebody else inside, in the whole run.
    pub(crate) torn: u64,
    /// Write sections in the whole run.
    pub(crate) writes_made: i64,
}

impl Tally {
    /// All turns.
    pub(crate) fn turns(&self) -> u64 {
        self.reads + self.writes
    }
}

/// What is counted of a workload's lock. Hierarchical spinlocks count themselves, since they last
/// entered hierarchical mode and as long as they are in it: hand-overs to the same node (`local`)
/// and to another one (`remote`). `replay` counts in the window, of all locks of a class:
/// `acquisitions`, `reads`, `waited_ns`; in a simulation `held_ns`, of that `moved_ns`, what its
/// lines took, and `released_ns`, what giving it back took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockStatistics {
    /// The lock's number in the workload; in `replay` that of its class.
    pub lock: usize,
    /// The counts, by name.
    pub numbers: BTreeMap<&'static str, u64>,
}

/// What a run yields, before it is made a record.
#[derive(Debug)]
pub(crate) struct Run {
    /// Length of the window as it was.
    pub(crate) window_ns: u64,
    /// One per thread.
    pub(crate) tallies: Vec<Tally>,
    /// Lock events in the window.
    pub(crate) events: BTreeMap<String, u64>,
    /// What locks counted of themselves when the window closed.
    pub(crate) locks: Vec<LockStatistics>,
    /// Resources used in the window.
    pub(crate) usage: Usage,
    /// What this workload alone can say.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// Measured cost of one operation, where the window's length does not tell.
    pub(crate) ns_per_op: Option<f64>,
}

impl Run {
    /// Turns of all threads.
    pub(crate) fn turns(&self) -> u64 {
        self.tallies.iter().map(Tally::turns).sum()
    }

    /// Adds what only this workload can say.
    pub(crate) fn say(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.to_owned(), value);
    }
}
