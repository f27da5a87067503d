//! Locks of children of fork, and of the program that a process was before exec; a holder that is
//! gone with its program.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use super::{place_in, preloaded, program, stat, told_of};

fn at(function: &str, mark: &str) -> String {
    place_in("processes", function, mark)
}

#[track_caller]
fn told(what: &str, parts: &[String]) -> String {
    told_of(&preloaded::program("processes", ""), what, parts)
}

/// What the child held before its first wait was not known: "No thread is seen to hold it".
#[test]
fn a_deadlock_in_the_child_of_a_fork_is_named() {
    let parts = ["Deadlock: thread ".to_owned(), at("forth", "forth second"), at("back", "back second")];
    let report = told("killed", &parts);
    for mark in ["forth", "back"] {
        let since = format!("holds since {}", at(mark, &format!("{mark} first")));
        assert!(report.contains(&since), "{since}: {report}");
    }
}

/// Neither the thread nor the line was known.
#[test]
fn a_long_hold_in_the_child_of_a_fork_is_named() {
    let held = format!("held from {} for ", at("holder", "holder"));
    let asked = format!("asked for in {}", at("asker", "asker"));
    told("hold", &["Locks cost this program ".to_owned(), asked, held, "\"kidhog\"".to_owned()]);
}

/// It was said to have taken no lock.
#[test]
fn acquisitions_in_the_child_of_a_fork_are_counted_without_a_wait() {
    told("calm child", &["problem: its threads waited ".to_owned(), " of 2,000 acquisitions".to_owned()]);
}

/// Locks were not the program's problem, and no word of the child.
#[test]
fn a_child_that_can_open_no_statistics_is_told_of() {
    let not_all = |what: &str, why: &str| {
        let begin = format!("Not all: a child of a fork could not make its statistics: {why}");
        told(what, &[begin, "The locks that were seen are not this program's problem".to_owned()]);
    };
    not_all("no files", "Too many open files");
    not_all("sandbox", "it had shut itself in a sandbox");
}

/// What it had counted was thrown away: locks were "not this program's problem".
#[test]
fn waits_before_exec_are_counted() {
    let cost = |what: &str| {
        let asked = format!("asked for in {}", at("before", "before"));
        let held = format!("held from {} for ", at("before", "before"));
        told(what, &["Locks cost this program ".to_owned(), asked, held])
    };
    let report = cost("becomes calm");
    assert!(report.contains("mutex of calm"), "what it took afterwards is counted as well: {report}");
    // It was said to have taken no lock.
    cost("becomes nothing");
}

/// They were thrown away where the next program may make no file as long.
#[test]
fn waits_before_exec_are_counted_though_the_next_program_can_tell_nothing() {
    let parts =
        ["Not all: process ", " could not make its statistics: ", "Locks cost this program "].map(str::to_owned);
    let report = told("becomes limited", &parts);
    assert!(report.contains(&format!("asked for in {}", at("before", "before"))), "{report}");
}

/// Threads of the program before were told to wait for each other while the next one ran.
#[test]
fn a_deadlock_before_exec_is_over() {
    let report = told("gets out", &[]);
    assert!(!report.contains("Deadlock"), "{report}");
}

/// They were said to wait for each other as long as the program ran that tells nothing.
#[test]
fn a_deadlock_before_exec_of_a_program_that_tells_nothing_is_over() {
    let report = told("gets out quietly", &["Locks cost this program ".to_owned()]);
    assert!(!report.contains("Deadlock"), "{report}");
}

/// It had only a number: it has never waited, and the kernel's note of its name was gone.
#[test]
fn a_thread_that_holds_a_lock_to_the_end_is_named() {
    told("stuck", &["\"stuck\" held it since ".to_owned(), "1 thread waited to the end".to_owned()]);
}

/// The words that run `program` as process 1 of a namespace.
fn apart(program: &str) -> String {
    format!("unshare --fork --pid {program}")
}

fn may_be_apart() -> bool {
    Command::new("sh").args(["-c", &apart("true")]).output().is_ok_and(|run| run.status.success())
}

/// Two namespaces of processes that share `/dev/shm`: both programs are process 1 there. The second
/// removed the statistics of the first: locks were not this program's problem.
#[test]
fn a_process_of_another_namespace_with_the_same_number_is_counted() {
    if !may_be_apart() {
        return eprintln!("skipped: no namespace may be made here");
    }
    let planted = preloaded::program("planted", "");
    let [hold, quiet] = ["hold", "quiet"].map(|what| apart(&format!("{} {what}", planted.display())));
    let both = format!("{hold} & {quiet} > /dev/null; wait");
    let output = stat(&[], Path::new("/bin/sh"), "-c").arg(&both).output().expect("the binary runs");
    let report = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{report}");
    let sentence = report.lines().next().unwrap_or_default();
    for part in ["Locks cost this program ", &super::place("flusher", "flusher")] {
        assert!(sentence.contains(part), "{part}: {report}");
    }
    assert!(report.contains("mutex of alone"), "and what the other one took: {report}");
}

/// What came after the last whole interval was not told, and the total looked like one more.
#[test]
fn the_last_part_is_told_and_the_total_is_told_apart() {
    let output = stat(&["--json", "--interval", "100ms"], &program(""), "hold").output().expect("the binary runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}")));
    let lines: Vec<serde_json::Value> = lines.collect();
    let (total, parts) = lines.split_last().expect("a line");
    assert!(total["interval"] == false && parts.iter().all(|part| part["interval"] == true), "{text}");
    let seconds = |line: &serde_json::Value| line["seconds"].as_f64().expect("a number");
    assert!((parts.iter().map(seconds).sum::<f64>() - seconds(total)).abs() < 0.001, "{text}");
}

/// Its statistics were removed by a process with its number that could make none, or not found once
/// one that had taken their name had ended.
#[test]
fn a_process_that_made_way_for_one_of_another_namespace_is_found() {
    if !may_be_apart() {
        return eprintln!("skipped: no namespace may be made here");
    }
    let run = |script: &str| {
        let mut command = Command::new(cargo_bin!("lockyard"));
        command.args(["run", "--", "sh", "-c", script]).env("LOCKYARD_PRELOAD", preloaded::library());
        command
    };
    let program = |name: &str, what: &str| apart(&format!("{} {what}", preloaded::program(name, "").display()));
    let mut first = run(&format!("exec {}", program("recorded", "holds")));
    let mut first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(first.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    let id = first.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("unshare runs");
    let process = children.split_whitespace().next().expect("its child");
    let quiet = program("planted", "quiet");
    for other in [format!("ulimit -v 700000; {quiet}"), quiet] {
        let ended = run(&other).stdout(Stdio::null()).status().expect("it runs");
        assert!(ended.success(), "{other}");
        let output = Command::new(cargo_bin!("lockyard")).args(["stat", "--pid", process]).output();
        let report = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
        assert!(report.contains("mutex of work (recorded.c:"), "{other}: {report}");
    }
    drop(first.stdin.take());
    assert_eq!(first.wait().expect("it ends").code(), Some(3), "its own");
}
