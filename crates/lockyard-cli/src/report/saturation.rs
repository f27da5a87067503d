//! At how many threads a lock is always busy, from what was counted:
//!
//! ```text
//! threads = CPU time per acquisition / (hold + transfer)
//! ```
//!
//! as `lockyard report` has it of a recording, which knows more. The CPU time is that of all
//! threads together, spinning included. A hold that sleeps is longer than its CPU time: then one
//! thread keeps the lock busy. The transfer of the lock's line is the machine's, and 0 without one.
//!
//! Left out: locks whose class has several, or readers; those that were taken rarely, and those
//! that more than [`MANY`] threads would keep busy.

use std::fmt::Write;
use std::sync::Arc;

use lockyard_segment::sample::ClassSample;
use lockyard_sim::machine::model::Model as Machine;

use super::advice;
use super::facts::Facts;
use super::numbers;
use crate::predict;

/// Fewer acquisitions tell no average.
const FEW: u64 = 100;
/// More threads than anybody has.
const MANY: f64 = 1_000.0;
/// So many locks are told of.
const MOST: usize = 3;

/// The lines, for this machine without transfers, or for `machines`. Empty: there is no such lock.
pub(crate) fn told(facts: &Facts<'_>, machines: &[Arc<Machine>]) -> String {
    let lines: Vec<String> = match machines {
        [] => line(facts, &|_| 0.0).into_iter().collect(),
        all => all
            .iter()
            .filter_map(|machine| {
                let line = line(facts, &|threads| predict::transfer_ns(machine, threads))?;
                Some(format!("{}: {line}", machine.label()))
            })
            .collect(),
    };
    let head = match machines {
        _ if lines.is_empty() => return String::new(),
        [] => " (at most: see --machine)",
        _ => ", from averages alone",
    };
    let mut out = format!("\n  Threads at which a lock is always busy if they never sleep{head}:\n");
    for line in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "    {line}");
    }
    out
}

/// The locks that the fewest threads keep busy, with these threads.
fn line(facts: &Facts<'_>, transfer_ns: &dyn Fn(f64) -> f64) -> Option<String> {
    let cpu = facts.busy_seconds()? * 1e9;
    let alone = facts
        .sample
        .classes
        .iter()
        .filter(|class| class.counts.locks == 1 && class.counts.acquired >= FEW && !is_shared(class));
    let mut found: Vec<(f64, String)> = alone
        .filter_map(|class| {
            let hold = advice::average_hold(facts, class)?;
            let threads = threads(cpu / class.counts.acquired as f64, hold, transfer_ns);
            (threads <= MANY).then(|| (threads, facts.label(class)))
        })
        .collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let found = found.iter().take(MOST);
    let said: Vec<String> =
        found.map(|(threads, label)| format!("{label} at {}", numbers::grouped(threads.round() as u64))).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// Whether readers may have it side by side: which of them took it is told only where others wait.
fn is_shared(class: &ClassSample) -> bool {
    let kind = class.kind.to_ascii_lowercase();
    ["rw", "read"].iter().any(|word| kind.contains(word)) || class.callers.iter().any(|caller| caller.shared)
}

/// With so much CPU time for each hold. The transfer grows with the threads.
fn threads(cpu: f64, hold: f64, transfer_ns: &dyn Fn(f64) -> f64) -> f64 {
    const ROUNDS: usize = 50;
    let of = |threads: f64| (cpu.max(hold) / (hold + transfer_ns(threads)).max(1.0)).max(1.0);
    (0..ROUNDS).fold(of(1.0), |found, _| (found + of(found)) / 2.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockyard_segment::Sample;
    use lockyard_segment::histogram::bucket;
    use lockyard_segment::sample::Counts;

    use super::*;
    use crate::known::Known;
    use crate::symbols::Symbols;

    #[test]
    fn the_formula() {
        assert_eq!(threads(1_000.0, 100.0, &|_| 0.0), 10.0);
        assert!((threads(1_000.0, 100.0, &|_| 100.0) - 5.0).abs() < 0.01);
        assert_eq!(threads(1_000.0, 100_000.0, &|_| 100.0), 1.0, "a hold that sleeps");
        let grows = threads(1_000.0, 100.0, &|threads| if threads > 7.0 { 100.0 } else { 0.0 });
        assert!((5.0..=10.0).contains(&grows), "{grows}");
    }

    #[test]
    fn locks_that_are_one_and_taken_often_are_told_of() {
        let said = |counts: Counts| {
            let class =
                ClassSample { kind: "mutex".to_owned(), name: "a".to_owned(), counts, ..ClassSample::default() };
            let sample = Sample { classes: vec![class], seconds: 1.0, threads: 2, ..Sample::default() };
            let mut known = Known::default();
            (known.cpu_time, known.thread_time) = (Duration::from_secs(1), Duration::from_secs(2));
            let (symbols, thread_time) = (Symbols::default(), Duration::from_secs(2));
            told(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known }, &[])
        };
        let mut counts = Counts { acquired: 100_000, locks: 1, ..Counts::default() };
        (counts.holds[bucket(1_000)], counts.hold_max) = (1_000, 1_000);
        // 10 µs of CPU time for each hold of about 1 µs.
        let text = said(counts.clone());
        assert!(text.contains(" (at most: see --machine):") && text.contains("mutex a at "), "{text}");
        let threads: f64 = text.rsplit(' ').next().and_then(|word| word.trim().parse().ok()).expect("a number");
        assert!((8.0..=12.0).contains(&threads), "{text}");
        assert_eq!(said(Counts { locks: 2, ..counts.clone() }), "");
        assert_eq!(said(Counts { acquired: 99, ..counts }), "");
    }
}
