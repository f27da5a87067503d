//! Rerun figures for people: published and simulated side by side, the verdict of each, and one
//! table of scores.

use std::fmt::Write;

use lockyard_figures::Reproduction;
use lockyard_figures::result::{CellResult, FigureResult};
use lockyard_figures::score::{Errors, Estimate, Score, bar};

use super::look::{Look, align_right, new_table, trimmed};
use super::numbers;

/// All tables, verdicts and scores. Writing to a string cannot fail, here and below.
pub(crate) fn render(done: &Reproduction, look: Look) -> String {
    let mut out = String::new();
    for figure in &done.figures {
        head(&mut out, figure, look);
        out.push_str(&cells(figure, look));
        if figure.changes.len() <= MOST_CHANGES {
            out.push_str(&changes(figure, look));
        }
        verdict(&mut out, &figure.score, look);
        out.push('\n');
    }
    out.push_str(&scores(done, look));
    let _ = writeln!(out, "{}", look.dim(&format!("{}.", done.variants)));
    let _ = writeln!(out, "{}", look.dim(LEGEND));
    out
}

/// A longer list of changes repeats the table above it; it is in the page and in the JSON.
const MOST_CHANGES: usize = 8;

const LEGEND: &str = "error: |simulated ratio / published ratio - 1| of the change; band: median of highest / lowest ratio; \
inside: published ratios inside the band;\n“no change” and “mean”: median error of two dumb prophets, the second of whom always \
says the mean change of the other tables.";

fn head(out: &mut String, figure: &FigureResult, look: Look) {
    let _ = writeln!(out, "{}", look.bold(&format!("{}  {}", figure.figure, figure.subject)));
    let on = if figure.simulated_on.is_empty() { "not simulated".to_owned() } else { figure.simulated_on.join(", ") };
    let _ = writeln!(out, "{} {} {}", look.dim("machine "), figure.machine, look.dim(&format!("({on})")));
    let _ = writeln!(out, "{} {}", look.dim("workload"), figure.workload);
    for note in &figure.notes {
        let _ = writeln!(out, "{} {note}", look.dim("note    "));
    }
}

/// The columns of a figure, in their order.
pub(super) fn columns(figure: &FigureResult) -> Vec<&str> {
    let mut columns: Vec<&str> = Vec::new();
    for cell in &figure.cells {
        if !columns.contains(&cell.column.as_str()) {
            columns.push(&cell.column);
        }
    }
    columns
}

/// The rows of a figure, in their order.
pub(super) fn rows(figure: &FigureResult) -> Vec<&str> {
    let mut rows: Vec<&str> = Vec::new();
    for cell in &figure.cells {
        if !rows.contains(&cell.row.as_str()) {
            rows.push(&cell.row);
        }
    }
    rows
}

/// The cell at a place of the table.
pub(super) fn cell<'a>(figure: &'a FigureResult, row: &str, column: &str) -> Option<&'a CellResult> {
    figure.cells.iter().find(|cell| cell.row == row && cell.column == column)
}

fn cells(figure: &FigureResult, look: Look) -> String {
    let columns = columns(figure);
    // With many columns there is no room for bands.
    let bands = columns.len() <= 2;
    let mut head: Vec<String> = figure.keys.clone();
    for column in &columns {
        head.push((*column).to_owned());
        head.push("simulated".to_owned());
        head.extend(bands.then(|| "band".to_owned()));
    }
    let keys = figure.keys.len();
    let count = head.len();
    let mut table = new_table(look, head);
    align_right(
        &mut table,
        &(0..count).filter(|index| *index >= keys || figure.cells[0].threads.is_some()).collect::<Vec<_>>(),
    );
    let mut remarks: Vec<&str> = Vec::new();
    for row in rows(figure) {
        let mut line: Vec<String> = row.splitn(keys, ',').map(str::to_owned).collect();
        for column in &columns {
            let Some(cell) = cell(figure, row, column) else { continue };
            remarks.extend(cell.note.as_deref());
            let star = if cell.fitted { "*" } else { "" };
            line.push(cell.published.map_or_else(|| "–".to_owned(), |value| format!("{}{star}", value_of(value))));
            line.push(cell.simulated.map_or_else(|| "n/a".to_owned(), |found| value_of(found.median)));
            if bands {
                line.push(cell.simulated.map_or_else(String::new, band));
            }
        }
        table.add_row(line);
    }
    let mut out = trimmed(&table);
    if !figure.unit.is_empty() {
        let _ = writeln!(out, "{}", look.dim(&format!("unit: {}", figure.unit)));
    }
    if figure.cells.iter().any(|cell| cell.fitted) {
        let _ = writeln!(out, "{}", look.dim("*: fitted on, not scored"));
    }
    remarks.sort_unstable();
    remarks.dedup();
    for remark in remarks {
        let _ = writeln!(out, "n/a: {remark}");
    }
    out
}

fn changes(figure: &FigureResult, look: Look) -> String {
    if figure.changes.is_empty() {
        return String::new();
    }
    let mut table = new_table(look, ["change", "published", "simulated", "band"]);
    align_right(&mut table, &[1, 2, 3]);
    for change in &figure.changes {
        let (middle, edges) = change
            .simulated
            .map_or_else(|| ("n/a".to_owned(), String::new()), |found| (ratio(found.median), band(found)));
        table.add_row(vec![change.label.clone(), ratio(change.published), middle, edges]);
    }
    format!("\n{}", trimmed(&table))
}

/// A number of a table: shares need more places than rates.
pub(super) fn value_of(value: f64) -> String {
    numbers::three(value)
}

/// A ratio that may have no end.
pub(super) fn ratio(value: f64) -> String {
    if value.is_finite() { numbers::ratio(value) } else { "∞ ×".to_owned() }
}

pub(super) fn band(found: Estimate) -> String {
    let edge = |value: f64| if value.is_finite() { value_of(value) } else { "∞".to_owned() };
    format!("{} … {}", edge(found.low), edge(found.high))
}

fn verdict(out: &mut String, score: &Score, look: Look) {
    let verdicts = score.verdicts();
    if verdicts.is_empty() {
        let _ = writeln!(out, "{}", look.bold("verdict: nothing to judge"));
        return;
    }
    let _ = writeln!(out, "{}", look.bold(&format!("verdict: {}", statements(&verdicts))));
}

/// `✓ this; ✗ that`.
pub(super) fn statements(verdicts: &[(String, bool)]) -> String {
    let each = verdicts.iter().map(|(text, holds)| format!("{} {text}", if *holds { "✓" } else { "✗" }));
    each.collect::<Vec<_>>().join("; ")
}

/// The head of the table of scores.
pub(super) const SCORE_HEAD: [&str; 9] =
    ["figure", "direction", "Spearman", "median error", "p90", "no change", "mean", "inside", "band"];

/// The lines of the table of scores: those of the series that the locks come from, then others'.
pub(super) fn score_lines(done: &Reproduction) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for (external, name, together) in
        [(false, "all changes", Some(&done.together)), (true, "all changes of others", done.external.as_ref())]
    {
        let figures: Vec<&FigureResult> = done.figures.iter().filter(|figure| figure.external == external).collect();
        lines.extend(figures.iter().map(|figure| score_line(figure.figure, &figure.score)));
        lines.extend(together.filter(|_| figures.len() > 1).map(|score| score_line(name, score)));
    }
    lines
}

/// A line of the table of scores.
fn score_line(name: &str, score: &Score) -> Vec<String> {
    let none = || "–".to_owned();
    let percent = |share: f64| if share.is_finite() { numbers::spread(share) } else { "∞".to_owned() };
    let median = |errors: Option<Errors>| errors.map_or_else(none, |errors| percent(errors.median));
    vec![
        name.to_owned(),
        if score.signs == 0 { none() } else { format!("{}/{}", score.signs_right, score.signs) },
        score.spearman.map_or_else(none, |spearman| format!("{spearman:.2}")),
        median(score.error),
        score.error.map_or_else(none, |errors| percent(errors.p90)),
        median(score.no_change),
        median(score.mean),
        format!("{}/{}", score.inside_band, score.changes),
        score.band.map_or_else(none, ratio),
    ]
}

fn scores(done: &Reproduction, look: Look) -> String {
    let mut table = new_table(look, SCORE_HEAD);
    align_right(&mut table, &(1..SCORE_HEAD.len()).collect::<Vec<_>>());
    for line in score_lines(done) {
        table.add_row(line);
    }
    let bars = format!(
        "  bars: direction ≥ {:.0} %, median error ≤ {:.0} %, Spearman ≥ {} from {} rows, better than both prophets",
        bar::SIGN * 100.0,
        bar::ERROR * 100.0,
        bar::SPEARMAN,
        bar::ROWS
    );
    format!("{}{}\n{}", look.bold("Scores"), look.dim(&bars), trimmed(&table))
}
