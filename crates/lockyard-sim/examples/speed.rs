//! How fast the simulator runs on this host: memory operations per second, full cost model. Medians
//! of five runs of 40 simulated milliseconds each, with their setting up.
//!
//! `cargo run --release -p lockyard-sim --example speed -- [machine] [threads …]`

use std::time::Instant;

use lockyard::mutex::RawMutex;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_sim::machine::catalog;
use lockyard_sim::{Config, Sim, Simulation, clock_ps, compute, operation};

const SIMULATED_NS: u64 = 40_000_000;
const RUNS: usize = 5;

fn main() -> Result<(), lockyard_sim::Error> {
    let mut arguments = std::env::args().skip(1);
    let machine = catalog::machine(&arguments.next().unwrap_or_else(|| "epyc9654_2s".to_owned()))?;
    let mut threads: Vec<usize> = arguments.filter_map(|text| text.parse().ok()).collect();
    if threads.is_empty() {
        threads = vec![4, 64, 384];
    }
    println!("{}", machine.name());
    println!(
        "{:<12} {:>7} {:>12} {:>14} {:>12} {:>12} {:>9}",
        "lock", "threads", "locks/ms", "memory ops", "Mops/s host", "Mevents/s", "host ms"
    );
    for n in threads {
        let config = Config::new(machine.clone());
        row("qspinlock", n, &config, RawQSpinLock::<Sim>::default, RawQSpinLock::acquire, |lock| {
            // SAFETY: acquired by the loop.
            unsafe { lock.release() }
        })?;
        row("mutex", n, &config, RawMutex::<Sim>::default, RawMutex::acquire, |lock| {
            // SAFETY: acquired by the loop.
            unsafe { lock.release() }
        })?;
    }
    Ok(())
}

fn row<L: Sync>(
    name: &str,
    n: usize,
    config: &Config,
    make: impl Fn() -> L,
    acquire: impl Fn(&L) + Sync,
    release: impl Fn(&L) + Sync,
) -> Result<(), lockyard_sim::Error> {
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begin = Instant::now();
        let simulation = Simulation::new(config, n)?;
        let lock = simulation.place("lock", make())?;
        let report = simulation.run(|_| {
            while clock_ps() < SIMULATED_NS * 1000 {
                acquire(lock);
                compute(50);
                release(lock);
                operation();
                compute(100);
            }
        })?;
        runs.push((begin.elapsed().as_secs_f64(), report));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, report) = &runs[RUNS / 2];
    println!(
        "{:<12} {:>7} {:>12.0} {:>14} {:>12.2} {:>12.2} {:>9.1}",
        name,
        n,
        report.operations() as f64 * 1e6 / report.whole.ns as f64,
        report.whole.memory_operations,
        report.whole.memory_operations as f64 / seconds / 1e6,
        report.engine_events as f64 / seconds / 1e6,
        seconds * 1e3
    );
    Ok(())
}
