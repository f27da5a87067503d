//! What rerunning a table takes: jobs for the simulator, cells to fill, changes to judge.
//!
//! Every kind of figure turns its table into a [`Plan`]; everything behind that (running, scoring,
//! reporting) knows plans only. Several figures may want the same job: it runs once.

use std::collections::BTreeMap;

use lockyard_sim::machine::topology::Placement;
use lockyard_work::Spec;
use serde::Serialize;

use crate::score::CHANGE;
use crate::variant::Variant;

/// What is known of a workload's runs, beside what is assumed of all: of most nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Given {
    /// Where the threads sat, if that is known: all variants place them so.
    pub placement: Option<Placement>,
    /// The lock is a program's and not a kernel's: it sleeps and wakes by system calls.
    pub program: bool,
    /// The load at the lower and at the upper end of what is known of it: both widen the band.
    pub ends: Option<Box<[Spec; 2]>>,
}

/// Something to run.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// A workload on a lock of a machine, once per variant.
    Workload {
        /// The machine's id.
        machine: &'static str,
        /// The lock, with its policy: `rwsem:no-rspin`.
        lock: String,
        /// The workload. The seed is the variant's.
        spec: Box<Spec>,
        /// What is known of it beside that.
        given: Given,
    },
    /// Sixteen iterations of the spinning loop, alone on a machine.
    SpinLoop {
        /// The machine's id.
        machine: &'static str,
    },
    /// The machine code of a lock in the running program. Not simulated.
    CodeSize {
        /// The lock, with its policy.
        lock: &'static str,
    },
}

impl Job {
    /// A workload of which no more is known.
    pub(crate) fn workload(machine: &'static str, lock: String, spec: Spec) -> Self {
        Self::Workload { machine, lock, spec: Box::new(spec), given: Given::default() }
    }

    /// Whether `variant` is one of its own: of a load that has ends only where the load is moved.
    pub(crate) fn takes(&self, variant: &Variant) -> bool {
        let has_ends = matches!(self, Self::Workload { given: Given { ends: Some(_), .. }, .. });
        self.varies() && (has_ends || variant.load_end().is_none())
    }

    /// How long it takes, relative to other jobs.
    pub(crate) fn weight(&self) -> f64 {
        match self {
            Self::Workload { spec, .. } => (spec.duration + spec.warmup).as_secs_f64() * 1e3,
            Self::SpinLoop { .. } | Self::CodeSize { .. } => 0.1,
        }
    }

    /// Whether variants make a difference.
    fn varies(&self) -> bool {
        !matches!(self, Self::CodeSize { .. })
    }

    /// In one line, for progress.
    pub fn title(&self) -> String {
        match self {
            Self::Workload { machine, lock, spec, .. } => format!("{lock} × {} on {machine}", spec.lockers()),
            Self::SpinLoop { machine } => format!("spin loop on {machine}"),
            Self::CodeSize { lock } => format!("code of {lock}"),
        }
    }
}

/// What a job yields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Numbers by name: `kops_per_s`, `min`, `event.rwsem_opt_lock`, `metric.jobs_per_min` …
    pub numbers: BTreeMap<String, f64>,
    /// Where the time and the cache lines went.
    pub shape: Option<Shape>,
}

/// Where the time and the cache lines went.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Shape {
    /// Share of all threads' time spent executing.
    pub running: f64,
    /// … spinning.
    pub spinning: f64,
    /// … ready, without a CPU.
    pub runnable: f64,
    /// … asleep.
    pub sleeping: f64,
    /// Line transfers per operation.
    pub transfers_per_op: f64,
    /// The lines that moved most.
    pub hottest: Vec<String>,
    /// Median wait, ns.
    pub wait_p50_ns: u64,
    /// Longest wait, ns.
    pub wait_max_ns: u64,
}

/// How a cell's number comes from its job's outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Take {
    /// The name of the number.
    pub name: String,
    /// What it is multiplied by.
    pub factor: f64,
    /// Names whose sum it is divided by, if any.
    pub over: Vec<String>,
    /// Time that every operation takes beside what was simulated, ns: what is too rare for a
    /// window. For rates in thousands a second.
    pub beside_ns: f64,
}

impl Take {
    /// The number called `name`.
    pub(crate) fn plain(name: &str) -> Self {
        Self { name: name.to_owned(), factor: 1.0, over: Vec::new(), beside_ns: 0.0 }
    }

    /// The number, if the outcome has it.
    pub(crate) fn from(&self, outcome: &Outcome) -> Option<f64> {
        let simulated = *outcome.numbers.get(&self.name)?;
        let number = if self.beside_ns > 0.0 { 1.0 / (1.0 / simulated + self.beside_ns * 1e-6) } else { simulated };
        if self.over.is_empty() {
            return Some(number * self.factor);
        }
        let sum: f64 = self.over.iter().filter_map(|name| outcome.numbers.get(name)).sum();
        (sum > 0.0).then(|| number * self.factor / sum)
    }
}

/// One number of a table.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The row, as calibration calls it: the fields that identify it, joined by commas.
    pub row: String,
    /// The column.
    pub column: String,
    /// Threads, where the row is a number of threads.
    pub threads: Option<u32>,
    /// Which chart it is drawn in, where there are several.
    pub panel: String,
    /// The published number; `None` where there is nothing to compare.
    pub published: Option<f64>,
    /// Where the simulated number comes from, or why there is none.
    pub source: Result<Source, String>,
}

/// Where a simulated number comes from. Jobs are named by their positions.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A number of a job.
    Number(usize, Take),
    /// The same number of two jobs: of the first by that of the second. For tables that publish
    /// nothing but ratios.
    Ratio(usize, usize, Take),
}

impl Source {
    /// The jobs that it needs.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = usize> {
        let (first, second) = match self {
            Self::Number(job, _) => (*job, None),
            Self::Ratio(after, before, _) => (*after, Some(*before)),
        };
        std::iter::once(first).chain(second)
    }
}

/// Two cells whose ratio is judged, or a cell that is a ratio.
#[derive(Debug, Clone)]
pub struct Change {
    /// What changed, for people.
    pub label: String,
    /// The published ratio.
    pub published: f64,
    /// Position of the cell before; `None` if the cell after is the ratio of after and before.
    pub before: Option<usize>,
    /// Position of the cell after.
    pub after: usize,
    /// Simulated numbers below this count as this: one operation, where zero would make a ratio
    /// meaningless.
    pub floor: f64,
    /// A published change below this share is no change: its direction is not scored.
    pub noise: f64,
}

/// Cells in a row that make a curve, of which the position of the peak and the height of the
/// plateau are judged.
#[derive(Debug, Clone)]
pub struct Curve {
    /// What it is of.
    pub label: String,
    /// Positions of its cells.
    pub cells: Vec<usize>,
    /// How many of the last are the plateau.
    pub plateau: usize,
}

/// What rerunning a table takes.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// What to run.
    pub jobs: Vec<Job>,
    /// What to fill in, row by row.
    pub cells: Vec<Cell>,
    /// What to judge.
    pub changes: Vec<Change>,
    /// What to judge as a whole.
    pub curves: Vec<Curve>,
    /// What identifies a row: names of the first columns.
    pub keys: Vec<String>,
    /// Unit of the cells.
    pub unit: &'static str,
    /// What was chosen, and what the reader must know.
    pub notes: Vec<String>,
}

impl Plan {
    /// The position of `job`, which is added if it is new.
    pub(crate) fn job(&mut self, job: Job) -> usize {
        self.jobs.iter().position(|known| *known == job).unwrap_or_else(|| {
            self.jobs.push(job);
            self.jobs.len() - 1
        })
    }

    /// Adds a cell and returns its position.
    pub(crate) fn cell(&mut self, cell: Cell) -> usize {
        self.cells.push(cell);
        self.cells.len() - 1
    }

    /// Adds a change, if both published numbers are above zero: a ratio needs two.
    pub(crate) fn change(&mut self, label: String, before: usize, after: usize, floor: f64) {
        let published = |cell: usize| self.cells[cell].published.filter(|number| *number > 0.0);
        if let (Some(first), Some(second)) = (published(before), published(after)) {
            self.changes.push(Change {
                label,
                published: second / first,
                before: Some(before),
                after,
                floor,
                noise: CHANGE,
            });
        }
    }

    /// Adds a change that was published with a standard deviation: below `noise`, a share, it is
    /// none, nor below what is a change elsewhere.
    pub(crate) fn change_beyond(&mut self, label: String, before: usize, after: usize, noise: f64) {
        let known = self.changes.len();
        self.change(label, before, after, 0.0);
        self.changes.iter_mut().skip(known).for_each(|change| change.noise = noise.max(CHANGE));
    }

    /// Adds a change whose ratio is itself a cell, if it was published.
    pub(crate) fn ratio(&mut self, label: String, cell: usize) {
        if let Some(published) = self.cells[cell].published {
            self.changes.push(Change { label, published, before: None, after: cell, floor: 0.0, noise: CHANGE });
        }
    }
}
