//! As many readers as can be counted: no policy lets one more in, or a writer beside them.

use super::queued::{queued, still_queued, was_granted};
use crate::cancel::Until;
use crate::history::rwsem::policy::*;
use crate::history::rwsem::*;
use crate::platform::{Ordering::SeqCst, Word};
use crate::wait::tests::clockwork::{Clockwork, as_thread, at_poll, cues_left, should_yield};

const AT_ONCE: Until<'static, Clockwork> = Until::deadline(0);

/// The value with which a lock is full.
fn end<Y: Policy>() -> u64 {
    match Y::COUNT {
        CountScheme::Biased => biased::FULL,
        CountScheme::Bits => READFAIL,
    }
}

/// A way for a reader to come.
type Enter<Y> = fn(&KernelRwSem<Clockwork, Y>) -> bool;

struct Refuses;

impl Visitor for Refuses {
    type Output = ();

    fn policy<Y: Policy>(self) {
        let (unit, waiters) = (Y::COUNT.unit(), Y::COUNT.waiters());
        should_yield(true); // nobody spins
        for (more, kinds) in [(0, ""), (7 * unit, ""), (waiters, "w"), (waiters.wrapping_add(unit), "w")] {
            let full = end::<Y>().wrapping_add(more);
            let lock = queued::<Y>(full, kinds);
            assert!(lock.is_full() && lock.is_locked() && !lock.is_write_locked(), "{}", Y::NAME);
            assert!(!lock.try_read_acquire() && !lock.try_read_again() && !lock.try_write_acquire(), "{}", Y::NAME);
            assert!(lock.read_acquire_until(AT_ONCE).is_err(), "{}: {full:#x}", Y::NAME);
            assert!(as_thread(0, || lock.read_acquire_until(Until::after(1_000))).is_err(), "{}: {full:#x}", Y::NAME);
            assert!(lock.write_acquire_until(AT_ONCE).is_err(), "{}: {full:#x}", Y::NAME);
            assert_eq!(lock.count.load(SeqCst), full, "{}: {full:#x}", Y::NAME);
            assert_eq!(still_queued(lock).len(), kinds.len(), "{}", Y::NAME);
            assert!(!was_granted(2));
        }
        // One below the end: one enters, whichever way it comes.
        let enters: [Enter<Y>; 3] = [
            |lock| lock.try_read_acquire(),
            |lock| lock.read_acquire_until(AT_ONCE).is_ok(),
            |lock| as_thread(0, || lock.read_acquire_until(AT_ONCE)).is_ok(),
        ];
        for enter in enters {
            let lock = queued::<Y>(end::<Y>() - unit, "");
            assert!(!lock.is_full() && enter(lock) && lock.is_full() && !enter(lock), "{}", Y::NAME);
            assert_eq!(lock.count.load(SeqCst), end::<Y>(), "{}", Y::NAME);
        }
    }
}

#[test]
fn no_policy_counts_a_reader_past_the_end() {
    for name in NAMES {
        visit(name, Refuses).expect("it is listed");
    }
}

struct Waits;

impl Visitor for Waits {
    type Output = ();

    fn policy<Y: Policy>(self) {
        let lock = queued::<Y>(end::<Y>(), "");
        at_poll(|| ());
        at_poll(move || {
            lock.count.fetch_sub(Y::COUNT.unit(), SeqCst);
        });
        lock.read_acquire();
        assert_eq!(cues_left(), 0, "{}: it waited", Y::NAME);
        assert_eq!(lock.count.load(SeqCst), end::<Y>(), "{}: in place of the one that left", Y::NAME);
        assert!(lock.queue.is_empty());
    }
}

#[test]
fn a_reader_that_finds_the_lock_full_waits_until_one_has_left() {
    for name in NAMES {
        visit(name, Waits).expect("it is listed");
    }
}

/// Forgotten read guards carried the sum of 2019 into the half that tells of writers: the lock
/// looked free beside them.
#[test]
fn two_to_the_32_forgotten_readers_do_not_make_a_biased_lock_look_free() {
    let lock = queued::<XaddBaseline>(0, "");
    lock.count.store(biased::FULL - 1, SeqCst);
    lock.read_acquire();
    for _ in 0..3 {
        assert!(lock.read_acquire_until(AT_ONCE).is_err() && !lock.try_write_acquire());
        assert!(lock.write_acquire_until(AT_ONCE).is_err());
    }
    assert_eq!(lock.count.load(SeqCst), biased::FULL);
    // SAFETY: as one of them.
    unsafe { lock.read_release() };
    assert!(lock.try_read_acquire() && !lock.try_read_acquire());
}
