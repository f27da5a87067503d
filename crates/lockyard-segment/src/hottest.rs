//! Which lock of a class threads wait for most, where that is most of the waiting.
//!
//! A vote by majority (Boyer and Moore), each wait with its time: the lock that leads gets the
//! times of its own waits, and loses those of all others; where nothing is left, the next one leads.
//! What it has at the end, it was waited for at least; a lock with more than half of the waiting
//! leads.
//!
//! Two threads that vote at a time may lose a vote. All accesses are Relaxed: a reader that finds
//! the lock before its time tells less than there was.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The lock that leads, and its votes. All-zero: none.
#[derive(Debug)]
#[repr(C)]
pub struct Hottest {
    /// Its address.
    pub lock: AtomicU64,
    /// It was waited for at least so long, ns.
    pub ns: AtomicU64,
}

impl Hottest {
    /// A wait of `ns` for `lock` is over.
    pub(crate) fn vote(&self, lock: u64, ns: u64) {
        if self.lock.load(Relaxed) == lock {
            self.ns.fetch_add(ns, Relaxed);
            return;
        }
        let had = self.ns.load(Relaxed);
        match ns.checked_sub(had) {
            Some(more) => {
                self.lock.store(lock, Relaxed);
                self.ns.store(more, Relaxed);
            }
            None => self.ns.store(had - ns, Relaxed),
        }
    }

    /// As it is now.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.lock.load(Relaxed), self.ns.load(Relaxed))
    }

    /// From now on `before` is what `self` is.
    pub(crate) fn begin_anew(&self, before: &Self) {
        let (lock, ns) = self.read();
        before.lock.store(lock, Relaxed);
        before.ns.store(ns, Relaxed);
    }
}

/// What leads since `earlier`, where `now` leads in all.
pub(crate) fn since(now: (u64, u64), earlier: (u64, u64)) -> (u64, u64) {
    if now.0 == earlier.0 { (now.0, now.1.saturating_sub(earlier.1)) } else { now }
}

/// What leads in two counts together.
pub(crate) fn both(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    let (more, less) = if one.1 >= other.1 { (one, other) } else { (other, one) };
    (more.0, if more.0 == less.0 { more.1.saturating_add(less.1) } else { more.1 - less.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(votes: impl IntoIterator<Item = (u64, u64)>) -> (u64, u64) {
        let hottest = Hottest { lock: AtomicU64::new(0), ns: AtomicU64::new(0) };
        votes.into_iter().for_each(|(lock, ns)| hottest.vote(lock, ns));
        hottest.read()
    }

    #[test]
    fn a_lock_with_most_of_the_waiting_leads_whatever_the_order() {
        let rest = (2..20).map(|lock| (lock, 10));
        let hot = std::iter::repeat_n((1, 20), 18);
        let mixed = hot.clone().zip(rest.clone()).flat_map(|(hot, cold)| [hot, cold]);
        for all in [hot.clone().chain(rest.clone()).collect::<Vec<_>>(), rest.chain(hot).collect(), mixed.collect()] {
            let (lock, ns) = votes(all);
            assert!(lock == 1 && (180..=360).contains(&ns), "{lock}: {ns}");
        }
    }

    #[test]
    fn of_locks_alike_none_has_much() {
        let (_, ns) = votes((0..6400).map(|wait| (wait % 64, 10)));
        assert!(ns <= 10, "{ns}");
    }

    #[test]
    fn counts_of_two_processes_and_of_two_times_come_together() {
        assert_eq!((both((1, 10), (1, 5)), both((1, 10), (2, 4)), both((0, 0), (2, 4))), ((1, 15), (1, 6), (2, 4)));
        assert_eq!((since((1, 10), (1, 4)), since((2, 10), (1, 40))), ((1, 6), (2, 10)));
    }
}
