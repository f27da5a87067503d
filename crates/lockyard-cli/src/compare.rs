//! `lockyard compare`: a short matrix over every family, sized to the machine and to a time budget.

use lockyard_work::{Candidate, Family, Spec, Workload};

use crate::options::CompareOptions;
use crate::run::PlannedCell;
use crate::selection::{self, Group};

/// PAUSEs inside the sections of contended cells: 80 ns to a microsecond, by machine, as short
/// sections go in programs.
pub(crate) const SECTION: u32 = 20;
/// More threads than this say nothing more, and cost time to start.
const MOST_THREADS: usize = 1024;

/// Rounds, when the budget is not tiny.
const ROUNDS: usize = 3;
/// Below this many milliseconds of window per measurement one round is better than three.
const LEAST_WINDOW_MS: f64 = 15.0;

/// The cells to measure.
pub(crate) fn plan(all: &'static [Candidate], options: &CompareOptions) -> Vec<PlannedCell> {
    let groups = selection::defaults(all, &options.families);
    let mut cells: Vec<PlannedCell> = groups.iter().flat_map(|group| cells(group, options)).collect();
    let weight: f64 = cells.iter().map(|cell| cell.weight * cell.candidates.len() as f64).sum();
    let window_ms = options.budget.as_secs_f64() * 1e3 / (weight * ROUNDS as f64);
    if window_ms < LEAST_WINDOW_MS {
        for cell in &mut cells {
            cell.rounds = 1;
        }
    }
    cells
}

/// The cells of one family.
fn cells(group: &Group, options: &CompareOptions) -> Vec<PlannedCell> {
    let reads = group.candidates.iter().all(|candidate| candidate.family == Family::Rw);
    let crowd = (options.cpus * 8).min(MOST_THREADS);
    let mut cells = Vec::new();
    let mut add = |weight: f64, spec: Spec| {
        let spec = Spec { seed: options.seed, ..spec };
        let (group, candidates) = (group.name.clone(), group.candidates.clone());
        cells.push(PlannedCell { group, candidates, spec, rounds: ROUNDS, weight });
    };
    let alone = |read_pct| Spec { read_pct, ..Spec::new(Workload::Uncontended) };
    let contend = |threads, read_pct| Spec { threads, read_pct, cs: SECTION, ..Spec::new(Workload::Contend) };
    // Programs think between two sections. Where they hardly do, a lock that lets one thread run
    // alone looks best.
    let thinking = |threads, read_pct| Spec { think: SECTION, ..contend(threads, read_pct) };
    add(0.4, alone(0.0));
    if reads {
        add(0.4, alone(100.0));
        for (weight, threads) in [(1.0, 2), (1.5, crowd)] {
            for read_pct in [50.0, 95.0] {
                add(weight, contend(threads, read_pct));
            }
            add(weight, thinking(threads, 95.0));
        }
        // Sections of a millisecond: a window must hold many of them.
        add(3.0, Spec::new(Workload::StarveReaders));
        add(3.0, Spec::new(Workload::StarveWriters));
    } else {
        for (weight, threads) in [(1.0, 2), (1.5, crowd)] {
            add(weight, contend(threads, 0.0));
            add(weight, thinking(threads, 0.0));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockyard_work::candidates;

    use super::*;

    fn options(budget: Duration) -> CompareOptions {
        let families = Family::ALL.to_vec();
        CompareOptions { budget, families, cpus: 2, seed: 7, json: false, html: None, sim: false }
    }

    #[test]
    fn every_planned_cell_can_run() {
        let cells = plan(candidates(), &options(Duration::from_secs(55)));
        for cell in &cells {
            assert_eq!((cell.spec.seed, cell.rounds), (7, ROUNDS));
            for candidate in &cell.candidates {
                candidate.check(&cell.spec).unwrap();
            }
        }
        for family in Family::ALL {
            for think in [1, SECTION] {
                let crowd = |cell: &PlannedCell| cell.spec.threads == 16 && cell.spec.think == think;
                assert!(cells.iter().any(|cell| cell.group == family.name() && crowd(cell)), "{family:?} {think}");
            }
        }
        assert_eq!(cells.iter().filter(|cell| cell.spec.has_roles()).count(), 2);
    }

    #[test]
    fn a_tiny_budget_means_one_round() {
        assert!(plan(candidates(), &options(Duration::from_millis(500))).iter().all(|cell| cell.rounds == 1));
    }
}
