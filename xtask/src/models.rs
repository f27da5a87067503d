//! The model checkers: loom, ordering mutants, shuttle. `cargo xtask models all` does all of it,
//! and what else takes long.

use std::process::Command;
use std::time::Instant;

use crate::coverage::coverage;
use crate::tools::{self, Outcome};
use crate::{planted, weakened};

/// Runs one of the checking programs, without a limit, and returns its exit code.
fn example(name: &str, words: &[&str]) -> u8 {
    let run = ["run", "--release", "--quiet", "-p", "lockyard-check", "--features", name, "--example", name, "--"];
    let status = Command::new("cargo").args(run).args(words).status();
    status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

fn passed(code: u8, rerun: &str) -> Outcome {
    if code == 0 { Ok(()) } else { Err(format!("rerun: {rerun}")) }
}

/// `cargo xtask models loom`: its exit code.
pub(crate) fn loom(options: &[&str]) -> u8 {
    example("loom", &[&["run"], options].concat())
}

/// `cargo xtask models mutants`: its exit code. What loom cannot judge simulated machines do.
pub(crate) fn mutants(options: &[&str]) -> u8 {
    let only = options.iter().skip_while(|word| **word != "--only").nth(1).copied().unwrap_or("");
    let code = example("loom", &[&["mutants"], options].concat());
    if code == 2 {
        return code;
    }
    match weakened::judge(only) {
        Ok(()) => code,
        Err(why) => {
            eprintln!("xtask: {why}");
            1
        }
    }
}

/// `cargo xtask models shuttle`: its exit code.
pub(crate) fn shuttle(options: &[&str]) -> u8 {
    example("shuttle", options)
}

/// `cargo xtask models short`.
pub(crate) fn short() -> Outcome {
    passed(loom(&["--short"]), "cargo xtask models loom --short")?;
    passed(shuttle(&["--schedules", "400", "--crowds", "20"]), "cargo xtask models shuttle --schedules 400 --crowds 20")
}

fn loom_long() -> Outcome {
    passed(loom(&[]), "cargo xtask models loom")
}

fn mutants_long() -> Outcome {
    passed(mutants(&[]), "cargo xtask models mutants")
}

fn shuttle_long() -> Outcome {
    let words = ["--schedules", "100000", "--crowds", "5000"];
    passed(shuttle(&words), "cargo xtask models shuttle --schedules 100000 --crowds 5000")
}

/// Runs cargo without a limit.
fn unlimited(arguments: &[&str]) -> Outcome {
    let shown = format!("cargo {}", arguments.join(" "));
    println!("$ {shown}");
    let status = Command::new("cargo").args(arguments).status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("rerun: {shown}")) }
}

/// Miri and ThreadSanitizer, where the nightly toolchain of this machine has what they need.
/// Nothing that is required hangs on them.
fn second_opinions() -> Outcome {
    let sysroot = tools::capture(Command::new("rustc").args(["+nightly", "--print", "sysroot"]));
    let source = sysroot.is_ok_and(|root| std::path::Path::new(root.trim()).join("lib/rustlib/src/rust").is_dir());
    if tools::capture(Command::new("cargo").args(["+nightly", "miri", "--version"])).is_ok() {
        // Lanes are half-words here, which Miri rejects where a whole word races with them; the
        // theatre's threads play one at a time.
        unlimited(&["+nightly", "miri", "test", "-p", "lockyard", "--lib", "wait::"])?;
    } else {
        println!("Miri: not available here (the nightly toolchain has no `miri` component)");
    }
    if source {
        println!(
            "$ RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target TARGET -p lockyard --test conformance"
        );
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut command = Command::new("cargo");
        command.env("RUSTFLAGS", "-Zsanitizer=thread");
        command.args([
            "+nightly",
            "test",
            "-Zbuild-std",
            "--target",
            &target,
            "-p",
            "lockyard",
            "--test",
            "conformance",
        ]);
        if !command.status().is_ok_and(|status| status.success()) {
            return Err("ThreadSanitizer found something".to_owned());
        }
    } else {
        println!("ThreadSanitizer: not available here (the nightly toolchain has no `rust-src` to build std with)");
    }
    Ok(())
}

/// A check, with its name.
type Check = (&'static str, fn() -> Outcome);

/// The long form of everything, with durations.
pub(crate) fn verify() -> bool {
    let steps: [Check; 6] = [
        ("loom", loom_long),
        ("ordering mutants", mutants_long),
        ("planted bugs", planted::check),
        ("shuttle", shuttle_long),
        ("Miri and ThreadSanitizer", second_opinions),
        ("coverage", coverage),
    ];
    let begun = Instant::now();
    let mut lines = Vec::new();
    let mut well = true;
    for (name, check) in steps {
        println!("\n=== {name} ===");
        let start = Instant::now();
        let outcome = check();
        well &= outcome.is_ok();
        let verdict = outcome.map_or_else(|reason| format!("FAILED: {reason}"), |()| "passed".to_owned());
        lines.push(format!("{name:<26} {:>7} s  {verdict}", start.elapsed().as_secs()));
    }
    println!("\n=== summary ===\n{}\n{:<26} {:>7} s", lines.join("\n"), "all", begun.elapsed().as_secs());
    well
}
