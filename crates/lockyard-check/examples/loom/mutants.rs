//! Ordering mutants: each ordering site weakened one step at a time, and the barrier report.
//!
//! A mutant is killed by a scenario that passes without it and fails with it. Those that survive must be listed with an argument in `loom-survivors.txt`, by the text
//! of their source line, so that the list outlives changes elsewhere in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use lockyard_check::model::scenarios::Limits;
use lockyard_check::model::sites::{Mutant, Part, Site, order_from};

use crate::counts::{chosen, kept};
use crate::process::{explore, side_by_side};

const SURVIVORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/loom-survivors.txt");
const LIBRARY: &str = "crates/lockyard/src/";
/// Scenarios with more executions than this do not judge mutants.
const MOST: u64 = 60_000;
/// A mutant may take so much longer than the lock itself.
const SECONDS: u64 = 120;

struct Judge {
    name: String,
    limits: Limits,
    executions: u64,
    sites: BTreeSet<String>,
}

enum Verdict {
    Killed { by: String, executions: u64, why: String },
    Survives { scenarios: usize, executions: u64 },
    Undecided { scenario: String },
}

/// The command. Whether all were killed or are listed.
pub(crate) fn run(only: &str) -> Result<bool, String> {
    let begun = Instant::now();
    let judges = judges()?;
    let sites: BTreeMap<Site, _> = judges
        .iter()
        .flat_map(|judge| &judge.sites)
        .filter(|site| site.starts_with(LIBRARY) && site.contains(only))
        .map(|site| {
            let (site, order) = site.split_once('=').ok_or("a site without its ordering")?;
            Ok((site.parse::<Site>()?, order_from(order).ok_or("no such ordering")?))
        })
        .collect::<Result<_, String>>()?;
    let mutants: Vec<Mutant> = sites
        .iter()
        .flat_map(|(site, order)| {
            site.part.weaker(*order).iter().map(|order| Mutant { site: site.clone(), order: *order })
        })
        .collect();
    println!("{} ordering sites, {} mutants, {} scenarios judge them", sites.len(), mutants.len(), judges.len());
    let listed = listed()?;
    let verdicts = side_by_side(&mutants, |mutant| {
        let verdict = judge(mutant, &judges)?;
        println!("{}", said(mutant, &verdict));
        Ok::<_, String>(verdict)
    });
    let (mut killed, mut excused, mut open) = (0, 0, Vec::new());
    let mut weakest: BTreeMap<&Site, Vec<String>> = BTreeMap::new();
    for (mutant, verdict) in mutants.iter().zip(verdicts) {
        let verdict = verdict?;
        if let Verdict::Killed { .. } = verdict {
            killed += 1;
            continue;
        }
        weakest.entry(&mutant.site).or_default().push(format!("{:?}", mutant.order));
        if listed.contains(&entry(mutant)) {
            excused += 1;
        } else {
            open.push(format!("{}\n    {}", said(mutant, &verdict), entry(mutant)));
        }
    }
    println!("\n=== barrier report: every site, the ordering used, and the weaker ones that survive ===");
    for (site, order) in &sites {
        let weaker = weakest.get(site).map_or("-".to_owned(), |orders| orders.join(", "));
        println!("{:<64} {:<8} {weaker:<18} {}", site.to_string(), format!("{order:?}"), source(site));
    }
    println!(
        "\n{} mutants: {killed} killed, {excused} survive and are listed with an argument, {} survive and are not; {} s",
        mutants.len(),
        open.len(),
        begun.elapsed().as_secs()
    );
    open.iter().for_each(|line| println!("open: {line}"));
    Ok(open.is_empty())
}

/// The scenarios, cheapest first, with the sites that each comes to.
fn judges() -> Result<Vec<Judge>, String> {
    let kept = kept()?;
    let list: Vec<_> = chosen("")
        .into_iter()
        .filter_map(|scenario| kept.get(&scenario.name).map(|kept| (scenario.name, *kept)))
        .filter(|(_, kept)| kept.executions <= MOST)
        .collect();
    let found = side_by_side(&list, |(name, kept)| {
        let report = explore(name, kept.limits, SECONDS, None)?;
        if report.failure.is_some() || !report.complete {
            return Err(format!("{name} does not pass without a mutant: cargo xtask loom --only {name}"));
        }
        let sites = report.sites.into_iter().collect();
        Ok(Judge { name: name.clone(), limits: kept.limits, executions: report.executions, sites })
    });
    let mut judges = found.into_iter().collect::<Result<Vec<_>, String>>()?;
    judges.sort_by_key(|judge| judge.executions);
    Ok(judges)
}

fn judge(mutant: &Mutant, judges: &[Judge]) -> Result<Verdict, String> {
    let site = format!("{}=", mutant.site);
    let text = mutant.to_string();
    let (mut scenarios, mut executions, mut undecided) = (0, 0, None);
    for judge in judges.iter().filter(|judge| judge.sites.iter().any(|known| known.starts_with(&site))) {
        let report = explore(&judge.name, judge.limits, SECONDS, Some(&text))?;
        if let Some(why) = report.failure {
            return Ok(Verdict::Killed { by: judge.name.clone(), executions: report.executions, why });
        }
        if !report.complete {
            undecided = Some(judge.name.clone());
        }
        scenarios += 1;
        executions += report.executions;
    }
    Ok(undecided.map_or(Verdict::Survives { scenarios, executions }, |scenario| Verdict::Undecided { scenario }))
}

fn said(mutant: &Mutant, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Killed { by, executions, why } => {
            let why: String = why.split(": ").skip(1).collect::<Vec<_>>().join(": ").chars().take(90).collect();
            format!("killed    {mutant} by {by} after {executions} executions: {why}")
        }
        Verdict::Survives { scenarios, executions } => {
            format!("SURVIVES  {mutant} in {scenarios} scenarios, {executions} executions")
        }
        Verdict::Undecided { scenario } => format!("UNDECIDED {mutant}: {scenario} did not complete in {SECONDS} s"),
    }
}

/// The source line of a site.
fn source(site: &Site) -> String {
    let text = std::fs::read_to_string(&site.file).unwrap_or_default();
    text.lines().nth(site.line as usize - 1).unwrap_or_default().trim().to_owned()
}

/// How the list of survivors names a mutant.
fn entry(mutant: &Mutant) -> String {
    let part = if mutant.site.part == Part::Failure { "failure " } else { "" };
    format!("{} | {} | {part}{:?}", mutant.site.file.trim_start_matches(LIBRARY), source(&mutant.site), mutant.order)
}

/// The mutants that are listed, each with an argument.
fn listed() -> Result<BTreeSet<String>, String> {
    let text = std::fs::read_to_string(SURVIVORS).unwrap_or_default();
    let mut list = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let (entry, argument) = line.rsplit_once(" | ").ok_or_else(|| format!("{SURVIVORS}: no argument: {line}"))?;
        if argument.trim().is_empty() {
            return Err(format!("{SURVIVORS}: no argument: {line}"));
        }
        list.insert(entry.to_owned());
    }
    Ok(list)
}
