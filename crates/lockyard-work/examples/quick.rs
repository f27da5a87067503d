//! The numbers to beat, in a minute: every lock on `contend`, briefly.
//!
//! `cargo run --release -p lockyard-work --example quick -- [--secs 0.3] [--think 1] [--reads 0]
//! [part of a name …]`

use std::io::{self, Write};
use std::time::Duration;

use lockyard_work::{Candidate, Record, Spec, Workload, candidates};

fn main() {
    let (mut secs, mut think, mut reads) = (0.3, 1, 0.0);
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse::<f64>().ok()).expect("a number");
        match argument.as_str() {
            "--secs" => secs = number(),
            "--think" => think = number() as u32,
            "--reads" => reads = number(),
            _ => wanted.push(argument),
        }
    }
    let chosen: Vec<&Candidate> = candidates()
        .iter()
        .filter(|lock| wanted.is_empty() || wanted.iter().any(|part| lock.label().contains(part)))
        .collect();
    println!("think {think}, reads {reads} %, {secs} s a cell");
    println!(
        "{:<31} {:>7} {:>4} {:>9} {:>8} {:>6} {:>8} {:>9} {:>5} {:>5} {:>6} {:>8}",
        "lock", "threads", "cs", "kops/s", "ns/op", "fair", "p99 us", "max ms", "idle", "busy", "others", "csw/s"
    );
    for threads in [2, 16, 64] {
        for cs in [1, 20, 100] {
            let spec = Spec {
                threads,
                cs,
                think,
                read_pct: reads,
                duration: Duration::from_secs_f64(secs),
                warmup: Duration::from_millis(50),
                ..Spec::new(Workload::Contend)
            };
            for lock in chosen.iter().filter(|lock| lock.check(&spec).is_ok()) {
                let line = match lock.measure(&spec) {
                    Ok(record) => line(&record),
                    Err(error) => format!("{}: {error}", lock.label()),
                };
                if writeln!(io::stdout(), "{line}").is_err() {
                    return; // nobody reads on
                }
            }
            println!();
        }
    }
}

fn line(record: &Record) -> String {
    let switches = record.voluntary_switches + record.involuntary_switches;
    format!(
        "{:<31} {:>7} {:>4} {:>9.0} {:>8.0} {:>6.3} {:>8.1} {:>9.2} {:>5} {:>5.2} {:>6.2} {:>8.0}",
        record.label(),
        record.threads,
        record.cs,
        record.kops_per_s,
        record.ns_per_op,
        record.fairness,
        record.wait.p99 as f64 / 1e3,
        record.wait.max as f64 / 1e6,
        record.idle_threads,
        record.busy,
        record.others,
        switches as f64 * 1e9 / record.duration_ns as f64,
    )
}
