//! Explores the locks with loom, and their weakened forms: `cargo xtask models loom`,
//! `cargo xtask models mutants`.
//!
//! Every exploration is a process of its own: a lock that hangs or a check that fails cannot be
//! unwound. `counts.txt` says how far each scenario goes and how many executions that takes.

// A command: it starts processes and takes their time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

#[path = "loom/counts.rs"]
mod counts;
#[path = "loom/mutants.rs"]
mod mutants;
#[path = "loom/process.rs"]
mod process;
#[path = "loom/reach.rs"]
mod reach;

use std::process::ExitCode;

use lockyard_check::model::scenarios::{self, Limits};
use lockyard_check::model::sites;

const HELP: &str = "\
cargo xtask models loom [--only TEXT] [--short] [--bless [--seconds N]]
  explores the scenarios whose names contain TEXT, each to the bounds of loom-counts.txt, and compares the executions
    --short     what would take more than a few seconds with fewer preemptions
    --bless     finds the highest bounds that complete in N seconds (60), and writes them to loom-counts.txt as they are found
cargo xtask models mutants [--only TEXT] [--seconds N]
  weakens each ordering site whose place contains TEXT, one step at a time; says which scenario kills it
    --seconds   how long one that lives is looked for beyond the bounds of loom-counts.txt (20)
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["one", name, limits, seconds, mutant @ ..] => one(name, limits, seconds, mutant),
        ["run", options @ ..] => counts::run(options),
        ["mutants", options @ ..] => mutants(options),
        _ => Err(format!("no such command: {}\n\n{HELP}", words.join(" "))),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("loom: {error}");
            ExitCode::from(2)
        }
    }
}

fn mutants(options: &[&str]) -> Result<bool, String> {
    let (mut only, mut seconds) = ("", 20);
    for pair in options.chunks(2) {
        match *pair {
            ["--only", text] => only = text,
            ["--seconds", number] => seconds = number.parse().map_err(|_| format!("not a number: {number}"))?,
            _ => return Err(format!("not understood: {}\n\n{HELP}", pair.join(" "))),
        }
    }
    mutants::run(only, seconds)
}

/// Explores one scenario in this process, and says what came of it in lines for [`process`].
fn one(name: &str, limits: &str, seconds: &str, mutant: &[&str]) -> Result<bool, String> {
    let limits: Limits = limits.parse()?;
    let seconds: u64 = seconds.parse().map_err(|_| format!("not a number: {seconds}"))?;
    let scenario = scenarios::all().into_iter().find(|scenario| scenario.name == name);
    let scenario = scenario.ok_or_else(|| format!("no such scenario: {name}"))?.within(limits);
    if let [mutant] = mutant {
        sites::weaken(Some(mutant.parse()?));
    }
    let explored = scenario.explore(seconds);
    for (site, order) in sites::seen() {
        println!("site {site}={order:?}");
    }
    for event in scenario.missed() {
        println!("missed {}", event.name());
    }
    println!(
        "explored {} {} {} {} {}",
        explored.executions, explored.complete, explored.cut, explored.idle, explored.most_polls
    );
    Ok(true)
}
