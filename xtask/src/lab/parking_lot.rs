//! `cargo xtask lab parking-lot [NAME…]`: programs of parking_lot on Lockyard, without a change to
//! them.
//!
//! A package called `parking_lot` that consists of `pub use lockyard::*` takes the place of the
//! real one. On it run parking_lot's own tests (NAME `own`), cut out of its sources, but for those
//! of `Once` and of serde, std's (NAME `std`, see `of_std.rs`), and tests of other people's crates:
//! of tokio and surrealkv a selection. Nothing of them is in the repository: cargo fetches them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{json, of_std};
use crate::tools::{self, Outcome};

/// A crate that uses parking_lot, the types that it uses, and what of its tests is run.
struct User {
    name: &'static str,
    version: &'static str,
    types: u32,
    tests: &'static str,
}

/// Of their kind the ones with most of the types.
const USERS: [User; 5] = [
    User {
        name: "tokio",
        version: "1.54.1",
        types: 8,
        tests: "--features full,parking_lot,test-util --lib --test sync_mutex --test sync_rwlock --test sync_notify --test sync_watch --test sync_broadcast --test rt_threaded --test task_blocking",
    },
    User { name: "parity-db", version: "0.5.7", types: 8, tests: "--lib" },
    User { name: "epaint", version: "0.24.1", types: 7, tests: "--lib" },
    User { name: "nebari", version: "0.5.5", types: 6, tests: "--lib" },
    User { name: "surrealkv", version: "1.2.0", types: 6, tests: "--lib -- ring:: task::" },
];

const PARKING_LOT: &str = "0.13.0";

/// parking_lot's files with tests, but for `once` and `deadlock`: Lockyard has no `Once`.
const TESTED: [&str; 6] = ["condvar", "fair_mutex", "mutex", "recursive_rwlock", "remutex", "rwlock"];

/// Its tests that ask for what Lockyard does otherwise, with the reason.
const OTHERWISE: [(&str, &str); 1] = [(
    "of_rwlock::tests::test_read_with_waiting_writer",
    "a waiting writer keeps running readers out after its bypass window, not at once",
)];

/// The exit code.
pub(super) fn main(names: &[&str]) -> u8 {
    let known = |name: &&&str| ["own", "std"].contains(*name) || USERS.iter().any(|user| user.name == **name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = USERS.iter().map(|user| user.name).collect();
        eprintln!("xtask: lab parking-lot: '{name}' is none of own, std, {}", all.join(", "));
        return 2;
    }
    match run(names) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(reason) => {
            eprintln!("xtask: lab parking-lot: {reason}");
            2
        }
    }
}

fn run(names: &[&str]) -> Outcome<bool> {
    let folder = tools::target().join("parking_lot");
    stand_in(&folder.join("stand-in"))?;
    let fetch = folder.join("fetch");
    let sources = fetched(&fetch)?;
    let wanted = |name: &str| names.is_empty() || names.contains(&name);
    let mut rows = Vec::new();
    if wanted("own") {
        println!("parking_lot's own tests");
        rows.push((format!("parking_lot {PARKING_LOT}, its own tests"), own(&folder, &sources("parking_lot")?)?));
    }
    if wanted("std") {
        println!("std's tests of its locks");
        let package = folder.join("of-std");
        let words = of_std::package(&package)?;
        rows.push(("std's own tests, without poisoning".to_owned(), test(&package, &folder.join("target"), words)?));
    }
    for user in USERS.iter().filter(|user| wanted(user.name)) {
        println!("{} {}", user.name, user.version);
        let row = format!("{} {}, {} of parking_lot's types", user.name, user.version, user.types);
        rows.push((row, of_user(&folder, &sources(user.name)?, user)?));
    }
    println!("\n| tests on Lockyard | passed | failed |\n|---|---|---|");
    for (name, tally) in &rows {
        println!("| {name} | {} | {} |", tally.passed, tally.failed);
    }
    for (test, reason) in OTHERWISE {
        println!("Left out: {test}: {reason}.");
    }
    Ok(rows.iter().all(|(_, tally)| tally.failed == 0 && tally.passed > 0))
}

fn write(file: &Path, text: &str) -> Outcome {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, text))
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// The package that stands in for parking_lot.
fn stand_in(folder: &Path) -> Outcome {
    let lockyard = tools::root().join("crates/lockyard");
    let features = ["arc_lock", "deadlock_detection", "serde", "owning_ref"];
    let ours: String = features.iter().map(|name| format!("{name} = [\"lockyard/{name}\"]\n")).collect();
    let manifest = format!(
        "[package]\nname = \"parking_lot\"\nversion = \"0.12.99\"\nedition = \"2024\"\n[features]\n{ours}nightly = []\n\
         hardware-lock-elision = []\n[dependencies]\nlockyard = {{ path = {lockyard:?} }}\n[workspace]\n"
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("src/lib.rs"), "pub use lockyard::*;\n")
}

/// Fetches the packages: where the sources of each are.
fn fetched(folder: &Path) -> Outcome<impl Fn(&str) -> Outcome<PathBuf>> {
    let needs: String = USERS.iter().map(|user| format!("{} = \"={}\"\n", user.name, user.version)).collect();
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n\
         parking_lot = \"={PARKING_LOT}\"\n{needs}[workspace]\n"
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("src/lib.rs"), "")?;
    let manifest = folder.join("Cargo.toml");
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(manifest);
    let metadata = json::parse(&tools::capture(&mut metadata)?)?;
    Ok(move |name: &str| {
        let version = USERS.iter().find(|user| user.name == name).map_or(PARKING_LOT, |user| user.version);
        let is_it = |package: &&json::Value| package.text("name") == name && package.text("version") == version;
        let package = metadata.list("packages").iter().find(is_it).ok_or(format!("cargo knows no {name} {version}"))?;
        Path::new(package.text("manifest_path")).parent().map(Path::to_owned).ok_or(format!("{name}: no folder"))
    })
}

/// Tests that passed and failed.
#[derive(Debug, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

/// Adds up what `cargo test` says; the rest of its output is shown.
fn tally(text: &str) -> Tally {
    let mut sum = Tally { passed: 0, failed: 0 };
    for line in text.lines().filter(|line| line.starts_with("test result:")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let before = |word: &str| {
            let at = words.iter().position(|found| found.trim_end_matches(';') == word)?;
            words.get(at.checked_sub(1)?)?.parse::<u64>().ok()
        };
        sum.passed += before("passed").unwrap_or(0);
        sum.failed += before("failed").unwrap_or(0);
    }
    sum
}

/// Runs the tests of the package in `folder`.
fn test(folder: &Path, target: &Path, words: &str) -> Outcome<Tally> {
    let mut command = Command::new("cargo");
    command.arg("test").args(words.split_whitespace()).current_dir(folder).env("CARGO_TARGET_DIR", target);
    // std's tests use what is not stable.
    command.env("RUSTC_BOOTSTRAP", "of_std");
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let sum = tally(&text);
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
        text.lines().filter(|line| line.ends_with("FAILED")).for_each(|line| println!("{line}"));
        if sum.failed == 0 {
            return Err(format!("{}: cargo test {words}: {}", folder.display(), output.status));
        }
    }
    Ok(sum)
}

/// parking_lot's own tests, in a package whose root has Lockyard's names.
fn own(folder: &Path, sources: &Path) -> Outcome<Tally> {
    let mut root = String::from("#![allow(unused)]\npub use lockyard::*;\n");
    for file in TESTED {
        let path = sources.join(format!("src/{file}.rs"));
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let begin = text.find("#[cfg(test)]").or(text.find("mod tests {"));
        let begin = begin.ok_or_else(|| format!("{}: no tests", path.display()))?;
        // Its name for what both have for their tests.
        let tests = text[begin..].replace("has_parked_threads", "is_contended");
        root += &format!("mod of_{file} {{\nuse super::*;\n{tests}\n}}\n");
    }
    let lockyard = tools::root().join("crates/lockyard");
    let manifest = format!(
        "[package]\nname = \"own\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[features]\nserde = []\n\
         arc_lock = []\ndeadlock_detection = []\n[dependencies]\n\
         lockyard = {{ path = {lockyard:?}, features = [\"arc_lock\"] }}\n[dev-dependencies]\nrand = \"0.10\"\n[workspace]\n"
    );
    let package = folder.join("own");
    write(&package.join("Cargo.toml"), &manifest)?;
    write(&package.join("src/lib.rs"), &root)?;
    let left_out: String = OTHERWISE.iter().map(|(test, _)| format!(" --skip {test}")).collect();
    test(&package, &folder.join("target"), &format!("--features arc_lock --lib --{left_out}"))
}

/// The tests of a crate, with the stand-in for its parking_lot.
fn of_user(folder: &Path, sources: &Path, user: &User) -> Outcome<Tally> {
    let package = folder.join(user.name);
    // Of an earlier run: another version may have been there.
    let _ = fs::remove_dir_all(&package);
    copy(sources, &package)?;
    let manifest = package.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let workspace = if text.contains("\n[workspace]") { "" } else { "[workspace]\n" };
    let stand_in = folder.join("stand-in");
    let patched = format!("{text}\n{workspace}[patch.crates-io]\nparking_lot = {{ path = {stand_in:?} }}\n");
    write(&manifest, &patched)?;
    let _ = fs::remove_file(package.join("Cargo.lock"));
    test(&package, &folder.join("target"), user.tests)
}

fn copy(from: &Path, to: &Path) -> Outcome {
    let named = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(named)?;
    for entry in fs::read_dir(from).map_err(named)? {
        let path = entry.map_err(named)?.path();
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name)).map_err(named)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let text = "running 2 tests\ntest result: ok. 39 passed; 0 failed; 1 ignored; 0 measured\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        assert_eq!(tally(text), Tally { passed: 40, failed: 2 });
        assert_eq!(tally(""), Tally { passed: 0, failed: 0 });
    }
}
