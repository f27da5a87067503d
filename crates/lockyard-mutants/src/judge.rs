//! Who notices a mutant: the tests that met it, one after the other, those first that cost little and have found others nearby.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::list::{Explained, Mutant};
use crate::memory::{Memory, Verdict};
use crate::suite::{End, Test};

/// All that a session needs.
#[derive(Debug)]
pub(crate) struct Court<'a> {
    pub(crate) mutants: &'a [Mutant],
    pub(crate) tests: &'a [Test],
    pub(crate) memory: &'a Memory,
    pub(crate) budget: Duration,
    pub(crate) workers: usize,
}

/// How often each test has found a mutant of a file.
type Found = HashMap<(String, usize), u32>;

impl Court<'_> {
    /// Judges the mutants whose name contains one of `only`, prints what was missed and the sums. Returns how many were missed without an explanation.
    pub(crate) fn session(
        &self,
        unviable: &BTreeSet<u32>,
        explained: &[Explained],
        only: &[String],
        again: bool,
    ) -> usize {
        let wanted = |mutant: &Mutant| only.is_empty() || only.iter().any(|text| mutant.name.contains(&**text));
        let numbered =
            || (1_u32..).zip(self.mutants).filter(|(number, mutant)| !unviable.contains(number) && wanted(mutant));
        let verdicts = Mutex::new(BTreeMap::new());
        let mut open = Vec::new();
        for (number, mutant) in numbered() {
            if explained.iter().any(|entry| entry.is(mutant, self.memory.line(mutant))) {
                continue;
            }
            match self.memory.verdict(mutant).filter(|verdict| !again && **verdict != Verdict::Unviable) {
                Some(verdict) => drop(locked(&verdicts).insert(number, verdict.clone())),
                None => open.push((number, mutant)),
            }
        }
        println!("{} to judge, {} judged before", open.len(), locked(&verdicts).len());
        let (next, found, started) = (AtomicUsize::new(0), Mutex::new(Found::new()), Instant::now());
        let work = || {
            while let Some((number, mutant)) = open.get(next.fetch_add(1, Relaxed)) {
                let verdict = self.judge(*number, mutant, &found);
                if verdict.is_missed() {
                    println!("missed {} | {} | {verdict}", mutant.name, self.memory.line(mutant));
                }
                self.memory.write(mutant, &verdict);
                let judged = {
                    let mut verdicts = locked(&verdicts);
                    verdicts.insert(*number, verdict);
                    next.load(Relaxed).min(open.len())
                };
                if judged % 50 == 0 {
                    let left = started.elapsed().mul_f64((open.len() - judged) as f64 / judged as f64);
                    eprintln!("{judged} of {}, about {} minutes left", open.len(), left.as_secs() / 60 + 1);
                }
            }
        };
        std::thread::scope(|scope| (0..self.workers).for_each(|_| drop(scope.spawn(work))));
        let verdicts = locked(&verdicts);
        let mut rows: BTreeMap<&str, [usize; 6]> = BTreeMap::new();
        for (number, mutant) in (1_u32..).zip(self.mutants).filter(|(_, mutant)| wanted(mutant)) {
            let column = match verdicts.get(&number) {
                _ if unviable.contains(&number) => 1,
                Some(Verdict::Failed(_)) => 2,
                Some(Verdict::Hung(_)) => 3,
                None => 4,
                Some(_) => 5,
            };
            for row in [mutant.file.trim_start_matches("crates/lockyard/src/"), "~ all"] {
                let row = rows.entry(row).or_default();
                row[0] += 1;
                row[column] += 1;
            }
        }
        let words = ["mutants", "unviable", "failed", "hung", "explained", "missed"];
        println!("\n{:<24}{}", "file", words.map(|word| format!("{word:>10}")).concat());
        for (file, row) in &rows {
            let file = file.trim_start_matches("~ ");
            println!("{file:<24}{}", row.map(|count| format!("{count:>10}")).concat());
        }
        verdicts.values().filter(|verdict| verdict.is_missed()).count()
    }

    fn judge(&self, number: u32, mutant: &Mutant, found: &Mutex<Found>) -> Verdict {
        let mut tests: Vec<(usize, &Test)> =
            self.tests.iter().enumerate().filter(|(_, test)| test.reached.contains(&number)).collect();
        let cost = |index: usize, test: &Test, found: &Found| {
            let luck = found.get(&(mutant.file.clone(), index)).copied().unwrap_or(0);
            // Starting a process is not for nothing.
            (test.time.as_secs_f64() + 0.02) / (1.0 + f64::from(luck))
        };
        {
            let found = locked(found);
            tests.sort_by(|a, b| cost(a.0, a.1, &found).total_cmp(&cost(b.0, b.1, &found)));
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
