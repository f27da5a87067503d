//! The measurement record: one run of one workload on one lock, the same for real and simulated
//! machines.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::histogram::Histogram;
use crate::machine::Machine;
use crate::spec::{Mix, Spec, ThinkShape, Workload};
use crate::statistics::{Range, fairness};
use crate::subject::{Family, Label, Origin, by_name};
use crate::tally::{Role, Run, Tally};

pub use crate::tally::LockStatistics;

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// The machine, in one line.
    pub machine: String,
    /// The lock's name.
    pub lock: String,
    /// Its policy, if it comes in several.
    pub policy: Option<String>,
    /// Which locks it is compared with.
    #[serde(serialize_with = "by_name")]
    pub family: Family,
    /// Who made it.
    pub origin: Origin,
    /// What was run.
    pub workload: Workload,
    /// Locking threads.
    pub threads: usize,
    /// PAUSEs inside the section.
    pub cs: u32,
    /// Sleep inside the section, ns.
    pub cs_sleep_ns: u64,
    /// Lines of data that each section touched besides the check's.
    pub lines: u32,
    /// PAUSEs between two sections; their mean, if they were drawn.
    pub think: u32,
    /// How the times between two sections were spread.
    pub think_shape: ThinkShape,
    /// Reads in 100 operations, if operations draw. A whole number is written as one.
    #[serde(serialize_with = "percent")]
    pub read_pct: f64,
    /// How reads and writes were mixed.
    pub mix: Mix,
    /// Jobs of each thread; 0 where a window was measured.
    pub jobs: u32,
    /// Seed of the random draws.
    pub seed: u64,
    /// What one PAUSE took, ns.
    pub pause_ns: f64,
    /// Length of the window, ns, as it was.
    pub duration_ns: u64,
    /// Acquire-release pairs completed in the window.
    pub operations: u64,
    /// Of which reads.
    pub reads: u64,
    /// Of which writes.
    pub writes: u64,
    /// Thousand operations per second.
    pub kops_per_s: f64,
    /// Window by operations; in `uncontended` the median over batches. Zero if there was no
    /// operation.
    pub ns_per_op: f64,
    /// Operations per thread.
    pub per_thread: Range,
    /// The same per role, where threads have roles.
    pub per_role: Vec<RoleRecord>,
    /// Share of the busier half of the threads, 0.5 to 1.
    pub fairness: f64,
    /// Threads without a single operation.
    pub idle_threads: usize,
    /// Waiting times, from the call to the first instruction inside.
    pub wait: Waits,
    /// Share of the machine's CPU time that was used in the window, 0 to 1. Zero if the machine
    /// does not say.
    pub busy: f64,
    /// Share of the machine's CPU time that went to other programs, 0 to 1. To within a few per
    /// cent; where it is not small, the numbers are not worth much.
    pub others: f64,
    /// Context switches to wait.
    pub voluntary_switches: u64,
    /// Context switches by preemption.
    pub involuntary_switches: u64,
    /// What this workload alone can say, by name.
    pub metrics: BTreeMap<String, f64>,
    /// Lock events in the window that were not zero. Empty for peers.
    pub events: BTreeMap<String, u64>,
    /// Locks of the workload that counted something of themselves when the window closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockStatistics>,
    /// Operations of each thread.
    pub counts: Vec<u64>,
}

/// Waiting times, ns. Those still open when the window closed count as far as they had come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Half of the waits were shorter.
    pub p50: u64,
    /// 99 % of the waits were shorter.
    pub p99: u64,
    /// 99.9 % of the waits were shorter.
    pub p999: u64,
    /// The longest wait, exactly.
    pub max: u64,
}

impl Waits {
    fn of(waits: &Histogram) -> Self {
        Self { p50: waits.quantile(0.5), p99: waits.quantile(0.99), p999: waits.quantile(0.999), max: waits.longest() }
    }
}

/// What the threads of one role did.
#[derive(Debug, Clone, Serialize)]
pub struct RoleRecord {
    /// `readers` or `writers`.
    pub role: &'static str,
    /// How many there were.
    pub threads: usize,
    /// Their operations.
    pub operations: u64,
    /// Operations per thread.
    pub per_thread: Range,
    /// Share of their busier half.
    pub fairness: f64,
    /// Those without a single operation.
    pub idle_threads: usize,
    /// Their waiting times.
    pub wait: Waits,
}

impl RoleRecord {
    fn of(role: &'static str, tallies: &[&Tally]) -> Self {
        let crowd = Crowd::of(tallies.iter().copied());
        Self {
            role,
            threads: tallies.len(),
            operations: crowd.counts.iter().sum(),
            per_thread: Range::of(&crowd.counts),
            fairness: fairness(&crowd.counts),
            idle_threads: crowd.idle(),
            wait: Waits::of(&crowd.waits),
        }
    }
}

/// Several threads taken together.
struct Crowd {
    counts: Vec<u64>,
    waits: Histogram,
}

impl Crowd {
    fn of<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Self {
        let mut crowd = Self { counts: Vec::new(), waits: Histogram::default() };
        for tally in tallies {
            crowd.counts.push(tally.turns());
            crowd.waits.merge(&tally.waits);
        }
        crowd
    }

    fn idle(&self) -> usize {
        self.counts.iter().filter(|&&count| count == 0).count()
    }
}

impl Record {
    /// The record of `run`.
    #[inline(never)] // one copy, not one per lock
    pub(crate) fn of<M: Machine>(label: &Label, spec: &Spec, run: Run) -> Self {
        let crowd = Crowd::of(run.tallies.iter());
        let operations: u64 = crowd.counts.iter().sum();
        let window = run.window_ns as f64;
        let cpu_time = window * f64::from(M::cpus().max(1));
        let ns_per_op = run.ns_per_op.unwrap_or(if operations == 0 { 0.0 } else { window / operations as f64 });
        Self {
            machine: M::describe(),
            lock: label.name.to_owned(),
            policy: label.policy.map(str::to_owned),
            family: label.family,
            origin: label.origin,
            workload: spec.workload,
            threads: run.tallies.len(),
            cs: spec.cs,
            cs_sleep_ns: spec.cs_sleep.as_nanos() as u64,
            lines: spec.lines,
            think: spec.think,
            think_shape: spec.think_shape,
            read_pct: spec.read_pct,
            mix: spec.mix,
            jobs: spec.jobs,
            seed: spec.seed,
            pause_ns: M::pause_ns(),
            duration_ns: run.window_ns,
            operations,
            reads: run.tallies.iter().map(|tally| tally.reads).sum(),
            writes: run.tallies.iter().map(|tally| tally.writes).sum(),
            kops_per_s: if ns_per_op == 0.0 { 0.0 } else { 1e6 / ns_per_op },
            ns_per_op,
            per_thread: Range::of(&crowd.counts),
            per_role: roles(&run.tallies),
            fairness: fairness(&crowd.counts),
            idle_threads: crowd.idle(),
            wait: Waits::of(&crowd.waits),
            busy: run.usage.cpu_ns as f64 / cpu_time,
            others: run.usage.others_ns() as f64 / cpu_time,
            voluntary_switches: run.usage.voluntary_switches,
            involuntary_switches: run.usage.involuntary_switches,
            metrics: run.metrics,
            events: if label.origin == Origin::Lockyard { run.events } else { BTreeMap::new() },
            locks: run.locks,
            counts: crowd.counts,
        }
    }

    /// The lock's name with its policy: `rwsem:today`.
    pub fn label(&self) -> String {
        match &self.policy {
            Some(policy) => format!("{}:{policy}", self.lock),
            None => self.lock.clone(),
        }
    }
}

/// A percentage as JSON: whole ones without a point, as they were before there were others.
///
/// # Errors
/// Those of `serializer`.
pub fn percent<S: Serializer>(percent: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if percent.fract() == 0.0 { serializer.serialize_u64(*percent as u64) } else { serializer.serialize_f64(*percent) }
}

fn roles(tallies: &[Tally]) -> Vec<RoleRecord> {
    let of = |name, role| {
        let members: Vec<&Tally> = tallies.iter().filter(|tally| tally.role == role).collect();
        (!members.is_empty()).then(|| RoleRecord::of(name, &members))
    };
    [of("readers", Role::Reader), of("writers", Role::Writer)].into_iter().flatten().collect()
}
