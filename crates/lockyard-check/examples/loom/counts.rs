//! All scenarios, each to bounds that are kept in a file with the number of executions that they take.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use lockyard_check::model::scenarios::{self, Limits, Scenario};

use crate::process::{Report, explore, side_by_side};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/loom-counts.txt");
/// What the short form leaves out: more executions than this.
const SHORT: u64 = 20_000;
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
            Some(kept) if short && kept.executions > SHORT => {}
            Some(kept) => list.push((scenario.within(kept.limits), kept.executions)),
            None => {
                println!("{:<44} not in loom-counts.txt: run `cargo xtask loom --bless`", scenario.name);
                well = false;
            }
        }
    }
    let results = side_by_side(&list, |(scenario, before)| {
        let report = explore(&scenario.name, scenario.limits(), 600, None)?;
        let drift = report.executions.abs_diff(*before) * 100 > DRIFT * before;
        let remark = if drift { format!("  DRIFT: {before} executions before") } else { String::new() };
        println!("{}{remark}", line(scenario, &report));
        Ok::<_, String>((is_well(&report) && !drift, report.executions))
    });
    let mut executions = 0;
    for result in results {
        let (passed, count) = result?;
        well &= passed;
        executions += count;
    }
    println!("loom: {} scenarios, {executions} executions, {} s", list.len(), begun.elapsed().as_secs());
    Ok(well)
}

/// Explores to the bar's bounds, or to the highest that take no longer than `seconds`: two threads from above, more from below.
fn highest(scenario: &Scenario, seconds: u64) -> Result<(Scenario, Report), String> {
    let bar = scenario.limits();
    let mut ladder: Vec<Limits> = std::iter::once(bar).chain(bar.lower()).collect();
    let down = scenario.threads == 2;
    if !down {
        ladder.reverse();
    }
    let mut best = None;
    for limits in ladder {
        let scenario = scenario.clone().within(limits);
        let report = explore(&scenario.name, limits, seconds, None)?;
        let ended = if down { report.complete } else { !report.complete };
        let failed = report.failure.is_some();
        if report.complete || failed || best.is_none() {
            best = Some((scenario, report));
        }
        if ended || failed {
            break;
        }
    }
    best.ok_or_else(|| "no bounds".to_owned())
}

fn write(only: &str, seconds: u64) -> Result<bool, String> {
    let mut kept = kept().unwrap_or_default();
    let list = chosen(only);
    let results = side_by_side(&list, |scenario| {
        let (scenario, report) = highest(scenario, seconds)?;
        println!("{}", line(&scenario, &report));
        Ok::<_, String>((scenario, report))
    });
    let mut well = true;
    for result in results {
        let (scenario, report) = result?;
        well &= is_well(&report);
        if report.complete {
            kept.insert(scenario.name.clone(), Kept { limits: scenario.limits(), executions: report.executions });
        }
    }
    let mut text = String::from(
        "# What loom explores: scenario, preemptions/failed polls, executions; then, where these bounds are lower than the bar, the bar.\n\
         # Checked by `cargo xtask loom`, written by `cargo xtask loom --bless`.\n",
    );
    for scenario in scenarios::all() {
        let Some(kept) = kept.get(&scenario.name) else { continue };
        let bar = scenario.limits();
        let lower = if bar == kept.limits { String::new() } else { format!(" bar {bar}") };
        writeln!(text, "{} {} {}{lower}", scenario.name, kept.limits, kept.executions)
            .map_err(|error| error.to_string())?;
    }
    std::fs::write(FILE, text).map_err(|error| format!("{FILE}: {error}"))?;
    Ok(well)
}
