//! The score of the grid: how each of Lockyard's locks did over all cells of its family.
//!
//! A ratio is the lock's throughput by that of the best peer of the cell, and **a peer that left a
//! thread without a turn, in any round, is no peer**: it was fast because it served fewer. A cell
//! without another peer has no ratio, and is counted as such. Uncontended cells (one thread) are
//! apart: there a lock has nothing to decide.

use lockyard_work::{Origin, Summary};

use crate::results::{self, Busy, CellResult, GroupResult, Ratios, Score, Waits};

/// A ratio from which on a lock counts as near the best peer, or before it.
const NEAR: f64 = 0.95;

/// The scores of Lockyard's locks, in the order in which they are listed, on a machine with `cpus`
/// CPUs. If the run was `interrupted`, cells of the last group are missing.
pub(crate) fn of(groups: &[GroupResult], cpus: usize, interrupted: bool) -> Vec<Score> {
    let mut scores: Vec<Score> = groups.iter().flat_map(|group| of_group(group, cpus)).collect();
    let last = groups.last().map_or("", |group| &group.name);
    for score in scores.iter_mut().filter(|score| interrupted && score.score == last) {
        score.complete = false;
    }
    scores
}

fn of_group(group: &GroupResult, cpus: usize) -> Vec<Score> {
    let mut labels: Vec<String> = Vec::new();
    for lock in group.cells.iter().flat_map(|cell| &cell.locks).filter(|lock| lock.origin == Origin::Lockyard) {
        if !labels.contains(&lock.label()) {
            labels.push(lock.label());
        }
    }
    labels.into_iter().map(|label| of_lock(group, label, cpus)).collect()
}

fn of_lock(group: &GroupResult, label: String, cpus: usize) -> Score {
    let mine: Vec<(&CellResult, &Summary)> = group
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.locks.iter().find(|lock| lock.label() == label)?)))
        .collect();
    let (alone, contended): (Vec<_>, Vec<_>) = mine.iter().partition(|(cell, _)| cell.is_alone());
    let idle = contended.iter().map(|(_, lock)| lock.worst_idle_threads);
    Score {
        score: group.name.clone(),
        complete: group.cells.iter().all(|cell| cell.complete),
        contended: Ratios::of(&contended),
        alone: Ratios::of(&alone),
        wait_16: Waits::of(&mine, 16),
        wait_64: Waits::of(&mine, 64),
        cells_without_turns: idle.clone().filter(|&threads| threads > 0).count(),
        most_without_turn: idle.max().unwrap_or(0),
        busy: Busy::of(&contended, cpus),
        lock: label,
    }
}

impl Ratios {
    fn of(cells: &[(&CellResult, &Summary)]) -> Self {
        let ratio = |&(cell, lock): &(&CellResult, &Summary)| {
            let peer = cell.best_peer()?;
            Some((lock.kops_per_s / peer.kops_per_s, results::title(&cell.spec, true), peer.label()))
        };
        let ratios: Vec<(f64, String, String)> = cells.iter().filter_map(ratio).collect();
        let (cells, compared) = (cells.len(), ratios.len());
        let Some((worst, cell, peer)) = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0)).cloned() else {
            return Self { cells, ..Self::default() };
        };
        let share = |count: usize| count as f64 / compared as f64;
        Self {
            cells,
            compared,
            mean: Some((ratios.iter().map(|(ratio, ..)| ratio.ln()).sum::<f64>() / compared as f64).exp()),
            near: Some(share(ratios.iter().filter(|(ratio, ..)| *ratio >= NEAR).count())),
            worst: Some(worst),
            worst_cell: Some(cell),
            worst_peer: Some(peer),
        }
    }
}

impl Waits {
    fn of(cells: &[(&CellResult, &Summary)], threads: usize) -> Option<Self> {
        let meant = || cells.iter().filter(|(cell, _)| cell.spec.lockers() == threads);
        let ours = meant().map(|(_, lock)| lock.wait_max).reduce(f64::max)?;
        let best_peer = meant().filter_map(|(cell, _)| cell.best_peer()).map(|peer| peer.wait_max).reduce(f64::max);
        Some(Self { ours, best_peer })
    }
}

impl Busy {
    fn of(cells: &[(&CellResult, &Summary)], cpus: usize) -> Option<Self> {
        let thinks = |cell: &CellResult| u64::from(cell.spec.think) * 4 >= u64::from(cell.spec.cs);
        let meant = cells.iter().filter(|(cell, _)| cell.spec.lockers() > cpus && thinks(cell));
        let shares: Vec<f64> = meant.map(|(_, lock)| lock.busy).collect();
        let least = shares.iter().copied().reduce(f64::min)?;
        Some(Self { least, mean: shares.iter().sum::<f64>() / shares.len() as f64 })
    }
}

#[cfg(test)]
mod tests {
    use lockyard_work::{Spec, Workload};

    use super::*;
    use crate::report::fixture;

    /// The fixture's cell of 16 threads, or of one, with these rates of ours and of both peers.
    fn cell(threads: usize, ours: f64, peers: [f64; 2]) -> CellResult {
        let mut cell = fixture::results().groups.remove(0).cells.remove(1);
        cell.spec.threads = threads;
        for (lock, rate) in cell.locks.iter_mut().zip([ours, peers[0], peers[1]]) {
            lock.kops_per_s = rate;
            lock.worst_idle_threads = 0;
        }
        cell
    }

    fn score(cells: Vec<CellResult>) -> Score {
        let mut scores = of(&[GroupResult { name: "mutex".to_owned(), cells }], 2, false);
        assert_eq!(scores.len(), 1, "one lock of ours");
        scores.remove(0)
    }

    #[test]
    fn the_mean_is_geometric_and_the_worst_cell_is_named() {
        let score = score(vec![
            cell(1, 50.0, [100.0, 20.0]),
            cell(2, 200.0, [100.0, 20.0]),
            cell(16, 80.0, [10.0, 100.0]),
            cell(64, 96.0, [100.0, 100.0]),
        ]);
        let Ratios { cells, compared, mean, near, worst, worst_cell, worst_peer } = score.contended;
        assert_eq!((cells, compared, worst), (3, 3, Some(0.8)));
        assert!((mean.unwrap() - (2.0_f64 * 0.8 * 0.96).cbrt()).abs() < 1e-12);
        assert!((near.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(worst_cell.as_deref(), Some("16 threads, section 20, think 1"));
        assert_eq!(worst_peer.as_deref(), Some("pthread-mutex"));
        assert_eq!((score.alone.cells, score.alone.mean, score.alone.worst), (1, Some(0.5), Some(0.5)));
    }

    #[test]
    fn a_peer_that_starves_threads_is_not_the_best() {
        let mut starves = cell(16, 90.0, [100.0, 60.0]);
        starves.locks[1].worst_idle_threads = 1;
        assert_eq!(score(vec![starves.clone()]).contended.worst, Some(1.5));
        starves.locks[2].worst_idle_threads = 1;
        let none = score(vec![starves, cell(2, 90.0, [100.0, 60.0])]);
        assert_eq!((none.contended.cells, none.contended.compared, none.contended.worst), (2, 1, Some(0.9)));
        // Of one thread alone it means that the window was too short.
        let mut alone = cell(1, 90.0, [100.0, 60.0]);
        alone.locks[1].worst_idle_threads = 1;
        assert_eq!(score(vec![alone]).alone.worst, Some(0.9));
    }

    #[test]
    fn waits_turns_and_busy_are_of_the_cells_they_are_said_of() {
        let mut cells = vec![cell(2, 1.0, [1.0, 1.0]), cell(16, 1.0, [1.0, 2.0]), cell(16, 1.0, [2.0, 1.0])];
        for (cell, wait) in cells.iter_mut().zip([9e6, 1e6, 3e6]) {
            cell.locks[0].wait_max = wait;
            cell.locks[1].wait_max = 5e6;
            cell.locks[2].wait_max = 7e6;
        }
        cells[0].locks[0].busy = 0.1; // as many threads as CPUs
        cells[1].locks[0].busy = 0.9;
        cells[1].spec = Spec { threads: 16, cs: 20, think: 5, ..Spec::new(Workload::Contend) };
        cells[2].locks[0].busy = 0.5; // hardly any thinking
        cells[2].locks[0].worst_idle_threads = 3;
        let score = score(cells);
        assert_eq!(score.wait_16, Some(Waits { ours: 3e6, best_peer: Some(7e6) }));
        assert_eq!(score.wait_64, None);
        assert_eq!((score.cells_without_turns, score.most_without_turn), (1, 3));
        assert_eq!(score.busy, Some(Busy { least: 0.9, mean: 0.9 }));
    }

    #[test]
    fn of_an_interrupted_run_the_last_group_is_incomplete() {
        let group = |name: &str| GroupResult { name: name.to_owned(), cells: vec![cell(2, 1.0, [1.0, 1.0])] };
        let complete = |interrupted| {
            of(&[group("mutex"), group("rw")], 2, interrupted).iter().map(|score| score.complete).collect::<Vec<_>>()
        };
        assert_eq!((complete(false), complete(true)), (vec![true, true], vec![true, false]));
    }

    #[test]
    fn without_peers_there_is_no_ratio() {
        let mut alone = cell(16, 1.0, [1.0, 1.0]);
        alone.locks.truncate(1);
        let score = score(vec![alone]);
        assert_eq!(score.contended, Ratios { cells: 1, ..Ratios::default() });
        assert_eq!(score.wait_16.map(|waits| waits.best_peer), Some(None));
    }
}
