//! The summary: Lockyard's locks against the best peer, one line per cell.

use lockyard_work::{Origin, Summary};

use super::look::{Look, align_right, new_table, trimmed};
use super::numbers;
use super::table::{ratio, wait};
use crate::results::{self, CellResult, Results};

/// The summary as a table; empty where nothing is compared.
pub(crate) fn summary(results: &Results, look: Look) -> String {
    let rows = summary_rows(results);
    if rows.is_empty() {
        return String::new();
    }
    let mut table = new_table(look, ["Lockyard", "cell", "vs best peer", "best peer", "our wait", "its wait"]);
    align_right(&mut table, &[2, 4, 5]);
    for row in rows {
        table.add_row(vec![row.lock, row.cell, row.ratio, row.best_peer, row.our_wait, row.its_wait]);
    }
    let lines = trimmed(&table);
    let hint = look.dim("  longest waits; idle: threads that never had a turn");
    format!("{}{hint}\n{lines}\n\n{}\n", look.bold("Summary"), verdicts(results).join("\n"))
}

/// How a lock stands against the best peer of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Faster.
    Ahead,
    /// The difference is within the spread of the rounds.
    Even,
    /// Slower.
    Behind,
    /// Every peer left threads without a turn: nothing to compare with.
    Unrivalled,
    /// It left threads without a turn itself: its speed is that of fewer.
    Unfair,
}

/// `None`: of an interrupted run, in which the two have no round in common.
fn standing(cell: &CellResult, lock: &Summary, best: Option<&Summary>) -> Option<Standing> {
    if !cell.is_alone() && lock.worst_idle_threads > 0 {
        return Some(Standing::Unfair);
    }
    let Some(best) = best else { return Some(Standing::Unrivalled) };
    Some(match lock.ratio_to_best_peer? - 1.0 {
        more if more.abs() <= (lock.spread + best.spread) / 2.0 => Standing::Even,
        more if more > 0.0 => Standing::Ahead,
        _ => Standing::Behind,
    })
}

/// One of Lockyard's locks in a cell.
struct Cell {
    standing: Standing,
    ratio: f64,
    /// What was run.
    title: String,
}

/// Below this ratio "as fast" is said with the number.
const DOUBTFUL: f64 = 0.95;

/// A sentence for each of Lockyard's locks that has peers.
pub(crate) fn verdicts(results: &Results) -> Vec<String> {
    if results.is_void() {
        return vec!["No verdict: other programs used too much of the CPUs; repeat on a quiet machine".to_owned()];
    }
    let mut locks: Vec<(String, Vec<Cell>)> = Vec::new();
    for (cell, lock, best) in compared(results) {
        let Some(standing) = standing(cell, lock, best) else { continue };
        let (ratio, title) = (lock.ratio_to_best_peer.unwrap_or(1.0), results::short_title(&cell.spec));
        let one = Cell { standing, ratio, title };
        match locks.iter_mut().find(|(label, _)| *label == lock.label()) {
            Some((_, cells)) => cells.push(one),
            None => locks.push((lock.label(), vec![one])),
        }
    }
    let sentence = |(label, cells): &(String, Vec<Cell>)| {
        let count = |standing| cells.iter().filter(|cell| cell.standing == standing).count();
        let [ahead, even, behind] = [Standing::Ahead, Standing::Even, Standing::Behind].map(count);
        let said = |count: usize, what: &str| match count {
            0 => String::new(),
            some => format!("; in {some} {what} left threads without a turn"),
        };
        let lowest = |standing| {
            let of = cells.iter().filter(|cell| cell.standing == standing);
            of.min_by(|a, b| a.ratio.total_cmp(&b.ratio)).map(|cell| (cell.ratio, &cell.title))
        };
        let worst = lowest(Standing::Behind);
        let worst =
            worst.map_or_else(String::new, |(ratio, cell)| format!(": at worst {}, {cell}", numbers::ratio(ratio)));
        // A wide spread hides more than the word says.
        let doubt = lowest(Standing::Even).filter(|(ratio, _)| *ratio < DOUBTFUL);
        let doubt = doubt
            .map_or_else(String::new, |(ratio, _)| format!(" (within the spread, down to {})", numbers::ratio(ratio)));
        format!(
            "{label}: faster than the best peer in {ahead} of {} cells, as fast in {even}{doubt}, slower in {behind}{worst}{}{}",
            cells.len(),
            said(count(Standing::Unrivalled), "every peer"),
            said(count(Standing::Unfair), "it")
        )
    };
    locks.iter().map(sentence).collect()
}

/// Each of Lockyard's locks in each cell that has peers, and the best of these.
fn compared(results: &Results) -> impl Iterator<Item = (&CellResult, &Summary, Option<&Summary>)> {
    let cells = results.groups.iter().flat_map(|group| &group.cells);
    let with_peers = cells.filter(|cell| cell.locks.iter().any(|lock| lock.origin != Origin::Lockyard));
    with_peers.flat_map(|cell| {
        let ours = cell.locks.iter().filter(|lock| lock.origin == Origin::Lockyard);
        ours.map(move |lock| (cell, lock, cell.best_peer()))
    })
}

/// One of Lockyard's locks in one cell, against the best peer.
#[derive(Debug)]
pub(crate) struct SummaryRow {
    /// The lock; empty if the row above names it.
    pub(crate) lock: String,
    /// What was run.
    pub(crate) cell: String,
    /// Throughput against the best peer.
    pub(crate) ratio: String,
    /// Whether that is more or less.
    pub(crate) standing: Option<Standing>,
    /// The best peer.
    pub(crate) best_peer: String,
    /// Longest wait and threads without a turn of ours.
    pub(crate) our_wait: String,
    /// The same of the best peer.
    pub(crate) its_wait: String,
}

/// The rows of the summary. Cells without any peer have none.
pub(crate) fn summary_rows(results: &Results) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    let mut previous = String::new();
    for (cell, lock, best) in compared(results) {
        let label = lock.label();
        rows.push(SummaryRow {
            lock: if label == previous { String::new() } else { label.clone() },
            cell: results::short_title(&cell.spec),
            ratio: ratio(lock),
            standing: standing(cell, lock, best).filter(|_| !results.is_void()),
            best_peer: best.map_or_else(|| "none: all starve threads".to_owned(), Summary::label),
            our_wait: wait_and_idle(cell, lock),
            its_wait: best.map_or_else(|| "–".to_owned(), |best| wait_and_idle(cell, best)),
        });
        previous = label;
    }
    rows
}

/// The longest wait, and how many threads never had a turn: `226 ms, 3 idle`.
fn wait_and_idle(cell: &CellResult, lock: &Summary) -> String {
    let wait = wait(cell, lock);
    if !cell.is_alone() && lock.worst_idle_threads > 0 {
        format!("{wait}, {} idle", lock.worst_idle_threads)
    } else {
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    const PLAIN: Look = Look { styled: false, full_titles: false, events: true };

    #[test]
    fn the_summary_sets_our_wait_beside_the_best_peers() {
        let text = summary(&fixture::results(), PLAIN);
        let line = text.lines().find(|line| line.contains("16 threads")).expect("a line per cell");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["16", "threads", "1.08", "×", "std-mutex", "8.20", "ms", "31.4", "ms"]);
    }

    #[test]
    fn a_difference_within_the_spread_is_none_and_the_worst_cell_is_named() {
        let mut results = fixture::results();
        let mut set = |ratio: f64, spread: f64| {
            for cell in &mut results.groups[0].cells {
                for lock in cell.locks.iter_mut() {
                    lock.spread = spread;
                    lock.ratio_to_best_peer = Some(ratio);
                }
            }
            verdicts(&results)[0].clone()
        };
        assert_eq!(set(1.1, 0.05), "mutex: faster than the best peer in 2 of 2 cells, as fast in 0, slower in 0");
        assert_eq!(set(0.97, 0.05), "mutex: faster than the best peer in 0 of 2 cells, as fast in 2, slower in 0");
        let wide = "mutex: faster than the best peer in 0 of 2 cells, as fast in 2 (within the spread, down to 0.80 ×), slower in 0";
        assert_eq!(set(0.8, 0.5), wide);
        assert!(set(0.8, 0.05).ends_with("slower in 2: at worst 0.80 ×, alone"), "{}", set(0.8, 0.05));
        let cell = &results.groups[0].cells[1];
        let [mut ours, peer] = [0, 1].map(|place| cell.locks[place].clone());
        ours.ratio_to_best_peer = None;
        assert_eq!(standing(cell, &ours, Some(&peer)), None);
    }

    #[test]
    fn peers_that_starve_threads_are_no_measure_and_our_own_starving_is_told() {
        let mut results = fixture::results();
        for lock in results.groups[0].cells[1].locks.iter_mut().filter(|lock| lock.origin == Origin::Peer) {
            (lock.worst_idle_threads, lock.ratio_to_best_peer) = (1, None);
        }
        let rows = summary_rows(&results);
        assert_eq!(
            (rows.len(), rows[1].best_peer.as_str(), rows[1].standing),
            (2, "none: all starve threads", Some(Standing::Unrivalled))
        );
        let verdict = |results: &Results| verdicts(results)[0].clone();
        assert!(verdict(&results).ends_with("; in 1 every peer left threads without a turn"), "{}", verdict(&results));
        for lock in results.groups[0].cells[1].locks.iter_mut().filter(|lock| lock.origin != Origin::Peer) {
            (lock.worst_idle_threads, lock.ratio_to_best_peer) = (1, Some(2.0));
        }
        assert!(verdict(&results).ends_with("; in 1 it left threads without a turn"), "{}", verdict(&results));
        assert_eq!(summary_rows(&results)[1].standing, Some(Standing::Unfair));
    }

    #[test]
    fn a_busy_machine_gives_no_verdict() {
        let mut results = fixture::results();
        let locks = results.groups.iter_mut().flat_map(|group| &mut group.cells).flat_map(|cell| &mut cell.locks);
        locks.for_each(|lock| lock.others = 0.4);
        assert!(verdicts(&results)[0].starts_with("No verdict: ") && verdicts(&results).len() == 1);
    }
}
