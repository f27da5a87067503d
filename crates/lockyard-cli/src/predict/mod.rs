//! `lockyard predict`: how far a program's locks let it scale, and what would help.
//!
//! A *point* is one alternative with one number of threads: a few simulations that differ in
//! placement, seed, and lines that a section touches. Its value is their median, its band their
//! ends. All points have the same simulations, so that alternatives are compared like with like.
//! Those that have not [settled](settle) are longer.

use std::sync::Arc;
use std::time::Duration;

use lockyard_recording::Model as Program;
use lockyard_recording::model::{Change, Kind};
use lockyard_recording::saturation::saturation;
use lockyard_sim::machine::model::Model as Machine;
use lockyard_sim::machine::topology::Placement;
use lockyard_sim::{Config, MOST_THREADS};
use lockyard_work::replay::Touch;
use lockyard_work::simulated::{AS_RECORDED, LOCKS};
use lockyard_work::{Candidate, Replay, Spec, Workload};

use crate::cli::{Arrival, PredictArgs};
use crate::failure::Failure;
use crate::options::{self, Format};
use crate::output::Target;
use crate::programs;
use crate::selection::{self, Wanted};
use crate::simulate::{self, Outcome, Run, machines};
use crate::values::{self, Bounds};

pub(crate) mod csv;
mod law;
mod limits;
mod outcome;
pub(crate) mod page;
mod settle;
pub(crate) mod table;
mod transfers;

pub(crate) use outcome::Prediction;
pub(crate) use transfers::transfer_ns;

/// What stands for all classes, where none has that name.
const ALL: &str = "all";
/// The most classes that the estimate from averages is printed of.
const MOST_ESTIMATES: usize = 5;
/// Placements, and lines that sections touch.
const VARIANTS: [(Placement, Touch); 3] =
    [(Placement::Fill, Touch::Most), (Placement::Spread, Touch::Least), (Placement::Random, Touch::Middle)];
/// Slices that a thread has in a run, where threads share CPUs.
const SLICES: f64 = 8.0;
/// The longest sleeps that fit in a run.
const SLEEPS: f64 = 5.0;
/// Operations of a run, if nobody waited.
const OPERATIONS: f64 = 100_000.0;

/// Options of `lockyard predict`.
#[derive(Debug)]
pub(crate) struct PredictOptions {
    /// What the program is called.
    pub(crate) name: String,
    /// The program.
    pub(crate) program: Arc<Program>,
    /// The machine.
    pub(crate) machine: Arc<Machine>,
    /// The class that alternatives are about.
    pub(crate) class: Option<String>,
    /// Threads.
    pub(crate) threads: Vec<usize>,
    /// What is compared; the program as it is comes first.
    pub(crate) alternatives: Vec<Alternative>,
    waits: bool,
    seeds: u64,
    seed: u64,
    duration: Option<Duration>,
    /// What is printed.
    pub(crate) format: Format,
    /// What is written, and where.
    pub(crate) out: Option<(Target, Format)>,
    /// Where the page goes, if one is wanted.
    pub(crate) html: Option<Target>,
}

/// The program as it is, or one that differs from it in one way.
#[derive(Debug, Clone)]
pub(crate) struct Alternative {
    /// What it is called.
    pub(crate) name: String,
    program: Arc<Program>,
    lock: &'static Candidate,
    tested: Vec<bool>,
}

impl PredictOptions {
    /// Checks the arguments of `lockyard predict`.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &PredictArgs) -> Result<Self, Failure> {
        let operation = args.op.as_deref().map(programs::operation).transpose()?;
        let program = programs::program("predict", &args.file, operation)?;
        let machine = machines::one_to_predict("--machine", &args.machine, &machines::changes(&args.set)?)?;
        let cpus = machine.topology().cpus();
        let most = (MOST_THREADS - 1) as u64;
        let threads = match &args.threads {
            Some(text) => Bounds { flag: "--threads", least: 1, most }.list(text)?,
            None => usual_threads(cpus),
        };
        let waits = args.arrival == Arrival::Recorded;
        let class = match &args.class {
            Some(name) if program.lock(name).is_none() && name != ALL => {
                let mut known: Vec<&str> = program.locks.iter().map(|lock| lock.name.as_str()).collect();
                known.push(ALL);
                return Err(Failure::usage(format!("--class: unknown class '{name}'; known are {}", known.join(", "))));
            }
            Some(name) => Some(name.clone()),
            None => first_to_saturate(&program, &machine, waits),
        };
        let alternatives = alternatives(args, &program, class.as_deref(), &machine)?;
        let duration = args.duration.as_ref();
        let duration = duration.map(|text| values::duration("--duration", text, 10_000, 10_000_000_000)).transpose()?;
        let seeds = Bounds { flag: "--seeds", least: 1, most: 100 }.number(&args.seeds)?;
        if args.html.is_some() && args.html == args.out {
            return Err(Failure::usage("--html and --out name one file; choose two"));
        }
        let (format, out) = options::chosen(args.json, args.csv, args.out.as_deref())?;
        Ok(Self {
            name: programs::stem(&args.file),
            program,
            machine,
            class,
            threads: threads.into_iter().map(|threads| threads as usize).collect(),
            alternatives,
            waits,
            seeds,
            seed: values::seed(&args.seed)?,
            duration,
            format,
            out,
            html: args.html.as_ref().map(|path| Target::check("--html", path)).transpose()?,
        })
    }

    /// Every simulation, in the order of [`outcome::collect`].
    fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for alternative in &self.alternatives {
            for &threads in &self.threads {
                let duration = self.duration.unwrap_or_else(|| self.usual_duration(threads));
                runs.extend(self.point(alternative, threads, duration));
            }
        }
        runs
    }

    /// The simulations of one point.
    fn point(&self, alternative: &Alternative, threads: usize, duration: Duration) -> Vec<Run> {
        let mut runs = Vec::new();
        for round in 0..self.seeds {
            for (number, (placement, touch)) in VARIANTS.into_iter().enumerate() {
                let seed = self.seed.wrapping_add(round * VARIANTS.len() as u64 + number as u64);
                let replay = Replay {
                    name: alternative.name.clone(),
                    model: alternative.program.clone(),
                    original: self.program.clone(),
                    tested: alternative.tested.clone(),
                    touch,
                    waits: self.waits,
                };
                let spec = Spec {
                    threads,
                    duration,
                    warmup: duration / 4,
                    seed,
                    replay: Some(Arc::new(replay)),
                    ..Spec::new(Workload::Replay)
                };
                // A program has Linux under it, which tells its locks no more than it does.
                let config = Config { placement, seed, as_linux: true, ..Config::new(self.machine.clone()) };
                runs.push(Run { config, lock: alternative.lock, spec });
            }
        }
        runs
    }

    /// How many simulations a point has.
    fn each(&self) -> usize {
        self.seeds as usize * VARIANTS.len()
    }

    fn usual_duration(&self, threads: usize) -> Duration {
        let waits = if self.waits { 1.0 } else { 0.0 };
        let operations = self.program.roles.iter().map(|role| role.lasts_ns() + waits * role.wait.mean());
        let longest = operations.fold(1.0, f64::max);
        // A run in which a rare sleep leaves no time for anything else says nothing.
        let takes = self.program.roles.iter().flat_map(|role| &role.takes);
        let sleep = takes.map(|take| take.sleep.mean()).fold(0.0, f64::max);
        let ns = (OPERATIONS * longest / threads as f64).clamp(1e6, 2e7).max(30.0 * longest).max(SLEEPS * sleep);
        // Threads that share a CPU have slices of milliseconds: each shall have some.
        let cpus = self.machine.topology().cpus();
        let shared = SLICES * self.machine.slice_ns() as f64 * (threads as f64 / cpus as f64);
        let most = 20.0 * OPERATIONS * longest / threads.min(cpus) as f64;
        let ns = if threads > cpus { ns.max(shared.min(most)) } else { ns };
        Duration::from_nanos(ns.min(1e10) as u64)
    }
}

impl Alternative {
    /// Whether `outcome` is one of it with so many threads.
    fn is_of(&self, outcome: &Outcome, threads: usize) -> bool {
        let spec = &outcome.run.spec;
        spec.threads == threads && spec.replay.as_ref().is_some_and(|replay| replay.name == self.name)
    }
}

/// Six numbers from 1 to `cpus`.
fn usual_threads(cpus: usize) -> Vec<u64> {
    let mut threads: Vec<u64> = [16, 8, 4, 2, 1].into_iter().map(|part| (cpus / part).max(1) as u64).collect();
    threads.insert(0, 1);
    threads.dedup();
    threads
}

fn first_to_saturate(program: &Program, machine: &Machine, waits: bool) -> Option<String> {
    let first = saturation(program, &|threads| transfer_ns(machine, threads), waits).into_iter().next();
    first.filter(|first| first.threads.is_some()).map(|first| program.locks[first.lock].name.clone())
}

/// The classes that a lock takes the place of: the one called `class`, or of [`ALL`] those that are
/// taken as the first to saturate is. No lock takes the place of a semaphore.
fn places(program: &Program, class: &str, machine: &Machine) -> Vec<usize> {
    let is_lock = |number: &usize| program.locks[*number].kind != Kind::Semaphore;
    if let Some(number) = program.lock(class) {
        return Some(number).filter(is_lock).into_iter().collect();
    }
    let found = saturation(program, &|threads| transfer_ns(machine, threads), false);
    let Some(first) = found.iter().map(|one| one.lock).find(is_lock) else { return Vec::new() };
    let sort = |number: usize| (program.is_read(number), program.locks[number].kind == Kind::Spin);
    (0..program.locks.len()).filter(is_lock).filter(|&number| sort(number) == sort(first)).collect()
}

fn alternatives(
    args: &PredictArgs,
    program: &Arc<Program>,
    class: Option<&str>,
    machine: &Machine,
) -> Result<Vec<Alternative>, Failure> {
    let none = vec![false; program.locks.len()];
    let as_it_is =
        Alternative { name: "as it is".to_owned(), program: program.clone(), lock: &AS_RECORDED, tested: none.clone() };
    let mut all = vec![as_it_is];
    let places = class.map_or_else(Vec::new, |class| places(program, class, machine));
    if let (Some(class), Some(&number)) = (class, places.first()) {
        for lock in candidates(args.lock.as_deref(), program, number)? {
            let mut tested = none.clone();
            places.iter().for_each(|&place| tested[place] = true);
            let name = format!("{} on {class}", lock.label());
            let alternative = Alternative { name, program: program.clone(), lock, tested };
            if !alternative.lock.shared && program.is_read(number) {
                let why = format!("--lock: {} has no read side, and {class} is read", lock.label());
                return Err(Failure::usage(why));
            }
            all.push(alternative);
        }
    } else if args.lock.as_ref().is_some_and(|lock| lock.trim() != "none") {
        let why = match class {
            _ if program.locks.is_empty() => "this program takes no lock".to_owned(),
            None => "no class of this program ever saturates; choose one with --class".to_owned(),
            Some(class) => format!("no lock takes the place of a semaphore, as {class} is; choose another --class"),
        };
        return Err(Failure::usage(format!("--lock: {why}")));
    }
    let changes = match (args.what_if.is_empty(), class) {
        (false, _) => args.what_if.clone(),
        (true, Some(ALL) | None) => Vec::new(),
        (true, Some(class)) => ["shards=8", "hold/2", "remove"].map(|action| format!("{action}:{class}")).to_vec(),
    };
    for text in changes {
        let refuse = |error: lockyard_recording::Error| Failure::usage(format!("--what-if: {error}"));
        let change: Change = text.parse().map_err(refuse)?;
        let changed = Arc::new(change.made(program).map_err(refuse)?);
        let name = change.to_string();
        if all.iter().any(|other| other.name == name) {
            continue; // Given twice.
        }
        all.push(Alternative { name, program: changed, lock: &AS_RECORDED, tested: none.clone() });
    }
    Ok(all)
}

/// The locks that may take the place of the class of that number.
fn candidates(text: Option<&str>, program: &Program, number: usize) -> Result<Vec<&'static Candidate>, Failure> {
    let usual = match program.locks[number].kind {
        _ if program.is_read(number) => "rwsem,qrwlock",
        Kind::Mutex | Kind::RwLock | Kind::Semaphore => "mutex,hq-spinlock",
        Kind::Spin => "qspinlock,hq-spinlock",
    };
    let lock = Some(text.unwrap_or(usual));
    if lock.is_some_and(|lock| lock.trim() == "none") {
        return Ok(Vec::new());
    }
    let groups = selection::choose(&LOCKS, Wanted { lock, peer: "none", policy: None, family: None })?;
    Ok(groups.into_iter().flat_map(|group| group.candidates).collect())
}

/// Simulates all points.
///
/// # Errors
/// The first simulation that failed, if the program as it is has one.
pub(crate) fn run(options: &PredictOptions) -> Result<Prediction, Failure> {
    let (mut outcomes, mut interrupted) = simulate::run(options.runs());
    if options.duration.is_none() && !interrupted {
        interrupted = settle::lengthen(options, &mut outcomes);
    }
    outcome::collect(options, &outcomes, interrupted)
}

#[cfg(test)]
mod tests;
