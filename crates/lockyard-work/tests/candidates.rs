//! Every lock on every workload it supports, briefly: they run, they exclude, and the records hold
//! together.

use std::io::Write;
use std::time::Duration;

use lockyard_work::{Candidate, Mix, Origin, Record, Spec, ThinkShape, Workload, candidates};

fn brief(workload: Workload) -> Spec {
    Spec {
        // Few threads: a ticket lock serves one thread per time slice once there are more threads
        // than CPUs.
        threads: if workload == Workload::Uncontended { 1 } else { 3 },
        duration: Duration::from_millis(20),
        warmup: Duration::from_millis(2),
        ..Spec::new(workload)
    }
}

fn hold_together(candidate: &Candidate, spec: &Spec, record: &Record) {
    let label = candidate.label();
    assert_eq!(record.label(), label);
    assert_eq!(record.workload, spec.workload);
    assert_eq!(record.threads, spec.lockers());
    assert_eq!(record.counts.len(), record.threads);
    assert_eq!(record.counts.iter().sum::<u64>(), record.operations, "{label}");
    assert_eq!(record.reads + record.writes, record.operations, "{label}");
    assert!(record.duration_ns >= spec.duration.as_nanos() as u64, "{label}: the window was short");
    assert!((0.5..=1.0).contains(&record.fairness), "{label}: fairness {}", record.fairness);
    assert!(record.wait.p50 <= record.wait.p99 && record.wait.p999 <= record.wait.max, "{label}: {:?}", record.wait);
    assert!(record.origin == Origin::Lockyard || record.events.is_empty(), "{label}: a peer has no events");
    if spec.has_roles() {
        assert_eq!(record.per_role.iter().map(|role| role.threads).sum::<usize>(), record.threads);
        assert_eq!(record.per_role.iter().map(|role| role.operations).sum::<u64>(), record.operations);
    } else {
        assert!(record.per_role.is_empty());
    }
}

fn run_all(spec: &Spec) {
    if spec.workload.needs_priorities() && !lockyard::can_lend_priorities() {
        eprintln!("SKIPPED {}: no right to set priorities (CAP_SYS_NICE or RLIMIT_RTPRIO)", spec.workload);
        return;
    }
    for candidate in candidates() {
        if candidate.caution.is_some() {
            continue; // may hang
        }
        if !candidate.supports(spec.workload) {
            let error = candidate.check(spec).expect_err("not supported").to_string();
            assert!(error.contains("no read side") || error.contains("choose a mutex"), "{error}");
            continue;
        }
        if candidate.check(spec).is_ok() {
            let record = match candidate.measure(spec) {
                Err(error) if spec.workload.needs_priorities() && error.to_string().contains("was skipped") => {
                    // Past the test harness, which would swallow it.
                    let _ = writeln!(std::io::stderr(), "SKIPPED: {error}");
                    return;
                }
                outcome => outcome.unwrap_or_else(|error| panic!("{}: {error}", candidate.label())),
            };
            hold_together(candidate, spec, &record);
        }
    }
}

macro_rules! workloads {
    ($($name:ident: $workload:ident,)*) => {
        $(#[test] fn $name() { run_all(&brief(Workload::$workload)); })*

        #[test]
        fn none_is_forgotten() {
            assert_eq!([$(Workload::$workload),*].as_slice(), Workload::ALL);
        }
    };
}

workloads! {
    uncontended: Uncontended,
    contend: Contend,
    rwsem_micro: RwsemMicro,
    qrw_loop: QrwLoop,
    torture_spin: TortureSpin,
    torture_spin_2021: TortureSpin2021,
    bkl_aim7: BklAim7,
    pf1_model: Pf1Model,
    lockref_model: LockrefModel,
    kv_model: KvModel,
    futex_hash: FutexHash,
    pi_stress: PiStress,
    boot_model: BootModel,
    build_model: BuildModel,
    pi_cross: PiCross,
    pi_inversion: PiInversion,
    starve_writers: StarveWriters,
    starve_readers: StarveReaders,
    replay: Replay,
}

#[test]
fn reads_and_writes_mix_in_every_way() {
    let contend = || brief(Workload::Contend);
    run_all(&Spec { read_pct: 50.0, ..contend() });
    run_all(&Spec { read_pct: 100.0, ..contend() });
    run_all(&Spec { mix: Mix::Alternate, ..contend() });
    run_all(&Spec { read_pct: 99.9, lines: 3, think_shape: ThinkShape::Exponential, ..contend() });
    run_all(&Spec { mix: Mix::Roles, readers: 2, writers: 2, ..brief(Workload::RwsemMicro) });
    run_all(&Spec { read_pct: 0.0, mix: Mix::Random, ..brief(Workload::RwsemMicro) });
    run_all(&Spec { read_pct: 100.0, ..brief(Workload::Uncontended) });
    run_all(&Spec { cs_sleep: Duration::from_micros(5), ..brief(Workload::RwsemMicro) });
}

#[test]
fn shares_are_what_was_asked_for() {
    let rwlock = candidates().iter().find(|candidate| candidate.name == "std-rwlock").unwrap();
    let spec = |read_pct| Spec { threads: 1, read_pct, ..brief(Workload::Contend) };
    let all_reads = rwlock.measure(&spec(100.0)).unwrap();
    assert_eq!(all_reads.writes, 0);
    let all_writes = rwlock.measure(&spec(0.0)).unwrap();
    assert_eq!(all_writes.reads, 0);
    let half = rwlock.measure(&spec(50.0)).unwrap();
    assert!(half.reads > half.operations / 3 && half.writes > half.operations / 3);
    let one_in_six = rwlock.measure(&Spec { threads: 1, ..brief(Workload::QrwLoop) }).unwrap();
    assert!(one_in_six.reads.abs_diff(one_in_six.writes * 5) <= 10, "{one_in_six:?}");
}

#[test]
fn so_many_jobs_are_done_and_no_more() {
    let run = |name| {
        let candidate = candidates().iter().find(|candidate| candidate.name == name).unwrap();
        let spec = Spec { threads: 3, jobs: 2, ..brief(Workload::BklAim7) };
        let record = candidate.measure(&spec).unwrap();
        assert_eq!(record.idle_threads, 0);
        (record.metrics["jobs_per_min"] * record.duration_ns as f64 / 60e9).round()
    };
    assert_eq!(["std-mutex", "semaphore"].map(run), [6.0, 6.0]);
}

#[test]
fn a_record_is_json() {
    let mutex = candidates().iter().find(|candidate| candidate.name == "std-mutex").unwrap();
    let record = mutex.measure(&brief(Workload::Contend)).unwrap();
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(json["lock"], "std-mutex");
    assert_eq!(json["workload"], "contend");
    assert_eq!(json["family"], "mutex");
    assert_eq!(json["origin"], "peer");
    assert_eq!(json["operations"].as_u64().unwrap(), record.operations);
    assert!(json["wait"]["p999"].is_u64() && json["per_thread"]["mean"].is_f64());
}
