//! All scenarios, each to bounds that are kept in a file with the number of executions that they
//! take.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use lockyard_check::model::scenarios::{self, Limits, Scenario};

use crate::process::{Report, explore, side_by_side};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/loom-counts.txt");
/// The short form goes less far where there are more executions than this.
const SHORT: u64 = 8_000;
/// A preemption less takes about so many times fewer executions.
const STEP: u64 = 25;
/// Executions may change by so much, in percent, before somebody must look.
const DRIFT: u64 = 20;

/// What the file says of a scenario.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// How far it goes.
    pub(crate) limits: Limits,
    /// Its executions.
    pub(crate) executions: u64,
}

impl Kept {
    /// How far the short form goes, if not as far: two threads without bounds to three preemptions;
    /// else a preemption less, or to one if that would still be too much.
    fn shorter(self) -> Option<Limits> {
        let preemptions = match self.limits.preemptions {
            _ if self.executions <= SHORT => return None,
            None => 3,
            Some(most) if self.executions <= SHORT * STEP => most.saturating_sub(1).max(1),
            Some(_) => 1,
        };
        self.limits.lower().find(|limits| limits.preemptions == Some(preemptions))
    }
}

/// The file.
pub(crate) fn kept() -> Result<BTreeMap<String, Kept>, String> {
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, limits, executions, ..] = words.as_slice() else {
                return Err(format!("{FILE}: not NAME LIMITS EXECUTIONS: {line}"));
            };
            let executions = executions.parse().map_err(|_| format!("{FILE}: not a number: {executions}"))?;
            Ok(((*name).to_owned(), Kept { limits: limits.parse()?, executions }))
        })
        .collect()
}

/// The scenarios whose names contain `text`.
pub(crate) fn chosen(text: &str) -> Vec<Scenario> {
    scenarios::all().into_iter().filter(|scenario| scenario.name.contains(text)).collect()
}

/// The command. Whether all is well.
pub(crate) fn run(options: &[&str]) -> Result<bool, String> {
    let (mut only, mut short, mut bless, mut seconds) = ("", false, false, 60);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match *word {
            "--only" => only = words.next().ok_or("--only needs a text")?,
            "--short" => short = true,
            "--bless" => bless = true,
            "--seconds" => {
                let number = words.next().ok_or("--seconds needs a number")?;
                seconds = number.parse().map_err(|_| format!("not a number: {number}"))?;
            }
            _ => return Err(format!("no such option: {word}")),
        }
    }
    if bless { write(only, seconds) } else { compare(only, short) }
}

fn line(scenario: &Scenario, report: &Report) -> String {
    let how = match (&report.failure, report.complete, report.missed.is_empty()) {
        (Some(failure), ..) => format!("FAILED after {}: {failure}", report.executions),
        (None, false, _) => "NOT COMPLETE".to_owned(),
        (None, true, false) => format!("DID NOT REACH {}", report.missed.join(", ")),
        (None, true, true) => "complete".to_owned(),
    };
    format!(
        "{:<44} {} threads {:>9} {:>9} executions, {:>8} cut {:>6.1} s  {how}",
        scenario.name,
        scenario.threads,
        scenario.limits().to_string(),
        report.executions,
        report.cut,
        report.took.as_secs_f64()
    )
}

fn is_well(report: &Report) -> bool {
    report.failure.is_none() && report.complete && report.missed.is_empty()
}

/// A lock whose release orders nothing must fail, or the others' passing says nothing.
fn can_fail() -> Result<bool, String> {
    let scenario = "ttas/ww/spins";
    let limits = Limits { preemptions: None, budget: None };
    let sites = explore(scenario, limits, 60, None)?.sites;
    let release = sites.iter().find(|site| site.contains("ttas.rs") && site.ends_with(":store=Release"));
    let release = release.ok_or("the ttas lock has no release")?.replace("=Release", "=Relaxed");
    let report = explore(scenario, limits, 60, Some(&release))?;
    let verdict = report.failure.as_ref().map_or("PASSED: nothing here can be believed", |_| "fails, as it must");
    println!("a ttas lock that is released with a relaxed store {verdict}");
    Ok(report.failure.is_some())
}

fn compare(only: &str, short: bool) -> Result<bool, String> {
    let kept = kept()?;
    let begun = Instant::now();
    let mut list = Vec::new();
    let mut well = can_fail()?;
    for scenario in chosen(only) {
        match kept.get(&scenario.name) {
            Some(kept) => {
                let bar = scenario.limits();
                match kept.shorter().filter(|_| short) {
                    Some(shorter) => list.push((scenario.within(shorter), bar, None)),
                    None => list.push((scenario.within(kept.limits), bar, Some(kept.executions))),
                }
            }
            None => {
                println!("{:<44} not in loom-counts.txt: run `cargo xtask models loom --bless`", scenario.name);
                well = false;
            }
        }
    }
    let results = side_by_side(&list, |(scenario, bar, before)| {
        let report = explore(&scenario.name, scenario.limits(), 600, None)?;
        let drift = before.filter(|before| report.executions.abs_diff(*before) * 100 > DRIFT * before);
        let below = if scenario.limits() == *bar { String::new() } else { format!(", below the bar of {bar}") };
        let remark = drift.map_or(String::new(), |before| format!("  DRIFT: {before} executions before"));
        println!("{}{below}{remark}", line(scenario, &report));
        // With fewer preemptions not everything is reached that should be.
        let well = if before.is_some() { is_well(&report) } else { report.failure.is_none() && report.complete };
        Ok::<_, String>((well && drift.is_none(), report.executions))
    });
    let mut executions = 0;
    for result in results {
        let (passed, count) = result?;
        well &= passed;
        executions += count;
    }
    let below = list.iter().filter(|(scenario, bar, _)| scenario.limits() != *bar).count();
    println!(
        "loom: {} scenarios, {executions} executions, {} s; {below} not as far as the bar, each of which says so above",
        list.len(),
        begun.elapsed().as_secs()
    );
    Ok(well)
}

/// Explores to the bar's bounds; if that takes longer than `seconds`, to the highest that do not:
/// with two threads from above, with more from below.
fn highest(scenario: &Scenario, seconds: u64) -> Result<(Scenario, Report), String> {
    let bar = scenario.limits();
    let report = explore(&scenario.name, bar, seconds, None)?;
    let mut best = (scenario.clone(), report);
    if is_decided(&best.1) {
        return Ok(best);
    }
    let mut ladder: Vec<Limits> = bar.lower().collect();
    let down = scenario.threads == 2;
    if !down {
        ladder.reverse();
    }
    for limits in ladder {
        let report = explore(&scenario.name, limits, seconds, None)?;
        let decided = is_decided(&report);
        if decided || !is_decided(&best.1) {
            best = (scenario.clone().within(limits), report);
        }
        // From above the first that ends is the highest, from below the last before one that does
        // not.
        if decided == down || best.1.failure.is_some() {
            break;
        }
    }
    Ok(best)
}

fn is_decided(report: &Report) -> bool {
    report.complete || report.failure.is_some()
}

/// Explores the scenarios with `only` in their names, and notes each as soon as it is done: who is
/// interrupted keeps what there is.
fn write(only: &str, seconds: u64) -> Result<bool, String> {
    let found = Mutex::new(kept().unwrap_or_default());
    let list = chosen(only);
    let results = side_by_side(&list, |scenario| {
        let (scenario, report) = highest(scenario, seconds)?;
        println!("{}", line(&scenario, &report));
        if report.complete {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.insert(scenario.name.clone(), Kept { limits: scenario.limits(), executions: report.executions });
            save(&found)?;
        }
        Ok::<_, String>(is_well(&report))
    });
    let mut well = true;
    for result in results {
        well &= result?;
    }
    Ok(well)
}

/// Writes the file.
fn save(found: &BTreeMap<String, Kept>) -> Result<(), String> {
    let mut text = String::from(
        "# What loom explores: scenario, preemptions/failed polls, executions; then, where these bounds are\n\
         # lower than the bar, the bar.\n\
         # Checked by `cargo xtask models loom`, written by `cargo xtask models loom --bless`.\n",
    );
    for scenario in scenarios::all() {
        let Some(kept) = found.get(&scenario.name) else { continue };
        let bar = scenario.limits();
        let lower = if bar == kept.limits { String::new() } else { format!(" bar {bar}") };
        writeln!(text, "{} {} {}{lower}", scenario.name, kept.limits, kept.executions)
            .map_err(|error| error.to_string())?;
    }
    let new = format!("{FILE}.new");
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, FILE));
    written.map_err(|error| format!("{FILE}: {error}"))
}
