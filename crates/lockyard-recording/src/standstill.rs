//! The threads that wait for locks where a recording ends, and those that wait for each other.
//!
//! What a thread is at, its last window tells. A wait is one of a circle if only a release by the
//! lock's holder ends it, and that thread waits so too, at one moment with all others of the
//! circle: none of them releases anything after. A reader waits for a writer only: readers that
//! hold the lock go past it, or a writer before it has its turn. Threads are looked at one after
//! the other, so that each wait has lasted for a while.

use std::collections::{BTreeMap, BTreeSet};

use crate::recording::{Mode, Recording};
use crate::walk::{self, Asked};

/// Waits of a circle last longer, ns: than a look at all threads takes.
const SETTLED: u64 = 100_000_000;

/// What a thread was at when its last window ended.
#[derive(Debug, Clone)]
pub(crate) struct AtEnd {
    /// When that was.
    pub(crate) until: u64,
    /// The lock that it waited for.
    pub(crate) asked: Option<Asked>,
    /// The locks that it held, how, and for how long.
    pub(crate) holds: Vec<(u32, Mode, u64)>,
}

/// A thread that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillWaits {
    /// The thread.
    pub thread: u32,
    /// The number of the lock's class in [`Recording::classes`].
    pub class: usize,
    /// For how long it has waited, ns.
    pub ns: u64,
    /// The threads that hold the lock, and for how long they have, ns. None of them may be
    /// recorded.
    pub holders: Vec<(u32, u64)>,
    /// From when to when it is known to wait, if only a release by a holder ends that.
    firm: Option<(u64, u64)>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standstill {
    /// The threads that wait, the one that has waited longest first.
    pub waits: Vec<StillWaits>,
    /// A circle: numbers in `waits`, each of which waits for what the next one holds, and the last
    /// for what the first one holds. Empty: there is none.
    pub circle: Vec<usize>,
}

impl Standstill {
    pub(crate) fn of(recording: &Recording, threads: &BTreeMap<u32, AtEnd>) -> Self {
        let mut holders: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        let mut written = BTreeSet::new();
        for (thread, at_end) in threads {
            for &(lock, mode, ns) in &at_end.holds {
                holders.entry(lock).or_default().push((*thread, ns));
                if mode == Mode::Write {
                    written.insert(lock);
                }
            }
        }
        let wait = |(thread, at_end): (&u32, &AtEnd)| {
            let Asked { lock, mode, since, firm } = at_end.asked?;
            let firm = firm && (mode == Mode::Write || written.contains(&lock));
            Some(StillWaits {
                thread: *thread,
                class: walk::class_of(recording, lock),
                ns: at_end.until.saturating_sub(since),
                holders: holders.get(&lock).cloned().unwrap_or_default(),
                firm: firm.then_some((since, at_end.until)),
            })
        };
        let mut waits: Vec<StillWaits> = threads.iter().filter_map(wait).collect();
        waits.sort_by_key(|wait| (u64::MAX - wait.ns, wait.thread));
        let circle = circle(&waits);
        Self { waits, circle }
    }
}

/// Follows the waits from each thread, depth first.
fn circle(waits: &[StillWaits]) -> Vec<usize> {
    let places: BTreeMap<u32, usize> = waits.iter().enumerate().map(|(place, wait)| (wait.thread, place)).collect();
    let next = |place: usize| -> Vec<usize> {
        let wait: &StillWaits = &waits[place];
        let holders = wait.holders.iter().filter(|_| wait.firm.is_some());
        holders.filter_map(|(thread, _)| places.get(thread).copied()).collect()
    };
    let mut over = vec![false; waits.len()];
    for start in 0..waits.len() {
        // Each with those that are still to be followed from it.
        let mut path = vec![(start, next(start))];
        while let Some((_, rest)) = path.last_mut() {
            let Some(place) = rest.pop() else {
                path.pop();
                continue;
            };
            if let Some(begin) = path.iter().position(|(known, _)| *known == place) {
                let found: Vec<usize> = path[begin..].iter().map(|(place, _)| *place).collect();
                let times = || found.iter().filter_map(|&place| waits[place].firm);
                let at_once = times().map(|(since, _)| since).max() <= times().map(|(_, until)| until).min();
                // Of one thread that was looked at, both is of one moment.
                let settled = found.len() == 1 || found.iter().all(|&place| waits[place].ns >= SETTLED);
                if at_once && settled {
                    return found;
                }
            } else if !std::mem::replace(&mut over[place], true) {
                path.push((place, next(place)));
            }
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use crate::Recording;

    /// The threads of the circle where each of `threads` holds locks, waits for one, from when to
    /// when, in units of 10 ms. Reads are written with a minus.
    fn circle(threads: &[(&[i32], i32, &str, u64, u64)]) -> Vec<u32> {
        let mut text = "lockyard recording 1\nclass rwlock A\n".to_owned() + &"lock 0\n".repeat(9);
        let lock = |lock: i32| format!("{} {}", lock.abs(), if lock < 0 { "read" } else { "write" });
        for (thread, (holds, waits, word, since, until)) in threads.iter().enumerate() {
            let [since, until] = [since, until].map(|units| units * 10_000_000);
            text += &format!("window {thread} 0 {until}\n");
            holds.iter().for_each(|&held| text += &format!("1 {thread} request {}\n", lock(held)));
            text += &format!("{since} {thread} request {}\n{until} {thread} {word} {}\n", lock(*waits), waits.abs());
        }
        let at_end = Recording::from_text("a", &text).unwrap().summary().at_end;
        at_end.circle.iter().map(|&place| at_end.waits[place].thread).collect()
    }

    const FIRM: &str = "pending-firm";

    #[test]
    fn a_circle_of_holders_that_wait_is_found_and_chains_and_deadlines_are_none() {
        let mut three = vec![(&[1][..], 2, FIRM, 10, 99), (&[2][..], 3, FIRM, 11, 99), (&[3][..], 1, FIRM, 12, 99)];
        three.push((&[4][..], 1, FIRM, 5, 99));
        let mut found = circle(&three);
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2], "the one that waits for it is not in it");
        assert_eq!(circle(&three[..2]), [0u32; 0]);
        three[1].2 = "pending";
        assert_eq!(circle(&three), [0u32; 0], "a wait with a deadline");
        assert_eq!(circle(&[(&[1], 1, FIRM, 10, 99)]), [0], "itself");
        assert_eq!(circle(&[(&[1], 2, FIRM, 10, 50), (&[2], 1, FIRM, 60, 99)]), [0u32; 0], "not at one moment");
    }

    /// Threads that were looked at one after the other, and let go in between.
    #[test]
    fn a_circle_of_waits_that_have_just_begun_is_none() {
        let two = |since| circle(&[(&[1], 2, FIRM, 10, 99), (&[2], 1, FIRM, since, 99)]);
        assert_eq!((two(90), two(80).len()), (vec![], 2));
        assert_eq!(circle(&[(&[1], 1, FIRM, 98, 99)]), [0], "itself");
    }

    /// Two readers that waited for each other while a writer was before one of them.
    #[test]
    fn a_reader_does_not_wait_for_readers() {
        let readers = |mode: i32| circle(&[(&[-1], 2, FIRM, 10, 99), (&[2], mode, FIRM, 11, 99)]);
        assert_eq!((readers(-1), readers(1).len()), (vec![], 2));
        assert_eq!(circle(&[(&[1], 2, FIRM, 10, 99), (&[2], -1, FIRM, 11, 99)]).len(), 2, "for a writer it does");
    }
}
