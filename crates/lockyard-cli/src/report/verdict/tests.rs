use std::time::Duration;

use lockyard_segment::histogram::bucket;
use lockyard_segment::sample::{CallerSample, Counts, Hold, Place, ThreadSample, Wait};

use super::*;
use crate::known::Known;
use crate::symbols::Symbols;

/// The verdict on a lock that cost `lost` of the threads' time, where they were in futex calls
/// for nine tenths of it.
fn of(lost: f64, known: Option<&Known>) -> String {
    let ns = (lost * 1e9) as u64;
    let counts = Counts { acquired: 1_000_000, contended: 1_000, wait_ns: ns, wait_max: 1_000, ..Counts::default() };
    let class = ClassSample { kind: "mutex".to_owned(), name: "a".to_owned(), counts, ..ClassSample::default() };
    let sample = Sample { classes: vec![class], seconds: 1.0, threads: 1, ..Sample::default() };
    let mut waits = Known::default();
    waits.saw(90, 100);
    let (symbols, known) = (Symbols::default(), known.unwrap_or(&waits));
    let thread_time = Duration::from_secs(1);
    verdict(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known })
}

#[test]
fn waits_elsewhere_are_told_where_locks_cost_less() {
    let little = of(0.005, None);
    assert!(little.starts_with("The locks that were seen are not this program's problem"), "{little}");
    assert!(little.contains("Beside them: 89.5 % of its threads' time in other futex calls"), "{little}");
    assert!(of(0.2, None).contains("Beside them: 70.0 %"));
    let much = of(0.6, None);
    assert!(much.starts_with("Locks cost this program 600 ms") && !much.contains("Beside"), "{much}");
}

#[test]
fn locks_of_its_own_are_told_of_where_nothing_is_known_of_waits() {
    let (nothing, mut known) = (Known::default(), Known::default());
    assert!(of(0.005, Some(&nothing)).starts_with("Locks are not this program's problem"));
    assert!(!of(0.2, Some(&nothing)).contains("Beside"));
    known.programs.push(std::env::current_exe().unwrap());
    let own = of(0.2, Some(&known));
    assert!(own.contains("Beside them: ") && own.contains("is a Rust program"), "{own}");
}

/// It was named only where other waits cost more than the locks.
#[test]
fn a_program_that_was_not_seen_is_named_whatever_the_locks_cost() {
    let mut known = Known::default();
    known.saw(90, 100);
    known.loaded = session::Loaded::missed(std::path::Path::new("/no/such/program"));
    let much = of(0.6, Some(&known));
    assert!(much.starts_with("Locks cost this program 600 ms"), "{much}");
    assert!(much.contains("Beside them: the preload library was not in '/no/such/program'"), "{much}");
    assert!(!much.contains("other futex calls"), "{much}");
}

#[test]
fn a_process_that_could_not_tell_is_named_first() {
    let mut known = Known::default();
    known.untold = Some("process 7 could not make its statistics: no".to_owned());
    let said = of(0.005, Some(&known));
    let begin = "Not all: process 7 could not make its statistics: no. The locks that were seen are not this ";
    assert!(said.starts_with(begin), "{said}");
}

/// It was always `/dev/shm`.
#[test]
fn threads_that_are_not_counted_are_told_with_the_true_reason() {
    let why = |private, beyond| uncounted(&Sample { private, beyond, ..Sample::default() }).unwrap_or_default();
    let (pages, room) = ("for which the 16,384 pages of statistics did not suffice", "for which /dev/shm had no room");
    assert_eq!(why(0, 0), "");
    assert_eq!((why(3, 3), why(3, 0)), (format!("3 threads, {pages}"), format!("3 threads, {room}")));
    assert_eq!(why(3, 2), format!("2 threads, {pages}, and 1 thread, {room}"));
}

/// The verdict on `classes` of a program of 16 threads on 2 CPUs, after two seconds.
fn said(classes: Vec<ClassSample>) -> String {
    let sample = Sample { classes, seconds: 2.0, threads: 16, ..Sample::default() };
    let (symbols, known, thread_time) = (Symbols::default(), Known::default(), Duration::from_secs(32));
    verdict(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known })
}

fn tried(refused: u64, acquired: u64, contended: u64) -> ClassSample {
    let wait_ns = 10_000 * contended;
    let counts = Counts { refused, acquired, contended, wait_ns, wait_max: 10_000, ..Counts::default() };
    ClassSample { kind: "mutex".to_owned(), name: "a".to_owned(), counts, ..ClassSample::default() }
}

#[test]
fn tries_in_vain_are_the_answer_where_nothing_waits() {
    let text = said(vec![tried(0, 1_000_000, 0), tried(117_225, 2_904, 0)]);
    let begin = "Locks cost this program tries: 117,225 found mutex a taken and came again, beside 2,904 \
                 acquisitions. Wait for it in place of trying; ";
    assert!(text.starts_with(begin) && !text.contains("not this program's problem"), "{text}");
    // Few of them, few of the tries, and few beside the waits.
    for calm in [tried(999, 10, 0), tried(10_000, 1_000_000, 0), tried(10_000, 10_000, 1_001)] {
        let text = said(vec![calm]);
        assert!(text.starts_with("Locks are not this program's problem"), "{text}");
    }
}

/// Calls with a deadline that is over are tries: there were more waits than acquisitions.
#[test]
fn waits_whose_time_is_up_at_once_are_tries() {
    let mut polled = tried(0, 500, 3_684);
    (polled.counts.gave_up, polled.counts.wait_ns) = (3_684, 3_684_000);
    polled.counts.waits[bucket(1_000)] = 3_684;
    let text = said(vec![polled.clone()]);
    assert!(text.starts_with("Locks cost this program tries: 3,684 found mutex a taken and came again"), "{text}");
    polled.counts.gave_up = 600;
    let text = said(vec![polled]);
    assert!(text.contains(" in 3,084 of 500 acquisitions"), "{text}");
    // They did wait.
    let mut timed = tried(0, 500, 3_684);
    (timed.counts.gave_up, timed.counts.wait_ns) = (3_684, 3_684_000_000);
    timed.counts.waits[bucket(1_000_000)] = 3_684;
    assert!(!said(vec![timed]).contains("found"));
}

/// The time of threads that idle hid that the others went no faster than the lock.
#[test]
fn a_lock_that_limits_a_few_threads_is_named_beside_idle_ones() {
    let mut busy = tried(0, 2_000, 1_900);
    (busy.counts.wait_ns, busy.counts.locks) = (1_800_000_000, 1);
    (busy.counts.holds[bucket(950_000)], busy.counts.hold_max) = (100, 1_000_000);
    let of = |threads: u64, class: &ClassSample| {
        let sample = Sample { classes: vec![class.clone()], seconds: 2.0, threads: 2, ..Sample::default() };
        let (symbols, known, thread_time) = (Symbols::default(), Known::default(), Duration::from_secs(2 * threads));
        verdict(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known })
    };
    for threads in [4, 400] {
        let text = of(threads, &busy);
        assert!(text.starts_with("Locks cost this program 1.80 s") && text.contains("It is held "), "{text}");
    }
    // Held for long, and nobody waits for it.
    busy.counts.wait_ns = 100_000_000;
    assert!(of(400, &busy).starts_with("Locks are not this program's problem"));
}

#[test]
fn tries_in_vain_are_told_beside_what_waits_cost() {
    let waited = tried(0, 1_000_000, 200_000);
    let text = said(vec![waited, tried(117_225, 2_904, 0)]);
    assert!(text.starts_with("Locks cost this program 2.00 s, "), "{text}");
    assert!(
        text.ends_with(" Besides, 117,225 tries found mutex a taken and came again: wait for it in place of trying.")
    );
    let both = said(vec![tried(5_000_000, 1_000_000, 200_000)]);
    assert!(both.ends_with("5,000,000 tries found it taken and came again: wait for it in place of trying."), "{both}");
}

#[test]
fn no_rwlock_is_advised_to_be_a_recursive_one() {
    let said = |kind: &str| {
        let class = ClassSample { kind: kind.to_owned(), ..ClassSample::default() };
        let (place, ns) = (Place::default(), u64::MAX);
        let wait = Wait { lock: 8, class: 0, place: place.clone(), since: 1, ns, holder: 0, has_deadline: false };
        let holds = vec![Hold { lock: 8, place, shared: false, ns: 0 }];
        let itself = ThreadSample { process: 1, thread: 2, name: String::new(), waits: Some(wait), holds };
        let sample = Sample { classes: vec![class], waiters: vec![itself], ..Sample::default() };
        let (symbols, known, thread_time) = (Symbols::default(), Known::default(), Duration::from_secs(1));
        verdict(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known })
    };
    assert!(said("mutex").ends_with("Release it first, or make it a recursive one."), "{}", said("mutex"));
    for kind in ["rwlock", "rwsem"] {
        let text = said(kind);
        assert!(text.starts_with("Deadlock: ") && text.ends_with("first, or do not ask for it again."), "{text}");
    }
}

/// One long hold among those that were timed is not one of many.
#[test]
fn a_lock_is_not_said_to_be_held_for_longer_than_it_is() {
    let mut counts = Counts { acquired: 23_000, contended: 30, wait_ns: 300_000_000, ..Counts::default() };
    (counts.holds[bucket(1_000)], counts.holds[bucket(30_000_000)]) = (360, 1);
    (counts.hold_ns, counts.hold_max) = (360 * 1_000 + 30_000_000, 30_000_000);
    let caller =
        CallerSample { waits: 30, wait_ns: 300_000_000, holds: 36, hold_ns: 270_000_000, ..CallerSample::default() };
    let class = ClassSample { kind: "mutex".to_owned(), counts, callers: vec![caller], ..ClassSample::default() };
    let sample = Sample { classes: vec![class], seconds: 1.0, threads: 1, ..Sample::default() };
    let (symbols, known, thread_time) = (Symbols::default(), Known::default(), Duration::from_secs(1));
    let facts = Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known };
    let text = verdict(&facts);
    let held = text.split("It is held ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    assert!(held.is_some_and(|held| (27.0..35.0).contains(&held)), "{text}");
    assert!(text.contains("12.") || text.contains("13."), "microseconds on average: {text}");
}
