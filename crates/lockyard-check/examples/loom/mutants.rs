//! Ordering mutants: each ordering site weakened one step at a time, and the barrier report.
//!
//! A mutant is killed by a scenario that passes without it and fails with it. First each scenario
//! that comes to the site is explored, the cheapest first: to the bounds of `loom-counts.txt` if
//! that is soon done, else with one preemption. A mutant that lives through all of them and is not
//! among those for which there is an argument is looked for to the bounds of `loom-counts.txt`
//! everywhere; and one that still lives beyond, up to the bar's bounds, as long as its time lasts.
//! A scenario that kills it there must let the unchanged lock pass: to the bounds of
//! `loom-counts.txt` it has, beyond them for longer than that took.
//!
//! Those that survive must be listed with an argument in `loom-survivors.txt`, by the text of their
//! source line, so that the list outlives changes elsewhere in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use lockyard::platform::Ordering;
use lockyard_check::model::scenarios::Limits;
use lockyard_check::model::sites::{Mutant, Part, Site, order_from};

use crate::counts::{chosen, kept};
use crate::process::{Report, explore, side_by_side};
use crate::reach;

const SURVIVORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/loom-survivors.txt");
/// Arguments that begin so do not say that the weaker ordering is safe, only that nobody here could
/// tell.
const UNSEEN: &str = "cannot be seen";
/// And those that begin so, that another check kills it: the command that has called this one
/// tries.
const ELSEWHERE: &str = "killed on simulated machines";
const LIBRARY: &str = "crates/lockyard/src/";
/// Scenarios with more executions than this judge mutants with one preemption first.
const SOON: u64 = 2_000;
/// A scenario may take so long, with a mutant or without one, to the bounds of `loom-counts.txt`.
const SECONDS: u64 = 600;

struct Judge {
    name: String,
    /// The bounds within which every mutant is looked for, those for each without an argument, and
    /// those of the bar.
    soon: Limits,
    limits: Limits,
    bar: Limits,
    executions: u64,
    sites: BTreeSet<String>,
}

enum Verdict {
    Killed { by: String, limits: Limits, executions: u64, why: String },
    Survives { scenarios: usize, executions: u64, beyond: u64 },
    Undecided { scenario: String },
}

/// What became of a site: its mutants, and the weakest ordering with which no scenario fails.
struct Judged {
    verdicts: Vec<(Mutant, Verdict)>,
    weakest: Ordering,
}

/// The command: the sites whose places contain `only`, and so many seconds beyond the bounds of the
/// file for each mutant that lives. Whether all were killed or are listed.
pub(crate) fn run(only: &str, seconds: u64) -> Result<bool, String> {
    let begun = Instant::now();
    let judges = judges(only)?;
    let sites: BTreeMap<Site, Ordering> = judges
        .iter()
        .flat_map(|judge| &judge.sites)
        .filter(|site| site.starts_with(LIBRARY) && site.contains(only))
        .map(|site| {
            let (site, order) = site.split_once('=').ok_or("a site without its ordering")?;
            Ok((site.parse::<Site>()?, order_from(order).ok_or("no such ordering")?))
        })
        .collect::<Result<_, String>>()?;
    if sites.is_empty() {
        return Err(format!("no scenario comes to a site with '{only}' in its place"));
    }
    let reached = sites.keys().cloned().collect();
    let sites: Vec<(Site, Ordering)> = sites.into_iter().collect();
    println!("{} ordering sites; {} scenarios judge them", sites.len(), judges.len());
    let listed = listed()?;
    let results = side_by_side(&sites, |(site, order)| {
        let judged = judge_site(site, *order, &judges, &listed, seconds)?;
        for (mutant, verdict) in &judged.verdicts {
            println!("{}", said(mutant, verdict));
        }
        Ok::<_, String>(judged)
    });
    let (mut killed, mut safe, mut unseen, mut elsewhere) = (0, 0, 0, 0);
    let (mut excused, mut open) = (Vec::new(), Vec::new());
    // What is killed elsewhere need not be reached here; if it is, it must survive.
    let here = listed.iter().filter(|(_, argument)| only.is_empty() && !argument.starts_with(ELSEWHERE));
    let mut unused: BTreeSet<&String> = here.map(|(entry, _)| entry).collect();
    let (mut needless, mut needed) = (BTreeSet::new(), BTreeSet::new());
    println!("\n=== barrier report: every site, the ordering used, and the weakest with which no scenario fails ===");
    for ((site, order), judged) in sites.iter().zip(results) {
        let judged = judged?;
        let weakest = if judged.weakest == *order { "-".to_owned() } else { format!("{:?}", judged.weakest) };
        println!("{:<58} {:<8} {weakest:<8} {}", site.to_string(), format!("{order:?}"), source(site));
        for (mutant, verdict) in &judged.verdicts {
            let entry = entry(mutant);
            match (verdict, listed.get(&entry)) {
                (Verdict::Killed { .. }, argument) => {
                    killed += 1;
                    needless.extend(argument.filter(|argument| argument.starts_with(ELSEWHERE)).map(|_| entry));
                }
                (_, Some(argument)) => {
                    unused.remove(&entry);
                    needed.insert(entry);
                    let count = match argument {
                        argument if argument.starts_with(UNSEEN) => &mut unseen,
                        argument if argument.starts_with(ELSEWHERE) => &mut elsewhere,
                        _ => &mut safe,
                    };
                    *count += 1;
                    excused.push(format!("{mutant}\n    {argument}"));
                }
                _ => open.push(format!("{}\n    {entry}", said(mutant, verdict))),
            }
        }
    }
    println!("\n=== survivors with an argument ===");
    excused.iter().for_each(|line| println!("{line}"));
    println!(
        "\n{} mutants: {killed} killed, {safe} survive and are safe by their argument, {elsewhere} are killed on simulated machines, {unseen} survive because \
         nothing here can show the difference, {} survive and are not listed; {} s",
        killed + safe + unseen + elsewhere + open.len(),
        open.len(),
        begun.elapsed().as_secs()
    );
    open.iter().for_each(|line| println!("open: {line}"));
    unused.extend(needless.difference(&needed));
    unused.iter().for_each(|entry| println!("listed, and no survivor: {entry}"));
    let judged = only.is_empty().then(|| reach::judge(&reached, LIBRARY)).transpose()?.unwrap_or(true);
    Ok(judged && open.is_empty() && unused.is_empty())
}

/// The scenarios that come to a site with `only` in its place, cheapest first. Which do is asked
/// within few bounds, and those that do pass within all of theirs.
fn judges(only: &str) -> Result<Vec<Judge>, String> {
    let kept = kept()?;
    let list: Vec<_> =
        chosen("").into_iter().filter_map(|scenario| kept.get(&scenario.name).map(|kept| (scenario, *kept))).collect();
    let comes = |site: &String| site.starts_with(LIBRARY) && site.contains(only);
    let found = side_by_side(&list, |(scenario, kept)| {
        let name = scenario.name.clone();
        let soon = kept.limits.lower().find(|limits| limits.preemptions == Some(1) && kept.executions > SOON);
        let soon = soon.unwrap_or(kept.limits);
        let mut report = passes(&name, soon)?;
        if soon != kept.limits && report.sites.iter().any(comes) {
            report = passes(&name, kept.limits)?;
        }
        let sites: BTreeSet<String> = report.sites.into_iter().collect();
        Ok(Judge { name, soon, limits: kept.limits, bar: scenario.limits(), executions: report.executions, sites })
    });
    let mut judges = found.into_iter().collect::<Result<Vec<_>, String>>()?;
    judges.retain(|judge| judge.sites.iter().any(comes));
    judges.sort_by_key(|judge| judge.executions);
    Ok(judges)
}

/// What `name` does without a mutant, all of it.
fn passes(name: &str, limits: Limits) -> Result<Report, String> {
    let report = explore(name, limits, SECONDS, None)?;
    if report.failure.is_some() || !report.complete {
        return Err(format!("{name} does not pass without a mutant: cargo xtask models loom --only {name}"));
    }
    Ok(report)
}

/// Every mutant of a site. Where both halves of an `AcqRel` can be missed one by one, whether both
/// can be missed at once.
fn judge_site(
    site: &Site,
    order: Ordering,
    judges: &[Judge],
    listed: &BTreeMap<String, String>,
    seconds: u64,
) -> Result<Judged, String> {
    let mut weaker = site.part.weaker(order).to_vec();
    let mut judged = Judged { verdicts: Vec::new(), weakest: order };
    let mut next = 0;
    while let Some(&order) = weaker.get(next) {
        next += 1;
        let mutant = Mutant { site: site.clone(), order };
        let verdict = judge(&mutant, judges, listed.contains_key(&entry(&mutant)), seconds)?;
        if !matches!(verdict, Verdict::Killed { .. }) {
            if judged.weakest == Ordering::Acquire && order == Ordering::Release {
                weaker.push(Ordering::Relaxed);
            }
            judged.weakest = order;
        }
        judged.verdicts.push((mutant, verdict));
    }
    Ok(judged)
}

fn judge(mutant: &Mutant, judges: &[Judge], has_argument: bool, seconds: u64) -> Result<Verdict, String> {
    let site = format!("{}=", mutant.site);
    let text = mutant.to_string();
    let comes = |judge: &&Judge| judge.sites.iter().any(|known| known.starts_with(&site));
    let judges: Vec<&Judge> = judges.iter().filter(comes).collect();
    let (mut executions, mut undecided) = (0, None);
    let killed =
        |judge: &Judge, limits, executions, why| Verdict::Killed { by: judge.name.clone(), limits, executions, why };
    let soon = judges.iter().map(|judge| (judge, judge.soon));
    let whole = judges.iter().filter(|judge| !has_argument && judge.soon != judge.limits);
    for (judge, limits) in soon.chain(whole.map(|judge| (judge, judge.limits))) {
        let report = explore(&judge.name, limits, SECONDS, Some(&text))?;
        if let Some(why) = report.failure {
            return Ok(killed(judge, limits, report.executions, why));
        }
        if !report.complete {
            undecided = Some(judge.name.clone());
        }
        executions += report.executions;
    }
    // Beyond: each in its turn for as long as is left for each.
    let deeper: Vec<&&Judge> = judges.iter().filter(|judge| judge.limits != judge.bar).collect();
    let mut left = Duration::from_secs(seconds);
    let mut beyond = 0;
    for (number, judge) in deeper.iter().enumerate() {
        let each = (left / (deeper.len() - number) as u32).as_secs().max(1);
        if left < Duration::from_secs(1) {
            break;
        }
        let report = explore(&judge.name, judge.bar, each, Some(&text))?;
        if let Some(why) = report.failure {
            let clean = explore(&judge.name, judge.bar, 2 * report.took.as_secs() + 2, None)?;
            if let Some(why) = clean.failure {
                return Err(format!("{} fails without a mutant within {}: {why}", judge.name, judge.bar));
            }
            return Ok(killed(judge, judge.bar, report.executions, why));
        }
        beyond += report.executions;
        left = left.saturating_sub(report.took);
    }
    Ok(undecided.map_or(Verdict::Survives { scenarios: judges.len(), executions, beyond }, |scenario| {
        Verdict::Undecided { scenario }
    }))
}

fn said(mutant: &Mutant, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Killed { by, limits, executions, why } => {
            let why: String = why.split(": ").skip(1).collect::<Vec<_>>().join(": ").chars().take(90).collect();
            format!("killed    {mutant} by {by} {limits} after {executions} executions: {why}")
        }
        Verdict::Survives { scenarios, executions, beyond } => {
            format!(
                "SURVIVES  {mutant} in {scenarios} scenarios, {executions} executions and {beyond} beyond their bounds"
            )
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

/// The mutants that are listed, each with its argument.
fn listed() -> Result<BTreeMap<String, String>, String> {
    let text = std::fs::read_to_string(SURVIVORS).map_err(|error| format!("{SURVIVORS}: {error}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| match line.rsplit_once(" | ") {
            Some((entry, argument)) if !argument.trim().is_empty() => Ok((entry.to_owned(), argument.to_owned())),
            _ => Err(format!("{SURVIVORS}: no argument: {line}")),
        })
        .collect()
}
