//! Ordering mutants that loom cannot judge and simulated machines can: torture with one ordering
//! weakened must find that an ordering is missing.
//!
//! They are listed with the other survivors of loom, and their argument names the locks whose
//! torture kills them.

use std::fs;
use std::process::Command;

use crate::tools::{self, Outcome};

const SURVIVORS: &str = "crates/lockyard-check/loom-survivors.txt";
const LIBRARY: &str = "crates/lockyard/src";
/// How an argument begins that is checked here.
const KILLED: &str = "killed on simulated machines: ";
/// Several nodes, so that locks which queue by node do.
const MACHINE: &str = "skx_2s_40c";
/// A mutant must be found in so many schedules of this size: crowds, because most of these
/// orderings matter when three threads and more come between a look and what follows it.
const CROWD: [&str; 6] = ["--schedules", "10000", "--threads", "12", "--operations", "60"];

/// A mutant of the list, and whose torture kills it.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    file: String,
    source: String,
    /// `failure ` and the ordering, or the ordering.
    order: String,
    locks: Vec<String>,
}

fn listed(text: &str) -> Vec<Listed> {
    let entry = |line: &str| {
        let (entry, locks) = line.rsplit_once(" | ")?;
        let locks = locks.strip_prefix(KILLED)?.split(", ").map(str::to_owned).collect();
        let (file, rest) = entry.split_once(" | ")?;
        let (source, order) = rest.rsplit_once(" | ")?;
        Some(Listed { file: file.to_owned(), source: source.to_owned(), order: order.to_owned(), locks })
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect()
}

/// What `--weaken` takes for each of its lines.
fn sites(mutant: &Listed, text: &str) -> Vec<String> {
    let (part, order) = mutant.order.strip_prefix("failure ").map_or(("", &*mutant.order), |order| (":failure", order));
    let lines = text.lines().enumerate().filter(|(_, line)| line.trim() == mutant.source);
    lines.map(|(number, _)| format!("{}:{}{part}={order}", mutant.file, number + 1)).collect()
}

/// Torture of `lock`: whether it passed, and its verdict.
fn torture(lock: &str, site: Option<&str>) -> Outcome<(bool, String)> {
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "--quiet", "-p", "lockyard-cli", "--", "torture"]);
    command.args(["--lock", lock, "--machine", MACHINE]).args(CROWD);
    command.args(site.iter().flat_map(|site| ["--weaken", *site]));
    let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let verdict = text.lines().find(|line| line.contains(": FAILED: ") || line.contains(": passed: "));
    match (output.status.code(), verdict) {
        (Some(0), Some(verdict)) => Ok((true, verdict.to_owned())),
        (Some(1), Some(verdict)) => Ok((false, verdict.to_owned())),
        _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Judges the mutants of the list whose line contains `only`. Prints what killed each.
pub(crate) fn judge(only: &str) -> Outcome {
    let read = |path: String| fs::read_to_string(tools::root().join(&path)).map_err(|error| format!("{path}: {error}"));
    let mutants = listed(&read(SURVIVORS.to_owned())?);
    let mutants: Vec<Listed> =
        mutants.into_iter().filter(|mutant| format!("{} {}", mutant.file, mutant.source).contains(only)).collect();
    let mut locks: Vec<&String> = mutants.iter().flat_map(|mutant| &mutant.locks).collect();
    locks.sort();
    locks.dedup();
    println!("\n=== mutants that simulated machines judge ===");
    for lock in locks {
        match torture(lock, None)? {
            (true, verdict) => println!("unchanged {verdict}"),
            (false, verdict) => return Err(format!("without a mutant {verdict}")),
        }
    }
    let mut alive = 0;
    for mutant in &mutants {
        let sites = sites(mutant, &read(format!("{LIBRARY}/{}", mutant.file))?);
        if sites.is_empty() {
            return Err(format!("{SURVIVORS}: {} has no line '{}'", mutant.file, mutant.source));
        }
        for (site, lock) in sites.iter().flat_map(|site| mutant.locks.iter().map(move |lock| (site, lock))) {
            let (passed, verdict) = torture(lock, Some(site))?;
            let killed = !passed && verdict.contains("an ordering is missing");
            println!("{} {site} by torture of {verdict}", if killed { "killed   " } else { "SURVIVES " });
            alive += usize::from(!killed);
        }
    }
    println!("{} mutants that loom cannot judge, {alive} of their sites alive", mutants.len());
    if alive == 0 { Ok(()) } else { Err(format!("{alive} weakened orderings were not noticed by torture")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# FILE | SOURCE LINE | [failure ]ORDERING | ARGUMENT
spin/a.rs | if x.load(Acquire) | 1 > 0 { | Relaxed | killed on simulated machines: cna, hq-spinlock
spin/a.rs | y.exchange(AcqRel, Acquire) | failure Relaxed | killed on simulated machines: mcs
spin/b.rs | z.load(Acquire) | Relaxed | nobody reads it
";

    #[test]
    fn what_simulated_machines_kill_is_found_on_its_lines() {
        let mutants = listed(TEXT);
        assert_eq!(mutants.len(), 2);
        assert_eq!(mutants[0].locks, ["cna", "hq-spinlock"]);
        let source = "fn f() {\n    y.exchange(AcqRel, Acquire)\n    if x.load(Acquire) | 1 > 0 {\n    y.exchange(AcqRel, Acquire)\n";
        assert_eq!(sites(&mutants[0], source), ["spin/a.rs:3=Relaxed"]);
        assert_eq!(sites(&mutants[1], source), ["spin/a.rs:2:failure=Relaxed", "spin/a.rs:4:failure=Relaxed"]);
    }
}
