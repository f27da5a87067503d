//! The threads that wait for locks where a recording ends, and those that wait for each other.
//!
//! What a thread is at, its last window tells. A wait is one of a circle if only a release by the
//! lock's holder ends it, and that thread waits so too, at one moment with all others of the
//! circle: none of them releases anything after.

use std::collections::BTreeMap;

use crate::recording::Recording;
use crate::walk;

/// What a thread was at when its last window ended.
#[derive(Debug, Clone)]
pub(crate) struct AtEnd {
    /// When that was.
    pub(crate) until: u64,
    /// The lock that it waited for, since when, and whether only its holder could end that.
    pub(crate) asked: Option<(u32, u64, bool)>,
    /// The locks that it held, and for how long.
    pub(crate) holds: Vec<(u32, u64)>,
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
        for (thread, at_end) in threads {
            at_end.holds.iter().for_each(|(lock, ns)| holders.entry(*lock).or_default().push((*thread, *ns)));
        }
        let wait = |(thread, at_end): (&u32, &AtEnd)| {
            let (lock, since, firm) = at_end.asked?;
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
                if times().map(|(since, _)| since).max() <= times().map(|(_, until)| until).min() {
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
    /// when.
    fn circle(threads: &[(&[u32], u32, &str, u64, u64)]) -> Vec<u32> {
        let mut text = "lockyard recording 1\nclass mutex A\n".to_owned() + &"lock 0\n".repeat(9);
        for (thread, (holds, waits, word, since, until)) in threads.iter().enumerate() {
            text += &format!("window {thread} 0 {until}\n");
            holds.iter().for_each(|lock| text += &format!("1 {thread} request {lock} write\n"));
            text += &format!("{since} {thread} request {waits} write\n{until} {thread} {word} {waits}\n");
        }
        let at_end = Recording::from_text("a", &text).unwrap().summary().at_end;
        at_end.circle.iter().map(|&place| at_end.waits[place].thread).collect()
    }

    #[test]
    fn a_circle_of_holders_that_wait_is_found_and_chains_and_deadlines_are_none() {
        let firm = "pending-firm";
        let mut three = vec![(&[1][..], 2, firm, 10, 99), (&[2][..], 3, firm, 11, 99), (&[3][..], 1, firm, 12, 99)];
        three.push((&[4][..], 1, firm, 5, 99));
        let mut found = circle(&three);
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2], "the one that waits for it is not in it");
        assert_eq!(circle(&three[..2]), [0u32; 0]);
        three[1].2 = "pending";
        assert_eq!(circle(&three), [0u32; 0], "a wait with a deadline");
        assert_eq!(circle(&[(&[1], 1, firm, 10, 99)]), [0], "itself");
        assert_eq!(circle(&[(&[1], 2, firm, 10, 50), (&[2], 1, firm, 60, 99)]), [0u32; 0], "not at one moment");
    }
}
