//! Programs with a planted lock problem, under `lockyard stat`: the first sentence names it.
//!
//! No test asserts a time or a rate.

mod compared;
mod entries;
#[path = "../preloaded/mod.rs"]
mod preloaded;
mod processes;
mod shards;
mod signalled;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use preloaded::{library, source};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The program, linked in the usual way or with `flag`.
fn program(flag: &str) -> PathBuf {
    preloaded::program("planted", flag)
}

/// `function (planted.c:LINE)` of the line with this mark.
fn place(function: &str, mark: &str) -> String {
    place_in("planted", function, mark)
}

/// The same in `program`.
fn place_in(program: &str, function: &str, mark: &str) -> String {
    let source = fs::read_to_string(source(program)).expect("the source");
    let at = source.lines().position(|line| line.ends_with(&format!("// MARK {mark}"))).expect("the mark");
    format!("{function} ({program}.c:{})", at + 1)
}

fn stat(options: &[&str], program: &Path, what: &str) -> Command {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.arg("stat").args(options).arg("--").arg(program).arg(what);
    command.env("LOCKYARD_PRELOAD", library()).env_remove("COLUMNS");
    command
}

/// The report on the program that does `what`, the first line of which must hold all `parts`; on
/// liblockyard's locks as well.
#[track_caller]
fn told(what: &str, parts: &[String]) -> String {
    told_by("planted", what, parts)
}

#[track_caller]
fn told_by(program: &str, what: &str, parts: &[String]) -> String {
    told_of(&preloaded::linked(program), what, parts);
    told_of(&preloaded::program(program, ""), what, parts)
}

#[track_caller]
fn told_of(program: &Path, what: &str, parts: &[String]) -> String {
    let Output { status, stdout, stderr } = stat(&[], program, what).output().expect("the binary runs");
    let report = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.success() && stdout == b"done\n", "{status}: {report}");
    let sentence = report.lines().next().expect("a line");
    for part in parts {
        assert!(sentence.contains(part.as_str()), "{part}: {report}");
    }
    report
}

#[test]
fn a_long_hold_in_one_thread_of_sixteen_is_named() {
    let holder = place("flusher", "flusher");
    told(
        "hold",
        &[
            "Locks cost this program ".to_owned(),
            " for mutex of ".to_owned(),
            format!("asked for in {}", place("quick", "quick")),
            format!("held from {holder} for "),
            " by thread ".to_owned(),
            "\"flusher\"".to_owned(),
            "Do the slow work there outside of the lock".to_owned(),
        ],
    );
}

/// The thread that waits for the long hold came during a short one, and sleeps.
#[test]
fn a_long_hold_of_a_lock_that_was_taken_past_sleepers_is_named() {
    let holder = format!("held from {} for ", place("retaker", "retaken"));
    told("retaken", &["Locks cost this program ".to_owned(), holder]);
}

#[test]
fn a_convoy_is_named() {
    let report = told(
        "convoy",
        &[
            "Locks cost this program ".to_owned(),
            format!("asked for in {}", place("convoy", "convoy")),
            "the program goes no faster than that section".to_owned(),
        ],
    );
    assert!(report.contains("time lost") && report.contains("max hold"), "{report}");
}

/// Spinlocks were not counted: locks were said not to be this program's problem.
#[test]
fn a_contended_spinlock_is_named() {
    let parts = [
        "Locks cost this program ".to_owned(),
        "spinlock".to_owned(),
        format!("asked for in {}", place("stepper", "stepper")),
        format!("held from {} for ", place("strider", "strider")),
    ];
    let report = told("spins", &parts);
    assert!(report.contains(&format!("spinlock of {}", place("main", "cursor"))), "{report}");
}

/// The lock around it was blamed, whose holders do nothing but wait.
#[test]
fn the_lock_that_holders_of_another_wait_for_is_named() {
    let parts = [
        "Locks cost this program ".to_owned(),
        format!("asked for in {}", place("visitor", "visitor")),
        // It is named after the first place: a visitor's or the cashier's.
        "Its holders wait meanwhile for mutex of ".to_owned(),
        format!(
            " in {}, which is held from {}: look at that lock first.",
            place("visitor", "inner"),
            place("cashier", "cashier")
        ),
    ];
    told("nested", &parts);
}

/// The waits of holders that nobody waited for were taken for the cause.
#[test]
fn what_holders_wait_for_while_nobody_waits_for_them_is_no_cause() {
    let held = format!("held from {} for ", place("guard", "guard"));
    let report = told("late", &["Locks cost this program ".to_owned(), held]);
    assert!(!report.contains("Its holders wait"), "{report}");
}

#[test]
fn starving_readers_are_named() {
    let parts = [
        "Locks cost this program ".to_owned(),
        "of that for rw".to_owned(),
        format!("asked for in {}", place("reader", "reader")),
        format!("held from {} for ", place("writer", "writer")),
        "Readers starve behind that writer".to_owned(),
    ];
    told("readers", &parts);
}

#[test]
fn a_program_without_contention_is_told_so() {
    told("quiet", &["Locks are not this program's problem: ".to_owned(), " of 400,00".to_owned()]);
}

/// Locks that are not seen, among few that are: the GIL of Python is such a lock.
#[test]
fn waits_elsewhere_are_told_beside_the_locks_that_were_seen() {
    let beside = " % of its threads' time in other futex calls: condition variables";
    // On a busy machine the locks that are seen may cost something, too.
    told("interpreter", &[" Beside them: ".to_owned(), beside.to_owned()]);
}

/// Its waits end with it: they were counted until the end of the session.
#[test]
fn a_child_that_was_killed_waits_no_longer() {
    let output = stat(&["--json"], &program(""), "killed").output().expect("the binary runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let json = text.lines().next_back().expect("a line");
    let document: serde_json::Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"));
    let [lost, seconds] = ["lost_seconds", "seconds"].map(|key| document[key].as_f64().expect(key));
    // Two threads to the end would have lost nearly twice that time.
    assert!(lost > 0.0 && lost < seconds, "{text}");
    assert_eq!(text.lines().count(), 1, "not told as a deadlock that lasts: {text}");
}

#[test]
fn a_static_program_is_not_told_that_all_is_well() {
    let output = stat(&[], &program("-static"), "hold").output().expect("the binary runs");
    let line = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    let reason = "saw no lock of this process (0 threads registered): ";
    assert!(line.contains(reason) && line.contains("is linked statically"), "{line}");
}

const RUST_ROLE: &str = "LOCKYARD_TEST_RUST";

/// Not a test of its own: threads that meet at one of std's mutexes.
#[test]
fn rust_role() {
    if std::env::var_os(RUST_ROLE).is_none() {
        return;
    }
    let sum = Mutex::new(0u64);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let mut sum = sum.lock().expect("no thread panics");
                    (0..50).for_each(|number| *sum = std::hint::black_box(*sum + number));
                }
            });
        }
    });
    assert_eq!(*sum.lock().expect("no thread panics"), 8 * 20_000 * 1_225);
}

#[test]
fn a_program_on_locks_of_rusts_std_is_not_told_that_all_is_well() {
    let this = std::env::current_exe().expect("this program is a file");
    let mut command = stat(&[], &this, "rust_role");
    let output = command.arg("--exact").env(RUST_ROLE, "1").output().expect("the binary runs");
    let line = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    let reason = "saw no lock of this process (0 threads registered): ";
    assert!(line.contains(reason) && line.contains("is a Rust program"), "{line}");
}

/// Threads compute, and so wait for each other at the global lock; where there is a Python.
#[test]
fn a_python_program_is_told_of_its_global_lock() {
    const COMPUTE: &str = "import threading\n\
        def compute(): sum(i * i for i in range(300000))\n\
        threads = [threading.Thread(target=compute) for _ in range(4)]\n\
        [thread.start() for thread in threads]; [thread.join() for thread in threads]";
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let Ok(Output { status, stdout, .. }) = found else { return };
    if !status.success() {
        return;
    }
    let python = PathBuf::from(String::from_utf8(stdout).expect("UTF-8").trim_end());
    let output = stat(&[], &python, "-c").arg(COMPUTE).output().expect("the binary runs");
    let report = String::from_utf8(output.stderr).expect("UTF-8");
    let sentence = report.lines().next().expect("a line");
    let all_clear = sentence.starts_with("Locks are not this program's problem");
    assert!(output.status.success() && !all_clear && sentence.contains("is a Python interpreter"), "{report}");
}

/// It never ends: the deadlock is told while it lasts, and once more when both are stopped.
#[test]
fn a_deadlock_is_named() {
    let forth = ["forth first", "forth second"].map(|mark| place("forth", mark));
    let back = ["back first", "back second"].map(|mark| place("back", mark));
    deadlock_of(&program(""), &forth, &back);
    deadlock_of(&preloaded::linked("planted"), &forth, &back);
}

/// The program that does "deadlock" is told so: two threads hold their first lock and wait for the
/// second one, in these places.
#[track_caller]
fn deadlock_of(program: &Path, one: &[String; 2], other: &[String; 2]) {
    let mut child = stat(&[], program, "deadlock").stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let (line, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        let (mut early, mut late) = (String::new(), String::new());
        stderr.read_line(&mut early).expect("a line");
        // Nobody listens any more if it came too late.
        let _ = line.send(early);
        stderr.read_to_string(&mut late).expect("text");
        late
    });
    let early = lines.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
    // The command stops the program.
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it is there");
    let late = reader.join().expect("text");
    child.wait().expect("it ends");
    for (what, sentence) in [("early", early.as_str()), ("late", late.lines().next().unwrap_or_default())] {
        let parts = [
            "Deadlock: thread ".to_owned(),
            format!("waits in {} for mutex of ", one[1]),
            format!("holds since {}", other[0]),
            format!("waits in {} for mutex of ", other[1]),
            format!("holds since {}", one[0]),
            "in the same order everywhere".to_owned(),
        ];
        for part in parts {
            assert!(sentence.contains(&part), "{what}, {part}: {sentence}\n{late}");
        }
    }
}

/// `--stacks` shows the calls that lead to the lock, of both.
#[test]
fn the_stacks_of_a_deadlock_are_shown() {
    let mut program = Command::new(cargo_bin!("lockyard"))
        .arg("run")
        .arg(program(""))
        .arg("deadlock")
        .env("LOCKYARD_PRELOAD", library())
        .spawn()
        .expect("the binary runs");
    let id = program.id().to_string();
    let begun = Instant::now();
    let report = loop {
        let output = Command::new(cargo_bin!("lockyard")).args(["stat", "--stacks", "--pid", &id]).output();
        let Output { stdout, stderr, .. } = output.expect("the binary runs");
        let report = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        // Before that they have not met, or have not been told apart from others that wait.
        if report.starts_with("Deadlock") || begun.elapsed() > Duration::from_secs(60) {
            break report;
        }
    };
    program.kill().expect("it is there");
    program.wait().expect("it ends");
    let stacks: Vec<&str> = report.split("  Stack of thread ").skip(1).collect();
    let first = |stack: &str| stack.lines().nth(1).unwrap_or_default().trim().to_owned();
    let mut calls: Vec<String> = stacks.iter().map(|stack| first(stack)).collect();
    calls.sort();
    assert_eq!(calls, [place("back", "back second"), place("forth", "forth second")], "{report}");
}

/// One of the two gives up, and the other goes on.
#[test]
fn a_circle_that_a_deadline_ends_is_no_deadlock() {
    let place = place("back_in_time", "back in time");
    // Both wait for as long: the sentence may name either.
    let report = told("circle", &["Locks cost this program ".to_owned()]);
    assert!(report.contains(&format!("waited in {place}")) && !report.contains("Deadlock"), "{report}");
}

/// Root, and the user that the process has become, can look; its name goes when it ends.
#[test]
fn a_daemon_that_drops_its_privileges_is_seen() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root's programs can become others'");
    }
    let mut daemon = Command::new(cargo_bin!("lockyard"));
    daemon.arg("run").arg(program("")).arg("daemon").env("LOCKYARD_PRELOAD", library());
    let mut daemon = daemon.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut line = String::new();
    BufReader::new(daemon.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let name = format!("/dev/shm/lockyard.{}", daemon.id());
    assert_eq!(fs::metadata(&name).expect("its segment").uid(), 65534);
    let mut look = Command::new(cargo_bin!("lockyard"));
    look.args(["stat", "--pid", &daemon.id().to_string()]);
    for user in [0, 65534] {
        // The command may lie where others than root cannot go: then only root is asked.
        let output = match look.uid(user).output() {
            Err(_) if user != 0 => continue,
            output => output.expect("the binary runs"),
        };
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(report.starts_with("Locks are not this program's problem"), "{user}: {output:?}");
    }
    drop(daemon.stdin.take());
    assert!(daemon.wait().expect("it ends").success());
    assert!(!Path::new(&name).exists());
}

/// What was found is in JSON as well, with the source lines.
#[test]
fn programs_are_told_the_same() {
    let output = stat(&["--json"], &program(""), "hold").output().expect("the binary runs");
    let document: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert!(document["verdict"].as_str().is_some_and(|verdict| verdict.contains("\"flusher\"")), "{document}");
    assert!(document["lost_share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)));
    let callers = document["classes"][0]["callers"].as_array().expect("a list");
    let held = callers.iter().find(|caller| caller["function"] == "flusher").expect("the holder");
    assert!(held["holder_name"] == "flusher" && held["line"].as_u64() > Some(0), "{held}");
}
