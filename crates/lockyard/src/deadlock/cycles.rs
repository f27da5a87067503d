//! The checker: a graph of threads, and its cycles.
//!
//! | a thread wants | it waits for |
//! |---|---|
//! | exclusive | each holder; for itself too: then it is a cycle of one |
//! | upgrading | each other holder; itself if it reads as well |
//! | upgradable | a holder that is upgradable or exclusive |
//! | shared | a holder that is exclusive |
//! | shared or upgradable, past all holders | *perhaps* each thread that waits for it to write |
//!
//! The last row is not of readers of `RecursiveRwLock`: these pass waiting writers.

// A report names threads as std does.
#![allow(clippy::disallowed_types)]

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use std::backtrace::Backtrace;

use super::{Mode, RECURSIVE_RW_LOCK};
use crate::platform::notes::{self, LockUse, Noted, Record, Thread, ThreadId};

/// How long a cycle that leads through a waiting writer must have stood.
pub const SETTLED: Duration = Duration::from_millis(50);

/// A thread of a cycle: it waits for a lock that the next thread of the cycle holds, or, as a
/// waiting writer, keeps closed.
#[derive(Debug, Clone)]
pub struct DeadlockedThread {
    thread: Thread,
    waits_for: LockUse,
    holds: Vec<LockUse>,
    backtrace: Arc<Backtrace>,
}

impl DeadlockedThread {
    /// The thread's id, of std.
    pub fn thread_id(&self) -> ThreadId {
        self.thread.id()
    }

    /// The thread's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.thread.name()
    }

    /// The lock that it waits for.
    pub fn waits_for(&self) -> LockUse {
        self.waits_for
    }

    /// The locks that it holds, the oldest first.
    pub fn holds(&self) -> &[LockUse] {
        &self.holds
    }

    /// Where it began to wait.
    pub fn backtrace(&self) -> &Backtrace {
        &self.backtrace
    }
}

impl core::fmt::Display for DeadlockedThread {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = self.name().unwrap_or("unnamed");
        write!(f, "thread {name} ({:?}) waits for {}, holds", self.thread_id(), self.waits_for)?;
        if self.holds.is_empty() {
            return f.write_str(" nothing");
        }
        let mut gap = " ";
        self.holds.iter().try_for_each(|held| write!(f, "{}{held}", core::mem::replace(&mut gap, ", ")))
    }
}

/// The cycles of waits that there are now, each thread in one at most. In a cycle each thread waits
/// for the next, and the last for the first.
///
/// Cost: stops the lock calls of all threads for as long as it takes to copy their notes; then a
/// walk over these. Waits [`SETTLED`] if it finds a cycle that may yet dissolve. A deadlock is
/// reported by each call for as long as it lasts.
///
/// ```
/// # #[cfg(feature = "deadlock")]
/// assert!(lockyard::deadlock::check_deadlock().is_empty());
/// ```
pub fn check_deadlock() -> Vec<Vec<DeadlockedThread>> {
    let threads = notes::all();
    let certain = cycles(&edges(&threads, false), vec![false; threads.len()]);
    let mut known = vec![false; threads.len()];
    certain.iter().flatten().for_each(|&thread| known[thread] = true);
    let mut found: Vec<Vec<_>> = certain.iter().map(|cycle| report(&threads, cycle)).collect();

    let likely = cycles(&edges(&threads, true), known);
    if !likely.is_empty() {
        notes::pause(SETTLED);
        let later = notes::all();
        let stands = |&thread: &usize| {
            let (record, noted) = &threads[thread];
            let now = later.iter().find(|(now, _)| Arc::ptr_eq(now, record));
            now.is_some_and(|(_, now)| wait_number(now) == wait_number(noted))
        };
        found.extend(likely.iter().filter(|cycle| cycle.iter().all(stands)).map(|cycle| report(&threads, cycle)));
    }
    found
}

fn wait_number(noted: &Noted) -> Option<u64> {
    noted.wait.as_ref().map(|wait| wait.number)
}

fn report(threads: &[(Arc<Record>, Noted)], cycle: &[usize]) -> Vec<DeadlockedThread> {
    let threads = cycle.iter().map(|&thread| &threads[thread]);
    let deadlocked = threads.filter_map(|(record, noted)| {
        let wait = noted.wait.clone()?;
        let (thread, holds) = (record.thread.clone(), noted.holds.clone());
        Some(DeadlockedThread { thread, waits_for: wait.lock, holds, backtrace: wait.backtrace })
    });
    deadlocked.collect()
}

/// For each thread those that it waits for, by their places. `likely`: also waiting writers.
fn edges(threads: &[(Arc<Record>, Noted)], likely: bool) -> Vec<Vec<usize>> {
    let others = |me: usize, want: LockUse| {
        let holds = |other: usize, noted: &Noted| {
            let held = noted.holds.iter().filter(|held| held.address == want.address);
            held.into_iter().any(|held| match want.mode {
                Mode::Exclusive => true,
                Mode::Upgrading => other != me || held.mode == Mode::Shared,
                Mode::Upgradable => held.mode != Mode::Shared,
                Mode::Shared => held.mode == Mode::Exclusive,
            })
        };
        let writes = |other: usize, noted: &Noted| {
            let waits = noted.wait.as_ref().filter(|wait| wait.lock.address == want.address);
            other != me && waits.is_some_and(|wait| matches!(wait.lock.mode, Mode::Exclusive | Mode::Upgrading))
        };
        let those = |is: &dyn Fn(usize, &Noted) -> bool| -> Vec<usize> {
            (0..threads.len()).filter(|&other| is(other, &threads[other].1)).collect()
        };
        let holders = those(&holds);
        let passes = match want.mode {
            Mode::Exclusive | Mode::Upgrading => true,
            Mode::Upgradable => false,
            Mode::Shared => want.kind == RECURSIVE_RW_LOCK,
        };
        if likely && holders.is_empty() && !passes { those(&writes) } else { holders }
    };
    let wants = threads.iter().map(|(_, noted)| noted.wait.as_ref().map(|wait| wait.lock));
    wants.enumerate().map(|(me, want)| want.map_or_else(Vec::new, |want| others(me, want))).collect()
}

/// Cycles of a graph, until all others have a member in common with these, or one of `known`.
fn cycles(edges: &[Vec<usize>], mut known: Vec<bool>) -> Vec<Vec<usize>> {
    let next = || {
        let cycle = cycle(edges, &known)?;
        cycle.iter().for_each(|&node| known[node] = true);
        Some(cycle)
    };
    core::iter::from_fn(next).collect()
}

/// A cycle without those that are `known`.
fn cycle(edges: &[Vec<usize>], known: &[bool]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Not,
        OnPath,
        Done,
    }
    let mut seen: Vec<Seen> = known.iter().map(|&known| if known { Seen::Done } else { Seen::Not }).collect();
    for start in 0..edges.len() {
        if seen[start] != Seen::Not {
            continue;
        }
        seen[start] = Seen::OnPath;
        // A member of the path, and which of its edges is next.
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(&to) = edges[*node].get(*next) else {
                seen[*node] = Seen::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match seen[to] {
                Seen::Not => {
                    seen[to] = Seen::OnPath;
                    path.push((to, 0));
                }
                Seen::OnPath => {
                    return Some(path.iter().map(|&(node, _)| node).skip_while(|&node| node != to).collect());
                }
                Seen::Done => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(edges: &[&[usize]]) -> Vec<Vec<usize>> {
        cycles(&edges.iter().map(|to| to.to_vec()).collect::<Vec<_>>(), vec![false; edges.len()])
    }

    #[test]
    fn cycles_are_found_and_paths_are_not() {
        assert!(of(&[&[1], &[2], &[]]).is_empty());
        // Two ways to one place are no cycle.
        assert!(of(&[&[1, 2], &[3], &[3], &[]]).is_empty());
        assert_eq!(of(&[&[0]]), [[0]]);
        assert_eq!(of(&[&[1], &[2], &[0]]), [[0, 1, 2]]);
        // Reached from outside; the edge that leads on is the second.
        assert_eq!(of(&[&[1], &[3, 2], &[1], &[]]), [[1, 2]]);
        assert_eq!(of(&[&[1], &[0], &[3], &[2]]), [vec![0, 1], vec![2, 3]]);
        // Of two with a common member one.
        assert_eq!(of(&[&[1, 2], &[0], &[0]]), [[0, 1]]);
        // One that is found last has no member of the first, which a path to it goes through.
        assert_eq!(of(&[&[1, 2], &[3, 4], &[4], &[1], &[0]]).len(), 2);
        // Known members make no news.
        assert!(cycles(&[vec![1], vec![0]], vec![false, true]).is_empty());
    }
}
