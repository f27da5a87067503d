//! Bars of one length that are divided, one below the other, as SVG: what the time of threads went
//! to. Colours come from the page's style sheet.

use std::fmt::Write;

use super::svg::{self, escape, text};

const LABEL_END: f64 = 96.0;
const START: f64 = 106.0;
const END: f64 = 960.0;
const TOP: f64 = 4.0;
const ROW: f64 = 24.0;
const BAR: f64 = 16.0;
/// A smaller part has no percentage in it.
const WRITTEN: f64 = 0.06;

/// A bar.
#[derive(Clone, Debug)]
pub(crate) struct Divided {
    /// What it stands for.
    pub(crate) label: String,
    /// What its parts are, and their shares of the whole; what is left is nobody's.
    pub(crate) parts: Vec<(String, f64)>,
}

/// Draws `bars` under `title`. A part has the colour of its name: the names in the order in which
/// they come.
pub(crate) fn chart(title: &str, bars: &[Divided]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in bars.iter().flat_map(|bar| &bar.parts) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    // What the colours are stands below: names of locks are long.
    let legend = TOP + ROW * bars.len() as f64 + 10.0;
    let height = legend + ROW * names.len() as f64;
    // Words that no narrow screen cuts off.
    let mut out = format!("<p class=\"title\">{}</p>\n", escape(title));
    out += &svg::begin(title, height);
    for (row, bar) in bars.iter().enumerate() {
        draw(&mut out, bar, &names, TOP + ROW * row as f64);
    }
    for (row, name) in names.iter().enumerate() {
        let top = legend + ROW * row as f64;
        let _ = write!(out, "<g class=\"p{}\">", colour(row));
        rect(&mut out, START, top, 16.0);
        text(&mut out, START + 24.0, top + 13.0, "label", "start", name);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// The first part has a colour of its own.
fn colour(number: usize) -> usize {
    number.min(1 + number.saturating_sub(1) % 5)
}

fn draw(out: &mut String, bar: &Divided, names: &[&str], top: f64) {
    text(out, LABEL_END, top + 13.0, "label", "end", &bar.label);
    out.push_str("<g class=\"rest\">");
    rect(out, START, top, END - START);
    out.push_str("</g>\n");
    let mut from = 0.0;
    for (name, share) in &bar.parts {
        // Shares of medians may come to a little more than all.
        let to = (from + share.max(0.0)).min(1.0);
        let (begin, width) = (START + (END - START) * from, (END - START) * (to - from));
        let number = names.iter().position(|known| known == name).unwrap_or(0);
        let said = format!("{}: {name} {:.0} %", bar.label, share * 100.0);
        let _ = write!(out, "<g class=\"p{}\"><title>{}</title>", colour(number), escape(&said));
        rect(out, begin, top, width);
        if to - from >= WRITTEN {
            text(out, begin + width / 2.0, top + 12.5, "inside", "middle", &format!("{:.0} %", share * 100.0));
        }
        out.push_str("</g>\n");
        from = to;
    }
}

fn rect(out: &mut String, x: f64, y: f64, width: f64) {
    let _ = write!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_in_their_place_and_every_tag_is_closed() {
        let bar = |label: &str, shares: &[f64]| Divided {
            label: label.to_owned(),
            parts: shares.iter().enumerate().map(|(at, share)| (format!("part <{at}>"), *share)).collect(),
        };
        let svg = chart("a & b", &[bar("1", &[0.9, 0.05]), bar("64", &[0.7, 0.7, 0.7, -1.0]), bar("x", &[])]);
        for svg in [svg.as_str(), &chart("empty", &[])] {
            assert!(svg.starts_with("<p class=\"title\">") && svg.trim_end().ends_with("</svg>"));
            for tag in ["g", "text"] {
                assert_eq!(svg.matches(&format!("<{tag} ")).count(), svg.matches(&format!("</{tag}>")).count());
            }
            assert!(!svg.contains("NaN") && !svg.contains("width=\"-"), "{svg}");
        }
        // 90 and 70 %; what is left of the second bar is 30 %, and the rest of it nothing.
        assert_eq!(svg.matches("class=\"inside\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("part &lt;3&gt;").count(), 2, "in the bar and in the legend");
    }
}
