//! Priority inheritance on random cases: `cargo xtask explore priorities`. See
//! `lockyard_check::priorities`.
//!
//! The first failure ends the run with exit code 1 and the command that repeats it; a seed and a
//! version of the sources always give the same outcome.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockyard_check::priorities::{Found, Size, perform};

const HELP: &str = "\
cargo xtask explore priorities [--cases N] [--from SEED]

  --cases   how many cases (100000)
  --from    the first seed (1)
";

fn options(words: &[String]) -> Result<(u64, u64), String> {
    let (mut cases, mut from) = (100_000, 1);
    for pair in words.chunks(2) {
        let [option, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = value.parse::<u64>().map_err(|_| format!("a number is needed, not '{value}'"))?;
        match option.as_str() {
            "--cases" => cases = number,
            "--from" => from = number,
            _ => return Err(format!("no such option: {option}")),
        }
    }
    Ok((cases, from))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (cases, from) = match options(&words) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("priorities: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let begun = Instant::now();
    let mut said = begun;
    let mut sum = Found::default();
    for seed in from..from.saturating_add(cases) {
        match perform(seed, Size::Small) {
            Ok(found) => sum.add(&found),
            Err(error) => {
                eprintln!("\npriorities: case {seed} failed {error}");
                eprintln!("replay: cargo xtask explore priorities --from {seed} --cases 1");
                return ExitCode::FAILURE;
            }
        }
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            eprintln!("priorities: {} of {cases} passed, {} s", seed - from + 1, begun.elapsed().as_secs());
        }
    }
    println!("priorities: {cases} cases passed in {} s", begun.elapsed().as_secs());
    println!("    {} steps looked at, {} of them while everybody inside slept", sum.steps, sum.settled);
    println!("    {} contended grants in calm cases, {} timeouts", sum.grants, sum.timeouts);
    let deadlocks = sum.deadlocks.iter().enumerate().filter(|(_, count)| **count > 0);
    let deadlocks: Vec<String> = deadlocks.map(|(length, count)| format!("{count} of {length}")).collect();
    println!(
        "    deadlocks by length: {}",
        if deadlocks.is_empty() { "none".to_owned() } else { deadlocks.join(", ") }
    );
    for (event, count) in sum.events.iter().filter(|(event, count)| **count > 0 && event.starts_with("rtmutex")) {
        println!("    {event:<28} {count}");
    }
    ExitCode::SUCCESS
}
