//! What threads do with their locks is read by a recorder, in order: here of the same process.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_segment::layout::{TAPE, TAPES, TAPES_OFFSET, Tape, state};
use lockyard_segment::recorder::{Noted, Standing, Told};
use lockyard_segment::tape::{Event, GAP_NS, Kind};
use lockyard_segment::{self as segment, Caller, Class, Recorder, Refusal};

/// One test at a time: they share the process's segment.
fn alone() -> (MutexGuard<'static, ()>, Recorder, Class) {
    static ORDER: Mutex<()> = Mutex::new(());
    let order = ORDER.lock().unwrap_or_else(PoisonError::into_inner);
    segment::open(b"test").expect("a segment");
    let class = segment::class(b"mutex", b"the one", 0);
    let recorder = Recorder::open(std::process::id()).expect("its segment");
    (order, recorder, class)
}

fn drained(recorder: &Recorder) -> Vec<Event> {
    let mut events = Vec::new();
    recorder.drain(|_, event| events.push(event.expect("nothing is lost")));
    events
}

fn kinds(events: &[Event]) -> Vec<Kind> {
    events.iter().map(|event| event.kind).filter(|&kind| !is_time(kind)).collect()
}

fn is_time(kind: Kind) -> bool {
    matches!(kind, Kind::Off | Kind::Preempted)
}

/// A section of a lock at `lock`.
fn section(class: impl Into<Caller>, lock: usize) {
    segment::acquired(class, lock);
    segment::released(lock);
}

/// What came after a thread's last lock was left out, and locks were said to cost most of the rest.
#[test]
fn what_a_thread_does_before_it_ends_is_recorded() {
    const WORK: u64 = 3_000_000;
    let (_alone, mut recorder, class) = alone();
    recorder.record();
    let last = thread::spawn(move || {
        section(class, 0x20);
        let begin = Linux::now();
        while Linux::now() < begin + WORK {}
        segment::left();
        begin
    });
    let begin = last.join().expect("it ends");
    let events = drained(&recorder);
    let until = events.last().expect("events").at;
    assert!(until >= begin + WORK && is_time(events[events.len() - 1].kind), "{events:?}");
}

#[test]
fn what_a_thread_does_is_recorded_in_order_from_when_it_is_wanted() {
    let (_alone, mut recorder, class) = alone();
    section(class, 0x10);
    recorder.record();
    let before = Linux::now();
    section(class, 0x20);
    section(Caller::new(class, 1).shared(), 0x30);
    segment::contended(class, 0x40).got();
    segment::released(0x40);
    segment::contended(class, 0x50).gave_up();
    segment::refused(class, 0x60);
    recorder.pause();
    section(class, 0x70);
    let events = drained(&recorder);
    use Kind::{AskRead, AskWrite, FailWrite, GaveUp, Grant, Release, Window};
    let expected = [
        (Window, u64::from(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs())),
        (AskWrite, 0x20),
        (Release, 0x20),
        (AskRead, 0x30),
        (Release, 0x30),
        (AskWrite, 0x40),
        (Grant, 0x40),
        (Release, 0x40),
        (AskWrite, 0x50),
        (GaveUp, 0x50),
        (FailWrite, 0x60),
    ];
    let seen = events.iter().filter(|event| !is_time(event.kind)).map(|event| (event.kind, event.value));
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert!(events.iter().all(|event| event.at >= before) && events.is_sorted_by_key(|event| event.at));
    let told = recorder.class(events.iter().find(|event| event.kind == AskWrite).unwrap().class).unwrap();
    assert_eq!((told.kind.as_str(), told.name.as_str(), told.site), ("mutex", "the one", 0));
    assert!(drained(&recorder).is_empty());
}

#[test]
fn time_off_the_cpu_is_told_apart_and_a_wait_is_none() {
    let (_alone, mut recorder, class) = alone();
    recorder.record();
    section(class, 0x20);
    let sleep = || Linux::nap(20);
    sleep();
    section(class, 0x20);
    let waiting = segment::contended(class, 0x20);
    sleep();
    waiting.got();
    segment::released(0x20);
    recorder.pause();
    let events = drained(&recorder);
    let off: Vec<_> = events.iter().enumerate().filter(|(_, event)| event.kind == Kind::Off).collect();
    assert!(!off.is_empty() && off.iter().all(|(_, event)| event.value > 0), "{events:?}");
    for (at, event) in off {
        let passed = event.at - events[at - 1].at;
        assert!(passed > GAP_NS && event.value <= passed, "{events:?}");
        assert_ne!(events.get(at + 1).map(|next| next.kind), Some(Kind::Grant), "{events:?}");
    }
}

#[test]
fn a_full_ring_ends_the_window_and_the_next_begins_when_it_was_read() {
    let (_alone, mut recorder, class) = alone();
    recorder.record();
    (0..TAPE).for_each(|_| section(class, 0x20));
    let events = drained(&recorder);
    assert_eq!((events.len(), events[0].kind), (TAPE, Kind::Window));
    section(class, 0x20);
    assert!(drained(&recorder).is_empty(), "nobody has asked for more");
    recorder.record();
    assert_eq!(recorder.cut(), 1);
    section(class, 0x20);
    assert_eq!(kinds(&drained(&recorder)), [Kind::Window, Kind::AskWrite, Kind::Release]);
}

/// This thread takes a lock as one that is not recorded does. (Of two calls in a row one may be
/// chosen for its hold time.)
fn is_plain(class: Class) -> bool {
    let page = segment::page().expect("this thread's");
    let section = || {
        let plain = segment::acquired_plainly(page, class.into(), 0x20);
        if !plain {
            segment::acquired_on(page, class.into(), 0x20);
        }
        segment::released_on(page, 0x20);
        plain
    };
    section() | section()
}

/// A lock took it 60 ns instead of 38 from then on.
#[test]
fn a_thread_is_as_fast_as_before_once_its_ring_is_full_and_nobody_reads_it() {
    let (_alone, mut recorder, class) = alone();
    recorder.record();
    assert!(!is_plain(class));
    (0..TAPE).for_each(|_| section(class, 0x20));
    assert!(is_plain(class));
    // A later recorder begins anew.
    drained(&recorder);
    recorder.record();
    assert!(!is_plain(class));
}

#[test]
fn a_thread_without_a_tape_is_as_fast_as_before() {
    let (_alone, _recorder, class) = alone();
    let tape = &segment::page().expect("this thread's").tape;
    tape.store(state::NONE, Relaxed);
    assert!(is_plain(class));
    tape.store(state::OFF, Relaxed);
}

/// It had no window: nothing of it was recorded.
#[test]
fn a_thread_begins_anew_that_a_recorder_left_behind_when_it_was_killed() {
    let (_alone, recorder, class) = alone();
    drop(recorder);
    let tape = &segment::page().expect("this thread's").tape;
    tape.store(state::BEGIN, Relaxed);
    section(class, 0x20);
    assert_eq!(tape.load(Relaxed), state::ON);
    let mut recorder = Recorder::open(std::process::id()).expect("its segment");
    recorder.record();
    section(class, 0x30);
    assert_eq!(kinds(&drained(&recorder)), [Kind::Window, Kind::AskWrite, Kind::Release]);
}

/// It was said that 18446744073709551615 windows ended early.
#[test]
fn a_tape_that_lies_ends_one_window_at_a_time() {
    let (_alone, mut recorder, class) = alone();
    recorder.record();
    section(class, 0x20);
    let mut tapes = Vec::new();
    recorder.drain(|tape, _| tapes.push(tape));
    let path = format!("/dev/shm/lockyard.{}", std::process::id());
    let file = File::options().write(true).open(path).expect("its segment");
    let full = TAPES_OFFSET + tapes[0] * size_of::<Tape>() + offset_of!(Tape, full);
    for (told, cut) in [(u64::MAX, 1), (0, 2), (0, 2)] {
        file.write_all_at(&told.to_le_bytes(), full as u64).expect("it is as long");
        recorder.record();
        assert_eq!(recorder.cut(), cut);
    }
}

#[test]
fn threads_that_come_and_go_are_recorded_each_in_windows_of_its_own() {
    let (_alone, mut recorder, class) = alone();
    let mut names = Vec::new();
    for _ in 0..200 {
        recorder.record();
        let name = thread::spawn(move || {
            section(class, 0x20);
            rustix::thread::gettid().as_raw_nonzero().get() as u64
        });
        names.push(name.join().unwrap());
    }
    let mut windows = Vec::new();
    recorder.drain(|tape, event| {
        assert!(tape < TAPES);
        let event = event.expect("nothing is lost");
        if event.kind == Kind::Window {
            windows.push(event.value);
        }
    });
    names.iter().for_each(|name| assert!(windows.contains(name), "{name} is missing"));
}

#[test]
fn a_second_recorder_is_refused_as_long_as_there_is_one() {
    let (_alone, recorder, _) = alone();
    let process = std::process::id();
    assert!(matches!(Recorder::open(process), Err(Refusal::Recorded(its)) if its == process));
    drop(recorder);
    assert!(Recorder::open(process).is_ok());
}

#[test]
fn a_recorder_that_is_dropped_records_no_more() {
    let (_alone, mut recorder, class) = alone();
    recorder.record();
    drop(recorder);
    let recorder = Recorder::open(std::process::id()).expect("its segment");
    drained(&recorder);
    section(class, 0x20);
    assert!(drained(&recorder).is_empty());
}

/// A wait without an end, and a hold, were nothing.
#[test]
fn what_threads_are_at_when_recording_stops_is_told() {
    let (_alone, mut recorder, class) = alone();
    let own = u64::from(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
    let of_this = |standing: Vec<Standing>| {
        let found = standing.into_iter().find(|one| u64::from(one.thread) == own).expect("this thread");
        (found.told, found.waits, found.holds)
    };
    segment::acquired(Caller::new(class, 1).shared(), 0x20);
    let before = Linux::now();
    let waiting = segment::contended(class, 0x30).with_deadline();
    recorder.record();
    let (told, waits, holds) = of_this(recorder.pause());
    let (lock, since, has_deadline) = waits.expect("it waits");
    assert!((before..=recorder.since()).contains(&since) && has_deadline && told == Told::Nothing);
    assert_eq!(holds, [Noted { lock: 0x20, class: lock.class, is_shared: true }]);
    assert_eq!((lock.lock, lock.is_shared), (0x30, false));
    assert_eq!(recorder.class(lock.class).expect("it is told").name, "the one");
    assert!(recorder.pause().is_empty(), "it was not recorded");
    recorder.record();
    waiting.got();
    let (told, waits, holds) = of_this(recorder.pause());
    assert_eq!((told, waits, holds.len()), (Told::Whole, None, 2));
    segment::released(0x30);
    segment::released(0x20);
}
