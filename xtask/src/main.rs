//! `cargo xtask`: every check of the project, runnable at a desk.
//!
//! Nothing here comes from a registry: std, `cargo` and a few Debian tools, which are installed
//! when missing. `commands.rs` lists the commands, `steps.rs` says what the checks of `test` and
//! `lint` are, the other modules are the checks that cargo does not have.

mod asm;
mod circles;
mod commands;
mod contributing;
mod counts;
mod coverage;
mod documents;
mod emulated;
mod fuzz;
mod install;
mod lab;
mod licences;
mod models;
mod overhead;
mod pages;
mod planted;
mod programs;
mod qemu;
mod quick;
mod size;
mod sources;
mod steps;
mod suites;
mod surface;
mod tools;
mod weakened;

use std::process::ExitCode;

use commands::{FORMS, Form, help};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let wants_help = words.iter().any(|word| ["--help", "-h", "help"].contains(word));
    let known = words.iter().copied().find(|word| FORMS.iter().any(|form| form.first() == *word));
    if wants_help || words.is_empty() {
        print!("{}", help(known));
        return ExitCode::SUCCESS;
    }
    if let Err(error) = tools::go_to_root() {
        eprintln!("xtask: {error}");
        return ExitCode::from(2);
    }
    match commands::find(&words) {
        Some((form, rest)) => ExitCode::from(form.carry_out(rest)),
        None => {
            eprintln!("xtask: no such command: {}; {}", words.join(" "), hint(&words, known));
            ExitCode::from(2)
        }
    }
}

/// What was meant by `words`, perhaps.
fn hint(words: &[&str], known: Option<&str>) -> String {
    let of = |form: &&Form| match known {
        Some(command) => form.first() == command,
        None => form.name.split(' ').any(|name| name.trim_start_matches('-') == words[0]),
    };
    let names: Vec<String> = FORMS.iter().filter(of).map(|form| format!("cargo xtask {}", form.name)).collect();
    if names.is_empty() {
        "they are listed by: cargo xtask help".to_owned()
    } else {
        format!("try: {}", names.join(", "))
    }
}
