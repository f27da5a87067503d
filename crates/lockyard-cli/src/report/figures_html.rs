//! The page of `reproduce`: one file, no script, nothing loaded from anywhere.

use std::fmt::Write;

use lockyard_figures::Reproduction;
use lockyard_figures::result::{CellResult, FigureResult};
use lockyard_figures::score::Estimate;

use super::figures_table::{SCORE_HEAD, band, cell, columns, ratio, rows, score_lines, statements, value_of};
use super::html;
use super::lines::{self, Dot, Series};
use super::numbers;
use super::svg::escape;

/// The whole page. Writing to a string cannot fail, here and below.
pub(crate) fn page(done: &Reproduction) -> String {
    let mut out = html::begin("Lockyard: published tables, rerun");
    let _ = write!(
        out,
        "<h1>Published tables, rerun on simulated machines</h1>\n<p class=\"soft\">lockyard {} · {}</p>\n",
        env!("CARGO_PKG_VERSION"),
        escape(&done.variants)
    );
    if !done.unfinished.is_empty() {
        let names = escape(&done.unfinished.join(", "));
        let _ = writeln!(out, "<p class=\"notice\">This run was interrupted; missing: {names}.</p>");
    }
    scores(&mut out, done);
    for figure in &done.figures {
        section(&mut out, figure);
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn scores(out: &mut String, done: &Reproduction) {
    out.push_str("<h2>Scores</h2>\n<div class=\"scroll\"><table>\n");
    row(out, "th", "", SCORE_HEAD.map(str::to_owned).into_iter());
    for line in score_lines(done) {
        let attributes = if line[0].starts_with("all changes") { " class=\"ours\"" } else { "" };
        row(out, "td", attributes, line.into_iter());
    }
    out.push_str(
        "</table></div>\n<p class=\"soft\">direction: changes of more than 5 % whose direction is right. error: |simulated ratio / \
         published ratio − 1|. no change, mean: median error of always saying ratio 1, and of always saying the mean change of the \
         other tables. inside: published ratios inside the band; band: median of its highest / lowest ratio.</p>\n",
    );
}

/// A row of a table: the first cell is a name, the others are numbers.
fn row(out: &mut String, tag: &str, attributes: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(out, "<tr{attributes}>");
    for (index, text) in cells.enumerate() {
        let class = if index == 0 { "" } else { " class=\"n\"" };
        let _ = write!(out, "<{tag}{class}>{}</{tag}>", escape(&text));
    }
    out.push_str("</tr>\n");
}

fn section(out: &mut String, figure: &FigureResult) {
    let _ = writeln!(out, "<h2>{}</h2>\n<p>{}</p>\n<dl>", figure.figure, escape(figure.subject));
    let on = figure.simulated_on.join(", ");
    for (name, text) in [("machine", figure.machine), ("simulated on", &on), ("workload", figure.workload)] {
        let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(text));
    }
    for note in &figure.notes {
        let _ = writeln!(out, "<dt>note</dt><dd>{}</dd>", escape(note));
    }
    let _ = writeln!(out, "<dt>verdict</dt><dd>{}</dd>\n</dl>", escape(&statements(&figure.score.verdicts())));
    for (title, series) in charts(figure) {
        let _ = writeln!(out, "<div class=\"scroll\">{}</div>", lines::chart(&title, figure.unit, &series));
    }
    if !figure.changes.is_empty() {
        let dots: Vec<Dot> = figure
            .changes
            .iter()
            .map(|change| Dot {
                label: change.label.clone(),
                published: change.published,
                simulated: change.simulated.map(edges),
            })
            .collect();
        let _ = writeln!(out, "<div class=\"scroll\">{}</div>", lines::ratios("Changes", &dots));
    }
    numbers_table(out, figure);
    shapes(out, figure);
}

fn edges(found: Estimate) -> (f64, f64, f64) {
    (found.median, found.low, found.high)
}

/// A chart per panel, where rows are numbers of threads.
fn charts(figure: &FigureResult) -> Vec<(String, Vec<Series>)> {
    let mut charts: Vec<(String, Vec<Series>)> = Vec::new();
    for cell in &figure.cells {
        let Some(threads) = cell.threads.map(f64::from) else { continue };
        let what = "Published and simulated";
        let title = if cell.panel.is_empty() { what.to_owned() } else { format!("{what}, {}", cell.panel) };
        let chart = match charts.iter().position(|chart| chart.0 == title) {
            Some(known) => &mut charts[known].1,
            None => {
                charts.push((title, Vec::new()));
                let last = charts.len() - 1;
                &mut charts[last].1
            }
        };
        let series = match chart.iter().position(|series| series.label == cell.column) {
            Some(known) => &mut chart[known],
            None => {
                chart.push(Series { label: cell.column.clone(), published: Vec::new(), simulated: Vec::new() });
                let last = chart.len() - 1;
                &mut chart[last]
            }
        };
        series.published.extend(cell.published.map(|value| (threads, value)));
        series.simulated.extend(cell.simulated.map(edges).map(|(middle, low, high)| (threads, middle, low, high)));
    }
    charts
}

fn numbers_table(out: &mut String, figure: &FigureResult) {
    let columns = columns(figure);
    out.push_str("<details><summary>All numbers</summary>\n<div class=\"scroll\"><table>\n");
    let head = columns.iter().flat_map(|column| [(*column).to_owned(), "simulated".to_owned(), "band".to_owned()]);
    row(out, "th", "", std::iter::once(figure.keys.join(", ")).chain(head));
    for name in rows(figure) {
        let texts = columns.iter().flat_map(|column| match cell(figure, name, column) {
            Some(cell) => texts(cell),
            None => std::array::from_fn(|_| String::new()),
        });
        row(out, "td", "", std::iter::once(name.to_owned()).chain(texts));
    }
    out.push_str("</table></div>\n<div class=\"scroll\"><table>\n");
    row(out, "th", "", ["change", "published", "simulated", "band"].map(str::to_owned).into_iter());
    for change in &figure.changes {
        let found = change.simulated;
        let middle = found.map_or_else(|| "n/a".to_owned(), |found| ratio(found.median));
        let edges = found.map_or_else(String::new, band);
        row(out, "td", "", [change.label.clone(), ratio(change.published), middle, edges].into_iter());
    }
    out.push_str("</table></div></details>\n");
}

fn texts(cell: &CellResult) -> [String; 3] {
    let fitted = if cell.fitted { " (fitted)" } else { "" };
    let published = cell.published.map_or_else(|| "–".to_owned(), |value| format!("{}{fitted}", value_of(value)));
    let note = || format!("n/a: {}", cell.note.as_deref().unwrap_or("no such number"));
    let simulated = cell.simulated.map_or_else(note, |found| value_of(found.median));
    [published, simulated, cell.simulated.map_or_else(String::new, band)]
}

/// Where simulated time and lines went: for whoever asks why.
fn shapes(out: &mut String, figure: &FigureResult) {
    if figure.cells.iter().all(|cell| cell.shape.is_none()) {
        return;
    }
    out.push_str("<details><summary>Where the simulated time went</summary>\n<div class=\"scroll\"><table>\n");
    let head = [
        "cell",
        "running",
        "spinning",
        "runnable",
        "asleep",
        "transfers/op",
        "median wait",
        "longest wait",
        "hottest lines",
    ];
    row(out, "th", "", head.map(str::to_owned).into_iter());
    for cell in &figure.cells {
        let Some(shape) = &cell.shape else { continue };
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let texts = [
            format!("{}: {}", cell.row, cell.column),
            percent(shape.running),
            percent(shape.spinning),
            percent(shape.runnable),
            percent(shape.sleeping),
            numbers::three(shape.transfers_per_op),
            numbers::time(shape.wait_p50_ns as f64),
            numbers::time(shape.wait_max_ns as f64),
            shape.hottest.join(", "),
        ];
        row(out, "td", "", texts.into_iter());
    }
    out.push_str("</table></div></details>\n");
}
