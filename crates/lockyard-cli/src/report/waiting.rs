//! The threads that wait at a moment, below those that they wait for: a tree, from threads that
//! hold locks and wait for nothing down to those that hold nothing.
//!
//! ```text
//!   thread 12 "flusher"
//!     holds mutex of table (store.c:3) since flush (store.c:88)
//!       thread 14 "compact" waits in merge (store.c:41), 28.0 ms
//!         holds mutex of index (store.c:4) since merge (store.c:40)
//!           thread 15 waits in seek (store.c:57), 3.1 ms
//!       14 threads wait in get (store.c:20), up to 28.1 ms
//! ```
//!
//! A thread stands below each that holds what it waits for: readers hold a lock together. A circle
//! is cut where it closes. A chain of more than [`DEEP`] threads goes on at the left.

use std::collections::HashMap;
use std::fmt::Write;

use lockyard_segment::sample::{ThreadSample, Wait};

use super::facts::{Facts, called};
use super::numbers;
use crate::deadlock;

/// Lines that people read.
const MOST: usize = 30;
/// Threads below each other: as many as lines, lest calls nest without bound.
const DEEP: usize = MOST;

/// What a thread waits for: a lock of a process.
type Lock = (u32, u64);

struct Tree<'a> {
    facts: &'a Facts<'a>,
    threads: &'a [ThreadSample],
    /// The waiters of each lock, those that have waited longest first.
    waiters: HashMap<Lock, Vec<usize>>,
    /// The locks that others wait for of each thread.
    held: HashMap<usize, Vec<Lock>>,
    /// The threads that have been told of.
    told: Vec<bool>,
    lines: Vec<String>,
    /// Lines that are not among those.
    more: usize,
}

/// The tree, with the line above it; empty if no thread that is known waits.
pub(super) fn tree(facts: &Facts<'_>) -> String {
    let threads = &facts.sample.waiters;
    let mut tree = Tree {
        facts,
        threads,
        waiters: HashMap::new(),
        held: HashMap::new(),
        told: vec![false; threads.len()],
        lines: Vec::new(),
        more: 0,
    };
    let mut orphans: Vec<Lock> = Vec::new();
    for (index, wait) in waits(threads) {
        let lock = (threads[index].process, wait.lock);
        let queue = tree.waiters.entry(lock).or_default();
        if queue.is_empty() {
            let holders = deadlock::holders(threads, &threads[index], wait);
            if holders.is_empty() {
                orphans.push(lock);
            }
            holders.iter().for_each(|holder| tree.held.entry(holder.thread).or_default().push(lock));
        }
        queue.push(index);
    }
    if tree.waiters.is_empty() {
        return String::new();
    }
    tree.waiters.values_mut().for_each(|queue| queue.sort_by_key(|&index| std::cmp::Reverse(waited(&threads[index]))));
    let mut roots: Vec<usize> = tree.held.keys().copied().collect();
    // Those that wait for nothing first; what is left then is a circle, and what hangs on it.
    roots.sort_by_key(|&index| (threads[index].waits.is_some(), threads[index].thread));
    for root in roots {
        if !tree.told[root] {
            tree.thread(root, 1, "");
        }
    }
    for lock in orphans {
        tree.orphan(lock);
    }
    tree.text()
}

fn waits(threads: &[ThreadSample]) -> impl Iterator<Item = (usize, &Wait)> {
    threads.iter().enumerate().filter_map(|(index, thread)| Some((index, thread.waits.as_ref()?)))
}

fn waited(thread: &ThreadSample) -> u64 {
    thread.waits.as_ref().map_or(0, |wait| wait.ns)
}

impl Tree<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        if self.lines.len() < MOST {
            self.lines.push(format!("{:indent$}{text}", "", indent = 2 * depth));
        } else {
            self.more += 1;
        }
    }

    fn label(&self, lock: Lock) -> String {
        let waiter = self.waiters.get(&lock).and_then(|queue| queue.first());
        let class = waiter.and_then(|&index| self.threads[index].waits.as_ref()).map(|wait| wait.class);
        let class = class.and_then(|class| self.facts.sample.classes.get(class));
        class.map_or_else(|| "a lock".to_owned(), |class| self.facts.label(class))
    }

    /// A thread, after which `says` stands, and those that wait for it.
    fn thread(&mut self, index: usize, depth: usize, says: &str) {
        let thread = &self.threads[index];
        self.line(depth, &format!("{}{says}", called(thread.thread, &thread.name)));
        if depth > 2 * DEEP || std::mem::replace(&mut self.told[index], true) {
            return;
        }
        for lock in self.held.get(&index).cloned().unwrap_or_default() {
            let hold = thread.holds.iter().find(|hold| hold.lock == lock.1);
            let since =
                hold.map_or_else(String::new, |hold| format!(" since {}", self.facts.symbols.line(&hold.place)));
            let verb = if hold.is_some() { "holds" } else { "held, when the first wait began," };
            let label = self.label(lock);
            self.line(depth + 1, &format!("{verb} {label}{since}"));
            self.waiters_of(lock, depth + 2);
        }
    }

    fn orphan(&mut self, lock: Lock) {
        let label = self.label(lock);
        self.line(1, &format!("{label}: its holder is not known"));
        self.waiters_of(lock, 2);
    }

    /// Those for whom nobody waits together, by the place where they wait; the others with those.
    fn waiters_of(&mut self, lock: Lock, depth: usize) {
        let queue = self.waiters.get(&lock).cloned().unwrap_or_default();
        let mut places: Vec<(String, Vec<usize>)> = Vec::new();
        for index in queue {
            let Some(wait) = &self.threads[index].waits else { continue };
            let at = self.facts.symbols.line(&wait.place);
            if self.held.contains_key(&index) {
                let says = format!(" waits in {at}, {}", numbers::time(wait.ns as f64));
                self.thread(index, depth, &says);
                continue;
            }
            match places.iter_mut().find(|(place, _)| *place == at) {
                Some((_, alike)) => alike.push(index),
                None => places.push((at, vec![index])),
            }
        }
        for (at, alike) in places {
            let longest = numbers::time(waited(&self.threads[alike[0]]) as f64);
            match alike[..] {
                [one] => self.thread(one, depth, &format!(" waits in {at}, {longest}")),
                _ => self.line(depth, &format!("{} threads wait in {at}, up to {longest}", alike.len())),
            }
        }
    }

    fn text(&self) -> String {
        let when = if self.facts.ended { "at the end" } else { "now" };
        let mut out = format!("\n  Who waits for whom {when}:\n");
        for line in &self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{line}");
        }
        if self.more > 0 {
            let _ = writeln!(out, "  and {} more", numbers::count(self.more, "line"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use lockyard_segment::Sample;
    use lockyard_segment::sample::{ClassSample, Hold, Place};

    use super::super::observed::tests::with;
    use super::*;

    fn thread(thread: u32, waits_for: u64, ms: u64, holds: &[u64]) -> ThreadSample {
        let wait = |lock| Wait {
            lock,
            class: 0,
            place: place(lock),
            since: 1,
            ns: ms * 1_000_000,
            holder: 0,
            has_deadline: false,
        };
        ThreadSample {
            process: 1,
            thread,
            name: if thread == 1 { "first".to_owned() } else { String::new() },
            waits: (waits_for != 0).then(|| wait(waits_for)),
            holds: holds.iter().map(|&lock| Hold { lock, place: place(100 * lock), shared: false, ns: 0 }).collect(),
        }
    }

    fn place(place: u64) -> Place {
        Place { file: String::new(), place }
    }

    fn lines(threads: Vec<ThreadSample>) -> Vec<String> {
        let class = ClassSample { kind: "mutex".to_owned(), name: "a".to_owned(), ..ClassSample::default() };
        let sample = Sample { classes: vec![class], waiters: threads, ..Sample::default() };
        with(&sample, tree).lines().skip(2).map(str::to_owned).collect()
    }

    #[test]
    fn threads_stand_below_those_that_hold_what_they_want() {
        let threads = vec![
            thread(1, 0, 0, &[16]),
            thread(2, 16, 5, &[]),
            thread(3, 16, 7, &[]),
            thread(4, 16, 6, &[32]),
            thread(5, 32, 1, &[]),
        ];
        let expected = [
            "  thread 1 \"first\"",
            "    holds mutex a since 0x640",
            "      thread 4 waits in 0x10, 6.00 ms",
            "        holds mutex a since 0xc80",
            "          thread 5 waits in 0x20, 1.00 ms",
            "      2 threads wait in 0x10, up to 7.00 ms",
        ];
        assert_eq!(lines(threads), expected);
        assert!(lines(Vec::new()).is_empty() && lines(vec![thread(1, 0, 0, &[16])]).is_empty());
    }

    #[test]
    fn a_circle_is_cut_and_an_unknown_holder_is_said() {
        let circle = lines(vec![thread(2, 16, 1, &[32]), thread(3, 32, 1, &[16])]);
        assert_eq!(circle.len(), 5, "{circle:#?}");
        assert!(circle[0] == "  thread 2" && circle[4].trim_start().starts_with("thread 2 waits"), "{circle:#?}");
        let orphan = lines(vec![thread(2, 16, 1, &[])]);
        assert_eq!(orphan, ["  mutex a: its holder is not known", "    thread 2 waits in 0x10, 1.00 ms"]);
    }

    #[test]
    fn a_long_chain_is_cut_and_all_of_it_counted() {
        let chain = |threads: u64| lines((0..threads).map(|at| thread(10 + at as u32, at, 1, &[at + 1])).collect());
        let all = |threads: usize| 2 * threads - 1;
        assert_eq!(chain(12).len(), all(12));
        // A chain that goes on at the left has a line there too.
        let (long, pieces) = (chain(100), 100 / DEEP + 1);
        assert_eq!(long.len(), MOST + 1);
        assert_eq!(long[MOST], format!("  and {} lines more", all(100) + pieces - 1 - MOST));
    }

    #[test]
    fn a_crowd_is_cut_off() {
        let crowd = (0..100).map(|at| thread(10 + at, 1_000 + u64::from(at), 1, &[])).collect();
        let lines = lines(crowd);
        assert_eq!((lines.len(), lines[MOST].as_str()), (MOST + 1, "  and 170 lines more"));
    }
}
