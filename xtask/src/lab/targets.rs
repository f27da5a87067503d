//! `cargo xtask lab targets`: the library compiled, without linking, for other systems and
//! processors.
//!
//! A target that rustup has not installed is installed. With a standard library there the library
//! is compiled as users get it, otherwise its algorithms alone. A table says what came of it; a
//! warning counts as a failure.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::tools::{self, Outcome};

/// One for each system and processor that differs in what the library uses.
const TARGETS: [&str; 21] = [
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "i686-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
    "s390x-unknown-linux-gnu",
    "powerpc64le-unknown-linux-gnu",
    "powerpc-unknown-linux-gnu",
    "aarch64-linux-android",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "aarch64-apple-ios",
    "x86_64-pc-windows-msvc",
    "x86_64-pc-windows-gnu",
    "i686-pc-windows-gnu",
    "x86_64-unknown-freebsd",
    "x86_64-unknown-netbsd",
    "wasm32-unknown-unknown",
    "wasm32-wasip1",
    "thumbv7em-none-eabihf",
    "thumbv6m-none-eabi",
];

/// Its exit code.
pub(crate) fn main(words: &[&str]) -> u8 {
    let outcome = match words {
        [] => check(TARGETS.map(str::to_owned).to_vec()),
        ["--all"] => offered().and_then(check),
        words if words.iter().all(|word| !word.starts_with('-')) => {
            check(words.iter().map(|&word| word.to_owned()).collect())
        }
        words => return crate::tools::misunderstood("lab targets", words),
    };
    tools::report(outcome)
}

fn offered() -> Outcome<Vec<String>> {
    let list = tools::capture(Command::new("rustup").args(["target", "list"]))?;
    Ok(list.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

fn check(targets: Vec<String>) -> Outcome {
    println!("{:<36} {:<11} result", "target", "machine");
    let mut failed = Vec::new();
    for target in targets {
        let (machine, result) = look(&target);
        println!("{target:<36} {machine:<11} {}", result.as_deref().unwrap_or("compiles"));
        if result.is_some() {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("rerun: cargo xtask lab targets {}", failed.join(" ")))
}

/// Which machine the library has on `target`, and why it does not compile for it.
fn look(target: &str) -> (&'static str, Option<String>) {
    if let Err(why) = tools::capture(Command::new("rustup").args(["target", "add", target])) {
        return ("-", Some(format!("not installed: {}", why.lines().next().unwrap_or_default())));
    }
    let machine = match has_std(target) {
        false => "none",
        true if target.contains("-linux-") && !target.contains("android") && !target.ends_with("ohos") => "Linux",
        true => "Portable",
    };
    let mut command = Command::new("cargo");
    command.args(["check", "--quiet", "-p", "lockyard", "--target", target, "--message-format", "short"]);
    if machine == "none" {
        command.arg("--no-default-features");
    }
    let said = command.stdin(Stdio::null()).output().map(|output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), text)
    });
    let result = match said {
        Ok((true, text)) if text.is_empty() => None,
        Ok((_, text)) => Some(most_telling(&text).to_owned()),
        Err(error) => Some(error.to_string()),
    };
    (machine, result)
}

/// The first line that says something.
fn most_telling(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("fails without a word")
}

fn has_std(target: &str) -> bool {
    let folder = tools::capture(Command::new("rustc").args(["--print", "target-libdir", "--target", target]));
    let files = folder.ok().and_then(|folder| Path::new(folder.trim()).read_dir().ok());
    files.is_some_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().starts_with("libstd-")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_tell_nothing() {
        assert_eq!(most_telling("\na.rs:1: warning: unused\nb.rs"), "a.rs:1: warning: unused");
        assert_eq!(most_telling(""), "fails without a word");
    }
}
