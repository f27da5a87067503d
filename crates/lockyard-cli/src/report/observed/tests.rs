use std::time::Duration;

use lockyard_segment::histogram;
use lockyard_segment::sample::Counts;

use super::*;
use crate::known::Known;
use crate::symbols::Symbols;

const LOOK: Look = Look { styled: false, full_titles: true, events: true };
const ALL: Extent = Extent { wide: true, events: true, width: None };

pub(crate) fn sample() -> Sample {
    let mut counts =
        Counts { acquired: 1000, contended: 10, parks: 4, wait_ns: 50_000, wait_max: 9_000, ..Counts::default() };
    counts.waits[histogram::bucket(5_000)] = 10;
    let waiting = Waiting { threads: 2, longest_ns: 3_000_000, sum_ns: 4_000_000, holder: 4711 };
    let (kind, name) = ("mutex".to_owned(), "a \"b\"".to_owned());
    let class = ClassSample { kind, name, waiting, counts, ..ClassSample::default() };
    Sample {
        process: 7,
        locks: "mutex=hq".to_owned(),
        seconds: 2.0,
        threads: 3,
        events: vec![("mutex_slowpath".to_owned(), 10), ("mutex_fail".to_owned(), 0)],
        fallbacks: vec![("robust".to_owned(), 2), ("shared".to_owned(), 0)],
        classes: vec![ClassSample::default(), class],
        ..Sample::default()
    }
}

pub(crate) fn with<T>(sample: &Sample, use_it: impl FnOnce(&Facts<'_>) -> T) -> T {
    let thread_time = Duration::from_secs(6);
    let (symbols, known) = (Symbols::default(), Known::default());
    use_it(&Facts { sample, thread_time, cpus: 2, ended: false, symbols: &symbols, known: &known })
}

#[test]
fn people_see_what_happened() {
    let text = with(&sample(), |facts| render("memcached (process 7)", facts, LOOK, ALL));
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
    let few = with(&sample(), |facts| render("x", facts, LOOK, Extent { wide: false, events: false, width: None }));
    assert!(!few.contains("mutex_slowpath") && !few.contains("p99"), "{few}");
}

#[test]
fn tables_fit() {
    let mut sample = sample();
    sample.classes[1].name = "the lock of a table with a name that is much too long for any terminal".to_owned();
    for width in [60, 80, 100, 200] {
        let extent = Extent { wide: false, events: false, width: Some(width) };
        let text = with(&sample, |facts| classes(facts, LOOK, extent));
        let table = text.lines().take(3);
        table.for_each(|line| assert!(line.chars().count() <= width, "{width}: {line}"));
        assert!(text.contains("time lost") && text.contains("max wait"), "{text}");
        assert_eq!(text.contains("max hold"), width >= 80, "{width}: {text}");
        let label = text.lines().nth(2).and_then(|row| row.split("  ").nth(1)).expect("a row");
        assert!(label.chars().count() >= SHORT_LABEL, "{width}: {text}");
        assert_eq!(text.contains("contended"), width >= 200, "{width}: {text}");
    }
    assert_eq!((shortened("abcdefgh", 5), shortened("abc", 5)), ("ab…gh".to_owned(), "abc".to_owned()));
}

/// Two rows of a table had one name, and the middle of it left out.
#[test]
fn names_are_cut_where_they_tell_least() {
    let labels = ["mutex of open (a.c:15) in main (a.c:51)", "mutex of open (a.c:16) in main (a.c:51)", "mutex"];
    let labels = labels.map(str::to_owned);
    assert_eq!(briefly(&labels), ["mutex of open (a.c:15)", "mutex of open (a.c:16)", "mutex"]);
    let labels = [5, 6].map(|line| format!("mutex of Guard (a.c:1) in f (a.c:{line})"));
    assert_eq!(briefly(&labels), labels);
}

#[test]
fn no_line_of_code_is_told_of_twice_in_the_same_words() {
    let caller = |shared, ms: u64, holder| CallerSample {
        shared,
        waits: 2,
        wait_ns: ms * 1_000_000,
        wait_max: ms * 500_000,
        holds: 3,
        hold_ns: ms * 2_000_000,
        hold_max: ms * 1_000_000,
        holder,
        ..CallerSample::default()
    };
    let class = |callers| ClassSample { kind: "rwlock".to_owned(), callers, ..ClassSample::default() };
    let (reader, writer) = (caller(true, 4, 12), caller(false, 2, 11));
    let text = with(&sample(), |facts| callers(facts, &class(vec![writer.clone(), reader, writer.clone()])));
    let expected = [
        "  rwlock",
        "    waited in code that is not known (reading): 4.00 ms in 2 waits, at most 2.00 ms",
        "    waited in code that is not known (writing): 4.00 ms in 4 waits, at most 1.00 ms",
        "    held from code that is not known (reading): others waited in 3 holds, at most 4.00 ms, by thread 12",
        "    held from code that is not known (writing): others waited in 6 holds, at most 2.00 ms, by thread 11",
        "",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    let plain = with(&sample(), |facts| callers(facts, &class(vec![writer])));
    assert!(plain.contains("waited in code that is not known: "), "{plain}");
}

/// Of the time since a reset a longest hold was told of that had been before.
#[test]
fn what_is_not_known_of_the_longest_times_is_not_told() {
    let (waits, wait_ns, hold_ns) = (2, 900_000_000, 9_000);
    let caller = CallerSample { waits, wait_ns, holds: 3, hold_ns, ..CallerSample::default() };
    let counts = Counts { contended: waits, wait_ns, hold_max: 77_000, ..Counts::default() };
    let class = ClassSample { counts, callers: vec![caller], ..ClassSample::default() };
    let sample = Sample { classes: vec![class], ..sample() };
    let text = with(&sample, |facts| render("x", facts, LOOK, Extent { wide: false, events: false, width: None }));
    assert!(text.starts_with("Locks cost this program"), "{text}");
    assert!(text.contains("900 ms in 2 waits\n") && text.contains("others waited in 3 holds\n"), "{text}");
    assert!(!text.contains("77.0") && !text.contains("up to"), "{text}");
}

#[test]
fn an_interval_is_a_line_for_each_class() {
    let text = with(&sample(), |facts| lines(facts, 1.5, None));
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("     1.5 s  lost  4.05 ms (0.068 %)") && text.ends_with("mutex a \"b\"\n"), "{text}");
    let quiet = with(&Sample::default(), |facts| lines(facts, 2.0, None));
    assert!(quiet.contains("no wait"), "{quiet}");
}

/// They were 102 columns wide.
#[test]
fn an_interval_fits_the_terminal() {
    let mut sample = sample();
    sample.classes[1].name = "of open_table (app.c:15) in main (app.c:51)".to_owned();
    let text = |width| with(&sample, |facts| lines(facts, 1.5, Some(width)));
    assert_eq!(text(130), with(&sample, |facts| lines(facts, 1.5, None)));
    assert!(text(80).trim_end().chars().count() <= 80 && text(80).ends_with("app.c:15)\n"), "{}", text(80));
}
