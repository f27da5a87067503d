//! `lockyard sweep`: more simulations than one machine has the time for.
//!
//! A *plan* ([`plan`]) is a file of lists whose product is the sweep: its *cells*, numbered from 1
//! in a fixed order, each with a key that names all that decides its result ([`key`]). A *shard*
//! ([`shard`]) is every N-th cell, and has a file of its own ([`mod@file`]), to which each result
//! is appended as one line. Schedulers of clusters start shards, see `docs/guide/src/sweeps.md`; a
//! shard that was killed goes on where it was, and [`merge`] puts the lines of all files in order.
//!
//! A line depends on its cell and the version of this tool only: not on the host, the clock, or the
//! shard. So the merged bytes do not depend on who did what, and a cell that two hosts did tells
//! whether one of them computes wrongly.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rayon::ThreadPoolBuilder;
use serde::Serialize;

use crate::cli::ShardArgs;
use crate::failure::{Failure, INTERRUPTED, plain};
use crate::progress;
use crate::report::json::line;
use crate::simulate::json::Line;
use crate::simulate::{self, Outcome};
use crate::sweep::file::ShardFile;
use crate::sweep::key::Key;
use crate::sweep::plan::Plan;
use crate::sweep::shard::Shard;
use crate::values::{self, Bounds};

mod file;
mod gather;
mod key;
pub(crate) mod merge;
mod plan;
mod shard;
pub(crate) mod status;

/// Options of `lockyard sweep`.
#[derive(Debug)]
pub(crate) struct SweepOptions {
    plan: Plan,
    shard: Shard,
    folder: PathBuf,
    workers: usize,
    resume: bool,
    wait: Duration,
}

/// A line of a result.
#[derive(Debug, Serialize)]
struct Done<'a> {
    cell: usize,
    key: Key,
    #[serde(flatten)]
    line: Line<'a>,
}

/// A line of a simulation that failed.
#[derive(Debug, Serialize)]
struct Failed<'a> {
    cell: usize,
    key: Key,
    lock: String,
    machine_id: String,
    set: &'a BTreeMap<String, f64>,
    failed: &'a str,
}

impl SweepOptions {
    /// Checks the arguments of `lockyard sweep PLAN`, with variables of the environment as
    /// `variable` tells them.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &ShardArgs, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let path = args.plan.as_deref();
        let path = path.ok_or_else(|| Failure::usage("PLAN: which plan? see 'lockyard sweep --help'"))?;
        let plan = Plan::read(path)?;
        let shard = Shard::chosen(args.shard.as_deref(), args.shards.as_deref(), variable)?;
        let workers = Bounds { flag: "--jobs", least: 0, most: 1024 }.number(&args.jobs)? as usize;
        let folder = args.dir.clone().unwrap_or_else(|| usual_folder(path));
        let wait = values::seconds("--wait", &args.wait, 0.0, 1e6)?;
        Ok(Self { plan, shard, folder, workers, resume: args.resume, wait })
    }
}

/// Where the files of the shards of the plan `path` are, if nothing else is said.
fn usual_folder(path: &Path) -> PathBuf {
    path.with_extension("sweep")
}

/// Simulates what the shard has not done: the exit code.
///
/// # Errors
/// One line: the shard's file cannot be written, is another plan's or another process's; or
/// simulations failed.
pub(crate) fn run(options: SweepOptions) -> Result<u8, Failure> {
    let SweepOptions { plan, shard, folder, workers, resume, wait } = options;
    let refuse = |error| Failure::usage(format!("--dir: cannot create '{}': {}", folder.display(), plain(&error)));
    fs::create_dir_all(&folder).map_err(refuse)?;
    let (file, before) = ShardFile::open(&folder.join(shard.file_name()), &plan, shard, resume, Instant::now() + wait)?;
    let of_shard = shard.size(plan.cells.len());
    let shown = format!("'{}'", file.path().display());
    let todo = plan.cells.into_iter().enumerate().map(|(index, cell)| (index + 1, cell));
    let todo = todo.filter(|(number, _)| shard.has(*number) && !before.cells.contains(number));
    let todo = todo.map(|(number, cell)| ((number, cell.key), cell.run)).collect();
    let pool = ThreadPoolBuilder::new().num_threads(workers).build();
    let pool = pool.map_err(|error| Failure::run(format!("--jobs: cannot start so many threads: {error}")))?;
    let (failures, interrupted) = pool.install(|| {
        simulate::each(todo, |(cell, key), outcome| {
            file.append(&told(cell, key, &outcome)?).map(|()| outcome.result.err())
        })
    })?;
    let done = before.cells.len() + failures.len();
    if interrupted {
        let line = format!("lockyard: interrupted; {shown} has {done} of {of_shard} cells; --resume goes on");
        progress::say(&line);
        return Ok(INTERRUPTED);
    }
    let failed = before.failed + failures.iter().flatten().count();
    if failed > 0 {
        let first = failures.into_iter().flatten().next();
        let first = first.map_or_else(String::new, |why| format!("; the first of this run: {why}"));
        return Err(Failure::run(format!("{shown}: {failed} of {of_shard} simulations failed{first}")));
    }
    let earlier = before.cells.len();
    let earlier = if earlier == 0 { String::new() } else { format!(", {earlier} of them before") };
    progress::say(&format!("lockyard: {shown} has all {of_shard} cells of shard {shard}{earlier}"));
    Ok(0)
}

/// The line of an outcome.
///
/// # Errors
/// A value that JSON cannot hold: a defect.
fn told(cell: usize, key: Key, outcome: &Outcome) -> Result<String, Failure> {
    let Outcome { run, result } = outcome;
    match result {
        Ok((record, report)) => line(&Done { cell, key, line: Line::of(run, record, report) }),
        Err(why) => {
            let (machine, lock) = (&run.config.machine, run.lock.label());
            let (machine_id, set) = (machine.label(), machine.changes());
            line(&Failed { cell, key, lock, machine_id, set, failed: why })
        }
    }
}
