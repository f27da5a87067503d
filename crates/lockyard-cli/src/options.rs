//! Arguments turned into validated options. Nothing is measured before everything here has passed,
//! including whether the results can be written.

use std::path::Path;
use std::time::Duration;

use lockyard::platform::linux::topology;
use lockyard_work::{Candidate, Family};

use crate::bench::Sweep;
use crate::cli::{BenchArgs, MatrixArgs, OutputArgs};
use crate::failure::Failure;
use crate::grid::{self, Grid, Size};
use crate::output::Target;
use crate::run::{PlannedCell, warmup};
use crate::selection::{self, Wanted};
use crate::values::{Bounds, seconds, seed};

/// Options of `lockyard compare`.
#[derive(Debug)]
pub(crate) struct CompareOptions {
    /// Time for all measurements together.
    pub(crate) budget: Duration,
    /// Families to compare.
    pub(crate) families: Vec<Family>,
    /// CPUs this process may use.
    pub(crate) cpus: usize,
    /// Seed of the workloads.
    pub(crate) seed: u64,
    /// Whether a document is printed instead of tables.
    pub(crate) json: bool,
    /// Where the page goes, if one is wanted.
    pub(crate) html: Option<Target>,
    /// Whether a simulated machine comes after this one.
    pub(crate) sim: bool,
}

/// Options of `lockyard bench`.
#[derive(Debug)]
pub(crate) struct BenchOptions {
    /// What is measured, in order.
    pub(crate) cells: Vec<PlannedCell>,
    /// Whether they are those of the grid, and get a score.
    pub(crate) grid: bool,
    /// Seed of the workloads.
    pub(crate) seed: u64,
    /// What is printed.
    pub(crate) format: Format,
    /// What is written, and where.
    pub(crate) out: Option<(Target, Format)>,
    /// Whether tables come with lock events.
    pub(crate) events: bool,
}

/// How results are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Tables for people.
    Tables,
    /// One JSON object per lock and cell.
    JsonLines,
    /// A header, then one line per lock and cell.
    Csv,
}

impl CompareOptions {
    /// Checks the arguments of `lockyard compare`.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &MatrixArgs) -> Result<Self, Failure> {
        let budget = match (&args.secs_total, args.quick) {
            (Some(text), _) => seconds("--secs-total", text, 0.1, 86_400.0)?,
            (None, true) => Duration::from_secs(14),
            (None, false) => Duration::from_secs(55),
        };
        let families = selection::families(&args.family)?;
        let seed = seed(&args.seed)?;
        let cpus = two_cpus(args.allow_one_cpu)?;
        let html = args.html.as_ref().map(|path| Target::check("--html", path)).transpose()?;
        Ok(Self { budget, families, cpus, seed, json: args.json, html, sim: args.sim })
    }
}

impl BenchOptions {
    /// Checks the arguments of `lockyard bench` against the locks there are.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &BenchArgs, all: &'static [Candidate]) -> Result<Self, Failure> {
        let every_family = (args.grid && args.lock.is_none()).then_some("all");
        let groups = selection::choose(
            all,
            Wanted {
                lock: args.lock.as_deref(),
                peer: &args.peer,
                policy: args.policy.as_deref(),
                family: args.family.as_deref().or(every_family),
            },
        )?;
        let (usual_secs, usual_rounds) = match (args.grid, args.quick) {
            (true, true) => ("0.1", "1"),
            (true, false) => ("0.1", "3"),
            (false, _) => ("1", "5"),
        };
        let window = seconds("--secs", args.secs.as_deref().unwrap_or(usual_secs), 0.001, 3600.0)?;
        let rounds = args.rounds.as_deref().unwrap_or(usual_rounds);
        let rounds = Bounds { flag: "--rounds", least: 1, most: 10_000 }.number(rounds)? as usize;
        let sweep = Sweep::check(&args.sweep, window, warmup(window))?;
        let seed = sweep.seed();
        let cells = if args.grid {
            let size = match (args.quick, args.full) {
                (true, _) => Size::Quick,
                (_, true) => Size::Full,
                _ => Size::Usual,
            };
            let stand_ins = if args.peer.trim() == "all" { grid::sleeping_mutexes(all) } else { Vec::new() };
            Grid { size, window, rounds, seed, cpus: topology::usable_cpus() as usize, stand_ins }.cells(&groups)
        } else {
            sweep.cells(&groups, rounds)?
        };
        if cells.iter().any(|cell| cell.spec.lockers() > 1) {
            two_cpus(args.allow_one_cpu)?;
        }
        let (format, out) = outputs(&args.output)?;
        Ok(Self { cells, grid: args.grid, seed, format, out, events: args.output.events })
    }
}

/// What is printed, and what is written where.
///
/// # Errors
/// One line: the file cannot be written.
pub(crate) fn outputs(args: &OutputArgs) -> Result<(Format, Option<(Target, Format)>), Failure> {
    chosen(args.json, args.csv, args.out.as_deref())
}

/// What `--json`, `--csv` and `--out` ask for.
///
/// # Errors
/// One line: the file cannot be written.
pub(crate) fn chosen(json: bool, csv: bool, out: Option<&Path>) -> Result<(Format, Option<(Target, Format)>), Failure> {
    let format = match (json, csv) {
        (true, _) => Format::JsonLines,
        (_, true) => Format::Csv,
        _ => Format::Tables,
    };
    let Some(path) = out else { return Ok((format, None)) };
    let written = if format == Format::Tables { Format::of(path) } else { format };
    // What goes into a file in a program's form is for people on the screen.
    Ok((Format::Tables, Some((Target::check("--out", path)?, written))))
}

impl Format {
    /// The format that a file's ending asks for.
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json" | "jsonl" | "ndjson") => Format::JsonLines,
            Some("csv") => Format::Csv,
            _ => Format::Tables,
        }
    }
}

/// The CPUs this process may use, of which contended measurements need two.
fn two_cpus(allow_one: bool) -> Result<usize, Failure> {
    let cpus = topology::usable_cpus() as usize;
    if cpus < 2 && !allow_one {
        return Err(Failure::usage(
            "this process may use 1 CPU, and contended comparisons need 2; free another CPU (taskset, container limits) \
             or pass --allow-one-cpu",
        ));
    }
    Ok(cpus)
}
