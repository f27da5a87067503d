//! How long the holders of a lock, while others waited for it, waited for other locks themselves:
//! what helps there helps here.
//!
//! | thread | does what |
//! |---|---|
//! | a thread whose wait has ended | notes in its page the locks that it holds and others wait for |
//! | the same, once it has released the lock | adds the wait to the class of each of them |
//!
//! Of a wait it counts what came after the first of the others: before that it cost them nothing.

use core::iter;
use core::sync::atomic::Ordering::*;

use crate::callers::Caller;
use crate::holds::awaited_since;
use crate::layout::ThreadPage;
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
        let (Some(tally), ns) = (tally(caller.class()), outer.ns.load(Relaxed)) else { continue };
        tally.within_ns.fetch_add(ns, Relaxed);
        // (Another thread's may come between: either is a long one.)
        let long = tally.within_long.load(Relaxed);
        if ns >= long / 2 {
            tally.within_long.store(ns, Relaxed);
            tally.within.store(inner.raw(), Relaxed);
        } else {
            tally.within_long.store(long - long / 8, Relaxed);
        }
    }
}
