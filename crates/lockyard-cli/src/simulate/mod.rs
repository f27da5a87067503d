//! `lockyard sim`: Lockyard's locks on machines that nobody here owns.
//!
//! A *run* is one lock in one cell on one machine in one placement: a simulation, which needs one
//! host thread and yields the same record as a measurement, and a report of where time and cache
//! lines went. Runs are independent, so they are shared out to all host CPUs; results come in the
//! order of the plan whatever the order in which they end.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockyard_sim::machine::catalog;
use lockyard_sim::machine::topology::Placement;
use lockyard_sim::report::Report;
use lockyard_sim::{Config, MOST_THREADS};
use lockyard_work::simulated::{LOCKS, session};
use lockyard_work::{Candidate, Record, Spec, Workload};
use rayon::prelude::*;

use crate::bench::Sweep;
use crate::cli::SimArgs;
use crate::failure::Failure;
use crate::options::{self, Format};
use crate::output::Target;
use crate::progress::Progress;
use crate::selection::{self, Wanted};
use crate::{interrupt, results, values};

pub(crate) mod json;
pub(crate) mod machines;
pub(crate) mod table;
pub(crate) mod trace;

/// Options of `lockyard sim`.
#[derive(Debug)]
pub(crate) struct SimOptions {
    /// What is simulated, in order.
    pub(crate) runs: Vec<Run>,
    /// What is printed.
    pub(crate) format: Format,
    /// What is written, and where.
    pub(crate) out: Option<(Target, Format)>,
    /// Whether tables come with lock events.
    pub(crate) events: bool,
}

/// One lock in one cell on one machine.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The machine, the placement and the seed.
    pub(crate) config: Config,
    /// The lock.
    pub(crate) lock: &'static Candidate,
    /// What its threads do.
    pub(crate) spec: Spec,
}

/// What a run yielded.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What was run.
    pub(crate) run: Run,
    /// The record and the report, or why there is none.
    pub(crate) result: Result<(Record, Report), String>,
}

/// The warm-up of a simulated window: a fifth of it, within reason.
fn warmup(window: Duration) -> Duration {
    (window / 5).clamp(Duration::from_micros(50), Duration::from_millis(100))
}

impl SimOptions {
    /// Checks the arguments of `lockyard sim`.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &SimArgs) -> Result<Self, Failure> {
        let machines = machines::chosen("--machine", &args.machine, &machines::changes(&args.set)?)?;
        let wanted = Wanted {
            lock: args.lock.as_deref(),
            peer: "none",
            policy: args.policy.as_deref(),
            family: args.family.as_deref(),
        };
        let groups = selection::choose(&LOCKS, wanted)?;
        let window = values::duration("--duration", &args.duration, 1_000, 60_000_000_000)?;
        let sweep = Sweep::check(&args.sweep, window, warmup(window))?;
        let placements = placements(&args.placement)?;
        let cells = sweep.cells(&groups, 1)?;
        let most = MOST_THREADS - 1;
        if let Some(cell) = cells.iter().find(|cell| cell.spec.lockers() > most) {
            let threads = cell.spec.lockers();
            return Err(Failure::usage(format!(
                "--threads: {threads} is out of bounds; at most {most} can be simulated"
            )));
        }
        let mut runs = Vec::new();
        for machine in &machines {
            for &placement in &placements {
                let in_kernel = args.in_kernel;
                let config = Config { placement, seed: sweep.seed(), in_kernel, ..Config::new(machine.clone()) };
                for cell in &cells {
                    // A program has Linux under it, here as in `predict`.
                    let as_linux = !in_kernel && cell.spec.workload == Workload::Replay;
                    let config = Config { as_linux, ..config.clone() };
                    let run = |lock: &&'static Candidate| Run { config: config.clone(), lock, spec: cell.spec.clone() };
                    runs.extend(cell.candidates.iter().map(run));
                }
            }
        }
        let (format, out) = options::outputs(&args.output)?;
        Ok(Self { runs, format, out, events: args.output.events })
    }
}

/// What the bare command shows of the simulator: a large machine, in about a second.
pub(crate) fn sample(seed: u64) -> Vec<Run> {
    let Ok(machine) = catalog::machine("epyc9654_2s:nps4") else { return Vec::new() };
    let config = Config { seed, ..Config::new(machine) };
    let window = Duration::from_millis(2);
    let spec = |threads: usize| {
        let spec = Spec::new(Workload::Contend);
        Spec { threads, cs: 1, think: 20, read_pct: 50.0, duration: window, warmup: warmup(window), seed, ..spec }
    };
    let defaults = || LOCKS.iter().filter(|lock| selection::is_default(&LOCKS, lock) && lock.name != "semaphore");
    [8, 96, 384]
        .into_iter()
        .flat_map(|threads| defaults().map(move |lock| (lock, threads)))
        .map(|(lock, threads)| Run { config: config.clone(), lock, spec: spec(threads) })
        .collect()
}

fn placements(text: &str) -> Result<Vec<Placement>, Failure> {
    if text.trim() == "all" {
        return Ok(Placement::ALL.to_vec());
    }
    let parse =
        |name: &str| name.trim().parse::<Placement>().map_err(|error| Failure::usage(format!("--placement: {error}")));
    text.split(',').map(parse).collect()
}

impl Run {
    /// The same with another seed.
    pub(crate) fn with_seed(&self, seed: u64) -> Self {
        let Self { config, lock, spec } = self;
        Self { config: Config { seed, ..config.clone() }, lock, spec: Spec { seed, ..spec.clone() } }
    }

    /// Simulates, on this host thread.
    pub(crate) fn simulate(&self) -> Result<(Record, Report), String> {
        let (record, mut reports) = session(&self.config, || self.lock.measure(&self.spec));
        let record = record.map_err(|error| error.to_string())?;
        let report = reports.pop().ok_or_else(|| "the workload ran nothing".to_owned())?;
        Ok((record, report))
    }

    /// The machine with placement and seed.
    pub(crate) fn machine(&self) -> String {
        let Config { machine, placement, seed, .. } = &self.config;
        format!("{}, placement {placement}, seed {seed}, 1 PAUSE = {:.1} ns", machine.label(), machine.pause_ns())
    }

    /// How long it takes the host, in no unit: threads on CPUs make events.
    fn weight(&self) -> f64 {
        let busy = self.spec.lockers().min(self.config.machine.topology().cpus());
        (self.spec.duration + self.spec.warmup).as_secs_f64() * (busy as f64 + 4.0)
    }
}

/// Simulates all of `runs`. Those that a signal kept from beginning are missing.
pub(crate) fn run(runs: Vec<Run>) -> (Vec<Outcome>, bool) {
    let runs = runs.into_iter().map(|run| ((), run)).collect();
    let Ok(done) = each(runs, |(), outcome| Ok::<_, Infallible>(outcome));
    done
}

/// Simulates all of `runs`, and gives each outcome with what came with its run to `done` as it
/// ends: what that says in the order of the runs, and whether a signal kept some from beginning.
///
/// # Errors
/// The first of `done`: no other run is begun.
pub(crate) fn each<N: Send, T: Send, E: Send>(
    runs: Vec<(N, Run)>,
    done: impl Fn(N, Outcome) -> Result<T, E> + Sync,
) -> Result<(Vec<T>, bool), E> {
    let planned = runs.len();
    let total: f64 = runs.iter().map(|(_, run)| run.weight()).sum();
    let progress = std::sync::Mutex::new((Progress::start(Duration::ZERO), 0.0));
    let begun = AtomicUsize::new(0);
    let one = |(name, run): (N, Run)| {
        if interrupt::asked() {
            return None;
        }
        begun.fetch_add(1, Ordering::Relaxed);
        let result = run.simulate();
        let mut shown = progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shown.1 += run.weight() / total;
        let share = shown.1;
        // Said when a run ends: of the last one there is nothing left to wait for.
        if share < 0.999_999 {
            shown.0.at(share, &run.config.machine.label(), &results::title(&run.spec, true), &run.lock.label());
        }
        drop(shown);
        Some(done(name, Outcome { run, result }))
    };
    // One at a time: runs differ in length by orders of magnitude.
    let outcomes: Result<Vec<T>, E> = runs.into_par_iter().with_max_len(1).filter_map(one).collect();
    let (shown, _) = progress.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    shown.finish();
    let outcomes = outcomes?;
    let interrupted = outcomes.len() < planned;
    Ok((outcomes, interrupted))
}
