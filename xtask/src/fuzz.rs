//! `cargo xtask explore fuzz`: whatever reads what others have written is fed whatever libFuzzer
//! can think of.
//!
//! | target | what | begins with |
//! |---|---|---|
//! | `machine` | machine files; one that is taken must run | the machines there are |
//! | `segment` | the statistics segment of another process, as `lockyard stat` reads it | `fuzz/seeds/segment` |
//! | `options` | the values of the command's options | `fuzz/seeds/options`, and a dictionary |
//! | `calls` | the C interface, in any order, against a model of it | nothing |
//!
//! What was found to be new is kept in the build's folder and used the next time. An input that
//! fails is written to `fuzz/artifacts`; libFuzzer prints how to repeat it.

use std::fs;
use std::process::Command;
use std::time::Instant;

use crate::tools::{self, Outcome, cargo};

/// Targets, where their first inputs are, and further words for libFuzzer.
const TARGETS: [(&str, Option<&str>, &[&str]); 4] = [
    ("machine", Some("crates/lockyard-sim/machines"), &["-dict=fuzz/machine.dict", "-max_len=8192"]),
    ("segment", Some("fuzz/seeds/segment"), &["-max_len=1024"]),
    ("options", Some("fuzz/seeds/options"), &["-dict=fuzz/options.dict", "-max_len=400"]),
    ("calls", None, &["-max_len=2048"]),
];

/// Carries out `cargo xtask explore fuzz` with `words`: its exit code.
pub(crate) fn main(words: &[&str]) -> u8 {
    let (mut secs, mut wanted) = (600, Vec::new());
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let number = || words.clone().next().and_then(|text| text.parse::<u32>().ok());
        match (word, number()) {
            ("--secs", Some(number)) if number > 0 => {
                secs = number;
                words.next();
            }
            (name, _) if TARGETS.iter().any(|target| target.0 == name) => wanted.push(name),
            _ => {
                let names = TARGETS.map(|target| target.0).join(", ");
                eprintln!("xtask: fuzz: '{word}' is not understood; give names of {names}, and --secs N");
                return 2;
            }
        }
    }
    match run(&wanted, secs) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("xtask: {why}");
            1
        }
    }
}

fn run(wanted: &[&str], secs: u32) -> Outcome {
    tools::need("g++", "g++")?;
    tools::capture(Command::new("rustc").args(["+nightly", "--version"])).map_err(|_| {
        "libFuzzer needs a nightly compiler; run: rustup toolchain install nightly --profile minimal".to_owned()
    })?;
    if tools::capture(Command::new("cargo").args(["fuzz", "--version"])).is_err() {
        cargo("install --locked cargo-fuzz")?;
    }
    let folder = tools::target().join("fuzz");
    let mut lines = Vec::new();
    let mut well = true;
    for (name, seeds, more) in TARGETS {
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        println!("\n=== {name} ===");
        let start = Instant::now();
        let corpus = folder.join("corpus").join(name);
        fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", "--fuzz-dir", "fuzz", "--target-dir"]).arg(&folder);
        if name == "options" {
            command.args(["--features", "options"]);
        }
        command.arg(name).arg(&corpus).args(seeds).arg("--").arg(format!("-max_total_time={secs}"));
        // Anything that takes ten seconds or two gigabytes is a finding.
        command.args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"]).args(more);
        println!("$ {}", format!("{command:?}").replace('"', ""));
        let clean = command.status().map_err(|error| format!("cargo fuzz: {error}"))?.success();
        well &= clean;
        let verdict = if clean { "clean" } else { "FAILED" };
        lines.push(format!("{name:<10} {:>6} s  {verdict}", start.elapsed().as_secs()));
    }
    println!("\n=== summary (compiling included) ===\n{}", lines.join("\n"));
    if well { Ok(()) } else { Err("an input failed; it is in fuzz/artifacts".to_owned()) }
}
