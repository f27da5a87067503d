//! The command as a user meets it: every refusal is one line and exit code 2, every result is
//! whole.
//!
//! No test asserts a time or a rate.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

fn lockyard(arguments: &[&str]) -> Output {
    Command::new(cargo_bin!("lockyard")).args(arguments).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is UTF-8")
}

/// Refused: exit code 2, one line on stderr that contains `part`, nothing on stdout.
#[track_caller]
fn refused(arguments: &[&str], part: &str) {
    is_refusal(&lockyard(arguments), arguments, part);
}

#[track_caller]
fn is_refusal(output: &Output, arguments: &[&str], part: &str) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
    assert!(line.starts_with("lockyard: ") && line.contains(part), "{arguments:?}: {line}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

/// An empty directory of this test's own.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a scratch directory");
    path
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the directory is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn unknown_names_are_refused_with_the_nearest_valid_one() {
    refused(&["bench", "--lock", "mutx"], "unknown lock 'mutx'; did you mean 'mutex'?");
    refused(&["bench", "--peer", "std-mutx"], "unknown peer 'std-mutx'; did you mean 'std-mutex'?");
    refused(&["bench", "--lock", "rwsem", "--policy", "todya"], "unknown policy 'todya'; did you mean 'today'?");
    refused(&["bench", "--workload", "contention"], "unknown workload 'contention'; did you mean 'contend'?");
    refused(&["bench", "--family", "mutexes"], "unknown family 'mutexes'; did you mean 'mutex'?");
    refused(&["bench", "--lock", "std-mutex"], "use --peer std-mutex");
    refused(&["compare", "--family", "banana"], "valid: mutex, spin, rw, semaphore");
    refused(&["bnech"], "'bench'");
    refused(&["list", "lokcs"], "'locks'");
    refused(&["man", "benhc"], "did you mean 'bench'?");
    refused(&["bench", "--treads", "2"], "'--threads'");
}

#[test]
fn impossible_numbers_are_refused() {
    refused(&["bench", "--threads", "0"], "--threads: 0 is out of bounds");
    refused(&["bench", "--threads", "two"], "--threads: 'two' is not a whole number");
    refused(&["bench", "--threads", "8:2:1"], "--threads: the range '8:2:1' is empty");
    refused(&["bench", "--threads", "2:8:0"], "the step of '2:8:0' is zero");
    refused(&["bench", "--threads", ""], "--threads: '' has an empty entry");
    refused(&["bench", "--cs", "-1"], "--cs: '-1' is not a whole number");
    refused(&["bench", "--family", "rw", "--read-pct", "101"], "--read-pct: 101 is out of bounds (0 to 100)");
    refused(&["bench", "--secs", "0"], "--secs: '0' is out of bounds");
    refused(&["bench", "--rounds", "0"], "--rounds: 0 is out of bounds");
    refused(&["bench", "--seed", "x"], "--seed: 'x' is not a whole number");
    refused(&["compare", "--secs-total", "soon"], "--secs-total: 'soon' is not a number");
    refused(&["--secs-total", "0"], "--secs-total: '0' is out of bounds");
    refused(&["bench", "--threads", "1:1000", "--cs", "1:1000"], "more than 20000 cells");
}

#[test]
fn combinations_without_a_meaning_are_refused() {
    refused(&["bench", "--lock", "mutex", "--workload", "starve-readers"], "choose --family rw");
    refused(&["bench", "--lock", "none", "--peer", "none"], "nothing to measure");
    refused(&["bench", "--family", "rw", "--workload", "starve-writers", "--threads", "4"], "--readers and --writers");
    refused(&["bench", "--lock", "mutex", "--readers", "4"], "have no roles");
    refused(&["bench", "--lock", "mutex", "--jobs", "4"], "--jobs: contend has no jobs; only bkl-aim7 has");
    refused(
        &["bench", "--lock", "mutex", "--workload", "bkl-aim7", "--jobs", "0"],
        "--jobs: 0 is out of bounds (1 to 100000)",
    );
    refused(&["bench", "--json", "--csv"], "cannot be used with");
    refused(&["--quick", "--secs-total", "9"], "cannot be used with");
}

#[test]
fn places_that_cannot_be_written_are_refused_before_measuring() {
    let folder = scratch("places");
    let inside = folder.join("missing/result.csv");
    refused(&["bench", "--out", &inside.to_string_lossy()], "no such file or directory");
    refused(&["bench", "--out", &folder.to_string_lossy()], "it is a directory");
    refused(&["compare", "--out-dir", &folder.join("missing").to_string_lossy()], "is not a directory");
    assert!(names(&folder).is_empty());
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn a_machine_with_one_cpu_is_refused_unless_allowed() {
    // A child inherits the affinity of the thread that starts it.
    let on_one_cpu = |arguments: &'static [&'static str]| {
        thread::spawn(move || {
            let allowed = rustix::thread::sched_getaffinity(None).expect("affinity");
            let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
            let mut one = CpuSet::new();
            one.set(first);
            sched_setaffinity(None, &one).expect("one CPU");
            lockyard(arguments)
        })
        .join()
        .expect("no panic")
    };
    for arguments in [&["compare"][..], &["bench"], &[]] {
        let output = on_one_cpu(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(stderr(&output).lines().count(), 1);
        assert!(
            stderr(&output).contains("contended comparisons need 2") && stderr(&output).contains("--allow-one-cpu")
        );
    }
    let tiny = &["bench", "--allow-one-cpu", "--peer", "none", "--secs", "0.01", "--rounds", "1", "--json"];
    assert_eq!(on_one_cpu(tiny).status.code(), Some(0));
    let alone = &["bench", "--workload", "uncontended", "--peer", "none", "--secs", "0.01", "--rounds", "1", "--csv"];
    assert_eq!(on_one_cpu(alone).status.code(), Some(0));
}

#[test]
fn lists_name_what_the_commands_accept() {
    let list = |what: &str| stdout(&lockyard(&["list", what]));
    for lock in ["qspinlock", "mutex", "rwsem", "semaphore"] {
        assert!(list("locks").lines().any(|line| line.split_whitespace().next() == Some(lock)), "{lock}");
    }
    for policy in ["today", "v5.10", "no-rspin", "timed-writer-spin"] {
        assert!(list("policies").lines().any(|line| line.split_whitespace().next() == Some(policy)), "{policy}");
    }
    assert!(list("peers").contains("parking_lot-rwlock") && list("peers").contains("sem_t"));
    assert!(list("workloads").contains("starve-readers") && list("events").contains("rwsem_opt_lock"));
    let all = stdout(&lockyard(&["list"]));
    for head in ["Locks", "Policies", "Peers", "Workloads", "Events"] {
        assert!(all.lines().any(|line| line == head), "{head}");
    }
    assert!(all.lines().all(|line| !line.ends_with(' ')));
}

#[test]
fn every_peer_and_lock_is_described() {
    for what in ["locks", "peers"] {
        for line in stdout(&lockyard(&["list", what])).lines() {
            assert!(line.split_whitespace().count() > 2, "{line}");
        }
    }
}

#[test]
fn help_version_completions_and_manual_pages() {
    let shown = |arguments: &[&str]| {
        let output = lockyard(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}");
        stdout(&output)
    };
    assert!(shown(&["--version"]).starts_with("lockyard "));
    assert!(shown(&["--help"]).contains("Examples:"));
    for command in ["compare", "bench", "run", "stat"] {
        assert!(shown(&[command, "--help"]).contains("Examples:"), "{command}");
    }
    for command in ["list", "completions", "man"] {
        assert!(shown(&[command, "--help"]).contains("Usage:"), "{command}");
    }
    assert!(shown(&["completions", "bash"]).contains("--read-pct"));
    assert!(shown(&["man"]).contains(".TH lockyard 1"));
    assert!(shown(&["man", "bench"]).contains("lockyard\\-bench"));
    assert!(shown(&["completions", "fish"]).contains("stat") && shown(&["man"]).contains("lockyard\\-stat"));
    assert!(shown(&["man", "stat"]).contains("LOCKYARD_HQ_"));
}

/// The arguments of a bench that takes a moment.
const TINY: [&str; 9] = ["bench", "--lock", "mutex", "--peer", "std-mutex", "--secs", "0.02", "--rounds", "1"];

#[test]
fn json_lines_hold_the_record() {
    let output = lockyard(&[&TINY[..], &["--json", "--threads", "2,3", "--cs", "5", "--seed", "9"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    assert_eq!(lines.len(), 4, "two locks, two cells");
    for line in &lines {
        assert_eq!(line["workload"], "contend");
        assert_eq!((&line["cs"], &line["seed"], &line["rounds"]), (&5.into(), &9.into(), &1.into()));
        assert!(line["kops_per_s"].as_f64().expect("a number") > 0.0);
        assert!(line["machine"]["cpus_usable"].as_u64().expect("a number") > 0);
        assert_eq!(line["records"].as_array().expect("records").len(), 1);
        assert_eq!(
            line["records"][0]["counts"].as_array().expect("counts").len() as u64,
            line["threads"].as_u64().unwrap()
        );
        assert_eq!(line["interrupted"], false);
    }
    assert_eq!(lines[0]["lock"], "mutex");
    assert_eq!(lines[0]["origin"], "lockyard");
    assert!(lines[0]["ratio_to_best_peer"].is_number());
    assert_eq!((&lines[1]["lock"], &lines[1]["origin"]), (&"std-mutex".into(), &"peer".into()));
}

#[test]
fn csv_has_a_header_and_a_line_per_lock_and_cell() {
    let output = lockyard(&[&TINY[..], &["--csv", "--threads", "1:3:2"]].concat());
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("family,origin,lock,policy,workload,threads,cs,"));
    assert!(lines[0].contains(",kops_per_s,") && lines[0].contains(",wait_max_ns,"));
    assert_eq!(lines.len(), 5);
    assert!(lines[1].starts_with("mutex,lockyard,mutex,,contend,1,"));
    assert!(lines[4].starts_with("mutex,peer,std-mutex,,contend,3,"));
}

#[test]
fn tables_are_for_people_and_files_take_their_ending_as_format() {
    let folder = scratch("out");
    let file = folder.join("result.csv");
    let path = file.to_string_lossy().into_owned();
    let output = lockyard(&[&TINY[..], &["--out", &path, "--events"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("vs best peer") && table.contains("▸ mutex") && table.contains("fairness "));
    assert!(!table.contains('\x1b'), "no colours outside a terminal");
    assert!(fs::read_to_string(&file).expect("the file").starts_with("family,"));
    assert_eq!(names(&folder), ["result.csv"]);
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn compare_writes_a_whole_page_and_its_data() {
    let folder = scratch("compare");
    let path = folder.to_string_lossy().into_owned();
    let output = lockyard(&["--secs-total", "0.5", "--out-dir", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(names(&folder), ["lockyard-compare.html", "lockyard-compare.json"]);

    let page = fs::read_to_string(folder.join("lockyard-compare.html")).expect("the page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.matches("<svg ").count() >= 4 && page.matches("<svg ").count() == page.matches("</svg>").count());
    assert!(page.contains("★ best peer") && page.contains("prefers-color-scheme: dark"));
    for loaded in ["<script", "<link", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(loaded), "{loaded}");
    }
    assert_eq!(page.matches("://").count(), page.matches("http://www.w3.org/2000/svg").count());

    let data = fs::read_to_string(folder.join("lockyard-compare.json")).expect("the data");
    let data: serde_json::Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!(data["interrupted"], false);
    let groups: Vec<&str> = data["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| group["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(groups, ["mutex", "spin", "rw", "semaphore"]);
    for group in data["groups"].as_array().expect("groups") {
        for cell in group["cells"].as_array().expect("cells") {
            let origins: Vec<&str> = cell["locks"]
                .as_array()
                .expect("locks")
                .iter()
                .map(|lock| lock["origin"].as_str().expect("one"))
                .collect();
            assert!(origins.contains(&"lockyard") && origins.contains(&"peer"), "{}", cell["title"]);
        }
    }

    let text = stdout(&output);
    for part in
        ["NUMA nodes", "mutex locks", "rw locks", "starve-writers: 8 readers against 1 writer", "Summary", "wrote "]
    {
        assert!(text.contains(part), "{part}");
    }
    fs::remove_dir_all(folder).expect("removable");
}

/// Starts a run, sends SIGINT `times` once it measures, and returns what came of it.
fn interrupted(arguments: &[&str], times: usize) -> Output {
    let mut child = Command::new(cargo_bin!("lockyard"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The first line of progress: the first cell has begun.
    let mut progress = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    progress.read_line(&mut line).expect("a line");
    for _ in 0..times {
        thread::sleep(Duration::from_millis(150));
        kill_process(Pid::from_child(&child), Signal::INT).expect("the child is there");
    }
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut progress, &mut rest).expect("stderr closes");
    let mut output = child.wait_with_output().expect("the child ends");
    output.stderr = [line.into_bytes(), rest].concat();
    output
}

#[test]
fn an_interrupted_bench_reports_what_it_has() {
    let long = ["bench", "--lock", "mutex", "--peer", "std-mutex", "--secs", "0.05", "--rounds", "2000", "--json"];
    let output = interrupted(&long, 1);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"));
    let text = stdout(&output);
    assert!(text.lines().count() >= 1);
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a whole JSON object");
        assert_eq!(line["interrupted"], true);
        assert!(line["rounds"].as_u64().expect("a number") >= 1);
    }
}

#[test]
fn an_interrupted_compare_still_writes_whole_files() {
    let folder = scratch("interrupted");
    let path = folder.to_string_lossy().into_owned();
    let output = interrupted(&["compare", "--family", "mutex", "--secs-total", "300", "--out-dir", &path], 1);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(names(&folder), ["lockyard-compare.html", "lockyard-compare.json"]);
    let page = fs::read_to_string(folder.join("lockyard-compare.html")).expect("the page");
    assert!(page.contains("This run was interrupted") && page.trim_end().ends_with("</html>"));
    let data = fs::read_to_string(folder.join("lockyard-compare.json")).expect("the data");
    let data: serde_json::Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!(data["interrupted"], true);
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn a_second_interrupt_ends_at_once_and_leaves_nothing() {
    let folder = scratch("twice");
    let file = folder.join("result.json");
    let path = file.to_string_lossy().into_owned();
    let output = interrupted(
        &["bench", "--lock", "mutex", "--peer", "none", "--secs", "600", "--rounds", "1", "--out", &path],
        2,
    );
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(output.stdout.is_empty() && names(&folder).is_empty());
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(cargo_bin!("lockyard"))
        .args(["list", "events"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the child ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn a_simulation_repeats_to_the_last_digit_and_is_a_record() {
    let arguments =
        ["sim", "--machine", "skx_1s", "--lock", "mutex,rwsem", "--threads", "2,6", "--duration", "300us", "--json"];
    let output = lockyard(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(lockyard(&arguments).stdout, output.stdout);
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect();
    assert_eq!(lines.len(), 4);
    for line in &lines {
        assert!(line["kops_per_s"].as_f64().is_some_and(|rate| rate > 0.0) && line["machine_id"] == "skx_1s", "{line}");
        assert!(line["transfers_per_op"].as_object().is_some_and(|classes| !classes.is_empty()), "{line}");
        assert_eq!(line["hottest"][0]["name"], "lock");
    }
}

#[test]
fn the_microbenchmark_draws_if_asked_to() {
    let run = |workload: &[&str]| {
        let usual = [
            "sim",
            "--machine",
            "skx_1s",
            "--lock",
            "rwsem",
            "--threads",
            "1",
            "--read-pct",
            "30",
            "--cs",
            "1",
            "--json",
        ];
        let output = lockyard(&[&usual[..], workload].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let record: serde_json::Value = serde_json::from_str(stdout(&output).trim()).expect("a JSON object");
        (record["reads"].as_u64(), record["writes"].as_u64(), record["read_pct"].as_u64())
    };
    let drawn = run(&["--workload", "rwsem-micro", "--mix", "random"]);
    // Alone, where nobody can be disturbed, the two differ in what is usual, and in nothing else.
    assert_eq!(drawn, run(&["--workload", "contend", "--think", "0"]));
    assert!(drawn.0 > Some(0) && drawn.0 < drawn.1 && drawn.2 == Some(30), "{drawn:?}");
}

#[test]
fn simulations_that_make_no_sense_are_refused() {
    refused(&["sim", "--machine", "epyc9645_2s"], "did you mean 'epyc9654_2s'?");
    refused(&["sim", "--machine", "epyc9654_2s:nps3"], "has no mode 'nps3'");
    refused(&["sim", "--machine", "/nowhere/machine.toml"], "/nowhere/machine.toml");
    refused(&["sim", "--machine", "skx_1s", "--set", "model.instructions"], "is not PATH=NUMBER");
    refused(&["sim", "--machine", "skx_1s", "--set", "model.nothing=1"], "unknown number 'model.nothing'");
    refused(&["sim", "--machine", "skx_1s", "--set", "model.occupancy_ratio=7"], "outside its range");
    refused(&["sim", "--machine", "skx_1s", "--set", "clock.pause=3"], "must not move");
    refused(&["sim", "--machine", "skx_1s", "--set", "model.occupancy_ratio=7"], "lockyard: --set: ");
    let table = "rwsem_06_timed_spin_loop_ns";
    refused(&["reproduce", table, "--set", "model.nothing=1"], "--set: unknown number 'model.nothing'");
    refused(&["reproduce", table, "--set", "model.occupancy_ratio=7"], "outside its range");
    refused(&["reproduce", table, "--set", "clock.pause=3"], "must not move");
    refused(&["sim", "--machine", "skx_1s", "--threads", "4097"], "at most 4096 can be simulated");
    refused(&["sim", "--machine", "skx_1s", "--threads", "0"], "--threads: 0 is out of bounds");
    refused(&["sim", "--machine", "skx_1s", "--duration", "0ms"], "--duration: '0ms' is out of bounds");
    refused(&["sim", "--machine", "skx_1s", "--placement", "up"], "unknown placement 'up'");
    refused(&["sim", "--machine", "skx_1s", "--lock", "std-mutex"], "'std-mutex'");
    refused(&["trace", "--machine", "skx_1s"], "--out: say where the trace goes");
    refused(&["trace", "--machine", "skx_1s", "--threads", "2,4", "--out", "/dev/null"], "2 were chosen");
    refused(
        &["trace", "--machine", "skx_1s", "--threads", "2", "--duration", "50us", "--out", "/dev/full"],
        "no space left",
    );
}

/// Runs with environment variables set.
fn with_environment(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(arguments).envs(variables.iter().copied()).output().expect("the binary runs")
}

#[test]
fn bad_tunables_are_refused_in_one_line() {
    for (variable, value, range) in [
        ("LOCKYARD_HQ_LANES", "33", "0 to 32"),
        ("LOCKYARD_HQ_LANES", "two", "0 to 32"),
        ("LOCKYARD_HQ_FAIRNESS_THRESHOLD", "-1", "0 to 4294967295"),
        ("LOCKYARD_HQ_GENERAL_HANDOFFS_TURN_NUMA", "65536", "0 to 65535"),
        ("LOCKYARD_HQ_REMOTE_HANDOFFS_TURN_NUMA", "", "0 to 65535"),
        ("LOCKYARD_HQ_WAIT_BEFORE_LOOK_NS", "5001", "0 to 5000"),
        ("LOCKYARD_HQ_WAITERS_PER_LANE_TURN_NUMA", "1.5", "0 to 64"),
    ] {
        for arguments in [&["stat", "--secs", "0.01"][..], &["sim", "--machine", "skx_1s"], &["list", "locks"]] {
            let output = with_environment(&[(variable, value)], arguments);
            is_refusal(&output, arguments, &format!("{variable}: a number from {range} is needed"));
        }
    }
}

#[test]
fn stat_shows_tunables_and_statistics() {
    let arguments = ["stat", "--secs", "0.05", "--threads", "4"];
    let lanes = [("LOCKYARD_HQ_LANES", "2"), ("LOCKYARD_HQ_FAIRNESS_THRESHOLD", "100")];
    let output = with_environment(&lanes, &arguments);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for part in ["Tunables in force", "LOCKYARD_HQ_FAIRNESS_THRESHOLD", "0 … 65535", "records in use", "hq_conflict"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b') && text.lines().all(|line| line == line.trim_end()), "{text}");

    let output = with_environment(&lanes, &[&arguments[..], &["--json", "--workload", "kv-model"]].concat());
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let setting = |name: &str| {
        let settings = document["tunables"].as_array().expect("a list").clone();
        settings.into_iter().find(|setting| setting["name"] == name).expect("a setting")
    };
    assert_eq!((&setting("lanes")["value"], &setting("lanes")["default"]), (&2.into(), &0.into()));
    assert_eq!(setting("fairness_threshold")["value"], 100);
    assert_eq!(document["pool"]["lanes"], 2);
    assert!(document["pool"]["most_in_use"].is_u64() && document["locks"].is_array());
    assert_eq!(document["record"]["workload"], "kv-model");
}

#[test]
fn statistics_that_nobody_keeps_are_refused() {
    refused(&["stat", "--lock", "mutex"], "'mutex' keeps no statistics; choose hq-spinlock or lockref:hq-spinlock");
    refused(&["stat", "--lock", "hq-spinlok"], "did you mean 'hq-spinlock'?");
    refused(&["stat", "--threads", "2,4"], "stat shows one run; 2 were chosen");
    refused(&["stat", "--workload", "rwsem-micro"], "it has no read side");
    refused(&["stat", "--secs", "0"], "--secs: '0' is out of bounds");
}

#[test]
fn a_simulation_names_the_tunables_of_hierarchical_locks() {
    let arguments = [
        "sim",
        "--machine",
        "skx_1s",
        "--lock",
        "hq-spinlock,mutex",
        "--threads",
        "2",
        "--duration",
        "200us",
        "--events",
    ];
    let text = stdout(&lockyard(&arguments));
    assert_eq!(text.matches("hq-spinlock tunables: all at their defaults").count(), 1, "{text}");
    let text = stdout(&with_environment(&[("LOCKYARD_HQ_FAIRNESS_THRESHOLD", "7")], &arguments));
    assert!(text.contains("hq-spinlock tunables: fairness_threshold 7 (default 1000)"), "{text}");
}

#[test]
fn a_trace_is_one_json_document() {
    let folder = scratch("trace");
    let path = folder.join("trace.json");
    let out = path.to_str().expect("a path in UTF-8");
    let output = lockyard(&["trace", "--machine", "skx_1s", "--threads", "4", "--duration", "200us", "--out", out]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = fs::read_to_string(&path).expect("the trace was written");
    let trace: serde_json::Value = serde_json::from_str(&text).expect("a JSON document");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 100));
    assert_eq!(names(&folder), ["trace.json"]);
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn figures_that_cannot_be_rerun_are_refused() {
    refused(&["reproduce"], "<FIGURE");
    refused(&["reproduce", "rwsem_7"], "unknown figure 'rwsem_7'; did you mean");
    refused(&["reproduce", "nothing"], "known are hq_locktorture_epyc_fairness, hq_locktorture_epyc_gain");
    refused(&["reproduce", "--all", "rwsem_07"], "cannot be used with");
    refused(&["reproduce", "rwsem_06", "--seeds", "0"], "--seeds");
    refused(&["reproduce", "rwsem_06", "--workers", "x"], "--workers");
    refused(&["reproduce", "rwsem_06", "--html", "/nowhere/page.html"], "--html: cannot write '/nowhere/page.html'");
    let folder = scratch("reproduce-refused");
    let page = folder.join("page.html");
    refused(&["reproduce", "rwsem_06", "nothing", "--html", page.to_str().expect("UTF-8")], "unknown figure");
    assert!(names(&folder).is_empty());
}

#[test]
fn a_rerun_figure_is_printed_and_drawn() {
    let folder = scratch("reproduce");
    let page = folder.join("page.html");
    let page_name = page.to_str().expect("UTF-8");
    // The cheapest figures: nothing, or next to nothing, is simulated.
    let output = lockyard(&["reproduce", "rwsem_06", "rwsem_12", "--html", page_name]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for part in [
        "rwsem_06_timed_spin_loop_ns",
        "4-socket Broadwell",
        "n/a: no machine file",
        "verdict:",
        "Scores",
        "all changes",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(&format!("wrote {page_name}")));
    assert_eq!(names(&folder), ["page.html"]);
    let html = fs::read_to_string(&page).expect("the page is there");
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert!(!html.contains("<script") && !html.contains("src=") && !html.contains("href="));
    for tag in ["svg", "table", "tr", "td", "th", "details", "dl", "div", "g", "text"] {
        let opened = html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn a_rerun_figure_is_one_document_and_does_not_depend_on_workers() {
    let json = |workers: &str| stdout(&lockyard(&["reproduce", "rwsem_06", "--json", "--workers", workers]));
    let text = json("1");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["figures"][0]["figure"], "rwsem_06_timed_spin_loop_ns");
    assert!(document["figures"][0]["cells"][0]["simulated"]["median"].as_f64().is_some_and(|ns| ns > 0.0));
    assert!(document["figures"][0]["score"]["error"]["median"].is_number());
    assert_eq!(text, json("2"));
}
