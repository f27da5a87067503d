//! Several locks on one cell, measured in turn and reduced to medians.
//!
//! A machine's speed drifts while one measures. So the locks take turns round by round (A B C, B C
//! A, …; where a round begins depends on the seed), every lock meets every mood of the machine, and
//! what is reported are medians over rounds and ratios between them. Every lock of a round gets the
//! same random draws, every round others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::catalog::Candidate;
use crate::error::Error;
use crate::record::Record;
use crate::spec::Spec;
use crate::statistics::{median, spread};
use crate::subject::{Family, Origin, by_name};

/// Told before each measurement.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Measurements done.
    pub done: usize,
    /// Measurements planned.
    pub planned: usize,
    /// The round, from 0.
    pub round: usize,
    /// The lock about to be measured.
    pub candidate: &'a Candidate,
}

/// What came out of the rounds.
#[derive(Debug, Default)]
pub struct Report {
    /// One per candidate that has at least one record, in the order given.
    pub summaries: Vec<Summary>,
    /// All records, in the order measured.
    pub records: Vec<Record>,
    /// Candidates that failed, and why. They are not measured again.
    pub failures: Vec<(String, Error)>,
    /// Whether all was measured that was planned; `false` after a stop.
    pub complete: bool,
}

/// A candidate's medians over the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The lock's name.
    pub lock: &'static str,
    /// Its policy, if it comes in several.
    pub policy: Option<&'static str>,
    /// Which locks it is compared with.
    #[serde(serialize_with = "by_name")]
    pub family: Family,
    /// Who made it.
    pub origin: Origin,
    /// Rounds that it was measured in.
    pub rounds: usize,
    /// Median of thousand operations per second.
    pub kops_per_s: f64,
    /// Median cost of an operation.
    pub ns_per_op: f64,
    /// (fastest round − slowest round) / median.
    pub spread: f64,
    /// Its median of kops/s to that of the [best peer](best_peer). `None` if there is none.
    pub ratio_to_best_peer: Option<f64>,
    /// Median of the fairness factor.
    pub fairness: f64,
    /// Median of threads without a turn, and the worst round's.
    pub idle_threads: f64,
    /// Threads without a turn in the worst round.
    pub worst_idle_threads: usize,
    /// Median of the 50th percentile of waits, ns.
    pub wait_p50: f64,
    /// Median of the 99th percentile of waits, ns.
    pub wait_p99: f64,
    /// Median of the 99.9th percentile of waits, ns.
    pub wait_p999: f64,
    /// Median over rounds of the longest wait, ns.
    pub wait_max: f64,
    /// The longest wait of all rounds, ns.
    pub worst_wait: u64,
    /// Per role: median of operations per second and of the longest wait.
    pub roles: Vec<RoleSummary>,
    /// Median of the share of CPU time used.
    pub busy: f64,
    /// Median of the share of CPU time that other programs took.
    pub others: f64,
    /// Medians of what the workload alone can say.
    pub metrics: BTreeMap<String, f64>,
    /// Lock events per thousand operations, over all rounds.
    pub events_per_kop: BTreeMap<String, f64>,
    /// Lock events of all rounds.
    pub events: BTreeMap<String, u64>,
}

/// One role's medians.
#[derive(Debug, Clone, Serialize)]
pub struct RoleSummary {
    /// `readers` or `writers`.
    pub role: &'static str,
    /// Median of operations per second of the whole role.
    pub ops_per_s: f64,
    /// Median over rounds of the longest wait, ns.
    pub wait_max: f64,
    /// The longest wait of all rounds, ns.
    pub worst_wait: u64,
    /// Threads without a turn in the worst round.
    pub worst_idle_threads: usize,
}

/// Measures `candidates` on `spec`, `rounds` times each, in turn.
///
/// `progress` is told before each measurement. When `stop` is set the measurement under way is the
/// last; what was measured until then is reported.
///
/// # Errors
/// No candidate, no round, or a cell that makes no sense or that a candidate cannot run. A
/// candidate that fails while it runs is reported, and the others go on.
pub fn run(
    candidates: &[&Candidate],
    spec: &Spec,
    rounds: usize,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, Error> {
    if candidates.is_empty() {
        return Err(Error::Spec("no lock to measure".to_owned()));
    }
    if rounds == 0 {
        return Err(Error::Spec("rounds: at least 1 is needed, 0 given".to_owned()));
    }
    for candidate in candidates {
        candidate.check(spec)?;
    }
    let planned = candidates.len() * rounds;
    let mut report = Report::default();
    let mut by_candidate: Vec<Vec<Record>> = candidates.iter().map(|_| Vec::new()).collect();
    let mut failed = vec![false; candidates.len()];
    let mut done = 0;
    'rounds: for round in 0..rounds {
        for position in order(candidates.len(), round, spec.seed) {
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            let candidate = candidates[position];
            progress(Progress { done, planned, round, candidate });
            done += 1;
            if failed[position] {
                continue;
            }
            let spec = Spec { seed: spec.seed.wrapping_add(round as u64), ..spec.clone() };
            match candidate.measure(&spec) {
                Ok(record) => {
                    report.records.push(record.clone());
                    by_candidate[position].push(record);
                }
                Err(error) => {
                    failed[position] = true;
                    report.failures.push((candidate.label(), error));
                }
            }
        }
    }
    report.complete = done == planned;
    report.summaries = summarise(candidates, &by_candidate, spec.lockers() == 1);
    Ok(report)
}

/// The order of a round: as given, begun at another candidate each round.
fn order(n: usize, round: usize, seed: u64) -> impl Iterator<Item = usize> {
    let first = ((seed % n as u64) as usize + round) % n;
    (0..n).map(move |step| (first + step) % n)
}

/// The fastest of the peers that left no thread without a turn: the others run fewer threads.
/// `alone`: one thread, where it is simply the fastest.
pub fn best_peer(summaries: &[Summary], alone: bool) -> Option<&Summary> {
    let fair = |peer: &&Summary| alone || peer.worst_idle_threads == 0;
    let peers = summaries.iter().filter(|peer| peer.origin == Origin::Peer && peer.kops_per_s > 0.0);
    peers.filter(fair).max_by(|a, b| a.kops_per_s.total_cmp(&b.kops_per_s))
}

fn summarise(candidates: &[&Candidate], by_candidate: &[Vec<Record>], alone: bool) -> Vec<Summary> {
    let measured = candidates.iter().zip(by_candidate).filter(|(_, records)| !records.is_empty());
    let mut summaries: Vec<Summary> = measured.map(|(candidate, records)| Summary::of(candidate, records)).collect();
    if let Some(best) = best_peer(&summaries, alone).map(|best| best.kops_per_s) {
        for summary in &mut summaries {
            summary.ratio_to_best_peer = Some(summary.kops_per_s / best);
        }
    }
    summaries
}

impl Summary {
    /// The lock's name with its policy: `rwsem:today`.
    pub fn label(&self) -> String {
        match self.policy {
            Some(policy) => format!("{}:{policy}", self.lock),
            None => self.lock.to_owned(),
        }
    }

    /// The medians of `records`, of which there is at least one. The ratio is not known yet.
    fn of(candidate: &Candidate, records: &[Record]) -> Self {
        let middle = |field: fn(&Record) -> f64| median(&records.iter().map(field).collect::<Vec<_>>());
        let rates: Vec<f64> = records.iter().map(|record| record.kops_per_s).collect();
        let mut events: BTreeMap<String, u64> = BTreeMap::new();
        for (name, count) in records.iter().flat_map(|record| &record.events) {
            let sum = events.entry(name.clone()).or_default();
            *sum = sum.wrapping_add(*count);
        }
        let operations: u64 = records.iter().map(|record| record.operations).sum();
        let per_kop = |(name, &count): (&String, &u64)| {
            // Sums are modulo 2⁶⁴: one event is counted down as well as up.
            (name.clone(), count as i64 as f64 * 1e3 / operations.max(1) as f64)
        };
        Self {
            lock: candidate.name,
            policy: candidate.policy,
            family: candidate.family,
            origin: candidate.origin,
            rounds: records.len(),
            kops_per_s: median(&rates),
            ns_per_op: middle(|record| record.ns_per_op),
            spread: spread(&rates),
            ratio_to_best_peer: None,
            fairness: middle(|record| record.fairness),
            idle_threads: middle(|record| record.idle_threads as f64),
            worst_idle_threads: records.iter().map(|record| record.idle_threads).max().unwrap_or(0),
            wait_p50: middle(|record| record.wait.p50 as f64),
            wait_p99: middle(|record| record.wait.p99 as f64),
            wait_p999: middle(|record| record.wait.p999 as f64),
            wait_max: middle(|record| record.wait.max as f64),
            worst_wait: records.iter().map(|record| record.wait.max).max().unwrap_or(0),
            roles: RoleSummary::all(records),
            busy: middle(|record| record.busy),
            others: middle(|record| record.others),
            metrics: metrics(records),
            events_per_kop: events.iter().map(per_kop).collect(),
            events,
        }
    }
}

impl RoleSummary {
    fn all(records: &[Record]) -> Vec<Self> {
        let names = records[0].per_role.iter().map(|role| role.role);
        names.map(|name| Self::of(name, records)).collect()
    }

    fn of(name: &'static str, records: &[Record]) -> Self {
        let members = || {
            records.iter().flat_map(|record| {
                record.per_role.iter().filter(|role| role.role == name).map(move |role| (record, role))
            })
        };
        let rate = |(record, role): (&Record, &crate::record::RoleRecord)| {
            role.operations as f64 * 1e9 / record.duration_ns as f64
        };
        Self {
            role: name,
            ops_per_s: median(&members().map(rate).collect::<Vec<_>>()),
            wait_max: median(&members().map(|(_, role)| role.wait.max as f64).collect::<Vec<_>>()),
            worst_wait: members().map(|(_, role)| role.wait.max).max().unwrap_or(0),
            worst_idle_threads: members().map(|(_, role)| role.idle_threads).max().unwrap_or(0),
        }
    }
}

fn metrics(records: &[Record]) -> BTreeMap<String, f64> {
    let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, value) in records.iter().flat_map(|record| &record.metrics) {
        values.entry(name).or_default().push(*value);
    }
    values.into_iter().map(|(name, values)| (name.clone(), median(&values))).collect()
}
