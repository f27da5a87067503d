//! Same machine, seed and program: same result, to the last digit.

use lockyard::mutex::RawMutex;
use lockyard::platform::{Ordering::*, Word};
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_sim::faults::Faults;
use lockyard_sim::machine::catalog;
use lockyard_sim::machine::topology::Placement;
use lockyard_sim::report::Report;
use lockyard_sim::{Config, Sim, Simulation, clock_ps, compute, operation, words};

/// Both kinds of lock, contended, more threads than CPUs for good measure.
fn program(config: &Config, threads: usize, ns: u64) -> Report {
    let simulation = Simulation::new(config, threads).unwrap();
    let spin = simulation.place("spin", RawQSpinLock::<Sim>::default()).unwrap();
    let mutex = simulation.place("mutex", RawMutex::<Sim>::default()).unwrap();
    simulation.new_line();
    let counters = simulation.place("counters", [words::U64::default(), words::U64::default()]).unwrap();
    let report = simulation
        .run(|thread| {
            while clock_ps() < ns * 1000 {
                spin.acquire();
                counters[0].store(counters[0].load(Relaxed) + 1, Relaxed);
                // SAFETY: acquired above.
                unsafe { spin.release() };
                mutex.acquire();
                counters[1].store(counters[1].load(Relaxed) + 1, Relaxed);
                compute(30);
                // SAFETY: acquired above.
                unsafe { mutex.release() };
                operation();
                compute(20 * (thread as u64 % 7));
            }
        })
        .unwrap();
    assert_eq!(counters.each_ref().map(|counter| counter.load(Relaxed)), [report.operations(); 2]);
    report
}

fn config(id: &str) -> Config {
    Config::new(catalog::machine(id).unwrap())
}

#[test]
fn repeats_agree_on_any_host_thread() {
    let config = config("skx_2s_40c");
    let first = program(&config, 100, 300_000).digest();
    for _ in 0..3 {
        assert_eq!(program(&config, 100, 300_000).digest(), first);
    }
    let others: Vec<u64> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| program(&config, 100, 300_000).digest())).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(others, [first, first]);
}

#[test]
fn run_ahead_changes_nothing() {
    for id in ["skx_2s_40c", "kunpeng920_2s_96c", "epyc9654_2s:nps4", "quad2008"] {
        let config = config(id);
        let slow = Config { run_ahead: false, ..config.clone() };
        let (with, without) = (program(&config, 60, 200_000), program(&slow, 60, 200_000));
        assert_eq!(with.digest(), without.digest(), "{id}");
        assert!(with.resumes < without.resumes);
    }
}

#[test]
fn seeds_and_placements_matter() {
    let config = config("epyc9654_2s");
    let digest = |config: &Config| program(config, 24, 100_000).digest();
    let first = digest(&config);
    assert_ne!(first, digest(&Config { seed: 2, ..config.clone() }));
    assert_ne!(first, digest(&Config { placement: Placement::Spread, ..config.clone() }));
}

#[test]
fn faults_repeat_and_locks_survive_them() {
    for seed in 0..4 {
        let config = Config { faults: Faults::ROUGH, seed, ..config("skx_2s_40c") };
        let first = program(&config, 16, 1_000_000).digest();
        assert_eq!(program(&config, 16, 1_000_000).digest(), first);
    }
}

/// The results of this version. A change of the model, of a machine file or of a lock changes them:
/// then look at the difference, and write down the new ones.
#[test]
fn golden() {
    let digests: Vec<String> = ["ivb_ex_8s", "epyc9654_2s:nps4", "kunpeng920_2s_96c"]
        .iter()
        .map(|id| format!("{:016x}", program(&config(id), 32, 100_000).digest()))
        .collect();
    assert_eq!(digests, ["0b14be7eb0b65c19", "ebd8af41defef24c", "5dc061cf00532711"]);
}
