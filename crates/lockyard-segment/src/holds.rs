//! The locks that a thread holds, and how long it holds them.
//!
//! A thread notes each lock that it holds ([`Held`]), as a rule without the time: a clock for every
//! acquisition would cost more than the acquisition. The time is noted
//!
//! * of about one acquisition in 64, for the distribution;
//! * of one that ends a wait, whose end is known anyway, and of one that finds others queued;
//! * by the first thread that has to wait for it: the waiter writes it into the holder's note.
//!
//! So a hold for which others wait is timed, from its begin or from the moment at which the first
//! of them came. A waiter that comes before the note, or while it is moved, looks again. A hold is
//! not timed if
//!
//! * the thread loses its CPU between the lock and the note, or takes the lock between the look of
//!   a waiter and its queueing;
//! * it holds more than [`HELD`] locks;
//! * there are more than 64 threads, the lock does not know which of them has it, and a waiter's
//!   `search` has no time for all of them;
//! * nobody waits but threads that were put into the mutex's queue when they were signalled.
//!
//! | bits of [`Held::since`] | what |
//! |---|---|
//! | 0–60 | nanoseconds; under 63, `untimed` |
//! | 61 | others wait |
//! | 62 | for the distribution |
//! | 63 | no time is known |
//! | all | the note has been moved |
//!
//! **Ordering.** The waiter loads the word, then reads the clock, then exchanges. A word without a
//! time is another one at each acquisition, so the exchange succeeds only while the hold lasts that
//! the waiter saw, and the clock was read inside it. The holder may use the note for another lock
//! meanwhile: the word says so, and the waiter looks again. (A word with a time does not: that hold
//! may be taken for one for which others wait.)

use core::sync::atomic::{AtomicU64, Ordering::*};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

use crate::callers::{self, Caller};
use crate::histogram::bucket;
use crate::layout::{HELD, Held, PAGE, ThreadPage, state};
use crate::writer::{self, tally};

/// No time is known.
pub(crate) const UNTIMED: u64 = 1 << 63;
/// For the distribution.
const SAMPLED: u64 = 1 << 62;
/// Others wait.
pub(crate) const AWAITED: u64 = 1 << 61;
/// The note has been moved to another place.
const MOVED: u64 = u64::MAX;
/// The part of an address in a word without a time.
const PART: u64 = 0x0fff_ffff << 32;
/// How often a waiter looks for the holder's note: longer than a thread that runs takes to write
/// or to move it.
const LOOKS: u32 = 8;
/// The nanoseconds.
pub(crate) const TIME: u64 = AWAITED - 1;
/// A holder this long is noted by name.
const LONG: u64 = 1_000_000;

/// [`acquired_on`](crate::acquired_on), if it takes a count and a note and no more. `false`:
/// nothing is done.
#[inline(always)]
#[must_use = "what is not done is to be done by `acquired_on`"]
pub fn acquired_plainly(page: &ThreadPage, caller: Caller, lock: usize) -> bool {
    let counter = &page.acquired[caller.counter()];
    let (count, depth) = (counter.load(Relaxed), page.depth.load(Relaxed));
    let Some(held) = page.held.get(depth as usize) else { return false };
    if is_sampled(page, count) || page.tape.load(Relaxed) != state::OFF {
        return false;
    }
    counter.store(count.wrapping_add(1), Relaxed);
    put(page, held, depth, (caller, lock, untimed(count, lock)));
    true
}

/// [`released_on`](crate::released_on), if it takes the last note out and no more. `false`: nothing
/// is done.
#[inline(always)]
#[must_use = "what is not done is to be done by `released_on`"]
pub fn released_plainly(page: &ThreadPage, lock: usize) -> bool {
    let last = page.depth.load(Relaxed).wrapping_sub(1);
    let Some(held) = page.held.get(last as usize) else { return false };
    let plain = held.lock.load(Relaxed) == lock as u64
        && held.since.load(Relaxed) & UNTIMED != 0
        && page.tape.load(Relaxed) == state::OFF
        && page.waited.load(Relaxed) == 0;
    if plain {
        page.depth.store(last, Relaxed);
    }
    plain
}

/// No time is known of the hold of `lock`, before which the thread had taken `count` of its class:
/// another word for each acquisition, and for a lock whose address differs in bits 4 to 31.
#[inline(always)]
fn untimed(count: u64, lock: usize) -> u64 {
    UNTIMED | (lock as u64) << 28 & PART | count & 0xffff_ffff
}

/// Whether no time is known of a hold, which may be one of `lock`. Not so of a note that has been
/// moved.
fn is_of(since: u64, lock: usize) -> bool {
    since >> 32 == untimed(0, lock) >> 32
}

/// Notes an acquisition; `since`: its time, or [`UNTIMED`].
pub(crate) fn note(page: &ThreadPage, caller: Caller, lock: usize, since: u64) {
    let counter = &page.acquired[caller.counter()];
    let count = counter.load(Relaxed);
    counter.store(count.wrapping_add(1), Relaxed);
    let since = match (since, is_sampled(page, count)) {
        (UNTIMED, false) => untimed(count, lock),
        (UNTIMED, true) => Linux::now() & TIME | SAMPLED,
        (known, false) => known,
        (known, true) => known | SAMPLED,
    };
    // A thread with more has left some for others to release: its notes begin anew.
    let depth = page.depth.load(Relaxed) % HELD as u64;
    put(page, &page.held[depth as usize], depth, (caller, lock, since));
}

/// Writes note number `depth`, which is `held`.
#[inline(always)]
fn put(page: &ThreadPage, held: &Held, depth: u64, (caller, lock, since): (Caller, usize, u64)) {
    held.caller.store(caller.raw(), Relaxed);
    held.since.store(since, Relaxed);
    held.lock.store(lock as u64, Release);
    page.depth.store(depth + 1, Relaxed);
}

/// Whether the hold time is taken of a thread's acquisition of a class, before which it has made
/// `count`: of one in 64 on average. The multiples of the golden ratio fall into each part of the
/// unit equally often, whatever steps `count` makes: a thread that takes its locks in turns is seen
/// with all of them. Each page begins elsewhere: many threads with few acquisitions are seen with
/// first ones and with later ones.
#[inline(always)]
fn is_sampled(page: &ThreadPage, count: u64) -> bool {
    let begin = (core::ptr::from_ref(page).addr() / PAGE) as u64;
    is_chosen(begin.wrapping_add(count))
}

#[inline(always)]
fn is_chosen(number: u64) -> bool {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    number.wrapping_mul(GOLDEN) >> 58 == 0
}

/// Takes note number `at` out; `last` is the last one.
pub(crate) fn forget(page: &ThreadPage, at: usize, last: usize) {
    let held = &page.held[at % HELD];
    let (since, caller) = (held.since.load(Relaxed), held.caller.load(Relaxed));
    if at != last {
        let moved = &page.held[last % HELD];
        held.caller.store(moved.caller.load(Relaxed), Relaxed);
        // An exchange: a waiter has written into it by now, or sees that it is not the note.
        held.since.store(moved.since.swap(MOVED, Relaxed), Relaxed);
        held.lock.store(moved.lock.load(Relaxed), Release);
    }
    page.depth.store(last as u64, Relaxed);
    if since & UNTIMED == 0 {
        end_of_hold(page, Caller::from_raw(caller), since);
    }
}

#[cold]
fn end_of_hold(page: &ThreadPage, caller: Option<Caller>, since: u64) {
    let Some(caller) = caller else { return };
    let ns = Linux::now().saturating_sub(since & TIME);
    if let Some(tally) = tally(caller.class()) {
        greatest(&tally.hold_max, ns);
        if since & SAMPLED != 0 {
            tally.hold_ns.fetch_add(ns, Relaxed);
            tally.holds[bucket(ns)].fetch_add(1, Relaxed);
        }
    }
    if since & AWAITED != 0
        && let Some(record) = callers::record(caller)
    {
        record.tally.holds.fetch_add(1, Relaxed);
        record.tally.hold_ns.fetch_add(ns, Relaxed);
        if greatest(&record.tally.hold_max, ns) && ns >= LONG {
            record.holder.store(page.thread.load(Relaxed), Relaxed);
            writer::name_of_caller(&record.name);
        }
    }
}

/// Whether `ns` is greater than any before.
pub(crate) fn greatest(word: &AtomicU64, ns: u64) -> bool {
    word.load(Relaxed) < ns && word.fetch_max(ns, Relaxed) < ns
}

/// Writes into the note of the thread with `page`, which holds `lock`, that others wait for it, and
/// since when if no time is known. Whether there is such a note.
pub(crate) fn mark(page: &ThreadPage, lock: usize) -> bool {
    (0..LOOKS).any(|look| {
        if look > 0 {
            Linux::relax();
        }
        mark_noted(page, lock)
    })
}

/// The same for a thread that may hold `lock` or not.
pub(crate) fn mark_noted(page: &ThreadPage, lock: usize) -> bool {
    let depth = (page.depth.load(Relaxed) as usize).min(HELD);
    // A reader may have it several times. And of two notes, one may be of a hold that another
    // thread has ended.
    let notes = page.held[..depth].iter().filter(|held| held.lock.load(Acquire) == lock as u64);
    notes.fold(false, |any, held| {
        let marked = begin(held, lock);
        if marked {
            // Its place is known from now on, should it never release the lock.
            Caller::from_raw(held.caller.load(Relaxed)).map(callers::record);
        }
        any | marked
    })
}

/// `false`: the hold of `lock` that was seen is over, its note is elsewhere, or another waiter was
/// first.
fn begin(held: &Held, lock: usize) -> bool {
    let since = held.since.load(Relaxed);
    let timed = match since & UNTIMED {
        0 => since | AWAITED,
        _ if !is_of(since, lock) => return false,
        _ => Linux::now() & TIME | AWAITED,
    };
    let is_its = held.lock.load(Relaxed) == lock as u64;
    is_its && (timed == since || held.since.compare_exchange(since, timed, Relaxed, Relaxed).is_ok())
}

/// What a note with `since` says at the moment `now`; 0: no time is known. `None`: it has been
/// moved.
pub(crate) fn held_for(since: u64, now: u64) -> Option<u64> {
    let timed = since & UNTIMED == 0;
    (since != MOVED).then(|| if timed { now.saturating_sub(since & TIME) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_64_is_chosen_whatever_turns_a_thread_takes() {
        for turns in 1..=32 {
            for turn in 0..turns {
                let chosen = (0..64_000).filter(|count| is_chosen(count * turns + turn)).count();
                assert!((970..=1_030).contains(&chosen), "turn {turn} of {turns}: {chosen}");
            }
        }
        let at: Vec<u64> = (0..10_000).filter(|number| is_chosen(*number)).collect();
        assert!(at.windows(2).all(|two| two[1] - two[0] <= 96), "{at:?}");
    }

    /// A page of its own, zero.
    fn page() -> Box<ThreadPage> {
        // SAFETY: nothing but atomics, of which zero is a value.
        unsafe { Box::new(core::mem::zeroed()) }
    }

    #[test]
    fn what_takes_more_than_a_count_and_a_note_is_left_to_others() {
        let page = page();
        let caller = Caller::from(crate::Class::NONE);
        // Of two numbers in a row one is not chosen.
        let plainly = |lock| {
            acquired_plainly(&page, caller, lock) || {
                page.acquired[0].fetch_add(1, Relaxed);
                acquired_plainly(&page, caller, lock)
            }
        };
        // One lock more than there is room for.
        for lock in 1..=HELD {
            assert!(plainly(lock), "{lock}");
        }
        assert!(!plainly(HELD + 1));
        // Out of order, and one that is not noted.
        assert!(!released_plainly(&page, 1) && !released_plainly(&page, HELD + 1));
        // A wait that is not counted yet; a tape; a hold with a time.
        page.waited.store(1, Relaxed);
        assert!(!released_plainly(&page, HELD));
        page.waited.store(0, Relaxed);
        page.tape.store(state::BEGIN, Relaxed);
        assert!(!released_plainly(&page, HELD));
        page.tape.store(state::OFF, Relaxed);
        page.held[HELD - 1].since.store(1, Relaxed);
        assert!(!released_plainly(&page, HELD));
        page.held[HELD - 1].since.store(UNTIMED, Relaxed);
        assert!(released_plainly(&page, HELD));
        page.tape.store(state::BEGIN, Relaxed);
        assert!(!plainly(HELD));
        assert_eq!(page.depth.load(Relaxed), HELD as u64 - 1);
    }

    #[test]
    fn a_note_that_moves_takes_along_what_a_waiter_wrote_and_is_not_found_where_it_was() {
        const LAST: usize = 2;
        let page = page();
        let caller = Caller::from(crate::Class::NONE);
        for lock in 0..=LAST {
            note(&page, caller, lock + 1, UNTIMED);
        }
        assert!(mark_noted(&page, LAST + 1) && !mark_noted(&page, LAST + 2));
        let timed = page.held[LAST].since.load(Relaxed);
        assert_eq!(timed & (UNTIMED | AWAITED), AWAITED);
        forget(&page, 0, LAST);
        assert_eq!((page.held[0].lock.load(Relaxed), page.held[0].since.load(Relaxed)), (LAST as u64 + 1, timed));
        // A waiter that has found the note before it was moved.
        assert!(!begin(&page.held[LAST], LAST + 1));
        assert!(mark(&page, LAST + 1) && mark(&page, 2) && !mark(&page, 1));
    }
}
