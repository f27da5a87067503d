//! Every change that cargo-mutants can think of in the lock algorithms, judged by the tests that
//! reach it.
//!
//! cargo-mutants compiles the project once for each of its mutants: three thousand times a minute.
//! Here all mutants are in one build (*mutant schemata*: Untch, Offutt, Harrold, 1993), each behind
//! a question that a process answers from its environment; a mutant costs as long as the tests that
//! find it. The steps, a module each:
//!
//! 1. `list`: cargo-mutants lists its mutants, nothing is invented here;
//! 2. `weave`: they are put into a copy of the sources;
//! 3. `tree`: what does not compile is left out (cargo-mutants' "unviable"); the tests are
//!    compiled;
//! 4. `suite`: each test runs once in a process of its own, timed, and tells which mutants it met;
//! 5. `judge`: each mutant runs the tests that met it, quickest first, until one fails or hangs;
//!    `memory` keeps the verdicts.
//!
//! A mutant that passes them all is *missed*, unless `crates/lockyard/mutants-explained.txt` says
//! why no test can tell it from the original.

mod judge;
mod list;
mod memory;
mod program;
mod suite;
mod tree;
mod weave;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use memory::Memory;

const HELP: &str = "\
cargo xtask models changes [TEXT...] [--seconds N] [--again]

  TEXT        only mutants whose name contains it: a file, a function, `replace +`
  --seconds N so much time of tests for a mutant (60): slower tests are not asked
  --again     mutants that were judged before, too; without it, a run that was stopped goes on. What was noticed counts for as long as its file is as it was,
              what was missed for as long as no source changes
";

fn main() -> ExitCode {
    let mut only = Vec::new();
    let (mut budget, mut again) = (Duration::from_secs(60), false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match &*word {
            "--help" | "-h" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            "--again" => again = true,
            "--seconds" => match words.next().map(|number| number.parse::<u64>()) {
                Some(Ok(seconds)) if seconds > 0 => budget = Duration::from_secs(seconds),
                _ => return refuse("--seconds takes a number of seconds"),
            },
            word if word.starts_with('-') => return refuse(&format!("'{word}' is not understood\n{HELP}")),
            word => only.push(word.to_owned()),
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match root.canonicalize().map_err(|error| error.to_string()).and_then(|root| run(&root, &only, budget, again)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => refuse(&error),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("cargo-mutants: {why}");
    ExitCode::from(2)
}

/// Returns how many were missed.
fn run(root: &Path, only: &[String], budget: Duration, again: bool) -> Result<usize, String> {
    let folder = target()?.join("mutants");
    let explained = list::explained(root)?;
    // All are woven whatever is asked for: what was judged stays true.
    let mutants = list::mutants(root)?;
    println!("{} mutants; weaving them into one build", mutants.len());
    let memory = Memory::recall(root, &folder, &mutants)?;
    let built = tree::build(root, &folder, &mutants, &memory)?;
    println!("{} of them compile; running each test once", mutants.len() - built.unviable.len());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let tests = suite::survey(&built.programs, &folder, workers)?;
    let all: f64 = tests.iter().map(|test| test.time.as_secs_f64()).sum();
    println!("{} tests, {all:.0} s", tests.len());
    let (folder, explained) = (&*folder, &*explained);
    let (mutants, tests) = (&*mutants, &*tests);
    let court = judge::Court { folder, mutants, built: &built, tests, explained, memory: &memory, budget, workers };
    let missed = court.session(only, again)?;
    println!("verdicts: {}", memory.path().display());
    Ok(missed)
}

/// The build's folder: where this very program lies, `release/` or `debug/` inside it.
fn target() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    program.ancestors().nth(2).map(Path::to_owned).ok_or_else(|| "no build folder".to_owned())
}
