//! `cargo xtask lab predictions`: programs are recorded, predicted, and only then measured. The
//! record has every cell, misses included.
//!
//! | question | what is predicted | what is measured |
//! |---|---|---|
//! | `again` | the recorded case, two threads | the computing of the program with two threads |
//! | `threads` | from two threads to more: the change of progress | the change |
//! | `cpus` | recorded on one CPU, asked for two | the computing of the program on two |
//! | `locks` | another lock in place of the C library's: the change of progress | the program under the preload library |
//! | `shards` | one lock of `hot` in sixteen | `hashed`, which has sixteen |
//!
//! Measured is the computing of a program that says how much that is: progress. It is not the
//! throughput where operations are not alike, such as tries in vain. Of the others, throughput.
//!
//! The programs are those of `space.c` and drivers of `cargo xtask programs` that need no server.
//! A prediction has the recording and the machine, and nothing of what is measured later. Two
//! simple prophets are judged beside it: throughput grows with threads up to the CPUs; and the
//! universal scalability law through the measured rates of one and two threads.

mod program;
mod score;

use std::path::PathBuf;
use std::time::Instant;

use super::json::Value;
use super::run::Made;
use super::{RECORDS, host};
use crate::tools::{self, Outcome};
use program::{Locks, Program, Tools};
use score::{Cell, Prophets, Question};

/// How much of it.
struct Scale {
    threads: &'static [u32],
    rounds: u32,
    seconds: f64,
}

const FULL: Scale = Scale { threads: &[1, 2, 4, 8, 16, 64], rounds: 5, seconds: 0.5 };
const SHORT: Scale = Scale { threads: &[1, 2, 8], rounds: 2, seconds: 0.2 };

/// Threads of the recorded run, and of the runs on one CPU.
const RECORDED: u32 = 2;
/// Threads at which other locks are compared.
const CROWD: [u32; 2] = [2, 16];

/// Locks that the preload library can put in a mutex's place, and what a prediction calls them; the
/// same for a reader-writer lock.
const MUTEXES: [(&str, &str); 3] = [("mutex=mutex", "mutex"), ("mutex=spin", "qspinlock"), ("mutex=hq", "hq-spinlock")];
const RWLOCKS: [(&str, &str); 2] = [("rwlock=rwsem", "rwsem:today"), ("rwlock=qrw", "qrwlock:today")];

/// What the words say.
struct Choice {
    programs: Vec<Program>,
    short: bool,
    host: Option<String>,
    records: PathBuf,
}

/// Carries it out: the exit code.
pub(super) fn main(words: &[&str]) -> u8 {
    tools::report(choose(words).and_then(|choice| run(&choice)))
}

fn choose(words: &[&str]) -> Outcome<Choice> {
    let mut choice = Choice { programs: Vec::new(), short: false, host: None, records: RECORDS.into() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("lab predictions: {word}: its value is missing"));
        match *word {
            "--short" => choice.short = true,
            "--host" => choice.host = Some((*value()?).to_owned()),
            "--out" => choice.records = value()?.into(),
            name => choice.programs.push(Program::named(name)?),
        }
    }
    if choice.programs.is_empty() {
        choice.programs = Program::all();
    }
    Ok(choice)
}

fn run(choice: &Choice) -> Outcome {
    let host = host::this(choice.host.as_deref())?;
    let scale = if choice.short { SHORT } else { FULL };
    let tools = Tools::build(&choice.programs)?;
    let begin = Instant::now();
    let mut cells = Vec::new();
    for (at, program) in choice.programs.iter().enumerate() {
        let mut found = ask(&tools, program, &scale).map_err(|why| format!("{}: {why}", program.name))?;
        let minutes = begin.elapsed().as_secs_f64() / 60.0;
        println!("{:>4.1} min  {} of {}  {}", minutes, at + 1, choice.programs.len(), program.name);
        found.iter().for_each(|cell| println!("          {cell}"));
        cells.append(&mut found);
    }
    let scores: Vec<score::Score> = Question::ALL.iter().filter_map(|of| score::score(*of, &cells)).collect();
    println!("\n{}", score::table(&scores));
    let lines: Vec<Value> = scores.iter().map(score::Score::json).chain(cells.iter().map(Cell::json)).collect();
    let words = if choice.short { "lab predictions --short" } else { "lab predictions" };
    let made = Made {
        what: "predictions",
        command: format!("cargo xtask {words}"),
        words: words.to_owned(),
        note: "Programs recorded with two threads, predicted, then measured; scores first, then every cell.",
        short: choice.short,
    };
    made.keep(&choice.records, &host, &lines)
}

/// Records `program`, predicts, measures: its cells.
fn ask(tools: &Tools, program: &Program, scale: &Scale) -> Outcome<Vec<Cell>> {
    let asked: Vec<u32> = scale.threads.iter().copied().filter(|threads| *threads >= RECORDED).collect();
    let locks: &[(&str, &str)] = if program.is_rwlock() { &RWLOCKS } else { &MUTEXES };
    let names = locks.iter().map(|lock| lock.1).collect::<Vec<_>>().join(",");
    let what_if = (program.name == "hot").then_some("shards=16:main");
    let predicted = tools.predict(program, RECORDED, false, &asked, &names, what_if)?;
    let on_one = tools.predict(program, RECORDED, true, &[RECORDED], "", None)?;
    // Everything is predicted by now. What is compared is measured in turns.
    let crowd = || CROWD.iter().filter(|threads| asked.contains(threads));
    let mut runs: Vec<(&Program, u32, Locks)> =
        scale.threads.iter().map(|threads| (program, *threads, Locks::Glibc)).collect();
    runs.extend(locks.iter().flat_map(|lock| crowd().map(|threads| (program, *threads, Locks::Ours(lock.0)))));
    let sharded = Program::named("hashed")?;
    if what_if.is_some() {
        runs.extend(asked.iter().map(|threads| (&sharded, *threads, Locks::Glibc)));
    }
    let mut rates = vec![Vec::new(); runs.len()];
    for _ in 0..scale.rounds {
        for (found, (program, threads, locks)) in rates.iter_mut().zip(&runs) {
            found.push(tools.measure(program, *threads, *locks, scale.seconds)?);
        }
    }
    let medians: Vec<program::Rate> = rates.into_iter().map(program::Rate::median).collect();
    let rate = |of: &Program, threads: u32, on: Locks| {
        let at = runs.iter().position(|run| run.0.name == of.name && run.1 == threads && run.2 == on);
        at.map(|at| medians[at]).ok_or_else(|| format!("{} with {threads} threads was not measured", of.name))
    };
    let mut cells = Vec::new();
    let mut put = |question, threads, lock: &str, predicted: f64, measured: f64, prophets| {
        cells.push(Cell {
            question,
            program: program.name,
            threads,
            lock: lock.to_owned(),
            predicted,
            measured,
            prophets,
        });
    };
    let base = rate(program, RECORDED, Locks::Glibc)?;
    if let Some(computed) = base.computed {
        put(Question::Again, RECORDED, "", predicted.progress("", RECORDED)?, computed, None);
        put(Question::Cpus, RECORDED, "", on_one.progress("", RECORDED)?, computed, None);
    }
    let prophets = Prophets::of(rate(program, 1, Locks::Glibc)?.useful(), base.useful());
    for threads in asked.iter().copied().filter(|threads| *threads > RECORDED) {
        let change = predicted.progress("", threads)? / predicted.progress("", RECORDED)?;
        let measured = rate(program, threads, Locks::Glibc)?.useful() / base.useful();
        put(Question::Threads, threads, "", change, measured, Some(prophets.change(RECORDED, threads)));
    }
    for (ours, name) in locks {
        for threads in crowd().copied() {
            let change = predicted.progress(name, threads)? / predicted.progress("", threads)?;
            let glibc = rate(program, threads, Locks::Glibc)?.useful();
            let measured = rate(program, threads, Locks::Ours(ours))?.useful() / glibc;
            put(Question::Locks, threads, name, change, measured, Some([1.0, 1.0]));
        }
    }
    if let Some(change) = what_if {
        for threads in asked.iter().copied() {
            let predicted = predicted.progress(change, threads)? / predicted.progress("", threads)?;
            let one = rate(program, threads, Locks::Glibc)?.useful();
            let measured = rate(&sharded, threads, Locks::Glibc)?.useful() / one;
            put(Question::Shards, threads, "", predicted, measured, Some([1.0, 1.0]));
        }
    }
    Ok(cells)
}
