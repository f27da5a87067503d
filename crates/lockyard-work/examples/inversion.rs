//! The bar of the inversion test: on one CPU, in every one of so many runs, high waits at most 100
//! µs longer than the section of the owner at the end of the chain.
//!
//! `cargo run --release -p lockyard-work --example inversion -- [--runs 1000] [--section-us 100]
//! [part of a lock's name …]`
//!
//! Column `late`: runs that were not so by the clock; `taken`: how many of these would have been in
//! time if the CPU, on which a thread of this program could run all the while, had not been taken
//! from all of them; `overtaken`: runs in which medium had the CPU while high waited: the inversion
//! itself. Ends with 1 if any other run of a Lockyard lock was late, with 2 where it could not be
//! measured.

use std::process::ExitCode;
use std::time::Duration;

use lockyard::platform::linux::Linux;
use lockyard_work::{Candidate, Machine, Origin, Spec, Workload, candidates};

const USUAL: [&str; 4] = ["pi-mutex", "rtmutex-tree", "pthread-mutex-pi", "std-mutex"];

fn main() -> ExitCode {
    let (mut runs, mut section_us) = (1_000.0, 100.0);
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let target = match argument.as_str() {
            "--runs" => &mut runs,
            "--section-us" => &mut section_us,
            _ => {
                wanted.push(argument);
                continue;
            }
        };
        match arguments.next().and_then(|text| text.parse::<f64>().ok()).filter(|number| (1.0..=1e6).contains(number)) {
            Some(number) => *target = number,
            None => {
                eprintln!("{argument}: a number from 1 to 1000000 is needed");
                return ExitCode::from(2);
            }
        }
    }
    let chosen = |lock: &&Candidate| match wanted.as_slice() {
        [] => USUAL.contains(&lock.name),
        parts => parts.iter().any(|part| lock.label().contains(part)),
    };
    println!("section {section_us} µs, medium thinks ten times as long; waits of the high thread in µs");
    println!(
        "{:<24} {:>5} {:>6} {:>8} {:>8} {:>8} {:>9} {:>6} {:>6} {:>9}",
        "lock", "chain", "runs", "p50", "p99", "max", "beyond", "late", "taken", "overtaken"
    );
    let mut late = false;
    for lock in candidates().iter().filter(chosen) {
        for depth in 1..=8 {
            let section = Linux::pauses((section_us * 1e3) as u64);
            // A run takes a section, ten thinks and a third of both as a pause; half as much again,
            // so that it is not one too few.
            let seconds = runs * section_us * 11.0 * 4.0 / 3.0 * 1.5 / 1e6;
            let spec = Spec {
                threads: depth + 2,
                cs: section,
                think: section * 10,
                duration: Duration::from_secs_f64(seconds),
                warmup: Duration::from_millis(20),
                ..Spec::new(Workload::PiInversion)
            };
            let record = match lock.measure(&spec) {
                Ok(record) => record,
                Err(error) => {
                    eprintln!("{}: {error}", lock.label());
                    return ExitCode::from(2);
                }
            };
            let metric = |name: &str| record.metrics.get(name).copied().unwrap_or(f64::NAN);
            let us = |ns: u64| ns as f64 / 1e3;
            println!(
                "{:<24} {:>5} {:>6} {:>8.1} {:>8.1} {:>8.1} {:>9.1} {:>6} {:>6} {:>9}",
                lock.label(),
                depth,
                metric("rounds"),
                us(record.wait.p50),
                us(record.wait.p99),
                us(record.wait.max),
                metric("beyond_section_us"),
                metric("late"),
                metric("taken"),
                metric("overtaken")
            );
            late |= lock.origin == Origin::Lockyard && metric("late") > metric("taken");
        }
    }
    ExitCode::from(u8::from(late))
}
