//! A prediction for people: a sentence, the curve, the alternatives side by side.

use std::fmt::Write;

use super::outcome::{Curve, Estimate, Point, Prediction};
use crate::report::look::{Look, align_right, new_table, trimmed};
use crate::report::numbers;

/// What the words mean.
pub(super) const LEGEND: [(&str, &str); 3] = [
    ("progress", "CPUs that do what the program is for: its own computing, in and outside of its locks"),
    ("band", "over placements of threads, seeds, and the fewest and most lines that sections touch"),
    (
        "as it is",
        "a futex mutex of three states, a futex rwlock or a spinlock that never sleeps stands for the C library's lock",
    ),
];

/// The columns of a curve.
pub(super) const CURVE: [&str; 5] = ["threads", "progress", "band", "ops/s", "what limits"];

/// The whole page.
pub(crate) fn render(found: &Prediction, look: Look) -> String {
    let mut out = format!("{}\n\n", look.bold(&found.sentence));
    for note in notes(found) {
        let _ = writeln!(out, "{note}\n");
    }
    let as_it_is = &found.alternatives[0];
    let _ = writeln!(out, "{}\n{}", look.bold("As it is"), curve(as_it_is, look));
    if found.alternatives.len() > 1 {
        let about = found.class.as_ref().map_or_else(String::new, |class| format!(" about {class}"));
        let _ =
            writeln!(out, "{}\n{}", look.bold(&format!("Alternatives{about}: progress")), side_by_side(found, look));
    }
    for line in [saturation(found), law(found)].into_iter().flatten() {
        let _ = writeln!(out, "{line}");
    }
    out.push('\n');
    for (name, text) in LEGEND {
        let _ = writeln!(out, "{}", look.dim(&format!("{name:<12} {text}")));
    }
    let _ = writeln!(out, "{}", look.dim(&format!("{}: {}", found.machine, found.trust)));
    out
}

/// What keeps numbers from being taken as they are.
pub(super) fn notes(found: &Prediction) -> Vec<&'static str> {
    let open = !found.alternatives.iter().all(Curve::is_settled);
    let notes = [
        (found.interrupted, "This run was interrupted: some numbers of threads are missing."),
        (open, "? has not settled: few operations ended, or their rate still changed; give a longer --duration."),
    ];
    notes.into_iter().filter(|(is, _)| *is).map(|(_, note)| note).collect()
}

/// Progress as it is shown.
fn progress(point: &Point) -> String {
    let mark = if point.settled { "" } else { " ?" };
    format!("{}{mark}", numbers::three(point.progress))
}

/// What averages alone say.
pub(super) fn saturation(found: &Prediction) -> Option<String> {
    let of = |one: &Estimate| format!("{} at {} threads", one.class, numbers::grouped(one.threads.round() as u64));
    let estimates: Vec<String> = found.estimates.iter().map(of).collect();
    (!estimates.is_empty()).then(|| format!("From averages alone, a lock saturates: {}.", estimates.join(", ")))
}

/// The law that fits the program as it is.
pub(super) fn law(found: &Prediction) -> Option<String> {
    let law = found.scalability_law?;
    let peak = law.peak().map_or_else(
        || "no peak".to_owned(),
        |peak| format!("a peak at {} threads", numbers::grouped(peak.round().max(1.0) as u64)),
    );
    let (sigma, kappa) = (law.sigma, law.kappa);
    Some(format!("Universal Scalability Law fitted to this curve: {peak} (sigma {sigma:.4}, kappa {kappa:.6})."))
}

fn curve(curve: &Curve, look: Look) -> String {
    let mut table = new_table(look, CURVE);
    align_right(&mut table, &[0, 1, 2, 3]);
    table.add_rows(curve_rows(curve));
    trimmed(&table)
}

/// A row for each number of threads.
pub(super) fn curve_rows(curve: &Curve) -> Vec<Vec<String>> {
    let row = |point: &Point| {
        vec![
            point.threads.to_string(),
            progress(point),
            format!("{} – {}", numbers::three(point.low), numbers::three(point.high)),
            numbers::three(point.ops_per_s),
            limit(point),
        ]
    };
    curve.points.iter().map(row).collect()
}

/// The two largest losses.
fn limit(point: &Point) -> String {
    let said: Vec<String> =
        point.losses.iter().take(2).map(|loss| format!("{} {:.0} %", loss.what, loss.share * 100.0)).collect();
    if said.is_empty() { "nothing".to_owned() } else { said.join(", ") }
}

fn side_by_side(found: &Prediction, look: Look) -> String {
    let (head, rows) = alternatives(found);
    let numbers: Vec<usize> = (1..head.len()).collect();
    let mut table = new_table(look, head);
    align_right(&mut table, &numbers);
    table.add_rows(rows);
    trimmed(&table)
}

/// Progress of all alternatives: the head of a table, and its rows.
pub(super) fn alternatives(found: &Prediction) -> (Vec<String>, Vec<Vec<String>>) {
    let threads: Vec<usize> = found.alternatives[0].points.iter().map(|point| point.threads).collect();
    let mut head = vec!["threads".to_owned()];
    head.extend(threads.iter().map(usize::to_string));
    head.extend(["at best", "band"].map(str::to_owned));
    let mut rows = Vec::new();
    let base = &found.alternatives[0];
    for alternative in &found.alternatives {
        let mut row = vec![alternative.name.clone()];
        for threads in &threads {
            let point = alternative.points.iter().find(|point| point.threads == *threads);
            row.push(point.map_or_else(|| "–".to_owned(), progress));
        }
        let none = || "–".to_owned();
        let beside = alternative.beside(base).filter(|_| base.is_settled() && alternative.is_settled());
        row.push(beside.map_or_else(none, |(times, _, _)| numbers::ratio(times)));
        let band = |(_, low, high): (f64, f64, f64)| format!("{} – {}", numbers::three(low), numbers::three(high));
        row.push(beside.map_or_else(none, band));
        rows.push(row);
    }
    (head, rows)
}
