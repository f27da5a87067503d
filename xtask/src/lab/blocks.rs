//! The text of each generated block.

use std::path::Path;

use super::json::Value;
use super::{RECORDS, Record};
use crate::tools::Outcome;

/// The section and the time between two sections that the picture shows, in PAUSE instructions.
pub(super) const SHOWN: (f64, f64) = (100.0, 100.0);

/// A ratio of throughputs below this counts as a loss, and is bold.
const HARM: f64 = 0.97;

/// Columns of a generated line.
const COLUMNS: usize = 100;

/// The block `name` for the document at `path`.
pub(super) fn make(name: &str, path: &Path) -> Outcome<String> {
    match name {
        "front" => front(&Record::newest("front")?, path),
        "front-cells" => front_cells(&Record::newest("front")?, path),
        "requests" => requests(&Record::newest("requests")?, path),
        "trust" => trust(&Record::newest("trust")?, path),
        "predictions" => predictions(&Record::of_hosts("predictions")?, path),
        "programs" => programs(&Record::of_hosts("programs")?, path),
        "overhead" => overhead(&Record::of_hosts("overhead")?, path),
        _ => Err(format!("no such block: lab:{name}")),
    }
}

/// The caption of the picture.
fn front(record: &Record, path: &Path) -> Outcome<String> {
    let shown: Vec<&Value> = record.results.iter().filter(|cell| is_shown(cell)).collect();
    let cells = Cells::of(&shown)?;
    let last = cells.last().ok_or("no cell to show")?;
    let first = shown[0];
    let pause = need(first, "pause_ns")?;
    let mut peers: Vec<&Value> = last.all.iter().copied().filter(|of| of.text("origin") == "peer").collect();
    peers.sort_by(|a, b| b.number("kops_per_s").unwrap_or(0.0).total_cmp(&a.number("kops_per_s").unwrap_or(0.0)));
    let of_lock = |of: &Value, name: &str| Ok(format!("{name} {}, {}", rate(need(of, "kops_per_s")?), wait(of)));
    let peers = peers.into_iter().map(|of| of_lock(of, peer_name(of))).collect::<Outcome<Vec<String>>>()?;
    let text = format!(
        "Each thread holds the lock for {}, then works as long without it, on {} {}CPUs. Sections a second and \
         longest wait with {} threads: {}; {}. {}Method and result: {}.",
        time(need(first, "cs")? * pause),
        record.machine.number("cpus").unwrap_or_default(),
        if record.machine.text("hypervisor").is_empty() { "" } else { "virtual " },
        last.threads,
        of_lock(last.ours, "`Mutex`")?,
        peers.join("; "),
        length(first)?,
        link(record, path),
    );
    Ok(wrapped(&text))
}

/// Every cell of the record `front`, beside the best peer.
fn front_cells(record: &Record, path: &Path) -> Outcome<String> {
    let mut out = wrapped(&format!(
        "{} CPUs. Ratio: critical sections per second of `Mutex` by those of the fastest peer of the cell; \
         bold: below {HARM}. {}\
         Method and result: {}.",
        record.machine.number("cpus").unwrap_or_default(),
        length(&record.results[0])?,
        link(record, path),
    ));
    out +=
        "\n| section | pause | threads | ratio | fastest peer | longest wait: `Mutex` | std | parking_lot | usync |\n";
    out += "|---|---|---|---|---|---|---|---|---|\n";
    let all: Vec<&Value> = record.results.iter().collect();
    for cell in Cells::of(&all)? {
        let pause = need(cell.ours, "pause_ns")?;
        let ratio = ratio(need(cell.ours, "kops_per_s")? / need(cell.best, "kops_per_s")?);
        out += &format!(
            "| {} | {} | {} | {ratio} | {} | {} |\n",
            time(need(cell.ours, "cs")? * pause),
            time(need(cell.ours, "think")? * pause),
            cell.threads,
            peer_name(cell.best),
            waits(&cell),
        );
    }
    Ok(out)
}

/// The longest waits of `Mutex` and of the peers, in the order of the columns.
fn waits(cell: &Cell<'_>) -> String {
    let of_lock =
        |lock: &str| cell.all.iter().find(|of| of.text("lock") == lock).map_or_else(|| "–".to_owned(), |of| wait(of));
    ["mutex", "std-mutex", "parking_lot-mutex", "usync-mutex"].map(of_lock).join(" | ")
}

/// Threads that sleep between their sections, beside the best peer.
fn requests(record: &Record, path: &Path) -> Outcome<String> {
    let mut out = wrapped(&format!(
        "{} CPUs. Ratio: critical sections per second of `Mutex` by those of the fastest peer; bold: below {HARM}. \
         {}Method and result: {}.",
        record.machine.number("cpus").unwrap_or_default(),
        length(&record.results[0])?,
        link(record, path),
    ));
    out += "\n| threads | ratio | fastest peer | longest wait: `Mutex` | std | parking_lot | usync |\n";
    out += "|---|---|---|---|---|---|---|\n";
    let all: Vec<&Value> = record.results.iter().collect();
    for cell in Cells::of(&all)? {
        let ratio = ratio(need(cell.ours, "kops_per_s")? / need(cell.best, "kops_per_s")?);
        out += &format!("| {} | {ratio} | {} | {} |\n", cell.threads, peer_name(cell.best), waits(&cell));
    }
    Ok(out)
}

/// How far to trust the simulator.
fn trust(record: &Record, path: &Path) -> Outcome<String> {
    let all = record.results.iter().find(|score| score.text("figure") == "all").ok_or("no score of all tables")?;
    let percent = |key| need(all, key).map(|share| format!("{:.0} %", share * 100.0));
    let text = format!(
        "It reproduces the direction of {} of {} published changes. Of all {} changes, only {} lie inside its band. \
         Its median error, {}, is {} than that of always predicting \"no change\", {}. Scores: {}.",
        need(all, "signs_right")?,
        need(all, "signs")?,
        need(all, "changes")?,
        need(all, "inside_band")?,
        percent("median_error")?,
        if need(all, "median_error")? > need(all, "no_change")? { "larger" } else { "not larger" },
        percent("no_change")?,
        link(record, path),
    );
    Ok(wrapped(&text))
}

/// How far predictions of programs were from what was measured, question by question and host by
/// host.
fn predictions(records: &[Record], path: &Path) -> Outcome<String> {
    const QUESTIONS: [(&str, &str); 5] = [
        ("again", "the recorded case"),
        ("threads", "more threads"),
        ("cpus", "one CPU, asked for two"),
        ("locks", "Lockyard's locks"),
        ("shards", "one lock in sixteen"),
    ];
    let links: Vec<String> =
        records.iter().map(|record| format!("[{}]({})", record.machine.text("host"), folder(record, path))).collect();
    let mut out = wrapped(&format!(
        "The error is the larger of prediction and measurement divided by the smaller, less one. The last \
         two columns are the median errors of two guesses: throughput grows with threads up to the CPUs (and no lock \
         changes anything), and the Universal Scalability Law through the rates of one and two threads. Every cell: {}.",
        links.join(", "),
    ));
    out += "\n| question | host | cells | median | p90 | worst | direction right | CPUs | \
            law |\n|---|---|---|---|---|---|---|---|---|\n";
    for (name, mut asked) in QUESTIONS {
        for record in records {
            let Some(score) = record.results.iter().find(|line| line.text("score") == name) else { continue };
            let percent =
                |key| score.number(key).map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0));
            let signs = match (score.number("signs_right"), score.number("signs")) {
                (Some(right), Some(all)) => format!("{right} of {all}"),
                _ => "–".to_owned(),
            };
            let (host, cells) = (record.machine.text("host"), need(score, "cells")?);
            let [median, p90, worst, cpus, law] =
                ["median_error", "p90_error", "worst_error", "up_to_the_cpus", "usl"].map(percent);
            out += &format!("| {asked} | {host} | {cells} | {median} | {p90} | {worst} | {signs} | {cpus} | {law} |\n");
            asked = "";
        }
    }
    Ok(out)
}

/// Throughput of programs on our locks by that on glibc's, host by host.
fn programs(records: &[Record], path: &Path) -> Outcome<String> {
    let row = |of: &Value| format!("{} | {}", of.text("program"), of.number("threads").unwrap_or_default());
    let cell = |of: &Value| need(of, "ratio").map(ratio);
    hosts_table("program | threads", "|---|---|", records, path, &row, &cell)
}

/// The cost of uncontended calls by that of glibc's, host by host.
fn overhead(records: &[Record], path: &Path) -> Outcome<String> {
    let row = |of: &Value| of.text("call").to_owned();
    let cell = |of: &Value| {
        if of.number("lost").is_some() {
            let gained = |name| need(of, name).map(|lost| -100.0 * lost);
            let (median, least, most) = (gained("lost")?, gained("high")?, gained("low")?);
            return Ok(format!("{median:+.1} % ({least:+.1} to {most:+.1})"));
        }
        Ok(match (of.number("alone"), of.number("beside"), of.number("added_ms"), of.number("with_statistics_ms")) {
            (Some(alone), None, ..) => format!("{alone:.2}"),
            (Some(alone), Some(beside), ..) => format!("{alone:.2}; {beside:.2}"),
            (_, _, Some(added), Some(statistics)) => format!("+ {added:.2} ms; + {statistics:.2} ms"),
            _ => return Err(format!("neither a ratio nor a time: {}", of.line())),
        })
    };
    hosts_table("call", "|---|", records, path, &row, &cell)
}

/// A column per host, a row per name that `row` gives to results; results of one cell stand side by
/// side.
fn hosts_table(
    head: &str,
    rule: &str,
    records: &[Record],
    path: &Path,
    row: &dyn Fn(&Value) -> String,
    cell: &dyn Fn(&Value) -> Outcome<String>,
) -> Outcome<String> {
    let mut out = format!("| {head} |");
    for record in records {
        out += &format!(" [{}]({}) |", record.machine.text("host"), folder(record, path));
    }
    out += &format!("\n{rule}{}\n", "---|".repeat(records.len()));
    let mut rows: Vec<(String, f64)> = Vec::new();
    for result in records.iter().flat_map(|record| &record.results) {
        let (name, threads) = (row(result), result.number("threads").unwrap_or_default());
        if !rows.iter().any(|row| row.0 == name) {
            // Beside the rows of the same program, by threads.
            let first = |name: &str| name.split(" | ").next().map(str::to_owned);
            let last = rows.iter().rposition(|row| first(&row.0) == first(&name) && row.1 <= threads);
            let next = rows.iter().position(|row| first(&row.0) == first(&name));
            rows.insert(last.map_or(next.unwrap_or(rows.len()), |at| at + 1), (name, threads));
        }
    }
    for (name, _) in rows {
        out += &format!("| {name} |");
        for record in records {
            let of = record.results.iter().filter(|of| row(of) == name);
            let cells = of.map(cell).collect::<Outcome<Vec<String>>>()?;
            out += &format!(" {} |", if cells.is_empty() { "–".to_owned() } else { cells.join(", ") });
        }
        out.push('\n');
    }
    Ok(out)
}

/// Results that differ in nothing but the lock.
pub(super) struct Cell<'a> {
    pub(super) threads: f64,
    pub(super) ours: &'a Value,
    /// The peer with the highest throughput.
    pub(super) best: &'a Value,
    pub(super) all: Vec<&'a Value>,
}

/// Groups results by cell.
pub(super) struct Cells;

impl Cells {
    /// By section, pause and threads, each ascending.
    pub(super) fn of<'a>(results: &[&'a Value]) -> Outcome<Vec<Cell<'a>>> {
        let key = |of: &Value| ["cs", "think", "threads"].map(|name| of.number(name).unwrap_or_default());
        let mut keys: Vec<[f64; 3]> = results.iter().map(|of| key(of)).collect();
        keys.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        keys.dedup();
        let cell = |wanted: [f64; 3]| {
            let all: Vec<&Value> = results.iter().copied().filter(|of| key(of) == wanted).collect();
            let of = |origin: &str| {
                let mut of: Vec<&Value> = all.iter().copied().filter(|of| of.text("origin") == origin).collect();
                of.sort_by(|a, b| {
                    b.number("kops_per_s").partial_cmp(&a.number("kops_per_s")).unwrap_or(std::cmp::Ordering::Equal)
                });
                of.first().copied().ok_or_else(|| format!("{wanted:?}: no lock of origin {origin}"))
            };
            Ok(Cell { threads: wanted[2], ours: of("lockyard")?, best: of("peer")?, all: all.clone() })
        };
        keys.into_iter().map(cell).collect()
    }
}

/// Whether the picture shows this result.
pub(super) fn is_shown(of: &Value) -> bool {
    (of.number("cs"), of.number("think")) == (Some(SHOWN.0), Some(SHOWN.1))
}

/// A number that a record must have.
pub(super) fn need(of: &Value, key: &str) -> Outcome<f64> {
    of.number(key).ok_or_else(|| format!("a result without {key}: {}", of.line()))
}

/// `parking_lot-mutex` is parking_lot.
fn peer_name(of: &Value) -> &str {
    of.text("lock").trim_end_matches("-mutex")
}

/// Rounds and windows, as a sentence.
fn length(of: &Value) -> Outcome<String> {
    let seconds = need(of, "window_ns")? / 1e9;
    let short = if seconds < 0.5 { "**A short run, whose numbers mean little.** " } else { "" };
    Ok(format!("{short}Medians of {} rounds of {seconds} s. ", need(of, "rounds")?))
}

/// A link from the document at `path` to the record.
fn link(record: &Record, path: &Path) -> String {
    format!("[record]({})", folder(record, path))
}

/// Where the record lies, seen from the document at `path`.
fn folder(record: &Record, path: &Path) -> String {
    let records = match path.strip_prefix("docs") {
        Ok(inside) => "../".repeat(inside.components().count() - 1) + RECORDS.trim_start_matches("docs/"),
        Err(_) => RECORDS.to_owned(),
    };
    format!("{records}/{}/", record.name)
}

fn wait(of: &Value) -> String {
    let time = of.number("wait_max").map_or_else(|| "–".to_owned(), time);
    match of.number("idle_threads") {
        Some(idle) if idle > 0.0 => format!("{time} and {idle} without a turn"),
        _ => time,
    }
}

/// Bold if it is a loss.
fn ratio(ratio: f64) -> String {
    if ratio < HARM { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") }
}

/// Two significant digits with a unit.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

fn rate(kops: f64) -> String {
    format!("{:.2} million", kops / 1e3)
}

/// `text` in lines of at most [`COLUMNS`], each with its end.
fn wrapped(text: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += width;
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    fn record(lines: &str) -> Record {
        let machine = json::parse(r#"{"cpus":2}"#).unwrap();
        Record { name: "2026-01-02-host-what".to_owned(), machine, results: json::lines(lines).unwrap() }
    }

    fn cell(lock: &str, origin: &str, threads: u32, kops: u32, idle: u32) -> String {
        format!(
            r#"{{"lock":"{lock}","origin":"{origin}","threads":{threads},"cs":100,"think":100,"rounds":5,"window_ns":1000000000,"kops_per_s":{kops},"wait_max":2500000,"idle_threads":{idle},"pause_ns":12}}"#
        ) + "\n"
    }

    #[test]
    fn the_caption_names_every_lock_of_the_last_cell() {
        let cells = [
            cell("mutex", "lockyard", 32, 900, 0),
            cell("std-mutex", "peer", 32, 1000, 3),
            cell("usync-mutex", "peer", 32, 500, 0),
            cell("mutex", "lockyard", 2, 1, 0),
            cell("std-mutex", "peer", 2, 1, 0),
        ];
        let text = front(&record(&cells.concat()), Path::new("README.md")).unwrap();
        for part in [
            "for 1.2 µs",
            "32 threads: `Mutex` 0.90 million, 2.5 ms; std 1.00",
            "2.5 ms and 3 without",
            "5 rounds of 1 s",
        ] {
            assert!(text.replace('\n', " ").contains(part), "{part}: {text}");
        }
        assert!(text.contains("(docs/lab/2026-01-02-host-what/)") && !text.contains("short run"));
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS));
        let table = front_cells(&record(&cells.concat()), Path::new("docs/guide/src/measure.md")).unwrap();
        assert!(
            table.contains("(../../lab/2026-01-02-host-what/)")
                && table.contains("| 1.2 µs | 1.2 µs | 2 | 1.00 | std |")
        );
    }

    #[test]
    fn trust_has_the_baseline_and_the_band() {
        let line = r#"{"figure":"all","changes":120,"signs":62,"signs_right":54,"median_error":0.109,"no_change":0.06,"inside_band":48}"#;
        let text = trust(&record(line), Path::new("README.md")).unwrap().replace('\n', " ");
        for part in ["direction of 54 of 62", "all 120 changes, only 48", "error, 11 %", "change\", 6 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(trust(&record(r#"{"figure":"a"}"#), Path::new("README.md")).is_err());
    }

    #[test]
    fn hosts_stand_side_by_side_and_losses_are_bold() {
        let of = |program, threads, ratio| {
            format!(r#"{{"program":"{program}","threads":{threads},"ratio":{ratio}}}"#) + "\n"
        };
        let lines = of("p", 4, 0.9) + &of("p", 4, 1.0) + &of("q", 2, 0.97);
        let other = &of("p", 8, 1.5);
        let text = programs(&[record(&lines), record(other)], Path::new("docs/numa.md")).unwrap();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows, ["| p | 4 | **0.90**, 1.00 | – |", "| p | 8 | – | 1.50 |", "| q | 2 | 0.97 | – |"]);
        let calls = r#"{"call":"a","alone":1.1,"beside":null}"#.to_owned()
            + "\n"
            + r#"{"call":"b","added_ms":0.2,"with_statistics_ms":0.4}"#
            + "\n"
            + r#"{"call":"c","lost":0.03,"low":-0.01,"high":0.05}"#;
        let text = overhead(&[record(&calls)], Path::new("docs/numa.md")).unwrap();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows, ["| a | 1.10 |", "| b | + 0.20 ms; + 0.40 ms |", "| c | -3.0 % (-5.0 to +1.0) |"]);
        let without_interval = record(r#"{"call":"c","lost":0.03}"#);
        assert!(overhead(&[without_interval], Path::new("docs/numa.md")).is_err());
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!([0.5, 999.0, 1_160.0, 48.8e6, 2e9].map(time), ["0.5 ns", "999 ns", "1.2 µs", "49 ms", "2.0 s"]);
    }
}
