//! `cargo xtask lab`: records of measurements, and the tables and pictures made from them.
//!
//! A record is a folder `docs/lab/DATE-HOST-WHAT/`:
//!
//! | file | what |
//! |---|---|
//! | `command` | the command line whose output was recorded |
//! | `machine.json` | CPU, number of CPUs, kernel, date, compiler, commit |
//! | `result.jsonl` | one flat object per line |
//! | `note.md` | what a reader must know, three lines at most |
//!
//! `lab run WHAT` makes a record. `lab table` rewrites what is made from the newest record of each
//! WHAT: the blocks `<!-- lab:BLOCK -->` … `<!-- /lab -->` of README.md and of the documents below
//! `docs`, and the picture. `lab table --check`, a house rule, fails where one of them differs from
//! its record.
//! `lab predictions` makes the record of that name. `lab foreign DIR…`, `lab parking-lot`, `lab
//! targets` and `lab cluster` record nothing: see the modules.

mod blocks;
mod cluster;
mod foreign;
pub(crate) mod host;
pub(crate) mod json;
mod of_std;
mod parking_lot;
mod picture;
mod predictions;
mod run;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::{self, Outcome};
use json::Value;

/// The folder of all records.
pub(crate) const RECORDS: &str = "docs/lab";

/// What opens a generated block, up to its name.
pub(crate) const OPEN: &str = "<!-- lab:";

/// What closes a generated block.
pub(crate) const CLOSE: &str = "<!-- /lab -->";

/// The picture of the front page, made from the record `front`.
const PICTURE: &str = "docs/front.svg";

/// Carries out `cargo xtask lab foreign` with `words`: the exit code.
pub(crate) fn compare_foreign(words: &[&str]) -> u8 {
    foreign::main(tools::caller(), words)
}

/// Carries out `cargo xtask lab cluster` with `words`: the exit code.
pub(crate) fn sweep_on_clusters(words: &[&str]) -> u8 {
    cluster::main(words)
}

/// Carries out `cargo xtask lab parking-lot` with `names`: the exit code.
pub(crate) fn stand_in_for_parking_lot(names: &[&str]) -> u8 {
    parking_lot::main(names)
}

/// Carries out `cargo xtask lab targets` with `words`: the exit code.
pub(crate) fn targets(words: &[&str]) -> u8 {
    targets::main(words)
}

/// Carries out `cargo xtask lab predictions` with `words`: the exit code.
pub(crate) fn predict(words: &[&str]) -> u8 {
    predictions::main(words)
}

/// Keeps what `cargo xtask WORDS` has measured, as a record of `what` below `records`. The host is
/// asked for beforehand: it says of which source the record is.
pub(crate) fn keep(
    [what, words, note]: [&str; 3],
    (records, host): (&Path, &host::Host),
    results: &[Value],
) -> Outcome {
    let made = run::Made { what, command: format!("cargo xtask {words}"), words: words.to_owned(), note, short: false };
    made.keep(records, host, results)
}

/// Makes a record, as `cargo xtask lab run` with `words` says.
pub(crate) fn run(words: &[&str]) -> Outcome {
    match words {
        [what, options @ ..] => run::run(what, options),
        [] => Err("lab run: of what? `cargo xtask lab run --help`".to_owned()),
    }
}

/// Fails if a block or the picture is not what its record says.
pub(crate) fn check() -> Outcome {
    table(true)
}

/// One record.
struct Record {
    /// The name of its folder.
    name: String,
    machine: Value,
    results: Vec<Value>,
}

impl Record {
    /// The newest record of `what`: names begin with the date. Of those of one day one whose source
    /// is a commit is preferred.
    fn newest(what: &str) -> Outcome<Record> {
        let names = names(what)?;
        let last =
            names.last().ok_or_else(|| format!("{RECORDS}: no record of {what}: cargo xtask lab run {what}"))?.clone();
        let of_the_day = names.into_iter().filter(|name| name.get(..10) == last.get(..10));
        let records = of_the_day.map(Record::read).collect::<Outcome<Vec<Record>>>()?;
        let committed = records.into_iter().rev().find(|record| is_commit(record.machine.text("source")));
        committed.map_or_else(|| Record::read(last), Ok)
    }

    /// The newest record of `what` of each host, by the host's name.
    fn of_hosts(what: &str) -> Outcome<Vec<Record>> {
        let mut records: Vec<Record> = names(what)?.into_iter().map(Record::read).collect::<Outcome<_>>()?;
        // Names ascend, hence dates do: of two of one host the later one is last.
        records.reverse();
        records.sort_by(|a, b| a.machine.text("host").cmp(b.machine.text("host")));
        records.dedup_by(|a, b| a.machine.text("host") == b.machine.text("host"));
        Ok(records)
    }

    fn read(name: String) -> Outcome<Record> {
        let folder = Path::new(RECORDS).join(&name);
        let read = |file: &str| {
            let path = folder.join(file);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let named = |reason: String| format!("{}: {reason}", folder.display());
        let machine = json::parse(&read("machine.json")?).map_err(named)?;
        let results = json::lines(&read("result.jsonl")?).map_err(named)?;
        if results.is_empty() {
            return Err(named("no results".to_owned()));
        }
        Ok(Record { name, machine, results })
    }
}

/// The names of all records of `what`, the oldest first.
fn names(what: &str) -> Outcome<Vec<String>> {
    let entries = fs::read_dir(RECORDS).map_err(|error| format!("{RECORDS}: {error}"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(&format!("-{what}"))).collect();
    names.sort();
    Ok(names)
}

pub(crate) fn table(only_check: bool) -> Outcome {
    let mut differing = Vec::new();
    let mut put = |path: &Path, old: &str, new: &str| {
        if old == new {
            return Ok(());
        }
        differing.push(path.display().to_string());
        if only_check {
            return Ok(());
        }
        println!("{}", path.display());
        fs::write(path, new).map_err(|error| format!("{}: {error}", path.display()))
    };
    for path in documents()? {
        let old = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let new = rewritten(&old, |name| blocks::make(name, &path))
            .map_err(|reason| format!("{}: {reason}", path.display()))?;
        put(&path, &old, &new)?;
    }
    let picture = picture::draw(&Record::newest("front")?)?;
    put(Path::new(PICTURE), &fs::read_to_string(PICTURE).unwrap_or_default(), &picture)?;
    if only_check && !differing.is_empty() {
        return Err(format!("not as recorded: {}; rerun: cargo xtask lab table", differing.join(", ")));
    }
    Ok(())
}

/// Whether a record's source is a commit, and nothing beside.
fn is_commit(source: &str) -> bool {
    !source.is_empty() && source.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// README.md, and the documents below `docs` without the records.
fn documents() -> Outcome<Vec<PathBuf>> {
    let mut paths = vec![PathBuf::from("README.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() && path != Path::new(RECORDS) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// `text` with the contents of each block replaced by what `make` says of its name.
fn rewritten(text: &str, make: impl Fn(&str) -> Outcome<String>) -> Outcome<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find(OPEN) {
        let after = &rest[open + OPEN.len()..];
        let (name, body) = after.split_once(" -->\n").ok_or("a marker without an end")?;
        let close = body.find(CLOSE).ok_or_else(|| format!("lab:{name} has no {CLOSE}"))?;
        out += &rest[..open];
        out += &format!("{OPEN}{name} -->\n{}{CLOSE}", make(name)?);
        rest = &body[close + CLOSE.len()..];
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_replaced_and_the_rest_stays() {
        let make = |name: &str| Ok(format!("new {name}\n"));
        let text = "a\n<!-- lab:x -->\nold\nold\n<!-- /lab -->\nb\n<!-- lab:y -->\n<!-- /lab -->";
        let wanted = "a\n<!-- lab:x -->\nnew x\n<!-- /lab -->\nb\n<!-- lab:y -->\nnew y\n<!-- /lab -->";
        assert_eq!(rewritten(text, make).unwrap(), wanted);
        assert_eq!(rewritten(wanted, make).unwrap(), wanted);
        assert!(rewritten("<!-- lab:x -->\nno end", make).is_err());
        assert!(rewritten(text, |_| Err(String::new())).is_err());
    }

    #[test]
    fn a_commit_is_told_from_a_changed_tree() {
        assert!(is_commit("75f4e05"));
        assert!(!is_commit("75f4e05-dirty") && !is_commit(""));
    }
}
