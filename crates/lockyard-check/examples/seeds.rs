//! Cases of the suite on as many simulated schedules as one has time for:
//! `cargo xtask explore seeds`.
//!
//! Each seed is a schedule (machine, placement, faults) on which cases of a lock are performed,
//! with preemptions at the calls of the seam: all of them with `--deal all`, else so many, dealt
//! out in turn, so that every case has its share of the seeds. The first failure ends the run with
//! exit code 1 and the command that repeats it; a seed and a version of the sources always give the
//! same outcome. Every run begins with locks that are broken on purpose: one that passes makes it
//! void (exit code 3).

use std::panic::{set_hook, take_hook};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockyard_check::adapters::turn_early;
use lockyard_check::broken::{LeakyReaders, LosesWakeups, Nothing, TryTraces};
use lockyard_check::catalog::{entries, types};
use lockyard_check::simulated::{Events, perform_seed};
use lockyard_check::{cases, catalog, groups};
use lockyard_sim::Sim;

const HELP: &str = "\
cargo xtask explore seeds --lock LIST [--from SEED] [--count SEEDS] [--deal CASES] [--case TEXT]

  --lock    all, or names with commas between them: hq-spinlock, cna, qspinlock, mcs, ticket, ttas,
            qrwlock, lockref, futex-hash; a name also stands for its forms, which have it with a colon
  --from    the first seed (1)
  --count   how many seeds for each lock (1000)
  --deal    so many cases on each seed, in turn, or all (all)
  --case    only the cases whose name contains this
";

type Case = (&'static str, fn());

/// A lock, and what it has to pass.
struct Subject {
    name: String,
    cases: Vec<Case>,
}

fn subjects() -> Vec<Subject> {
    let mut list = Vec::new();
    macro_rules! subject {
        (() $lock:ident $trait:ident $promises:tt) => {
            let cases = groups!($trait => cases (types::$lock<Sim>));
            list.push(Subject { name: entries::$lock.label(), cases });
        };
    }
    catalog::locks!(seeds => subject ());
    list
}

/// Each must fail within [`FOUND_WITHIN`] seeds.
fn broken() -> Vec<Subject> {
    let subject = |name: &str, cases| Subject { name: name.to_owned(), cases };
    vec![
        subject("no lock at all", cases!((Nothing<Sim>) exclusive)),
        subject("a lock that forgets a wake-up", cases!((LosesWakeups<Sim>) exclusive)),
        subject("a try that leaves a trace", cases!((TryTraces<Sim>) exclusive)),
        subject("a writer beside a reader", cases!((LeakyReaders<Sim>) shared)),
    ]
}

const FOUND_WITHIN: u64 = 20;

/// Of the hierarchical locks inside others: dealt out by thread, whatever the machine.
const LANES: u32 = 3;

impl Subject {
    /// Performs its cases on `seed`, `deal` of them. `Err`: the case that failed, and how.
    fn perform(&self, seed: u64, deal: usize, sums: &mut Events) -> Result<(), (&'static str, String)> {
        turn_early::<Sim>(LANES);
        let first = seed as usize * deal;
        for number in first..first + deal {
            let (name, case) = self.cases[number % self.cases.len()];
            let events = perform_seed(seed, case).map_err(|error| (name, error))?;
            events.into_iter().for_each(|(event, count)| *sums.entry(event).or_default() += count);
        }
        Ok(())
    }

    fn matches(&self, wanted: &str) -> bool {
        wanted == "all" || self.name == wanted || self.name.split(':').next() == Some(wanted)
    }
}

/// Whether every broken lock is found out on the first seeds.
fn can_fail(from: u64) -> bool {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let mut can = true;
    for subject in broken() {
        let deal = subject.cases.len();
        let seeds = from..from.saturating_add(FOUND_WITHIN);
        let found =
            seeds.into_iter().find_map(|seed| Some((seed, subject.perform(seed, deal, &mut Events::new()).err()?)));
        match found {
            Some((seed, (case, _))) => println!("{:<30} fails, as it must: {case}, seed {seed}", subject.name),
            None => println!("{:<30} PASSED: nothing here can be believed", subject.name),
        }
        can &= found.is_some();
    }
    set_hook(hook);
    can
}

struct Options {
    from: u64,
    count: u64,
    deal: Option<usize>,
    subjects: Vec<Subject>,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let (mut lock, mut from, mut count, mut deal, mut part) = (None, 1, 1_000, None, "");
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("a number is needed, not '{text}'"));
        for pair in words.chunks(2) {
            let [option, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            match option.as_str() {
                "--lock" => lock = Some(value.clone()),
                "--from" => from = number(value)?,
                "--count" => count = number(value)?,
                "--deal" if value == "all" => deal = None,
                "--deal" => deal = Some(number(value)?.max(1) as usize),
                "--case" => part = value,
                _ => return Err(format!("no such option: {option}")),
            }
        }
        let lock = lock.ok_or("--lock is needed")?;
        let mut chosen = subjects();
        if let Some(unknown) = lock.split(',').find(|name| !chosen.iter().any(|subject| subject.matches(name))) {
            return Err(format!("no such lock: {unknown}"));
        }
        chosen.retain(|subject| lock.split(',').any(|name| subject.matches(name)));
        chosen.iter_mut().for_each(|subject| subject.cases.retain(|(name, _)| name.contains(part)));
        chosen.retain(|subject| !subject.cases.is_empty());
        if chosen.is_empty() {
            return Err(format!("no case is called '{part}'"));
        }
        Ok(Self { from, count, deal, subjects: chosen })
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Options { from, count, deal, subjects } = match Options::parse(&words) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("seeds: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if !can_fail(from) {
        return ExitCode::from(3);
    }
    let end = from.saturating_add(count);
    for subject in &subjects {
        let name = &subject.name;
        let deal = deal.unwrap_or(subject.cases.len()).min(subject.cases.len());
        let begun = Instant::now();
        let mut said = begun;
        let mut sums = Events::new();
        for seed in from..end {
            if let Err((case, error)) = subject.perform(seed, deal, &mut sums) {
                eprintln!("\nseeds: {name}: {case} failed {error}");
                eprintln!("replay: cargo xtask explore seeds --lock {name} --from {seed} --count 1 --case {case}");
                return ExitCode::FAILURE;
            }
            if said.elapsed() > Duration::from_secs(10) {
                said = Instant::now();
                let rate = (seed - from + 1) as f64 / begun.elapsed().as_secs_f64();
                eprintln!("seeds: {name}: {from} to {seed} of {} passed, {rate:.0} a second", end - 1);
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{name:<22} seeds {from} to {}: {} runs of {} cases passed in {seconds:.0} s, {:.0} seeds a second",
            end - 1,
            count * deal as u64,
            subject.cases.len(),
            count as f64 / seconds.max(1e-3),
        );
        let told: Vec<String> =
            sums.iter().filter(|(_, count)| **count > 0).map(|(event, count)| format!("{event} {count}")).collect();
        println!("    {}", told.join(", "));
    }
    ExitCode::SUCCESS
}
