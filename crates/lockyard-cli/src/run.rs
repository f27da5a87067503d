//! Measures the cells of a plan one after another, shows progress, and keeps what there is when
//! asked to stop.

use std::time::{Duration, Instant};

use lockyard_work::{Candidate, Spec, rounds};

use crate::failure::Failure;
use crate::interrupt;
use crate::progress::Progress;
use crate::results::{self, CellResult, GroupResult};

/// One cell of a plan.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCell {
    /// The group whose locks are measured, by its name.
    pub(crate) group: String,
    /// The locks.
    pub(crate) candidates: Vec<&'static Candidate>,
    /// What they do. Under [`Pace::Budget`] window and warm-up are set by the pace.
    pub(crate) spec: Spec,
    /// How often each lock is measured.
    pub(crate) rounds: usize,
    /// Length of the window relative to other cells, under [`Pace::Budget`].
    pub(crate) weight: f64,
}

impl PlannedCell {
    fn measurements(&self) -> usize {
        self.candidates.len() * self.rounds
    }
}

/// How long the windows are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// As each cell's spec says.
    AsPlanned,
    /// So that all cells together take about this long. Cells that overrun shorten those that
    /// follow.
    Budget(Duration),
}

/// What a plan yielded.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Cells with at least one measurement, by group.
    pub(crate) groups: Vec<GroupResult>,
    /// Whether a signal ended it before all was measured.
    pub(crate) interrupted: bool,
    /// How long it took.
    pub(crate) elapsed: Duration,
}

/// The shortest window that a budget can lead to.
const SHORTEST: Duration = Duration::from_millis(2);
/// Starting and joining threads, per measurement, as a budget counts it.
const OVERHEAD: Duration = Duration::from_millis(3);

/// The warm-up that suits a window: a tenth, within reason.
pub(crate) fn warmup(window: Duration) -> Duration {
    (window / 10).clamp(Duration::from_millis(1), Duration::from_millis(100))
}

/// Measures `cells` in order.
///
/// # Errors
/// A cell that makes no sense; nothing of it was measured. Cells are checked before a plan is made,
/// so this is a defect.
pub(crate) fn run(cells: Vec<PlannedCell>, pace: Pace) -> Result<Measured, Failure> {
    let started = Instant::now();
    let total: f64 = cells.iter().map(|cell| expected(cell, pace)).sum();
    let announced = match pace {
        Pace::AsPlanned => planned(&cells),
        Pace::Budget(budget) => budget,
    };
    let mut progress = Progress::start(announced);
    let mut groups: Vec<GroupResult> = Vec::new();
    let mut interrupted = false;
    let mut done = 0.0;
    for (index, cell) in cells.iter().enumerate() {
        let mut spec = cell.spec.clone();
        if let Pace::Budget(budget) = pace {
            let left = budget.saturating_sub(started.elapsed());
            spec.duration = window(left, cell, &cells[index..]);
            spec.warmup = warmup(spec.duration);
        }
        let share = expected(cell, pace);
        let what = results::title(&spec, matches!(pace, Pace::AsPlanned));
        let report = rounds::run(&cell.candidates, &spec, cell.rounds, interrupt::flag(), &mut |step| {
            let inside = step.done as f64 / step.planned.max(1) as f64;
            progress.at((done + share * inside) / total, &cell.group, &what, &step.candidate.label());
        })
        .map_err(|error| Failure::run(error.to_string()))?;
        done += share;
        interrupted |= !report.complete;
        if !report.summaries.is_empty() || !report.failures.is_empty() {
            let cell_result = CellResult {
                spec,
                rounds: cell.rounds,
                locks: results::in_order(report.summaries),
                records: report.records,
                failures: report.failures.into_iter().map(|(lock, error)| (lock, error.to_string())).collect(),
                complete: report.complete,
            };
            match groups.last_mut() {
                Some(group) if group.name == cell.group => group.cells.push(cell_result),
                _ => groups.push(GroupResult { name: cell.group.clone(), cells: vec![cell_result] }),
            }
        }
        if interrupt::asked() {
            interrupted |= index + 1 < cells.len();
            break;
        }
    }
    progress.finish();
    Ok(Measured { groups, interrupted, elapsed: started.elapsed() })
}

/// How long a plan is expected to take as it is.
pub(crate) fn planned(cells: &[PlannedCell]) -> Duration {
    Duration::from_secs_f64(cells.iter().map(|cell| expected(cell, Pace::AsPlanned)).sum())
}

/// How long a cell is expected to take, in seconds or in shares of a budget: only proportions
/// matter for the latter.
fn expected(cell: &PlannedCell, pace: Pace) -> f64 {
    let one = match pace {
        Pace::AsPlanned => (cell.spec.duration + cell.spec.warmup + OVERHEAD).as_secs_f64(),
        Pace::Budget(_) => cell.weight,
    };
    one * cell.measurements() as f64
}

/// The window of `cell`, the first of `rest`, when `left` remains for all of them.
fn window(left: Duration, cell: &PlannedCell, rest: &[PlannedCell]) -> Duration {
    let measurements: usize = rest.iter().map(PlannedCell::measurements).sum();
    let weights: f64 = rest.iter().map(|cell| cell.weight * cell.measurements() as f64).sum();
    let measuring = left.saturating_sub(OVERHEAD * measurements as u32).as_secs_f64();
    // A window brings a tenth of itself as warm-up.
    let window = measuring / weights.max(1e-9) * cell.weight / 1.1;
    Duration::from_secs_f64(window.clamp(SHORTEST.as_secs_f64(), 3600.0))
}

#[cfg(test)]
mod tests {
    use lockyard_work::{Workload, candidates};

    use super::*;

    fn cell(weight: f64, locks: usize) -> PlannedCell {
        PlannedCell {
            group: "mutex".to_owned(),
            candidates: candidates().iter().take(locks).collect(),
            spec: Spec::new(Workload::Contend),
            rounds: 3,
            weight,
        }
    }

    #[test]
    fn a_budget_is_shared_by_weight() {
        let cells = [cell(1.0, 2), cell(3.0, 2)];
        let budget = Duration::from_secs(10);
        let first = window(budget, &cells[0], &cells);
        let second = window(budget - (warmup(first) + first + OVERHEAD) * 6, &cells[1], &cells[1..]);
        assert!((second.as_secs_f64() / first.as_secs_f64() - 3.0).abs() < 0.1, "{first:?} {second:?}");
        let all = (first + second).as_secs_f64() * 1.1 * 6.0 + 12.0 * OVERHEAD.as_secs_f64();
        assert!((9.5..=10.01).contains(&all), "{all}");
    }

    #[test]
    fn a_spent_budget_leaves_short_windows() {
        assert_eq!(window(Duration::ZERO, &cell(1.0, 2), &[cell(1.0, 2)]), SHORTEST);
    }
}
