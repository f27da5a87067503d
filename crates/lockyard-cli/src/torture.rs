//! `lockyard torture`: random operations under faults, on this machine or on a simulated one, and a
//! verdict.
//!
//! Before any verdict counts, locks that are broken on purpose must be found wanting by the same
//! detectors in the same run; otherwise the run is void (exit code 3). Natively they run in
//! processes of their own, because a hung lock takes its threads with it.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::{self, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockyard::platform::linux::{Linux, topology};
use lockyard_sim::{Sim, Weakening};
use lockyard_torture::catalog::{Defect, Entry, Locks};
use lockyard_torture::report::{self, Failure as Found};
use lockyard_torture::schedule::{Fixed, Trouble};
use lockyard_torture::{native, simulated};

use crate::cli::TortureArgs;
use crate::failure::{Failure, plain};
use crate::interrupt;
use crate::progress::Progress;
use crate::simulate::machines;
use crate::suggest;
use crate::values::{Bounds, seconds, seed};

/// Exit code of a run whose detectors did not see what they must.
const VOID: u8 = 3;

/// Options of `lockyard torture`.
#[derive(Debug)]
pub(crate) struct TortureOptions {
    labels: Vec<String>,
    ground: Wanted,
    /// Detectors are tried on broken locks first.
    tries_detectors: bool,
}

/// Where, and how.
#[derive(Debug)]
enum Wanted {
    Native(native::Wanted),
    Simulated(simulated::Wanted),
}

impl TortureOptions {
    /// Checks the arguments of `lockyard torture`.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &TortureArgs) -> Result<Self, Failure> {
        let simulates = args.machine.is_some();
        let labels = chosen(&args.lock, simulates)?;
        let time = seconds("--secs", &args.secs, 0.01, 1e6)?;
        let seed = seed(&args.seed)?;
        let trouble = args.fault.as_deref().map(|text| troubles(text, simulates)).transpose()?;
        let threads = Bounds { flag: "--threads", least: 1, most: if simulates { 64 } else { 4096 } };
        let threads = args.threads.as_deref().map(|text| threads.list(text)).transpose()?;
        let operations = Bounds { flag: "--operations", least: 1, most: 1_000_000 };
        let operations = args.operations.as_deref().map(|text| operations.number(text)).transpose()?;
        let schedules = Bounds { flag: "--schedules", least: 1, most: u64::MAX };
        let schedules = args.schedules.as_deref().map(|text| schedules.number(text)).transpose()?;
        let weakening = args.weaken.as_deref().map(str::parse::<Weakening>).transpose();
        let weakening = weakening.map_err(|error| Failure::usage(format!("--weaken: {error}")))?;
        let tries_detectors = args.lock != "sound" && !labels.iter().any(|label| label.starts_with("broken-"));
        let ground = match &args.machine {
            Some(name) => {
                if let Some([_, _, ..]) = threads.as_deref() {
                    return Err(Failure::usage("--threads: a simulated run has one number of threads; give one"));
                }
                Wanted::Simulated(simulated::Wanted {
                    machine: machines::one("--machine", name, &[])?,
                    machine_name: name.clone(),
                    seed,
                    schedules: schedules.unwrap_or(u64::MAX),
                    // So many schedules take as long as they take.
                    time: if schedules.is_some() { Duration::MAX } else { time },
                    fixed: Fixed {
                        threads: threads.map(|list| list[0] as usize),
                        operations: operations.map(|number| number as u32),
                        trouble,
                        small: args.small,
                        weakening,
                        believes_in_ghosts: false,
                    },
                    workers: topology::usable_cpus() as usize,
                })
            }
            None => {
                let only = [
                    ("--operations", operations.is_some()),
                    ("--schedules", schedules.is_some()),
                    ("--small", args.small),
                    ("--weaken", weakening.is_some()),
                ];
                for (flag, given) in only {
                    if given {
                        return Err(Failure::usage(format!(
                            "{flag}: only simulated runs are counted, sized or weakened; add --machine, or use --secs"
                        )));
                    }
                }
                let cpus = topology::usable_cpus() as usize;
                let usual = || [1, 4, 32].map(|times| (times * cpus).max(2)).to_vec();
                Wanted::Native(native::Wanted {
                    threads: threads.map_or_else(usual, |list| list.into_iter().map(|count| count as usize).collect()),
                    seed,
                    time,
                    patience: seconds("--patience", &args.patience, 0.1, 3600.0)?,
                    trouble: trouble.unwrap_or_else(native::troubles),
                })
            }
        };
        Ok(Self { labels, ground, tries_detectors })
    }
}

/// `--lock`: labels, or names that stand for the first policy; `all` leaves out what is known or
/// meant to be broken.
fn chosen(text: &str, simulates: bool) -> Result<Vec<String>, Failure> {
    let all = Linux::locks();
    let simulated: Vec<String> = Sim::locks().iter().map(Entry::label).collect();
    let possible = |entry: &Entry<Linux>| !simulates || simulated.contains(&entry.label());
    if text.trim() == "all" {
        let sound = all.iter().filter(|entry| entry.defect == Defect::None && possible(entry));
        return Ok(sound.map(Entry::label).collect());
    }
    let mut labels = Vec::new();
    let mut names: Vec<&str> = all.iter().map(|entry| entry.name).collect();
    names.dedup();
    for part in text.split(',').map(str::trim) {
        // The default policy has the name alone, too.
        let (name, policy) = part.split_once(':').map_or((part, None), |(name, policy)| (name, Some(policy)));
        let name = suggest::lock(name, &names).unwrap_or(name);
        let found = all.iter().find(|entry| entry.name == name && policy.is_none_or(|of| entry.policy == Some(of)));
        let Some(entry) = found else {
            suggest::known("lock", "--lock", name, &names)?;
            let policies: Vec<&str> =
                all.iter().filter(|entry| entry.name == name).filter_map(|entry| entry.policy).collect();
            let policy = policy.unwrap_or_default();
            if policies.is_empty() {
                return Err(Failure::usage(format!("--lock: '{name}' has no policies, '{policy}' was given")));
            }
            suggest::known("policy", "--lock", policy, &policies)?;
            continue;
        };
        if entry.simulated_only && !simulates {
            let label = entry.label();
            return Err(Failure::usage(format!(
                "--lock: '{label}' would spoil real memory; add --machine to simulate it"
            )));
        }
        if !possible(entry) {
            let label = entry.label();
            return Err(Failure::usage(format!(
                "--lock: '{label}' needs a real kernel, which lends priorities; leave --machine out, or simulate rtmutex-tree"
            )));
        }
        if !labels.contains(&entry.label()) {
            labels.push(entry.label());
        }
    }
    Ok(labels)
}

/// `--fault`: names, `all` or `none`.
fn troubles(text: &str, simulates: bool) -> Result<Vec<Trouble>, Failure> {
    let possible = if simulates { Trouble::all() } else { native::troubles() };
    match text.trim() {
        "all" => return Ok(possible),
        "none" => return Ok(Vec::new()),
        _ => {}
    }
    let names: Vec<&str> = Trouble::all().into_iter().map(Trouble::name).collect();
    let mut chosen = Vec::new();
    for part in text.split(',').map(str::trim) {
        if !names.contains(&part) {
            let near =
                suggest::nearest(part, &names).map_or_else(String::new, |near| format!("did you mean '{near}'? "));
            let all = names.join(", ");
            return Err(Failure::usage(format!("--fault: unknown fault '{part}'; {near}valid: {all}, all, none")));
        }
        let Some(&trouble) = possible.iter().find(|trouble| trouble.name() == part) else {
            let message = format!("--fault: '{part}' needs a simulated machine; add --machine, such as quad2008");
            return Err(Failure::usage(message));
        };
        if !chosen.contains(&trouble) {
            chosen.push(trouble);
        }
    }
    Ok(chosen)
}

fn entry<P: Locks>(label: &str) -> Option<Entry<P>> {
    P::locks().into_iter().find(|entry| entry.label() == label)
}

/// Does it. The exit code.
///
/// # Errors
/// A lock failed; everything about it has been printed.
pub(crate) fn run(options: &TortureOptions) -> Result<u8, Failure> {
    interrupt::listen()?;
    for label in &options.labels {
        if let Some(Defect::Known(why)) = entry::<Linux>(label).map(|entry| entry.defect) {
            let _ = writeln!(io::stderr(), "lockyard: note: {label}: {why}");
        }
    }
    if options.tries_detectors {
        let (broken, blind) = match &options.ground {
            Wanted::Native(_) => blind_natively()?,
            Wanted::Simulated(wanted) => blind_in_simulation(wanted),
        };
        if !blind.is_empty() {
            let _ = writeln!(
                io::stderr(),
                "lockyard: void: nothing wrong was found with {}, which {} broken on purpose",
                blind.join(", "),
                if blind.len() == 1 { "is" } else { "are" }
            );
            return Ok(VOID);
        }
        crate::print(&format!("detectors: {} found wanting, as they must be\n", broken.join(", ")))?;
    }
    let each = match &options.ground {
        Wanted::Native(wanted) => wanted.time,
        Wanted::Simulated(_) => Duration::ZERO,
    };
    let mut progress = Progress::start(each * options.labels.len() as u32);
    let mut passed = 0;
    for (number, label) in options.labels.iter().enumerate() {
        let share = |part: f64| (number as f64 + part.min(1.0)) / options.labels.len() as f64;
        let text = match &options.ground {
            Wanted::Native(wanted) => {
                let Some(lock) = entry::<Linux>(label) else { continue };
                let outcome = native::torture(&lock, wanted, &mut |part| {
                    progress.at(share(part), label, "torture", "this machine");
                    !interrupt::asked()
                });
                match outcome {
                    Ok(tally) => native::passed(label, &tally).join("\n"),
                    Err(found) => {
                        progress.finish();
                        // Threads may be stuck in the lock: nothing is waited for any more.
                        let _ = told(&found);
                        let _ = writeln!(io::stderr(), "lockyard: {}", found.line());
                        process::exit(1);
                    }
                }
            }
            Wanted::Simulated(wanted) => {
                let Some(lock) = entry::<Sim>(label) else { continue };
                let begun = Instant::now();
                let shown = Mutex::new(&mut progress);
                let tell = |done: u64| {
                    let part = match wanted.schedules {
                        u64::MAX => begun.elapsed().as_secs_f64() / wanted.time.as_secs_f64(),
                        most => done as f64 / most as f64,
                    };
                    let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                    shown.at(share(part), label, "torture", &format!("{done} schedules on {}", wanted.machine_name));
                    !interrupt::asked()
                };
                let outcome = simulated::torture(&lock, wanted, &tell);
                match outcome {
                    Ok(tally) if wanted.fixed.weakening.is_some() && tally.weakened == 0 && !interrupt::asked() => {
                        progress.finish();
                        return Err(Failure::usage(format!(
                            "--weaken: no thread of {label} came to an ordering there in {} schedules",
                            report::grouped(tally.schedules)
                        )));
                    }
                    Ok(tally) => report::simulated(label, &wanted.machine_name, &tally, begun.elapsed().as_secs_f64()),
                    Err(found) => {
                        progress.finish();
                        told(&found)?;
                        return Err(Failure::run(found.line()));
                    }
                }
            }
        };
        crate::print(&format!("{text}\n"))?;
        if interrupt::asked() {
            progress.finish();
            return Ok(crate::stopped());
        }
        passed += 1;
    }
    progress.finish();
    crate::print(&format!("{passed} of {} locks passed\n", options.labels.len()))
}

fn told(found: &Found) -> Result<u8, Failure> {
    let mut text = String::new();
    let _ = write!(text, "{}", found.text());
    crate::print(&text)
}

/// Broken locks that the simulated detectors are tried on, and those that nothing was found wrong
/// with.
fn blind_in_simulation(wanted: &simulated::Wanted) -> (Vec<&'static str>, Vec<&'static str>) {
    const BROKEN: &[&str] = &[
        "broken-nothing",
        "broken-wakeups",
        "broken-readers",
        "broken-release",
        "broken-waiter",
        "broken-reservation",
    ];
    let tried = simulated::Wanted {
        schedules: 2_000,
        time: Duration::from_secs(60),
        fixed: Fixed::default(),
        seed: 1,
        ..wanted.clone()
    };
    let blind = |label: &&&str| {
        let Some(Entry { defect: Defect::Planted(findings), .. }) = entry::<Sim>(label) else { return true };
        !simulated::first_finding(&entry::<Sim>(label).expect("found above"), &tried)
            .is_some_and(|finding| findings.contains(&finding))
    };
    (BROKEN.to_vec(), BROKEN.iter().filter(blind).copied().collect())
}

/// The same natively, each in a process of its own.
fn blind_natively() -> Result<(Vec<&'static str>, Vec<&'static str>), Failure> {
    const BROKEN: &[&str] = &["broken-nothing", "broken-wakeups", "broken-readers"];
    let refuse = |error: io::Error| Failure::run(format!("cannot try the detectors: {}", plain(&error)));
    let own = std::env::current_exe().map_err(refuse)?;
    let mut blind = Vec::new();
    for label in BROKEN {
        let arguments = ["torture", "--lock", label, "--secs", "20", "--patience", "1", "--threads", "8"];
        let child = Command::new(&own).args(arguments).stdin(Stdio::null()).output().map_err(refuse)?;
        let said = String::from_utf8_lossy(&child.stdout);
        if child.status.code() != Some(1) || !said.contains(": FAILED: ") {
            blind.push(*label);
        }
    }
    Ok((BROKEN.to_vec(), blind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_default_policies_and_all_for_what_is_not_broken() {
        assert_eq!(chosen("rwsem,qspinlock", false).unwrap(), ["rwsem:today", "qspinlock"]);
        assert_eq!(chosen("rwsem:v5.10", false).unwrap(), ["rwsem:v5.10"]);
        let all = chosen("all", false).unwrap();
        assert!(!chosen("all", true).unwrap().iter().any(|label| label.starts_with("pi-mutex")));
        assert!(all.contains(&"pi-mutex:off".to_owned()));
        assert!(all.len() > 30 && !all.iter().any(|label| label.starts_with("broken-") || label == "rwsem:v5.16"));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let refused = |text: &str| chosen(text, false).unwrap_err().to_string();
        assert!(refused("mutx").contains("did you mean 'mutex'?"));
        assert!(refused("rwsem:v5.100").contains("did you mean 'v5.10'?"));
        assert!(refused("mutex:today").contains("'mutex' has no policies"));
        assert!(refused("broken-release").contains("add --machine"));
        assert!(chosen("pi-mutex", true).unwrap_err().to_string().contains("needs a real kernel"));
        assert_eq!(chosen("pi-mutex", false).unwrap(), ["pi-mutex:lateral"]);
        let refused = |text: &str| troubles(text, false).unwrap_err().to_string();
        assert!(refused("preemt").contains("did you mean 'preempt'?"));
        assert!(refused("preempt").contains("needs a simulated machine"));
        assert_eq!(troubles("none", false).unwrap(), []);
    }
}
