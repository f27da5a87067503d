//! Tables of simulated runs, and where time and lines went.

use std::collections::BTreeMap;
use std::fmt::Write;

use lockyard_sim::report::{Report, Times};
use lockyard_work::Record;

use super::Outcome;
use super::json::{transfers_per_op, window};
use crate::events;
use crate::hq;
use crate::report::look::{Look, align_right, new_table, trimmed};
use crate::report::numbers;
use crate::results;

/// The most hot lines and events that are shown per lock.
const MOST: usize = 6;

/// All runs, where time and lines went, and a legend.
pub(crate) fn render(outcomes: &[Outcome], look: Look) -> String {
    let mut out = tables(outcomes, look, true);
    for Outcome { run, result } in outcomes {
        if let Err(why) = result {
            let _ = writeln!(
                out,
                "FAILED: {} on {}, {}: {why}",
                run.lock.label(),
                run.machine(),
                results::title(&run.spec, true)
            );
        }
    }
    let legend = [
        "kops/s       thousand turns per simulated second, all threads together",
        "fairness     share of the turns that the busier half of the threads got: 0.50 is even, 1.00 starves half",
        "lines/turn   cache lines that moved between cores, or came from memory, per turn",
        "moved        lines that moved, by distance; which lines moved most in the whole run, and how often",
        "run … sleep  how the locking threads spent the time: executing, spinning, waiting for a CPU, asleep",
    ];
    for line in legend {
        let _ = writeln!(out, "{}", look.dim(line));
    }
    let kinds = [
        (
            true,
            "as a program's locks on Linux, which are not told that their CPU is needed: for 20 µs at most, then asleep",
        ),
        (
            false,
            "as a kernel's locks, which are told that their CPU is needed; a program's (--workload FILE) sleep earlier",
        ),
    ];
    for (_, said) in kinds.iter().filter(|(linux, _)| outcomes.iter().any(|one| one.run.config.as_linux == *linux)) {
        let _ = writeln!(out, "{}", look.dim(&format!("spin         {said}")));
    }
    out
}

/// A table per machine and placement, its cells below each other.
pub(crate) fn tables(outcomes: &[Outcome], look: Look, detailed: bool) -> String {
    let mut out = String::new();
    for machine in outcomes.chunk_by(|a, b| a.run.machine() == b.run.machine()) {
        let _ = writeln!(out, "{}", look.bold(&machine[0].run.machine()));
        let table = rates(machine, look);
        // Every row is one line: cells are titled, and explained, by lines set between the rows.
        let mut lines = table.lines();
        for line in lines.by_ref().take(2) {
            let _ = writeln!(out, "{line}");
        }
        for cell in machine.chunk_by(|a, b| a.run.spec == b.run.spec) {
            let _ = writeln!(out, "{}", look.bold(&results::title(&cell[0].run.spec, true)));
            for line in lines.by_ref().take(done(cell).count()) {
                let _ = writeln!(out, "{line}");
            }
            if detailed {
                out.push_str(&details(cell, look));
            }
        }
        out.push('\n');
    }
    out
}

fn done(cell: &[Outcome]) -> impl Iterator<Item = (&Outcome, &Record, &Report)> {
    cell.iter().filter_map(|outcome| outcome.result.as_ref().ok().map(|(record, report)| (outcome, record, report)))
}

fn rates(machine: &[Outcome], look: Look) -> String {
    let head = ["  ", "kops/s", "fairness", "longest wait", "no turn", "lines/turn", "run", "spin", "ready", "sleep"];
    let mut table = new_table(look, head);
    align_right(&mut table, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (outcome, record, report) in done(machine) {
        let idle = if record.idle_threads == 0 { "–".to_owned() } else { record.idle_threads.to_string() };
        let lines: f64 = transfers_per_op(record, report).values().sum();
        let mut row = vec![
            format!("  {}", outcome.run.lock.label()),
            numbers::three(record.kops_per_s),
            format!("{:.2}", record.fairness),
            numbers::time(record.wait.max as f64),
            idle,
            numbers::three(lines),
        ];
        row.extend(shares(window(report).times).map(|share| format!("{:.0} %", share * 100.0)));
        table.add_row(row);
    }
    trimmed(&table)
}

/// Running, spinning, runnable, sleeping, of all.
fn shares(times: Times) -> [f64; 4] {
    let all = [times.running_ns, times.spinning_ns, times.runnable_ns, times.sleeping_ns];
    let sum = all.iter().sum::<u64>().max(1) as f64;
    all.map(|ns| ns as f64 / sum)
}

fn details(cell: &[Outcome], look: Look) -> String {
    let mut out = String::new();
    for (outcome, record, report) in done(cell) {
        let label = outcome.run.lock.label();
        let classes: Vec<String> = transfers_per_op(record, report)
            .into_iter()
            .map(|(class, per_op)| format!("{class} {}", numbers::three(per_op)))
            .collect();
        let hot: Vec<String> = report
            .hottest
            .iter()
            .take(MOST)
            .map(|line| format!("{} {}", line.name, numbers::grouped(line.transfers)))
            .collect();
        let _ = writeln!(out, "  {}", look.dim(&format!("{label} moved lines per turn: {}", listed(&classes))));
        let _ = writeln!(out, "  {}", look.dim(&format!("{label} moved most: {}", listed(&hot))));
        if !record.metrics.is_empty() {
            let metrics = record.metrics.iter().map(|(name, value)| format!("{name} {}", numbers::three(*value)));
            let metrics: Vec<String> = metrics.collect();
            let _ = writeln!(out, "  {}", look.dim(&format!("{label} measured beside: {}", listed(&metrics))));
        }
        if look.events {
            let events = ranked(&record.events, record.operations);
            let _ = writeln!(out, "  {}", look.dim(&format!("{label} events per 1000 turns: {}", listed(&events))));
            if hq::is_hierarchical(&label) {
                let _ = writeln!(out, "  {}", look.dim(&hq::settings_line()));
            }
        }
    }
    out
}

fn ranked(all: &BTreeMap<String, u64>, turns: u64) -> Vec<String> {
    let mut list: Vec<(&String, u64)> = all.iter().map(|(name, &count)| (name, count)).collect();
    list.sort_by_key(|&(name, count)| (u64::MAX - count, name));
    let rate = |count: u64| numbers::three(count as f64 * 1000.0 / turns.max(1) as f64);
    let known = list.into_iter().filter(|(name, count)| (*count as i64) > 0 && !events::plain(name).is_empty());
    known.take(MOST).map(|(name, count)| format!("{name} {}", rate(count))).collect()
}

fn listed(parts: &[String]) -> String {
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
