//! Taking turns: what lets whom in, who registers when, and what is left for the next.

use core::cell::Cell;
use std::boxed::Box;
use std::rc::Rc;
use std::vec::Vec;

use crate::cancel::{GaveUp, Until};
use crate::event::Event::{self, *};
use crate::platform::linux::Linux;
use crate::platform::{Ordering::SeqCst, Platform, Word};
use crate::qrwlock::{BARRED, CLAIMED, FULL, LOCKED, READER, RawQRwLock, WAITING, WRITERS};
use crate::wait::heads::SETTLE_NS;
use crate::wait::tests::clockwork::*;
use crate::wait::turn::{PATIENT_AFTER, PATIENT_SHIFT, RESERVED_NS, TURN_NS, TURNS_NS};

mod claims;

// The layout that no test can change.
const _: () = {
    assert!(LOCKED == 0xff && WAITING == 0x100 && READER == 0x200 && FULL == 0x8000_0000);
    assert!(CLAIMED == 1 && WRITERS == 0x1ff && BARRED == 0x8000_01ff);
};

type Made = RawQRwLock<Clockwork>;

const AT_ONCE: Until<'static, Clockwork> = Until::deadline(0);

/// A lock with this word. With a `rival`, thread 2 waits as the first, to write.
fn made(word: u32, rival: bool) -> &'static Made {
    let lock: &'static Made = Box::leak(Box::default());
    lock.word.store(word, SeqCst);
    if rival {
        was_woken(2);
        let waiter = &record(2).waiter;
        waiter.kind.store(1, SeqCst);
        waiter.note.store(0, SeqCst);
        waiter.reserved.store(0, SeqCst);
        waiter.due.store(Clockwork::now() + TURN_NS, SeqCst);
        lock.queue.push(record(2));
    }
    should_yield(true); // nobody spins
    events();
    lock
}

fn word(lock: &Made) -> u32 {
    lock.word.load(SeqCst)
}

/// Uses the wake-up up.
fn was_woken(who: u32) -> bool {
    let woken = record(who).is_notified();
    if woken {
        record(who).park(Some(0));
    }
    woken
}

fn queued(lock: &Made) -> Vec<u32> {
    core::iter::successors(lock.queue.first(), |thread| lock.queue.after(thread))
        .map(|thread| thread.id().raw())
        .collect()
}

fn registered(lock: &Made, who: u32) -> bool {
    Clockwork::commons().heads.contains(Clockwork::key(lock), record(who).id())
}

fn comes(lock: &Made, writes: bool, until: Until<'_, Clockwork>) -> Result<(), GaveUp> {
    let result = if writes { lock.write_acquire_until(until) } else { lock.read_acquire_until(until) };
    assert_eq!(cues_left(), 0);
    assert!(!queued(lock).contains(&1) && !registered(lock, 1), "nothing is left of it");
    result
}

fn counted(event: Event) -> i64 {
    events().iter().find(|(seen, _)| *seen == event).map_or(0, |(_, number)| *number)
}

#[test]
fn a_newcomer_passes_those_who_wait_but_for_one_for_whom_the_lock_is_kept() {
    // The word, whether a writer gets in, whether a reader does.
    let rows = [
        (0, true, true),
        (WAITING, false, false),
        (LOCKED, false, false),
        (LOCKED | WAITING, false, false),
        (READER, false, true),
        (READER | WAITING, false, false),
        (LOCKED + READER, false, false),
        (CLAIMED, false, false),
        (CLAIMED + READER, false, false),
        (CLAIMED | WAITING, false, false),
        (FULL - READER, false, true),
        (FULL, false, false),
        (FULL | WAITING, false, false),
    ];
    for (before, write, read) in rows {
        for (writes, gets, hold) in [(true, write, LOCKED), (false, read, READER)] {
            let after = if gets { before + hold } else { before };
            let lock = made(before, true);
            let tried = if writes { lock.try_write_acquire() } else { lock.try_read_acquire() };
            assert_eq!((tried, word(lock)), (gets, after), "{before:#x} {writes}");
            // So for one that waits, and for one that may not queue.
            for who in [1, 0] {
                let lock = made(before, true);
                let result =
                    as_thread(who, || comes(lock, writes, if who == 0 { Until::after(1_000) } else { AT_ONCE }));
                assert_eq!((result.is_ok(), word(lock)), (gets, after), "{before:#x} {writes} {who}");
                assert_eq!(queued(lock), [2]);
            }
        }
    }
}

#[test]
fn the_first_waiter_gets_in_whatever_is_asked_and_leaves_no_request() {
    for (freed, writes, left) in [
        (0, true, LOCKED),
        (WAITING, true, LOCKED),
        (0, false, READER),
        (WAITING, false, READER),
        (READER | WAITING, false, 2 * READER),
    ] {
        let lock = made(LOCKED, false);
        at_sleep(move || lock.word.store(freed, SeqCst));
        assert_eq!(comes(lock, writes, Until::FOREVER), Ok(()));
        assert_eq!((word(lock), counted(QrwLock)), (left, 1), "{freed:#x} {writes}");
    }
}

#[test]
fn the_first_waiter_registers_and_when_its_turn_is_over_the_lock_is_kept_for_it() {
    for (held, writes) in [(LOCKED, true), (READER, true), (LOCKED, false)] {
        let lock = made(held, false);
        let start = Clockwork::now();
        at_sleep(move || {
            assert!(word(lock) == held && registered(lock, 1), "{writes}");
            advance(TURN_NS / 2);
        });
        at_sleep(move || {
            assert_eq!(word(lock), held, "its turn is not over");
            advance(start + TURN_NS - Clockwork::now());
        });
        at_sleep(move || {
            assert_eq!(word(lock), held | WAITING, "{writes}");
            advance(TURN_NS);
        });
        let until = Until::deadline(start + TURN_NS + TURN_NS / 2);
        assert_eq!(comes(lock, writes, until), Err(GaveUp::TimedOut));
        assert_eq!((word(lock), counted(QrwHandoff)), (held, 1), "the last to go takes the request along");
    }
}

/// It does not touch the lock for that: it finds the waiter by the address.
#[test]
fn a_release_wakes_the_first_waiter_once() {
    type Release = fn(&Made);
    let releases: [(u32, Release); 3] = [
        // SAFETY: the lock is held that way.
        (LOCKED, |lock| unsafe { lock.write_release() }),
        // SAFETY: as above.
        (LOCKED, |lock| unsafe { lock.downgrade() }),
        // SAFETY: as above.
        (READER, |lock| unsafe { lock.read_release() }),
    ];
    for (held, release) in releases {
        let lock = made(held, false);
        at_sleep(move || {
            release(lock);
            assert!(record(1).is_notified() && !registered(lock, 1));
            // Another thread is faster. The waiter registers no more: one more wake-up would be in
            // vain.
            lock.word.store(LOCKED, SeqCst);
        });
        at_sleep(move || {
            assert!(!registered(lock, 1));
            lock.word.store(0, SeqCst);
        });
        assert_eq!(comes(lock, true, Until::FOREVER), Ok(()));
    }
}

/// It is woken in vain by nobody: it would not register again, and sleep beside a free lock.
#[test]
fn a_reader_that_comes_beside_a_writer_leaves_the_wake_up_to_its_release() {
    let lock = made(LOCKED, false);
    at_sleep(move || {
        assert!(as_thread(0, || lock.read_acquire_until(AT_ONCE)).is_err());
        assert!(!record(1).is_notified() && registered(lock, 1));
        // SAFETY: held for writing.
        unsafe { lock.write_release() };
        assert!(record(1).is_notified());
    });
    assert_eq!(comes(lock, true, Until::FOREVER), Ok(()));
    // The last reader, or a writer, has gone while an arriving reader was counted.
    let lock = made(LOCKED, false);
    at_sleep(move || {
        lock.word.store(READER, SeqCst);
        lock.take_back();
        assert!(record(1).is_notified());
    });
    assert_eq!(comes(lock, true, Until::FOREVER), Ok(()));
}

/// The first waiter naps, registered; one of a higher rank comes before it, and the lock is free
/// and kept for that one.
#[test]
fn a_waiter_that_is_overtaken_in_its_nap_does_not_pass() {
    fences(false);
    let lock = made(LOCKED, false);
    at_sleep(move || {
        lock.queue.remove(record(1));
        for id in [2, 1] {
            lock.queue.push(record(id));
        }
        lock.word.store(WAITING, SeqCst);
        record(1).unpark();
    });
    at_sleep(move || {
        assert_eq!((word(lock), queued(lock)), (WAITING, Vec::from([2, 1])));
        lock.queue.remove(record(2));
    });
    assert_eq!(comes(lock, true, Until::FOREVER), Ok(()));
}

/// A patient waiter is woken while it naps, registered, for want of a heavy fence: by a release,
/// with a reader inside by then that waiters do not keep out, or to look for another reason. It
/// does not sleep on.
#[test]
fn a_wake_up_before_the_sleep_of_a_waiter_ends_that_sleep() {
    fences(false);
    for released in [true, false] {
        let lock = made(LOCKED, false);
        for _ in 0..=PATIENT_AFTER + PATIENT_SHIFT {
            at_sleep(|| advance(SETTLE_NS));
            at_sleep(|| advance(TURNS_NS));
        }
        let begin = Rc::new(Cell::new(0));
        let woken = begin.clone();
        at_sleep(move || {
            assert!(word(lock) == LOCKED | WAITING && registered(lock, 1));
            if released {
                // SAFETY: held for writing.
                unsafe { lock.write_release() };
                lock.read_acquire_urgent();
                // SAFETY: acquired above.
                at_poll(move || unsafe { lock.read_release() });
            } else {
                record(1).unpark();
                at_poll(move || lock.word.store(WAITING, SeqCst));
            }
            assert!(record(1).is_notified() && registered(lock, 1) != released);
            woken.set(Clockwork::now());
        });
        assert_eq!(comes(lock, true, Until::FOREVER), Ok(()));
        let late = Clockwork::now() - begin.get();
        assert!(late <= TURN_NS, "{late} ns");
    }
}

#[test]
fn an_owner_that_was_not_passed_looks_after_the_next_waiter() {
    for writes in [true, false] {
        let lock = made(LOCKED, false);
        at_sleep(move || {
            lock.queue.push(record(2));
            was_woken(2);
            lock.word.store(0, SeqCst);
        });
        assert_eq!(comes(lock, writes, Until::FOREVER), Ok(()));
        // A reader wakes it at once: it may be a reader as well. A writer's release does.
        assert_eq!((registered(lock, 2), was_woken(2)), (writes, !writes));
        if writes {
            // SAFETY: acquired above.
            unsafe { lock.write_release() }
        } else {
            // SAFETY: acquired above.
            unsafe { lock.read_release() }
        }
        assert_eq!((registered(lock, 2), was_woken(2)), (false, writes));
    }
}

/// The first waiter is stopped, and the lock is kept for it.
#[test]
fn a_reservation_ends() {
    for writes in [true, false] {
        let lock = made(WAITING, true);
        let tries = || if writes { lock.try_write_acquire() } else { lock.try_read_acquire() };
        assert!(!tries() && was_woken(2), "it is told once more");
        advance(RESERVED_NS - 1);
        assert!(!tries());
        advance(1);
        assert!(tries());
        assert_eq!((word(lock), counted(WaitLapsed)), (if writes { LOCKED } else { READER }, 1));
    }
    // Of those who wait in the parent of a fork none is here.
    let lock = made(WAITING, false);
    assert!(lock.try_write_acquire() && word(lock) == LOCKED);
}

/// It may run on top of another reader, and must neither queue nor be counted while it waits: a
/// child would have the count for ever.
#[test]
fn an_urgent_reader_waits_for_nobody_but_a_writer_inside_and_is_not_counted_meanwhile() {
    for before in [0, READER, WAITING, READER | WAITING] {
        let lock = made(before, true);
        lock.read_acquire_urgent();
        assert_eq!((word(lock), counted(QrwReadSlowpath)), (before + READER, 0));
    }
    let lock = made(LOCKED | WAITING, true);
    at_poll(move || {
        assert_eq!((word(lock), queued(lock)), (LOCKED | WAITING, Vec::from([2])));
        lock.word.store(WAITING, SeqCst);
    });
    lock.read_acquire_urgent();
    assert_eq!((word(lock), cues_left()), (WAITING | READER, 0));
    // There is no room: it can be refused, or waits.
    lock.word.store(FULL, SeqCst);
    assert!(!lock.read_acquire_urgent_unless_full() && word(lock) == FULL);
    at_poll(move || lock.word.store(FULL - READER, SeqCst));
    lock.read_acquire_urgent();
    assert_eq!((word(lock), cues_left()), (FULL, 0));
}

#[test]
fn a_reader_goes_in_beside_others_when_it_may() {
    let lock = made(READER | WAITING, true);
    assert_eq!(lock.read_acquire_beside(AT_ONCE, || false), Err(GaveUp::TimedOut));
    assert_eq!(lock.read_acquire_beside(AT_ONCE, || true), Ok(()));
    assert_eq!(word(lock), (2 * READER) | WAITING, "the writer's request stays");
    let lock = made(LOCKED | WAITING, true);
    assert_eq!(lock.read_acquire_beside(AT_ONCE, || true), Err(GaveUp::TimedOut));
}

#[test]
fn a_reader_that_finds_the_lock_full_waits_until_others_have_left_or_is_refused() {
    let lock = made(FULL, false);
    assert!(lock.read_acquire_queued(AT_ONCE).is_err() && word(lock) == FULL);
    at_sleep(move || lock.word.store(FULL - READER, SeqCst));
    lock.read_acquire();
    assert_eq!((word(lock), cues_left()), (FULL, 0), "one more fits");
    let lock = made(LOCKED, false);
    at_sleep(move || lock.word.store(0, SeqCst));
    assert_eq!(lock.read_acquire_queued(Until::FOREVER), Ok(()), "a writer only makes it wait");
}

/// A reader that was taking itself out in the parent is counted in the word that the child gets.
#[test]
fn a_child_keeps_its_write_lock_and_no_waiter() {
    let cases = [
        (LOCKED, LOCKED),
        (LOCKED + 3 * READER, LOCKED),
        (LOCKED | WAITING, LOCKED),
        ((LOCKED | WAITING) + READER, LOCKED),
        (2 * READER + WAITING, 2 * READER),
        (2 * READER, 2 * READER),
        (CLAIMED + 2 * READER, 2 * READER),
        (CLAIMED | WAITING, 0),
        (WAITING, 0),
    ];
    for (parent, child) in cases {
        let lock = RawQRwLock::<Linux>::new();
        lock.wait_lock.acquire();
        lock.word.store(parent, SeqCst);
        // SAFETY: nobody else knows the lock.
        unsafe { lock.forget_waiters() };
        assert_eq!(lock.word.load(SeqCst), child, "{parent:#x}");
        assert!(!lock.is_contended() && !lock.wait_lock.is_locked());
        if child == LOCKED {
            // SAFETY: held for writing.
            unsafe { lock.write_release() };
            assert!(lock.try_write_acquire());
        }
    }
}

#[test]
fn a_fair_release_keeps_the_lock_for_the_first_waiter() {
    for held in [LOCKED, READER] {
        let lock = made(held, true);
        match held {
            // SAFETY: the word says that it is held: by us.
            LOCKED => unsafe { lock.write_release_fair() },
            // SAFETY: likewise.
            _ => unsafe { lock.read_release_fair() },
        }
        assert_eq!((word(lock), was_woken(2)), (WAITING, true), "{held:#x}");
        assert!(!lock.try_read_acquire() && !lock.try_write_acquire(), "{held:#x}");
    }
    // Another reads; nobody waits.
    for (held, rival, left) in [(2 * READER, true, READER), (READER, false, 0)] {
        let lock = made(held, rival);
        // SAFETY: as above.
        unsafe { lock.read_release_fair() };
        assert_eq!(word(lock), left);
        assert!(!rival || !was_woken(2));
    }
}

/// A reader of the parent was counted beside the writer that forked.
#[test]
fn a_writer_alone_in_a_child_leaves_no_reader_that_was_arriving() {
    // One after the other: `alone_in_child` stays.
    for (alone, released, downgraded) in [(false, 2 * READER, 3 * READER), (true, 0, READER)] {
        if alone {
            alone_in_child();
        }
        let lock = made(LOCKED + 2 * READER, false);
        // SAFETY: the word says that a writer is inside: we.
        unsafe { lock.write_release() };
        assert_eq!((word(lock), lock.try_write_acquire()), (released, alone));
        let lock = made(LOCKED | (WAITING + 2 * READER), false);
        // SAFETY: likewise.
        unsafe { lock.downgrade() };
        assert_eq!(word(lock), downgraded | WAITING);
    }
}

/// Forgotten read guards must not make the count of readers begin anew: a writer would come in
/// beside the guard that is left.
#[test]
#[allow(clippy::disallowed_methods)] // the tests' threads are the machine's
fn forgotten_readers_do_not_let_a_writer_in() {
    let lock = RawQRwLock::<Linux>::new();
    let readers = FULL / READER;
    for _ in 0..readers {
        lock.read_acquire();
    }
    assert!(!lock.try_read_acquire() && !lock.try_write_acquire());
    assert_eq!(lock.word.load(SeqCst), FULL, "a failed attempt leaves nothing");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            lock.read_acquire();
            // SAFETY: acquired above.
            unsafe { lock.read_release() };
        });
        while !lock.is_contended() {
            Linux::nap(0);
        }
        for _ in 0..readers {
            // SAFETY: acquired above.
            unsafe { lock.read_release() };
        }
        waiter.join().unwrap();
    });
    assert_eq!(lock.word.load(SeqCst), 0);
}
