//! `cargo xtask programs --told`: what `lockyard stat` says of real programs under their loads.
//!
//! | what is checked | how |
//! |---|---|
//! | the report is one | the program ends well, and the first sentence is a verdict |
//! | locks are seen | not fewer acquisitions than operations of the load, where each takes a lock |
//! | the verdict | where it is known from how program and load are made |
//!
//! Many threads that meet at one lock all the time lose time to it. One thread loses none.

use super::work::{Locks, Work};
use super::{Choice, Program, Run, Scale, prepare};
use crate::tools::{self, Outcome};

/// What is known of a program under its load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Truth {
    /// Its locks cost it time.
    Costs,
    /// They do not.
    None,
    Unknown,
}

const COSTS: &str = "Locks cost this program ";
/// Of a program that loses hardly anything, and has waited once for long.
const LITTLE: &str = "Locks cost this program little ";
const NONE: [&str; 2] =
    ["Locks are not this program's problem: ", "The locks that were seen are not this program's problem: "];

/// Programs each of whose operations takes a lock.
const LOCK: [&str; 6] = ["memcached", "leveldb", "rocksdb", "db-bench", "shard", "mariadb"];
/// Programs whose threads are those of the load, and do nothing but operations: LevelDB's and
/// RocksDB's compact as well.
const ALONE: [&str; 1] = ["shard"];

fn truth(name: &str, threads: u32) -> Truth {
    // On one CPU they meet only where the kernel takes it away under the lock.
    let meet = threads >= 8 && std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    match name {
        name if threads == 1 && ALONE.contains(&name) => Truth::None,
        "shard" if meet => Truth::Costs,
        _ => Truth::Unknown,
    }
}

/// Runs the chosen programs, those of [`ALONE`] with one thread as well, and prints what is said.
pub(super) fn run(choice: &Choice) -> Outcome {
    let library = prepare(&choice.programs)?;
    // The command of the tests: the library is what programs run on.
    tools::cargo("build --quiet -p lockyard-cli")?;
    let locks = Locks::Told(library, tools::target().join("debug/lockyard"));
    let mut failures = Vec::new();
    for program in &choice.programs {
        let Run::InTurns(_) = program.run else {
            println!("{}: has several loads; not told of", program.name);
            continue;
        };
        let alone = ALONE.contains(&program.name) && choice.scale.threads > 1;
        for threads in [choice.scale.threads, 1].into_iter().take(1 + usize::from(alone)) {
            let told = told(program, &locks, Scale { threads, ..choice.scale });
            if let Err(reason) = told {
                failures.push(format!("{}, {threads} threads: {reason}", program.name));
            }
        }
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{}\nrerun: cargo xtask programs --told", failures.join("\n")))
    }
}

fn told(program: &Program, locks: &Locks, scale: Scale) -> Outcome {
    let Run::InTurns(load) = program.run else { return Ok(()) };
    let work = Work::new(program.name, locks.clone(), scale)?;
    let speed = load(&work)?.alone(scale)?;
    for report in work.told()? {
        let verdict = verdict(&report)?;
        println!("{}, {} threads: {verdict}", program.name, scale.threads);
        judge(&verdict, truth(program.name, scale.threads))?;
    }
    // A server that was started again has served the load before.
    let acquired = work.told()?.iter().map(|report| acquired(report)).max().unwrap_or(0);
    let operations = speed * f64::from(scale.seconds);
    if LOCK.contains(&program.name) && (acquired as f64) < 0.9 * operations {
        return Err(format!("{acquired} acquisitions were seen, in {operations:.0} operations"));
    }
    if acquired == 0 { Err("no acquisition was seen".to_owned()) } else { Ok(()) }
}

fn judge(verdict: &str, truth: Truth) -> Outcome {
    let found = match verdict {
        _ if verdict.starts_with(LITTLE) => Truth::Unknown,
        _ if verdict.starts_with(COSTS) => Truth::Costs,
        _ if NONE.iter().any(|none| verdict.starts_with(none)) => Truth::None,
        _ => return Err("that is no verdict".to_owned()),
    };
    if truth == found || truth == Truth::Unknown { Ok(()) } else { Err("that is not true".to_owned()) }
}

/// The first sentence of a report in JSON.
fn verdict(report: &str) -> Outcome<String> {
    let begin = report.split_once("\"verdict\":\"").ok_or("a report without a verdict")?.1;
    let text = begin.split_once("\",\"").ok_or("a verdict without an end")?.0;
    Ok(text.replace("\\\"", "\""))
}

/// The acquisitions of all classes.
fn acquired(report: &str) -> u64 {
    let numbers = report.split("\"acquired\":").skip(1);
    numbers.filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_and_judged() {
        let report = r#"{"verdict":"Locks cost this program 40 %: thread \"a\"","classes":[{"acquired":12,"x":1},{"acquired":30}]}"#;
        let said = "Locks cost this program 40 %: thread \"a\"".to_owned();
        assert_eq!((verdict(report), acquired(report)), (Ok(said), 42));
        assert!(judge("Locks cost this program 40 %", Truth::Costs).is_ok());
        assert!(judge("Locks cost this program 40 %", Truth::None).is_err());
        assert!(judge("Locks cost this program little (1 ms)", Truth::Costs).is_err());
        assert!(judge("saw no lock of this process", Truth::Unknown).is_err());
        assert!(verdict("{}").is_err());
    }
}
