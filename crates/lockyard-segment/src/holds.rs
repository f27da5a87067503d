//! The locks that a thread holds, and how long it holds them.
//!
//! A thread notes each lock that it holds ([`Held`]), as a rule without the time: a clock for every
//! acquisition would cost more than the acquisition. The time is noted
//!
//! * of about one in 64 of a thread's first [`EARLY`] acquisitions of a class, one in 256 after,
//!   for the distribution, where it counts four times;
//! * of one that ends a wait, whose end is known anyway, and of one that finds others queued;
//! * by the first thread that has to wait for it: the waiter writes it into the holder's note; for
//!   a waiter that sleeps at a condition variable the thread does that signals it.
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
//! * nobody waits but threads that a signal put into the mutex's queue, of a thread that did not
//!   hold it, and the one that does is not among the first 64.
//!
//! It ends where its release [begins](crate::releasing), if that is told: the thread may lose its
//! CPU to one that the release wakes.
//!
//! | [`Held::since`] | what |
//! |---|---|
//! | bit 63 clear | no time: `notes` as it was before the acquisition, another word for each |
//! | bit 63 set | bits 0–59: nanoseconds; 60: [`LATE`]; 61: [`AWAITED`]; 62: [`SAMPLED`] |
//! | all set | the note has been moved |
//!
//! **Ordering.** The holder stores the lock's address, then `since`, then `notes`, each with
//! Release. The waiter loads them the other way round with Acquire, reads the clock, and exchanges
//! `since`. A word without a time is in use for one hold: so the exchange succeeds only while the
//! hold lasts that the waiter saw, or after it, where it does no harm: the next note there has
//! another word. The clock was read inside the hold. (A word with a time is not in use for one
//! alone, nor is one at which a signal handler takes locks: that hold may be taken for one for
//! which others wait.)
//!
//! Into a note with a time the first waiter writes no other. It puts its moment into
//! [`ThreadPage::late_since`] first, and exchanges `since` with Release. There is one such word: if
//! others come for two such locks at once, the first of these counts from its acquisition.

use core::sync::atomic::{AtomicU64, Ordering::*};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

use crate::callers::{self, Caller};
use crate::classes::Class;
use crate::histogram::bucket;
use crate::layout::{DEPTH, HELD, Held, MADE, ThreadPage};
use crate::process;
use crate::tape;
use crate::writer::tally;

/// A time is known.
const TIMED: u64 = 1 << 63;
/// For the distribution.
const SAMPLED: u64 = 1 << 62;
/// Others wait.
pub(crate) const AWAITED: u64 = 1 << 61;
/// Not one of the first: it stands for four times as many.
const LATE: u64 = 1 << 60;
/// The note has been moved to another place.
const MOVED: u64 = u64::MAX;
/// After so many acquisitions of a class a thread has enough holds in the distribution: with the
/// clock as often as at first, a third of what counting costs would be that.
const EARLY: u64 = 4_096;
/// How often a waiter looks for the holder's note: longer than a thread that runs takes to write
/// or to move it.
const LOOKS: u32 = 8;
/// The nanoseconds.
const TIME: u64 = LATE - 1;
/// A holder this long is noted by name.
const LONG: u64 = 1_000_000;

/// [`acquired_on`](crate::acquired_on), if it takes a count and a note and no more. `false`:
/// nothing is done.
#[inline(always)]
#[must_use = "what is not done is to be done by `acquired_on`"]
pub fn acquired_plainly(page: &ThreadPage, caller: Caller, lock: usize) -> bool {
    let notes = page.notes.load(Relaxed);
    let Some(held) = page.held.get((notes & DEPTH) as usize) else { return false };
    let counter = &page.acquired[caller.counter()];
    let count = counter.load(Relaxed);
    // The look of a thread's first acquisitions, whatever their number: another one needs a
    // register, and so a stack.
    if is_chosen(number(page, count), 64) || tape::is_on(page) {
        return false;
    }
    counter.store(count.wrapping_add(1), Relaxed);
    put(page, held, notes, (caller, lock, notes));
    true
}

/// [`released_on`](crate::released_on), if it takes the last note out and no more. `false`: nothing
/// is done.
#[inline(always)]
#[must_use = "what is not done is to be done by `released_on`"]
pub fn released_plainly(page: &ThreadPage, lock: usize) -> bool {
    let plain = is_plain(page, lock) && !tape::is_on(page);
    if plain {
        page.notes.store(page.notes.load(Relaxed).wrapping_sub(1), Relaxed);
    }
    plain
}

/// Whether the last note is of `lock`, and without a time.
#[inline(always)]
pub(crate) fn is_plain(page: &ThreadPage, lock: usize) -> bool {
    let last = page.notes.load(Relaxed).wrapping_sub(1) & DEPTH;
    let is = |held: &Held| held.lock.load(Relaxed) == lock as u64 && held.since.load(Relaxed) & TIMED == 0;
    page.held.get(last as usize).is_some_and(is)
}

/// The moment `now`, in a note.
pub(crate) fn timed(now: u64) -> u64 {
    TIMED | now & TIME
}

/// Notes an acquisition; `since`: its [time](timed), and [`AWAITED`] or not.
pub(crate) fn note(page: &ThreadPage, caller: Caller, lock: usize, since: Option<u64>) {
    let counter = &page.acquired[caller.counter()];
    let count = counter.load(Relaxed);
    counter.store(count.wrapping_add(1), Relaxed);
    let notes = page.notes.load(Relaxed);
    let late = if count < EARLY { 0 } else { LATE };
    let since = match (since, is_sampled(page, count)) {
        (None, false) => notes,
        (None, true) => timed(Linux::now()) | SAMPLED | late,
        (Some(known), false) => known,
        (Some(known), true) => known | SAMPLED | late,
    };
    // A thread with more has left some for others to release: its notes begin anew.
    let depth = (notes & DEPTH) % HELD as u64;
    put(page, &page.held[depth as usize], notes & !DEPTH | depth, (caller, lock, since));
}

/// The holds of `lock`, noted as of the class `noted`, are of `is`. How many there are.
pub(crate) fn rename(page: &ThreadPage, lock: usize, (noted, is): (Class, Caller)) -> u64 {
    let holds = page.held[..page.depth()].iter().filter(|held| held.lock.load(Relaxed) == lock as u64);
    holds.fold(0, |count, held| {
        let known = Caller::from_raw(held.caller.load(Relaxed)).filter(|known| known.class() == noted);
        known.map_or(count, |known| {
            held.caller.store(if known.is_shared() { is.shared() } else { is }.raw(), Relaxed);
            count + 1
        })
    })
}

/// Writes the note that is the next after `notes`, and is `held`.
#[inline(always)]
fn put(page: &ThreadPage, held: &Held, notes: u64, (caller, lock, since): (Caller, usize, u64)) {
    held.caller.store(caller.raw(), Relaxed);
    held.lock.store(lock as u64, Release);
    held.since.store(since, Release);
    page.notes.store(notes.wrapping_add(MADE + 1), Release);
}

/// Whether the hold time is taken of a thread's acquisition of a class, before which it has made
/// `count`: of one in 64 on average, after [`EARLY`] in 256. The multiples of the golden ratio fall
/// into each part of the unit equally often, whatever steps `count` makes: a thread that takes its
/// locks in turns is seen with all of them. Each page begins elsewhere: many threads with few
/// acquisitions are seen with first ones and with later ones.
fn is_sampled(page: &ThreadPage, count: u64) -> bool {
    is_chosen(number(page, count), if count < EARLY { 64 } else { 256 })
}

#[inline(always)]
fn number(page: &ThreadPage, count: u64) -> u32 {
    (core::ptr::from_ref(page).addr() as u32).wrapping_add(count as u32)
}

#[inline(always)]
fn is_chosen(number: u32, of: u32) -> bool {
    const GOLDEN: u32 = 0x9e37_79b9;
    number.wrapping_mul(GOLDEN) <= u32::MAX / of
}

/// The thread with `page` is about to release `lock`. A thread that is woken by that may run before
/// it does: a hold whose time is known ends now.
pub(crate) fn ends(page: &ThreadPage, lock: usize) {
    let notes = page.held[..page.depth()].iter();
    let Some(held) = notes.rev().find(|held| held.lock.load(Relaxed) == lock as u64) else { return };
    let since = held.since.load(Relaxed);
    if since & TIMED != 0 {
        let now = Linux::now();
        page.ending.store(now, Relaxed);
        if since & AWAITED != 0 {
            held_so_far(lock).fetch_add(now.saturating_sub(since & TIME), Relaxed);
        }
    }
}

/// How long locks were held while others waited: nanoseconds, by a part of their address. A holder
/// adds its hold before it releases; a thread that was moved into the lock's queue compares two
/// looks, and has waited no longer than that ([`acquired_after`](crate::acquired_after)).
static HELD_NS: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// The word of `lock`, and of locks that share it.
pub(crate) fn held_so_far(lock: usize) -> &'static AtomicU64 {
    let mixed = (lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &HELD_NS[(mixed >> 40) as usize % HELD_NS.len()]
}

/// Takes note number `at` out; `last` is the last one.
pub(crate) fn forget(page: &ThreadPage, at: usize, last: usize) {
    let held = &page.held[at % HELD];
    let (since, caller) = (held.since.load(Relaxed), held.caller.load(Relaxed));
    if at != last {
        let moved = &page.held[last % HELD];
        held.caller.store(moved.caller.load(Relaxed), Relaxed);
        // An exchange: a waiter has written into it by now, or sees that it is not the note.
        let since = moved.since.swap(MOVED, Relaxed);
        // A waiter that finds the moved lock here must not take this for its note's word yet.
        held.since.store(MOVED, Relaxed);
        held.lock.store(moved.lock.load(Relaxed), Release);
        held.since.store(since, Release);
    }
    page.notes.store(page.notes.load(Relaxed) & !DEPTH | last as u64, Relaxed);
    if since & TIMED != 0 {
        end_of_hold(page, Caller::from_raw(caller), since);
    }
}

#[cold]
fn end_of_hold(page: &ThreadPage, caller: Option<Caller>, since: u64) {
    let end = match page.ending.swap(0, Relaxed) {
        0 => Linux::now(),
        known => known,
    };
    let Some(caller) = caller else { return };
    let ns = end.saturating_sub(since & TIME);
    if let Some(tally) = tally(caller.class()) {
        greatest(&tally.hold_max, ns);
        if since & SAMPLED != 0 {
            let weight = if since & LATE == 0 { 1 } else { 4 };
            tally.hold_ns.fetch_add(ns.saturating_mul(weight), Relaxed);
            tally.holds[bucket(ns)].fetch_add(weight, Relaxed);
        }
    }
    if since & AWAITED != 0
        && let Some(record) = callers::record(caller)
    {
        record.tally.holds.fetch_add(1, Relaxed);
        record.tally.hold_ns.fetch_add(ns, Relaxed);
        if greatest(&record.tally.hold_max, ns) && ns >= LONG {
            record.holder.store(page.thread.load(Relaxed), Relaxed);
            process::name_of_caller(&record.name);
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
    // A reader may have it several times. And of two notes, one may be of a hold that another
    // thread has ended.
    page.held[..page.depth()].iter().fold(false, |any, held| {
        let marked = begin(page, held, lock);
        if marked {
            // Its place is known from now on, should it never release the lock.
            Caller::from_raw(held.caller.load(Relaxed)).map(callers::record);
        }
        any | marked
    })
}

/// `false`: it is no hold of `lock`, or is over, or its note is elsewhere.
fn begin(page: &ThreadPage, held: &Held, lock: usize) -> bool {
    // Others that wait may be first, so often at once.
    (0..LOOKS).any(|_| {
        let since = held.since.load(Acquire);
        if since == MOVED || held.lock.load(Acquire) != lock as u64 {
            return false;
        }
        let time = if since & TIMED != 0 { since } else { timed(Linux::now()) };
        if since & (TIMED | AWAITED) == TIMED {
            page.late_since.store(Linux::now(), Relaxed);
            page.late_lock.store(lock as u64, Relaxed);
        }
        // Even of the same: the note may have been moved meanwhile.
        held.since.compare_exchange(since, time | AWAITED, Release, Relaxed).is_ok()
    })
}

/// Since when others wait for the lock with the note `held`, of the thread with `page`, which asks.
pub(crate) fn awaited_since(page: &ThreadPage, held: &Held) -> Option<u64> {
    let since = held.since.load(Acquire);
    // The time of the note may be that of an acquisition for which nobody waited at first. (What an
    // earlier hold of the lock has left is older than the note.)
    let is_late = page.late_lock.load(Relaxed) == held.lock.load(Relaxed);
    let late = if is_late { page.late_since.load(Relaxed) } else { 0 };
    (since & AWAITED != 0).then(|| late.max(since & TIME))
}

/// What a note with `since` says at the moment `now`; 0: no time is known. `None`: it has been
/// moved.
pub(crate) fn held_for(since: u64, now: u64) -> Option<u64> {
    let timed = since & TIMED != 0;
    (since != MOVED).then(|| if timed { now.saturating_sub(since & TIME) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::state;

    #[test]
    fn one_in_so_many_is_chosen_whatever_turns_a_thread_takes() {
        for (of, turns) in [64, 256].into_iter().flat_map(|of| (1..=32).map(move |turns| (of, turns))) {
            for turn in 0..turns {
                let chosen = (0..1_000 * of).filter(|count| is_chosen(count * turns + turn, of)).count();
                assert!((970..=1_030).contains(&chosen), "turn {turn} of {turns}: {chosen} by {of}");
            }
        }
        let at: Vec<u32> = (0..10_000).filter(|number| is_chosen(*number, 64)).collect();
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
        // A tape; a hold with a time.
        page.tape.store(state::BEGIN, Relaxed);
        assert!(!released_plainly(&page, HELD));
        page.tape.store(state::OFF, Relaxed);
        page.held[HELD - 1].since.store(timed(1), Relaxed);
        assert!(!released_plainly(&page, HELD));
        page.held[HELD - 1].since.store(1, Relaxed);
        assert!(released_plainly(&page, HELD));
        page.tape.store(state::BEGIN, Relaxed);
        assert!(!plainly(HELD));
        assert_eq!(page.depth(), HELD - 1);
    }

    #[test]
    fn a_note_that_moves_takes_along_what_a_waiter_wrote_and_is_not_found_where_it_was() {
        const LAST: usize = 2;
        let page = page();
        let caller = Caller::from(crate::Class::NONE);
        for lock in 0..=LAST {
            note(&page, caller, lock + 1, None);
        }
        assert!(mark_noted(&page, LAST + 1) && !mark_noted(&page, LAST + 2));
        let timed = page.held[LAST].since.load(Relaxed);
        assert_eq!(timed & (TIMED | AWAITED), TIMED | AWAITED);
        forget(&page, 0, LAST);
        assert_eq!((page.held[0].lock.load(Relaxed), page.held[0].since.load(Relaxed)), (LAST as u64 + 1, timed));
        // A waiter that has found the note before it was moved.
        assert!(!begin(&page, &page.held[LAST], LAST + 1));
        assert!(mark(&page, LAST + 1) && mark(&page, 2) && !mark(&page, 1));
    }
}
