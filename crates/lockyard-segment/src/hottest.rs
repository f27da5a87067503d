//! Which locks of a class threads wait for most, where a few have most of the waiting.
//!
//! The count of frequent items by Misra and Gries, each wait with its time: a lock that leads gets
//! the times of its own waits; where [`LEAD`] others lead, all of these lose the time of a wait for
//! one that does not, up to what the last of them has. What a lock has at the end, it was waited
//! for at least; one with more than a fifth of the waiting leads.
//!
//! Two threads that count at a time may lose a wait. All accesses are Relaxed: a reader that finds
//! a lock before its time tells less than there was.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many locks lead.
pub const LEAD: usize = 4;

/// Those locks: address, and for how long each was waited for at least, ns. All-zero: none.
#[derive(Debug)]
#[repr(transparent)]
pub struct Hottest([[AtomicU64; 2]; LEAD]);

/// The same at a moment: those waited for longest first.
pub type Leading = [(u64, u64); LEAD];

impl Hottest {
    /// A wait of `ns` for `lock` is over.
    pub(crate) fn count(&self, lock: u64, ns: u64) {
        if let Some([_, time]) = self.0.iter().find(|[known, _]| known.load(Relaxed) == lock) {
            time.fetch_add(ns, Relaxed);
            return;
        }
        let least = self.0.iter().map(|[_, time]| time.load(Relaxed)).min().unwrap_or(0).min(ns);
        let lose = |time: &AtomicU64| time.store(time.load(Relaxed).saturating_sub(least), Relaxed);
        self.0.iter().for_each(|[_, time]| lose(time));
        let more = ns - least;
        if let Some([known, time]) = self.0.iter().find(|[_, time]| more > 0 && time.load(Relaxed) == 0) {
            known.store(lock, Relaxed);
            time.store(more, Relaxed);
        }
    }

    /// As it is now.
    pub(crate) fn read(&self) -> Leading {
        sorted(self.0.iter().map(|[lock, time]| (lock.load(Relaxed), time.load(Relaxed))))
    }

    /// From now on `before` is what `self` is.
    pub(crate) fn begin_anew(&self, before: &Self) {
        for (now, then) in self.0.iter().flatten().zip(before.0.iter().flatten()) {
            then.store(now.load(Relaxed), Relaxed);
        }
    }
}

fn sorted(locks: impl IntoIterator<Item = (u64, u64)>) -> Leading {
    let mut all: Vec<(u64, u64)> = locks.into_iter().filter(|(lock, ns)| *lock != 0 && *ns > 0).collect();
    all.sort_by_key(|(lock, ns)| (u64::MAX - ns, *lock));
    // What others lose to one that does not lead.
    let lost = all.get(LEAD).map_or(0, |(_, ns)| *ns);
    let mut leading = Leading::default();
    for (place, (lock, ns)) in leading.iter_mut().zip(all) {
        *place = if ns > lost { (lock, ns - lost) } else { (0, 0) };
    }
    leading
}

fn time_of(all: &Leading, lock: u64) -> u64 {
    all.iter().find(|(known, _)| *known == lock).map_or(0, |(_, ns)| *ns)
}

/// Those that lead since `earlier`, where these lead in all.
pub(crate) fn since(now: &Leading, earlier: &Leading) -> Leading {
    sorted(now.iter().map(|&(lock, ns)| (lock, ns.saturating_sub(time_of(earlier, lock)))))
}

/// Those that lead in two counts together.
pub(crate) fn both(one: &Leading, other: &Leading) -> Leading {
    let added = one.iter().map(|&(lock, ns)| (lock, ns.saturating_add(time_of(other, lock))));
    let more = other.iter().filter(|(lock, _)| time_of(one, *lock) == 0);
    sorted(added.chain(more.copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(waits: impl IntoIterator<Item = (u64, u64)>) -> Leading {
        let hottest = Hottest([const { [const { AtomicU64::new(0) }; 2] }; LEAD]);
        waits.into_iter().for_each(|(lock, ns)| hottest.count(lock, ns));
        hottest.read()
    }

    #[test]
    fn a_lock_with_most_of_the_waiting_leads_whatever_the_order() {
        let rest = (2..20).map(|lock| (lock, 10));
        let hot = std::iter::repeat_n((1, 20), 18);
        let mixed = hot.clone().zip(rest.clone()).flat_map(|(hot, cold)| [hot, cold]);
        for all in [hot.clone().chain(rest.clone()).collect::<Vec<_>>(), rest.chain(hot).collect(), mixed.collect()] {
            let (lock, ns) = counted(all)[0];
            assert!(lock == 1 && (300..=360).contains(&ns), "{lock}: {ns}");
        }
    }

    #[test]
    fn several_hot_ones_lead_and_of_locks_alike_none_has_much() {
        let waits = (0..6_400).map(|wait| (if wait % 8 == 0 { 10 + wait % 64 } else { 1 + wait % 3 }, 10));
        let leading = counted(waits);
        let mut hot: Vec<u64> = leading[..3].iter().map(|(lock, _)| *lock).collect();
        hot.sort_unstable();
        assert_eq!(hot, [1, 2, 3], "{leading:?}");
        assert!(leading[..3].iter().map(|(_, ns)| ns).sum::<u64>() > 40_000, "{leading:?}");
        let alike = counted((0..6_400).map(|wait| (1 + wait % 64, 10)));
        assert!(alike.iter().all(|(_, ns)| *ns <= 20), "{alike:?}");
        assert_eq!(counted([(7, 0)]), Leading::default());
    }

    /// One that was not hot before was not named after a reset.
    #[test]
    fn counts_of_two_processes_and_of_two_times_come_together() {
        let of = |some: &[(u64, u64)]| sorted(some.iter().copied());
        assert_eq!(both(&of(&[(1, 10), (2, 3)]), &of(&[(1, 5), (3, 4)])), of(&[(1, 15), (3, 4), (2, 3)]));
        assert_eq!(since(&of(&[(1, 10), (2, 8)]), &of(&[(1, 9)])), of(&[(2, 8), (1, 1)]));
        let five = of(&[(1, 10), (2, 9), (3, 8), (4, 7), (5, 3)]);
        assert_eq!(five, [(1, 7), (2, 6), (3, 5), (4, 4)]);
    }
}
