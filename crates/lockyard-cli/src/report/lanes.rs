//! What threads did with locks, as SVG: a lane for each thread, time from left to right. Colours
//! come from the page's style sheet.

use std::fmt::Write;

use super::numbers;
use super::svg::{self, escape, text};

const LABEL_END: f64 = 96.0;
const START: f64 = 106.0;
const END: f64 = 960.0;
const TOP: f64 = 4.0;
const LANE: f64 = 22.0;
const BAR: f64 = 14.0;
const LEGEND: f64 = 24.0;
/// A piece is at least so wide: a short hold is to be seen.
const NARROW: f64 = 0.7;
/// Names with a colour of their own.
const COLOURS: usize = 5;

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// Its name.
    pub(crate) label: String,
    /// In the order in which they are painted.
    pub(crate) pieces: Vec<Piece>,
}

/// A wait or a hold.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Of what: the number of a name.
    pub(crate) name: usize,
    pub(crate) is_wait: bool,
    /// From when to when, nanoseconds; of it is painted what is in the picture.
    pub(crate) begin: f64,
    pub(crate) end: f64,
}

/// Draws `length` nanoseconds under `title`. The first of `names` have colours of their own.
pub(crate) fn chart(title: &str, names: &[String], lanes: &[Lane], length: f64) -> String {
    let axis = TOP + LANE * lanes.len() as f64 + 6.0;
    let legend = axis + 30.0;
    let coloured = names.len().min(COLOURS + 1);
    // Words that no narrow screen cuts off.
    let mut out = format!("<p class=\"title\">{}</p>\n", escape(title));
    out += &svg::begin(title, legend + LEGEND * (coloured + 1) as f64);
    for (row, lane) in lanes.iter().enumerate() {
        draw(&mut out, lane, names, length, TOP + LANE * row as f64);
    }
    for tick in 0..=4 {
        let share = f64::from(tick) / 4.0;
        let anchor = ["start", "middle", "middle", "middle", "end"][tick as usize];
        let at = START + (END - START) * share;
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{axis:.1}\" y2=\"{:.1}\"/>",
            axis + 4.0
        );
        text(&mut out, at, axis + 17.0, "tick", anchor, &numbers::time(length * share));
    }
    for (row, name) in names.iter().take(coloured).enumerate() {
        let name = if row < COLOURS { name } else { "other locks" };
        key(&mut out, &colour(row), legend + LEGEND * row as f64, name);
    }
    key(&mut out, "p5 pale", legend + LEGEND * coloured as f64, "faded: waits for it");
    out.push_str("</svg>\n");
    out
}

fn colour(name: usize) -> String {
    if name < COLOURS { format!("p{name}") } else { "rest".to_owned() }
}

fn key(out: &mut String, class: &str, top: f64, name: &str) {
    let _ = write!(out, "<g class=\"{class}\">");
    rect(out, START, top, 16.0);
    text(out, START + 24.0, top + 12.0, "label", "start", name);
    out.push_str("</g>\n");
}

fn draw(out: &mut String, lane: &Lane, names: &[String], length: f64, top: f64) {
    text(out, LABEL_END, top + 12.0, "label", "end", &lane.label);
    let (left, right, middle) = (START, END, top + BAR / 2.0);
    let _ = writeln!(out, "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>");
    for piece in &lane.pieces {
        let at = |ns: f64| START + (END - START) * (ns / length).clamp(0.0, 1.0);
        let (begin, end) = (at(piece.begin), at(piece.end));
        let (verb, pale) = if piece.is_wait { ("waits for", " pale") } else { ("holds", "") };
        let name = names.get(piece.name).map_or("?", String::as_str);
        let said = format!("{} {verb} {name} for {}", lane.label, numbers::time(piece.end - piece.begin));
        let _ = write!(out, "<g class=\"{}{pale}\"><title>{}</title>", colour(piece.name), escape(&said));
        rect(out, begin.min(END - NARROW), top, (end - begin).max(NARROW));
        out.push_str("</g>\n");
    }
}

fn rect(out: &mut String, x: f64, y: f64, width: f64) {
    let _ = write!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_in_the_picture_and_every_tag_is_closed() {
        let piece = |name, begin, end| Piece { name, is_wait: name % 2 == 1, begin, end };
        let pieces = vec![piece(0, -50.0, 20.0), piece(1, 20.0, 20.1), piece(7, 90.0, 400.0), piece(9, 100.0, 100.0)];
        let names: Vec<String> = (0..9).map(|name| format!("lock <{name}>")).collect();
        let lanes = [Lane { label: "7 & 8".to_owned(), pieces }, Lane { label: "9".to_owned(), pieces: Vec::new() }];
        for svg in [chart("a & b", &names, &lanes, 100.0), chart("empty", &[], &[], 1.0)] {
            assert!(svg.starts_with("<p class=\"title\">") && svg.trim_end().ends_with("</svg>"));
            for tag in ["g", "text"] {
                assert_eq!(svg.matches(&format!("<{tag} ")).count(), svg.matches(&format!("</{tag}>")).count());
            }
            assert!(!svg.contains("NaN") && !svg.contains("width=\"-") && !svg.contains("x=\"-"), "{svg}");
        }
        let svg = chart("a & b", &names, &lanes, 100.0);
        assert!(svg.contains("7 &amp; 8 holds lock &lt;0&gt; for 70.0 ns"), "{svg}");
        assert!(svg.contains("other locks") && svg.contains("faded: waits for it"), "{svg}");
        for number in svg.split("<rect x=\"").skip(1) {
            let x: f64 = number.split('"').next().unwrap().parse().unwrap();
            assert!((START..END).contains(&x), "{x}");
        }
    }
}
