//! A copy of the project with all mutants in its library, and its tests, compiled once.
//!
//! A mutant that does not compile is noticed by where the compiler's error lies, and left out; the
//! rest is compiled again, until nothing is left to leave out. `const fn` can ask which mutant is
//! chosen with the compiler's own `const_eval_select` (`RUSTC_BOOTSTRAP` for that one crate), and
//! is told "none" in constants.
//!
//! Mutants in constants cannot be chosen when a program runs. Each is compiled by itself: an
//! assertion on constants refuses it, or a unit test of the library fails, or if none does another
//! test of it, or it is missed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use crate::list::Mutant;
use crate::memory::{self, Memory, Verdict};
use crate::program::{self, End, Program};
use crate::weave::{self, Woven};

/// Whose tests judge.
const PACKAGES: [&str; 2] = ["lockyard", "lockyard-check"];
const LIBRARY: &str = "crates/lockyard/src";
/// Where the question is answered.
const ANSWER: &str = include_str!("mutation.rs.in");

/// What came of compiling.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) programs: Vec<Program>,
    /// Mutants that do not compile, or have no place in Rust's grammar.
    pub(crate) unviable: BTreeSet<u32>,
    /// Mutants that no program can choose.
    pub(crate) constants: BTreeSet<u32>,
}

/// Copies `root` to `folder`, weaves the mutants in, compiles. Numbers begin with one.
pub(crate) fn build(root: &Path, folder: &Path, mutants: &[Mutant], memory: &Memory) -> Result<Built, String> {
    let tree = folder.join("tree");
    copy(root, &tree)?;
    let known = |mutant: &Mutant| memory.verdict(mutant) == Some(&Verdict::Unviable);
    let known: BTreeSet<u32> =
        (1_u32..).zip(mutants).filter(|(_, mutant)| known(mutant)).map(|(number, _)| number).collect();
    let mut unviable = known.clone();
    let check: Vec<&str> = "check --package lockyard --lib".split(' ').collect();
    let mut test: Vec<&str> = "test --no-run --lib --tests".split(' ').collect();
    test.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
    without_errors(root, &tree, folder, mutants, &mut unviable, &check)?;
    println!("compiling the tests");
    let (programs, constants) = without_errors(root, &tree, folder, mutants, &mut unviable, &test)?;
    for number in unviable.difference(&known) {
        memory.write(&mutants[*number as usize - 1], &Verdict::Unviable);
    }
    Ok(Built { programs, unviable, constants })
}

/// Compiles, without more and more mutants, until there is no error left.
fn without_errors(
    root: &Path,
    tree: &Path,
    folder: &Path,
    mutants: &[Mutant],
    unviable: &mut BTreeSet<u32>,
    words: &[&str],
) -> Result<(Vec<Program>, BTreeSet<u32>), String> {
    loop {
        let woven = weave_all(root, tree, mutants, unviable)?;
        let compiled = compile(tree, folder, words, 0)?;
        let Some(first) = compiled.errors.first() else {
            return Ok((compiled.programs, woven.into_values().flat_map(|file| file.constants).collect()));
        };
        let before = unviable.len();
        for error in &compiled.errors {
            match whose(error, &woven) {
                guilty if guilty.is_empty() => return Err(format!("no mutant's fault:\n{}", error.rendered)),
                guilty => unviable.extend(guilty),
            }
        }
        println!("{} mutants do not compile", unviable.len());
        if unviable.len() == before {
            return Err(format!("the same mutants again:\n{}", first.rendered));
        }
    }
}

/// What git knows or would know of the project. Files that are the same keep their time, and need
/// not be compiled again.
fn copy(root: &Path, tree: &Path) -> Result<(), String> {
    let list = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output();
    let list = list.map_err(|error| format!("git ls-files: {error}"))?;
    if !list.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&list.stderr).trim()));
    }
    let mut kept = BTreeSet::new();
    for name in String::from_utf8_lossy(&list.stdout).split_terminator('\0') {
        // Deleted and not committed yet.
        let Ok(bytes) = fs::read(root.join(name)) else { continue };
        kept.insert(tree.join(name));
        // These are woven.
        if !name.starts_with(LIBRARY) {
            write(&tree.join(name), &bytes)?;
        }
    }
    kept.insert(tree.join(LIBRARY).join("mutation.rs"));
    remove_others(tree, &kept)
}

fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<(), String> {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) && path.file_name().is_some_and(|name| name != "Cargo.lock") {
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes the library's sources with all mutants but the unviable ones. Returns the woven files by
/// name.
fn weave_all(
    root: &Path,
    tree: &Path,
    mutants: &[Mutant],
    unviable: &mut BTreeSet<u32>,
) -> Result<BTreeMap<String, Woven>, String> {
    let mut files = Vec::new();
    memory::collect(&root.join(LIBRARY), &mut files);
    let mut all = BTreeMap::new();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let numbered =
            (1_u32..).zip(mutants).filter(|(number, mutant)| mutant.file == name && !unviable.contains(number));
        let numbered: Vec<(u32, &Mutant)> = numbered.collect();
        let mut woven = if numbered.is_empty() {
            Woven { text, ..Woven::default() }
        } else {
            weave::weave(&text, &numbered).map_err(|error| format!("{name}: {error}"))?
        };
        if name.ends_with("/src/lib.rs") {
            let features = "#![no_std] #![allow(internal_features)] #![feature(core_intrinsics, const_eval_select)]";
            woven.text = woven.text.replace("#![no_std]", features) + "\nmod mutation;\n";
        }
        unviable.extend(&woven.unplaced);
        write(&tree.join(&name), woven.text.as_bytes())?;
        all.insert(name, woven);
    }
    let answer = ANSWER.replace("@COUNT@", &(mutants.len() + 1).to_string());
    write(&tree.join(LIBRARY).join("mutation.rs"), answer.as_bytes())?;
    Ok(all)
}

/// A line of cargo's, as far as it matters here.
#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Diagnostic>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
    code: Option<Code>,
    spans: Vec<Place>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Place {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    line_start: usize,
    is_primary: bool,
}

/// An error of the compiler's.
#[derive(Debug)]
struct Error {
    rendered: String,
    code: String,
    places: Vec<Place>,
}

struct Compiled {
    programs: Vec<Program>,
    errors: Vec<Error>,
}

/// What becomes of a mutant in a constant.
pub(crate) fn judge_constant(folder: &Path, number: u32) -> Result<Verdict, String> {
    let tree = folder.join("tree");
    let words = |words: &'static str| words.split(' ').collect::<Vec<_>>();
    if !compile(&tree, folder, &words("check --package lockyard --lib"), number)?.errors.is_empty() {
        return Ok(Verdict::Unviable);
    }
    let mut passed = 0;
    // All programs take minutes to compile: only where the unit tests notice nothing.
    for (tests, by) in [("--lib", "the library's unit tests"), ("--tests", "the library's tests")] {
        let compiled =
            compile(&tree, folder, &[&words("test --no-run --package lockyard")[..], &[tests]].concat(), number)?;
        if let Some(error) = compiled.errors.first() {
            // Some constants are evaluated only where code is made of them.
            return if error.code == EVALUATION { Ok(Verdict::Unviable) } else { Err(error.rendered.clone()) };
        }
        // As many at once as there are CPUs, and as long as a mutant that hangs may take.
        for program in &compiled.programs {
            match program::run(program, &[], &[], Duration::from_secs(300)) {
                End::Passed => passed += 1,
                End::Failed => return Ok(Verdict::Failed(by.to_owned())),
                End::Hung => return Ok(Verdict::Hung(by.to_owned())),
            }
        }
    }
    Ok(Verdict::Missed(passed, passed))
}

/// The compiler's name for a constant whose evaluation panics.
const EVALUATION: &str = "E0080";

/// `constant` is the mutant that constants are.
fn compile(tree: &Path, folder: &Path, words: &[&str], constant: u32) -> Result<Compiled, String> {
    let mut command = Command::new("cargo");
    command.env("LOCKYARD_MUTANT_IN_CONSTANTS", constant.to_string());
    command.current_dir(tree).args(words).args(["--message-format", "json", "--quiet"]);
    command.env("CARGO_TARGET_DIR", folder.join("build")).env("RUSTC_BOOTSTRAP", "lockyard");
    command
        .env("RUSTFLAGS", "--cap-lints allow")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "1");
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cargo does not start: {error}"))?;
    let mut compiled = Compiled { programs: Vec::new(), errors: Vec::new() };
    for line in output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(line) = serde_json::from_slice::<Line>(line) else { continue };
        match (&*line.reason, line.message, line.executable, line.manifest_path) {
            ("compiler-message", Some(message), ..) if message.level == "error" && !message.spans.is_empty() => {
                let code = message.code.map_or_else(String::new, |code| code.code);
                let rendered = message.rendered.unwrap_or_default();
                compiled.errors.push(Error { rendered, code, places: message.spans });
            }
            ("compiler-artifact", _, Some(path), Some(manifest)) => {
                let folder = manifest.parent().unwrap_or(tree).to_owned();
                compiled.programs.push(Program { path, folder });
            }
            _ => {}
        }
    }
    if !output.status.success() && compiled.errors.is_empty() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(compiled)
}

/// Whose fault an error is: the innermost mutant around its main place, or around another, or
/// whoever deleted an arm of that match.
fn whose(error: &Error, woven: &BTreeMap<String, Woven>) -> Vec<u32> {
    let mut places = error.places.clone();
    places.sort_by_key(|place| !place.is_primary);
    for place in &places {
        let Some(file) = woven.get(&place.file_name) else { continue };
        let around = |range: &std::ops::Range<usize>| range.start <= place.byte_start && place.byte_end <= range.end;
        let innermost =
            file.alternatives.iter().filter(|(range, _)| around(range)).min_by_key(|(range, _)| range.len());
        if let Some((_, number)) = innermost {
            return vec![*number];
        }
        let exhaustive = error.code == "E0004";
        let mut arms = file.matches.iter().filter(|(line, deleted)| *line == place.line_start && !deleted.is_empty());
        if let (true, Some((_, deleted))) = (exhaustive, arms.next_back()) {
            return deleted.clone();
        }
    }
    Vec::new()
}
