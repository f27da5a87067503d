//! `lockyard bench` and `lockyard sim`: every combination of the values that the user gave, as
//! cells.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockyard_work::{Error, Mix, Replay, Spec, ThinkShape, Workload};

use crate::cli::{Arrival, MixArg, SweepArgs, ThinkArg};
use crate::failure::Failure;
use crate::programs;
use crate::run::PlannedCell;
use crate::selection::Group;
use crate::suggest;
use crate::values::{Bounds, Think, percentages, seed, thinks};

const MOST_THREADS: u64 = Spec::MOST_THREADS as u64;
const MOST_PAUSES: u64 = 10_000_000;
/// A plan with more cells than this is a typing error.
const MOST_CELLS: usize = 20_000;

/// A workload; of `replay`, what is played back.
#[derive(Debug, Clone, PartialEq)]
struct Played {
    workload: Workload,
    replay: Option<Arc<Replay>>,
}

/// The values that are swept. `None`: what the workload usually has.
#[derive(Debug)]
pub(crate) struct Sweep {
    workloads: Vec<Played>,
    threads: Option<Vec<u64>>,
    readers: Option<Vec<u64>>,
    writers: Option<Vec<u64>>,
    cs: Option<Vec<u64>>,
    lines: Option<Vec<u64>>,
    think: Option<Vec<Think>>,
    think_shape: ThinkShape,
    read_pct: Option<Vec<f64>>,
    sleep_us: Option<Vec<u64>>,
    mix: Option<Mix>,
    jobs: u32,
    window: Duration,
    warmup: Duration,
    seed: u64,
}

impl Sweep {
    /// Checks the values, each by itself. Every cell is measured for `window`, after `warmup`.
    ///
    /// # Errors
    /// One line for the first that is wrong.
    pub(crate) fn check(args: &SweepArgs, window: Duration, warmup: Duration) -> Result<Self, Failure> {
        let list = |flag, least, most, text: &Option<String>| {
            text.as_ref().map(|text| Bounds { flag, least, most }.list(text)).transpose()
        };
        Ok(Self {
            workloads: workloads(&args.workload, args.arrival)?,
            threads: list("--threads", 1, MOST_THREADS, &args.threads)?,
            readers: list("--readers", 0, MOST_THREADS, &args.readers)?,
            writers: list("--writers", 0, MOST_THREADS, &args.writers)?,
            cs: list("--cs", 0, MOST_PAUSES, &args.cs)?,
            lines: list("--lines", 0, u64::from(Spec::MOST_LINES), &args.lines)?,
            think: args
                .think
                .as_ref()
                .map(|text| thinks(Bounds { flag: "--think", least: 0, most: MOST_PAUSES }, text))
                .transpose()?,
            think_shape: match args.think_shape {
                ThinkArg::Fixed => ThinkShape::Fixed,
                ThinkArg::Exponential => ThinkShape::Exponential,
            },
            read_pct: args.read_pct.as_ref().map(|text| percentages("--read-pct", text)).transpose()?,
            sleep_us: list("--sleep-us", 0, 1_000_000, &args.sleep_us)?,
            mix: args.mix.map(|mix| match mix {
                MixArg::Random => Mix::Random,
                MixArg::Alternate => Mix::Alternate,
                MixArg::Roles => Mix::Roles,
            }),
            jobs: match &args.jobs {
                Some(text) => {
                    Bounds { flag: "--jobs", least: 1, most: u64::from(Spec::MOST_JOBS) }.number(text)? as u32
                }
                None => 0,
            },
            window,
            warmup,
            seed: seed(&args.seed)?,
        })
    }

    /// The seed of all cells.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// All combinations for all groups, each checked for all its locks.
    ///
    /// # Errors
    /// One line for the first combination that makes no sense or that a lock cannot run.
    pub(crate) fn cells(&self, groups: &[Group], rounds: usize) -> Result<Vec<PlannedCell>, Failure> {
        let mut cells = Vec::new();
        for group in groups {
            let shared = group.candidates.iter().all(|candidate| candidate.shared);
            for played in &self.workloads {
                let workload = played.workload;
                let able = group.candidates.iter().all(|candidate| candidate.supports(workload));
                if !able && groups.len() > 1 {
                    continue; // `--family all --workload starve-readers` means those that can.
                }
                for spec in self.specs(played, shared)? {
                    for candidate in &group.candidates {
                        candidate.check(&spec).map_err(|error| {
                            let reads = matches!(error, Error::Unsupported { .. }) && !workload.needs_priorities();
                            let way_on = if reads { "; choose --family rw" } else { "" };
                            Failure::usage(format!("{error}{way_on}"))
                        })?;
                    }
                    let (group, candidates) = (group.name.clone(), group.candidates.clone());
                    cells.push(PlannedCell { group, candidates, spec, rounds, weight: 1.0 });
                }
                if cells.len() > MOST_CELLS {
                    return Err(Failure::usage(format!("more than {MOST_CELLS} cells; shorten the lists")));
                }
            }
        }
        if cells.is_empty() {
            return Err(Failure::usage("--workload: none of the chosen locks can run it; choose --family rw"));
        }
        Ok(cells)
    }

    /// The cells of one workload. Values that it ignores do not multiply them.
    fn specs(&self, played: &Played, shared: bool) -> Result<Vec<Spec>, Failure> {
        let workload = played.workload;
        let usual = Spec { replay: played.replay.clone(), ..Spec::new(workload) };
        let mix = self.mix.filter(|_| shared).unwrap_or(usual.mix);
        let Self { jobs, think_shape, seed, .. } = *self;
        let base = Spec { mix, jobs, think_shape, duration: self.window, warmup: self.warmup, seed, ..usual };
        if self.jobs > 0 && !workload.has_jobs() {
            return Err(Failure::usage(format!("--jobs: {workload} has no jobs; only bkl-aim7 has")));
        }
        if !workload.is_plain() && (self.lines.is_some() || think_shape != ThinkShape::Fixed) {
            return Err(Failure::usage(format!(
                "--lines, --think-shape: {workload} has neither; contend and rwsem-micro have"
            )));
        }
        let roles = base.has_roles();
        if roles && self.threads.is_some() {
            return Err(Failure::usage(format!(
                "--threads: the threads of {workload} have roles here; give --readers and --writers instead"
            )));
        }
        if !roles && (self.readers.is_some() || self.writers.is_some()) {
            return Err(Failure::usage(format!(
                "--readers, --writers: the threads of {workload} have no roles; give --threads, or --mix roles"
            )));
        }
        let draws =
            mix == Mix::Random && matches!(workload, Workload::Contend | Workload::Uncontended | Workload::RwsemMicro);
        let read_pct = match (&self.read_pct, workload) {
            _ if !(shared && draws) => vec![base.read_pct],
            (Some(list), _) => list.clone(),
            (None, Workload::Uncontended) => vec![0.0, 100.0],
            (None, _) => vec![50.0],
        };
        let or = |list: &Option<Vec<u64>>, usual: usize| list.clone().unwrap_or_else(|| vec![usual as u64]);
        let readers = or(&self.readers, base.readers);
        let writers = or(&self.writers, base.writers);
        let threads = or(&self.threads, base.threads);
        let sleeps = or(&self.sleep_us, base.cs_sleep.as_micros() as usize);
        let sections = or(&self.cs, base.cs as usize);
        let lines = or(&self.lines, base.lines as usize);
        let thinks = self.think.clone().unwrap_or_else(|| vec![Think::Pauses(u64::from(base.think))]);
        let mut specs = vec![base];
        cross(&mut specs, &threads, |spec, value| spec.threads = value as usize);
        cross(&mut specs, &readers, |spec, value| spec.readers = value as usize);
        cross(&mut specs, &writers, |spec, value| spec.writers = value as usize);
        cross(&mut specs, &sleeps, |spec, value| spec.cs_sleep = Duration::from_micros(value));
        cross(&mut specs, &sections, |spec, value| spec.cs = value as u32);
        cross(&mut specs, &thinks, |spec, value| spec.think = value.beside(spec.cs));
        cross(&mut specs, &lines, |spec, value| spec.lines = value as u32);
        cross(&mut specs, &read_pct, |spec, value| spec.read_pct = value);
        Ok(specs)
    }
}

/// Replaces each spec by one per value, stopping once there are too many for any plan. Of values
/// that make the same spec (a think time of 20 and one of the section) the first counts.
fn cross<T: Copy>(specs: &mut Vec<Spec>, values: &[T], set: impl Fn(&mut Spec, T)) {
    let each = |spec: Spec| {
        let mut children = Vec::with_capacity(values.len());
        for &value in values {
            let mut child = spec.clone();
            set(&mut child, value);
            if !children.contains(&child) {
                children.push(child);
            }
        }
        children
    };
    *specs = specs.drain(..).flat_map(each).take(MOST_CELLS + 1).collect();
}

/// The locks of a plan that come with a word of caution: each once, with the word.
pub(crate) fn cautions(cells: &[PlannedCell]) -> BTreeMap<String, &'static str> {
    let locks = cells.iter().flat_map(|cell| &cell.candidates);
    locks.filter_map(|lock| Some((lock.label(), lock.caution?))).collect()
}

fn workloads(text: &str, arrival: Arrival) -> Result<Vec<Played>, Failure> {
    let names: Vec<&str> = Workload::ALL.iter().map(|workload| workload.name()).collect();
    let mut chosen = Vec::new();
    for name in text.split(',').map(str::trim) {
        if programs::is_file(name) {
            let mut replay = programs::replay("--workload", name)?;
            if arrival == Arrival::Recorded {
                replay.waits = true;
                // In every table and record.
                replay.name.push_str(" with its waits");
            }
            chosen.push(Played { workload: Workload::Replay, replay: Some(Arc::new(replay)) });
            continue;
        }
        let name = suggest::known("workload", "--workload", name, &names)?;
        let known = Workload::ALL.iter().filter(|workload| workload.name() == name);
        chosen.extend(known.map(|&workload| Played { workload, replay: None }));
    }
    chosen.dedup();
    if arrival == Arrival::Recorded && chosen.iter().all(|played| played.replay.is_none()) {
        return Err(Failure::usage(
            "--arrival recorded: --workload names no model, and only models say how long threads wait",
        ));
    }
    Ok(chosen)
}
