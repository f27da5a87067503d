//! Line charts as SVG: throughput over threads, published against simulated or simulated alone,
//! both axes logarithmic. Colours come from the page's style sheet (`.s0` to `.s6`). A published
//! line is solid with filled points; a simulated one has a band, and is dashed with hollow points
//! beside a published one.

use std::fmt::Write;

use super::numbers;
use super::svg::{self, WIDTH, escape, text};

const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 296.0;
const COLOURS: usize = 7;
/// A row of a legend below.
const LEGEND: f64 = 20.0;

/// One column of a table, as it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// What it is.
    pub(crate) label: String,
    /// Threads and published numbers.
    pub(crate) published: Vec<(f64, f64)>,
    /// Threads, simulated numbers and the edges of the band.
    pub(crate) simulated: Vec<(f64, f64, f64, f64)>,
}

/// Draws `series` under `title`.
pub(crate) fn chart(title: &str, unit: &str, series: &[Series]) -> String {
    let xs = || {
        series
            .iter()
            .flat_map(|one| one.published.iter().map(|point| point.0).chain(one.simulated.iter().map(|point| point.0)))
    };
    let ys = || {
        let published = series.iter().flat_map(|one| one.published.iter().map(|point| point.1));
        published
            .chain(series.iter().flat_map(|one| one.simulated.iter().flat_map(|point| [point.1, point.2, point.3])))
    };
    let (x, y) = (Axis::over(xs(), LEFT, RIGHT, 1.0), Axis::over(ys(), BOTTOM, TOP, 0.0));
    // What is simulated alone needs no other line, and no word for it; what it is called is long.
    let alone = series.iter().all(|one| one.published.is_empty());
    let height = if alone { HEIGHT + LEGEND * series.len() as f64 } else { HEIGHT };
    let mut out = svg::begin(title, height);
    text(&mut out, 0.0, 14.0, "title", "start", title);
    grid(&mut out, &x, &y, unit, xs());
    for (number, one) in series.iter().enumerate() {
        draw(&mut out, one, &x, &y, (number, alone));
    }
    out.push_str("</svg>\n");
    out
}

fn grid(out: &mut String, x: &Axis, y: &Axis, unit: &str, xs: impl Iterator<Item = f64>) {
    for value in y.ticks() {
        let at = y.place(value);
        let _ = writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        text(out, LEFT - 8.0, at + 4.0, "tick", "end", &numbers::three(value));
    }
    let mut ticks: Vec<f64> = xs.collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    for value in ticks {
        text(out, x.place(value), BOTTOM + 18.0, "tick", "middle", &numbers::grouped(value as u64));
    }
    text(out, RIGHT, BOTTOM + 36.0, "head", "end", "threads");
    text(out, RIGHT, 14.0, "head", "end", &format!("{unit}, both axes logarithmic"));
}

fn draw(out: &mut String, one: &Series, x: &Axis, y: &Axis, (number, alone): (usize, bool)) {
    let drawn = if alone { "pub" } else { "sim" };
    let _ = write!(out, "<g class=\"s{}\"><title>{}</title>", number % COLOURS, escape(&one.label));
    let upper = one.simulated.iter().map(|point| (point.0, point.3));
    let lower = one.simulated.iter().rev().map(|point| (point.0, point.2));
    let _ = write!(out, "<polygon class=\"band\" points=\"{}\"/>", points(upper.chain(lower), x, y));
    let simulated = || one.simulated.iter().map(|point| (point.0, point.1));
    let _ = write!(out, "<polyline class=\"{drawn}\" points=\"{}\"/>", points(simulated(), x, y));
    let _ = write!(out, "<polyline class=\"pub\" points=\"{}\"/>", points(one.published.iter().copied(), x, y));
    for (class, at) in one.published.iter().copied().map(|at| ("pub", at)).chain(simulated().map(|at| (drawn, at))) {
        let _ = write!(
            out,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
            x.place(at.0),
            y.place(at.1)
        );
    }
    let (left, top, kinds): (f64, f64, &[(&str, &str)]) = match alone {
        true => (LEFT, HEIGHT + LEGEND * number as f64, &[("pub", "")]),
        false => (RIGHT + 20.0, TOP + 10.0 + 40.0 * number as f64, &[("pub", ", published"), ("sim", ", simulated")]),
    };
    for (row, (class, what)) in kinds.iter().enumerate() {
        let at = top + 17.0 * row as f64;
        let right = left + 34.0;
        let _ = write!(out, "<line class=\"{class}\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        text(out, left + 42.0, at + 4.0, "label", "start", &format!("{}{what}", one.label));
    }
    out.push_str("</g>\n");
}

fn points(values: impl Iterator<Item = (f64, f64)>, x: &Axis, y: &Axis) -> String {
    values.map(|(a, b)| format!("{:.1},{:.1}", x.place(a), y.place(b))).collect::<Vec<_>>().join(" ")
}

/// A logarithmic axis that holds all values above zero; zero lies at its low end.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// The axis from `from` to `to` over `values`, with a margin of `1 - tight` of a fifth beyond
    /// them.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64, tight: f64) -> Self {
        let (low, high) = values
            .filter(|value| *value > 0.0 && value.is_finite())
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        let margin = 1.0 + 0.2 * (1.0 - tight);
        let (low, high) = (low / margin, high * margin);
        let high = if high / low < 1.05 { low * 1.05 } else { high };
        Self { low, high, from, to }
    }

    /// Decades inside, with 2 and 5 between them where there are few.
    fn ticks(&self) -> Vec<f64> {
        let few = (self.high / self.low).log10() < 2.0;
        let steps: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = decades.flat_map(|exponent| steps.iter().map(move |step| step * 10_f64.powi(exponent)));
        all.filter(|value| (self.low..=self.high).contains(value)).collect()
    }

    fn place(&self, value: f64) -> f64 {
        let value = if value.is_finite() { value.clamp(self.low, self.high) } else { self.high };
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + (self.to - self.from) * share
    }
}

/// One change, as it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    /// What changed.
    pub(crate) label: String,
    /// The published ratio.
    pub(crate) published: f64,
    /// The simulated ratio and the edges of its band.
    pub(crate) simulated: Option<(f64, f64, f64)>,
}

const ROW: f64 = 20.0;
const LABEL: f64 = 400.0;

/// Draws changes, one below the other, on one logarithmic axis of ratios.
pub(crate) fn ratios(title: &str, dots: &[Dot]) -> String {
    let values = dots.iter().flat_map(|dot| {
        let (middle, low, high) = dot.simulated.unwrap_or((1.0, 1.0, 1.0));
        [dot.published, middle, low, high, 1.0]
    });
    let axis = Axis::over(values, LABEL + 20.0, WIDTH - 20.0, 0.0);
    let height = 52.0 + dots.len() as f64 * ROW;
    let mut out = svg::begin(title, height);
    text(&mut out, 0.0, 14.0, "title", "start", title);
    text(&mut out, WIDTH - 20.0, 14.0, "head", "end", "after / before: ● published  ○ simulated, with band");
    for value in axis.ticks() {
        let (at, end) = (axis.place(value), height - 6.0);
        let _ = writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"40\" y2=\"{end}\"/>");
        text(&mut out, at, 34.0, "tick", "middle", &numbers::ratio(value));
    }
    for (row, dot) in dots.iter().enumerate() {
        let y = 54.0 + row as f64 * ROW;
        let _ = write!(out, "<g class=\"s0\"><title>{}</title>", escape(&dot.label));
        text(&mut out, LABEL, y + 4.0, "label", "end", &dot.label);
        if let Some((middle, low, high)) = dot.simulated {
            let (from, to) = (axis.place(low), axis.place(high));
            let _ = write!(out, "<line class=\"wide\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let _ = write!(out, "<circle class=\"sim\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>", axis.place(middle));
        }
        let _ = write!(out, "<circle class=\"pub\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>", axis.place(dot.published));
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_close_every_tag_and_place_every_point() {
        let series = Series {
            label: "a < b".to_owned(),
            published: vec![(2.0, 100.0), (4.0, 50.0)],
            simulated: vec![(2.0, 90.0, 80.0, 0.0), (4.0, 0.0, 0.0, f64::INFINITY)],
        };
        let svg = chart("t & u", "kops/s", &[series]);
        let dots = [Dot { label: "x".to_owned(), published: 2.0, simulated: Some((0.0, 0.0, f64::INFINITY)) }];
        for svg in [svg, ratios("r", &dots), chart("empty", "", &[]), ratios("empty", &[])] {
            assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
            assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
            assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_logarithmic_axis_spaces_ratios_evenly() {
        let axis = Axis::over([1.0, 100.0].into_iter(), 0.0, 200.0, 1.0);
        assert_eq!(
            [1.0, 10.0, 100.0, 0.0, f64::INFINITY].map(|value| axis.place(value).round()),
            [0.0, 100.0, 200.0, 0.0, 200.0]
        );
    }
}
