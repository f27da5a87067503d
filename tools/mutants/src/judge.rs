//! Which test notices a mutant: the tests that met it, one after the other, those first that cost
//! little and have found others nearby.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::list::{Explained, Mutant};
use crate::memory::{Memory, Verdict};
use crate::program::End;
use crate::suite::Test;
use crate::tree::{self, Built};

/// All that a session needs.
#[derive(Debug)]
pub(crate) struct Court<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) mutants: &'a [Mutant],
    pub(crate) built: &'a Built,
    pub(crate) tests: &'a [Test],
    pub(crate) explained: &'a [Explained],
    pub(crate) memory: &'a Memory,
    /// So much time of tests for each mutant.
    pub(crate) budget: Duration,
    pub(crate) workers: usize,
}

/// So many tests are run as no mutant before any verdict.
const CONTROLS: usize = 50;

/// How often each test has found a mutant of a file.
type Found = HashMap<(String, usize), u32>;
type Verdicts = BTreeMap<u32, Verdict>;
type Numbered<'a> = (u32, &'a Mutant);

impl Court<'_> {
    /// Judges the mutants whose name contains one of `only`, prints what was missed and the sums.
    /// Returns how many were missed without an explanation.
    pub(crate) fn session(&self, only: &[String], again: bool) -> Result<usize, String> {
        let wanted = |mutant: &Mutant| only.is_empty() || only.iter().any(|text| mutant.name.contains(&**text));
        let wanted: Vec<Numbered<'_>> = (1..).zip(self.mutants).filter(|(_, mutant)| wanted(mutant)).collect();
        let mut verdicts = Verdicts::new();
        let mut open = Vec::new();
        for &(number, mutant) in &wanted {
            let known = self.memory.verdict(mutant).filter(|verdict| !again && **verdict != Verdict::Unviable);
            if self.built.unviable.contains(&number) {
                verdicts.insert(number, Verdict::Unviable);
            } else if self.is_explained(mutant) {
                // Whatever tests say of it.
            } else if let Some(verdict) = known {
                verdicts.insert(number, verdict.clone());
            } else {
                open.push((number, mutant));
            }
        }
        println!("{} of {} to judge, the others are known", open.len(), wanted.len());
        self.control()?;
        let (constants, open): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|(number, _)| self.built.constants.contains(number));
        verdicts.append(&mut self.judge_all(&open));
        for (at, (number, mutant)) in constants.iter().enumerate() {
            eprintln!("{} of {} in constants", at + 1, constants.len());
            verdicts.insert(*number, self.note(mutant, tree::judge_constant(self.folder, *number)?));
        }
        table(&wanted, &verdicts);
        Ok(verdicts.values().filter(|verdict| verdict.is_missed()).count())
    }

    fn is_explained(&self, mutant: &Mutant) -> bool {
        let (at, line) = (mutant.span.start, self.memory.line(mutant));
        let same = |other: &&Mutant| {
            let there = other.span.start;
            (&other.file, there.line, other.change()) == (&mutant.file, at.line, mutant.change())
                && there.column <= at.column
        };
        let place = self.mutants.iter().filter(same).count();
        self.explained.iter().any(|entry| entry.is(mutant, line, place))
    }

    /// A process that is asked to be a mutant which does not exist is the original: its tests pass,
    /// or no verdict means anything.
    fn control(&self) -> Result<(), String> {
        let nobody = self.mutants.len() as u32 + 1;
        let quick = self.tests.iter().take(CONTROLS);
        match quick.map(|test| (test, test.judge(nobody))).find(|(_, end)| *end != End::Passed) {
            None => Ok(()),
            Some((test, end)) => Err(format!("{} {end:?} without any mutant", test.title())),
        }
    }

    /// Writes a verdict down, and says if nobody noticed.
    fn note(&self, mutant: &Mutant, verdict: Verdict) -> Verdict {
        if verdict.is_missed() {
            println!("missed {} | {} | {verdict}", mutant.name, self.memory.line(mutant));
        }
        self.memory.write(mutant, &verdict);
        verdict
    }

    fn judge_all(&self, open: &[Numbered<'_>]) -> Verdicts {
        let (next, found, started) = (AtomicUsize::new(0), Mutex::new(Found::new()), Instant::now());
        let verdicts = Mutex::new(Verdicts::new());
        let work = || {
            while let Some((number, mutant)) = open.get(next.fetch_add(1, Relaxed)) {
                let verdict = self.note(mutant, self.judge(*number, mutant, &found));
                let mut verdicts = locked(&verdicts);
                verdicts.insert(*number, verdict);
                let judged = verdicts.len();
                if judged.is_multiple_of(50) {
                    let left = started.elapsed().mul_f64((open.len() - judged) as f64 / judged as f64);
                    eprintln!("{judged} of {}, about {} minutes left", open.len(), left.as_secs() / 60 + 1);
                }
            }
        };
        std::thread::scope(|scope| (0..self.workers).for_each(|_| drop(scope.spawn(work))));
        verdicts.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, number: u32, mutant: &Mutant, found: &Mutex<Found>) -> Verdict {
        let mut tests: Vec<(usize, &Test)> =
            self.tests.iter().enumerate().filter(|(_, test)| test.reached.contains(&number)).collect();
        {
            let found = locked(found);
            // Starting a process is not for nothing.
            let cost = |(index, test): &(usize, &Test)| {
                let luck = found.get(&(mutant.file.clone(), *index)).copied().unwrap_or(0);
                (test.time.as_secs_f64() + 0.02) / (1.0 + f64::from(luck))
            };
            tests.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        }
        let started = Instant::now();
        let mut passed = 0;
        for (index, test) in &tests {
            if started.elapsed() + test.time > self.budget {
                continue;
            }
            let end = test.judge(number);
            if end != End::Passed {
                *locked(found).entry((mutant.file.clone(), *index)).or_default() += 1;
            }
            match end {
                End::Passed => passed += 1,
                End::Failed => return Verdict::Failed(test.title()),
                End::Hung => return Verdict::Hung(test.title()),
            }
        }
        Verdict::Missed(passed, tests.len())
    }
}

/// How many became what, file by file. What has no verdict is explained.
fn table(mutants: &[Numbered<'_>], verdicts: &Verdicts) {
    const COLUMNS: [&str; 6] = ["mutants", "unviable", "failed", "hung", "explained", "missed"];
    let mut rows: BTreeMap<&str, [usize; COLUMNS.len()]> = BTreeMap::new();
    let mut all = [0; COLUMNS.len()];
    for (number, mutant) in mutants {
        let column = match verdicts.get(number) {
            Some(Verdict::Unviable) => 1,
            Some(Verdict::Failed(_)) => 2,
            Some(Verdict::Hung(_)) => 3,
            None => 4,
            Some(Verdict::Missed(..)) => 5,
        };
        for row in [rows.entry(mutant.file.trim_start_matches("crates/lockyard/src/")).or_default(), &mut all] {
            row[0] += 1;
            row[column] += 1;
        }
    }
    println!("\n{:<24}{}", "file", COLUMNS.map(|word| format!("{word:>10}")).concat());
    for (file, row) in rows.iter().chain([(&"all", &all)]) {
        println!("{file:<24}{}", row.map(|count| format!("{count:>10}")).concat());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
