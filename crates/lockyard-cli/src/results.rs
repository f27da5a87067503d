//! What a run found out, as every report takes it.

use std::time::Duration;

use lockyard_work::record::Record;
use lockyard_work::{Mix, Origin, Spec, Summary, ThinkShape, Workload, rounds};
use serde::Serialize;

use crate::machine::MachineFacts;
use crate::report::numbers;

/// The share of CPU time taken by other programs from which on a report warns.
const NOTICEABLE: f64 = 0.05;
/// From which on it gives no verdict.
const VOID: f64 = 0.3;

/// A whole run.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    /// `compare` or `bench`.
    pub(crate) command: &'static str,
    /// Where it ran.
    pub(crate) machine: MachineFacts,
    /// When it began, in UTC: `2026-11-21 08:10:00`.
    pub(crate) started: String,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// Seed of the workloads.
    pub(crate) seed: u64,
    /// Whether a signal ended it before all was measured.
    pub(crate) interrupted: bool,
    /// The groups of locks that were compared with each other.
    pub(crate) groups: Vec<GroupResult>,
    /// Of the grid: how each of Lockyard's locks did over all its cells.
    pub(crate) scores: Vec<Score>,
}

/// Locks that were compared with each other, over some cells.
#[derive(Clone, Debug)]
pub(crate) struct GroupResult {
    /// What the locks have in common: `mutex`, `rw` …
    pub(crate) name: String,
    /// The cells that have at least one measurement.
    pub(crate) cells: Vec<CellResult>,
}

/// All locks of a group on one cell.
#[derive(Clone, Debug)]
pub(crate) struct CellResult {
    /// What was run.
    pub(crate) spec: Spec,
    /// Rounds planned.
    pub(crate) rounds: usize,
    /// Medians per lock, in the order in which they are shown.
    pub(crate) locks: Vec<Summary>,
    /// Every measurement behind the medians.
    pub(crate) records: Vec<Record>,
    /// Locks that failed, and why.
    pub(crate) failures: Vec<(String, String)>,
    /// Whether all rounds were measured.
    pub(crate) complete: bool,
}

/// One lock over all cells of its group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Score {
    /// The group: mostly the family.
    pub(crate) score: String,
    /// The lock, with its policy.
    pub(crate) lock: String,
    /// Whether all its cells were measured.
    pub(crate) complete: bool,
    /// Several threads.
    pub(crate) contended: Ratios,
    /// One thread.
    pub(crate) alone: Ratios,
    /// The longest waits of 16 threads.
    pub(crate) wait_16: Option<Waits>,
    /// The longest waits of 64 threads.
    pub(crate) wait_64: Option<Waits>,
    /// Contended cells in which a thread had no turn in some round.
    pub(crate) cells_without_turns: usize,
    /// The most threads without a turn in one round.
    pub(crate) most_without_turn: usize,
    /// CPU time used, where threads outnumber CPUs and think for a quarter of the section at least.
    pub(crate) busy: Option<Busy>,
}

/// Ratios to the best peers, over some cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Ratios {
    /// The cells measured.
    pub(crate) cells: usize,
    /// Those of them with a peer to compare with.
    pub(crate) compared: usize,
    /// Geometric mean of the ratios.
    pub(crate) mean: Option<f64>,
    /// Share of the ratios of 0.95 and above.
    pub(crate) near: Option<f64>,
    /// The smallest ratio.
    pub(crate) worst: Option<f64>,
    /// Its cell.
    pub(crate) worst_cell: Option<String>,
    /// The peer there.
    pub(crate) worst_peer: Option<String>,
}

/// The longest waits of the cells with some number of threads, ns: medians over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Waits {
    /// The lock's.
    pub(crate) ours: f64,
    /// The longest of the best peers of those cells.
    pub(crate) best_peer: Option<f64>,
}

/// Shares of the machine's CPU time that were used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Busy {
    /// In the cell with the least.
    pub(crate) least: f64,
    /// On average.
    pub(crate) mean: f64,
}

impl Results {
    /// Whether other programs took so much of the CPUs that the numbers say nothing.
    pub(crate) fn is_void(&self) -> bool {
        self.others() > VOID
    }

    /// The share of the CPUs that other programs took while this run measured.
    fn others(&self) -> f64 {
        let shares: Vec<f64> = self
            .groups
            .iter()
            .flat_map(|group| &group.cells)
            .flat_map(|cell| &cell.locks)
            .map(|lock| lock.others)
            .collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }

    /// A warning, if that is a noticeable share.
    pub(crate) fn disturbance(&self) -> Option<String> {
        let share = self.others();
        (share > NOTICEABLE).then(|| {
            format!(
                "other programs used {:.0} % of the CPUs meanwhile: numbers are rough, repeat on a quiet machine",
                share * 100.0
            )
        })
    }

    /// Every failure of every cell: the lock, the cell and the reason.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&str, String, &str)> {
        self.groups.iter().flat_map(|group| &group.cells).flat_map(|cell| {
            cell.failures.iter().map(|(lock, why)| (lock.as_str(), title(&cell.spec, true), why.as_str()))
        })
    }
}

impl CellResult {
    /// The fastest peer that left no thread without a turn.
    pub(crate) fn best_peer(&self) -> Option<&Summary> {
        rounds::best_peer(&self.locks, self.is_alone())
    }

    /// Whether `lock` is that one.
    pub(crate) fn is_best_peer(&self, lock: &Summary) -> bool {
        lock.origin == Origin::Peer && self.best_peer().is_some_and(|best| best.lock == lock.lock)
    }

    /// Whether the cost of one operation says more than a rate: one thread alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.spec.lockers() == 1
    }

    /// Throughput in the unit that suits the cell.
    pub(crate) fn rate(&self, lock: &Summary) -> String {
        if self.is_alone() { numbers::time(lock.ns_per_op) } else { numbers::three(lock.kops_per_s) }
    }
}

/// Lockyard's locks first, as they are listed; then the others, fastest first.
pub(crate) fn in_order(mut locks: Vec<Summary>) -> Vec<Summary> {
    locks.sort_by(|a, b| match (a.origin, b.origin) {
        (Origin::Peer, Origin::Peer) => b.kops_per_s.total_cmp(&a.kops_per_s),
        (a, b) => a.cmp(&b),
    });
    locks
}

/// A cell in words. Section and think time are named only in `full`: elsewhere a heading names
/// those of all cells, and a cell the think time that is not usual.
pub(crate) fn title(spec: &Spec, full: bool) -> String {
    let mut parts = Vec::new();
    match spec.workload {
        Workload::Uncontended | Workload::Contend => {}
        Workload::StarveReaders | Workload::StarveWriters => parts.push(format!("{}:", spec.workload)),
        Workload::Replay => parts.push(format!("{},", spec.replay.as_ref().map_or("replay", |replay| &replay.name))),
        other => parts.push(format!("{other},")),
    }
    let readers = numbers::count(spec.readers, "reader");
    let writers = numbers::count(spec.writers, "writer");
    parts.push(match spec.workload {
        Workload::Uncontended => return format!("alone{}", if spec.read_pct == 100.0 { ", reading" } else { "" }),
        Workload::StarveReaders => format!("{writers} against {readers}"),
        Workload::StarveWriters => format!("{readers} against {writers}"),
        _ if spec.has_roles() => format!("{readers} and {writers}"),
        _ => numbers::count(spec.threads, "thread"),
    });
    if spec.jobs > 0 {
        parts.push(format!("with {} each", numbers::count(spec.jobs as usize, "job")));
    }
    let mut title = parts.join(" ");
    let mut add = |part: String| {
        title.push_str(", ");
        title.push_str(&part);
    };
    if !spec.cs_sleep.is_zero() {
        add(format!("{} sections", numbers::chosen_time(spec.cs_sleep.as_nanos() as f64)));
    }
    // A replay's sections and pauses are the program's; a cell may make them longer.
    let own = spec.workload == Workload::Replay;
    if full && (spec.cs_sleep.is_zero() && !own || spec.cs > 0) {
        add(format!("section {}", spec.cs));
    }
    let usual = full || spec.workload != Workload::Contend || spec.think == Spec::new(spec.workload).think;
    if full && (spec.cs_sleep.is_zero() && !own || spec.think > 0) || !usual {
        let drawn = if spec.think_shape == ThinkShape::Exponential { " on average" } else { "" };
        add(format!("think {}{drawn}", spec.think));
    }
    if spec.lines > 0 {
        add(numbers::count(spec.lines as usize, "line"));
    }
    match (spec.mix, spec.workload) {
        (Mix::Random, Workload::Contend) if spec.read_pct > 0.0 => add(format!("{} % reads", spec.read_pct)),
        (Mix::Alternate, Workload::Contend | Workload::RwsemMicro) => add("reads and writes in turn".to_owned()),
        _ => {}
    }
    title
}

/// A cell in a few words, for tables with many columns: a starvation test by its name alone.
pub(crate) fn short_title(spec: &Spec) -> String {
    match spec.workload {
        Workload::StarveReaders | Workload::StarveWriters => spec.workload.name().to_owned(),
        _ => title(spec, false),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::fixture;

    #[test]
    fn titles_say_what_was_run() {
        let contend = Spec { threads: 16, cs: 20, think: 1, ..Spec::new(Workload::Contend) };
        assert_eq!(title(&contend, false), "16 threads");
        assert_eq!(
            title(&Spec { read_pct: 95.0, ..contend.clone() }, true),
            "16 threads, section 20, think 1, 95 % reads"
        );
        let drawn =
            Spec { read_pct: 99.9, lines: 8, think: 5, think_shape: ThinkShape::Exponential, ..contend.clone() };
        assert_eq!(title(&drawn, true), "16 threads, section 20, think 5 on average, 8 lines, 99.9 % reads");
        assert_eq!(title(&Spec { think: 20, ..contend.clone() }, false), "16 threads, think 20");
        assert_eq!(
            title(&Spec { threads: 1, mix: Mix::Alternate, ..contend }, false),
            "1 thread, reads and writes in turn"
        );
        assert_eq!(title(&Spec::new(Workload::Uncontended), true), "alone");
        assert_eq!(title(&Spec { read_pct: 100.0, ..Spec::new(Workload::Uncontended) }, true), "alone, reading");
        let starve = Spec { cs_sleep: Duration::from_millis(1), ..Spec::new(Workload::StarveReaders) };
        assert_eq!(short_title(&starve), "starve-readers");
        assert_eq!(title(&starve, false), "starve-readers: 4 writers against 1 reader, 1 ms sections");
        assert_eq!(title(&Spec::new(Workload::QrwLoop), false), "qrw-loop, 2 threads");
        let aim7 = Spec { threads: 4, jobs: 3, ..Spec::new(Workload::BklAim7) };
        assert_eq!(title(&aim7, false), "bkl-aim7, 4 threads with 3 jobs each");
    }

    #[test]
    fn ours_come_first_then_the_fastest() {
        let cell = fixture::results().groups.remove(0).cells.remove(1);
        let mut locks = cell.locks.clone();
        locks.reverse();
        let names: Vec<&str> = in_order(locks).iter().map(|lock| lock.lock).collect();
        assert_eq!(names, ["mutex", "std-mutex", "pthread-mutex"]);
        assert_eq!(cell.best_peer().map(|best| best.lock), Some("std-mutex"));
    }
}
