//! What a hand-over of a spinlock takes beside its limit, with threads on all CPUs of the machine
//! but one.
//!
//! `cargo run --release -p lockyard-work -F simulated --example handover [-- SEEDS]`
//!
//! The limit of a lock that never leaves its node: a turn alone, on lines that are there, and one
//! transfer inside the node, the mean over its cores. Machines are EPYC 9654 pairs in their
//! firmware modes; the hierarchical lock queues by last-level cache, as it does by default, and by
//! node, as published. Turns of three kinds: acquire and release and nothing else; `torture-spin`,
//! whose own code belongs to the turn; and that with 50 PAUSEs (0.9 µs) between two turns of a
//! thread. Medians over seeds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lockyard::platform::Platform;
use lockyard::spin::WordLock;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::{RawHqSpinLock, Tunable};
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_sim::machine::catalog;
use lockyard_sim::machine::topology::Placement;
use lockyard_sim::{Config, Sim, Simulation, clock_ps};
use lockyard_work::simulated::{LOCKS, session};
use lockyard_work::{Candidate, Spec, Workload};

type Failure = Box<dyn std::error::Error>;

const MODES: [&str; 4] = ["nps1", "nps2", "nps4", "nps12"];
const WARMUP: Duration = Duration::from_micros(500);
const WINDOW: Duration = Duration::from_millis(2);

/// A lock, and whether its lanes are by cache.
struct Column {
    lock: &'static str,
    by_cache: u32,
    title: &'static str,
    bare: fn(&Config, usize) -> Result<f64, Failure>,
}

const COLUMNS: [Column; 4] = [
    Column { lock: "hq-spinlock", by_cache: 1, title: "hq-spinlock", bare: bare::<RawHqSpinLock<Sim>> },
    Column { lock: "hq-spinlock", by_cache: 0, title: "by node", bare: bare::<RawHqSpinLock<Sim>> },
    Column { lock: "cna", by_cache: 1, title: "cna", bare: bare::<RawCnaSpinLock<Sim>> },
    Column { lock: "qspinlock", by_cache: 1, title: "qspinlock", bare: bare::<RawQSpinLock<Sim>> },
];

fn main() -> Result<(), Failure> {
    let seeds = std::env::args().nth(1).map_or(Ok(3), |text| text.parse())?;
    for (title, think) in [
        ("Acquire and release", None),
        ("torture-spin", Some(0)),
        ("torture-spin, with 50 PAUSEs of think time", Some(50)),
    ] {
        println!("\n{title}, ns per turn (and by the limit):\n");
        println!("| nodes | transfer | alone | limit | {} |", COLUMNS.map(|column| column.title).join(" | "));
        println!("|---|---|---|---|{}", "---|".repeat(COLUMNS.len()));
        for mode in MODES {
            println!("{}", row(mode, think, seeds)?);
        }
    }
    Ok(())
}

/// A machine's row; with `think`, of the workload, else of the bare lock.
fn row(mode: &str, think: Option<u32>, seeds: u64) -> Result<String, Failure> {
    let machine = format!("epyc9654_2s:{mode}");
    let model = catalog::machine(&machine)?;
    let topology = model.topology();
    let cores = topology.cores() / topology.nodes;
    let pairs = (0..cores).flat_map(|a| (0..cores).filter(move |b| *b != a).map(move |b| (a, b)));
    let transfer = pairs.map(|(a, b)| model.transfer_ns(a, b)).sum::<f64>() / (cores * (cores - 1)) as f64;
    let alone = median(&COLUMNS[0], &machine, 1, think.map(|_| 0), seeds)?;
    let limit = alone + transfer;
    let mut row = format!("| {} ({mode}) | {transfer:.1} | {alone:.1} | {limit:.0} |", topology.nodes);
    for column in &COLUMNS {
        let ns = median(column, &machine, topology.cpus() - 1, think, seeds)?;
        row += &format!(" {ns:.0} ({:.2}) |", ns / limit);
    }
    Ok(row)
}

fn median(column: &Column, machine: &str, threads: usize, think: Option<u32>, seeds: u64) -> Result<f64, Failure> {
    Sim::commons().pool.tunables().set(Tunable::LanesByCache, column.by_cache)?;
    let mut found = Vec::new();
    for seed in 1..=seeds.max(1) {
        let config = Config { seed, placement: Placement::Spread, ..Config::new(catalog::machine(machine)?) };
        found.push(match think {
            None => (column.bare)(&config, threads)?,
            Some(think) => worked(column.lock, &config, threads, think)?,
        });
    }
    found.sort_by(f64::total_cmp);
    Ok(found[found.len() / 2])
}

/// What a turn of the workload takes, all threads together, ns.
fn worked(lock: &str, config: &Config, threads: usize, think: u32) -> Result<f64, Failure> {
    let lock: &Candidate = LOCKS.iter().find(|known| known.label() == lock).ok_or("no such lock")?;
    let spec = Spec {
        threads,
        think,
        seed: config.seed,
        warmup: WARMUP,
        duration: WINDOW,
        ..Spec::new(Workload::TortureSpin)
    };
    let (record, _) = session(config, || lock.measure(&spec));
    Ok(record?.ns_per_op)
}

/// What acquire and release take, all threads together, ns.
fn bare<L: WordLock<Sim>>(config: &Config, threads: usize) -> Result<f64, Failure> {
    let simulation = Simulation::new(config, threads)?;
    simulation.new_line();
    let lock = simulation.place("the lock", L::default())?;
    let begin = WARMUP.as_nanos() as u64 * 1000;
    let end = begin + WINDOW.as_nanos() as u64 * 1000;
    // The host's: it costs the simulated threads nothing.
    let turns = AtomicU64::new(0);
    simulation.run(|_| {
        loop {
            lock.acquire();
            // SAFETY: acquired above.
            unsafe { lock.release() };
            let now = clock_ps();
            if now >= end {
                return;
            }
            turns.fetch_add((now >= begin).into(), Relaxed);
        }
    })?;
    Ok((end - begin) as f64 / 1e3 / turns.into_inner() as f64)
}
