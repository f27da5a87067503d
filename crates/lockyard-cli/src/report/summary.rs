//! The summary: Lockyard's locks against the best peer, one line per cell.

use lockyard_work::{Origin, Summary};

use super::look::{Look, align_right, new_table, trimmed};
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
    format!("{}{}\n{lines}", look.bold("Summary"), look.dim("  longest waits; idle: threads that never had a turn"))
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
    /// Whether Lockyard is ahead.
    pub(crate) ahead: bool,
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
    for cell in results.groups.iter().flat_map(|group| &group.cells) {
        if cell.locks.iter().all(|lock| lock.origin == Origin::Lockyard) {
            continue;
        }
        let best = cell.best_peer();
        for lock in cell.locks.iter().filter(|lock| lock.origin == Origin::Lockyard) {
            let label = lock.label();
            rows.push(SummaryRow {
                lock: if label == previous { String::new() } else { label.clone() },
                cell: results::short_title(&cell.spec),
                ratio: ratio(lock),
                ahead: best.is_none() || lock.ratio_to_best_peer.is_some_and(|ratio| ratio >= 1.0),
                best_peer: best.map_or_else(|| "no peer had a turn".to_owned(), Summary::label),
                our_wait: wait_and_idle(cell, lock),
                its_wait: best.map_or_else(|| "–".to_owned(), |best| wait_and_idle(cell, best)),
            });
            previous = label;
        }
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
    fn a_cell_in_which_no_peer_had_a_turn_is_not_lost() {
        let mut results = fixture::results();
        for lock in results.groups[0].cells[1].locks.iter_mut().filter(|lock| lock.origin == Origin::Peer) {
            lock.kops_per_s = 0.0;
        }
        results.groups[0].cells[1].locks[0].ratio_to_best_peer = None;
        let rows = summary_rows(&results);
        assert_eq!((rows.len(), rows[1].best_peer.as_str(), rows[1].ahead), (2, "no peer had a turn", true));
    }
}
