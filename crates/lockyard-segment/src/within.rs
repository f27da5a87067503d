//! How long the holders of a lock, while others waited for it, waited for other locks themselves:
//! what helps there helps here.
//!
//! | thread | does what |
//! |---|---|
//! | a thread whose wait has ended | notes in its page those of its locks for which others wait |
//! | the same, once it has released the lock | adds the wait to the class of each of them |
//!
//! Of a wait it counts what came after the first of the others: before that it cost them nothing.
//!
//! A class has [`INNER`](crate::layout::INNER) counters. Code without one takes that with the least
//! time, and goes on from there: so all of them are together what was waited, code that waited more
//! than its share has one, and none is too high by more than a share.

use core::iter;
use core::sync::atomic::Ordering::*;

use crate::callers::Caller;
use crate::holds::awaited_since;
use crate::layout::{CallerTime, Tally, ThreadPage};
use crate::writer::tally;

/// The thread with `page` has waited for `ns`, until `now`.
pub(crate) fn note(page: &ThreadPage, ns: u64, now: u64) {
    // Each of them: others wait for any of these as long as this thread does.
    let outer = page.held[..page.depth()].iter().filter_map(|held| {
        let ns = ns.min(now.saturating_sub(awaited_since(page, held)?));
        Some((held.caller.load(Relaxed), ns)).filter(|(_, ns)| *ns > 0)
    });
    for (word, (caller, ns)) in page.waited_within.iter().zip(outer.chain(iter::repeat((0, 0)))) {
        word.caller.store(caller, Relaxed);
        word.ns.store(ns, Relaxed);
    }
}

/// Adds what was [noted](note) of a wait of `inner`.
pub(crate) fn settle(page: &ThreadPage, inner: Caller) {
    for outer in &page.waited_within {
        let Some(caller) = Caller::from_raw(outer.caller.swap(0, Relaxed)) else { break };
        if let Some(tally) = tally(caller.class()) {
            add(&tally.within, inner, outer.ns.load(Relaxed));
        }
    }
}

fn add(counters: &[CallerTime], inner: Caller, ns: u64) {
    let its = counters.iter().find(|counter| counter.caller.load(Relaxed) == inner.raw());
    let least = || counters.iter().min_by_key(|counter| counter.ns.load(Relaxed));
    if let Some(counter) = its.or_else(least) {
        counter.caller.store(inner.raw(), Relaxed);
        counter.ns.fetch_add(ns, Relaxed);
    }
}

/// What `tally` has counted since it was `before`.
pub(crate) fn read(tally: &Tally, before: Option<&Tally>) -> impl Iterator<Item = (Caller, u64)> {
    tally.within.iter().enumerate().filter_map(move |(index, counter)| {
        let before = before.map_or(0, |before| before.within[index].ns.load(Relaxed));
        let caller = Caller::from_raw(counter.caller.load(Relaxed))?;
        Some((caller, counter.ns.load(Relaxed).saturating_sub(before)))
    })
}

/// Notes in `before` what `tally` has counted so far.
pub(crate) fn begin_anew(tally: &Tally, before: &Tally) {
    for (counter, old) in tally.within.iter().zip(&before.within) {
        old.ns.store(counter.ns.load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    #[test]
    fn what_takes_most_of_the_time_has_a_counter_however_many_others_there_are() {
        let counters: [CallerTime; 4] = core::array::from_fn(|_| CallerTime::default());
        let inner = |address| Caller::new(Class::NONE, address);
        // Early ones that do not come again, then one among many.
        for address in 1..=4 {
            add(&counters, inner(address), 1_000);
        }
        for round in 0..1_000 {
            add(&counters, inner(100), 10);
            add(&counters, inner(200 + round), 10);
        }
        let of = |caller: Caller| {
            counters.iter().find(|one| one.caller.load(Relaxed) == caller.raw()).map_or(0, |one| one.ns.load(Relaxed))
        };
        assert!(of(inner(100)) >= 10_000);
        let all: u64 = counters.iter().map(|one| one.ns.load(Relaxed)).sum();
        assert_eq!(all, 4 * 1_000 + 2 * 10_000, "nothing is lost, nor counted twice");
    }
}
