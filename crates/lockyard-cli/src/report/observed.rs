//! What the locks of a process did, for people and as JSON.

use std::fmt::Write;

use lockyard_segment::Sample;
use lockyard_segment::sample::{ClassSample, Counts, Waiting};
use serde::Serialize;

use super::numbers;
use super::table::{Look, align_right, new_table, trimmed};
use crate::events;

/// Lock classes shown to people.
const MOST_CLASSES: usize = 10;

/// Everything. Writing to a string cannot fail, here and below.
pub(crate) fn render(what: &str, sample: &Sample, look: Look) -> String {
    let mut head =
        vec![format!("{} s", numbers::three(sample.seconds)), numbers::count(sample.threads as usize, "thread")];
    if !sample.locks.is_empty() {
        head.push(sample.locks.clone());
    }
    let mut out = format!("{}  {}\n\n", look.bold(what), look.dim(&head.join(", ")));
    out.push_str(&events(sample, look));
    out.push_str(&classes(sample, look));
    out.push_str(&fallbacks(sample));
    if sample.private > 0 {
        let threads = numbers::count(sample.private as usize, "thread");
        let _ = writeln!(out, "Without the counts of {threads}: /dev/shm was full.");
    }
    out
}

fn events(sample: &Sample, look: Look) -> String {
    let happened: Vec<_> = sample.events.iter().filter(|(_, count)| *count != 0).collect();
    if happened.is_empty() {
        return format!("{}\n\n", look.dim("No lock event: nobody had to wait."));
    }
    let acquired = sample.acquired();
    let mut table = new_table(look, ["  lock event", "count", "per s", "per acq.", "meaning"]);
    align_right(&mut table, &[1, 2, 3]);
    for (name, count) in happened {
        let per = |whole: f64| if whole > 0.0 { numbers::three(*count as f64 / whole) } else { "–".to_owned() };
        let meaning = events::plain(name).to_owned();
        let row = [numbers::grouped(*count), per(sample.seconds), per(acquired as f64), meaning];
        table.add_row([vec![format!("  {name}")], row.to_vec()].concat());
    }
    format!("{}\n", trimmed(&table))
}

fn classes(sample: &Sample, look: Look) -> String {
    let mut classes: Vec<&ClassSample> = sample.classes.iter().filter(|class| class.counts.acquired != 0).collect();
    if classes.is_empty() {
        return String::new();
    }
    classes.sort_by_key(|class| std::cmp::Reverse((class.counts.wait_ns, class.counts.acquired)));
    let head = [
        "  lock class",
        "acquired",
        "contended",
        "wait p50",
        "p99",
        "max",
        "hold p50",
        "p99",
        "handoffs",
        "parks",
        "gave up",
    ];
    let mut table = new_table(look, head);
    align_right(&mut table, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for class in classes.iter().take(MOST_CLASSES) {
        let counts = &class.counts;
        let time = |count: u64, ns: u64| if count == 0 { "–".to_owned() } else { numbers::time(ns as f64) };
        let (waits, holds) = (counts.waits.iter().sum(), counts.holds.iter().sum());
        table.add_row(vec![
            format!("  {}", label(class)),
            numbers::grouped(counts.acquired),
            format!("{} %", numbers::three(counts.contended_share() * 100.0)),
            time(waits, counts.wait(0.5)),
            time(waits, counts.wait(0.99)),
            time(waits, counts.wait_max),
            time(holds, counts.hold(0.5)),
            time(holds, counts.hold(0.99)),
            numbers::grouped(counts.handoffs),
            numbers::grouped(counts.parks),
            numbers::grouped(counts.gave_up),
        ]);
    }
    let mut out = format!("{}\n", trimmed(&table));
    if let Some(more) = classes.len().checked_sub(MOST_CLASSES).filter(|more| *more > 0) {
        let _ = writeln!(
            out,
            "{}",
            look.dim(&format!("  and {} with less waiting, all in --json", numbers::count(more, "class")))
        );
    }
    let _ = writeln!(out, "{}", look.dim("  Sorted by waiting time. Hold times: of about one acquisition in 64."));
    out + &waiting(sample)
}

/// A line for each class that somebody waits for at this moment.
fn waiting(sample: &Sample) -> String {
    let mut out = String::new();
    for class in sample.classes.iter().filter(|class| class.waiting.threads > 0) {
        let Waiting { threads, longest_ns, holder } = class.waiting;
        let (threads, longest) = (numbers::count(threads as usize, "thread"), numbers::time(longest_ns as f64));
        let _ = write!(out, "  {}: {threads} waiting now, the first since {longest}", label(class));
        let _ = if holder == 0 { writeln!(out, ".") } else { writeln!(out, ", when thread {holder} held it.") };
    }
    out
}

/// The class as people know it.
pub(crate) fn label(class: &ClassSample) -> String {
    let mut label = if class.kind.is_empty() { "other locks".to_owned() } else { class.kind.clone() };
    // A class that nobody has named is called by the code that makes its locks: what
    // `addr2line -e FILE` understands.
    let file = class.name.starts_with('/') && class.site != 0;
    let name = if file { class.name.rsplit('/').next().unwrap_or_default() } else { &class.name };
    if !name.is_empty() {
        let _ = write!(label, " {name}");
    }
    if class.site != 0 {
        let _ = if file { write!(label, "+{:#x}", class.site) } else { write!(label, " made at {:#x}", class.site) };
    }
    label
}

fn fallbacks(sample: &Sample) -> String {
    let some: Vec<String> = sample
        .fallbacks
        .iter()
        .filter(|(_, count)| *count != 0)
        .map(|(reason, count)| format!("{reason} {}", numbers::grouped(*count)))
        .collect();
    if some.is_empty() { String::new() } else { format!("Left to the C library: {}.\n", some.join(", ")) }
}

/// A sample as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    what: String,
    process: u32,
    seconds: f64,
    threads: u32,
    threads_not_counted: u32,
    locks: String,
    events: Vec<EventLine>,
    classes: Vec<ClassLine>,
    fallbacks: Vec<FallbackLine>,
}

#[derive(Debug, Serialize)]
struct EventLine {
    name: String,
    count: u64,
    per_second: f64,
    per_acquisition: Option<f64>,
}

#[derive(Debug, Serialize)]
struct FallbackLine {
    reason: String,
    count: u64,
}

#[derive(Debug, Serialize)]
struct ClassLine {
    kind: String,
    name: String,
    site: u64,
    acquired: u64,
    contended: u64,
    contended_share: f64,
    gave_up: u64,
    parks: u64,
    handoffs: u64,
    waiting_now: u32,
    waiting_longest_ns: u64,
    waiting_for_thread: u32,
    wait_ns: Times,
    hold_ns: Times,
}

#[derive(Debug, Serialize)]
struct Times {
    count: u64,
    sum: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

/// `sample` as JSON has it: every event, every class.
pub(crate) fn document(what: &str, sample: &Sample) -> Document {
    let acquired = sample.acquired();
    let event = |(name, count): &(String, u64)| EventLine {
        name: name.clone(),
        count: *count,
        per_second: if sample.seconds > 0.0 { *count as f64 / sample.seconds } else { 0.0 },
        per_acquisition: (acquired > 0).then(|| *count as f64 / acquired as f64),
    };
    Document {
        what: what.to_owned(),
        process: sample.process,
        seconds: sample.seconds,
        threads: sample.threads,
        threads_not_counted: sample.private,
        locks: sample.locks.clone(),
        events: sample.events.iter().map(event).collect(),
        classes: sample.classes.iter().filter(|class| class.counts.acquired != 0).map(class_line).collect(),
        fallbacks: sample
            .fallbacks
            .iter()
            .map(|(reason, count)| FallbackLine { reason: reason.clone(), count: *count })
            .collect(),
    }
}

fn class_line(class: &ClassSample) -> ClassLine {
    let counts = &class.counts;
    let times = |all: &[u64], sum: u64, max: u64, quantile: &dyn Fn(&Counts, f64) -> u64| Times {
        count: all.iter().sum(),
        sum,
        p50: quantile(counts, 0.5),
        p99: quantile(counts, 0.99),
        max,
    };
    ClassLine {
        kind: class.kind.clone(),
        name: class.name.clone(),
        site: class.site,
        acquired: counts.acquired,
        contended: counts.contended,
        contended_share: counts.contended_share(),
        gave_up: counts.gave_up,
        parks: counts.parks,
        handoffs: counts.handoffs,
        waiting_now: class.waiting.threads,
        waiting_longest_ns: class.waiting.longest_ns,
        waiting_for_thread: class.waiting.holder,
        wait_ns: times(&counts.waits, counts.wait_ns, counts.wait_max, &Counts::wait),
        hold_ns: times(&counts.holds, counts.hold_ns, counts.hold_max, &Counts::hold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockyard_segment::histogram;

    pub(crate) fn sample() -> Sample {
        let mut counts =
            Counts { acquired: 1000, contended: 10, parks: 4, wait_ns: 50_000, wait_max: 9_000, ..Counts::default() };
        counts.waits[histogram::bucket(5_000)] = 10;
        let waiting = Waiting { threads: 2, longest_ns: 3_000_000, holder: 4711 };
        let class = ClassSample { kind: "mutex".to_owned(), name: "a \"b\"".to_owned(), site: 0, waiting, counts };
        Sample {
            process: 7,
            locks: "mutex=hq".to_owned(),
            seconds: 2.0,
            threads: 3,
            private: 0,
            events: vec![("mutex_slowpath".to_owned(), 10), ("mutex_fail".to_owned(), 0)],
            fallbacks: vec![("robust".to_owned(), 2), ("shared".to_owned(), 0)],
            classes: vec![ClassSample::default(), class],
        }
    }

    #[test]
    fn people_see_what_happened() {
        let text = render("memcached (process 7)", &sample(), Look { styled: false, full_titles: true, events: true });
        for part in [
            "memcached (process 7)  2.00 s, 3 threads, mutex=hq",
            "mutex_slowpath",
            "found the lock taken",
            "mutex a \"b\"",
            "mutex a \"b\": 2 threads waiting now, the first since 3.00 ms, when thread 4711 held it.",
            "1.00 %",
            "Left to the C library: robust 2.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("mutex_fail") && !text.contains("other locks") && !text.contains("shared"), "{text}");
        let row = text.lines().find(|line| line.contains("mutex_slowpath")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>()[1..4], ["10", "5.00", "0.010"]);
        let quiet = render("x", &Sample::default(), Look { styled: false, full_titles: true, events: true });
        assert!(quiet.contains("nobody had to wait"), "{quiet}");
    }

    #[test]
    fn code_in_a_file_is_a_name() {
        let class = |name: &str, site| ClassSample {
            kind: "mutex".to_owned(),
            name: name.to_owned(),
            site,
            ..ClassSample::default()
        };
        assert_eq!(label(&class("/usr/lib/librocksdb.so.7", 0x1f0)), "mutex librocksdb.so.7+0x1f0");
        assert_eq!(label(&class("", 0x1f0)), "mutex made at 0x1f0");
        assert_eq!(label(&class("table", 0)), "mutex table");
    }

    #[test]
    fn programs_see_everything() {
        let document = serde_json::to_value(document("x", &sample())).unwrap();
        assert_eq!(document["events"][0]["per_second"], 5.0);
        assert_eq!(document["events"][1]["count"], 0);
        assert_eq!(document["classes"][0]["contended_share"], 0.01);
        assert_eq!(document["classes"][0]["wait_ns"]["count"], 10);
        assert_eq!(document["classes"][0]["waiting_for_thread"], 4711);
        assert_eq!(document["fallbacks"][0]["reason"], "robust");
    }
}
