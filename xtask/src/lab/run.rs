//! `cargo xtask lab run WHAT`: runs a command of `lockyard`, and keeps what it said as a record.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::json::{self, Value};
use super::{RECORDS, host};
use crate::tools::{self, Outcome};

/// A measurement that has a name.
struct What {
    name: &'static str,
    /// Arguments of `lockyard`; what it prints is JSON.
    arguments: &'static str,
    /// Arguments to add, for the full and for the short form.
    lengths: [&'static str; 2],
    /// Which results are kept.
    reduce: fn(&str) -> Outcome<Vec<Value>>,
    /// First line of the note.
    note: &'static str,
}

const WHATS: [What; 4] = [
    What {
        name: "front",
        arguments: "bench --lock mutex --peer std-mutex,parking_lot-mutex,usync-mutex \
                    --threads 1,2,4,8,16,32 --cs 20,100 --think 100,400 --json",
        lengths: ["--secs 1 --rounds 5", "--secs 0.1 --rounds 2"],
        reduce: cells,
        note: "`Mutex` beside three peers, up to many threads per CPU; one line per lock and cell.",
    },
    What {
        name: "requests",
        arguments: "bench --workload xtask/models/requests.toml --arrival recorded --lock mutex \
                    --peer std-mutex,parking_lot-mutex,usync-mutex --threads 20,50,200 --json",
        lengths: ["--secs 1 --rounds 5", "--secs 0.1 --rounds 2"],
        reduce: cells,
        note: "`Mutex` beside three peers, threads that sleep between their sections; one line per lock and cell.",
    },
    What {
        name: "grid",
        arguments: "bench --grid --json",
        lengths: ["", "--quick"],
        reduce: grid,
        note: "Every family over cells that look like programs: scores first, then one line per lock and cell.",
    },
    What {
        name: "trust",
        arguments: "reproduce --all --json",
        lengths: ["", "--no-ranges --seeds 1"],
        reduce: scores,
        note: "The simulator's score, by published table; it depends on the source, not on the machine.",
    },
];

/// Makes a record of `what`.
pub(super) fn run(what: &str, options: &[&str]) -> Outcome {
    let known = WHATS.map(|what| what.name).join(", ");
    let what =
        WHATS.iter().find(|known| known.name == what).ok_or_else(|| format!("lab run: '{what}'? One of {known}"))?;
    let (mut short, mut name, mut program, mut records) = (false, None, None, RECORDS);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().copied().ok_or_else(|| format!("lab run: {option}: its value is missing"));
        match *option {
            "--short" => short = true,
            "--host" => name = Some(value()?),
            "--program" => program = Some(PathBuf::from(value()?)),
            "--out" => records = value()?,
            _ => return Err(format!("lab run: '{option}' is not understood; `cargo xtask lab --help`")),
        }
    }
    let host = host::this(name)?;
    let program = match program {
        Some(program) => program,
        None => {
            tools::cargo("build --release -p lockyard-cli")?;
            tools::target().join("release/lockyard")
        }
    };
    let arguments = format!("{} {}", what.arguments, what.lengths[usize::from(short)]);
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let command = format!("lockyard {}", arguments.join(" "));
    println!("$ {command}");
    let output = Command::new(&program).args(&arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{}: {command}", output.status));
    }
    let results = (what.reduce)(&String::from_utf8_lossy(&output.stdout))?;
    let words = format!("lab run {}{}", what.name, if short { " --short" } else { "" });
    Made { what: what.name, command, words, note: what.note, short }.keep(Path::new(records), &host, &results)
}

/// A measurement that was made.
pub(super) struct Made<'a> {
    pub(super) what: &'a str,
    pub(super) command: String,
    /// What to tell xtask to make it again.
    pub(super) words: String,
    /// First line of the note.
    pub(super) note: &'a str,
    pub(super) short: bool,
}

impl Made<'_> {
    /// Writes its record below `records`.
    pub(super) fn keep(&self, records: &Path, host: &host::Host, results: &[Value]) -> Outcome {
        let warning = if self.short { "A short run: it shows the form, its numbers mean little.\n" } else { "" };
        let folder = records.join(format!("{}-{}-{}", host.date, host.name, self.what));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let files = [
            ("command", format!("{}\n", self.command)),
            ("machine.json", host.json.clone()),
            ("result.jsonl", results.iter().map(|result| result.line() + "\n").collect()),
            ("note.md", format!("{}\nMade by `cargo xtask {}`.\n{warning}", self.note, self.words)),
        ];
        for (file, text) in files {
            let path = folder.join(file);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        println!("{}\nnow: cargo xtask lab table", folder.display());
        Ok(())
    }
}

/// Of the lines of `lockyard bench --json`: medians of the rounds, not the rounds.
fn cells(output: &str) -> Outcome<Vec<Value>> {
    Ok(json::lines(output)?.iter().map(cell).collect())
}

fn cell(line: &Value) -> Value {
    const KEPT: [&str; 21] = [
        "family",
        "lock",
        "origin",
        "workload",
        "threads",
        "cs",
        "lines",
        "think",
        "think_shape",
        "read_pct",
        "rounds",
        "window_ns",
        "kops_per_s",
        "spread",
        "fairness",
        "idle_threads",
        "wait_p50",
        "wait_p99",
        "wait_max",
        "worst_wait",
        "busy",
    ];
    let mut members = KEPT.map(|key| (key, key)).to_vec();
    members.extend([("others", "others"), ("pause_ns", "machine.pause_ns")]);
    line.pick(&members)
}

/// Of the lines of `lockyard bench --grid --json`: the scores, then the cells.
fn grid(output: &str) -> Outcome<Vec<Value>> {
    let ratios = ["cells", "compared", "mean", "near", "worst", "worst_cell", "worst_peer"];
    let ratios =
        ["contended", "alone"].iter().flat_map(|of| ratios.map(|key| (format!("{of}_{key}"), format!("{of}.{key}"))));
    let paths = ["score", "lock", "complete", "cells_without_turns", "most_without_turn"].map(|key| (key, key));
    let nested = [
        ("wait_16", "wait_16.ours"),
        ("peer_wait_16", "wait_16.best_peer"),
        ("wait_64", "wait_64.ours"),
        ("peer_wait_64", "wait_64.best_peer"),
        ("busy", "busy.least"),
        ("busy_mean", "busy.mean"),
    ];
    let named = paths.into_iter().chain(nested).map(|(key, path)| (key.to_owned(), path.to_owned()));
    let members: Vec<(String, String)> = named.chain(ratios).collect();
    let members: Vec<(&str, &str)> = members.iter().map(|(key, path)| (key.as_str(), path.as_str())).collect();
    let lines = json::lines(output)?;
    let is_score = |line: &&Value| !line.text("score").is_empty();
    let scores = lines.iter().filter(is_score).map(|line| line.pick(&members));
    let cells = lines.iter().filter(|line| !is_score(line)).map(cell);
    Ok(scores.chain(cells).collect())
}

/// Of the document of `lockyard reproduce --json`: the score of each table, then that of all.
fn scores(output: &str) -> Outcome<Vec<Value>> {
    let members = |at: &str| {
        let paths = [
            ("changes", "changes"),
            ("signs", "signs"),
            ("signs_right", "signs_right"),
            ("spearman", "spearman"),
            ("median_error", "error.median"),
            ("no_change", "no_change.median"),
            ("mean", "mean.median"),
            ("inside_band", "inside_band"),
            ("band", "band"),
        ];
        paths.map(|(key, path)| (key, format!("{at}.{path}")))
    };
    let document = json::parse(output)?;
    let score = |value: &Value, name: Value, at: &str| {
        let members = members(at);
        let members: Vec<(&str, &str)> = members.iter().map(|(key, path)| (*key, path.as_str())).collect();
        match value.pick(&members) {
            Value::Object(mut members) => {
                members.insert(0, ("figure".to_owned(), name));
                Value::Object(members)
            }
            other => other,
        }
    };
    let figures = document.list("figures").iter();
    let mut scores: Vec<Value> = figures.map(|figure| score(figure, figure.get("figure").clone(), "score")).collect();
    scores.push(score(&document, Value::Text("all".to_owned()), "together"));
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_reduced_to_one_line_each() {
        let one = r#"{"changes":4,"signs":2,"signs_right":1,"error":{"median":0.1},"no_change":{"median":0.2}}"#;
        let output = format!(r#"{{"figures":[{{"figure":"a","cells":[],"score":{one}}}],"together":{one}}}"#);
        let scores = scores(&output).unwrap();
        assert_eq!((scores.len(), scores[0].text("figure"), scores[1].text("figure")), (2, "a", "all"));
        assert_eq!((scores[1].number("median_error"), scores[1].number("no_change")), (Some(0.1), Some(0.2)));
    }

    #[test]
    fn cells_keep_what_blocks_need() {
        let cells = cells(r#"{"machine":{"pause_ns":11.6},"lock":"mutex","threads":2,"records":[1,2]}"#).unwrap();
        assert_eq!((cells[0].number("pause_ns"), cells[0].text("lock")), (Some(11.6), "mutex"));
        assert_eq!(cells[0].get("records"), &Value::Null);
    }

    #[test]
    fn scores_of_a_grid_become_flat() {
        let score = r#"{"score":"rw","lock":"rwsem","contended":{"mean":0.9},"wait_16":{"ours":5},"wait_64":null}"#;
        let grid = grid(&format!("{score}\n{}", r#"{"lock":"rwsem","read_pct":99.9}"#)).unwrap();
        assert_eq!((grid[0].text("score"), grid[0].number("contended_mean")), ("rw", Some(0.9)));
        assert_eq!((grid[0].number("wait_16"), grid[0].get("wait_64")), (Some(5.0), &Value::Null));
        assert_eq!((grid.len(), grid[1].number("read_pct")), (2, Some(99.9)));
    }
}
