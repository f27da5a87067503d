//! Waiting time as folded stacks, which flame graph tools draw (`flamegraph.pl`,
//! `inferno-flamegraph`): a line for each piece of code that waited, with nanoseconds.
//!
//! `program;lock class;code 1234567`. The class comes before the code: beside each other are the
//! lines that wait for one lock.

use std::fmt::Write;

use super::facts::Facts;
use crate::terminal::visible;

/// The lines. Writing to a string cannot fail.
pub(crate) fn render(what: &str, facts: &Facts<'_>) -> String {
    let mut out = String::new();
    for class in &facts.sample.classes {
        let frames = format!("{};{}", frame(what), frame(&facts.label(class)));
        let mut rest = class.lost_ns();
        for caller in &class.callers {
            // Of a wait that was told while it went on, the class has only what has come since.
            let ns = caller.wait_ns.min(rest);
            if ns > 0 {
                let _ = writeln!(out, "{frames};{} {ns}", frame(&facts.symbols.line(&caller.place)));
            }
            rest -= ns;
        }
        // Waits that nobody has noted the code of, and those under way.
        if rest > 0 {
            let _ = writeln!(out, "{frames} {rest}");
        }
    }
    out
}

/// `text` as a frame: a semicolon ends one, a line break all of them.
fn frame(text: &str) -> String {
    visible(&text.replace(';', ",").replace(['\n', '\r'], " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use lockyard_segment::sample::{CallerSample, Place};

    use super::*;
    use crate::report::observed::tests::{sample, with};

    #[test]
    fn a_line_for_each_caller_and_the_rest() {
        let mut sample = sample();
        let place = Place { file: "/lib/libx.so".to_owned(), place: 0x1f0 };
        sample.classes[1].callers = vec![CallerSample { place, wait_ns: 50_000, ..CallerSample::default() }];
        let text = with(&sample, |facts| render("a;b", facts));
        assert_eq!(text, "a,b;mutex a \"b\";libx.so+0x1f0 50000\na,b;mutex a \"b\" 4000000\n");
    }
}
