//! A sample in the OpenMetrics text format, for Prometheus and its kin: counters end in `_total`,
//! times are seconds, `# EOF` is last.

use std::fmt::Write;

use lockyard_segment::Sample;
use lockyard_segment::histogram::{BUCKETS, lower};
use lockyard_segment::sample::{ClassSample, Counts};

/// Quarters of an octave are more than a time series has use for.
const STEP: usize = 4;

/// What a metric family of the classes is called, for people, and its count.
type Family = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [Family; 5] = [
    ("acquired", "Lock acquisitions", |counts| counts.acquired),
    ("contended", "Lock acquisitions that did not succeed at once", |counts| counts.contended),
    ("gave_up", "Waits that ended without the lock", |counts| counts.gave_up),
    ("parks", "Sleeps of threads that waited for a lock", |counts| counts.parks),
    ("handoffs", "Waits in which the lock was asked to be kept for the waiter", |counts| counts.handoffs),
];

/// A class and its labels.
type Labelled<'a> = [(&'a ClassSample, String)];

/// Everything; `name` is what people call a class. Writing to a string cannot fail, here and below.
pub(crate) fn render(sample: &Sample, name: impl Fn(&ClassSample) -> String) -> String {
    let mut out = String::new();
    let classes: Vec<_> = sample.classes.iter().map(|class| (class, labels(class, &name(class)))).collect();
    labelled(&mut out, "events", "Lock events by name", "event", &sample.events);
    labelled(&mut out, "fallbacks", "Objects left to the C library", "reason", &sample.fallbacks);
    for (name, help, count) in COUNTERS {
        head(&mut out, name, "counter", help);
        for (class, labels) in &classes {
            let _ = writeln!(out, "lockyard_{name}_total{{{labels}}} {}", count(&class.counts));
        }
    }
    head(&mut out, "waiting", "gauge", "Threads that wait for a lock now");
    for (class, labels) in &classes {
        let _ = writeln!(out, "lockyard_waiting{{{labels}}} {}", class.waiting.threads);
    }
    let blamed = |class: &ClassSample| class.callers.iter().fold(0, |sum, caller| caller.hold_ns.saturating_add(sum));
    seconds(&mut out, &classes, "lost", "Time lost waiting, by threads that wait now as well", |class| class.lost_ns());
    seconds(&mut out, &classes, "held_awaited", "Time for which locks were held while others waited", blamed);
    times(&mut out, &classes, "wait_seconds", "Waiting time", |counts| (&counts.waits, counts.wait_ns));
    times(&mut out, &classes, "hold_seconds", "Hold time of a sample: one acquisition in 64 to 256", |counts| {
        (&counts.holds, counts.hold_ns)
    });
    out.push_str("# EOF\n");
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# TYPE lockyard_{name} {kind}");
    if name.ends_with("_seconds") {
        let _ = writeln!(out, "# UNIT lockyard_{name} seconds");
    }
    let _ = writeln!(out, "# HELP lockyard_{name} {help}.");
}

fn labelled(out: &mut String, name: &str, help: &str, label: &str, counts: &[(String, u64)]) {
    head(out, name, "counter", help);
    for (value, count) in counts {
        let _ = writeln!(out, "lockyard_{name}_total{{{label}=\"{}\"}} {count}", escaped(value));
    }
}

fn seconds(out: &mut String, classes: &Labelled<'_>, name: &str, help: &str, of: impl Fn(&ClassSample) -> u64) {
    head(out, &format!("{name}_seconds"), "counter", help);
    for (class, labels) in classes {
        let _ = writeln!(out, "lockyard_{name}_seconds_total{{{labels}}} {:?}", of(class) as f64 / 1e9);
    }
}

fn times(out: &mut String, classes: &Labelled<'_>, name: &str, help: &str, of: fn(&Counts) -> (&Vec<u64>, u64)) {
    head(out, name, "histogram", help);
    for (class, labels) in classes {
        let (counts, sum) = of(&class.counts);
        let mut seen = 0;
        // The last class has no upper end but infinity.
        for (index, octave) in counts[..BUCKETS - STEP].chunks(STEP).enumerate() {
            seen += octave.iter().sum::<u64>();
            let end = lower((index + 1) * STEP) as f64 / 1e9;
            let _ = writeln!(out, "lockyard_{name}_bucket{{{labels},le=\"{end:?}\"}} {seen}");
        }
        let all: u64 = counts.iter().sum();
        let _ = writeln!(out, "lockyard_{name}_bucket{{{labels},le=\"+Inf\"}} {all}");
        let _ = writeln!(out, "lockyard_{name}_count{{{labels}}} {all}");
        let _ = writeln!(out, "lockyard_{name}_sum{{{labels}}} {:?}", sum as f64 / 1e9);
    }
}

fn labels(class: &ClassSample, name: &str) -> String {
    let (kind, of, name) = (escaped(&class.kind), escaped(&class.name), escaped(name));
    let mut labels = format!("kind=\"{kind}\",lock=\"{name}\",class=\"{of}\"");
    if class.site != 0 {
        let _ = write!(labels, ",site=\"{:#x}\"", class.site);
    }
    labels
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_kept() {
        let mut counts = Counts { acquired: 5, contended: 2, wait_ns: 1_500_000_000, ..Counts::default() };
        counts.waits[0] = 1;
        counts.waits[BUCKETS - 1] = 1;
        let (kind, name) = ("mutex".to_owned(), "a\"\\".to_owned());
        let class = ClassSample { kind, name, site: 255, counts, ..ClassSample::default() };
        let sample = Sample { events: vec![("park_sleep".to_owned(), 3)], classes: vec![class], ..Sample::default() };
        let text = render(&sample, |_| "mutex of main (a.c:7)".to_owned());
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
        assert!(text.contains("lockyard_events_total{event=\"park_sleep\"} 3\n"), "{text}");
        let labels = "kind=\"mutex\",lock=\"mutex of main (a.c:7)\",class=\"a\\\"\\\\\",site=\"0xff\"";
        assert!(text.contains(&format!("lockyard_acquired_total{{{labels}}} 5\n")), "{text}");
        assert!(text.contains(&format!("lockyard_wait_seconds_bucket{{{labels},le=\"6.4e-8\"}} 1\n")), "{text}");
        assert!(text.contains(&format!("lockyard_wait_seconds_bucket{{{labels},le=\"+Inf\"}} 2\n")), "{text}");
        assert!(text.contains(&format!("lockyard_wait_seconds_sum{{{labels}}} 1.5\n")), "{text}");
        // One description per family, before its samples; counts of buckets never fall.
        let families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(families.len(), 12);
        assert!(text.contains(&format!("lockyard_lost_seconds_total{{{labels}}} 1.5\n")), "{text}");
        let buckets: Vec<u64> = text
            .lines()
            .filter(|line| line.starts_with("lockyard_wait_seconds_bucket"))
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(buckets.is_sorted() && buckets.len() == BUCKETS / STEP, "{buckets:?}");
    }
}
