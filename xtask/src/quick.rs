//! `cargo xtask quick [LOCK]`: what answers within a minute while a lock is being changed.
//!
//! Formatting, clippy of the library, the unit tests and scripted tests whose names have the lock
//! in them. The other checks are `test`'s.

use std::process::Command;
use std::time::Instant;

use crate::tools::{self, Outcome, cargo};

const LIBRARY: &str = "crates/lockyard/src/";

/// Its exit code.
pub(crate) fn main(words: &[&str]) -> u8 {
    let begun = Instant::now();
    let outcome = match words {
        [] => changed().and_then(|(locks, crates)| check(&locks, &crates)),
        [lock] if !lock.starts_with('-') => check(&[(*lock).to_owned()], &[]),
        _ => return crate::tools::misunderstood("quick", words),
    };
    println!("\n{:.1} s", begun.elapsed().as_secs_f64());
    tools::report(outcome)
}

/// The modules of the library, and the other crates, that differ from the last commit.
fn changed() -> Outcome<(Vec<String>, Vec<String>)> {
    let status = tools::capture(Command::new("git").args(["status", "--porcelain", "--untracked-files=all"]))?;
    let (mut locks, mut crates) = (Vec::new(), Vec::new());
    for path in status.lines().filter_map(|line| line.get(3..)).filter(|path| path.ends_with(".rs")) {
        match path.strip_prefix(LIBRARY) {
            Some(path) => locks.push(path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned()),
            None => crates.extend(package(path)),
        }
    }
    for list in [&mut locks, &mut crates] {
        list.sort();
        list.dedup();
    }
    crates.retain(|name| name != "lockyard");
    if locks.is_empty() && crates.is_empty() {
        return Err("nothing is changed since the last commit: name a lock, as in: cargo xtask quick mutex".to_owned());
    }
    Ok((locks, crates))
}

/// The package that the file at `path` belongs to.
fn package(path: &str) -> Option<String> {
    let (folder, path) = path.split_once('/')?;
    match folder {
        "crates" => Some(path.split('/').next()?.to_owned()),
        "tools" => Some(format!("lockyard-{}", path.split('/').next()?)),
        _ => None,
    }
}

fn check(locks: &[String], crates: &[String]) -> Outcome {
    cargo("fmt --all --check")?;
    if !locks.is_empty() {
        cargo("clippy --quiet -p lockyard --lib -F history,unstable-internals -- -D warnings")?;
        let names = locks.join(" ");
        let listed = tools::capture(
            Command::new("cargo")
                .args(words("test -q -p lockyard --lib --test sleeping --test queueing -- --list"))
                .args(locks),
        )?;
        if !listed.lines().any(|line| line.ends_with(": test")) {
            return Err(format!("no test of the library has '{names}' in its name"));
        }
        cargo(&format!("test -p lockyard --lib --test sleeping --test queueing -- {names}"))?;
    }
    for name in crates {
        cargo(&format!("clippy --quiet -p {name} -- -D warnings"))?;
        cargo(&format!("test -p {name} --lib --bins"))?;
    }
    Ok(())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ')
}
