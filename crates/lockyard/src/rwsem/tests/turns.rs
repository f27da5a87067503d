//! Taking turns, turn by turn: which bits let whom in, who asks for what when, and what is left for
//! the next.

use std::boxed::Box;
use std::vec::Vec;

use crate::cancel::{GaveUp, Until};
use crate::event::Event::{self, *};
use crate::platform::{Ordering::SeqCst, Platform, Word};
use crate::rwsem::{ASKS, BIAS, HANDOFF, LISTENING, LOCKED, PENDING, READFAIL, RawRwSem, WRITER};
use crate::wait::tests::clockwork::*;
use crate::wait::turn::{GRACE_NS, TURN_NS};

pub(super) type Made = RawRwSem<Clockwork>;

const AT_ONCE: Until<'static, Clockwork> = Until::deadline(0);

/// The count, without how often it was asked for.
fn count(lock: &Made) -> u64 {
    lock.count.load(SeqCst) & !ASKS
}

/// A lock with this count and queue: `r` a reader, `w` a writer, from thread 2 on.
pub(super) fn queued(count: u64, kinds: &str) -> &'static Made {
    let lock = Box::leak(Box::new(Made::new()));
    lock.count.store(count, SeqCst);
    for (kind, who) in kinds.chars().zip(2..) {
        was_woken(who);
        let waiter = &record(who).waiter;
        waiter.reserved.store(0, SeqCst);
        waiter.granted.store(0, SeqCst);
        waiter.kind.store(u32::from(kind == 'w'), SeqCst);
        waiter.note.store(0, SeqCst);
        waiter.due.store(Clockwork::now() + 4_000_000, SeqCst);
        lock.queue.push(record(who));
    }
    lock
}

/// Uses the wake-up up.
pub(super) fn was_woken(who: u32) -> bool {
    let woken = record(who).is_notified();
    if woken {
        record(who).park(Some(0));
    }
    woken
}

fn still_queued(lock: &Made) -> Vec<u32> {
    core::iter::successors(lock.queue.first(), |thread| lock.queue.after(thread))
        .map(|thread| thread.id().raw())
        .collect()
}

/// A lock with this count, for which thread 2 waits as the first if it has `rival`.
fn made(count: u64, rival: bool) -> &'static Made {
    let lock = queued(count, if rival { "w" } else { "" });
    lock.pressed_at.store(Made::press_time(), SeqCst);
    should_yield(true); // nobody spins
    events();
    lock
}

fn comes(lock: &Made, writes: bool, until: Until<'_, Clockwork>) -> Result<(), GaveUp> {
    let result = if writes { lock.write_acquire_until(until) } else { lock.read_acquire_until(until) };
    assert_eq!(cues_left(), 0);
    assert!(!still_queued(lock).contains(&1));
    result
}

fn counted(event: Event) -> i64 {
    events().iter().find(|(seen, _)| *seen == event).map_or(0, |(_, number)| *number)
}

#[test]
fn a_newcomer_passes_those_who_wait_and_nobody_who_is_promised_the_lock() {
    // The count, whether a writer gets in, whether a reader does.
    let rows = [
        (0, true, true),
        (LISTENING, true, true),
        (PENDING, true, false),
        (HANDOFF, false, false),
        (HANDOFF | PENDING, false, false),
        (WRITER, false, false),
        (WRITER | PENDING, false, false),
        (BIAS, false, true),
        (BIAS | LISTENING, false, true),
        (BIAS | PENDING, false, false),
        (BIAS | HANDOFF, false, false),
        (READFAIL, false, false),
    ];
    for (before, write, read) in rows {
        for (writes, gets, hold) in [(true, write, WRITER), (false, read, BIAS)] {
            let lock = made(before, true);
            assert_eq!(comes(lock, writes, AT_ONCE).is_ok(), gets, "{before:#x} {writes}");
            assert_eq!(count(lock), if gets { before + hold } else { before }, "{before:#x} {writes}");
            assert_eq!(still_queued(lock), [2]);
            assert!(!was_woken(2), "{before:#x} {writes}");
            // So for one that may not queue.
            let lock = made(before, true);
            let result = as_thread(0, || comes(lock, writes, Until::after(1_000)));
            assert_eq!(result.is_ok(), gets, "{before:#x} {writes}");
            assert_eq!(count(lock), if gets { before + hold } else { before }, "{before:#x} {writes}");
        }
    }
}

#[test]
fn the_first_waiter_gets_in_whatever_is_promised_and_leaves_no_request() {
    for (freed, writes, left) in [
        (0, true, WRITER),
        (HANDOFF | LISTENING, true, WRITER),
        (HANDOFF | PENDING, true, WRITER | PENDING),
        (LISTENING, false, BIAS),
        (HANDOFF | LISTENING, false, BIAS),
        (PENDING | BIAS | HANDOFF, false, PENDING | (2 * BIAS)),
    ] {
        let lock = made(WRITER, false);
        at_sleep(move || lock.count.store(freed, SeqCst));
        assert_eq!(comes(lock, writes, Until::FOREVER), Ok(()));
        assert_eq!(count(lock), left, "{freed:#x} {writes}");
        assert_eq!(counted(if writes { RwsemWlock } else { RwsemRlock }), 1);
    }
}

#[test]
fn the_first_waiter_listens_and_when_its_turn_is_over_asks_for_the_lock() {
    for (held, writes) in [(WRITER, true), (BIAS, true), (WRITER, false), (WRITER | PENDING, false)] {
        let lock = made(held, false);
        let start = Clockwork::now();
        at_sleep(move || {
            assert_eq!(count(lock), held | LISTENING, "{writes}");
            advance(TURN_NS / 2);
        });
        at_sleep(move || {
            assert_eq!(count(lock), held | LISTENING, "its turn is not over");
            advance(start + TURN_NS - Clockwork::now());
        });
        at_sleep(move || {
            assert_eq!(count(lock), held | LISTENING | HANDOFF, "{writes}");
            advance(TURN_NS);
        });
        let until = Until::deadline(start + TURN_NS + TURN_NS / 2);
        assert_eq!(comes(lock, writes, until), Err(GaveUp::TimedOut));
        assert_eq!(count(lock), held, "the last to go takes the requests along");
        let asked = if writes { RwsemWlockHandoff } else { RwsemRlockHandoff };
        let requests = [RwsemWlockHandoff, RwsemRlockHandoff];
        let seen: Vec<_> = events().into_iter().filter(|(event, _)| requests.contains(event)).collect();
        assert_eq!(seen, [(asked, 1)]);
    }
}

/// A reader that comes and goes again stands in for a holder: the first waiter must be woken if the
/// last release took it for one.
#[test]
fn a_reader_that_has_to_wait_passes_on_the_wake_up_that_it_swallowed() {
    for (before, wakes) in [
        (HANDOFF | LISTENING, true),
        (PENDING | LISTENING, true),
        (WRITER | LISTENING, false),
        (BIAS | HANDOFF | LISTENING, false),
        (HANDOFF, false),
    ] {
        let lock = made(before, true);
        assert_eq!(comes(lock, false, AT_ONCE), Err(GaveUp::TimedOut));
        assert_eq!(count(lock), if wakes { before & !LISTENING } else { before }, "{before:#x}");
        assert_eq!((was_woken(2), counted(RwsemWakeWriter)), (wakes, i64::from(wakes)), "{before:#x}");
    }
}

/// The writer that pressed has relented in between: the bias alone kept the last release from
/// waking anybody.
#[test]
fn a_reader_whose_reason_to_wait_has_gone_passes_the_wake_up_on_as_well() {
    let lock = made(BIAS | LISTENING, true);
    assert_eq!(lock.read_slow(AT_ONCE), Ok(()));
    assert_eq!((count(lock), was_woken(2)), (BIAS, true));
}

#[test]
fn a_release_that_comes_second_wakes_nobody() {
    let lock = made(HANDOFF, true);
    lock.released();
    assert_eq!((count(lock), was_woken(2), events()), (HANDOFF, false, std::vec![]));
    lock.count.store(LISTENING | HANDOFF, SeqCst);
    lock.released();
    assert_eq!((count(lock), was_woken(2), events()), (HANDOFF, true, std::vec![(RwsemWakeWriter, 1)]));
    // The queue is empty by now.
    lock.queue.remove(record(2));
    lock.count.store(LISTENING, SeqCst);
    lock.released();
    assert_eq!((count(lock), was_woken(2), events()), (0, false, std::vec![]));
}

#[test]
fn a_waiter_that_was_not_passed_listens_for_the_next_and_a_reader_wakes_it() {
    // What it was promised is nobody's any more.
    let rows = [(true, WRITER | LISTENING, false), (false, BIAS, true)];
    for ((writes, left, wakes), freed) in rows.iter().flat_map(|row| [(*row, 0), (*row, HANDOFF)]) {
        let lock = made(WRITER, false);
        at_sleep(move || {
            was_woken(3);
            record(3).waiter.due.store(Clockwork::now(), SeqCst);
            lock.queue.push(record(3));
            lock.count.store(freed, SeqCst);
        });
        assert_eq!(comes(lock, writes, Until::FOREVER), Ok(()));
        assert_eq!((count(lock), still_queued(lock)), (left, std::vec![3]), "{writes}");
        assert_eq!((was_woken(3), counted(RwsemWakeWriter)), (wakes, i64::from(wakes)), "{writes}");
    }
}

#[test]
fn who_queues_behind_a_first_that_does_not_come_asks_in_its_name() {
    for late in [false, true] {
        let lock = made(WRITER, true);
        record(2).waiter.note.store(1, SeqCst); // it was told that the lock is fought over
        record(2).waiter.due.store(Clockwork::now() - GRACE_NS - u64::from(late), SeqCst);
        assert_eq!(comes(lock, true, AT_ONCE), Err(GaveUp::TimedOut));
        assert_eq!(count(lock), if late { WRITER | HANDOFF } else { WRITER });
        assert_eq!(was_woken(2), late);
    }
}

/// Thread 1 comes as a newcomer to a lock that stays as it is, and waits until it has slept once.
/// How long it spun.
fn spins(lock: &'static Made, writes: bool) -> u64 {
    should_yield(false);
    lock.pressed_at.store(Made::press_time(), SeqCst);
    let (start, before) = (Clockwork::now(), count(lock));
    let (send, receive) = std::sync::mpsc::channel();
    at_sleep(move || {
        send.send(Clockwork::now() - start).unwrap();
        advance(TURN_NS);
    });
    assert_eq!(comes(lock, writes, Until::after(TURN_NS)), Err(GaveUp::TimedOut));
    assert_eq!(count(lock), before);
    assert_eq!(counted(RwsemOptFail), 1);
    receive.recv().unwrap()
}

#[test]
fn nobody_spins_for_a_lock_that_is_kept_for_another() {
    for writes in [true, false] {
        let spun = spins(made(WRITER, true), writes);
        assert_eq!(spins(made(WRITER | LISTENING, true), writes), spun);
        assert!(spun > 2_000, "{spun}");
        for kept in [HANDOFF, WRITER | HANDOFF, BIAS | HANDOFF] {
            assert_eq!(spins(made(kept, true), writes), 0, "{kept:#x} {writes}");
        }
    }
    assert!(spins(made(PENDING, true), false) > 2_000, "that will not last");
    // The waiter that has asked for it does: it takes the lock that becomes free meanwhile without
    // another sleep.
    for writes in [true, false] {
        let lock = made(WRITER, false);
        at_sleep(|| advance(TURN_NS));
        at_sleep(move || {
            assert_eq!(count(lock), WRITER | LISTENING | HANDOFF);
            at_poll(|| {});
            at_poll(move || lock.count.store(HANDOFF | LISTENING, SeqCst));
        });
        assert_eq!(comes(lock, writes, Until::FOREVER), Ok(()));
        assert_eq!(count(lock) & LOCKED, if writes { WRITER } else { BIAS });
    }
}

/// Whether the spinner presses in the middle of each of its spins, one for each count.
fn pressed(counts: &[u64]) -> Vec<bool> {
    let lock = made(0, true);
    let look = |held: &u64| {
        lock.count.store(*held, SeqCst);
        let (send, receive) = std::sync::mpsc::channel();
        (0..25).for_each(|_| at_poll(|| advance(LOOK_NS)));
        at_poll(move || send.send(count(lock) & PENDING != 0).unwrap());
        spins(lock, true);
        receive.recv().unwrap()
    };
    counts.iter().map(look).collect()
}

#[test]
fn a_writer_presses_where_it_meets_hardly_anything_but_readers() {
    const NO: [bool; 7] = [false; 7];
    let readers = pressed(&[BIAS; 10]);
    assert_eq!((&readers[..7], &readers[7..]), (&NO[..], &[true; 3][..]));
    assert_eq!(pressed(&[WRITER; 10]), [false; 10]);
    // A writer among them counts for four readers.
    let mixed = pressed(&[BIAS, BIAS, BIAS, BIAS, BIAS, BIAS, BIAS, BIAS, WRITER, BIAS, BIAS, BIAS, BIAS]);
    assert_eq!((&mixed[..7], &mixed[7..]), (&NO[..], &[true, false, false, false, false, true][..]));
    // Readers do not, whatever keeps them out.
    let lock = made(PENDING, true);
    (0..12).for_each(|_| assert!(spins(lock, false) > 2_000));
}
