//! How many instructions one uncontended lock + unlock pair takes, against the budget kept beside
//! the measured code.
//!
//! Callgrind counts instructions inside one function of `lockyard-cost`, for two numbers of pairs;
//! the difference is exactly what the pairs took, whatever start-up cost. Counts do not depend on
//! the machine's speed or load, only on the compiler, which the budget names: with another compiler
//! they are shown and not judged.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::tools::{self, Outcome};

/// Functions of `tools/cost/src/pairs.rs`, there with `cost_` before the name. The first
/// is the loop alone.
const PAIRS: [&str; 9] = [
    "empty_loop",
    "mutex_lock_unlock",
    "rt_mutex_lock_unlock",
    "spin_lock_unlock",
    "rwsem_read",
    "rwsem_write",
    "qrwlock_read",
    "qrwlock_write",
    "semaphore",
];

const BUDGET: &str = "tools/cost/budget.txt";
const FEW: u64 = 1_000;
const MANY: u64 = 2_000;

/// Measures, and fails if anything became dearer.
pub(crate) fn check() -> Outcome {
    let budget = fs::read_to_string(BUDGET).map_err(|error| format!("{BUDGET}: {error}"))?;
    let compiler = compiler()?;
    let same_compiler = budget.lines().any(|line| line.strip_prefix("compiler ") == Some(compiler.as_str()));
    let counts = measure()?;
    println!("{:<20} {:>6} {:>6}   instructions per pair, loop included", "", "now", "budget");
    let mut dearer = Vec::new();
    for (name, now) in counts {
        let Some(limit) = budgeted(&budget, name) else {
            println!("{name:<20} {now:>6} {:>6}   no budget for {}, not checked", "-", std::env::consts::ARCH);
            continue;
        };
        let remark = match now.cmp(&limit) {
            std::cmp::Ordering::Equal => "",
            std::cmp::Ordering::Less => "cheaper: lower the budget with `cargo xtask cost counts --bless`",
            std::cmp::Ordering::Greater => "DEARER",
        };
        println!("{name:<20} {now:>6} {limit:>6}   {remark}");
        if now > limit {
            dearer.push(format!("{name} takes {now} instructions, its budget is {limit}"));
        }
    }
    if !same_compiler {
        println!("not judged: {BUDGET} was measured with another compiler than {compiler}");
    } else if !dearer.is_empty() {
        return Err(format!("{}\nrerun: cargo xtask cost counts", dearer.join("\n")));
    }
    Ok(())
}

/// Measures and writes the budget; lines of other architectures stay.
pub(crate) fn bless() -> Outcome {
    let old = fs::read_to_string(BUDGET).unwrap_or_default();
    let mut new = String::from(
        "# Instructions of one uncontended lock + unlock pair, loop included (`empty_loop` is the loop\n\
         # alone).\n\
         # Checked by `cargo xtask cost counts`, written by `cargo xtask cost counts --bless`.\n",
    );
    let arch = std::env::consts::ARCH;
    let mut put = |line: &str| {
        println!("{line}");
        writeln!(new, "{line}").map_err(|error| error.to_string())
    };
    let counts = measure()?;
    put(&format!("compiler {}", compiler()?))?;
    for (name, now) in counts {
        put(&format!("{arch} {name} {now}"))?;
    }
    for line in old.lines() {
        if !["#", "compiler ", &format!("{arch} ")].iter().any(|start| line.starts_with(start)) {
            put(line)?;
        }
    }
    fs::write(BUDGET, new).map_err(|error| format!("{BUDGET}: {error}"))
}

/// Builds the measured program in a way that the user's environment cannot change, and returns its
/// path.
pub(crate) fn build() -> Outcome<String> {
    tools::cargo_with(
        &[("RUSTFLAGS", ""), ("CARGO_ENCODED_RUSTFLAGS", "")],
        "build --quiet --release -p lockyard-cost",
    )?;
    Ok(tools::target().join("release/lockyard-cost").display().to_string())
}

fn compiler() -> Outcome<String> {
    let version = tools::capture(Command::new("rustc").arg("--version"))?;
    Ok(version.split(" (").next().unwrap_or(&version).trim().to_owned())
}

fn budgeted(budget: &str, name: &str) -> Option<u64> {
    let start = format!("{} {name} ", std::env::consts::ARCH);
    budget.lines().find_map(|line| line.strip_prefix(&start)?.trim().parse().ok())
}

fn measure() -> Outcome<Vec<(&'static str, u64)>> {
    tools::need("valgrind", "valgrind")?;
    let program = build()?;
    let mut counts = Vec::new();
    for name in PAIRS {
        let difference = instructions(&program, name, MANY)?.saturating_sub(instructions(&program, name, FEW)?);
        let pairs = MANY - FEW;
        if difference == 0 || difference % pairs != 0 {
            return Err(format!("{name}: {difference} instructions for {pairs} pairs, not the same for each"));
        }
        counts.push((name, difference / pairs));
    }
    Ok(counts)
}

/// Runs `pairs` pairs under callgrind, which counts only inside the measured function and what it
/// calls.
fn instructions(program: &str, name: &str, pairs: u64) -> Outcome<u64> {
    let profile = tools::target().join("callgrind.out");
    let mut command = Command::new("valgrind");
    command
        .args(["-q", "--tool=callgrind", "--collect-jumps=no"])
        .arg(format!("--toggle-collect=cost_{name}"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .args([program, name, &pairs.to_string()]);
    tools::capture(&mut command)?;
    let text = fs::read_to_string(&profile).map_err(|error| format!("{}: {error}", profile.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.ok_or_else(|| format!("{}: no total", profile.display()))
}
