//! `lockyard reproduce`: published tables, rerun on simulated machines.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use lockyard_figures::{Figure, Options, Progress as Step, Reproduction, figures};
use serde::Serialize;

use crate::cli::ReproduceArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Target;
use crate::progress::Progress;
use crate::report::json;
use crate::simulate::machines;
use crate::suggest;
use crate::values::Bounds;

/// Options of `lockyard reproduce`.
#[derive(Debug)]
pub(crate) struct ReproduceOptions {
    /// What to rerun.
    figures: Vec<&'static Figure>,
    /// How.
    options: Options,
    /// Whether stdout gets JSON.
    pub(crate) json: bool,
    /// Where the page goes, if it is wanted.
    pub(crate) html: Option<Target>,
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Document<'a> {
    /// Numbers of the machines that were changed.
    set: BTreeMap<&'a str, f64>,
    #[serde(flatten)]
    done: &'a Reproduction,
}

/// A first guess at the time for all figures.
const USUAL: Duration = Duration::from_secs(220);

impl ReproduceOptions {
    /// Checks the arguments of `lockyard reproduce`.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &ReproduceArgs) -> Result<Self, Failure> {
        let mut wanted: Vec<&'static Figure> = Vec::new();
        if args.all {
            // Those of others behind those of the series.
            wanted.extend(figures());
            wanted.sort_by_key(|figure| figure.is_external());
        }
        for name in &args.figures {
            let figure = lockyard_figures::find(name).ok_or_else(|| unknown(name))?;
            if !wanted.iter().any(|known| known.id() == figure.id()) {
                wanted.push(figure);
            }
        }
        let seeds = Bounds { flag: "--seeds", least: 1, most: 100 }.number(&args.seeds)?;
        let workers = Bounds { flag: "--workers", least: 0, most: 1024 }.number(&args.workers)? as usize;
        let html = args.html.as_ref().map(|path| Target::check("--html", path)).transpose()?;
        let changes = machines::changes(&args.set)?;
        let options = Options { workers, seeds, ranges: !args.no_ranges, changes, ..Options::default() };
        Ok(Self { figures: wanted, options, json: args.json, html })
    }

    /// What came of it, as JSON.
    ///
    /// # Errors
    /// A value that JSON cannot hold: a defect.
    pub(crate) fn document(&self, done: &Reproduction) -> Result<String, Failure> {
        let set = self.options.changes.iter().map(|(path, value)| (path.as_str(), *value)).collect();
        json::pretty(&Document { set, done })
    }
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = figures().iter().map(Figure::id).collect();
    let guess = suggest::nearest(name, &known).map_or_else(String::new, |near| format!("did you mean '{near}'? "));
    Failure::usage(format!("FIGURE: unknown figure '{name}'; {guess}known are {}", known.join(", ")))
}

/// Reruns what is wanted, until done or interrupted.
///
/// # Errors
/// A number that no machine has or that may not be changed so; a defect in the data, or a host that
/// refuses threads.
pub(crate) fn run(options: &ReproduceOptions) -> Result<Reproduction, Failure> {
    let share = options.figures.len() as f64 / figures().len() as f64;
    let progress = Mutex::new(Progress::start(USUAL.mul_f64(share)));
    let step = |step: Step<'_>| {
        if let Ok(mut progress) = progress.lock() {
            let tenth = (step.share * 10.0) as usize + 1;
            progress.at(step.share, "reproduce", &format!("part {} of 10", tenth.min(10)), step.job);
        }
    };
    let done = lockyard_figures::reproduce(&options.figures, &options.options, &step, interrupt::flag());
    if let Ok(progress) = progress.into_inner() {
        progress.finish();
    }
    done.map_err(|error| match error {
        lockyard_figures::Error::Change(change) => Failure::usage(format!("--set: {change}")),
        other => Failure::run(other.to_string()),
    })
}
