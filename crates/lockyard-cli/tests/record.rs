//! Programs under `lockyard record`: what the recording says is what they did.

mod preloaded;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use lockyard_recording::Recording;
use lockyard_recording::model::Kind;
use lockyard_recording::recording::{Mode, Sort, What};
use lockyard_segment::Reader;
use rustix::process::{Pid, Signal, kill_process};

use preloaded::{library, linked, program};

/// As the program has it.
const THREADS: usize = 4;
const ROUNDS: usize = 1000;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.lyr", std::process::id()))
}

fn record(options: &[&str], out: &Path, what: &str) -> Command {
    record_program(options, out, "recorded", what)
}

fn record_program(options: &[&str], out: &Path, name: &str, what: &str) -> Command {
    record_of(options, out, &program(name, ""), what)
}

fn record_of(options: &[&str], out: &Path, program: &Path, what: &str) -> Command {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.arg("record").args(options).arg("--out").arg(out).arg("--").arg(program).arg(what);
    command.env("LOCKYARD_PRELOAD", library());
    command
}

/// The recording of the program that does `what`.
#[track_caller]
fn recorded(what: &str) -> Recording {
    let out = file(what);
    let Output { status, stdout, stderr } = record(&[], &out, what).output().expect("the binary runs");
    let said = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.code() == Some(3) && stdout == b"done\n", "{status}: {said}");
    assert!(said.contains(&format!("wrote {}: ", out.display())), "{said}");
    let bytes = std::fs::read(&out).expect("a file");
    let (recording, damage) = Recording::from_bytes("a", &bytes).expect("a recording");
    assert_eq!(damage, None);
    // On a busy machine nobody reads a ring in time: all that the program does fits into one.
    assert_eq!(recording.dropped, 0, "{said}");
    std::fs::remove_file(out).expect("it is there");
    recording
}

/// How often locks of this kind were asked for, and given back.
fn counts(recording: &Recording, kind: Kind, mode: Mode) -> [usize; 2] {
    let is = |lock: u32| recording.classes[recording.locks[lock as usize] as usize].sort == Sort::Lock(kind);
    let events = || recording.windows.iter().flat_map(|window| &window.events).filter(|event| is(event.lock));
    let asked = events().filter(|event| event.what == What::Request(mode)).count();
    [asked, events().filter(|event| event.what == What::Release).count()]
}

#[test]
fn every_section_of_every_thread_is_recorded_with_its_place() {
    let recording = recorded("plain");
    let all = THREADS * ROUNDS;
    assert_eq!(recording.dropped, 0);
    assert_eq!(counts(&recording, Kind::Mutex, Mode::Write), [all, all]);
    assert_eq!(counts(&recording, Kind::RwLock, Mode::Read), [all * 9 / 10, all]);
    assert_eq!(counts(&recording, Kind::RwLock, Mode::Write), [all / 10, all]);
    assert_eq!(counts(&recording, Kind::Spin, Mode::Write), [all, all]);
    let mut threads: Vec<u32> = recording.windows.iter().map(|window| window.thread).collect();
    threads.dedup();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), THREADS);
    let source = std::fs::read_to_string(preloaded::source("recorded")).expect("the source");
    for (function, mark) in [("work", "hot"), ("main", "cursor")] {
        let mark = format!("// MARK {mark}");
        let line = source.lines().position(|line| line.ends_with(&mark)).expect("the mark") + 1;
        let name = format!("{function} (recorded.c:{line})");
        assert!(recording.classes.iter().any(|class| class.name == name), "{name}: {:?}", recording.classes);
    }
}

/// Each thread had given the lock a class of its own, and a lock whose class changes is another.
#[test]
fn a_lock_that_threads_take_first_at_once_is_one() {
    let recording = recorded("at once");
    assert_eq!(counts(&recording, Kind::Mutex, Mode::Write), [64 * THREADS; 2]);
    assert_eq!(recording.locks.len(), 64);
}

#[test]
fn threads_that_come_and_go_and_a_child_of_fork_are_recorded() {
    let all = 200 * 20;
    assert_eq!(counts(&recorded("many"), Kind::Mutex, Mode::Write), [all, all]);
    let all = 2 * THREADS * ROUNDS + 1;
    assert_eq!(counts(&recorded("fork"), Kind::Mutex, Mode::Write), [all, all]);
}

/// What `tests/programs/signals.c` does, and what it said.
#[track_caller]
fn signals(what: &str) -> (Recording, String) {
    signals_of(&program("signals", ""), what)
}

#[track_caller]
fn signals_of(program: &Path, what: &str) -> (Recording, String) {
    let out = file(&what.replace(' ', "-"));
    let Output { status, stdout, stderr } = record_of(&[], &out, program, what).output().expect("the binary runs");
    assert!(status.code() == Some(3), "{status}: {}", String::from_utf8_lossy(&stderr));
    let recording = Recording::from_bytes("a", &std::fs::read(&out).expect("a file")).expect("a recording").0;
    std::fs::remove_file(out).expect("it is there");
    assert_eq!(recording.dropped, 0);
    (recording, String::from_utf8(stdout).expect("UTF-8"))
}

/// How often `what` happened to objects of this sort.
fn count(recording: &Recording, sort: Sort, what: What) -> usize {
    let is = |lock: u32| recording.classes[recording.locks[lock as usize] as usize].sort == sort;
    let events = recording.windows.iter().flat_map(|window| &window.events);
    events.filter(|event| event.what == what && is(event.lock)).count()
}

/// The names of the classes of this sort are places of lines with these marks.
#[track_caller]
fn named(recording: &Recording, sort: Sort, marks: &[&str]) {
    let source = std::fs::read_to_string(preloaded::source("signals")).expect("the source");
    let of = recording.classes.iter().filter(|class| class.sort == sort).map(|class| class.name.as_str());
    let found: Vec<&str> = of.collect();
    for mark in marks {
        let is = |(line, name): (usize, &&str)| name.contains(&format!("(signals.c:{})", line + 1));
        let lines = source.lines().enumerate().filter(|(_, text)| text.contains(mark));
        let mut lines = lines.map(|(line, _)| line);
        assert!(lines.any(|line| found.iter().any(|name| is((line, name)))), "{mark}: {found:?}");
    }
    assert_eq!(found.len(), marks.len(), "{found:?}");
}

#[test]
fn waits_at_condition_variables_and_their_signals_are_recorded() {
    let conditions = ["conditions", "shared conditions"].map(|what| (what, signals(what)));
    // Those of liblockyard were not.
    let linked = ("linked conditions", signals_of(&linked("signals"), "linked conditions"));
    for (what, (recording, said)) in conditions.into_iter().chain([linked]) {
        let count = |what| count(&recording, Sort::Condition, what);
        let said: Vec<usize> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!([count(What::Wait), count(What::Signal)], said[..], "{what}");
        assert_eq!([count(What::Woken) + 1, count(What::GaveUp)], [said[0], 1], "{what}");
        assert!(count(What::Broadcast) > 0, "{what}");
        if what == "linked conditions" {
            assert_eq!(recording.classes.iter().filter(|class| class.sort == Sort::Condition).count(), 2);
        }
        if what == "conditions" {
            named(&recording, Sort::Condition, &["MARK filled", " emptied"]);
        }
        for window in &recording.windows {
            let of = |event: &&lockyard_recording::recording::Event| {
                !matches!(event.what, What::Release | What::Off(_) | What::Preempted(_))
            };
            let mut events = window.events.iter().filter(of).peekable();
            while let Some(event) = events.next() {
                let next = events.peek().filter(|next| next.lock == event.lock).map(|next| next.what);
                let is_end = matches!(next, Some(What::Woken | What::GaveUp));
                assert!(is_end == (event.what == What::Wait), "{what}: {event:?}, {next:?}");
            }
        }
    }
}

#[test]
fn units_of_semaphores_are_recorded_where_they_are_added_and_taken() {
    // What `main` does itself comes on top.
    let all = THREADS / 2 * 500 * 2;
    for what in ["semaphores", "shared semaphores"] {
        let (recording, _) = signals(what);
        let count = |what| count(&recording, Sort::Semaphore, what);
        assert_eq!([count(What::Signal), count(What::Wait), count(What::GaveUp)], [all + 1, all + 3, 1], "{what}");
        assert_eq!(count(What::Failed(Mode::Write)), 1, "a try in vain, {what}");
        named(&recording, Sort::Semaphore, &["MARK full", "MARK empty"]);
    }
}

#[test]
fn a_full_disk_is_told_and_the_program_does_not_notice() {
    let Output { status, stdout, stderr } = record(&[], Path::new("/dev/full"), "plain").output().unwrap();
    let said = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.code() == Some(1) && stdout == b"done\n", "{status}: {said}");
    assert!(said.contains("cannot write all of '/dev/full': no space left on device"), "{said}");
}

#[test]
fn a_program_goes_on_whose_recorder_is_killed() {
    let out = file("killed");
    let mut command = record(&[], &out, "wait");
    let mut recorder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(recorder.stdout.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a pipe");
    assert_eq!(line, "ready\n");
    let mut told = recorder.stdin.take().expect("a pipe");
    recorder.kill().expect("it runs");
    recorder.wait().expect("it ends");
    told.write_all(b"go on\n").expect("the program listens");
    line.clear();
    said.read_line(&mut line).expect("a pipe");
    assert_eq!(line, "done\n");
    assert!(!out.exists(), "half a file is none");
}

/// Signals the recorder of a program that waits: what is in the file's folder afterwards.
fn interrupted(name: &str, signal: Signal, again: bool) -> Vec<String> {
    let folder = file(name).with_extension("");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut command = record(&[], &folder.join("a.lyr"), "wait");
    let mut recorder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(recorder.stdout.take().expect("a pipe")).read_line(&mut line).expect("a pipe");
    assert_eq!(line, "ready\n");
    let process = Pid::from_child(&recorder);
    kill_process(process, signal).expect("it runs");
    while again && recorder.try_wait().expect("a child").is_none() {
        kill_process(process, signal).expect("not waited for so far");
    }
    // The program waits for the end of its input.
    drop(recorder.stdin.take());
    recorder.wait().expect("it ends");
    let names = std::fs::read_dir(&folder).expect("a folder");
    let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    std::fs::remove_dir_all(&folder).expect("it is there");
    names
}

#[test]
fn a_closed_terminal_keeps_what_was_recorded_and_a_second_interrupt_leaves_nothing_behind() {
    assert_eq!(interrupted("hung-up", Signal::HUP, false), ["a.lyr"]);
    assert_eq!(interrupted("twice", Signal::INT, true), [""; 0]);
}

/// Waits until a thread of a program waits for a lock; `readers`: those of its segments.
fn until_it_waits(readers: impl Fn() -> Vec<Reader>) -> u32 {
    loop {
        let stuck = readers().into_iter().find(|reader| !reader.sample().waiters.is_empty());
        match stuck {
            Some(reader) => return reader.process(),
            None => std::thread::yield_now(),
        }
    }
}

#[track_caller]
fn says_deadlock(out: &Path) {
    let recording = Recording::from_bytes("a", &std::fs::read(out).expect("a file")).expect("a recording").0;
    let at_end = recording.summary().at_end;
    assert_eq!((at_end.waits.len(), at_end.circle.len()), (1, 1), "{}", recording.to_text());
    let mut report = Command::new(cargo_bin!("lockyard"));
    let Output { stdout, .. } = report.args(["report", "--machine", "clx_2s_48c"]).arg(out).output().expect("it runs");
    let said = String::from_utf8(stdout).expect("UTF-8");
    assert!(said.starts_with("Deadlock: ") && said.contains("which it holds itself"), "{said}");
    std::fs::remove_file(out).expect("it is there");
}

/// It was said to have no problem with its locks.
#[test]
fn a_deadlock_is_in_the_recording_of_the_program() {
    let out = file("stuck");
    let mut recorder = record(&[], &out, "stuck").stderr(Stdio::piped()).spawn().expect("it starts");
    until_it_waits(|| Reader::of_session(recorder.id()));
    kill_process(Pid::from_child(&recorder), Signal::TERM).expect("it runs");
    recorder.wait().expect("it ends");
    says_deadlock(&out);
}

/// It was said to have taken no lock, and to need work.
#[test]
fn a_process_that_is_stuck_is_recorded_as_it_stands() {
    let out = file("stands");
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["run", "--"]).arg(program("recorded", "")).arg("stuck").env("LOCKYARD_PRELOAD", library());
    let mut stuck = command.spawn().expect("it starts");
    let process = until_it_waits(|| Reader::open(stuck.id()).into_iter().collect());
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["record", "--time", "10ms", "--pid", &process.to_string(), "--out"]).arg(&out);
    let Output { status, stderr, .. } = command.output().expect("it runs");
    stuck.kill().expect("it runs");
    stuck.wait().expect("it ends");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    says_deadlock(&out);
}

/// Threads without a lock call meanwhile were not in the recording, nor what they held.
#[test]
fn a_thread_that_is_quiet_is_recorded_with_what_it_holds() {
    let out = file("quiet");
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["run", "--"]).arg(program("recorded", "")).arg("holds").env("LOCKYARD_PRELOAD", library());
    let mut quiet = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(quiet.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a pipe");
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["record", "--time", "10ms", "--pid", &quiet.id().to_string(), "--out"]).arg(&out);
    let Output { status, stderr, .. } = command.output().expect("it runs");
    drop(quiet.stdin.take());
    quiet.wait().expect("it ends");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let recording = Recording::from_bytes("a", &std::fs::read(&out).expect("a file")).expect("a recording").0;
    let summary = recording.summary();
    let held: Vec<u64> = summary.classes.iter().map(|class| class.held_ns).collect();
    assert_eq!((summary.threads, held), (1, vec![summary.recorded_ns]), "{}", recording.to_text());
    std::fs::remove_file(out).expect("it is there");
}

/// It was recorded, nobody read its rings, and it was said that windows ended early.
#[test]
fn what_begins_after_the_end_is_not_recorded() {
    let out = file("later");
    let mut command = record_of(&["--time", "500ms"], &out, Path::new("/bin/sh"), "-c");
    command.arg("\"$0\" wait; \"$0\" long").arg(program("recorded", ""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = command.spawn().expect("it starts");
    let mut said = BufReader::new(recorder.stdout.take().expect("a pipe"));
    let mut tell = recorder.stdin.take().expect("a pipe");
    for expected in ["ready\n", "done\n", "ready\n", "done\n"] {
        let mut line = String::new();
        said.read_line(&mut line).expect("a pipe");
        assert_eq!(line, expected);
        if line == "ready\n" {
            let is_recorded = |session| Reader::of_session(session).iter().any(Reader::is_recorded);
            while is_recorded(recorder.id()) {
                std::thread::yield_now();
            }
            tell.write_all(b"\n").expect("the program listens");
        }
    }
    let Output { stderr, .. } = recorder.wait_with_output().expect("it ends");
    let said = String::from_utf8(stderr).expect("UTF-8");
    assert!(said.contains("wrote ") && !said.contains("ended early"), "{said}");
    std::fs::remove_file(out).expect("it is there");
}

#[test]
fn a_program_that_outlives_a_signal_is_named() {
    for (what, signal, code) in [("wait", Signal::INT, 130), ("deaf", Signal::TERM, 143)] {
        let out = file(&format!("outlives-{code}"));
        let mut command = record(&[], &out, what);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut recorder = command.spawn().expect("it starts");
        let mut line = String::new();
        let mut said = BufReader::new(recorder.stdout.take().expect("a pipe"));
        said.read_line(&mut line).expect("a pipe");
        assert_eq!(line, "ready\n");
        kill_process(Pid::from_child(&recorder), signal).expect("it runs");
        let mut told = String::new();
        // The program has the other end as well: up to the line that is wanted.
        let mut lines = BufReader::new(recorder.stderr.take().expect("a pipe"));
        while !told.contains("still runs") && lines.read_line(&mut told).expect("a pipe") > 0 {}
        assert!(told.contains("the program, process "), "{told}");
        assert_eq!(recorder.wait().expect("it ends").code(), Some(code), "{told}");
        drop(recorder.stdin.take());
        std::fs::remove_file(out).expect("it is there");
    }
}

#[test]
fn a_program_that_takes_no_lock_is_told_and_no_file_is_written() {
    let out = file("nothing");
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["record", "--out"]).arg(&out).args(["--", "/bin/true"]).env("LOCKYARD_PRELOAD", library());
    let Output { status, stderr, .. } = command.output().expect("the binary runs");
    let said = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.code() == Some(1) && said.contains("saw no lock of this process") && !out.exists(), "{said}");
}
