//! A recording reduced to a model.
//!
//! * **Roles**: threads that take the same classes, those apart that have less than
//!   [`NOTICEABLE`] of a thread's sections, wait for the same [queues], and hold them alike:
//!   between two roles of the same classes the mean hold differs by more than [`ALIKE`]. A thread
//!   that hardly takes a lock has none: it starts the others, or looks after them. Threads that
//!   work [at another time](phase) than the others are left out.
//! * **An operation**: so many sections that each class of the role that is noticeable is taken at
//!   least once in the mean. With an operation said (`CLASS=N`), N sections of that class. A try
//!   that does without the lock counts as its section.
//! * **Classes** are those of the recording, some of them [taken apart](apart).
//! * **Locks**: private if each is taken by one thread, and several threads take some; else shared,
//!   with the popularity that they had.
//! * **Times**: one value where they are alike, else the means of equal parts of them in order of
//!   size, so that their mean is kept. Holds are those of sections that nobody had to wait for,
//!   where there are enough of those: the others are stretched by lines that moved. Reads and
//!   writes whose sections differ as much as those of two roles are takes of their own.
//! * **Setting up**: a thread's first section of a class is left out if it is out of all proportion
//!   to the others: it makes what they use, once.
//! * **Tries**: of the calls that found the lock taken, those that did not wait are the share of
//!   tries, also among the calls that found it free. A try that is followed at once by another call
//!   for the lock is a part of that one.
//! * **Nesting**: as recorded, the most frequent first; what would close a circle is taken outside.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::model::{Kind, Lock, MOST_COUNT, MOST_OBJECTS, Model, Popularity, Role, Take};
use crate::recording::{Recording, Sort};
use crate::time::Times;
use crate::turns;
use crate::walk::{self, Failed, Section, Told};
use apart::Classes;
use circles::circles;
use numbers::{around, rounded, share, spread};
use queues::Queues;
use taken::Taken;

mod apart;
mod circles;
mod numbers;
mod phase;
mod queues;
mod taken;

/// The share of a thread's sections from which on a class belongs to its role.
const NOTICEABLE: f64 = 0.05;
/// A thread with less than this share of the sections that threads have in the mean, and of the
/// time in them, hardly takes a lock.
const SELDOM: f64 = 0.01;
/// Threads whose mean hold differs by a smaller factor are alike.
const ALIKE: f64 = 2.0;
/// Shorter holds, ns, are not told apart: what recording costs is as long.
const FLEETING: f64 = 50.0;
/// More weights are not written into a model.
const MOST_WEIGHTS: usize = 32;

/// A take before it has a number: its class, and the class around it.
type Key = (Option<usize>, usize);

/// What threads of a role did.
#[derive(Debug, Clone, Default)]
struct Sums {
    threads: usize,
    /// Their numbers.
    members: Vec<u32>,
    /// The classes of condition variables and semaphores that they wait for.
    waits: BTreeSet<usize>,
    /// When they worked.
    span: (u64, u64),
    takes: BTreeMap<Key, Taken>,
    /// CPU times of the stretches outside of all sections, in their order.
    gaps: Vec<u64>,
    /// That of the last one.
    last_gap: u64,
    away: u64,
}

struct Teller<'a> {
    classes: &'a Classes,
    thread: u32,
    sums: Sums,
    /// Of each lock, how often each thread took it.
    locks: &'a mut [BTreeMap<u32, u64>],
}

impl Told for Teller<'_> {
    fn section(&mut self, section: &Section) {
        let class = |lock: u32| self.classes.of[lock as usize];
        let taken = self.sums.takes.entry((section.outer.map(class), class(section.lock))).or_default();
        taken.note(section);
        if section.outer.is_none() {
            taken.gaps = taken.gaps.saturating_add(std::mem::take(&mut self.sums.last_gap));
        }
        *self.locks[section.lock as usize].entry(self.thread).or_default() += 1;
    }

    fn gap(&mut self, cpu: u64, off: u64) {
        self.sums.gaps.push(cpu);
        self.sums.last_gap = self.sums.last_gap.saturating_add(cpu);
        self.sums.away = self.sums.away.saturating_add(off);
    }

    fn failed(&mut self, lock: u32, outer: Option<u32>, how: Failed) {
        let class = |lock: u32| self.classes.of[lock as usize];
        let taken = self.sums.takes.entry((outer.map(class), class(lock))).or_default();
        match how {
            Failed::Tried => taken.failed += 1,
            Failed::GaveUp(_) => taken.gave_up += 1,
            Failed::Waited => taken.retried += 1,
            Failed::Again => {}
        }
    }
}

impl Recording {
    /// The model that this recording comes to. `operation`: a class and how often an operation
    /// takes it.
    ///
    /// # Errors
    /// One line: it has no whole section, or no such class.
    pub fn model(&self, operation: Option<(&str, f64)>) -> Result<Model, Error> {
        let mut recording = self.clone();
        recording.tell_readers();
        recording.tell_pools();
        recording.tell_turns();
        recording.reduced(operation)
    }

    fn reduced(&self, operation: Option<(&str, f64)>) -> Result<Model, Error> {
        let classes = Classes::of(self);
        let unit = match operation {
            None => None,
            Some((name, count)) => {
                // All that came of the class, where it was taken apart.
                let is = |class: usize| classes.known[class].0 == name || classes.known[classes.from[class]].0 == name;
                let is_lock = |class: usize| matches!(classes.known[class].1, Sort::Lock(_));
                let all = 0..classes.known.len();
                let named: Vec<usize> = all.filter(|&class| is(class) && is_lock(class)).collect();
                let class = (!named.is_empty()).then_some(named);
                let known = || classes.known.iter().filter(|(_, sort)| matches!(sort, Sort::Lock(_)));
                let refuse = || {
                    let known: Vec<&str> = known().map(|(name, _)| name.as_str()).collect();
                    Error::new(format!("no lock class '{name}' was recorded; known are {}", known.join(", ")))
                };
                Some((class.ok_or_else(refuse)?, count))
            }
        };
        let queues = Queues::of(self, &classes);
        let mut locks = vec![BTreeMap::new(); self.locks.len()];
        let mut threads: BTreeMap<u32, Sums> = BTreeMap::new();
        let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let again = walk::Again::of(self);
        for window in &self.windows {
            let sums = threads.remove(&window.thread).unwrap_or_default();
            let mut teller = Teller { classes: &classes, thread: window.thread, sums, locks: &mut locks };
            walk::window(window, &again, &mut teller);
            threads.insert(window.thread, teller.sums);
            let of_locks = window.events.iter().filter(|event| event.what.time().is_none());
            times.entry(window.thread).or_default().extend(of_locks.map(|event| event.at));
        }
        for (thread, sums) in &mut threads {
            sums.takes.values_mut().for_each(Taken::settle);
            sums.span = phase::span(&times.remove(thread).unwrap_or_default());
            sums.members = vec![*thread];
            sums.waits = queues.awaited(*thread);
        }
        let mut alike: BTreeMap<_, Vec<Sums>> = BTreeMap::new();
        let mean = |of: fn(&Sums) -> f64| threads.values().map(of).sum::<f64>() / threads.len().max(1) as f64;
        let (sections, held) = (mean(|sums| sums.sections() as f64), mean(Sums::held));
        let works = |sums: &Sums| {
            sums.sections() > 0 && (sums.sections() as f64 >= SELDOM * sections || sums.held() >= SELDOM * held)
        };
        let kept = phase::together(threads.into_values().filter(works).collect());
        let named: BTreeSet<u32> = kept.iter().flat_map(|sums| sums.members.clone()).collect();
        locks.iter_mut().for_each(|threads| threads.retain(|thread, _| named.contains(thread)));
        for sums in kept {
            alike.entry((sums.noticeable(), sums.waits.clone())).or_default().push(sums);
        }
        let roles: Vec<Sums> = alike.into_values().flat_map(by_hold).collect();
        if roles.is_empty() {
            let any = self.classes.iter().any(|class| matches!(class.sort, Sort::Lock(_)));
            let why =
                if any { "has no section from its beginning to its end" } else { "is of a program that takes no lock" };
            return Err(Error::new(format!("the recording {why}, and a model is of sections")));
        }
        let (sections, waits) = (roles.iter().map(Sums::sections).sum::<usize>(), queues.waits_without(&named));
        if sections as f64 <= SELDOM * waits as f64 {
            return Err(Error::new(format!(
                "the recording is of threads that wait {waits} times for what others signal, and hardly take \
                 a lock (sections: {sections}); a model is of sections"
            )));
        }
        let nested = roles.iter().flat_map(|sums| &sums.takes);
        let dropped = circles(nested.filter_map(|(&(outer, inner), taken)| Some(((outer?, inner), taken.count()))));
        let mut used = vec![false; classes.known.len()];
        let (mut named, mut crews) = (Vec::new(), Vec::new());
        for (number, mut sums) in roles.into_iter().enumerate() {
            // Of a class that was tried and never had nobody knows what its sections are.
            sums.takes.retain(|_, taken| taken.count() > 0);
            sums.unnest(&dropped);
            sums.takes.keys().for_each(|&(_, class)| used[class] = true);
            let operations = sums.operations(unit.as_ref());
            // Where it is said what an operation is, others do none.
            let takes = |class: &usize| sums.takes.keys().any(|(_, taken)| taken == class);
            let counted = unit.as_ref().is_none_or(|(classes, _)| classes.iter().any(takes));
            named.push(Role { counted, ..sums.role(format!("role{}", number + 1), operations) });
            crews.push((sums.members, operations));
        }
        if let (Some((name, _)), false) = (operation, named.iter().any(|role| role.counted)) {
            return Err(Error::new(format!("no thread that works all along takes '{name}': it is no operation's")));
        }
        // Classes of the model are in the order of their names, as a file's are.
        let mut order: Vec<usize> = (0..used.len()).filter(|&class| used[class]).collect();
        let names = classes.names();
        let queues = queues.connect(&mut named, &crews, &names);
        order.sort_by(|&a, &b| names[a].cmp(&names[b]));
        for take in named.iter_mut().flat_map(|role| &mut role.takes) {
            take.lock = order.iter().position(|&class| class == take.lock).unwrap_or(0);
        }
        let units = self.units();
        let lock = |&class: &usize| {
            let mine = units.iter().filter(|(lock, _)| classes.of[**lock as usize] == class);
            let units = mine.map(|(_, units)| *units).max().unwrap_or(1);
            Lock { units, ..classes.lock(class, names[class].clone(), &locks) }
        };
        Ok(Model { locks: order.iter().map(lock).collect(), queues, roles: named })
    }
}

impl Classes {
    /// The names of the classes, made different.
    fn names(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        for (name, _) in &self.known {
            let plain: String = name.chars().filter(|letter| !letter.is_control()).take(180).collect();
            let plain = if plain.is_empty() { "unnamed".to_owned() } else { plain };
            let mut name = plain.clone();
            let mut copy = 1;
            while !seen.insert(name.clone()) {
                copy += 1;
                name = format!("{plain} #{copy}");
            }
            names.push(name);
        }
        names
    }

    fn lock(&self, class: usize, name: String, taken: &[BTreeMap<u32, u64>]) -> Lock {
        let mine: Vec<&BTreeMap<u32, u64>> = taken
            .iter()
            .zip(&self.of)
            .filter(|(threads, of)| **of == class && !threads.is_empty())
            .map(|(threads, _)| threads)
            .collect();
        let threads: BTreeSet<&u32> = mine.iter().flat_map(|threads| threads.keys()).collect();
        let alone = mine.iter().all(|threads| threads.len() == 1);
        let private = alone && (threads.len() > 1 || name == turns::NAME);
        let mut weights: Vec<f64> = mine.iter().map(|threads| threads.values().sum::<u64>() as f64).collect();
        weights.sort_by(|a, b| b.total_cmp(a));
        let objects = if private { weights.len().div_ceil(threads.len()) } else { weights.len() };
        let popularity = if private { Popularity::Zipf(0.0) } else { popularity(&weights) };
        let objects = objects.clamp(1, MOST_OBJECTS as usize) as u32;
        let usual = Lock::new(name);
        let kind = if let Sort::Lock(kind) = self.known[class].1 { kind } else { usual.kind };
        let lines = if kind == Kind::Semaphore { (0, 0) } else { usual.lines };
        Lock { kind, lines, objects, popularity, private, ..usual }
    }
}

/// The roles of threads that take the same classes.
fn by_hold(mut threads: Vec<Sums>) -> Vec<Sums> {
    let hold = |sums: &Sums| sums.held() / sums.sections().max(1) as f64;
    threads.sort_by(|a, b| hold(a).total_cmp(&hold(b)));
    let (mut roles, mut before): (Vec<Sums>, f64) = (Vec::new(), f64::INFINITY);
    for sums in threads {
        let mean = hold(&sums);
        match roles.last_mut().filter(|_| mean <= ALIKE * before.max(FLEETING)) {
            Some(role) => role.join(sums),
            None => roles.push(Sums { threads: 1, ..sums }),
        }
        before = mean;
    }
    roles
}

/// The popularity of objects that were taken so often, the most popular first.
fn popularity(weights: &[f64]) -> Popularity {
    let (Some(most), Some(least)) = (weights.first(), weights.last()) else { return Popularity::Zipf(0.0) };
    if *most <= 2.0 * least {
        return Popularity::Zipf(0.0);
    }
    if weights.len() <= MOST_WEIGHTS {
        return Popularity::Weights(weights.to_vec());
    }
    // The exponent that gives the most popular its share.
    let share = most / weights.iter().sum::<f64>();
    let (mut low, mut high) = (0.0_f64, 10.0_f64);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        let sum: f64 = (1..=weights.len()).map(|rank| (rank as f64).powf(-middle)).sum();
        if 1.0 / sum < share { low = middle } else { high = middle }
    }
    Popularity::Zipf((low * 100.0).round() / 100.0)
}

impl Sums {
    fn sections(&self) -> usize {
        self.takes.values().map(Taken::count).sum()
    }

    /// Time in sections.
    fn held(&self) -> f64 {
        self.takes.values().map(Taken::held).sum()
    }

    fn noticeable(&self) -> BTreeSet<usize> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for ((_, class), taken) in &self.takes {
            *counts.entry(*class).or_default() += taken.count();
        }
        let all = self.sections() as f64;
        counts.into_iter().filter(|(_, count)| *count as f64 >= NOTICEABLE * all).map(|(class, _)| class).collect()
    }

    fn join(&mut self, other: Self) {
        self.threads += 1;
        self.members.extend(other.members);
        self.gaps.extend(other.gaps);
        self.away = self.away.saturating_add(other.away);
        for (key, taken) in other.takes {
            self.takes.entry(key).or_default().add(&taken);
        }
    }

    /// Takes what nests in `dropped` pairs outside, and what nests in a class that is never taken.
    fn unnest(&mut self, dropped: &BTreeSet<(usize, usize)>) {
        loop {
            let classes: BTreeSet<usize> = self.takes.keys().map(|key| key.1).collect();
            let loose = |&&(outer, inner): &&Key| {
                outer.is_some_and(|outer| dropped.contains(&(outer, inner)) || !classes.contains(&outer))
            };
            let Some(key) = self.takes.keys().find(loose).copied() else { break };
            if let Some(taken) = self.takes.remove(&key) {
                self.takes.entry((None, key.1)).or_default().add(&taken);
            }
        }
    }

    /// How many operations they did.
    fn operations(&self, unit: Option<&(Vec<usize>, f64)>) -> f64 {
        // Whether a call that does without has its lock depends on the number of threads, and an
        // operation shall not.
        let of_class = |class: usize| -> f64 {
            self.takes.iter().filter(|(key, _)| key.1 == class).map(|(_, taken)| taken.calls()).sum()
        };
        let rarest = self.noticeable().into_iter().map(of_class).min_by(f64::total_cmp).unwrap_or(1.0).max(1.0);
        let said = unit.map(|(named, count)| named.iter().map(|&class| of_class(class)).sum::<f64>() / count);
        let said = said.filter(|operations| *operations > 0.0);
        // No operation may have more sections than a model allows.
        let calls: f64 = self.takes.values().map(Taken::calls).sum();
        let least = calls / (MOST_COUNT / 2.0);
        said.unwrap_or(rarest).max(least)
    }

    fn role(&self, name: String, operations: f64) -> Role {
        let mut takes = Vec::new();
        let outside: Vec<usize> = self.takes.keys().filter(|key| key.0.is_none()).map(|key| key.1).collect();
        for class in outside {
            self.add(&mut takes, (None, class), None, operations);
        }
        let outer = || self.takes.iter().filter(|(key, _)| key.0.is_none()).map(|(_, taken)| taken);
        let gaps = outer().map(Taken::count).sum::<usize>() as f64 / operations;
        let cpu = self.computes(gaps);
        // Where an operation computes tells how threads that take locks in turns meet.
        if outer().count() > 1 {
            let all = outer().map(|taken| taken.gaps as f64).sum::<f64>().max(1.0);
            for take in takes.iter_mut().filter(|take| take.within.is_none()) {
                let taken = &self.takes[&(None, take.lock)];
                // Reads and writes of a class may be takes of their own.
                let part = take.count * operations / taken.calls().max(1.0);
                take.before = Some(rounded(100.0 * taken.gaps as f64 / all * part));
            }
        }
        let cpu = if cpu.mean() < 1.0 { Times::one(1) } else { cpu };
        let wait = Times::one((self.away as f64 / operations).round() as u64);
        let (gets, puts) = (Vec::new(), Vec::new());
        Role { name, threads: self.threads as f64, cpu, wait, gets, takes, puts, early: 100.0, counted: true }
    }

    /// What an operation with so many stretches outside of all sections computes in these: of as
    /// many that follow each other the sum.
    fn computes(&self, stretches: f64) -> Times {
        let each = (stretches.round() as usize).max(1);
        let sums =
            self.gaps.chunks_exact(each).map(|chunk| chunk.iter().fold(0, |sum, &ns| u64::saturating_add(sum, ns)));
        let sums: Vec<u64> = sums.collect();
        let all = if sums.is_empty() { self.gaps.clone() } else { sums };
        let mean = |values: &[u64]| values.iter().map(|&ns| ns as f64).sum::<f64>() / values.len().max(1) as f64;
        let factor = stretches * mean(&self.gaps) / mean(&all).max(1.0);
        around(&all).scaled(factor)
    }

    /// Adds a take, and behind it those that are nested in it. `around`: the number of the outer
    /// one, and how many sections of it an operation has.
    fn add(&self, takes: &mut Vec<Take>, key: Key, around: Option<(usize, f64)>, operations: f64) {
        let Some(taken) = self.takes.get(&key) else { return };
        let (times, sections) = (taken.calls() / operations, taken.count() as f64 / operations);
        // The class may stand in several places: what nests in it is told of the first.
        let first = takes.iter().find(|take| take.lock == key.1);
        let is_first = first.is_none_or(|take| take.within.map(|outer| takes[outer].lock) == key.0);
        let nested = self.takes.keys().filter(|other| is_first && other.0 == Some(key.1)).map(|key| key.1);
        let nested: Vec<usize> = nested.collect();
        // Nested takes stand in both ways of what is around them: in one depth only, lest they
        // double in each.
        let apart = around.is_none() || nested.is_empty();
        for (part, reads) in taken.ways(apart) {
            let number = takes.len();
            let times = times * part.count() as f64 / taken.count() as f64;
            let (sleep, sleeps) = part.sleep();
            takes.push(Take {
                lock: key.1,
                hold: part.hold(),
                count: rounded(times / around.map_or(1.0, |(_, outer)| outer)).min(MOST_COUNT),
                reads,
                tries: taken.tries(),
                sleep,
                sleeps,
                within: around.map(|(outer, _)| outer),
                before: None,
            });
            for &class in &nested {
                self.add(takes, (Some(key.1), class), Some((number, sections)), operations);
            }
        }
    }
}

#[cfg(test)]
mod tests;
