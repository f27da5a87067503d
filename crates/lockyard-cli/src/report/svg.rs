//! Charts as SVG: no script, no font, no file from elsewhere; colours come from the page's style
//! sheet, so that one picture serves light and dark.
//!
//! One chart holds the cells of a family as panels, one below the other. Each lock is a row with
//! two bars: throughput on an axis of its own per panel (cells differ by orders of magnitude), and
//! the longest wait on one logarithmic axis that all panels share.

use std::fmt::Write;

use super::numbers;

/// How wide each picture is.
pub(super) const WIDTH: f64 = 980.0;
const ROW: f64 = 21.0;
const BAR: f64 = 13.0;
const TITLE: f64 = 34.0;
const HEAD: f64 = 46.0;
const LABEL_END: f64 = 196.0;
const RATE_START: f64 = 206.0;
/// Room for the longest throughput bar; the value stands behind it.
const RATE_WIDTH: f64 = 210.0;
const WAIT_START: f64 = 590.0;
const WAIT_WIDTH: f64 = 280.0;

/// One cell of the matrix, as it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// What was run.
    pub(crate) title: String,
    /// The locks, in the order of the rows.
    pub(crate) bars: Vec<Bar>,
}

/// One lock in one cell.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Its name.
    pub(crate) label: String,
    /// Whether it is one of Lockyard's.
    pub(crate) ours: bool,
    /// Whether it is the fastest of the others.
    pub(crate) best_peer: bool,
    /// Throughput, any unit.
    pub(crate) rate: f64,
    /// Throughput, as text.
    pub(crate) rate_text: String,
    /// Longest wait, ns; zero if nobody waited.
    pub(crate) wait_ns: f64,
    /// Longest wait, as text.
    pub(crate) wait_text: String,
    /// Threads that never had a turn.
    pub(crate) idle: usize,
}

/// Draws `panels`; `name` is read out instead of the picture.
pub(crate) fn chart(name: &str, panels: &[Panel]) -> String {
    let rows: usize = panels.iter().map(|panel| panel.bars.len()).sum();
    let height = HEAD + panels.len() as f64 * (TITLE + 8.0) + rows as f64 * ROW;
    let axis = LogAxis::over(panels.iter().flat_map(|panel| &panel.bars).map(|bar| bar.wait_ns));
    let mut out = begin(name, height);
    head(&mut out, &axis);
    let mut top = HEAD;
    for panel in panels {
        draw_panel(&mut out, panel, &axis, top);
        top += TITLE + 8.0 + panel.bars.len() as f64 * ROW;
    }
    out.push_str("</svg>\n");
    out
}

/// The beginning of a picture of that height; `name` is read out instead of it. Writing to a string
/// cannot fail, here and below.
pub(super) fn begin(name: &str, height: f64) -> String {
    let name = escape(name);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{name}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n"
    )
}

fn head(out: &mut String, axis: &LogAxis) {
    text(out, RATE_START, 14.0, "head", "start", "throughput — longer is better");
    text(out, WAIT_START, 14.0, "head", "start", "longest wait, logarithmic — shorter is better");
    for (at, label) in axis.ticks() {
        text(out, at, 34.0, "tick", "middle", &label);
    }
}

fn draw_panel(out: &mut String, panel: &Panel, axis: &LogAxis, top: f64) {
    let rows_top = top + TITLE;
    let bottom = rows_top + panel.bars.len() as f64 * ROW;
    text(out, 0.0, top + 22.0, "title", "start", &panel.title);
    // One thread alone never waits: no axis for that.
    let waited = panel.bars.iter().any(|bar| bar.wait_ns > 0.0);
    for (at, _) in axis.ticks().into_iter().filter(|_| waited) {
        line(out, "grid", at, rows_top, bottom);
    }
    let largest = panel.bars.iter().map(|bar| bar.rate).fold(0.0, f64::max);
    let scale = if largest > 0.0 { RATE_WIDTH / largest } else { 0.0 };
    line(out, "axis", RATE_START, rows_top, bottom);
    if let Some(best) = panel.bars.iter().find(|bar| bar.best_peer) {
        line(out, "best-line", RATE_START + best.rate * scale, rows_top - 2.0, bottom);
    }
    if waited {
        line(out, "axis", WAIT_START, rows_top, bottom);
    }
    for (row, bar) in panel.bars.iter().enumerate() {
        draw_row(out, bar, axis, scale, rows_top + row as f64 * ROW);
    }
}

fn draw_row(out: &mut String, bar: &Bar, axis: &LogAxis, scale: f64, top: f64) {
    let class = match (bar.ours, bar.best_peer) {
        (true, _) => "ours",
        (false, true) => "best",
        (false, false) => "peer",
    };
    let base = top + ROW / 2.0 + 4.0;
    let bar_top = top + (ROW - BAR) / 2.0;
    let _ = write!(out, "<g class=\"{class}\"><title>{}</title>", escape(&hint(bar)));
    text(out, LABEL_END, base, "label", "end", &bar.label);
    let length = bar.rate * scale;
    rect(out, RATE_START, bar_top, length);
    let star = if bar.best_peer { "  ★ best peer" } else { "" };
    text(out, RATE_START + length + 7.0, base, "value", "start", &format!("{}{star}", bar.rate_text));
    let wait_end = axis.place(bar.wait_ns);
    if bar.wait_ns > 0.0 {
        rect(out, WAIT_START, bar_top, wait_end - WAIT_START);
        text(out, wait_end + 7.0, base, "value", "start", &bar.wait_text);
    }
    if bar.idle > 0 {
        // Behind the wait, whose text has at most ten letters.
        let at = wait_end + 18.0 + 7.3 * bar.wait_text.chars().count() as f64;
        text(out, at, base, "idle", "start", &format!("{} no turn", bar.idle));
    }
    out.push_str("</g>\n");
}

/// What a pointer resting on the row shows.
fn hint(bar: &Bar) -> String {
    let idle =
        if bar.idle > 0 { format!("; {} without a turn", numbers::count(bar.idle, "thread")) } else { String::new() };
    let wait = if bar.wait_ns > 0.0 { format!("; longest wait {}", numbers::time(bar.wait_ns)) } else { String::new() };
    format!("{}: {}{wait}{idle}", bar.label, bar.rate_text)
}

/// The shared axis of waits: whole decades that hold all values.
struct LogAxis {
    low: i32,
    high: i32,
}

impl LogAxis {
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let exponents: Vec<f64> = values.filter(|ns| *ns >= 1.0).map(f64::log10).collect();
        let low = exponents.iter().copied().fold(f64::INFINITY, f64::min);
        let high = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if exponents.is_empty() {
            return Self { low: 2, high: 9 };
        }
        let low = low.floor() as i32;
        // At least one decade, and the smallest value gets a visible bar.
        let low = if exponents.iter().any(|exponent| *exponent - f64::from(low) < 0.05) { low - 1 } else { low };
        Self { low, high: (high.ceil() as i32).max(low + 1) }
    }

    fn place(&self, ns: f64) -> f64 {
        if ns < 1.0 {
            return WAIT_START;
        }
        let share = (ns.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        WAIT_START + WAIT_WIDTH * share.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let name = |exponent: i32| {
            let (unit, size) = match exponent {
                ..3 => ("ns", 0),
                3..6 => ("µs", 3),
                6..9 => ("ms", 6),
                _ => ("s", 9),
            };
            format!("{} {unit}", 10_f64.powi(exponent - size))
        };
        (self.low..=self.high).map(|exponent| (self.place(10_f64.powi(exponent)), name(exponent))).collect()
    }
}

pub(super) fn text(out: &mut String, x: f64, y: f64, class: &str, anchor: &str, content: &str) {
    let content = escape(content);
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{content}</text>");
}

fn rect(out: &mut String, x: f64, y: f64, width: f64) {
    let width = width.max(1.0);
    let _ = write!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"/>");
}

fn line(out: &mut String, class: &str, x: f64, top: f64, bottom: f64) {
    let _ = writeln!(out, "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>");
}

/// Text made safe inside markup and attributes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, rate: f64, wait_ns: f64) -> Bar {
        Bar {
            label: label.to_owned(),
            ours: label == "mutex",
            best_peer: label == "std-mutex",
            rate,
            rate_text: format!("{rate} kops/s"),
            wait_ns,
            wait_text: numbers::time(wait_ns),
            idle: usize::from(label == "other"),
        }
    }

    #[test]
    fn a_chart_holds_every_row_and_closes_every_tag() {
        let bars = vec![bar("mutex", 800.0, 1e6), bar("std-mutex", 750.0, 3e7), bar("other", 0.0, 0.0)];
        let svg = chart("a <test>", &[Panel { title: "2 threads & more".to_owned(), bars }]);
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("a &lt;test&gt;") && svg.contains("2 threads &amp; more"));
        assert_eq!(svg.matches("<g ").count(), 3);
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
        assert_eq!(svg.matches("★ best peer").count(), 1);
        assert_eq!(svg.matches("1 no turn").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn the_wait_axis_is_logarithmic_and_holds_all() {
        let axis = LogAxis::over([0.0, 2e3, 5e6, 1.5e9].into_iter());
        assert_eq!((axis.low, axis.high), (3, 10));
        let gap = axis.place(1e5) - axis.place(1e4);
        assert!((axis.place(1e9) - axis.place(1e8) - gap).abs() < 1e-6);
        assert_eq!(axis.place(0.0), WAIT_START);
        let names: Vec<String> = axis.ticks().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
    }

    #[test]
    fn an_empty_chart_is_still_a_picture() {
        assert!(chart("nothing", &[]).contains("</svg>"));
        let empty = LogAxis::over(std::iter::empty());
        assert!(empty.low < empty.high);
    }
}
