//! `cargo xtask programs`: real programs on glibc's locks and, preloaded, on ours, in turns; each
//! serves a load whose results are checked.
//!
//! A program *passes* if under the library it starts, serves its load without a wrong or lost
//! result, ends cleanly, and goes to glibc only where `fallback.c` of the library's tests says so.
//! Throughput is the median of the rounds; each round runs both. They run on both kinds of locks at
//! the same time, the load of one of the two stopped at any moment, in turns of 0.2 s (but
//! stress-ng: one after the other, the first of them in turn). The table is for people: numbers
//! from a machine that does other things mean little, of the latter above all, and nothing here
//! fails because of them.
//!
//! `db-bench` is RocksDB's own benchmark, reading at random through one cache shard: the published
//! lock-bound case. `leveldb`, `rocksdb`, `memcached` come with drivers in
//! `crates/lockyard-preload/programs`; the rest brings load generators of its own or of Debian.
//! `shard` is no program but the shape of one: threads that meet at the one lock of a cache.

pub(crate) mod report;
mod servers;
mod stores;
mod told;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::tools::{self, Outcome};
pub(crate) use work::finish;
use work::{Load, Locks, Turns, Work};

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Seconds of load.
    pub(crate) seconds: u32,
    /// Threads of the load, and of the program where it lets one choose.
    pub(crate) threads: u32,
}

/// A real program and its load.
struct Program {
    name: &'static str,
    /// A file that tells whether the package is there, and the package.
    needs: &'static [(&'static str, &'static str)],
    run: Run,
}

/// How a program is run once; operations per second.
enum Run {
    /// One after the other.
    Alone(fn(&Work) -> Outcome<f64>),
    /// On both kinds of locks at the same time, in turns.
    InTurns(for<'w> fn(&'w Work) -> Outcome<Load<'w>>),
}

const ON_JEMALLOC: &[(&str, &str)] =
    &[("/usr/include/leveldb/db.h", "libleveldb-dev"), ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "libjemalloc2")];

const PROGRAMS: &[Program] = &[
    Program { name: "memcached", needs: &[("/usr/bin/memcached", "memcached")], run: Run::InTurns(servers::memcached) },
    Program {
        name: "leveldb",
        needs: &[("/usr/include/leveldb/db.h", "libleveldb-dev")],
        run: Run::InTurns(stores::leveldb),
    },
    Program { name: "jemalloc-first", needs: ON_JEMALLOC, run: Run::InTurns(stores::jemalloc_first) },
    Program { name: "jemalloc-last", needs: ON_JEMALLOC, run: Run::InTurns(stores::jemalloc_last) },
    Program {
        name: "rocksdb",
        needs: &[("/usr/include/rocksdb/db.h", "librocksdb-dev")],
        run: Run::InTurns(stores::rocksdb),
    },
    Program { name: "db-bench", needs: &[("/usr/bin/db_bench", "rocksdb-tools")], run: Run::InTurns(stores::db_bench) },
    Program { name: "shard", needs: &[], run: Run::InTurns(stores::shard) },
    Program {
        name: "mariadb",
        needs: &[("/usr/sbin/mariadbd", "mariadb-server"), ("/usr/bin/sysbench", "sysbench")],
        run: Run::InTurns(stores::mariadb),
    },
    Program {
        name: "unbound",
        needs: &[("/usr/sbin/unbound", "unbound"), ("/usr/bin/dnsperf", "dnsperf")],
        run: Run::InTurns(servers::unbound),
    },
    Program {
        name: "nginx",
        needs: &[("/usr/sbin/nginx", "nginx"), ("/usr/bin/ab", "apache2-utils")],
        run: Run::InTurns(servers::nginx),
    },
    Program {
        name: "apache",
        needs: &[("/usr/sbin/apache2", "apache2"), ("/usr/bin/ab", "apache2-utils")],
        run: Run::InTurns(servers::apache),
    },
    Program { name: "stress-ng", needs: &[("/usr/bin/stress-ng", "stress-ng")], run: Run::Alone(stores::stress_ng) },
];

/// The words after `programs`.
struct Choice {
    programs: Vec<&'static Program>,
    scale: Scale,
    rounds: u32,
    /// Not how fast they are, but what `lockyard stat` says of them.
    told: bool,
}

fn parse(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice { programs: Vec::new(), scale: Scale { seconds: 5, threads: 8 }, rounds: 3, told: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = |least: u32| -> Result<u32, String> {
            let text = words.next().ok_or_else(|| format!("{word} needs a number"))?;
            text.parse()
                .ok()
                .filter(|number| *number >= least)
                .ok_or_else(|| format!("{word} {text}: not a number from {least} on"))
        };
        match *word {
            "--secs" => choice.scale.seconds = number(1)?,
            "--threads" => choice.scale.threads = number(1)?,
            "--rounds" => choice.rounds = number(1)?,
            "--told" => choice.told = true,
            name => {
                let all = || PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>().join(", ");
                let found = PROGRAMS.iter().find(|program| program.name == name);
                choice.programs.push(found.ok_or_else(|| format!("no such program: {name}; there are {}", all()))?);
            }
        }
    }
    if choice.programs.is_empty() {
        choice.programs = PROGRAMS.iter().collect();
    }
    Ok(choice)
}

/// `cargo xtask programs soak`: memcached and MariaDB, or those of them that are named, on our
/// locks for ten minutes each, eight threads of load per CPU: no errors, no growth of memory. Its
/// exit code.
pub(crate) fn soak(names: &[&str]) -> u8 {
    const SOAKED: [&str; 2] = ["memcached", "mariadb"];
    if let Some(other) = names.iter().find(|name| !SOAKED.contains(name)) {
        eprintln!("xtask: soak {other}: not one of {}", SOAKED.join(", "));
        return 2;
    }
    let chosen =
        |program: &&Program| SOAKED.contains(&program.name) && (names.is_empty() || names.contains(&program.name));
    let threads = 8 * std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let go = || -> Outcome {
        for program in PROGRAMS.iter().filter(chosen) {
            let library = prepare(&[program])?;
            let work = Work::new(program.name, Locks::Ours(library), Scale { seconds: 600, threads })?;
            let speed = match program.run {
                Run::Alone(run) => run(&work),
                Run::InTurns(load) => load(&work).and_then(|load| load.alone(work.scale)),
            };
            let speed = speed.map_err(|reason| format!("{}: {reason}", program.name))?;
            println!("{}: {speed:.0} op/s, no errors", program.name);
        }
        Ok(())
    };
    match go() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("xtask: {error}\nrerun: cargo xtask programs soak");
            1
        }
    }
}

/// `cargo xtask programs WORDS`: its exit code.
pub(crate) fn main(words: &[&str]) -> u8 {
    let choice = match parse(words) {
        Ok(choice) => choice,
        Err(error) => {
            eprintln!("xtask: {error}");
            return 2;
        }
    };
    let go = if choice.told { told::run } else { run };
    match go(&choice) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("xtask: {error}");
            1
        }
    }
}

/// What belongs into every `cargo xtask test`: some programs, for a moment, checked and not
/// measured, and what is told of them.
pub(crate) fn short() -> Outcome {
    let small = ["--secs", "1", "--threads", "8", "--rounds", "1"];
    let choose = |words: &[&'static str]| parse(&[words, &small[..]].concat());
    run(&choose(&["memcached", "leveldb"])?)?;
    told::run(&choose(&["memcached", "leveldb", "shard", "--told"])?)
}

/// Installs what `programs` need and builds the library, which is returned.
fn prepare(programs: &[&Program]) -> Outcome<PathBuf> {
    for (file, package) in programs.iter().flat_map(|program| program.needs) {
        tools::need_file(file, package)?;
    }
    tools::need("g++", "g++")?;
    tools::cargo("build --release --quiet -p lockyard-preload")?;
    Ok(tools::target().join("release/liblockyard_preload.so"))
}

fn run(choice: &Choice) -> Outcome {
    let library = prepare(&choice.programs)?;
    let mut table = vec![format!(
        "{:<12} {:>14} {:>14} {:>8} {:>11} {:>10}   of {} rounds of {} s, {} threads",
        "program",
        "glibc op/s",
        "lockyard op/s",
        "ratio",
        "middle half",
        "per CPU s",
        choice.rounds,
        choice.scale.seconds,
        choice.scale.threads
    )];
    let mut failures = Vec::new();
    for program in &choice.programs {
        let start = Instant::now();
        match paired(program, &library, choice) {
            Ok(Medians { plain, preloaded, ratio, middle: (low, high), per_cpu }) => {
                let per_cpu = per_cpu.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
                table.push(format!(
                    "{:<12} {plain:>14.0} {preloaded:>14.0} {ratio:>8.2} {low:>6.2}–{high:.2} {per_cpu:>10}",
                    program.name
                ));
            }
            Err(reason) => {
                table.push(format!("{:<12} FAILED", program.name));
                failures.push(format!("{}: {reason}", program.name));
            }
        }
        println!("{}: {:.1} s", program.name, start.elapsed().as_secs_f64());
    }
    println!("\n{}", table.join("\n"));
    if failures.is_empty() {
        return Ok(());
    }
    let names = failures.iter().filter_map(|failure| failure.split(':').next()).collect::<Vec<_>>().join(" ");
    Err(format!("{}\nrerun: cargo xtask programs {names}", failures.join("\n")))
}

/// The medians of the rounds.
struct Medians {
    /// Operations per second on glibc's locks.
    plain: f64,
    /// The same on ours.
    preloaded: f64,
    /// Ours to glibc's.
    ratio: f64,
    /// Between which two lies the middle half of the rounds' ratios.
    middle: (f64, f64),
    /// The same of operations per second of CPU time, where the two ran in turns. On a machine with
    /// other work it differs: a lock that lets threads sleep has fewer that ask for a CPU, and the
    /// kernel divides CPUs by threads.
    per_cpu: Option<f64>,
}

fn paired(program: &Program, library: &Path, choice: &Choice) -> Outcome<Medians> {
    let (mut plain, mut preloaded, mut ratios, mut per_cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..choice.rounds {
        let pair = match program.run {
            Run::Alone(run) => one_by_one(program.name, run, library, choice.scale, round % 2 == 1),
            Run::InTurns(load) => {
                in_turns(program.name, load, library, choice.scale, round % 2 == 1).map(|Turns { speeds, ticks }| {
                    if ticks.iter().all(|ticks| *ticks > 0) {
                        per_cpu.push(speeds[1] / speeds[0] * ticks[0] as f64 / ticks[1] as f64);
                    }
                    speeds
                })
            }
        };
        let pair = pair.map_err(|reason| format!("round {}: {reason}", round + 1))?;
        println!("  {}: {:.0} op/s on glibc, {:.0} on lockyard", program.name, pair[0], pair[1]);
        plain.push(pair[0]);
        preloaded.push(pair[1]);
        ratios.push(pair[1] / pair[0]);
    }
    let per_cpu = (!per_cpu.is_empty()).then(|| median(per_cpu));
    Ok(Medians {
        plain: median(plain),
        preloaded: median(preloaded),
        middle: middle_half(&mut ratios),
        ratio: median(ratios),
        per_cpu,
    })
}

/// A quarter of the numbers lies below the first, a quarter above the second (of few numbers:
/// less).
fn middle_half(numbers: &mut [f64]) -> (f64, f64) {
    numbers.sort_by(f64::total_cmp);
    let quarter = numbers.len() / 4;
    (numbers[quarter], numbers[numbers.len() - 1 - quarter])
}

/// On glibc's locks and on ours, one after the other; `ours_first`: the other way round.
fn one_by_one(
    name: &str,
    run: fn(&Work) -> Outcome<f64>,
    library: &Path,
    scale: Scale,
    ours_first: bool,
) -> Outcome<[f64; 2]> {
    let mut pair = [0.0; 2];
    for turn in [ours_first, !ours_first] {
        let locks = if turn { Locks::Ours(library.to_owned()) } else { Locks::Glibc };
        let work = Work::new(name, locks, scale)?;
        let side = if turn { "lockyard" } else { "glibc" };
        pair[usize::from(turn)] = run(&work).map_err(|reason| format!("on {side}: {reason}"))?;
    }
    Ok(pair)
}

/// On both at the same time; `ours_first`: ours is started first.
fn in_turns(
    name: &str,
    load: for<'w> fn(&'w Work) -> Outcome<Load<'w>>,
    library: &Path,
    scale: Scale,
    ours_first: bool,
) -> Outcome<Turns> {
    let twice = Scale { seconds: 2 * scale.seconds, ..scale };
    let plain = Work::new(&format!("{name}-plain"), Locks::Glibc, twice)?;
    let ours = Work::new(name, Locks::Ours(library.to_owned()), twice)?;
    if ours_first {
        let Turns { speeds: [ours, plain], ticks: [our_ticks, plain_ticks] } =
            work::driven_in_turns([load(&ours)?, load(&plain)?], scale)?;
        return Ok(Turns { speeds: [plain, ours], ticks: [plain_ticks, our_ticks] });
    }
    work::driven_in_turns([load(&plain)?, load(&ours)?], scale)
}

pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() % 2 {
        0 => f64::midpoint(numbers[middle - 1], numbers[middle]),
        _ => numbers[middle],
    }
}

/// Compiles a driver of `crates/lockyard-preload/programs` and returns where it is.
pub(crate) fn driver(source: &str, libraries: &[&str]) -> Outcome<PathBuf> {
    let source = tools::root().join("crates/lockyard-preload/programs").join(source);
    let folder = tools::target().join("preload-programs");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let stem = source.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let path = folder.join(format!("driver-{stem}"));
    let compiler = if source.extension().is_some_and(|extension| extension == "c") { "cc" } else { "c++" };
    let mut command = Command::new(compiler);
    command.args(["-O2", "-pthread", "-o"]).arg(&path).arg(&source).args(libraries);
    tools::capture(&mut command)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_refused() {
        let choice = parse(&["leveldb", "--secs", "2", "--rounds", "9"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((choice.programs.len(), choice.scale.seconds, choice.rounds), (1, 2, 9));
        assert_eq!(parse(&[]).map(|choice| choice.programs.len()), Ok(PROGRAMS.len()));
        for (words, reason) in [
            (&["--secs"][..], "--secs needs a number"),
            (&["--rounds", "0"], "--rounds 0: not a number from 1 on"),
            (&["redis"], "no such program: redis; there are memcached, leveldb"),
        ] {
            let error = parse(words).err().unwrap_or_default();
            assert!(error.starts_with(reason), "{error}");
        }
    }

    #[test]
    fn medians() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0]) - 2.5).abs() < 1e-9);
    }
}
