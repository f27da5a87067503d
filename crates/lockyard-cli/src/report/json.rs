//! JSON for programs: one document for `compare`, one object per line for `bench`.

use lockyard_work::record::{self, Record};
use lockyard_work::{Mix, Summary, ThinkShape, Workload};
use serde::Serialize;

use crate::failure::Failure;
use crate::machine::MachineFacts;
use crate::results::{self, CellResult, Results};

/// This tool's version, which every record names.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One lock in one cell: the cell, the medians, and every measurement behind them.
#[derive(Debug, Serialize)]
struct Line<'a> {
    machine: &'a MachineFacts,
    #[serde(flatten)]
    cell: CellFields,
    #[serde(flatten)]
    summary: &'a Summary,
    interrupted: bool,
    records: Vec<&'a Record>,
}

/// What defines a cell.
#[derive(Debug, Serialize)]
pub(super) struct CellFields {
    workload: Workload,
    threads: usize,
    cs: u32,
    cs_sleep_ns: u64,
    lines: u32,
    think: u32,
    think_shape: ThinkShape,
    #[serde(serialize_with = "record::percent")]
    read_pct: f64,
    mix: Mix,
    /// 0: a window was measured.
    jobs: u32,
    seed: u64,
    /// 0: there was none; the records say how long their jobs took.
    window_ns: u64,
}

impl CellFields {
    pub(super) fn of(cell: &CellResult) -> Self {
        let spec = &cell.spec;
        Self {
            workload: spec.workload,
            threads: spec.lockers(),
            cs: spec.cs,
            cs_sleep_ns: spec.cs_sleep.as_nanos() as u64,
            lines: spec.lines,
            think: spec.think,
            think_shape: spec.think_shape,
            read_pct: spec.read_pct,
            mix: spec.mix,
            jobs: spec.jobs,
            seed: spec.seed,
            window_ns: spec.window().unwrap_or_default().as_nanos() as u64,
        }
    }
}

/// The document of `compare`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    command: &'static str,
    started_utc: &'a str,
    elapsed_s: f64,
    interrupted: bool,
    seed: u64,
    machine: &'a MachineFacts,
    groups: Vec<Group<'a>>,
}

#[derive(Debug, Serialize)]
struct Group<'a> {
    name: &'a str,
    cells: Vec<Cell<'a>>,
}

#[derive(Debug, Serialize)]
struct Cell<'a> {
    title: String,
    #[serde(flatten)]
    fields: CellFields,
    rounds: usize,
    complete: bool,
    best_peer: Option<String>,
    locks: &'a [Summary],
    failures: Vec<Broken<'a>>,
}

#[derive(Debug, Serialize)]
struct Broken<'a> {
    lock: &'a str,
    why: &'a str,
}

/// The scores, if there are some; then one object per lock and cell. One per line.
///
/// # Errors
/// A value that JSON cannot hold: a defect.
pub(crate) fn lines(results: &Results) -> Result<String, Failure> {
    let mut out = String::new();
    for score in &results.scores {
        out.push_str(&line(score)?);
    }
    for cell in results.groups.iter().flat_map(|group| &group.cells) {
        for summary in &cell.locks {
            let of_lock = |record: &&Record| record.label() == summary.label();
            let line = Line {
                machine: &results.machine,
                cell: CellFields::of(cell),
                summary,
                interrupted: !cell.complete,
                records: cell.records.iter().filter(of_lock).collect(),
            };
            out.push_str(&self::line(&line)?);
        }
    }
    Ok(out)
}

/// The whole run as one document.
///
/// # Errors
/// A value that JSON cannot hold: a defect.
pub(crate) fn document(results: &Results) -> Result<String, Failure> {
    let cell = |cell: &'_ CellResult| -> (String, Option<String>) {
        (results::title(&cell.spec, false), cell.best_peer().map(Summary::label))
    };
    let groups = results.groups.iter().map(|group| Group {
        name: &group.name,
        cells: group
            .cells
            .iter()
            .map(|one| {
                let (title, best_peer) = cell(one);
                Cell {
                    title,
                    fields: CellFields::of(one),
                    rounds: one.rounds,
                    complete: one.complete,
                    best_peer,
                    locks: &one.locks,
                    failures: one.failures.iter().map(|(lock, why)| Broken { lock, why }).collect(),
                }
            })
            .collect(),
    });
    let document = Document {
        command: results.command,
        started_utc: &results.started,
        elapsed_s: results.elapsed.as_secs_f64(),
        interrupted: results.interrupted,
        seed: results.seed,
        machine: &results.machine,
        groups: groups.collect(),
    };
    pretty(&document)
}

/// What every object begins with.
#[derive(Debug, Serialize)]
struct Versioned<'a, T> {
    /// This tool's.
    version: &'static str,
    #[serde(flatten)]
    value: &'a T,
}

/// One object on a line of its own.
///
/// # Errors
/// A value that JSON cannot hold: a defect.
pub(crate) fn line(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(&Versioned { version: VERSION, value }).map(|text| text + "\n").map_err(broken)
}

/// Any result as one document.
///
/// # Errors
/// A value that JSON cannot hold: a defect.
pub(crate) fn pretty(value: &impl Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(&Versioned { version: VERSION, value }).map_err(broken)?;
    text.push('\n');
    Ok(text)
}

fn broken(error: serde_json::Error) -> Failure {
    Failure::run(format!("cannot express the results as JSON: {error}"))
}
