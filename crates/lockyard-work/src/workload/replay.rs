//! `replay`: a program's model played back. (`spec/record-predict.md` sections 4 and 6)
//!
//! A thread has a role. An operation computes for the role's CPU time, in equal parts before,
//! between and behind the locks that it takes in order, or where these say; or of that so much
//! behind its signals as the role says; a nested lock is taken in the middle of the section around
//! it. A section touches the lines of its object, so it stretches when they have moved: a write
//! loads and stores each, a read loads each. The first line counts the writes, which shows whether
//! the lock excluded. A try that finds the lock taken is over: its section is not run. What it
//! waits for of other threads comes before all that, what it signals after its last section: see
//! [`queues`].
//!
//! A semaphore of which threads give back what they took is a lock with sections, several at once.
//!
//! Turns are sections, jobs are operations. A lock is called through a pointer, twice per section:
//! see `erased`. Metrics: `ops_per_s`; `computed`, the CPU seconds of operations that were done per
//! second, which is the number of CPUs that do what the program is for; `progress`, the same with
//! operations as long as in the original program: a change that makes them shorter makes none worth
//! less; where stamps are free, `second_half`, the share of the operations that ended in the second
//! half of the window, which is far from a half where the run has not settled. What is counted of
//! each class is in the record's `locks`, behind them what is counted of
//! each queue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lockyard::platform::{Ordering, Word};
use lockyard_recording::Model;
use lockyard_recording::model::{Lock, Popularity as Wanted, Role, Take};
use lockyard_recording::time::Times;

use crate::driver;
use crate::erased::{Erased, Make};
use crate::error::Error;
use crate::machine::Machine;
use crate::popularity::Popularity;
use crate::prng::Prng;
use crate::replay::Replay;
use crate::spec::Spec;
use crate::tally::{LockStatistics, Run};
use crate::worker::Worker;
use done::Done;
use queues::{Got, Queues, Share};

mod done;
mod locks;
mod queues;

/// The most locks of one replay, private ones counted for each thread.
const MOST_LOCKS: usize = 1 << 18;
/// So many locks of a class are named in reports of lines.
const NAMED: usize = 64;

/// A cache line of an object's data.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line<W>(W);

/// A lock and the data of its sections.
struct Object<M: Machine> {
    lock: Box<dyn Erased>,
    lines: Box<[Line<M::U64>]>,
}

/// The locks of a class.
struct Class<M: Machine> {
    /// Those of all threads, or of one thread after the other.
    objects: Vec<Object<M>>,
    /// How many a thread chooses among.
    choice: usize,
    private: bool,
    /// `None`: evenly.
    popularity: Option<Popularity>,
}

/// What is counted of a class.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    acquisitions: u64,
    reads: u64,
    /// Tries in vain.
    refused: u64,
    waited_ns: u64,
    /// Zero where stamps are not free.
    held_ns: u64,
    /// Of that, what the section's lines took.
    moved_ns: u64,
    /// What giving the lock back took, wake-ups included; likewise.
    released_ns: u64,
}

pub(crate) fn run<M: Machine>(spec: &Spec, tested: Make, shared: bool) -> Result<Run, Error> {
    let replay = spec.replay.clone().unwrap_or_else(Replay::example);
    let model = &replay.model;
    let crew = model.crew(spec.threads);
    let role_of = |thread: usize| {
        let mut end = 0;
        crew.iter().position(|&members| {
            end += members;
            thread < end
        })
    };
    let classes = classes::<M>(&replay, spec.threads, tested, shared)?;
    // Under the preload library all of a program's locks and condition variables are ours.
    let groups = !(0..classes.len()).any(|class| replay.is_tested(class, shared));
    let queues = Queues::<M>::new(&model.queues, spec.threads, groups);
    let counts = Mutex::new(vec![Count::default(); classes.len()]);
    let got = Mutex::new(vec![Got::default(); model.queues.len()]);
    let done = Mutex::new(vec![Done::default(); model.roles.len()]);
    let work = |worker: &mut Worker<'_, M>| {
        let role = role_of(worker.index).unwrap_or(0);
        let mut player = Player::<M>::new(&replay, &model.roles[role], (&classes, &queues), spec, worker.index);
        while worker.on() {
            player.operation(worker);
        }
        queues.end();
        let mut all = got.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter_mut().zip(&player.got).for_each(|(sum, got)| sum.add(got));
        drop(all);
        let mut all = counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter_mut().zip(&player.counts).for_each(|(sum, count)| sum.add(count));
        done.lock().unwrap_or_else(PoisonError::into_inner)[role].add(&player.done);
    };
    let kept = || classes.iter().flat_map(|class| &class.objects).map(Object::writes).sum();
    let mut run = driver::run::<M>(spec, &work, &kept, &Vec::new)?;
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    run.locks = counts.iter().enumerate().map(|(lock, count)| count.statistics(lock)).collect();
    let got = got.into_inner().unwrap_or_else(PoisonError::into_inner);
    run.locks.extend(got.iter().enumerate().map(|(queue, got)| got.statistics(counts.len() + queue)));
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum_up(&mut run, &replay, &done);
    if M::FREE_STAMPS {
        let sum = |of: fn(&Done) -> u64| done.iter().map(of).sum::<u64>();
        let (late, all) = (sum(|done| done.late), sum(|done| done.operations));
        run.say("second_half", late as f64 / all.max(1) as f64);
    }
    Ok(run)
}

fn sum_up(run: &mut Run, replay: &Replay, done: &[Done]) {
    let window = run.window_ns as f64;
    let counted = done.iter().zip(&replay.model.roles).filter(|(_, role)| role.counted);
    let operations: u64 = counted.map(|(done, _)| done.operations).sum();
    let took = |model: &Model| done.iter().zip(&model.roles).map(|(done, role)| done.took_ns(role)).sum::<f64>();
    run.say("ops_per_s", operations as f64 * 1e9 / window);
    run.say("computed", took(&replay.model) / window);
    run.say("progress", took(&replay.original) / window);
}

fn classes<M: Machine>(replay: &Replay, threads: usize, tested: Make, shared: bool) -> Result<Vec<Class<M>>, Error> {
    let each = |lock: &Lock| if lock.private { threads } else { 1 };
    let all: usize = replay.model.locks.iter().map(|lock| lock.objects as usize * each(lock)).sum();
    if all > MOST_LOCKS {
        return Err(Error::Spec(format!(
            "at most {MOST_LOCKS} locks can be played back, {all} are needed for {threads} threads"
        )));
    }
    let class = |(number, lock): (usize, &Lock)| {
        let lines = replay.touch.lines(lock);
        let object = |index: usize| {
            let name = if index < NAMED { lock.name.as_str() } else { "" };
            let under_test = replay.is_tested(number, shared);
            let made = if under_test { tested(name) } else { locks::recorded::<M>(lock, name) };
            let lines: Box<[Line<M::U64>]> = (0..lines).map(|_| Line(M::U64::default())).collect();
            lines.iter().take_while(|_| index < NAMED).for_each(|line| M::name(&format!("{} data", lock.name), line));
            Object { lock: made, lines }
        };
        Class {
            objects: (0..lock.objects as usize * each(lock)).map(object).collect(),
            choice: lock.objects as usize,
            private: lock.private,
            popularity: (lock.popularity != Wanted::Zipf(0.0)).then(|| Popularity::weighed(&lock.weights())),
        }
    };
    Ok(replay.model.locks.iter().enumerate().map(class).collect())
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.acquisitions += other.acquisitions;
        self.reads += other.reads;
        self.refused += other.refused;
        self.waited_ns += other.waited_ns;
        self.held_ns += other.held_ns;
        self.moved_ns += other.moved_ns;
        self.released_ns += other.released_ns;
    }

    fn statistics(&self, lock: usize) -> LockStatistics {
        let Self { acquisitions, reads, refused, waited_ns, held_ns, moved_ns, released_ns } = *self;
        let numbers = [
            ("acquisitions", acquisitions),
            ("reads", reads),
            ("refused", refused),
            ("waited_ns", waited_ns),
            ("held_ns", held_ns),
            ("moved_ns", moved_ns),
            ("released_ns", released_ns),
        ];
        LockStatistics { lock, numbers: BTreeMap::from(numbers) }
    }
}

impl<M: Machine> Object<M> {
    /// The lock excludes, and orders what the sections do to the lines: Relaxed.
    fn touch(&self, reads: bool) {
        for Line(word) in &self.lines {
            let value = word.load(Ordering::Relaxed);
            if !reads {
                word.store(value.wrapping_add(1), Ordering::Relaxed);
            }
        }
    }

    fn writes(&self) -> i64 {
        self.lines.first().map_or(0, |Line(word)| word.load(Ordering::Relaxed) as i64)
    }
}

impl<M: Machine> Class<M> {
    fn draw(&self, prng: &mut Prng, thread: usize) -> &Object<M> {
        let index = match &self.popularity {
            Some(popularity) => popularity.draw(prng),
            None if self.choice == 1 => 0,
            None => prng.below(self.choice as u32) as usize,
        };
        &self.objects[if self.private { thread * self.choice + index } else { index }]
    }
}

/// A thread that plays a role.
struct Player<'a, M: Machine> {
    role: &'a Role,
    classes: &'a [Class<M>],
    queues: &'a Queues<M>,
    /// Units that are due, of each of the role's gets and puts.
    due: (Share, Share),
    /// Of each take the takes that are nested in it.
    nested: Vec<Vec<usize>>,
    /// The takes that are nested in none, and how often each happens in this operation.
    outer: Vec<(usize, u32)>,
    /// Whether they say what is computed before them.
    placed: bool,
    thread: usize,
    waits: bool,
    /// PAUSEs that the cell adds to each section, and to each operation.
    longer: (u32, u32),
    /// In the window.
    counts: Vec<Count>,
    got: Vec<Got>,
    done: Done,
    /// Half of the window, ns.
    half: u64,
}

/// When a section was asked for, entered, had its lines, and was about to be left.
#[derive(Default)]
struct Stamps {
    called: u64,
    entered: u64,
    touched: u64,
    left: u64,
}

impl<'a, M: Machine> Player<'a, M> {
    fn new(
        replay: &Arc<Replay>,
        role: &'a Role,
        (classes, queues): (&'a [Class<M>], &'a Queues<M>),
        spec: &Spec,
        thread: usize,
    ) -> Self {
        let of = |outer: Option<usize>| {
            let takes = role.takes.iter().enumerate();
            takes.filter(move |(_, take)| take.within == outer).map(|(number, _)| number)
        };
        Self {
            role,
            classes,
            queues,
            due: (Share::new(role.gets.len(), thread), Share::new(role.puts.len(), thread)),
            nested: (0..role.takes.len()).map(|take| of(Some(take)).collect()).collect(),
            outer: of(None).map(|take| (take, 0)).collect(),
            placed: role.takes.iter().any(|take| take.before.is_some()),
            thread,
            waits: replay.waits,
            longer: (spec.cs, spec.think),
            counts: vec![Count::default(); classes.len()],
            got: vec![Got::default(); replay.model.queues.len()],
            done: Done { operations: 0, late: 0, skipped: vec![0; role.takes.len()] },
            half: spec.duration.as_nanos() as u64 / 2,
        }
    }

    fn operation(&mut self, worker: &mut Worker<'_, M>) {
        let role = self.role;
        for (number, get) in role.gets.iter().enumerate() {
            for _ in 0..self.due.0.of(number, get.count) {
                let asked = M::stamp();
                let how = self.queues.get(get);
                self.got[get.queue].note(how, worker.measures(), worker.part(asked, M::stamp()));
            }
        }
        let mut sections = 0;
        for (take, times) in &mut self.outer {
            *times = often(role.takes[*take].count, &mut worker.prng);
            sections += *times;
        }
        let cpu = uneven(&role.cpu, &mut worker.prng);
        let early = if role.puts.is_empty() { cpu } else { (cpu as f64 * role.early / 100.0) as u64 };
        let part = early / u64::from(sections + 1);
        let mut left = early;
        for index in 0..self.outer.len() {
            let (take, times) = self.outer[index];
            let before = if self.placed { before(&role.takes[take], early) } else { part };
            for _ in 0..times {
                M::work(before.min(left));
                left = left.saturating_sub(before);
                self.section(worker, take);
            }
        }
        M::work(left);
        for (number, put) in role.puts.iter().enumerate() {
            self.queues.put(put, self.due.1.of(number, put.count));
        }
        M::work(cpu - early);
        M::pause(self.longer.1);
        let wait = draw(&role.wait, &mut worker.prng);
        if self.waits && wait > 0 {
            M::stay_away(wait);
        }
        if worker.measures() {
            self.done.operations += 1;
            self.done.late += u64::from(worker.part(0, watched::<M>()) > self.half);
        }
        worker.job();
    }

    fn section(&mut self, worker: &mut Worker<'_, M>, number: usize) {
        let role = self.role;
        let take = &role.takes[number];
        let classes = self.classes;
        let object = classes[take.lock].draw(&mut worker.prng, self.thread);
        let reads = take.reads > 0.0 && worker.prng.unit() * 100.0 <= take.reads;
        let hold = draw(&take.hold, &mut worker.prng);
        let tries = take.tries > 0.0 && worker.prng.unit() * 100.0 <= take.tries;
        let sleeps = !take.sleep.is_zero() && worker.prng.unit() * 100.0 <= take.sleeps;
        let sleep = if sleeps { draw(&take.sleep, &mut worker.prng) } else { 0 };
        let mut at = Stamps { called: M::stamp(), ..Stamps::default() };
        let mut section = || {
            at.entered = M::stamp();
            object.touch(reads);
            at.touched = watched::<M>();
            if self.nested[number].is_empty() {
                M::work(hold);
            } else {
                M::work(hold / 2);
                self.inside(worker, number);
                M::work(hold - hold / 2);
            }
            M::pause(self.longer.0);
            if sleep > 0 {
                M::stay_away(sleep);
            }
            at.left = watched::<M>();
        };
        let ran = match (tries, reads) {
            (false, true) => {
                object.lock.shared(&mut section);
                true
            }
            (false, false) => {
                object.lock.exclusive(&mut section);
                true
            }
            (true, true) => object.lock.try_shared(&mut section),
            (true, false) => object.lock.try_exclusive(&mut section),
        };
        if !ran {
            if worker.measures() {
                self.counts[take.lock].refused += 1;
                self.done.skipped[number] += 1;
            }
            return;
        }
        let released = watched::<M>();
        if !reads && !object.lines.is_empty() {
            worker.wrote();
        }
        // Where an unfair lock lets threads starve, most waiting is in waits that the window cuts.
        let counts = worker.passed(reads, at.called, at.entered);
        self.counts[take.lock].add(&Count {
            acquisitions: u64::from(counts),
            reads: u64::from(counts && reads),
            refused: 0,
            waited_ns: worker.part(at.called, at.entered),
            held_ns: worker.part(at.entered, at.left),
            moved_ns: worker.part(at.entered, at.touched),
            released_ns: worker.part(at.left, released),
        });
    }

    /// The sections that are nested in one of the take `outer`.
    fn inside(&mut self, worker: &mut Worker<'_, M>, outer: usize) {
        for index in 0..self.nested[outer].len() {
            let take = self.nested[outer][index];
            for _ in 0..often(self.role.takes[take].count, &mut worker.prng) {
                self.section(worker, take);
            }
        }
    }
}

/// What is computed before each section of a take, of `cpu`.
fn before(take: &Take, cpu: u64) -> u64 {
    (cpu as f64 * take.before.unwrap_or(0.0) / 100.0 / take.count.max(1e-9)) as u64
}

/// A stamp from inside a section, where it makes no section longer; else 0.
fn watched<M: Machine>() -> u64 {
    if M::FREE_STAMPS { M::stamp() } else { 0 }
}

/// A whole number whose mean is `count`.
fn often(count: f64, prng: &mut Prng) -> u32 {
    let more = count.fract() > 0.0 && prng.unit() <= count.fract();
    count as u32 + u32::from(more)
}

fn draw(times: &Times, prng: &mut Prng) -> u64 {
    match times.values() {
        [one] => *one,
        many => many[prng.below(many.len() as u32) as usize],
    }
}

/// As [`draw`]; one value alone is drawn evenly from its half to one and a half.
fn uneven(times: &Times, prng: &mut Prng) -> u64 {
    match times.values() {
        [one] => one / 2 + (prng.unit() * *one as f64) as u64,
        _ => draw(times, prng),
    }
}

#[cfg(test)]
mod tests;
