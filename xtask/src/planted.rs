//! Bugs that locks have had, planted in a copy of the sources: the tests must notice each.
//!
//! They are textual changes in a list, which says what a line of it is. All of them go into one
//! copy, so that it is compiled once: there `BUG` is a question that a process answers from its
//! environment (`LOCKYARD_PLANTED`, a number of the list). A change whose old text does not stand
//! in its file, or more than once, is an error: then the list is out of date.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tools::{self, Outcome};

const LIST: &str = "crates/lockyard/planted-bugs.txt";
const LIBRARY: &str = "crates/lockyard/src";
/// The copy, below the folder that cargo builds in, and what is built of it: apart, since cargo
/// cannot tell the copy's packages from the project's.
const COPY: &str = "planted/tree";
const BUILD: &str = "planted/build";
/// Added to the library.
const ANSWER: &str = "
/// Whether this process makes the planted bug `number`.
mod planted {
    pub(crate) fn is(number: u32) -> bool {
        static CHOSEN: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
        *CHOSEN.get_or_init(|| std::env::var(\"LOCKYARD_PLANTED\").ok()?.parse().ok()) == Some(number)
    }
}
";
/// The number of no bug.
const NONE: u32 = 0;

#[derive(Debug, Default, PartialEq, Eq)]
struct Bug {
    number: u32,
    what: String,
    changes: Vec<Change>,
    /// Package, program and name of each.
    tests: Vec<[String; 3]>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    file: String,
    old: Vec<String>,
    new: Vec<String>,
}

/// `cargo xtask models planted`.
pub(crate) fn check() -> Outcome {
    let text = fs::read_to_string(LIST).map_err(|error| format!("{LIST}: {error}"))?;
    let bugs = read(&text)?;
    let tree = tools::target().join(COPY);
    copy(&tree, &planted(&bugs)?)?;
    println!("{} bugs; compiling", bugs.len());
    let mut unlike = Vec::new();
    let mut tests: Vec<_> = bugs.iter().flat_map(|bug| &bug.tests).collect();
    tests.sort();
    tests.dedup();
    for test in tests {
        if !passes(&tree, test, NONE)? {
            unlike.push(format!("{} fails without a bug", test.join(" ")));
        }
    }
    for bug in &bugs {
        for test in &bug.tests {
            let noticed = !passes(&tree, test, bug.number)?;
            println!(
                "{} bug {:2} by {}",
                if noticed { "noticed   " } else { "UNNOTICED " },
                bug.number,
                test.join(" ")
            );
            if !noticed {
                unlike.push(format!("bug {} ({}) is not noticed by {}", bug.number, bug.what, test.join(" ")));
            }
        }
    }
    if unlike.is_empty() { Ok(()) } else { Err(format!("{}\nrerun: cargo xtask models planted", unlike.join("\n"))) }
}

/// The bugs of the list.
fn read(list: &str) -> Outcome<Vec<Bug>> {
    let mut bugs: Vec<Bug> = Vec::new();
    for (at, line) in list.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty()) {
        let wrong = || format!("{LIST}:{}: what is this? {line}", at + 1);
        let (word, rest) = line.split_once(' ').ok_or_else(wrong)?;
        if word == "bug" {
            let (number, what) = rest.split_once(": ").ok_or_else(wrong)?;
            let number = number.parse().ok().filter(|number| *number != NONE).ok_or_else(wrong)?;
            bugs.push(Bug { number, what: what.to_owned(), ..Bug::default() });
            continue;
        }
        let bug = bugs.last_mut().ok_or_else(wrong)?;
        match word {
            "in" => bug.changes.push(Change { file: rest.to_owned(), ..Change::default() }),
            "-" => bug.changes.last_mut().ok_or_else(wrong)?.old.push(rest.trim().to_owned()),
            "+" => bug.changes.last_mut().ok_or_else(wrong)?.new.push(rest.to_owned()),
            "test" => {
                let words: Vec<String> = rest.split(' ').map(str::to_owned).collect();
                bug.tests.push(words.try_into().map_err(|_| wrong())?);
            }
            _ => return Err(wrong()),
        }
    }
    match bugs.iter().find(|bug| bug.changes.is_empty() || bug.tests.is_empty()) {
        Some(bug) => Err(format!("{LIST}: bug {} has no change, or no test", bug.number)),
        None => Ok(bugs),
    }
}

/// The library's files that change, as they are with all bugs in them.
fn planted(bugs: &[Bug]) -> Outcome<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut add = |name: &str, change: &dyn Fn(&str) -> Outcome<String>| -> Outcome {
        let name = format!("{LIBRARY}/{name}");
        let text = match files.remove(&name) {
            Some(text) => text,
            None => fs::read_to_string(&name).map_err(|error| format!("{name}: {error}"))?,
        };
        files.insert(name, change(&text)?);
        Ok(())
    };
    for bug in bugs {
        for change in &bug.changes {
            add(&change.file, &|text| {
                plant(text, change, bug.number).map_err(|count| {
                    format!("{LIST}: the old text of bug {} stands {count} times in {}", bug.number, change.file)
                })
            })?;
        }
    }
    add("lib.rs", &|text| Ok(format!("{text}{ANSWER}")))?;
    Ok(files)
}

/// `text` with the change. The error: how often the old text stands there.
fn plant(text: &str, change: &Change, number: u32) -> Result<String, usize> {
    let lines: Vec<&str> = text.lines().collect();
    // Part of a line, if the old text is one line: else whole lines.
    let whole = |at: &usize| {
        let here = lines[*at..].iter().zip(&change.old);
        lines.len() - at >= change.old.len() && here.into_iter().all(|(line, old)| line.trim() == old)
    };
    let question = format!("crate::planted::is({number})");
    let new = change.new.join("\n").replace("BUG", &question);
    if let [old] = &change.old[..] {
        return match text.matches(&**old).count() {
            1 => Ok(text.replace(&**old, &new)),
            count => Err(count),
        };
    }
    let found: Vec<usize> = (0..lines.len()).filter(whole).collect();
    let [at] = found[..] else { return Err(found.len()) };
    let (before, rest) = lines.split_at(at);
    Ok([&before.join("\n"), &*new, &rest[change.old.len()..].join("\n")].join("\n") + "\n")
}

/// Copies what git knows, or would know, of the project to `tree`, with these files instead.
/// Files that are the same keep their time, and need not be compiled again.
fn copy(tree: &Path, instead: &BTreeMap<String, String>) -> Outcome {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    for name in tools::capture(&mut list)?.split_terminator('\0') {
        let bytes = match instead.get(name) {
            Some(text) => text.clone().into_bytes(),
            // Deleted, and git has not been told yet.
            None => match fs::read(name) {
                Ok(bytes) => bytes,
                Err(_) => continue,
            },
        };
        let path = tree.join(name);
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            continue;
        }
        let written = fs::create_dir_all(path.parent().unwrap_or(tree)).and_then(|()| fs::write(&path, bytes));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Whether a test passes in a process that makes the bug `number`. That there is no such test, or
/// that it does not compile, is an error.
fn passes(tree: &Path, [package, program, name]: &[String; 3], number: u32) -> Outcome<bool> {
    let mut command = Command::new("cargo");
    command.current_dir(tree).args(["test", "--quiet", "-p", package, "--test", program]);
    if package == "lockyard-check" {
        command.args(["-F", "simulated"]);
    }
    command.args(["--", name, "--exact"]);
    // A test that hangs has noticed, too.
    command.env("CARGO_TARGET_DIR", tools::target().join(BUILD)).env("LOCKYARD_WATCHDOG", "20");
    command.env("LOCKYARD_PLANTED", number.to_string());
    let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if said.contains("running 1 test") {
        return Ok(output.status.success());
    }
    Err(format!("{package} {program} {name}: no such test, or it does not compile:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a comment
bug 3: sleeps
in a.rs
- first();
- second();
+ if !BUG {
+     second();
+ }
in b.rs
- x > 0
+ (x > 0 || BUG)
test lockyard program module::name
";

    #[test]
    fn bugs_are_read_and_planted() {
        let bugs = read(TEXT).unwrap();
        let [Bug { number: 3, changes, tests, .. }] = &bugs[..] else { panic!("{bugs:?}") };
        assert_eq!(tests[0], ["lockyard", "program", "module::name"]);
        let lines = "fn f() {\n    first();\n    second();\n    first();\n}\n";
        let new = "fn f() {\nif !crate::planted::is(3) {\n    second();\n}\n    first();\n}\n";
        assert_eq!(plant(lines, &changes[0], 3), Ok(new.to_owned()));
        assert_eq!(plant("if x > 0 {\n", &changes[1], 3), Ok("if (x > 0 || crate::planted::is(3)) {\n".to_owned()));
    }

    #[test]
    fn a_list_that_is_out_of_date_is_an_error() {
        let bugs = read(TEXT).unwrap();
        let change = |at: usize| &bugs[0].changes[at];
        assert_eq!(
            (plant("first();\nthird();\n", change(0), 3), plant("x > 0 || x > 0", change(1), 3)),
            (Err(0), Err(2))
        );
        assert!(read("bug 3: nothing\n").is_err() && read("bug 0: none\n").is_err() && read("- x\n").is_err());
    }

    /// That the tests notice each of them is for `models planted`, which compiles them.
    #[test]
    fn every_bug_of_the_list_can_be_planted() {
        let root = tools::root();
        let bugs = read(&fs::read_to_string(root.join(LIST)).unwrap()).unwrap();
        assert_eq!(bugs.len(), 12);
        for bug in &bugs {
            for change in &bug.changes {
                let text = fs::read_to_string(root.join(LIBRARY).join(&change.file)).unwrap();
                let planted = plant(&text, change, bug.number);
                assert!(
                    planted.is_ok(),
                    "bug {}, {}: the old text stands there {planted:?} times",
                    bug.number,
                    change.file
                );
            }
        }
    }
}
