//! A machine as the engine wants it: integers in picoseconds, ratios in 1/1024.
//!
//! Built once from a sheet of a machine and the common one; decimal numbers end here. Costs
//! (`spec/simulation.md` 4.2, 4.3), with L(a, b) the measured transfer from core a to core b:
//!
//! | operation of core c | cost |
//! |---|---|
//! | hit | `l1`; read-modify-write on an owned line: `rmw_own`; line last touched by a sibling thread: `smt` |
//! | load, modified at o | `load_from_modified` × L(o, c) |
//! | load, clean copies | `load_shared_same` × L within the sharing domain, else `load_shared_remote` × L(nearest copy, c); without supply of clean lines, or with a directory in memory: memory |
//! | load, no copy | memory(c, home) |
//! | read-modify-write or store, modified at o | L(o, c), and the home's detour (`directory`) |
//! | the same, shared | `rmw_on_shared` × max L(copy, c) |
//! | any operation | and `instructions` for what surrounds it |
//! | a workload's own code | `workload_code` in each section, and again after each turn |

use std::collections::BTreeMap;

use serde::Serialize;

use super::directory::Directory;
pub use super::distance::Distance;
use super::distance::Reach;
use super::sheet::Quantity;
use super::topology::Topology;
use crate::engine::heap::Ps;

mod build;

/// One in fixed-point ratios.
pub(crate) const ONE: u64 = 1024;

/// Who supplies a line that several cores have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A clean line is forwarded by the core that had it last.
    Mesif,
    /// A dirty line is supplied by its owner, a clean one by memory.
    Moesi,
    /// A clean line is supplied by memory.
    Mesi,
}

/// An idle state.
#[derive(Debug, Clone, Serialize)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// Time to leave it.
    pub exit: Ps,
    /// Shortest stay for which it pays.
    pub residency: Ps,
}

/// Costs of the operating system.
#[derive(Debug, Clone)]
pub(crate) struct Os {
    pub(crate) ctx_switch: Ps,
    pub(crate) wake_waker_side: Ps,
    pub(crate) wake_ipi: Ps,
    pub(crate) futex_wait_entry: Ps,
    pub(crate) futex_wake_call: Ps,
    pub(crate) futex_wake_none: Ps,
    pub(crate) migration_cost: Ps,
    pub(crate) cfs_latency: Ps,
    pub(crate) cfs_min_slice: Ps,
    pub(crate) cfs_wakeup_gran: Ps,
    pub(crate) rr_slice: Ps,
    pub(crate) yield_call: Ps,
    pub(crate) timer_slack: Ps,
    pub(crate) clock_read: Ps,
    pub(crate) tick_read: Ps,
    /// Whether a CPU that runs out of work takes some at once, not only at a tick.
    pub(crate) idle_pulls: bool,
    /// Whether an idle CPU leaves the task that a queue woke last where it is.
    pub(crate) buddies_stay: bool,
    /// What the timer's interrupt takes.
    pub(crate) tick_cost: Ps,
    /// How long its handler keeps what all CPUs share.
    pub(crate) tick_hold: Ps,
    /// Lines of a task and its run queue that a wake-up moves.
    pub(crate) wake_lines: u64,
    pub(crate) poll_wake: Ps,
    pub(crate) polite: Ps,
    /// Whether a wake-up looks for an idle CPU if the task's own is busy.
    pub(crate) idle_search: bool,
    /// Whether an idle CPU wakes when its flags are written, without an interrupt.
    pub(crate) idle_watches: bool,
    pub(crate) tick: Ps,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Model {
    id: String,
    mode: Option<String>,
    name: String,
    topology: Topology,
    idle: Vec<IdleState>,
    quantities: BTreeMap<String, Quantity>,
    /// Numbers that differ from those of the file, by dotted path.
    pub(super) changes: BTreeMap<String, f64>,
    fingerprint: u64,
    /// Whether its kernel serves the earliest eligible virtual deadline first.
    pub(crate) eevdf: bool,
    /// What an interrupt to an idle CPU takes from the sender, beyond the wake-up.
    pub(crate) ipi_send: Ps,
    pub(crate) os: Os,
    pub(crate) protocol: Protocol,
    /// Stores may become visible out of order.
    pub(crate) weak_stores: bool,
    pub(crate) cycle: Ps,
    pub(crate) l1: Ps,
    pub(crate) l3: Ps,
    pub(crate) rmw_own: Ps,
    pub(crate) pause: Ps,
    /// Distance between two polls of a spinning thread.
    pub(crate) poll: Ps,
    /// Spinning threads wait for the line's event, and wake so long after it.
    pub(crate) wfe_wake: Option<Ps>,
    pub(crate) sibling: Ps,
    pub(crate) fill: Ps,
    pub(crate) home_fill: Ps,
    pub(crate) load_from_modified: u64,
    pub(crate) load_shared_same: u64,
    pub(crate) load_shared_remote: u64,
    pub(crate) rmw_on_shared: u64,
    pub(crate) occupancy: u64,
    pub(crate) flight: u64,
    /// The last part of a transfer: the data's way from the old copy.
    pub(crate) data_share: u64,
    /// It is drawn for each request, evenly, from this much below to this much above.
    pub(crate) data_spread: u64,
    /// Share of the loads of a line that its owner has written to, by which the line moves instead
    /// of being shared.
    pub(crate) read_takes: u64,
    /// How often an owner may still use a line that another core's request has been committed for.
    pub(crate) burst_max: u32,
    /// Jitter: transfers are multiplied by ONE ± this, evenly.
    pub(crate) jitter: u64,
    /// Instructions around each memory operation.
    pub(crate) step: Ps,
    /// Instructions of a workload's own code, in a section and after a turn.
    pub(crate) around: Ps,
    pub(crate) store_buffer: usize,
    pub(crate) evict: Ps,
    pub(crate) smt_spin: u64,
    pub(crate) smt_busy: u64,
    clusters: usize,
    pub(crate) cluster_of: Vec<u16>,
    pub(crate) llc_of: Vec<u16>,
    pub(crate) node_of: Vec<u16>,
    /// Transfers between clusters; on the diagonal between two cores of one.
    transfer: Vec<u32>,
    distance: Vec<Distance>,
    pub(crate) reach: Reach,
    /// What the home adds to a way between sockets; the tables have its `read` already.
    pub(crate) directory: Option<Directory>,
    /// Memory latency, by cluster and home node.
    memory: Vec<u32>,
}

impl Model {
    /// L(a, b) between different cores.
    #[inline(always)]
    pub(crate) fn transfer(&self, a: u16, b: u16) -> Ps {
        let (a, b) = (self.cluster_of[usize::from(a)], self.cluster_of[usize::from(b)]);
        self.between(a, b)
    }

    /// L from core `a` to each cluster.
    #[inline(always)]
    pub(crate) fn transfers_from(&self, a: u16) -> &[u32] {
        let first = usize::from(self.cluster_of[usize::from(a)]) * self.clusters;
        &self.transfer[first..first + self.clusters]
    }

    /// L between two clusters.
    #[inline(always)]
    pub(crate) fn between(&self, a: u16, b: u16) -> Ps {
        Ps::from(self.transfer[usize::from(a) * self.clusters + usize::from(b)])
    }

    /// The class of the distance between two cores.
    #[inline(always)]
    pub(crate) fn distance(&self, a: u16, b: u16) -> Distance {
        if a == b {
            return Distance::Sibling;
        }
        let (a, b) = (self.cluster_of[usize::from(a)], self.cluster_of[usize::from(b)]);
        self.distance[usize::from(a) * self.clusters + usize::from(b)]
    }

    /// What a load from memory costs.
    #[inline(always)]
    pub(crate) fn memory(&self, core: u16, home: u16) -> Ps {
        let cluster = usize::from(self.cluster_of[usize::from(core)]);
        Ps::from(self.memory[cluster * self.topology.nodes + usize::from(home)])
    }

    /// The machine's id, with its mode: `epyc9654_2s:nps4`.
    pub fn label(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{}:{mode}", self.id),
            None => self.id.clone(),
        }
    }

    /// What it is, in one line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its shape.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its idle states, the shallowest first.
    pub fn idle_states(&self) -> &[IdleState] {
        &self.idle
    }

    /// Every number of the machine and of what all machines share, by dotted path.
    pub fn quantities(&self) -> &BTreeMap<String, Quantity> {
        &self.quantities
    }

    /// The numbers that were changed, by dotted path: see [`super::catalog::with`].
    pub fn changes(&self) -> &BTreeMap<String, f64> {
        &self.changes
    }

    /// The least time that a fair task runs before another of its CPU has its turn, ns: slices end
    /// at ticks.
    pub fn slice_ns(&self) -> u64 {
        self.os.cfs_min_slice.next_multiple_of(self.os.tick.max(1)) / 1_000
    }

    /// A digest of everything that decides results: names a machine file's version.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Measured transfer between two cores, in nanoseconds; zero for a core and itself.
    pub fn transfer_ns(&self, a: usize, b: usize) -> f64 {
        if a == b { 0.0 } else { self.transfer(a as u16, b as u16) as f64 / 1e3 }
    }

    /// What one PAUSE takes, in nanoseconds.
    pub fn pause_ns(&self) -> f64 {
        self.pause as f64 / 1e3
    }

    fn digest(&self) -> u64 {
        let mut text = self.label();
        for (path, quantity) in &self.quantities {
            text.push_str(&format!(";{path}={}{}", quantity.value, quantity.unit));
        }
        text.push_str(&format!(";{:?};{:?};{:?}", self.topology, self.transfer, self.idle));
        text.push_str(&format!(";{:?};{:?};{}", self.os, self.protocol, self.weak_stores));
        if let Some(directory) = &self.directory {
            text.push_str(&format!(";{directory:?}"));
        }
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }
}
