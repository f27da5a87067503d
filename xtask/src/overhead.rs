//! `cargo xtask cost overhead`: what the preload library costs a program whose threads never meet:
//! each call that need not wait, and the start.
//!
//! Calls are measured by `overhead.c`, on glibc's locks and on ours in turns, and compared round by
//! round: the ratio is the median of the rounds'. A start is `fork`, `exec` and the end of
//! `/bin/true`, with and without the library in turns; the difference of the medians is the
//! library's. What counting costs is seen on LevelDB: reads by one thread on our locks, without
//! statistics and with them at the same time on one CPU. The scheduler lets each run half of the
//! time, some milliseconds in turn, so that a host that is faster or slower from moment to moment
//! moves both alike. As with `programs`, nothing here fails
//! because of a number; what is over its bar is marked.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::lab;
use crate::lab::json::Value;
use crate::programs::report::reported;
use crate::programs::{driver, median};
use crate::tools::{self, Outcome, capture};

/// The uncontended mutex pair against glibc's, at most.
const PAIR_BAR: f64 = 1.0;
/// Milliseconds that a start may take longer, at most.
const START_BAR: f64 = 2.0;
/// The share of LevelDB's speed that counting may cost.
const COUNTING_BAR: f64 = 0.03;
/// Starts of each kind per round.
const STARTS: usize = 40;

/// Nanoseconds by call and place, in the order in which they were printed.
type Calls = Vec<(String, f64)>;

/// `cargo xtask cost overhead WORDS`: its exit code.
pub(crate) fn main(words: &[&str]) -> u8 {
    let (mut rounds, mut records) = (Some(9), None);
    for option in words.chunks(2) {
        match option {
            ["--rounds", number] => rounds = number.parse().ok().filter(|rounds| *rounds > 0),
            ["--out", folder] if !folder.is_empty() => records = Some(Path::new(*folder)),
            _ => rounds = None,
        }
        if rounds.is_none() {
            break;
        }
    }
    let Some(rounds) = rounds else {
        eprintln!("xtask: overhead: expected --rounds and a number from 1 on, or --out and a folder");
        return 2;
    };
    match run(rounds, records) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("xtask: {error}\nrerun: cargo xtask cost overhead");
            1
        }
    }
}

fn run(rounds: usize, records: Option<&Path>) -> Outcome {
    // Of this source is the record, whatever becomes of it meanwhile.
    let host = records.map(|_| lab::host::this(None)).transpose()?;
    tools::cargo("build --release --quiet -p lockyard-preload")?;
    let library = tools::target().join("release/liblockyard_preload.so");
    let program = driver("overhead.c", &[])?;
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    let mut starts = [const { Vec::new() }; 3];
    for round in 0..rounds {
        for turn in 0..2 {
            let preloaded = (round + turn) % 2 == 1;
            let side = if preloaded { &mut ours } else { &mut plain };
            side.push(calls(&program, preloaded.then_some(library.as_path()))?);
        }
        for _ in 0..STARTS {
            for (form, times) in starts.iter_mut().enumerate() {
                times.push(start(form, &library)?);
            }
        }
    }
    println!("{}", table(&plain, &ours));
    let mut results = by_name(&ratios(&plain, &ours))?;
    let [alone, with, watched] = starts.map(median);
    println!("start and end of /bin/true   {alone:.3} ms, medians of {}", rounds * STARTS);
    for (what, time) in [("on our locks", with), ("with statistics", watched)] {
        println!("  {what:<26} {time:.3} ms: {:+.3} ms{}", time - alone, over(time - alone, START_BAR));
    }
    let added = [("added_ms", with - alone), ("with_statistics_ms", watched - alone)];
    results.push(line("start and end of /bin/true", &added));
    let shares = counting(rounds, &library)?;
    let (cost, [low, high]) = (median(shares.clone()), where_the_median_is(shares));
    let [share, from, to] = [cost, low, high].map(|share| 100.0 * share);
    let bar = over(cost, COUNTING_BAR);
    println!("counting, LevelDB            {share:.1} % of its speed ({from:.1} to {to:.1}){bar}");
    results.push(line("LevelDB's reads, counted", &[("lost", cost), ("low", low), ("high", high)]));
    let (Some(records), Some(host)) = (records, host) else { return Ok(()) };
    let note = "Time by glibc's, of the only thread and beside another; what counting costs one thread.";
    let words = format!("cost overhead --rounds {rounds}");
    lab::keep(["overhead", &words, note], (records, &host), &results)
}

/// A line of a record.
fn line(call: &str, numbers: &[(&str, f64)]) -> Value {
    let rounded = |number: f64| Value::Number((number * 1e4).round() / 1e4);
    let numbers = numbers.iter().map(|&(name, number)| (name.to_owned(), rounded(number)));
    Value::Object([("call".to_owned(), Value::Text(call.to_owned()))].into_iter().chain(numbers).collect())
}

/// How records call what `overhead.c` calls so.
const CALLS: [(&str, &str); 9] = [
    ("mutex", "mutex pair"),
    ("mutex_try", "mutex try and unlock"),
    ("mutex_recursive", "recursive mutex pair"),
    ("mutex_checked", "error-checking mutex pair"),
    ("rwlock_write", "rwlock, writing"),
    ("rwlock_read", "rwlock, reading"),
    ("spin", "spinlock pair"),
    ("sem", "semaphore post and wait"),
    ("cond_nobody", "signal and broadcast, nobody waits"),
];

/// A line for each call, with its ratio in each place.
fn by_name(ratios: &BTreeMap<String, f64>) -> Outcome<Vec<Value>> {
    let of = |call: &str| CALLS.iter().find(|(name, _)| *name == call).map(|(_, name)| *name);
    let mut lines = Vec::new();
    for (place, &alone) in ratios {
        let Some((call, "alone")) = place.rsplit_once(' ') else { continue };
        let name = of(call).ok_or_else(|| format!("a call without a name in records: {call}"))?;
        let beside = ratios.get(&format!("{call} beside")).map(|&beside| ("beside", beside));
        lines.push(line(name, &[("alone", alone)].into_iter().chain(beside).collect::<Vec<_>>()));
    }
    Ok(lines)
}

/// The share of its speed that LevelDB loses to statistics, in each round: it runs with them and
/// without at the same time on one CPU, begun in this order and then in the other.
fn counting(rounds: usize, library: &Path) -> Outcome<Vec<f64>> {
    tools::need_file("/usr/include/leveldb/db.h", "libleveldb-dev")?;
    tools::need("taskset", "util-linux")?;
    let program = driver("leveldb.cc", &["-lleveldb"])?;
    let stores = ["0", "1"].map(|watched| tools::target().join(format!("overhead-leveldb-{watched}")));
    let cpu = a_cpu()?;
    let begun = |watched: usize| {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu]).arg(&program).arg(&stores[watched]).args(["1", "2"]);
        command.env("LD_PRELOAD", library).env("LOCKYARD_STAT", watched.to_string());
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("taskset: {error}"))
    };
    let mut shares = Vec::new();
    for _ in 0..rounds {
        let mut kept = 1.0;
        for order in [[0, 1], [1, 0]] {
            for (watched, run) in order.map(|watched| (watched, begun(watched))) {
                let output = run?.wait_with_output().map_err(|error| format!("{}: {error}", program.display()))?;
                let speed = reported(&String::from_utf8_lossy(&output.stdout), output.status)?.speed();
                kept *= if watched == 1 { speed } else { 1.0 / speed };
            }
        }
        shares.push(1.0 - f64::sqrt(kept));
    }
    // What a killed run leaves is used again.
    stores.iter().for_each(|store| drop(std::fs::remove_dir_all(store)));
    Ok(shares)
}

/// Between which of these numbers the median of all that could have come lies, with a probability
/// of 95 % or a little more, whatever their distribution: those a square root of their number and
/// a half away from the middle. The first and the last of less than six, which says less.
fn where_the_median_is(mut numbers: Vec<f64>) -> [f64; 2] {
    numbers.sort_by(f64::total_cmp);
    let (count, middle) = (numbers.len(), numbers.len() as f64 / 2.0);
    let aside = (count as f64).sqrt();
    let low = (middle - aside - 0.5).floor().max(0.0) as usize;
    [numbers[low], numbers[count - 1 - low]]
}

/// A CPU on which this process may run.
fn a_cpu() -> Outcome<String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| format!("/proc/self/status: {error}"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|list| list.trim().split(['-', ',']).next());
    first.map(str::to_owned).ok_or_else(|| "/proc/self/status names no CPU".to_owned())
}

/// One run of the program.
fn calls(program: &Path, library: Option<&Path>) -> Outcome<Calls> {
    let mut command = Command::new(program);
    command.arg("15");
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let text = capture(&mut command)?;
    let line = |line: &str| {
        let (what, ns) = line.rsplit_once(' ')?;
        Some((what.to_owned(), ns.parse().ok()?))
    };
    text.lines().map(|text| line(text).ok_or_else(|| format!("not a measurement: {text}"))).collect()
}

/// Milliseconds of one start: 0 plain, 1 with the library, 2 with statistics as well.
fn start(form: usize, library: &Path) -> Outcome<f64> {
    let mut command = Command::new("/bin/true");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if form > 0 {
        command.env("LD_PRELOAD", library);
    }
    if form > 1 {
        command.env("LOCKYARD_STAT", "1");
    }
    let begin = Instant::now();
    let status = command.status().map_err(|error| format!("/bin/true: {error}"))?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    if status.success() { Ok(took) } else { Err(format!("/bin/true ended with {status}")) }
}

fn over(value: f64, bar: f64) -> String {
    if value > bar { format!("   over the bar of {bar}") } else { String::new() }
}

fn table(plain: &[Calls], ours: &[Calls]) -> String {
    let ratios = ratios(plain, ours);
    let (plain, ours) = (by_call(plain), by_call(ours));
    let rounds = plain.values().map(Vec::len).max().unwrap_or(0);
    let mut lines =
        vec![format!("{:<24} {:>9} {:>12} {:>7}   medians of {rounds}", "call", "glibc ns", "lockyard ns", "ratio")];
    for (call, theirs) in &plain {
        let (Some(times), Some(&ratio)) = (ours.get(call), ratios.get(call)) else { continue };
        let bar = if call.starts_with("mutex ") { over(ratio, PAIR_BAR) } else { String::new() };
        let (glibc, lockyard) = (median(theirs.clone()), median(times.clone()));
        lines.push(format!("{call:<24} {glibc:>9.2} {lockyard:>12.2} {ratio:>7.2}{bar}"));
    }
    lines.join("\n")
}

/// What each call takes on our locks by what it takes on glibc's: the median of the rounds' ratios.
fn ratios(plain: &[Calls], ours: &[Calls]) -> BTreeMap<String, f64> {
    let ours = by_call(ours);
    let of = |(call, theirs): (String, Vec<f64>)| {
        let ratios = ours.get(&call)?.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        Some((call, median(ratios)))
    };
    by_call(plain).into_iter().filter_map(of).collect()
}

fn by_call(rounds: &[Calls]) -> BTreeMap<String, Vec<f64>> {
    let mut calls = BTreeMap::<String, Vec<f64>>::new();
    for (call, ns) in rounds.iter().flatten() {
        calls.entry(call.clone()).or_default().push(*ns);
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_pairs_and_what_is_over_the_bar_is_marked() {
        let round = |mutex: f64, spin: f64| vec![("mutex alone".to_owned(), mutex), ("spin alone".to_owned(), spin)];
        let plain = [round(10.0, 5.0), round(20.0, 5.0), round(10.0, 5.0)];
        let ours = [round(12.0, 6.0), round(24.0, 6.0), round(12.0, 6.0)];
        let text = table(&plain, &ours);
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        assert!(line("mutex").contains("1.20") && line("mutex").contains("over the bar of 1"), "{text}");
        assert!(line("spin").contains("1.20") && !line("spin").contains("over"), "{text}");
        let lines = by_name(&ratios(&plain, &ours)).unwrap();
        assert_eq!(lines[1].line(), r#"{"call":"spinlock pair","alone":1.2}"#);
        assert!(by_name(&[("new alone".to_owned(), 1.0)].into()).is_err());
    }

    #[test]
    fn the_median_is_about_the_middle() {
        let ends = |count: usize| where_the_median_is((0..count).rev().map(|number| number as f64).collect());
        assert_eq!([1, 2, 3].map(ends), [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]]);
        assert_eq!([ends(9), ends(100)], [[1.0, 7.0], [39.0, 60.0]]);
    }

    #[test]
    fn words_are_understood_or_refused() {
        assert_eq!(main(&["--rounds", "0"]), 2);
        assert_eq!(main(&["--secs", "1", "--rounds", "1"]), 2);
        assert_eq!(main(&["--rounds", "0", "--rounds", "1"]), 2);
        assert_eq!(main(&["--rounds", "1", "--out"]), 2);
        assert_eq!(main(&["--rounds", "1", "--out", ""]), 2);
    }
}
