//! A prediction for people: a sentence, the curve, the alternatives side by side.

use std::fmt::Write;

use super::outcome::{Curve, Point, Prediction};
use crate::report::look::{Look, align_right, new_table, trimmed};
use crate::report::numbers;

/// The whole page.
pub(crate) fn render(found: &Prediction, look: Look) -> String {
    let mut out = format!("{}\n\n", look.bold(&found.sentence));
    let as_it_is = &found.alternatives[0];
    let _ = writeln!(out, "{}\n{}", look.bold("As it is"), curve(as_it_is, look));
    if found.alternatives.len() > 1 {
        let about = found.class.as_ref().map_or_else(String::new, |class| format!(" about {class}"));
        let _ =
            writeln!(out, "{}\n{}", look.bold(&format!("Alternatives{about}: progress")), side_by_side(found, look));
    }
    let estimates: Vec<String> = found
        .estimates
        .iter()
        .map(|one| format!("{} at {} threads", one.class, numbers::grouped(one.threads.round() as u64)))
        .collect();
    if !estimates.is_empty() {
        let _ = writeln!(out, "From averages alone, a lock saturates: {}.", estimates.join(", "));
    }
    if let Some(law) = found.scalability_law {
        let peak = law.peak().map_or_else(
            || "no peak".to_owned(),
            |peak| format!("a peak at {} threads", numbers::grouped(peak.round().max(1.0) as u64)),
        );
        let _ = writeln!(
            out,
            "Universal Scalability Law fitted to this curve: {peak} (sigma {:.4}, kappa {:.6}).",
            law.sigma, law.kappa
        );
    }
    let legend = [
        "progress     CPUs that do what the program is for: its own computing, in and outside of its locks",
        "band         over placements of threads, seeds, and the fewest and most lines that sections touch",
        "as it is     a futex mutex of three states, a futex rwlock or a TTAS spinlock stands for the C library's lock",
    ];
    out.push('\n');
    for line in legend {
        let _ = writeln!(out, "{}", look.dim(line));
    }
    let _ = writeln!(out, "{}", look.dim(&format!("{}: {}", found.machine, found.trust)));
    out
}

fn curve(curve: &Curve, look: Look) -> String {
    let mut table = new_table(look, ["threads", "progress", "band", "ops/s", "what limits"]);
    align_right(&mut table, &[0, 1, 2, 3]);
    for point in &curve.points {
        table.add_row([
            point.threads.to_string(),
            numbers::three(point.progress),
            format!("{} – {}", numbers::three(point.low), numbers::three(point.high)),
            numbers::three(point.ops_per_s),
            limit(point),
        ]);
    }
    trimmed(&table)
}

/// The two largest losses.
fn limit(point: &Point) -> String {
    let said: Vec<String> =
        point.losses.iter().take(2).map(|loss| format!("{} {:.0} %", loss.what, loss.share * 100.0)).collect();
    if said.is_empty() { "nothing".to_owned() } else { said.join(", ") }
}

fn side_by_side(found: &Prediction, look: Look) -> String {
    let threads: Vec<usize> = found.alternatives[0].points.iter().map(|point| point.threads).collect();
    let mut head = vec!["threads".to_owned()];
    head.extend(threads.iter().map(usize::to_string));
    head.push("at best".to_owned());
    let mut table = new_table(look, head);
    align_right(&mut table, &(1..threads.len() + 2).collect::<Vec<_>>());
    let base = found.alternatives[0].best();
    for alternative in &found.alternatives {
        let mut row = vec![alternative.name.clone()];
        for threads in &threads {
            let point = alternative.points.iter().find(|point| point.threads == *threads);
            row.push(point.map_or_else(|| "–".to_owned(), |point| numbers::three(point.progress)));
        }
        row.push(if base > 0.0 { numbers::ratio(alternative.best() / base) } else { "–".to_owned() });
        table.add_row(row);
    }
    trimmed(&table)
}
