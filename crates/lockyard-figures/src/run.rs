//! Runs the jobs of figures, each once per variant, on as many host threads as there are.
//!
//! Runs are independent and each is deterministic, so the result does not depend on the number of
//! workers or on who runs what: outcomes are gathered by position. Long jobs go first, so that the
//! end is not one worker's alone.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use lockyard::platform::Platform;
use lockyard::spin::hq::Tunable;
use lockyard_sim::Sim;
use lockyard_sim::report::Report;
use lockyard_work::simulated::{LOCKS, STAND_INS, session};
use lockyard_work::{Record, Spec};
use rayon::prelude::*;

use crate::error::Error;
use crate::kind::{code_size, spin_loop};
use crate::plan::{Job, Outcome, Shape};
use crate::variant::{Machines, Variant};

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Host threads; zero means as many as there are CPUs.
    pub workers: usize,
    /// Seeds per placement.
    pub seeds: u64,
    /// Whether the ends of ranges are run, too.
    pub ranges: bool,
    /// Numbers of all machines that are changed, by path. A machine that does not have the number
    /// keeps its own.
    pub changes: Vec<(String, f64)>,
    /// The most simulated time of a window; longer ones are cut. For tests.
    pub longest: Option<std::time::Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self { workers: 0, seeds: 2, ranges: true, changes: Vec::new(), longest: None }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Share that is done, 0 to 1.
    pub share: f64,
    /// What has just been done.
    pub job: &'a str,
}

/// Outcomes of one job, variant by variant; `None` where the run was stopped before it.
pub(crate) type Outcomes = Vec<Option<Result<Outcome, String>>>;

/// Runs `jobs`, each once per variant.
pub(crate) fn run(
    jobs: &[Job],
    variants: &[Variant],
    options: &Options,
    progress: &(dyn Fn(Progress<'_>) + Sync),
    stop: &AtomicBool,
) -> Result<Vec<Outcomes>, Error> {
    let machines = machines(jobs, &options.changes)?;
    let mut tasks: Vec<(usize, usize)> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        tasks.extend((0..runs_of(job, variants)).map(|variant| (number, variant)));
    }
    let weight = |task: &(usize, usize)| jobs[task.0].weight();
    tasks.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.cmp(b)));
    let total: f64 = tasks.iter().map(weight).sum();
    let done = Mutex::new(0.0);
    let one = |task: &(usize, usize)| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let outcome = run_one(&jobs[task.0], &variants[task.1], &machines, options);
        if let Ok(mut done) = done.lock() {
            *done += weight(task);
            progress(Progress { share: *done / total, job: &jobs[task.0].title() });
        }
        Some(outcome)
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.workers).build();
    let pool = pool.map_err(|error| Error::Workers(format!("no worker threads: {error}")))?;
    let gathered: Vec<_> = pool.install(|| tasks.par_iter().with_max_len(1).map(one).collect());
    let mut outcomes: Vec<Outcomes> = jobs.iter().map(|job| vec![None; runs_of(job, variants)]).collect();
    for (task, outcome) in tasks.iter().zip(gathered) {
        outcomes[task.0][task.1] = outcome;
    }
    Ok(outcomes)
}

/// How often a job runs. Its variants are the first of all.
fn runs_of(job: &Job, variants: &[Variant]) -> usize {
    variants.iter().filter(|variant| job.takes(variant)).count().max(1)
}

fn machines(jobs: &[Job], changes: &[(String, f64)]) -> Result<BTreeMap<&'static str, Machines>, Error> {
    let mut machines = BTreeMap::new();
    for job in jobs {
        if let Job::Workload { machine, .. } | Job::SpinLoop { machine } = job
            && !machines.contains_key(machine)
        {
            machines.insert(*machine, Machines::build(machine, changes)?);
        }
    }
    let nobody_has = |path: &str| !machines.values().any(|machine| machine.has(path));
    if let Some((path, _)) = changes.iter().find(|(path, _)| nobody_has(path)) {
        return Err(Error::Change(format!("unknown number '{path}': no machine of these tables has it")));
    }
    Ok(machines)
}

fn run_one(
    job: &Job,
    variant: &Variant,
    machines: &BTreeMap<&'static str, Machines>,
    options: &Options,
) -> Result<Outcome, String> {
    // A panic is a defect; it costs its cell, not the whole report.
    let run = || match job {
        Job::Workload { machine, lock, spec, given } => {
            let variant = variant.placed(given.placement);
            let spec = match (variant.load_end(), &given.ends) {
                (Some(end), Some(ends)) => &ends[end as usize],
                _ => &**spec,
            };
            let longest = options.longest.unwrap_or(spec.duration);
            let duration = spec.duration.min(longest);
            // A number of jobs is cut down as the time would be that they take.
            let share = duration.as_secs_f64() / spec.duration.as_secs_f64();
            let jobs = (f64::from(spec.jobs) * share).ceil() as u32;
            let spec = Spec { seed: variant.seed, duration, jobs, warmup: spec.warmup.min(longest), ..spec.clone() };
            let config = variant.config(&machines[machine]);
            // Most published tables are of locks inside a kernel; what a program does around them
            // is not.
            let in_kernel = config.in_kernel && !given.program && !spec.workload.needs_priorities();
            workload(lock, &spec, &lockyard_sim::Config { in_kernel, ..config })
        }
        Job::SpinLoop { machine } => {
            spin_loop::run(&variant.config(&machines[machine])).map_err(|error| error.to_string())
        }
        Job::CodeSize { lock } => code_size::run(lock),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("the run panicked".to_owned()))
}

fn workload(lock: &str, spec: &Spec, config: &lockyard_sim::Config) -> Result<Outcome, String> {
    let candidate = LOCKS.iter().chain(&STAND_INS).find(|candidate| candidate.label() == lock);
    let candidate = candidate.ok_or_else(|| format!("unknown lock '{lock}'"))?;
    // What was published queues by node. Of this host thread: the next job sets it again.
    Sim::commons().pool.tunables().set(Tunable::LanesByCache, 0).map_err(|error| error.to_string())?;
    let (record, reports) = session(config, || candidate.measure(spec));
    let record = record.map_err(|error| error.to_string())?;
    Ok(Outcome { numbers: numbers(&record), shape: reports.last().map(|report| shape(&record, report)) })
}

fn numbers(record: &Record) -> BTreeMap<String, f64> {
    let mut numbers: BTreeMap<String, f64> = [
        ("kops_per_s", record.kops_per_s),
        ("min", record.per_thread.min as f64),
        ("mean", record.per_thread.mean),
        ("max", record.per_thread.max as f64),
        ("fairness", record.fairness),
        ("busy", record.busy),
    ]
    .map(|(name, number)| (name.to_owned(), number))
    .into();
    numbers.extend(record.metrics.iter().map(|(name, number)| (format!("metric.{name}"), *number)));
    // An event that did not occur is a zero, not a gap.
    for event in lockyard::event::Event::ALL {
        let count = record.events.get(event.name()).copied().unwrap_or(0);
        numbers.insert(format!("event.{}", event.name()), count as f64);
    }
    numbers
}

fn shape(record: &Record, report: &Report) -> Shape {
    let window = report.window.as_ref().unwrap_or(&report.whole);
    let times = window.times;
    let all = (times.running_ns + times.spinning_ns + times.runnable_ns + times.sleeping_ns).max(1) as f64;
    let share = |ns: u64| ns as f64 / all;
    let transfers: u64 = window.transfers.values().sum();
    Shape {
        running: share(times.running_ns),
        spinning: share(times.spinning_ns),
        runnable: share(times.runnable_ns),
        sleeping: share(times.sleeping_ns),
        transfers_per_op: transfers as f64 / record.operations.max(1) as f64,
        hottest: report.hottest.iter().take(3).map(|hot| hot.name.clone()).collect(),
        wait_p50_ns: record.wait.p50,
        wait_max_ns: record.wait.max,
    }
}
