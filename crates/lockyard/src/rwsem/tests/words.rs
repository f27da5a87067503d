//! The words themselves: where the bits are, what the fast paths do without a word to anybody, what
//! a release sees, and the end of the count.

use super::turns::{Made, queued, was_woken};
use crate::cancel::Until;
use crate::event::Event;
use crate::platform::{Ordering::SeqCst, Word};
use crate::rwsem::*;
use crate::wait::tests::clockwork::{Clockwork, alone_in_child, as_thread, at_poll, cues_left, events, should_yield};

const AT_ONCE: Until<'static, Clockwork> = Until::deadline(0);

/// The table in the module text.
#[test]
fn the_bits_are_where_the_tables_say() {
    assert_eq!((WRITER, HANDOFF, LISTENING, PENDING, BIAS), (0x1, 0x4, 0x8, 0x10, 0x100));
    assert_eq!((READFAIL, READERS), (0x8000_0000_0000_0000, 0xffff_ffff_ffff_ff00));
    assert_eq!((LOCKED, READ_BLOCK), (0xffff_ffff_ffff_ff01, 0x8000_0000_0000_0015));
    assert_eq!((ASKS, ASK, NOT_WRITER), (0xe0, 0x20, 0xffff_ffff_ffff_ff1e));
}

#[test]
fn uncontended_locks_and_unlocks_count_nothing() {
    let lock = Made::new();
    assert!(!lock.is_locked() && !lock.is_write_locked() && !lock.is_contended());
    events();
    lock.wait_lock.acquire(); // which nobody needs here
    for _ in 0..2 {
        lock.read_acquire();
        assert!(lock.is_locked() && !lock.is_write_locked());
        read_release(&lock);
        assert!(!lock.is_locked());
        lock.write_acquire();
        assert!(lock.is_locked() && lock.is_write_locked());
        downgrade(&lock);
        assert!(lock.is_locked() && !lock.is_write_locked());
        read_release(&lock);
        assert!(lock.try_read_acquire());
        read_release(&lock);
        assert!(lock.try_write_acquire());
        write_release(&lock);
    }
    // SAFETY: acquired above.
    unsafe { lock.wait_lock.release() };
    assert_eq!(events(), []);
    assert!(!lock.is_locked());
}

/// Whether a release wakes the first waiter, and what is left in the count. One that does not
/// leaves the queue alone.
#[track_caller]
fn released(before: u64, act: fn(&Made), after: u64, wakes: bool) {
    let lock = queued(before, "w");
    events();
    if !wakes {
        lock.wait_lock.acquire();
    }
    act(lock);
    assert_eq!(lock.count.load(SeqCst), after, "{before:#x}");
    assert_eq!(was_woken(2), wakes, "{before:#x}");
    let counted: &[_] = if wakes { &[(Event::RwsemWakeWriter, 1)] } else { &[] };
    assert_eq!(events(), counted, "{before:#x}");
}

fn read_release(lock: &Made) {
    // SAFETY: as one of the readers that the count says there are.
    unsafe { lock.read_release() };
}

fn read_release_detached(lock: &Made) {
    // SAFETY: as above.
    unsafe { lock.read_release_detached() };
}

fn write_release(lock: &Made) {
    // SAFETY: as the writer that the count says there is.
    unsafe { lock.write_release() };
}

fn write_release_detached(lock: &Made) {
    // SAFETY: as above.
    unsafe { lock.write_release_detached() };
}

fn downgrade(lock: &Made) {
    // SAFETY: as above.
    unsafe { lock.downgrade() };
}

#[test]
fn a_release_wakes_the_first_waiter_that_listens_and_no_other() {
    for release in [read_release, read_release_detached] {
        released(BIAS | LISTENING, release, 0, true);
        released(BIAS | LISTENING | HANDOFF | PENDING, release, HANDOFF | PENDING, true);
        released(BIAS | HANDOFF, release, HANDOFF, false);
        released(BIAS | PENDING, release, PENDING, false);
        released((2 * BIAS) | LISTENING, release, BIAS | LISTENING, false);
        released((2 * BIAS) | HANDOFF, release, BIAS | HANDOFF, false);
        // A reader that only tests, under a writer.
        released(WRITER | BIAS | LISTENING, release, WRITER | LISTENING, false);
    }
    for release in [write_release, write_release_detached] {
        released(WRITER | LISTENING, release, 0, true);
        released(WRITER | LISTENING | HANDOFF, release, HANDOFF, true);
        released(WRITER | HANDOFF, release, HANDOFF, false);
        released(WRITER | PENDING, release, PENDING, false);
        released(WRITER | BIAS | LISTENING, release, BIAS, true);
        released(WRITER | BIAS, release, BIAS, false);
    }
    released(WRITER | LISTENING, downgrade, BIAS, true);
    released(WRITER | HANDOFF, downgrade, BIAS | HANDOFF, false);
}

#[test]
fn readers_that_are_in_may_come_in_again_and_go_unasked() {
    // The count, whether a reader may come in once more, and whether one may leave without looking
    // after anybody.
    let rows = [
        (0, false, false),
        (WRITER, false, false),
        (WRITER | BIAS, false, false),
        (BIAS, true, true),
        (3 * BIAS, true, true),
        (BIAS | HANDOFF, true, false),
        (BIAS | LISTENING, true, false),
        (BIAS | PENDING, true, false),
        (LISTENING, false, false),
        (READFAIL - BIAS, true, true),
        (READFAIL, false, true),
        (READERS, false, true),
    ];
    for (count, again, unasked) in rows {
        let lock = queued(count, "");
        assert_eq!(lock.try_read_again(), again, "{count:#x}");
        assert_eq!(lock.count.load(SeqCst), if again { count + BIAS } else { count });
        let lock = queued(count, "");
        // SAFETY: as one of the readers, if there are any.
        assert_eq!(unsafe { lock.try_read_release_unasked() }, unasked, "{count:#x}");
        assert_eq!(lock.count.load(SeqCst), if unasked { count - BIAS } else { count });
    }
}

/// They tested in the parent while it forked.
#[test]
fn a_write_release_takes_readers_out_that_the_child_does_not_have() {
    for (alone, left) in [(false, 2 * BIAS), (true, 0)] {
        for asked in [0, LISTENING] {
            if alone {
                alone_in_child();
            }
            let lock = queued(WRITER | asked | (2 * BIAS), "");
            // SAFETY: as the writer.
            unsafe { lock.write_release() };
            // A reader that tests wakes the waiter that asked, when it has taken its test back.
            assert_eq!(lock.count.load(SeqCst), left, "{alone} {asked:#x}");
            assert_eq!(lock.try_write_acquire(), alone);
        }
    }
}

#[test]
fn a_child_forgets_every_request() {
    let lock = queued(WRITER | HANDOFF | LISTENING | ASK | PENDING, "w");
    // SAFETY: nobody but this thread knows it.
    unsafe { lock.forget_waiters() };
    assert_eq!(lock.count.load(SeqCst), WRITER);
    assert!(lock.queue.is_empty());
}

#[test]
fn a_reader_is_not_counted_past_the_end() {
    should_yield(true); // nobody spins
    for (more, kinds) in [(0, ""), (7 * BIAS, ""), (LISTENING, "w"), (LISTENING + BIAS, "w")] {
        let full = READFAIL + more;
        let lock = queued(full, kinds);
        assert!(lock.is_full() && lock.is_locked() && !lock.is_write_locked());
        assert!(!lock.try_read_acquire() && !lock.try_read_again() && !lock.try_write_acquire());
        assert!(lock.read_acquire_queued(AT_ONCE).is_err(), "{full:#x}");
        assert!(lock.read_acquire_until(AT_ONCE).is_err(), "{full:#x}");
        assert!(as_thread(0, || lock.read_acquire_until(Until::after(1_000))).is_err(), "{full:#x}");
        assert!(lock.write_acquire_until(AT_ONCE).is_err(), "{full:#x}");
        assert_eq!(lock.count.load(SeqCst), full, "{full:#x}");
        assert_eq!(lock.is_contended(), !kinds.is_empty());
    }
    // One below the end: one enters, whichever way it comes.
    let enters: [fn(&Made) -> bool; 4] = [
        |lock| lock.try_read_acquire(),
        |lock| lock.read_acquire_queued(AT_ONCE).is_ok(),
        |lock| lock.read_acquire_until(AT_ONCE).is_ok(),
        |lock| as_thread(0, || lock.read_acquire_until(AT_ONCE)).is_ok(),
    ];
    for enter in enters {
        let lock = queued(READFAIL - BIAS, "");
        assert!(!lock.is_full() && enter(lock) && lock.is_full() && !enter(lock));
        assert_eq!(lock.count.load(SeqCst), READFAIL);
    }
}

#[test]
fn a_reader_that_finds_the_lock_full_waits_until_one_has_left() {
    let lock = queued(READFAIL, "");
    at_poll(|| ());
    at_poll(move || {
        lock.count.fetch_sub(BIAS, SeqCst);
    });
    lock.read_acquire();
    assert_eq!(cues_left(), 0, "it waited");
    assert_eq!(lock.count.load(SeqCst), READFAIL, "in place of the one that left");
    assert!(lock.queue.is_empty());
}
