//! The picture of the front page: throughput and longest wait over threads, one line per lock.
//!
//! SVG by hand. Colours come from a style sheet with a form for dark pages; the picture has its own
//! background, so that it stays readable where page and system disagree.

use std::fmt::Write as _;

use super::Record;
use super::blocks::{Cell, Cells, is_shown, need, time};
use super::json::Value;
use crate::tools::Outcome;

const WIDTH: f64 = 660.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 490.0;

/// Top and bottom of the two panels.
const THROUGHPUT: (f64, f64) = (48.0, 264.0);
const WAITS: (f64, f64) = (348.0, 564.0);

/// Distance between two labels at the ends of lines.
const LABEL: f64 = 23.0;

/// Locks, their labels and the classes of the style sheet; the last drawn lies on top.
const SERIES: [(&str, &str, &str); 4] = [
    ("std-mutex", "std", "b"),
    ("parking_lot-mutex", "parking_lot", "c"),
    ("usync-mutex", "usync", "d"),
    ("mutex", "Lockyard Mutex", "a"),
];

const STYLE: &str = "\
text{font:18px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}
.page{fill:#fff}.ring{stroke-width:2.5}.title{font-weight:600}.dim{fill:#59636e}.over{fill:#eef1f5}
.grid{stroke:#d1d9e0}.edge{stroke:#59636e;stroke-dasharray:4 4}
.line{fill:none;stroke-width:2.5}
.line.a{stroke-width:4.5}
.line.a,.ring.a{stroke:#0969da}.mark.a{fill:#0969da}text.a{fill:#0969da;font-weight:600}
.line.b,.ring.b{stroke:#bc4c00}.mark.b{fill:#bc4c00}text.b{fill:#bc4c00}
.line.c,.ring.c{stroke:#8250df}.mark.c{fill:#8250df}text.c{fill:#8250df}
.line.d,.ring.d{stroke:#1a7f37}.mark.d{fill:#1a7f37}text.d{fill:#1a7f37}
.mark.ring{fill:#fff}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.page{fill:#0d1117}.dim{fill:#9198a1}.over{fill:#1a212b}
.grid{stroke:#30363d}.edge{stroke:#9198a1}
.line.a,.ring.a{stroke:#58a6ff}.mark.a{fill:#58a6ff}text.a{fill:#58a6ff}
.line.b,.ring.b{stroke:#f0883e}.mark.b{fill:#f0883e}text.b{fill:#f0883e}
.line.c,.ring.c{stroke:#bc8cff}.mark.c{fill:#bc8cff}text.c{fill:#bc8cff}
.line.d,.ring.d{stroke:#56d364}.mark.d{fill:#56d364}text.d{fill:#56d364}
.mark.ring{fill:#0d1117}
}
";

/// One panel: where it is, what it shows, and how values become heights.
struct Panel<'a> {
    title: &'a str,
    place: (f64, f64),
    /// The value of a result, and whether its mark is a ring.
    value: &'a dyn Fn(&Value) -> Outcome<(f64, bool)>,
    /// From a value to 0 (bottom) … 1 (top).
    scale: &'a dyn Fn(f64) -> f64,
    /// Values with a line and a label.
    ticks: Vec<(f64, String)>,
}

/// Draws the record `front`.
pub(super) fn draw(record: &Record) -> Outcome<String> {
    let shown: Vec<&Value> = record.results.iter().filter(|cell| is_shown(cell)).collect();
    let cells = Cells::of(&shown)?;
    if cells.len() < 2 {
        return Err(format!("{}: fewer than two cells to draw", record.name));
    }
    let most = shown.iter().filter_map(|of| of.number("kops_per_s")).fold(1.0, f64::max);
    let waits = shown.iter().map(|of| longest(of)).collect::<Outcome<Vec<f64>>>()?;
    let step = step(most);
    let top = (most / step).ceil() * step;
    let low = waits.iter().copied().filter(|wait| *wait > 0.0).fold(f64::MAX, f64::min).log10().floor();
    let high = waits.iter().copied().fold(1.0, f64::max).log10().ceil();
    let linear = |value: f64| value / top;
    let logarithmic = |value: f64| (value.log10() - low) / (high - low).max(1.0);
    let decades = (low as i32..=high as i32).map(|power| 10_f64.powi(power));
    let panels = [
        Panel {
            title: "Throughput, thousand critical sections per second",
            place: THROUGHPUT,
            value: &|of| Ok((need(of, "kops_per_s")?, false)),
            scale: &linear,
            ticks: (0..=(top / step) as u32)
                .map(|n| (f64::from(n) * step, (f64::from(n) * step).to_string()))
                .collect(),
        },
        Panel {
            title: "Longest wait for the lock, logarithmic scale",
            place: WAITS,
            value: &|of| Ok((longest(of)?, is_starved(of))),
            scale: &logarithmic,
            ticks: decades.map(|value| (value, time(value).replace(".0 ", " "))).collect(),
        },
    ];
    let cpus = record.machine.number("cpus").unwrap_or(1.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\">\n<!-- Made by `cargo xtask lab table` from docs/lab/{}. -->\n\
         <title>Throughput and longest wait of four mutexes over the number of threads</title>\n\
         <style>\n{STYLE}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n",
        record.name
    );
    for panel in &panels {
        panel.draw(&cells, cpus, &mut out)?;
    }
    let below = [
        format!("threads; shaded: more threads than the {cpus} CPUs"),
        "ring: a thread had no turn in the whole run".to_owned(),
    ];
    let rings = cells.iter().flat_map(|cell| &cell.all).any(|of| is_starved(of));
    for (line, text) in below.iter().take(1 + usize::from(rings)).enumerate() {
        let (x, y) = ((LEFT + RIGHT) / 2.0, WAITS.1 + 46.0 + 23.0 * line as f64);
        out += &format!("<text class=\"dim\" text-anchor=\"middle\" x=\"{x}\" y=\"{y}\">{text}</text>\n");
    }
    Ok(out + "</svg>\n")
}

impl Panel<'_> {
    fn draw(&self, cells: &[Cell<'_>], cpus: f64, out: &mut String) -> Outcome {
        let (top, bottom) = self.place;
        let x = |index: usize| LEFT + 24.0 + index as f64 * (RIGHT - LEFT - 48.0) / (cells.len() - 1) as f64;
        let y = |value: f64| bottom - (self.scale)(value) * (bottom - top);
        let mut put = |text: String| writeln!(out, "{text}").map_err(|error| error.to_string());
        put(format!("<text class=\"title\" x=\"14\" y=\"{}\">{}</text>", top - 22.0, self.title))?;
        let beyond = cells.iter().position(|cell| cell.threads > cpus);
        if let Some(at) = beyond.filter(|at| *at > 0) {
            let edge = (x(at) + x(at - 1)) / 2.0;
            let (width, height) = (RIGHT - edge, bottom - top);
            put(format!("<rect class=\"over\" x=\"{edge}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>"))?;
            put(format!("<line class=\"edge\" x1=\"{edge}\" y1=\"{top}\" x2=\"{edge}\" y2=\"{bottom}\"/>"))?;
        }
        for (value, label) in &self.ticks {
            let at = y(*value);
            put(format!("<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\"/>"))?;
            let (x, y) = (LEFT - 8.0, at + 5.5);
            put(format!("<text class=\"dim\" text-anchor=\"end\" x=\"{x}\" y=\"{y:.1}\">{label}</text>"))?;
        }
        for (index, cell) in cells.iter().enumerate() {
            let (x, y) = (x(index), bottom + 22.0);
            put(format!("<text class=\"dim\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y}\">{}</text>", cell.threads))?;
        }
        let mut ends = Vec::new();
        for (lock, label, class) in SERIES {
            let mut points = Vec::new();
            for (index, cell) in cells.iter().enumerate() {
                let of = cell.all.iter().find(|of| of.text("lock") == lock).ok_or_else(|| format!("no {lock}"))?;
                let (value, ring) = (self.value)(of)?;
                if value > 0.0 {
                    points.push((x(index), y(value), if ring { " ring" } else { "" }));
                }
            }
            let line: Vec<String> = points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
            put(format!("<polyline class=\"line {class}\" points=\"{}\"/>", line.join(" ")))?;
            for (x, y, ring) in &points {
                put(format!("<circle class=\"mark {class}{ring}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"))?;
            }
            ends.extend(points.last().map(|end| (end.1, label, class)));
        }
        spread(&mut ends, top, bottom);
        for (at, label, class) in ends {
            let x = RIGHT + 10.0;
            put(format!("<text class=\"{class}\" x=\"{x}\" y=\"{:.1}\">{label}</text>", at + 5.5))?;
        }
        Ok(())
    }
}

/// Whether a thread had no turn in the typical round.
fn is_starved(of: &Value) -> bool {
    of.number("idle_threads").is_some_and(|idle| idle > 0.0)
}

/// The longest wait; that of a thread without a turn lasts for the whole run.
fn longest(of: &Value) -> Outcome<f64> {
    let window = if is_starved(of) { need(of, "window_ns")? } else { 0.0 };
    Ok(need(of, "wait_max")?.max(window))
}

/// Moves labels apart that would lie on one another, in their order, inside the panel.
fn spread(ends: &mut [(f64, &str, &str)], top: f64, bottom: f64) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = top;
    for end in ends.iter_mut() {
        end.0 = end.0.max(least);
        least = end.0 + LABEL;
    }
    let mut most = bottom;
    for end in ends.iter_mut().rev() {
        end.0 = end.0.min(most);
        most = end.0 - LABEL;
    }
}

/// A round distance between grid lines: at most six fit under `most`.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf((most / 6.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| most / step <= 6.0).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_overlap_and_stay_inside() {
        let mut ends = [(99.0, "a", ""), (98.0, "b", ""), (100.0, "c", ""), (10.0, "d", "")];
        spread(&mut ends, 0.0, 100.0);
        let at = ends.map(|end| end.0);
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= LABEL), "{at:?}");
        assert!(at[0] >= 0.0 && at[3] <= 100.0, "{at:?}");
    }

    #[test]
    fn grid_lines_are_round() {
        assert_eq!([408.0, 6.0, 7.0, 1_000.0].map(step), [100.0, 1.0, 2.0, 200.0]);
    }
}
