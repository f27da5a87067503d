//! The page of `predict`: one file, no script, nothing loaded from anywhere.

use std::fmt::Write;

use super::outcome::{Curve, Point, Prediction};
use super::table::{self, LEGEND};
use crate::report::lines::{self, Series};
use crate::report::shares::{self, Divided};
use crate::report::svg::escape;
use crate::report::{html, numbers};

/// The whole page. Writing to a string cannot fail, here and below.
pub(crate) fn page(found: &Prediction) -> String {
    let Prediction { program, machine, .. } = found;
    let mut out = html::begin(&format!("{program} on {machine}"));
    let _ = write!(
        out,
        "<h1>{} on {}</h1>\n<p class=\"soft\">lockyard {} · {}</p>\n<p class=\"verdict\">{}</p>\n",
        escape(program),
        escape(machine),
        env!("CARGO_PKG_VERSION"),
        escape(&found.trust),
        escape(&found.sentence),
    );
    for note in table::notes(found) {
        let _ = writeln!(out, "<p class=\"notice\">{note}</p>");
    }
    let _ = writeln!(
        out,
        "<h2>How far it scales</h2>\n<div class=\"scroll\">{}</div>",
        lines::chart("Progress: CPUs that do what the program is for", "progress", &curves(found))
    );
    let as_it_is = &found.alternatives[0];
    let _ = writeln!(
        out,
        "<h2>Where the threads’ time goes, as it is</h2>\n<div class=\"scroll\">{}</div>",
        shares::chart("Shares of the time of all threads", &times(as_it_is, found.cpus))
    );
    table_of(&mut out, table::CURVE.map(str::to_owned).to_vec(), table::curve_rows(as_it_is), true);
    if found.alternatives.len() > 1 {
        let about = found.class.as_ref().map_or_else(String::new, |class| format!(" about {class}"));
        let _ = writeln!(out, "<h2>Alternatives{}: progress</h2>", escape(&about));
        let (head, rows) = table::alternatives(found);
        table_of(&mut out, head, rows, false);
    }
    for line in [table::saturation(found), table::law(found)].into_iter().flatten() {
        let _ = writeln!(out, "<p>{}</p>", escape(&line));
    }
    out.push_str("<dl>\n");
    for (name, text) in LEGEND {
        let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(text));
    }
    let most = found.alternatives[0].points.iter().map(|point| point.threads).max();
    if most.is_some_and(|most| most > found.cpus) {
        let _ = writeln!(out, "<dt>*</dt><dd>more threads than the machine has CPUs: {}</dd>", found.cpus);
    }
    for (number, value) in &found.set {
        let _ = writeln!(out, "<dt>changed</dt><dd>{} = {value}</dd>", escape(number));
    }
    out.push_str("</dl>\n</body>\n</html>\n");
    out
}

/// The program as it is, with its band, and the alternatives, without.
fn curves(found: &Prediction) -> Vec<Series> {
    let series = |(number, curve): (usize, &Curve)| {
        let edges = |point: &Point| match number {
            0 => (point.low, point.high),
            _ => (point.progress, point.progress),
        };
        let at = |point: &Point| {
            let (low, high) = edges(point);
            (point.threads as f64, point.progress, low, high)
        };
        let simulated = curve.points.iter().map(at).collect();
        Series { label: curve.name.clone(), published: Vec::new(), simulated }
    };
    found.alternatives.iter().enumerate().map(series).collect()
}

/// What all threads' time goes to at each number of them.
fn times(curve: &Curve, cpus: usize) -> Vec<Divided> {
    let bar = |point: &Point| {
        let useful = point.progress / point.threads as f64;
        let mut parts = vec![("the program’s own computing".to_owned(), useful)];
        parts.extend(point.losses.iter().map(|loss| (loss.what.clone(), loss.share)));
        let more = if point.threads > cpus { "*" } else { "" };
        Divided { label: format!("{}{more}", numbers::count(point.threads, "thread")), parts }
    };
    curve.points.iter().map(bar).collect()
}

/// A table whose first column is names, and whose last is words or a number.
fn table_of(out: &mut String, head: Vec<String>, rows: Vec<Vec<String>>, words: bool) {
    out.push_str("<div class=\"scroll\"><table>\n");
    let width = head.len();
    for (tag, cells) in std::iter::once(("th", head)).chain(rows.into_iter().map(|row| ("td", row))) {
        out.push_str("<tr>");
        for (column, text) in cells.iter().enumerate() {
            let class = match column {
                0 => "",
                _ if words && column + 1 == width => " class=\"words\"",
                _ => " class=\"n\"",
            };
            let _ = write!(out, "<{tag}{class}>{}</{tag}>", escape(text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::limits::Loss;
    use super::*;

    fn curve(name: &str, best: f64) -> Curve {
        let point = |threads: usize| Point {
            threads,
            progress: best.min(threads as f64),
            low: 0.5,
            high: 3.0,
            ops_per_s: 1e6,
            settled: true,
            losses: vec![Loss { what: "waiting for A<B>".to_owned(), share: 0.25 }],
        };
        Curve { name: name.to_owned(), points: [1, 8].map(point).to_vec(), whole: true }
    }

    #[test]
    fn a_page_has_the_sentence_the_curves_and_both_tables() {
        let found = Prediction {
            sentence: "app: scales to 1 thread & no more.".to_owned(),
            program: "app".to_owned(),
            machine: "m".to_owned(),
            machine_fingerprint: String::new(),
            set: BTreeMap::new(),
            cpus: 4,
            class: Some("A<B>".to_owned()),
            alternatives: vec![curve("as it is", 0.5), curve("shards=8:A<B>", 4.0)],
            estimates: Vec::new(),
            scalability_law: None,
            trust: "predicted, not measured".to_owned(),
            interrupted: true,
        };
        let page = page(&found);
        for part in ["1 thread &amp; no more.", "shards=8:A&lt;B&gt;", "what limits", "interrupted", "8 threads*"] {
            assert!(page.contains(part), "no '{part}' in {page}");
        }
        assert!(!page.contains("A<B>") && !page.contains("NaN"));
        for tag in ["table", "svg", "p", "h2", "tr"] {
            let closed = page.matches(&format!("</{tag}>")).count();
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, closed, "{tag}");
        }
    }
}
