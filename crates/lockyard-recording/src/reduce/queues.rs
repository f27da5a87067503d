//! What threads wait for that others signal, as queues of units.
//!
//! * **A semaphore** is a queue, if it is no [pool](crate::pools): each wait gets a unit, each post
//!   puts one. A thread that finds
//!   none and goes on more often than it waits only tries: it waits for nobody.
//! * **A condition variable** stands for something that its signals announce. A recording does not
//!   tell when a thread finds that without a wait, so each operation of a role that waits there
//!   gets its share of all signals. If more broadcasts were recorded than signals, or far more
//!   signals than operations, each recorded wait is one for the next of them.
//! * **How early** an operation signals: by the time to a signal from the event before, and from it
//!   to the next, in the median.
//! * **At the beginning** a queue has as many units as threads had up to the first wait for one. Of
//!   two condition variables whose roles signal each other, one has all units that go to and fro.
//! * **Left out** is what no kept thread signals, or none waits for: such a wait is time off the
//!   CPU, as one is whose time was up.

use std::collections::{BTreeMap, BTreeSet};

use super::apart::Classes;
use super::rounded;
use crate::model::{Get, MOST_COUNT, MOST_PARTS, MOST_START, Put, Queue, Role};
use crate::recording::{Event, Recording, Sort, What};
use crate::time::Times;

/// A thread waits for a class from so many waits on: fewer may be its start and its end.
const FEW: u64 = 3;
/// And from one wait in so many sections on: rarer ones are no part of an operation.
const SELDOM: u64 = 1_000;

/// What a thread did with the objects of a class.
#[derive(Debug, Clone, Default)]
struct Use {
    /// Calls that wait, or would, and tries that had a unit.
    asked: u64,
    /// Tries that had none.
    refused: u64,
    /// Waits that ended with a signal, and their time, ns.
    woken: u64,
    waited: u64,
    signals: u64,
    broadcasts: u64,
    /// Of each signal and broadcast, the times to it and from it, ns.
    before: Vec<u64>,
    after: Vec<u64>,
}

/// The condition variables and semaphores of a recording.
pub(super) struct Queues<'a> {
    recording: &'a Recording,
    classes: &'a Classes,
    /// By class and thread.
    uses: BTreeMap<(usize, u32), Use>,
    /// Of each thread.
    releases: BTreeMap<u32, u64>,
}

/// The threads of a role, and how many operations they did.
type Crew = (Vec<u32>, f64);

impl<'a> Queues<'a> {
    pub(super) fn of(recording: &'a Recording, classes: &'a Classes) -> Self {
        let mut uses: BTreeMap<(usize, u32), Use> = BTreeMap::new();
        let mut releases: BTreeMap<u32, u64> = BTreeMap::new();
        for window in &recording.windows {
            let mut since = BTreeMap::new();
            let released = window.events.iter().filter(|event| event.what == What::Release).count();
            *releases.entry(window.thread).or_default() += released as u64;
            let tried = |event: &Event| {
                let sort = || classes.known[classes.of[event.lock as usize]].1;
                matches!(event.what, What::Failed(_)) && sort() == Sort::Semaphore
            };
            let told = |(_, event): &(usize, &Event)| of_queue(event.what) || tried(event);
            for (place, event) in window.events.iter().enumerate().filter(told) {
                let one = uses.entry((classes.of[event.lock as usize], window.thread)).or_default();
                match event.what {
                    What::Failed(_) => one.refused += 1,
                    What::Wait => {
                        one.asked += 1;
                        since.insert(event.lock, event.at);
                    }
                    What::Woken => {
                        one.woken += 1;
                        one.waited += since.remove(&event.lock).map_or(0, |since| event.at - since);
                    }
                    what => {
                        one.signals += u64::from(what == What::Signal);
                        one.broadcasts += u64::from(what == What::Broadcast);
                        let before = place.checked_sub(1).map_or(window.begin, |before| window.events[before].at);
                        one.before.push(event.at - before);
                        one.after.extend(window.events.get(place + 1).map(|next| next.at - event.at));
                    }
                }
            }
        }
        Self { recording, classes, uses, releases }
    }

    fn sort(&self, class: usize) -> Sort {
        self.classes.known[class].1
    }

    /// The classes for which `thread` waits.
    pub(super) fn awaited(&self, thread: u32) -> BTreeSet<usize> {
        let mine = self.uses.iter().filter(|((_, of), _)| *of == thread);
        mine.filter(|((class, _), one)| self.waits(*class, one, &[thread])).map(|((class, _), _)| *class).collect()
    }

    /// Whether `threads` wait for `class`, by what they did with it.
    fn waits(&self, class: usize, one: &Use, threads: &[u32]) -> bool {
        let waits = match self.sort(class) {
            Sort::Semaphore if one.refused > one.woken => 0,
            Sort::Semaphore => one.asked,
            _ => one.woken,
        };
        waits >= FEW && waits.saturating_mul(SELDOM) >= self.released(threads)
    }

    /// How often threads waited that are not among these.
    pub(super) fn waits_without(&self, threads: &BTreeSet<u32>) -> u64 {
        let others = self.uses.iter().filter(|((_, thread), _)| !threads.contains(thread));
        others.map(|(_, one)| one.asked.max(one.woken)).sum()
    }

    fn released(&self, threads: &[u32]) -> u64 {
        threads.iter().filter_map(|thread| self.releases.get(thread)).sum()
    }

    /// What all `threads` did with the objects of `class`.
    fn sum(&self, class: usize, threads: &[u32]) -> Use {
        let mut sum = Use::default();
        for one in threads.iter().filter_map(|thread| self.uses.get(&(class, *thread))) {
            sum.asked += one.asked;
            sum.refused += one.refused;
            sum.woken += one.woken;
            sum.waited += one.waited;
            sum.signals += one.signals;
            sum.broadcasts += one.broadcasts;
            sum.before.extend(&one.before);
            sum.after.extend(&one.after);
        }
        sum
    }

    /// Gives `roles`, whose threads are `crews`, their gets and puts. The queues, in the order of
    /// their names.
    pub(super) fn connect(&self, roles: &mut [Role], crews: &[Crew], names: &[String]) -> Vec<Queue> {
        let mut classes: Vec<usize> = self.uses.keys().map(|(class, _)| *class).collect();
        classes.dedup();
        classes.sort_by(|a, b| names[*a].cmp(&names[*b]));
        let (mut queues, mut kept) = (Vec::new(), Vec::new());
        for class in classes {
            let sums: Vec<Use> = crews.iter().map(|(threads, _)| self.sum(class, threads)).collect();
            let signals: u64 = sums.iter().map(|sum| sum.signals).sum();
            let broadcasts: u64 = sums.iter().map(|sum| sum.broadcasts).sum();
            let waits = |role: usize| self.waits(class, &sums[role], &crews[role].0);
            let waiting: f64 = (0..roles.len()).filter(|role| waits(*role)).map(|role| crews[role].1).sum();
            if waiting == 0.0 || signals + broadcasts == 0 || queues.len() >= MOST_PARTS {
                for ((role, sum), (_, operations)) in roles.iter_mut().zip(&sums).zip(crews) {
                    let wait = role.wait.mean() + sum.waited as f64 / operations;
                    role.wait = Times::one(wait.round() as u64);
                }
                continue;
            }
            let semaphore = self.sort(class) == Sort::Semaphore;
            let many = broadcasts > signals || signals as f64 > MOST_COUNT * waiting;
            let (queue, all) = (queues.len(), many && !semaphore);
            let mut gets = vec![0.0; roles.len()];
            for (number, role) in roles.iter_mut().enumerate() {
                let (sum, operations) = (&sums[number], crews[number].1);
                if waits(number) {
                    gets[number] = match (semaphore, all) {
                        (true, _) => sum.asked as f64 / operations,
                        (false, true) => sum.woken as f64 / operations,
                        (false, false) => signals as f64 / waiting,
                    };
                    let lasts = sum.waited / sum.woken.max(1);
                    role.gets.push(Get { queue, count: count(gets[number]), lasts: lasts.max(1) });
                }
                // Where all are woken as a rule, a signal is for those that wait as well.
                let one = if all { 0 } else { sum.signals };
                if sum.signals + sum.broadcasts > 0 {
                    role.early = early(sum);
                }
                for (signalled, all) in [(one, false), (sum.signals + sum.broadcasts - one, true)] {
                    if signalled > 0 {
                        role.puts.push(Put { queue, count: count(signalled as f64 / operations), all });
                    }
                }
            }
            kept.push((class, if all { Vec::new() } else { self.steps(class, crews, &gets) }));
            queues.push(Queue { name: names[class].clone(), start: 0, condition: !semaphore });
        }
        let starts = self.starts(&kept, roles);
        queues.iter_mut().zip(starts).for_each(|(queue, start)| queue.start = start);
        queues
    }

    /// What changes the units of `class`, and when: how many more or less, where an operation of
    /// each role gets so many, and whether a wait finds none.
    fn steps(&self, class: usize, crews: &[Crew], gets: &[f64]) -> Vec<Step> {
        let exact = self.sort(class) == Sort::Semaphore;
        let role_of = |thread: u32| crews.iter().position(|(threads, _)| threads.contains(&thread));
        let mut steps = Vec::new();
        for (window, role) in self.recording.windows.iter().filter_map(|one| Some((one, role_of(one.thread)?))) {
            let found = gets[role] * crews[role].1 / self.released(&crews[role].0).max(1) as f64;
            for (place, event) in window.events.iter().enumerate() {
                let mine = of_queue(event.what) && self.classes.of[event.lock as usize] == class;
                let at = event.at;
                match event.what {
                    What::Signal if mine => steps.push(Step { at, units: 1.0, class, empty: false }),
                    What::Wait if mine => {
                        let later = window.events[place + 1..].iter().filter(|later| of_queue(later.what));
                        let next = later.map(|later| (later.lock, later.what)).find(|(lock, _)| *lock == event.lock);
                        let empty = next.is_some_and(|(_, what)| what == What::Woken);
                        steps.push(Step { at, units: if exact { -1.0 } else { 0.0 }, class, empty });
                    }
                    What::Release if !exact => steps.push(Step { at, units: -found, class, empty: false }),
                    _ => {}
                }
            }
        }
        steps.sort_by_key(|step| step.at);
        steps
    }

    /// The units of each class of `kept` at the beginning, whose steps they are.
    fn starts(&self, kept: &[(usize, Vec<Step>)], roles: &[Role]) -> Vec<u32> {
        let mut starts: Vec<u32> = kept.iter().map(|(_, steps)| first(steps)).collect();
        let hands = |from: usize, to: usize| {
            let gets = |role: &Role| role.gets.iter().any(|get| get.queue == from);
            roles.iter().any(|role| gets(role) && role.puts.iter().any(|put| put.queue == to && !put.all))
        };
        for a in 0..kept.len() {
            for b in a + 1..kept.len() {
                let exact = [a, b].iter().any(|&queue| self.sort(kept[queue].0) == Sort::Semaphore);
                if exact || !hands(a, b) || !hands(b, a) {
                    continue;
                }
                // The one that is found empty first had none.
                let when = |queue: usize| kept[queue].1.iter().find(|step| step.empty).map_or(u64::MAX, |step| step.at);
                let (none, all) = if when(a) <= when(b) { (a, b) } else { (b, a) };
                if let Some(room) = room(&kept[all].1, &kept[none].1) {
                    (starts[none], starts[all]) = (0, room);
                }
            }
        }
        starts
    }
}

/// See [`Queues::steps`].
#[derive(Debug, Clone, Copy)]
struct Step {
    at: u64,
    units: f64,
    class: usize,
    empty: bool,
}

/// The units at the beginning: as many as threads had up to the first wait, which found none.
fn first(steps: &[Step]) -> u32 {
    let (mut units, mut least) = (0.0_f64, 0.0_f64);
    for step in steps {
        if step.empty {
            break;
        }
        units += step.units;
        least = least.min(units);
    }
    // There were at least as many as threads had.
    whole(-least)
}

/// How many units go to and fro between two queues: what one has, in the median, from a wait that
/// finds it empty to the next that finds the other empty. What is not told exactly adds up to
/// little in between.
fn room(steps: &[Step], others: &[Step]) -> Option<u32> {
    let class = steps.first()?.class;
    let mut both: Vec<Step> = steps.iter().chain(others.iter().filter(|step| step.empty)).copied().collect();
    both.sort_by_key(|step| step.at);
    let (mut units, mut had) = (None, Vec::new());
    for step in both {
        match (step.class == class, step.empty) {
            (true, true) => units = Some(0.0),
            (true, false) => units = units.map(|units| units + step.units),
            (false, _) => had.extend(units.take()),
        }
    }
    had.sort_by(f64::total_cmp);
    had.get(had.len() / 2).map(|units| whole(*units))
}

fn whole(units: f64) -> u32 {
    units.clamp(0.0, f64::from(MOST_START)).round() as u32
}

fn of_queue(what: What) -> bool {
    matches!(what, What::Wait | What::Woken | What::Signal | What::Broadcast)
}

/// The percentage of the time around a signal that comes before it.
fn early(one: &Use) -> f64 {
    let median = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0) as f64
    };
    let (before, after) = (median(&one.before), median(&one.after));
    (100.0 * before / (before + after).max(1.0)).round()
}

fn count(exact: f64) -> f64 {
    rounded(exact).min(MOST_COUNT)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::model::Model;

    /// A thread that holds a lock for 10 of 100 ns, from `begin` on, `more` after each section.
    fn thread(number: u32, begin: u64, rounds: u64, more: impl Fn(u64, u64) -> String) -> String {
        let mut out = format!("window {number} {begin}\n");
        for round in 0..rounds {
            let at = begin + round * 100;
            let _ = write!(out, "{} {number} request 0 write\n{} {number} release 0\n", at + 10, at + 20);
            out.push_str(&more(round, at));
        }
        out
    }

    fn model(text: &str) -> Model {
        let head =
            "lockyard recording 1\nclass mutex M\nclass semaphore ITEMS\nclass condition C\nlock 0\nlock 1\nlock 2\n";
        let recording = Recording::from_text("a", &format!("{head}{text}")).unwrap();
        recording.model(None).unwrap()
    }

    #[test]
    fn a_semaphore_is_a_queue_with_the_units_that_it_must_have_had() {
        let puts = thread(1, 0, 50, |_, at| format!("{} 1 signal 1\n", at + 30));
        // The first five had a unit at once before any was put.
        let gets = thread(2, 5, 50, |round, at| {
            let woken = if round < 5 { String::new() } else { format!("{} 2 woken 1\n", at + 60) };
            format!("{} 2 wait 1\n{woken}", at + 20)
        });
        let model = model(&format!("{puts}{gets}"));
        assert_eq!(model.queues, [Queue { name: "ITEMS".to_owned(), start: 1, condition: false }]);
        let [waits, signals] = model.roles.as_slice() else { panic!("{model}") };
        let (waits, signals) = if waits.gets.is_empty() { (signals, waits) } else { (waits, signals) };
        assert_eq!((waits.gets[0].count, signals.puts[0].count, signals.puts[0].all), (1.0, 1.0, false));
        assert!(waits.puts.is_empty() && signals.gets.is_empty() && waits.wait.is_zero());
    }

    #[test]
    fn a_condition_variable_is_one_for_what_its_signals_announce() {
        let puts = thread(1, 0, 60, |_, at| format!("{} 1 signal 2\n", at + 30));
        let gets = thread(2, 1000, 30, |round, at| {
            let text = format!("{} 2 wait 2\n{} 2 woken 2\n", at + 30, at + 40);
            if round % 3 == 2 { text } else { String::new() }
        });
        let model = model(&format!("{puts}{gets}"));
        let waits = model.roles.iter().find(|role| !role.gets.is_empty()).unwrap();
        assert_eq!((model.queues.len(), waits.gets[0].count, waits.gets[0].lasts), (1, 2.0, 10));
        assert!(model.roles.iter().any(|role| role.puts.first().is_some_and(|put| put.count == 1.0)));
    }

    /// The consumer finds nothing at first; from then on each of the two finds the buffer empty or
    /// full by turns. Both condition variables are of one class.
    #[test]
    fn two_condition_variables_of_one_line_are_a_buffer() {
        const ROOM: u64 = 6;
        let head = "lockyard recording 1\nclass mutex M\nclass condition C\nlock 0\nlock 1\nlock 1\n";
        let (mut puts, mut gets) = ("window 1 0\n".to_owned(), "window 2 0\n".to_owned());
        let section = |out: &mut String, thread: u32, at: u64, signal: u32| {
            let _ = write!(
                out,
                "{at} {thread} request 0 write\n{} {thread} release 0\n{} {thread} signal {signal}\n",
                at + 2,
                at + 3
            );
        };
        for turn in 0..40 {
            let begin = turn * 1000;
            let _ = write!(gets, "{begin} 2 wait 1\n{} 2 woken 1\n", begin + 95);
            (0..ROOM).for_each(|one| section(&mut puts, 1, begin + 10 + 10 * one, 1));
            let _ = write!(puts, "{} 1 wait 2\n{} 1 woken 2\n", begin + 90, begin + 200);
            (0..ROOM).for_each(|one| section(&mut gets, 2, begin + 100 + 10 * one, 2));
        }
        let recording = Recording::from_text("a", &format!("{head}{puts}{gets}")).unwrap();
        let model = recording.model(None).unwrap();
        let queues: Vec<(&str, u32)> = model.queues.iter().map(|queue| (queue.name.as_str(), queue.start)).collect();
        assert_eq!(queues, [("C 1", 0), ("C 2", ROOM as u32)], "{model}");
    }

    /// Each operation waited for the unit of a semaphore that the program only tried.
    #[test]
    fn a_semaphore_that_is_tried_is_waited_for_by_nobody() {
        let round = |number: u32, has: u64| {
            thread(number, 0, 40, move |round, at| match round % 2 == has {
                true => format!("{} {number} wait 1\n{} {number} signal 1\n", at + 30, at + 60),
                false => format!("{} {number} failed 1 write\n", at + 30),
            })
        };
        let model = model(&format!("{}{}", round(1, 0), round(2, 1)));
        assert_eq!((model.queues.len(), model.roles.len(), model.roles[0].gets.len()), (0, 1, 0), "{model}");
        let tried: Vec<(f64, f64)> = model.roles[0].takes.iter().map(|take| (take.count, take.tries)).collect();
        assert_eq!(tried, [(1.0, 0.0), (1.0, 100.0)], "{model}");
    }

    #[test]
    fn broadcasts_are_for_those_that_wait() {
        let puts = thread(1, 0, 40, |_, at| format!("{} 1 broadcast 2\n", at + 30));
        let gets = thread(2, 0, 40, |_, at| format!("{} 2 wait 2\n{} 2 woken 2\n", at + 25, at + 35));
        let model = model(&format!("{puts}{gets}"));
        let (put, early) = model.roles.iter().find_map(|role| Some((role.puts.first()?, role.early))).unwrap();
        assert_eq!(early, 11.0);
        assert_eq!((put.all, put.count, model.queues[0].start), (true, 1.0, 0));
    }

    #[test]
    fn a_wait_that_no_kept_thread_ends_is_time_off_the_cpu() {
        let waits = thread(2, 0, 40, |_, at| format!("{} 2 wait 2\n{} 2 woken 2\n", at + 25, at + 65));
        let model = model(&waits);
        assert_eq!((model.queues.len(), model.roles[0].gets.len(), model.roles[0].wait.mean()), (0, 0, 40.0));
    }

    #[test]
    fn a_wait_in_thousands_of_sections_makes_no_role() {
        let puts = thread(1, 0, 5000, |_, at| format!("{} 1 signal 2\n", at + 30));
        let gets = thread(2, 0, 5000, |round, at| {
            let text = format!("{} 2 wait 2\n{} 2 woken 2\n", at + 25, at + 35);
            if round % 1250 == 9 { text } else { String::new() }
        });
        let model = model(&format!("{puts}{gets}"));
        assert_eq!((model.queues.len(), model.roles.len(), model.roles[0].threads), (0, 1, 2.0), "{model}");
    }
}
