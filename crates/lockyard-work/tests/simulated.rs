//! Workloads on simulated machines: they run, exclude, repeat, and have the
//! shapes they must have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lockyard::platform::Platform;
use lockyard::spin::hq::Tunable;
use lockyard::spin::hq::pool::lane_count;
use lockyard_recording::Model;
use lockyard_sim::machine::catalog;
use lockyard_sim::report::Report;
use lockyard_sim::{Config, Sim, Simulation, Start};
use lockyard_work::simulated::{AS_RECORDED, LOCKS, STAND_INS, session};
use lockyard_work::{Candidate, Mix, Record, Replay, Spec, ThinkShape, Workload};

fn candidate(label: &str) -> Candidate {
    *LOCKS.iter().find(|candidate| candidate.label() == label).unwrap()
}

fn spec(workload: Workload, threads: usize, ms: u64) -> Spec {
    Spec { threads, duration: Duration::from_millis(ms), warmup: Duration::from_micros(200), ..Spec::new(workload) }
}

fn measure(machine: &str, label: &str, spec: &Spec) -> (Record, Report) {
    let config = Config::new(catalog::machine(machine).unwrap());
    let begin = Instant::now();
    let (record, mut reports) = session(&config, || candidate(label).measure(spec));
    let record = record.unwrap_or_else(|error| panic!("{label} on {machine}: {error}"));
    let report = reports.remove(0);
    println!(
        "{machine} {label} {} × {}: {:.0} kops/s, fairness {:.2}, {} memory operations in {:.0} ms",
        record.workload,
        record.threads,
        record.kops_per_s,
        record.fairness,
        report.whole.memory_operations,
        begin.elapsed().as_secs_f64() * 1e3
    );
    (record, report)
}

/// Every second lock, beginning with the `first`: two halves, for two host CPUs.
fn every_second_lock_runs_every_workload_it_can(first: usize) {
    for candidate in LOCKS.iter().skip(first).step_by(2) {
        if candidate.caution.is_some() {
            continue;
        }
        for &workload in Workload::ALL {
            if workload.needs_priorities() {
                continue; // the simulated machine gives its threads no fixed priorities through this interface
            }
            let threads = match workload {
                Workload::Uncontended => 1,
                // Nobody waits there: with more threads than CPUs the controller would get its CPU
                // late.
                Workload::FutexHash => 3,
                // Of the others some have more threads than the machine CPUs. Where all of them do
                // nothing but lock, the simulator is busy with spinners beside a holder without a
                // CPU.
                Workload::Contend | Workload::TortureSpin | Workload::TortureSpin2021 | Workload::QrwLoop => 3,
                _ => 6,
            };
            let spec = spec(workload, threads, 1);
            if candidate.check(&spec).is_ok() {
                measure("quad2008", &candidate.label(), &spec);
            }
        }
    }
}

#[test]
fn every_lock_runs_every_workload_it_can() {
    every_second_lock_runs_every_workload_it_can(0);
}

#[test]
fn every_other_lock_too() {
    every_second_lock_runs_every_workload_it_can(1);
}

#[test]
fn records_repeat() {
    let spec = spec(Workload::RwsemMicro, 16, 1);
    let digest = || {
        let (record, report) = measure("clx_2s_48c", "rwsem:today", &spec);
        (record.counts.clone(), record.kops_per_s.to_bits(), report.digest())
    };
    assert_eq!(digest(), digest());
}

#[test]
fn a_window_is_reported_beside_the_whole_run() {
    let (record, report) = measure("skx_2s_40c", "mutex", &spec(Workload::Contend, 8, 1));
    let window = report.window.unwrap();
    // Its ends are rounded to nanoseconds one by one there, and together here.
    assert!(window.ns.abs_diff(record.duration_ns) <= 1, "{} {}", window.ns, record.duration_ns);
    assert!(window.ns < report.whole.ns && window.memory_operations < report.whole.memory_operations);
    assert!(record.busy > 0.05 && record.busy <= 1.0, "{}", record.busy);
    assert!(report.hottest[0].transfers > 100);
}

#[test]
fn the_microbenchmark_begins_with_everybody_asleep() {
    let asleep_us = |spec: &Spec| {
        let (record, report) = measure("skx_1s", "rwsem:today", spec);
        (report.whole.times.sleeping_ns / 1000 / spec.lockers() as u64, record.writes)
    };
    let micro = |mix, read_pct| {
        let roles = Spec { readers: 4, writers: 4, mix, read_pct, ..spec(Workload::RwsemMicro, 8, 1) };
        asleep_us(&roles)
    };
    for mix in [Mix::Alternate, Mix::Random, Mix::Roles] {
        let (us, writes) = micro(mix, 50.0);
        assert!(us > 400 && writes > 0, "{mix:?}: {us}");
    }
    // A reader disturbs nobody, nor does a thread that is alone.
    let (us, writes) = micro(Mix::Random, 100.0);
    assert!(us < 100 && writes == 0, "{us}");
    assert!(asleep_us(&spec(Workload::RwsemMicro, 1, 1)).0 < 100);
    assert!(asleep_us(&spec(Workload::Contend, 8, 1)).0 < 400);
}

#[test]
fn lines_of_data_travel_with_the_lock() {
    let moved = |lines| {
        let spec = Spec { lines, read_pct: 50.0, ..spec(Workload::Contend, 4, 1) };
        let (record, report) = measure("skx_1s", "rwsem:today", &spec);
        assert_eq!(record.lines, lines);
        report.hottest.iter().filter(|line| line.name == "data" && line.transfers > 100).count()
    };
    assert_eq!((moved(0), moved(3)), (0, 3));
}

#[test]
fn drawn_think_times_have_the_mean_asked_for() {
    let alone = |think_shape| {
        let spec = Spec { think: 1000, think_shape, ..spec(Workload::Contend, 1, 2) };
        measure("skx_1s", "mutex", &spec).0.operations as f64
    };
    let ratio = alone(ThinkShape::Exponential) / alone(ThinkShape::Fixed);
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
}

#[test]
fn spinlocks_run_on_all_cpus_of_the_large_machine() {
    let (record, _) = measure("epyc9654_2s:nps4", "qspinlock", &spec(Workload::TortureSpin, 384, 2));
    assert!(record.operations > 1_000);
}

#[test]
fn a_semaphore_that_hands_itself_to_sleepers_leaves_cpus_idle() {
    let spec = |label| {
        let spec = Spec { warmup: Duration::from_millis(20), ..spec(Workload::BklAim7, 64, 400) };
        measure("quad2008", label, &spec).0
    };
    let (handoff, safe) = (spec("semaphore:direct-handoff"), spec("semaphore:opportunistic-safe"));
    println!("busy {:.2} against {:.2}", handoff.busy, safe.busy);
    assert!(safe.busy > handoff.busy);
}

/// With a number of jobs everybody does his, whoever is served first, and the last to be done ends
/// the run: how the lock shares itself out does not change what is done.
#[test]
fn a_run_of_so_many_jobs_ends_with_the_last() {
    let run = |label| {
        let spec = Spec { jobs: 5, ..spec(Workload::BklAim7, 64, 1) };
        let (record, report) = measure("quad2008", label, &spec);
        let jobs = record.metrics["jobs_per_min"] * record.duration_ns as f64 / 60e9;
        assert!((jobs - 64.0 * 5.0).abs() < 0.01, "{jobs}");
        assert!(report.whole.ns >= record.duration_ns, "{} {}", report.whole.ns, record.duration_ns);
        record
    };
    let (handoff, safe) = (run("semaphore:direct-handoff"), run("semaphore:opportunistic-safe"));
    // Twenty pieces in three of five jobs, and one lock more where it is dropped in between; who is
    // drawn to block is the thread's own affair.
    assert_eq!(handoff.operations, safe.operations);
    assert!(safe.operations > 64 * 3 * 20, "{}", safe.operations);
    assert!(handoff.duration_ns > safe.duration_ns);
}

/// Twenty-four threads on one node and eight on the next: turns are shared by threads, not by
/// nodes. (With equal quotas the eight had three times as many each: 0.67.)
#[test]
fn crowded_nodes_are_not_at_a_disadvantage() {
    let spec = spec(Workload::TortureSpin, 32, 6);
    Sim::commons().pool.tunables().set(Tunable::LanesByCache, 0).unwrap();
    let (record, report) = measure("epyc9654_2s:nps4", "hq-spinlock", &spec);
    assert!(report.events["hq_forced_handoff"] > 4, "{:?}", report.events);
    assert!(record.fairness < 0.60, "{}", record.fairness);
}

/// Nodes of four dies: a lane per die, whose heads try before they look, against a lane per node.
#[test]
fn lanes_by_cache_are_faster_than_lanes_by_node() {
    let spec = spec(Workload::TortureSpin, 64, 2);
    let [by_node, by_cache] = [0, 1].map(|by_cache| {
        Sim::commons().pool.tunables().set(Tunable::LanesByCache, by_cache).unwrap();
        measure("epyc9654_2s:nps2", "hq-spinlock", &spec).0.kops_per_s
    });
    assert!(by_cache > 2.0 * by_node, "{by_cache} against {by_node}");
}

#[test]
fn lanes_are_nodes_or_the_caches_of_nodes_that_have_several() {
    let lanes = [("epyc9654_2s:nps1", 24, 2), ("epyc9654_2s:nps12", 24, 24), ("wsm_ex_8s", 8, 8), ("quad2008", 1, 1)];
    for (machine, by_cache, by_node) in lanes {
        let found = [1, 0].map(|wished| {
            Sim::commons().pool.tunables().set(Tunable::LanesByCache, wished).unwrap();
            let simulation = Simulation::new(&Config::new(catalog::machine(machine).unwrap()), 1).unwrap();
            let found = AtomicU32::new(0);
            simulation.run(|_| found.store(lane_count(Sim::commons().pool), Relaxed)).unwrap();
            found.into_inner()
        });
        assert_eq!(found, [by_cache, by_node], "{machine}");
    }
}

#[test]
fn a_kernel_locks_whom_it_wakes_even_if_awake() {
    let hot = |in_kernel: bool| {
        let config =
            Config { in_kernel, start: Start::Together, ..Config::new(catalog::machine("skx_2s_40c").unwrap()) };
        let spec = Spec { threads: 3, duration: Duration::from_millis(1), ..Spec::new(Workload::RwsemMicro) };
        let rwsem = candidate("rwsem:wake-all-readers");
        let (record, reports) = session(&config, || rwsem.measure(&spec));
        record.unwrap();
        reports[0].hottest.iter().any(|line| line.name.starts_with("lock of thread"))
    };
    assert!(hot(true) && !hot(false));
}

/// What stands for other people's locks must at least be locks.
#[test]
fn stand_ins_exclude_and_let_everybody_in() {
    for candidate in STAND_INS {
        // Threads that come and go, and threads that all wait.
        for think in [0, 2_000] {
            let spec = Spec { think, ..spec(Workload::Contend, 12, 4) };
            let config = Config::new(catalog::machine("skx_2s_40c").unwrap());
            let (record, _) = session(&config, || candidate.measure(&spec));
            let record = record.unwrap_or_else(|error| panic!("{}: {error}", candidate.name));
            assert!(record.per_thread.min > 0, "{}: {record:?}", candidate.name);
        }
    }
}

/// What `model` comes to, on the locks that the program has.
fn as_recorded(model: &str, threads: usize, ms: u64) -> Record {
    let model = Model::read("model", model).expect("a model");
    let replay = Replay { tested: vec![false; model.locks.len()], ..Replay::new("model", Arc::new(model)) };
    let spec = Spec { replay: Some(Arc::new(replay)), ..spec(Workload::Replay, threads, ms) };
    let config = Config::new(catalog::machine("quad2008").unwrap());
    session(&config, || AS_RECORDED.measure(&spec)).0.unwrap()
}

/// A lock that yields stood for it, and lost hardly anything.
#[test]
fn a_spinlock_that_never_sleeps_collapses_with_more_threads_than_cpus() {
    let model =
        "[lock.A]\nkind = \"spin\"\nlines = 1\n[[role]]\ncpu = \"6us\"\ntakes = [{ lock = \"A\", hold = \"1us\" }]";
    let progress = |threads| as_recorded(model, threads, 400).metrics["progress"];
    let (few, many) = (progress(4), progress(16));
    assert!(few > 2.0 && many < few / 2.0, "{few} CPUs' worth with 4 threads, {many} with 16");
}

/// The slack of a timer and the way out of an idle state were added to times that contain them.
#[test]
fn a_section_sleeps_as_long_as_the_model_says() {
    let model = "[lock.A]\nlines = 0\n[[role]]\ncpu = [\"9us\", \"9us\"]\n\
        takes = [{ lock = \"A\", hold = \"1us\", sleep = \"150us\" }]";
    let each_ns = 1e9 / as_recorded(model, 1, 50).metrics["ops_per_s"];
    assert!((155e3..165e3).contains(&each_ns), "{each_ns} ns an operation");
}

#[test]
fn a_thread_that_only_tries_does_without_and_goes_on() {
    let run = |tries: u32| {
        let model = format!(
            "[lock.A]\nlines = 1\n[[role]]\ncpu = \"1us\"\ntakes = [{{ lock = \"A\", hold = \"2us\", tries = {tries} }}]"
        );
        let record = as_recorded(&model, 4, 2);
        let number = |what: &str| record.locks[0].numbers[what] as f64;
        (record.metrics["progress"], number("refused"), number("waited_ns"))
    };
    let (waits, tries) = (run(0), run(100));
    assert!(waits.1 == 0.0 && waits.2 > 0.0, "{waits:?}");
    // One of four has the lock most of the time, and three do what is outside of it.
    assert!(tries.1 > 0.0 && tries.2 < waits.2 / 10.0, "{tries:?} beside {waits:?}");
    assert!(tries.0 > 2.5 && waits.0 < 2.0, "{tries:?} beside {waits:?}");
}

#[test]
fn the_last_reader_hands_the_programs_rwlock_to_the_writer_that_waits() {
    let model = "[lock.A]\nkind = \"rwlock\"\nlines = 1\n[[role]]\nname = \"reader\"\nthreads = 3\ncpu = \"1us\"\n\
        takes = [{ lock = \"A\", hold = \"1us\", reads = 100 }]\n[[role]]\nname = \"writer\"\ncpu = \"1us\"\n\
        takes = [{ lock = \"A\", hold = \"1us\" }]";
    let record = as_recorded(model, 4, 2);
    let [all, reads] = ["acquisitions", "reads"].map(|what| record.locks[0].numbers[what]);
    assert!(reads > 100 && all > reads + 10, "{all} acquisitions, {reads} of them reads");
}
