//! Workloads of `lockyard-work` on simulated machines: they run, exclude, repeat, and have the shapes they must have.

use std::time::{Duration, Instant};

use lockyard_sim::machine::catalog;
use lockyard_sim::report::Report;
use lockyard_sim::{Config, LOCKS, session};
use lockyard_work::{Candidate, Record, Spec, Workload};

fn candidate(label: &str) -> Candidate {
    *LOCKS.iter().find(|candidate| candidate.label() == label).unwrap()
}

fn spec(workload: Workload, threads: usize, ms: u64) -> Spec {
    Spec { threads, duration: Duration::from_millis(ms), warmup: Duration::from_micros(200), ..Spec::new(workload) }
}

fn measure(machine: &str, label: &str, spec: &Spec) -> (Record, Report) {
    let config = Config::new(catalog::machine(machine).unwrap());
    let begin = Instant::now();
    let (record, mut reports) = session(&config, || (candidate(label).measure)(spec));
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
                // Nobody waits there: with more threads than CPUs the controller would get its CPU late.
                Workload::FutexHash => 3,
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
    assert_eq!(window.ns, record.duration_ns);
    assert!(window.ns < report.whole.ns && window.memory_operations < report.whole.memory_operations);
    assert!(record.busy > 0.05 && record.busy <= 1.0, "{}", record.busy);
    assert!(report.hottest[0].transfers > 100);
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
