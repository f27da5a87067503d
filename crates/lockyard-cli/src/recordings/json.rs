//! `report --json`: what a recording says, for programs. Times are nanoseconds, shares at most 1.

use lockyard_recording::critical::OnPath;
use lockyard_recording::recording::Sort;
use lockyard_recording::summary::{Awaited, ClassCost};
use serde::Serialize;

use super::told::{Estimates, Told};
use crate::failure::Failure;

#[derive(Serialize)]
struct Document<'a> {
    verdict: &'a str,
    program: &'a str,
    machine: &'a str,
    threads: usize,
    threads_at_once: usize,
    threads_not_recorded: u64,
    windows_lost: u64,
    recorded_ns: u64,
    outside_ns: u64,
    away_ns: u64,
    classes: Vec<Class<'a>>,
    awaited: Vec<Signalled<'a>>,
    critical_path: Path<'a>,
    /// Threads that wait for each other where it ends, each for the next one.
    deadlock: Vec<Waiter<'a>>,
    /// Threads at which a class saturates, from averages alone.
    saturation: &'a [Estimates],
}

#[derive(Serialize)]
struct Class<'a> {
    name: &'a str,
    kind: &'static str,
    locks: usize,
    sections: u64,
    reads: u64,
    contended: u64,
    failed_tries: u64,
    gave_up: u64,
    waited_ns: u64,
    waited_share: f64,
    held_ns: u64,
    hold_ns: Quantiles,
    wait_ns: Quantiles,
}

#[derive(Serialize)]
struct Signalled<'a> {
    name: &'a str,
    kind: &'static str,
    waits: u64,
    waited_ns: u64,
    wait_ns: Quantiles,
}

#[derive(Serialize)]
struct Quantiles {
    p50: u64,
    p99: u64,
    max: u64,
}

#[derive(Serialize)]
struct Path<'a> {
    length_ns: u64,
    outside_ns: u64,
    asleep_ns: u64,
    unexplained_ns: u64,
    changes_of_thread: u64,
    classes: Vec<PathClass<'a>>,
    threads: Vec<PathThread<'a>>,
}

#[derive(Serialize)]
struct PathThread<'a> {
    thread: u32,
    /// Empty: it has none, or it is not known.
    name: &'a str,
    ns: u64,
}

#[derive(Serialize)]
struct PathClass<'a> {
    name: &'a str,
    held_ns: u64,
    handed_ns: u64,
}

#[derive(Serialize)]
struct Waiter<'a> {
    thread: u32,
    class: &'a str,
    waited_ns: u64,
}

/// The document, with a line end.
///
/// # Errors
/// None that is known: all of it can be written.
pub(super) fn document(told: &Told<'_>) -> Result<String, Failure> {
    let Told { recording, summary, path, .. } = told;
    let name = |class: usize| recording.classes[class].name.as_str();
    let kind = |class: usize| Sort::name(recording.classes[class].sort);
    let quantiles = |[p50, p99, max]: [u64; 3]| Quantiles { p50, p99, max };
    let class = |cost: &ClassCost| Class {
        name: name(cost.class),
        kind: kind(cost.class),
        locks: cost.objects,
        sections: cost.acquisitions,
        reads: cost.reads,
        contended: cost.contended,
        failed_tries: cost.failed,
        gave_up: cost.gave_up,
        waited_ns: cost.waited_ns,
        waited_share: cost.waited_ns as f64 / summary.recorded_ns.max(1) as f64,
        held_ns: cost.held_ns,
        hold_ns: quantiles(cost.holds),
        wait_ns: quantiles(cost.waits),
    };
    let signalled = |one: &Awaited| Signalled {
        name: name(one.class),
        kind: kind(one.class),
        waits: one.waits,
        waited_ns: one.waited_ns,
        wait_ns: quantiles(one.lengths),
    };
    let on_path = |one: &OnPath| PathClass { name: name(one.class), held_ns: one.held_ns, handed_ns: one.handed_ns };
    let on_thread = |&(thread, ns): &(u32, u64)| PathThread {
        thread,
        name: recording.names.get(&thread).map_or("", String::as_str),
        ns,
    };
    let waits = summary.at_end.circle.iter().map(|number| &summary.at_end.waits[*number]);
    let document = Document {
        verdict: &told.sentence,
        program: &recording.program,
        machine: &recording.machine,
        threads: summary.threads,
        threads_at_once: summary.at_once,
        threads_not_recorded: recording.missing,
        windows_lost: recording.dropped,
        recorded_ns: summary.recorded_ns,
        outside_ns: summary.outside_ns,
        away_ns: summary.away_ns,
        classes: summary.classes.iter().map(class).collect(),
        awaited: summary.awaited.iter().map(signalled).collect(),
        critical_path: Path {
            length_ns: path.length_ns,
            outside_ns: path.outside_ns,
            asleep_ns: path.asleep_ns,
            unexplained_ns: path.unexplained_ns,
            changes_of_thread: path.changes,
            classes: path.classes.iter().map(on_path).collect(),
            threads: path.threads.iter().map(on_thread).collect(),
        },
        deadlock: waits.map(|one| Waiter { thread: one.thread, class: name(one.class), waited_ns: one.ns }).collect(),
        saturation: &told.estimates,
    };
    let text = serde_json::to_string_pretty(&document);
    text.map(|text| text + "\n").map_err(|error| Failure::run(format!("report: --json: {error}")))
}
