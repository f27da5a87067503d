//! What is refused, in one line.

use super::*;

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
    refused(&["bench", "--family", "rw", "--read-pct", "99.9.9"], "--read-pct: '99.9.9' is not a percentage");
    refused(&["bench", "--think", "nanx"], "--think: 'nanx' is not a multiple of the section");
    refused(&["bench", "--think", "1e5x", "--cs", "1000"], "think time: at most 10000000 PAUSEs");
    refused(&["bench", "--lines", "4096"], "--lines: 4096 is out of bounds (0 to 1024)");
    refused(&["bench", "--think-shape", "normal"], "[possible values: fixed, exponential]");
    refused(&["bench", "--secs", "0"], "--secs: '0' is out of bounds");
    refused(&["bench", "--rounds", "0"], "--rounds: 0 is out of bounds");
    refused(&["bench", "--seed", "x"], "--seed: 'x' is not a whole number");
    refused(&["compare", "--secs-total", "soon"], "--secs-total: 'soon' is not a time");
    refused(&["--secs-total", "0"], "--secs-total: '0' is out of bounds");
    refused(&["bench", "--threads", "1:1000", "--cs", "1:1000"], "more than 20000 cells");
}

#[test]
fn combinations_without_a_meaning_are_refused() {
    refused(&["bench", "--lock", "mutex", "--workload", "starve-readers"], "choose --family rw");
    refused(&["bench", "--lock", "none", "--peer", "none"], "nothing to measure");
    refused(&["bench", "--family", "rw", "--workload", "starve-writers", "--threads", "4"], "--readers and --writers");
    refused(&["bench", "--lock", "mutex", "--readers", "4"], "have no roles");
    for option in [["--lines", "8"], ["--think-shape", "exponential"]] {
        let arguments = [&["bench", "--family", "rw", "--workload", "qrw-loop"][..], &option].concat();
        refused(&arguments, "qrw-loop has neither; contend and rwsem-micro have");
    }
    for option in [["--threads", "2"], ["--think", "1x"], ["--workload", "contend"], ["--lines", "8"]] {
        refused(&[&["bench", "--grid"][..], &option].concat(), "'--grid' cannot be used with '--");
    }
    refused(&["bench", "--quick"], "--grid");
    refused(&["bench", "--grid", "--quick", "--full"], "'--quick' cannot be used with '--full'");
    refused(&["bench", "--grid", "--lock", "mutx"], "did you mean 'mutex'?");
    refused(&["bench", "--grid", "--rounds", "0"], "--rounds: 0 is out of bounds");
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
    let page = folder.join("missing/page.html");
    refused(&["compare", "--html", &page.to_string_lossy()], "no such file or directory");
    assert!(names(&folder).is_empty());
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn a_negative_time_is_refused_without_advice_to_pass_it_in_another_way() {
    refused(
        &["stat", "--interval", "-1s", "true"],
        "unexpected argument '-1' found; a time is not negative; see --help",
    );
}

#[test]
fn top_says_what_it_lacks() {
    refused(&["top", "--interval", "1ns"], "--interval");
    refused(&["top", "--pid", "0"], "--pid");
    refused(&["top", "--pid", "1"], "process 1 has no lock statistics");
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
        for arguments in [&["hq", "--secs", "0.01"][..], &["sim", "--machine", "skx_1s"], &["list", "locks"]] {
            let output = with_environment(&[(variable, value)], arguments);
            is_refusal(&output, arguments, &format!("{variable}: a number from {range} is needed"));
        }
    }
}

#[test]
fn statistics_that_nobody_keeps_are_refused() {
    refused(&["hq", "--lock", "mutex"], "'mutex' keeps no statistics; choose hq-spinlock or lockref:hq-spinlock");
    refused(&["hq", "--lock", "hq-spinlok"], "did you mean 'hq-spinlock'?");
    refused(&["hq", "--threads", "2,4"], "hq shows one run; 2 were chosen");
    refused(&["hq", "--workload", "rwsem-micro"], "it has no read side");
    refused(&["hq", "--secs", "0"], "--secs: '0' is out of bounds");
}

#[test]
fn figures_that_cannot_be_rerun_are_refused() {
    refused(&["reproduce"], "<FIGURE");
    refused(&["reproduce", "rwsem_7"], "unknown figure 'rwsem_7'; did you mean");
    refused(&["reproduce", "nothing"], "known are cna_lock2_x5_4, cna_locktorture_x5_4");
    refused(&["reproduce", "--all", "rwsem_07"], "cannot be used with");
    refused(&["reproduce", "rwsem_06", "--seeds", "0"], "--seeds");
    refused(&["reproduce", "rwsem_06", "--workers", "x"], "--workers");
    refused(&["reproduce", "rwsem_06", "--html", "/nowhere/page.html"], "--html: cannot write '/nowhere/page.html'");
    let folder = scratch("reproduce-refused");
    let page = folder.join("page.html");
    refused(&["reproduce", "rwsem_06", "nothing", "--html", page.to_str().expect("UTF-8")], "unknown figure");
    assert!(names(&folder).is_empty());
}
