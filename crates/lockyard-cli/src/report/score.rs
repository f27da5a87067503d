//! The scores of a grid as tables: ratios first, then waits.

use std::fmt::Write;

use super::look::{Look, align_right, new_table, trimmed};
use super::numbers;
use crate::results::{Ratios, Score, Waits};

/// Both tables and what they mean; nothing without scores.
pub(crate) fn tables(scores: &[Score], look: Look) -> String {
    if scores.is_empty() {
        return String::new();
    }
    let partly = if scores.iter().all(|score| score.complete) { "" } else { ", as far as it was measured" };
    let mut out = format!("{}{}\n", look.bold("Score"), look.dim(&format!("  over all cells of the grid{partly}")));
    out.push_str(&ratios(scores, look));
    out.push('\n');
    out.push_str(&waits(scores, look));
    for line in [
        "mean          geometric mean of the ratios to the best peer of each cell that left no thread without a turn",
        "cells         with such a peer, of all; alone: one thread",
        "busy          share of the CPU time used, where threads outnumber CPUs and think >= 1/4 section: least, mean",
        "longest wait  of all cells with so many threads; behind the stroke: of the best peers there",
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}", look.dim(line));
    }
    out.push('\n');
    out
}

fn ratios(scores: &[Score], look: Look) -> String {
    let mut table = new_table(look, ["lock", "", "cells", "mean", ">= 0.95", "worst", "its cell, and the peer"]);
    align_right(&mut table, &[2, 3, 4, 5]);
    for score in scores {
        for (name, of, ratios) in [(&*score.lock, "contended", &score.contended), ("", "alone", &score.alone)] {
            let Ratios { cells, compared, mean, near, worst, worst_cell, worst_peer } = ratios;
            let ratio = |value: &Option<f64>| value.map_or_else(none, numbers::ratio);
            let place = worst_cell.as_ref().zip(worst_peer.as_ref());
            table.add_row([
                name.to_owned(),
                of.to_owned(),
                format!("{compared} of {cells}"),
                ratio(mean),
                near.map_or_else(none, |share| format!("{:.0} %", share * 100.0)),
                ratio(worst),
                place.map_or_else(none, |(cell, peer)| format!("{cell}: {peer}")),
            ]);
        }
    }
    trimmed(&table)
}

fn waits(scores: &[Score], look: Look) -> String {
    let head = ["lock", "longest wait of 16 threads", "of 64 threads", "cells without a turn", "busy"];
    let mut table = new_table(look, head);
    align_right(&mut table, &[1, 2, 3, 4]);
    let waits = |waits: Option<Waits>| {
        waits.map_or_else(none, |Waits { ours, best_peer }| {
            format!("{} | {}", numbers::time(ours), best_peer.map_or_else(none, numbers::time))
        })
    };
    for score in scores {
        let without = match score.cells_without_turns {
            0 => none(),
            cells => format!("{cells}, {}", numbers::count(score.most_without_turn, "thread")),
        };
        table.add_row([
            score.lock.clone(),
            waits(score.wait_16),
            waits(score.wait_64),
            without,
            score.busy.map_or_else(none, |busy| format!("{:.2}, {:.2}", busy.least, busy.mean)),
        ]);
    }
    trimmed(&table)
}

fn none() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::score;

    const PLAIN: Look = Look { styled: false, full_titles: true, events: false };

    #[test]
    fn a_score_is_a_line_of_ratios_and_one_of_waits() {
        let results = fixture::results();
        assert_eq!(tables(&results.scores, PLAIN), "");
        let text = tables(&score::of(&results.groups, 2, false), PLAIN);
        let words = |part: &str| {
            let line = text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let cell = "16 threads, section 20, think 1: std-mutex";
        assert_eq!(words("contended"), format!("mutex contended 1 of 1 1.08 × 100 % 1.08 × {cell}"));
        assert_eq!(words("alone  "), "alone 1 of 1 1.02 × 100 % 1.02 × alone: std-mutex");
        assert_eq!(words("| "), "mutex 8.20 ms | 31.4 ms – – –");
        assert!(text.lines().all(|line| line == line.trim_end()));
    }
}
