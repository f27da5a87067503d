//! The command as a user meets it: every refusal is one line and exit code 2, every result is
//! whole.
//!
//! No test asserts a time or a rate.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

mod grid;
mod interrupts;
mod output;
mod predict;
mod refusals;
mod simulated;
mod sweep;

fn lockyard(arguments: &[&str]) -> Output {
    Command::new(cargo_bin!("lockyard")).args(arguments).output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is UTF-8")
}

/// Refused: exit code 2, one line on stderr that contains `part`, nothing on stdout.
#[track_caller]
fn refused(arguments: &[&str], part: &str) {
    is_refusal(&lockyard(arguments), arguments, part);
}

#[track_caller]
fn is_refusal(output: &Output, arguments: &[&str], part: &str) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
    assert!(line.starts_with("lockyard: ") && line.contains(part), "{arguments:?}: {line}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

/// An empty directory of this test's own.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a scratch directory");
    path
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the directory is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Runs with environment variables set.
fn with_environment(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(arguments).envs(variables.iter().copied()).output().expect("the binary runs")
}
