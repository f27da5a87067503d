//! Records lent for a wait: to threads without one, and to those whose names are too long.
//!
//! A condition variable's queue is made of records, and a spinlock's of records with short names. A
//! thread that has none borrows one for the wait. Of the threads without a record that wait for the
//! same signal the first borrows and queues; the others sleep here, beside it, and return when it
//! has been woken, as if without a reason, which a waiter must be prepared for. So thousands of
//! them cost nothing while they wait.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `key` | for what the place's record waits; 0: for nothing; [`ALONE`]: nobody may join | the borrower: 0 → key by compare-exchange, key → 0 at the end |
//! | `outer` | the record that the borrower had borrowed before, and still has; 0: none | the borrower |
//! | `ended` | how many waits have ended here | the borrower, after `key`; then it wakes all that sleep on this word |
//!
//! A joiner reads `ended`, then finds its key in `key`: the wait that it joins has not ended, and
//! its end changes what the joiner sleeps on. So no signal that comes after the joiner has released
//! its mutex is lost: it comes to the borrower, or finds that one woken and not yet gone.
//!
//! The records have the last [`PLACES`] short names, which no thread gets. The very last is not
//! lent either. In a child process a place that was in use at the fork is lost: queues may name its
//! record. But a thread that forks in a signal handler goes on waiting with what it has borrowed:
//! it knows the innermost of its places, and each place the next one (`outer`).

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::*};
use std::thread_local;

use super::super::{Linux, futex};
use crate::platform::StandIn;
use crate::platform::atomics::AtomicU64;
use crate::platform::thread::ThreadId;

/// How many records can be lent at a time.
pub(super) const PLACES: u32 = 512;
/// At how many places a borrower looks.
const TRIES: u32 = 16;
/// The key of a wait that is the borrower's own.
const ALONE: u64 = u64::MAX;

struct Place {
    key: AtomicU64,
    ended: AtomicU32,
    outer: AtomicU32,
}

thread_local! {
    /// The record that the thread borrowed last, and still has; 0: none.
    static BORROWED: Cell<u32> = const { Cell::new(0) };
}

static TABLE: [Place; PLACES as usize] =
    [const { Place { key: AtomicU64::new(0), ended: AtomicU32::new(0), outer: AtomicU32::new(0) } }; PLACES as usize];

fn place(number: u32) -> &'static Place {
    &TABLE[number as usize % TABLE.len()]
}

/// The name of a place's record.
fn name(number: u32) -> ThreadId {
    ThreadId::from_raw(ThreadId::MAX_QUEUED - number % PLACES).unwrap_or(ThreadId::ANONYMOUS)
}

/// The calling thread is about to wait for what `key` names; 0: for something that nobody joins.
pub(in super::super) fn enter(key: u64) -> StandIn<Linux> {
    let (key, hashed) = if key == 0 { (ALONE, super::kernel_id_of_caller().into()) } else { (key, key) };
    let first = (hashed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    // The tail of a spinlock is never all ones: an embedder that tells kinds of locks by their
    // words counts on it.
    let numbers = (0..TRIES).map(|next| first.wrapping_add(next) % PLACES);
    for number in numbers.filter(|&number| name(number).raw() != ThreadId::MAX_QUEUED) {
        let (place, name) = (place(number), name(number));
        let ended = place.ended.load(Acquire);
        let found = place.key.load(Acquire);
        if found == key && key != ALONE && super::is_here(name) {
            return StandIn::Joined(number, ended);
        }
        if found == 0 && place.key.compare_exchange(0, key, AcqRel, Relaxed).is_ok() {
            match super::borrow(name) {
                Some(record) => {
                    place.outer.store(BORROWED.get(), Relaxed);
                    BORROWED.set(name.raw());
                    return StandIn::Record(record);
                }
                None => end(place),
            }
        }
    }
    StandIn::Nobody
}

/// The calling thread has waited with a record that [`enter`] gave it.
pub(in super::super) fn leave(name: ThreadId) {
    let place = place(ThreadId::MAX_QUEUED - name.raw());
    BORROWED.set(place.outer.load(Relaxed));
    end(place);
}

/// In a child process: what the calling thread has borrowed is a record of a thread of this
/// process.
pub(in super::super) fn keep() {
    let outer = |name: &ThreadId| ThreadId::from_raw(place(ThreadId::MAX_QUEUED - name.raw()).outer.load(Relaxed));
    let borrowed = core::iter::successors(ThreadId::from_raw(BORROWED.get()), outer);
    borrowed.take(PLACES as usize).for_each(|name| _ = super::borrow(name));
}

fn end(place: &Place) {
    if place.key.load(Relaxed) == ALONE {
        place.key.store(0, Release);
        return;
    }
    place.key.store(0, Release);
    place.ended.fetch_add(1, Release);
    futex::wake_all(&place.ended);
}

/// Sleeps until the wait that was joined ends, or until `deadline`.
pub(in super::super) fn sleep(number: u32, ended: u32, deadline: Option<u64>) {
    futex::wait(&place(number).ended, ended, deadline, futex::MONOTONIC);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn one_stands_in_and_the_others_are_told_when_it_has_been_woken() {
        let key = 0x5555_1234;
        let StandIn::Record(record) = enter(key) else { panic!("nobody waits for it yet") };
        assert!(record.id().raw() > ThreadId::MAX_QUEUED - PLACES && record.id().has_nodes());
        assert!(super::super::is_here(record.id()));
        let StandIn::Joined(number, ended) = enter(key) else { panic!("somebody stands in") };
        let StandIn::Record(other) = enter(key + 1) else { panic!("another condition") };
        leave(other.id());
        leave(record.id());
        // Returns at once: it has ended.
        sleep(number, ended, None);
        let StandIn::Record(again) = enter(key) else { panic!("the place is free again") };
        leave(again.id());
    }

    #[test]
    fn nobody_joins_a_wait_of_ones_own() {
        let records: Vec<_> = core::iter::from_fn(|| match enter(0) {
            StandIn::Record(record) => Some(record.id()),
            StandIn::Joined(..) => panic!("joined"),
            StandIn::Nobody => None,
        })
        .collect();
        let several: HashSet<_> = records.iter().collect();
        assert!(several.len() == records.len() && records.len() > 1);
        records.into_iter().rev().for_each(leave);
    }

    #[test]
    fn the_last_of_the_short_names_is_nobodys() {
        let mut lent = HashSet::new();
        for key in (1..4_000).map(|key| key * 64) {
            let StandIn::Record(record) = enter(key) else { panic!("nobody waits for it") };
            lent.insert(record.id().raw());
            leave(record.id());
        }
        assert!(lent.len() > PLACES as usize / 2 && !lent.contains(&ThreadId::MAX_QUEUED));
    }
}
