//! Looks into one simulated cell: where time and cache lines went.
//!
//! `cargo run --release -p lockyard-work -F simulated --example look --
//! MACHINE LOCK[:POLICY] WORKLOAD THREADS [MS] [SEED]`

use std::time::{Duration, Instant};

use lockyard_sim::machine::catalog;
use lockyard_sim::{Config, Error};
use lockyard_work::Spec;
use lockyard_work::simulated::{LOCKS, session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [machine, lock, workload, threads, rest @ ..] = arguments.as_slice() else {
        return Err("MACHINE LOCK[:POLICY] WORKLOAD THREADS [MS] [SEED]".into());
    };
    let number = |index: usize, default: u64| rest.get(index).map_or(Ok(default), |text| text.parse());
    let spec = Spec {
        threads: threads.parse()?,
        duration: Duration::from_millis(number(0, 5)?),
        warmup: Duration::from_micros(500),
        seed: number(1, 1)?,
        ..Spec::new(workload.parse()?)
    };
    let candidate = LOCKS.iter().find(|candidate| candidate.label() == *lock);
    let candidate = candidate.ok_or_else(|| Error::Config(format!("unknown lock '{lock}'")))?;
    let config = Config { seed: spec.seed, ..Config::new(catalog::machine(machine)?) };
    let begin = Instant::now();
    let (record, reports) = session(&config, || candidate.measure(&spec));
    let host = begin.elapsed().as_secs_f64();
    let record = record?;
    println!(
        "{}: {:.1} kops/s, {:.1} ns/op, fairness {:.3}",
        record.machine, record.kops_per_s, record.ns_per_op, record.fairness
    );
    println!("per thread {:?}; waits {:?}; busy {:.3}", record.per_thread, record.wait, record.busy);
    println!("events {:?}", record.events);
    for report in reports {
        println!("{:#?}", report.window);
        println!("hottest {:?}", report.hottest.iter().map(|hot| (&hot.name, hot.transfers)).collect::<Vec<_>>());
        println!(
            "{} lines, {} engine events, {} resumes, {:.0} ms host, {:.1} M memory operations/s",
            report.lines,
            report.engine_events,
            report.resumes,
            host * 1e3,
            report.whole.memory_operations as f64 / host / 1e6
        );
    }
    Ok(())
}
