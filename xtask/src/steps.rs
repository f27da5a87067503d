//! What `cargo xtask test` does, step by step.
//!
//! Every step prints a heading and its duration; a failed one prints the exact command to rerun.
//! All steps run even if one fails, except that nothing which needs compiled code is tried after
//! the build failed.

use std::io::{IsTerminal, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tools::{Outcome, cargo, cargo_with};
use crate::{asm, counts, install, licences, models, planted, programs, sources, suites, surface, tools};

/// One check.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) needs_build: bool,
    pub(crate) check: fn() -> Outcome,
}

pub(crate) const FORMAT: Step = Step { name: "formatting", needs_build: false, check: formatting };
pub(crate) const SOURCES: Step = Step { name: "house rules", needs_build: false, check: sources::check };
pub(crate) const DEPENDENCIES: Step = Step { name: "dependencies", needs_build: false, check: licences::check };
pub(crate) const BUILD: Step = Step { name: "build", needs_build: false, check: build };
pub(crate) const CLIPPY: Step = Step { name: "clippy", needs_build: true, check: clippy };
/// As [`CLIPPY`], without the model checkers, whose compilation alone takes a minute: `lint` has
/// them.
pub(crate) const CLIPPY_SHORT: Step = Step { name: "clippy", needs_build: true, check: clippy_short };
pub(crate) const HEADER: Step = Step { name: "C header", needs_build: true, check: header_check };
pub(crate) const INSTALLED: Step = Step { name: "installed files", needs_build: true, check: install::check };
pub(crate) const TESTS: Step = Step { name: "tests", needs_build: true, check: tests };
/// What the features add that no other package turns on.
pub(crate) const FEATURES: Step = Step { name: "features", needs_build: true, check: features };
/// The suite once more, on the machine of other systems.
pub(crate) const PORTABLE: Step = Step { name: "portable machine", needs_build: true, check: portable };
pub(crate) const GUIDE: Step = Step { name: "commands of the guide", needs_build: true, check: guide };
pub(crate) const DOC_TESTS: Step = Step { name: "doc tests", needs_build: true, check: doc_tests };
pub(crate) const DOCS: Step = Step { name: "documentation", needs_build: true, check: docs };
/// The libraries' pages alone; `doc` has those of the commands and of what is private.
pub(crate) const DOCS_SHORT: Step = Step { name: "documentation", needs_build: true, check: docs_short };
/// The pages of the default features: what users see.
pub(crate) const SURFACE: Step = Step { name: "surface", needs_build: false, check: surface::check };
pub(crate) const COUNTS: Step = Step { name: "instruction counts", needs_build: true, check: counts::check };
pub(crate) const ASSEMBLY: Step = Step { name: "assembly", needs_build: true, check: asm::check };
pub(crate) const PROGRAMS: Step = Step { name: "real programs", needs_build: true, check: programs::short };

pub(crate) const PLANTED: Step = Step { name: "planted bugs", needs_build: true, check: planted::check };
pub(crate) const MODELS: Step = Step { name: "model checkers", needs_build: true, check: models::short };

fn formatting() -> Outcome {
    let colour = if std::io::stdout().is_terminal() { "" } else { " -- --color never" };
    cargo(&format!("fmt --all --check{colour}"))
        .map_err(|reason| format!("{reason} (`cargo xtask lint --fix` formats)"))
}

/// What later steps run as people would: optimised. The command is compiled by the tests,
/// unoptimised; optimising every lock on every machine takes four minutes more, which
/// `cargo xtask install --check` spends.
fn build() -> Outcome {
    cargo("build --release -p lockyard-capi -p lockyard-preload -p lockyard-cost")
}

/// All packages but the one that turns the feature `stat` on: the others are to be compiled as
/// users have them.
const ALL: &str = "--workspace --exclude lockyard-stat";

/// What tests and benchmarks are linted without: they use std's threads and clocks.
const SEAM_OFF: &str = "-A clippy::disallowed_types -A clippy::disallowed_methods";

/// Everything, without the rule about the seam; then the library and the conformance suite under
/// that rule, and the library once more for each set of features: what users have, and no
/// `unstable-internals`, but for the last.
fn clippy_short() -> Outcome {
    cargo(&format!("clippy {ALL} --all-targets -- -D warnings {SEAM_OFF}"))?;
    cargo(&format!("clippy -p lockyard-stat --all-targets -- -D warnings {SEAM_OFF}"))?;
    cargo("clippy -p lockyard -p lockyard-check --lib -- -D warnings")?;
    let sets = [
        "",
        " -F default",
        " -F std",
        " -F events",
        " -F history",
        " -F portable",
        " -F stat",
        " -F deadlock,arc_lock,serde,owning_ref",
        " -F unstable-internals,stat",
    ];
    for features in sets {
        cargo(&format!("clippy -p lockyard --lib --no-default-features{features} -- -D warnings"))?;
    }
    Ok(())
}

fn clippy() -> Outcome {
    clippy_short()?;
    cargo(&format!("clippy -p lockyard-check --all-targets -F loom,shuttle,simulated -- -D warnings {SEAM_OFF}"))
}

/// Writes `lockyard.h`, as cbindgen reads it from the sources.
pub(crate) fn header() -> Outcome {
    cargo_with(&[("LOCKYARD_WRITE_HEADER", "1")], HEADER_COMMAND)
}

fn header_check() -> Outcome {
    cargo(HEADER_COMMAND)
}

/// A test, so that cbindgen is compiled once for all uses.
const HEADER_COMMAND: &str = "test --quiet -p lockyard-capi --test header";

/// With the compilers that the tests of the C interface need, and what shows stacks. Examples have
/// no tests, and clippy compiles them.
fn tests() -> Outcome {
    let programs = [("g++", "g++"), ("clang++", "clang"), ("readelf", "binutils"), ("eu-stack", "elfutils")];
    for (program, package) in programs {
        tools::need(program, package)?;
    }
    suites::run(&format!("{ALL} --lib --bins --tests"))
}

fn portable() -> Outcome {
    cargo("test -p lockyard -F portable,deadlock --test conformance --test names --test deadlock --test no_deadlock")
}

fn features() -> Outcome {
    let with = "test -p lockyard -F deadlock,arc_lock,stat";
    cargo(&format!("{with} --lib --test deadlock --test no_deadlock"))?;
    // Not those of signal handlers, which must not lock with the detector.
    cargo(&format!("{with} --test native -- permits:: guards::"))?;
    cargo(&format!("{with} --doc"))?;
    cargo("test -p lockyard-stat")
}

fn doc_tests() -> Outcome {
    cargo(&format!("test {ALL} --doc"))
}

fn guide() -> Outcome {
    cargo_with(&[("LOCKYARD_RUN_GUIDE", "1")], "test -p lockyard-cli --test guide")
}

/// Documentation with warnings as errors.
const STRICT: [(&str, &str); 1] = [("RUSTDOCFLAGS", "-D warnings")];

fn docs_short() -> Outcome {
    cargo_with(&STRICT, &format!("doc --no-deps {ALL} --lib"))?;
    cargo_with(&STRICT, "doc --no-deps -p lockyard-stat")
}

/// The command and the library share a name, so that their pages share a folder: the library's come
/// last and stay.
fn docs() -> Outcome {
    cargo_with(&STRICT, "doc --no-deps -p lockyard-cli -p xtask -p lockyard-cost --bins --document-private-items")?;
    cargo_with(&STRICT, "doc --no-deps -p lockyard-cli --lib --document-private-items")?;
    docs_short()
}

/// cargo-deny takes minutes to compile, hence apart from `test`, which has its own check of
/// licences and sources.
pub(crate) fn deny() -> Outcome {
    if cargo("deny --version").is_err() {
        cargo("install --locked cargo-deny --version 0.20.2")?;
    }
    cargo("deny check bans licenses sources")
}

/// What cargo-semver-checks says of the published interface, beside that of a revision: of the
/// newest tag, or of the last commit but one while nothing has been released.
pub(crate) fn semver(words: &[&str]) -> u8 {
    let tagged = || tools::capture(Command::new("git").args(["describe", "--tags", "--abbrev=0"]));
    let baseline = match *words {
        [] => tagged().map_or_else(|_| "HEAD~1".to_owned(), |tag| tag.trim().to_owned()),
        [revision] if !revision.starts_with('-') => revision.to_owned(),
        _ => return tools::misunderstood("lint --semver", words),
    };
    let check = || {
        if cargo("semver-checks --version").is_err() {
            cargo("install --locked cargo-semver-checks")?;
        }
        cargo(&format!("semver-checks -p lockyard -p lockyard-stat --default-features --baseline-rev {baseline}"))
    };
    tools::report(check())
}

/// The search for a schedule that breaks a lock takes as long as one likes: apart from `test`,
/// without a limit, and it speaks for itself. Its exit code.
pub(crate) fn seeds(options: &[&str]) -> u8 {
    let words = ["run", "--release", "--quiet", "-p", "lockyard-check", "-F", "simulated", "--example", "seeds", "--"];
    let status = Command::new("cargo").args(words).args(options).status();
    status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

/// Small cases of torture, or crowds, on simulated machines, so many for each lock: the machines
/// share them. The exit code of the first machine that finds something.
pub(crate) fn schedules(options: &[&str]) -> u8 {
    const SMALL: &[&str] = &["--small"];
    const CROWD: &[&str] = &["--threads", "12", "--operations", "60"];
    let (mut locks, mut count, mut seed, mut machines, mut size) = ("all", 100_000_u64, "1", "quad2008", SMALL);
    for pair in options.chunks(2) {
        match *pair {
            ["--lock", list] => locks = list,
            ["--seed", first] => seed = first,
            ["--machine", list] => machines = list,
            ["--size", "small"] => size = SMALL,
            ["--size", "crowd"] => size = CROWD,
            ["--count", text] if text.parse::<u64>().is_ok_and(|number| number > 0) => {
                count = text.parse().unwrap_or(count);
            }
            _ => {
                let words = pair.join(" ");
                eprintln!(
                    "xtask: schedules: '{words}' is not understood; give --lock LIST --count N --seed N --machine LIST --size small|crowd"
                );
                return 2;
            }
        }
    }
    let each = count.div_ceil(machines.split(',').count() as u64).to_string();
    for machine in machines.split(',') {
        let run = ["run", "--release", "--quiet", "-p", "lockyard-cli", "--", "torture", "--schedules", &each];
        let words = ["--lock", locks, "--machine", machine, "--seed", seed];
        let status = Command::new("cargo").args(run).args(size).args(words).status();
        let code = status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()).unwrap_or(2);
        if code != 0 {
            return code;
        }
    }
    0
}

/// The property of priority inheritance on as many random cases as one likes: as [`seeds`].
pub(crate) fn priorities(options: &[&str]) -> u8 {
    let words =
        ["run", "--release", "--quiet", "-p", "lockyard-check", "-F", "simulated", "--example", "priorities", "--"];
    let status = Command::new("cargo").args(words).args(options).status();
    status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

/// The bar of the inversion test on this machine: as [`seeds`].
pub(crate) fn inversion(options: &[&str]) -> u8 {
    let words = ["run", "--release", "--quiet", "-p", "lockyard-work", "--example", "inversion", "--"];
    let status = Command::new("cargo").args(words).args(options).status();
    status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

/// The table of historical bugs. Its exit code.
pub(crate) fn history() -> u8 {
    let words = ["run", "--release", "--quiet", "-p", "lockyard-torture", "--example", "history"];
    let status = Command::new("cargo").args(words).status();
    status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

/// Runs `steps` and prints the summary: the exit code.
pub(crate) fn passes(steps: &[Step]) -> u8 {
    u8::from(!run(steps))
}

fn run(steps: &[Step]) -> bool {
    let mut results: Vec<(&str, Verdict, Duration)> = Vec::new();
    let mut built = true;
    for (number, step) in steps.iter().enumerate() {
        if step.needs_build && !built {
            results.push((step.name, Verdict::Skipped, Duration::ZERO));
            continue;
        }
        println!("\n=== {} ({} of {}) ===", step.name, number + 1, steps.len());
        let start = Instant::now();
        let outcome = (step.check)();
        let took = start.elapsed();
        let verdict = match &outcome {
            Ok(()) => {
                println!("--- {} passed in {}", step.name, seconds(took));
                Verdict::Passed
            }
            Err(reason) => {
                println!("--- {} FAILED in {}\n{reason}", step.name, seconds(took));
                built &= step.name != BUILD.name;
                Verdict::Failed(reason.clone())
            }
        };
        drop(std::io::stdout().flush());
        results.push((step.name, verdict, took));
    }
    summary(&results)
}

enum Verdict {
    Passed,
    Failed(String),
    Skipped,
}

fn summary(results: &[(&str, Verdict, Duration)]) -> bool {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    println!("\n=== summary ===");
    for (name, verdict, took) in results {
        let (count, word) = match verdict {
            Verdict::Passed => (&mut passed, "passed"),
            Verdict::Failed(_) => (&mut failed, "FAILED"),
            Verdict::Skipped => (&mut skipped, "skipped: no build"),
        };
        *count += 1;
        println!("{name:<20} {:>8}  {word}", seconds(*took));
        if let Verdict::Failed(reason) = verdict {
            println!("{:20}           {}", "", reason.lines().last().unwrap_or_default());
        }
    }
    println!("{:<20} {:>8}", "all", seconds(results.iter().map(|result| result.2).sum()));
    let skipped_words = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    println!("{passed} passed, {failed} failed{skipped_words}");
    failed == 0
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
