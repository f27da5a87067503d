use std::time::Duration;

use lockyard_segment::histogram::bucket;
use lockyard_segment::sample::{Place, Waiting, Within};

use super::*;
use crate::known::Known;
use crate::symbols::Symbols;

/// The advice on `class` of a program of 16 threads on 2 CPUs, after two seconds.
fn said(class: ClassSample) -> String {
    said_of(vec![class])
}

/// The same on the first of `classes`.
fn said_of(classes: Vec<ClassSample>) -> String {
    let sample = Sample { classes, seconds: 2.0, threads: 16, ..Sample::default() };
    let (symbols, known, thread_time) = (Symbols::default(), Known::default(), Duration::from_secs(32));
    let symbols = &symbols;
    let facts = Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols, known: &known };
    advice(&facts, &sample.classes[0])
}

#[test]
fn a_wait_for_a_lock_that_nobody_is_seen_to_hold_is_not_blamed_on_a_thread() {
    let held_by = |holder| {
        let waiting = Waiting { threads: 1, longest_ns: 2 * LONG, sum_ns: 2 * LONG, holder };
        said(ClassSample { waiting, ..ClassSample::default() })
    };
    assert!(held_by(7).starts_with("Look at what that thread does"));
    let unseen = held_by(0);
    assert!(unseen.starts_with("No thread is seen to hold it") && unseen.contains("not noted, as with spinlocks"));
}

/// What a program counted one thread of which slept for 30 ms under the lock, once; `awaited`
/// is the time of the holds for which others waited.
fn held_once(awaited: u64, waits: u64, wait: u64) -> ClassSample {
    let mut counts =
        Counts { acquired: 27_856, contended: waits, wait_ns: waits * wait, wait_max: wait, ..Counts::default() };
    (counts.holds[bucket(250)], counts.waits[bucket(wait)]) = (430, waits);
    (counts.hold_ns, counts.hold_max) = (1_256_241, 30_090_434);
    let caller = CallerSample {
        waits,
        wait_ns: counts.wait_ns,
        wait_max: wait,
        holds: 180,
        hold_ns: awaited,
        hold_max: 30_090_434,
        holder: 16_203,
        name: "w7".to_owned(),
        ..CallerSample::default()
    };
    ClassSample { kind: "mutex".to_owned(), counts, callers: vec![caller], ..ClassSample::default() }
}

/// A section that sleeps once in two hundred times was told to be one of 41 µs on average.
#[test]
fn long_holds_of_a_section_that_is_short_as_a_rule_are_what_is_looked_at() {
    let mut class = held_once(650_000_000, 339, 17_100_000);
    class.callers[0].holds = 15_512;
    class.counts.wait_max = 58_200_000;
    let text = said(class);
    assert!(
        text.contains("behind long holds (the longest: at least 30.1 ms), of a section that lasts 256 ns"),
        "{text}"
    );
    // All of them are as long.
    let mut class = held_once(650_000_000, 15_000, 300_000);
    (class.counts.holds[bucket(250)], class.counts.holds[bucket(40_000)]) = (0, 430);
    class.callers[0].holds = 15_512;
    assert!(said(class).contains("goes no faster than that section"));
}

#[test]
fn one_long_hold_behind_which_most_was_waited_is_what_is_looked_at() {
    let text = said(held_once(31_555_534, 17, 29_000_000));
    let end = "Most of that was waited behind one hold of at least 30.1 ms, \
               of a section that lasts 256 ns as a rule: look at \
               what thread 16203 \"w7\" did there for so long; \
               if nothing there is slow, it had lost its CPU (16 threads share 2 CPUs).";
    assert!(text.ends_with(end), "{text}");
    let few = said(held_once(200_000_000, 60, 20_000_000));
    assert!(few.contains("behind a few holds (the longest: at least 30.1 ms), of a section"), "{few}");
}

/// Holders that lose their CPU are many, and threads that wait for each other's short sections
/// do not wait for a long one.
#[test]
fn one_long_hold_of_many_or_with_short_waits_is_not_what_is_looked_at() {
    let many = said(held_once(7_000_000_000, 544, 21_000_000));
    assert!(many.contains("waited behind long holds (the longest: at least 30.1 ms)"), "{many}");
    let short = said(held_once(31_555_534, 10_000, 60_000));
    assert!(!short.contains("behind"), "{short}");
}

/// The last long wait of a holder was the one that was told of: also where all others were for
/// another lock, and where that one cost nothing in what is shown.
#[test]
fn the_lock_for_which_holders_waited_longest_is_named_if_it_is_seen_to_cost_that() {
    let class = |name: &str, wait_ns| {
        let counts = Counts { wait_ns, ..Counts::default() };
        ClassSample { kind: "mutex".to_owned(), name: name.to_owned(), counts, ..ClassSample::default() }
    };
    let said = |often_lost| {
        let within = |name: &str, ns| {
            let (kind, name) = ("mutex".to_owned(), name.to_owned());
            Within { ns, kind, name, site: 0, place: Place::default() }
        };
        let caller = CallerSample { holds: 300, hold_ns: 1_000_000_000, ..CallerSample::default() };
        let outer = ClassSample {
            callers: vec![caller],
            within: vec![within("often", 500_000_000), within("last", 8_000_000), within("often", 444_000_000)],
            ..class("outer", 4_000_000_000)
        };
        said_of(vec![outer, class("last", 8_000_000), class("often", often_lost)])
    };
    assert!(said(944_000_000).starts_with("Its holders wait meanwhile for mutex often in "));
    let unseen = said(0);
    assert!(!unseen.contains("Its holders wait"), "{unseen}");
}

/// A thread that waits while it holds three locks, for each of which another one waits.
#[test]
fn a_wait_that_counts_for_several_locks_is_still_named() {
    let class = |name: &str, wait_ns| {
        let counts = Counts { wait_ns, ..Counts::default() };
        ClassSample { kind: "mutex".to_owned(), name: name.to_owned(), counts, ..ClassSample::default() }
    };
    let (kind, name) = ("mutex".to_owned(), "inner".to_owned());
    let within = vec![Within { ns: 2_760_000_000, kind, name, site: 0, place: Place::default() }];
    let caller = CallerSample { holds: 3, hold_ns: 2_940_000_000, hold_max: 980_000_000, ..CallerSample::default() };
    let outer = ClassSample { callers: vec![caller], within, ..class("shard", 2_940_000_000) };
    let text = said_of(vec![outer, class("inner", 920_000_000)]);
    assert!(text.starts_with("Its holders wait meanwhile for mutex inner in "), "{text}");
}

/// What a program counted four threads of which hold a mutex for 10 ms each time, and a fifth
/// for an instant: of 104 holds two were timed.
fn slow_workers(timed: u64) -> ClassSample {
    let mut counts = Counts { acquired: 104, contended: 60, wait_ns: 1_210_000_000, ..Counts::default() };
    counts.holds[bucket(timed)] = 2;
    (counts.waits[bucket(20_000_000)], counts.hold_max) = (60, 10_200_000);
    let caller = CallerSample { holds: 60, hold_ns: 606_000_000, hold_max: 10_200_000, ..CallerSample::default() };
    ClassSample { kind: "mutex".to_owned(), counts, callers: vec![caller], ..ClassSample::default() }
}

/// The advice was one or the other by chance.
#[test]
fn what_is_said_of_slow_sections_does_not_hang_on_which_of_few_holds_were_timed() {
    for timed in [300, 10_100_000] {
        let text = said(slow_workers(timed));
        assert!(text.starts_with("Do the slow work there outside of the lock"), "{timed}: {text}");
    }
}

#[test]
fn no_section_that_lasts_is_called_short_and_idle_cpus_are_not_shared() {
    let said = |ns: u64, cpu: u64| {
        let mut counts = Counts { acquired: 4_000, contended: 1_500, wait_ns: 1_000_000_000, ..Counts::default() };
        (counts.holds[bucket(ns)], counts.waits[bucket(200_000)], counts.hold_max) = (250, 1_500, ns);
        let class = ClassSample { kind: "mutex".to_owned(), counts, ..ClassSample::default() };
        let (mut known, thread_time) = (Known::default(), Duration::from_secs(32));
        (known.thread_time, known.cpu_time) = (thread_time, Duration::from_secs(cpu));
        let sample = Sample { classes: vec![class], seconds: 2.0, threads: 16, ..Sample::default() };
        let symbols = &Symbols::default();
        let facts = Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols, known: &known };
        advice(&facts, &sample.classes[0])
    };
    assert!(said(5_000, 4).starts_with("Its section is short ("), "{}", said(5_000, 4));
    assert!(said(5_000, 1).starts_with("Take it less often, or split"), "{}", said(5_000, 1));
    let lasting = said(110_000, 4);
    assert!(lasting.contains("Take it less often, do less inside (1"), "{lasting}");
}

#[test]
fn many_locks_are_not_said_to_be_one_that_limits_the_program() {
    let holds = |busy| Holds { callers: Vec::new(), few: false, count: 100, average: 52_600.0, busy: Some(busy) };
    let one = limit(&holds(0.9), 0.0, 1).unwrap();
    assert!(one.starts_with("It is held 90.0 % of the time, 52.6 µs on average, and threads queue for it"), "{one}");
    assert_eq!(limit(&holds(0.9), 0.0, 0), Some(one), "not known");
    assert!(limit(&holds(0.1), QUEUED, 1).is_some());
    // A thousand locks that are held for 7 s in a second; threads wait half of their time.
    assert_eq!(limit(&holds(7.0), 0.5, 1_000), None);
    let twelve = limit(&holds(9.0), 0.5, 12).unwrap();
    assert!(twelve.starts_with("Its 12 locks are held 75.0 % of the time on average, each time 52.6 µs"), "{twelve}");
    assert!(!twelve.contains("no faster"), "{twelve}");
    assert_eq!(limit(&Holds { count: 0, ..holds(9.0) }, 0.5, 1), None);
}

/// They were to be split further, with all others.
#[test]
fn a_few_locks_of_many_that_are_hot_are_told_apart_from_all_of_them() {
    let counts = |most_locks, hottest| Counts { wait_ns: 1_000, most_locks, hottest, ..Counts::default() };
    let said = |most_locks, hottest| uneven(&counts(most_locks, hottest));
    let one = said(64, [(0xab40, 800), (0xab80, 10), (0, 0), (0, 0)]).unwrap();
    assert!(one.starts_with("Of its 64 locks, the one at 0xab40 has at least 80.0 % of the waiting: "), "{one}");
    let three = said(64, [(0xab40, 300), (0xab80, 290), (0xabc0, 280), (0, 0)]).unwrap();
    assert!(
        three.starts_with("Of its 64 locks, 2 have at least 59.0 % of the waiting, most of it the one at 0xab40"),
        "{three}"
    );
    for (locks, times) in [(1, [1_000, 0, 0, 0]), (2, [500, 500, 0, 0]), (3, [340, 330, 330, 0]), (64, [20, 10, 10, 5])]
    {
        assert_eq!(said(locks, times.map(|ns| (0xab00 + ns, ns))), None, "{times:?} of {locks}");
    }
    assert!(said(1 << 16, [(0xab40, 900), (0, 0), (0, 0), (0, 0)]).unwrap().contains("Of its 65,536 locks or more, "));
}

/// Threads that take two locks in different orders, with a deadline, were told to do slow work
/// outside.
#[test]
fn waits_that_end_at_a_deadline_are_told() {
    let mut counts = Counts { acquired: 300, contended: 209, gave_up: 71, wait_ns: 2_850_000_000, ..Counts::default() };
    (counts.waits[bucket(13_000_000)], counts.wait_max) = (209, 20_500_000);
    let caller = CallerSample { holds: 211, hold_ns: 2_900_000_000, hold_max: 21_400_000, ..CallerSample::default() };
    let mut class = ClassSample { kind: "mutex".to_owned(), counts, callers: vec![caller], ..ClassSample::default() };
    let begin = "71 of 209 waits ended at a deadline, without the lock";
    let slow = said(class.clone());
    assert!(slow.starts_with(&format!("{begin}. Do the slow work there outside of the lock")), "{slow}");
    let (kind, name, place) = (class.kind.clone(), String::new(), Place::default());
    class.within = vec![Within { ns: 2_500_000_000, kind, name, site: 0, place }];
    let nested = said(class.clone());
    assert!(nested.starts_with(begin) && nested.contains("take these in the same order everywhere"), "{nested}");
    class.counts.gave_up = 9;
    assert!(!said(class).contains("deadline"));
}

/// Readers whose waits are `wait_ns`, which hold the lock for `short` as a rule, a reader with
/// holds of 100 ms, and a writer whose ten holds for which others waited last `written` each.
fn read_and_written(wait_ns: u64, short: u64, scans: u64, written: u64) -> ClassSample {
    let mut counts =
        Counts { acquired: 20_000, contended: 1_000, wait_ns, wait_max: 100_000_000, locks: 1, ..Counts::default() };
    (counts.holds[bucket(short)], counts.waits[bucket(90_000_000)]) = (400, 1_000);
    (counts.hold_ns, counts.hold_max) = (400 * short, 100_000_000);
    let caller = |shared, wait_ns, holds, hold_ns: u64| CallerSample {
        shared,
        wait_ns,
        waits: 1_000,
        holds,
        hold_ns: holds * hold_ns,
        hold_max: hold_ns,
        ..CallerSample::default()
    };
    let callers =
        vec![caller(true, wait_ns, 300, short), caller(true, 0, scans, 100_000_000), caller(false, 0, 10, written)];
    ClassSample { kind: "rwlock".to_owned(), counts, callers, ..ClassSample::default() }
}

/// A writer that waits for a slow reader keeps other readers waiting. It was named for what they
/// waited, with holds of microseconds.
#[test]
fn a_slow_reader_is_named_where_a_writer_waits_for_it_and_readers_behind_that() {
    for (wait, written) in [(7_370_000_000, 2_750), (8_000_000_000, 1_000_000)] {
        let text = said(read_and_written(wait, 5_000, 10, written));
        assert!(
            text.starts_with("Writers wait until such readers have gone, and other readers behind them."),
            "{text}"
        );
    }
}

/// What is usual among readers' sections was said of a writer's, which are all long.
#[test]
fn a_writers_long_sections_are_not_measured_by_those_of_readers() {
    let text = said(read_and_written(1_500_000_000, 12_300, 0, 20_000_000));
    assert!(text.starts_with("Readers starve behind that writer. Do the slow work there outside"), "{text}");
    assert!(!text.contains("as a rule"), "{text}");
}
