//! Cases of the suite on as many simulated schedules as one has time for: `cargo xtask seeds`.
//!
//! Each seed performs every case of a lock once, with preemptions at the calls of the seam. The first failure ends the run with exit code 1 and the command
//! that repeats it; a seed and a version of the sources always give the same outcome.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockyard::lockref::LockRef;
use lockyard::qrwlock::RawQRwLock;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::EagerHq;
use lockyard_check::group;
use lockyard_check::simulated::{Events, perform_seed};
use lockyard_sim::Sim;

const HELP: &str = "\
cargo xtask seeds --lock NAME [--from SEED] [--count SEEDS] [--case TEXT]

  --lock    hq-spinlock, cna, qspinlock, qrwlock, lockref
  --from    the first seed (1)
  --count   how many seeds (1000)
  --case    only the cases whose name contains this
";

type Case = (&'static str, fn());

fn cases(lock: &str) -> Option<Vec<Case>> {
    let lists: &[&[Case]] = match lock {
        "hq-spinlock" => &[group!(exclusive => listed(EagerHq<Sim>))],
        "cna" => &[group!(exclusive => listed(RawCnaSpinLock<Sim>))],
        "qspinlock" => &[group!(exclusive => listed(RawQSpinLock<Sim>))],
        "qrwlock" => &[group!(exclusive => listed(RawQRwLock<Sim>)), group!(shared => listed(RawQRwLock<Sim>))],
        "lockref" => &[group!(exclusive => listed(LockRef<Sim>)), group!(references => listed(LockRef<Sim>))],
        _ => return None,
    };
    Some(lists.concat())
}

struct Options {
    lock: String,
    from: u64,
    count: u64,
    cases: Vec<Case>,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let (mut lock, mut from, mut count, mut part) = (None, 1, 1_000, "");
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("a number is needed, not '{text}'"));
        for pair in words.chunks(2) {
            let [option, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            match option.as_str() {
                "--lock" => lock = Some(value.clone()),
                "--from" => from = number(value)?,
                "--count" => count = number(value)?,
                "--case" => part = value,
                _ => return Err(format!("no such option: {option}")),
            }
        }
        let lock = lock.ok_or("--lock is needed")?;
        let mut cases = cases(&lock).ok_or_else(|| format!("no such lock: {lock}"))?;
        cases.retain(|(name, _)| name.contains(part));
        if cases.is_empty() {
            return Err(format!("no case is called '{part}'"));
        }
        Ok(Self { lock, from, count, cases })
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&words) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("seeds: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let Options { lock, from, count, cases } = &options;
    let begun = Instant::now();
    let mut said = begun;
    let mut sums = Events::new();
    for seed in *from..from.saturating_add(*count) {
        for (name, case) in cases {
            match perform_seed(seed, *case) {
                Ok(events) => events.into_iter().for_each(|(event, count)| *sums.entry(event).or_default() += count),
                Err(error) => {
                    eprintln!("\nseeds: {lock}: {name} failed {error}");
                    eprintln!("replay: cargo xtask seeds --lock {lock} --from {seed} --count 1 --case {name}");
                    return ExitCode::FAILURE;
                }
            }
        }
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            eprintln!("seeds: {lock}: {} of {count} passed, {} s", seed - from + 1, begun.elapsed().as_secs());
        }
    }
    let cases = cases.len() as u64;
    println!(
        "{lock}: {count} seeds, {cases} cases each: {} runs passed in {} s",
        count * cases,
        begun.elapsed().as_secs()
    );
    for (event, count) in sums.iter().filter(|(_, count)| **count > 0) {
        println!("    {event:<28} {count}");
    }
    ExitCode::SUCCESS
}
