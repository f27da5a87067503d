//! `lockyard stat` on a Rust program that was built as users build it: the lines that it names.

use std::path::Path;
use std::process::Command;

/// The line of the example's source with `text` in it.
fn line(text: &str) -> usize {
    let source = include_str!("../../lockyard-stat/examples/ledger.rs");
    1 + source.lines().position(|line| line.contains(text)).expect("the example has it")
}

#[test]
fn the_lines_of_a_rust_program_that_wait_and_hold_are_named() {
    let exe = std::env::current_exe().expect("a path");
    let target = exe.ancestors().nth(3).expect("a target directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--release", "-p", "lockyard-stat", "--example", "ledger", "--target-dir"]);
    assert!(build.arg(target).current_dir(root).status().expect("cargo").success(), "{build:?}");
    let output = Command::new(env!("CARGO_BIN_EXE_lockyard"))
        .args(["stat", "--"])
        .arg(target.join("release/examples/ledger"))
        .arg("1")
        .env_remove("LOCKYARD_PRELOAD")
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let waits = format!("Mutex ledger, asked for in book (ledger.rs:{})", line("bank.ledger.lock().push"));
    let holds = format!("held from write_out (ledger.rs:{})", line("let mut ledger = bank.ledger.lock()"));
    assert!(text.contains(&waits) && text.contains(&holds) && text.contains("RwSem rates"), "{text}");
    assert!(!text.contains("lockyard compare"), "{text}");
}
