//! `lockyard hq`: what hierarchical spinlocks do on this machine, and what is set for them.
//!
//! A short contended run of one workload, then three things: the settings in force, the pool of
//! records with what all locks of the process did in the window, and the hand-overs of each lock
//! that was in hierarchical mode when the window closed.

use std::collections::BTreeMap;

use lockyard::event::Event;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::spin::hq::Tunable;
use lockyard::spin::hq::pool::{RECORDS, lane_count};
use lockyard_work::record::LockStatistics;
use lockyard_work::{Candidate, Record, Spec};
use serde::Serialize;

use crate::bench::Sweep;
use crate::cli::HqArgs;
use crate::failure::Failure;
use crate::machine::MachineFacts;
use crate::run::warmup;
use crate::selection::{self, Wanted};
use crate::values::seconds;

/// The lock that keeps these statistics: by its own name, or inside another one.
const KEEPER: &str = "hq-spinlock";

/// Options of `lockyard hq`.
#[derive(Debug)]
pub(crate) struct HqOptions {
    candidate: &'static Candidate,
    spec: Spec,
    /// Whether stdout gets JSON.
    pub(crate) json: bool,
}

/// What `lockyard hq` shows.
#[derive(Debug, Serialize)]
pub(crate) struct Stat {
    /// The machine.
    pub(crate) machine: MachineFacts,
    /// What was run.
    #[serde(skip)]
    pub(crate) spec: Spec,
    /// What is set.
    pub(crate) tunables: Vec<Setting>,
    /// The records of the process, and what its locks did in the window.
    pub(crate) pool: PoolStatistics,
    /// Each lock that was in hierarchical mode when the window closed.
    pub(crate) locks: Vec<LockStatistics>,
    /// The run.
    pub(crate) record: Record,
}

/// One tunable in force.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// The environment variable that sets it.
    pub(crate) variable: &'static str,
    pub(crate) value: u32,
    pub(crate) default: u32,
    /// The largest value that is accepted; the least is 0.
    pub(crate) most: u32,
}

/// The pool of records, and what all locks did together.
#[derive(Debug, Serialize)]
pub(crate) struct PoolStatistics {
    /// Records there are.
    pub(crate) records: usize,
    /// Lanes a lock gets.
    pub(crate) lanes: u32,
    /// Locks in hierarchical mode when the window closed.
    pub(crate) in_use: usize,
    /// The most there were at a time, in the whole run.
    pub(crate) most_in_use: u32,
    /// The events of hierarchical locks, zeros included.
    pub(crate) events: BTreeMap<&'static str, u64>,
}

/// All settings in force.
pub(crate) fn settings() -> Vec<Setting> {
    let tunables = Linux::commons().pool.tunables();
    let setting = |&one: &Tunable| Setting {
        name: one.name(),
        variable: one.variable(),
        value: tunables.get(one),
        default: one.default(),
        most: one.most(),
    };
    Tunable::ALL.iter().map(setting).collect()
}

/// The settings that are not at their defaults, in one line for people: what a table of
/// hierarchical locks must say.
pub(crate) fn settings_line() -> String {
    let changed: Vec<String> = settings()
        .iter()
        .filter(|setting| setting.value != setting.default)
        .map(|setting| format!("{} {} (default {})", setting.name, setting.value, setting.default))
        .collect();
    let what = if changed.is_empty() { "all at their defaults".to_owned() } else { changed.join(", ") };
    format!("hq-spinlock tunables: {what}")
}

/// Names of the events of hierarchical locks, in their order.
pub(crate) fn hierarchical_events() -> impl Iterator<Item = &'static str> {
    Event::ALL.iter().map(|event| event.name()).filter(|name| name.starts_with("hq_"))
}

/// Whether the lock with this label is hierarchical.
pub(crate) fn is_hierarchical(label: &str) -> bool {
    label == KEEPER || label.ends_with(":hq-spinlock")
}

impl HqOptions {
    /// Checks the arguments of `lockyard hq` against the locks there are.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &HqArgs, all: &'static [Candidate]) -> Result<Self, Failure> {
        let wanted = Wanted { lock: Some(&args.lock), peer: "none", policy: None, family: None };
        let groups = selection::choose(all, wanted)?;
        let others = groups.iter().flat_map(|group| &group.candidates).find(|lock| !is_hierarchical(&lock.label()));
        if let Some(other) = others {
            return Err(Failure::usage(format!(
                "--lock: '{}' keeps no statistics; choose {KEEPER} or lockref:{KEEPER}",
                other.label()
            )));
        }
        let window = seconds("--secs", &args.secs, 0.001, 3600.0)?;
        let cells = Sweep::check(&args.sweep, window, warmup(window))?.cells(&groups, 1)?;
        let [cell] = cells.as_slice() else {
            return Err(Failure::usage(format!("hq shows one run; {} were chosen, shorten the lists", cells.len())));
        };
        let [candidate] = cell.candidates.as_slice() else {
            return Err(Failure::usage(format!("--lock: hq shows one lock; {} were chosen", cell.candidates.len())));
        };
        let mut spec = cell.spec.clone();
        if args.sweep.threads.is_none() && spec.threads > 1 {
            spec.threads = spec.threads.max(THREADS);
        }
        Ok(Self { candidate, spec, json: args.json })
    }
}

/// Threads, if the user names no number: enough for several waiters on each of a few nodes.
const THREADS: usize = 16;

/// Runs the workload.
///
/// # Errors
/// The lock does not exclude, or the machine refuses threads.
pub(crate) fn run(options: &HqOptions, machine: MachineFacts) -> Result<Stat, Failure> {
    let pool = Linux::commons().pool;
    pool.most_in_use(); // begins anew
    let mut record = options.candidate.measure(&options.spec).map_err(|error| Failure::run(error.to_string()))?;
    let locks = std::mem::take(&mut record.locks);
    let lanes = lane_count(pool);
    let count = |name: &'static str| (name, record.events.get(name).copied().unwrap_or(0));
    let events = hierarchical_events().map(count).collect();
    let pool = PoolStatistics { records: RECORDS, lanes, in_use: locks.len(), most_in_use: pool.most_in_use(), events };
    Ok(Stat { machine, spec: options.spec.clone(), tunables: settings(), pool, locks, record })
}
