//! The slow paths turn by turn: who goes in past whom, who asks for handoff and when, what is left
//! by those who win and those who give up.

mod readers;

use std::vec::Vec;

use super::queued::{queued, still_queued, was_granted, was_woken};
use crate::cancel::{GaveUp, Until};
use crate::event::Event::{self, *};
use crate::history::rwsem::grant::{HANDOFF_SET, WRITES};
use crate::history::rwsem::owner::{RD_NONSPINNABLE, READER_OWNED};
use crate::history::rwsem::policy::*;
use crate::history::rwsem::{BIAS, HANDOFF, KernelRwSem, LOCKED, READFAIL, WAITERS, WRITER, biased};
use crate::platform::{Ordering::SeqCst, Platform, Word};
use crate::wait::tests::clockwork::*;

type Made<Y> = KernelRwSem<Clockwork, Y>;

const MS: u64 = 1_000_000;
/// Has passed already.
const AT_ONCE: Until<'static, Clockwork> = Until::deadline(0);

fn count<Y: Policy>(lock: &Made<Y>) -> u64 {
    lock.count.load(SeqCst)
}

fn counted(mut expected: Vec<(Event, i64)>) -> bool {
    expected.sort();
    let mut seen = events();
    seen.sort();
    assert_eq!(seen, expected);
    true
}

/// A writer (thread 1) that does not spin comes to a lock; `cues` are what happens in its sleeps.
fn writer_comes<Y: Policy>(lock: &'static Made<Y>, until: Until<'_, Clockwork>) -> Result<(), GaveUp> {
    should_yield(true);
    events();
    let result = lock.write_acquire_until(until);
    assert_eq!(cues_left(), 0, "{}: it has not slept so often", Y::NAME);
    if result.is_ok() {
        assert_eq!(lock.owner.load(SeqCst) >> 8, 1, "{}", Y::NAME);
    }
    assert!(!still_queued(lock).contains(&1));
    result
}

#[test]
fn a_queued_writer_takes_a_free_lock_and_its_marks() {
    fn wins<Y: Policy>() {
        // Alone.
        let lock = queued::<Y>(WRITER, "");
        at_sleep(|| {
            assert_eq!(count(lock), WRITER | WAITERS, "{}", Y::NAME);
            assert_eq!(still_queued(lock), [1]);
        });
        at_sleep(|| lock.count.store(WAITERS, SeqCst));
        assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()));
        assert_eq!(count(lock), WRITER, "{}", Y::NAME);
        assert!(counted(std::vec![(RwsemOptFail, 1), (RwsemSleepWriter, 2), (RwsemWlock, 1), (ParkSleep, 2)]));
        // With one behind it.
        let lock = queued::<Y>(WRITER, "");
        at_sleep(|| {
            lock.queue.push(record(3));
            lock.count.store(WAITERS, SeqCst);
        });
        assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()));
        assert_eq!((count(lock), still_queued(lock)), (WRITER | WAITERS, std::vec![3]), "{}", Y::NAME);
        // A bias that tests is not passed.
        let lock = queued::<Y>(WRITER, "");
        at_sleep(|| lock.count.store(BIAS | WAITERS, SeqCst));
        at_sleep(|| {
            assert_eq!(count(lock), BIAS | WAITERS, "{}", Y::NAME);
            lock.count.store(WAITERS, SeqCst);
        });
        assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()));
        // And one that gives up leaves nothing.
        let lock = queued::<Y>(BIAS, "");
        assert_eq!(writer_comes(lock, AT_ONCE), Err(GaveUp::TimedOut));
        assert_eq!(count(lock), BIAS, "{}", Y::NAME);
        assert!(counted(std::vec![(RwsemOptFail, 1), (RwsemWlockFail, 1)]));
    }
    wins::<HandoffNone>();
    wins::<Handoff4ms>();
    wins::<V5_10>();
    wins::<V5_16>();
    wins::<TodayKernel>();
}

#[test]
fn a_first_writer_asks_for_the_lock_when_its_time_is_over() {
    fn asks<Y: Policy>(entitles: bool) {
        let lock = queued::<Y>(BIAS, "");
        lock.owner.store(7 << 8 | READER_OWNED, SeqCst);
        at_sleep(|| advance(4 * MS));
        at_sleep(|| {
            assert_eq!(count(lock), BIAS | WAITERS, "{}: its time is not over", Y::NAME);
            advance(1);
        });
        for _ in 0..2 {
            at_sleep(|| assert_eq!(count(lock), BIAS | WAITERS | HANDOFF, "{}: it asks", Y::NAME));
        }
        at_sleep(move || {
            assert_eq!(record(1).waiter.kind.load(SeqCst) & HANDOFF_SET != 0, entitles);
            lock.count.store(WAITERS | HANDOFF, SeqCst);
        });
        assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()));
        assert_eq!(count(lock), WRITER, "{}", Y::NAME);
        let slept = (RwsemSleepWriter, 5);
        let once = (RwsemWlockHandoff, 1);
        assert!(counted(std::vec![(RwsemOptFail, 1), slept, (ParkSleep, 5), once, (RwsemWlock, 1)]));
    }
    asks::<Handoff4ms>(false);
    asks::<V5_10>(false);
    asks::<V5_16>(true);
    asks::<TodayKernel>(true);
    // Without handoff nobody ever does.
    let lock = queued::<HandoffNone>(BIAS, "");
    at_sleep(|| advance(1_000 * MS));
    at_sleep(|| {
        assert_eq!(count(lock), BIAS | WAITERS);
        lock.count.store(WAITERS, SeqCst);
    });
    assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()));
}

#[test]
fn a_writer_that_has_asked_takes_its_request_along_only_where_it_is_its_own() {
    fn leaves<Y: Policy>() -> u64 {
        let lock = queued::<Y>(BIAS, "");
        lock.owner.store(7 << 8 | READER_OWNED, SeqCst);
        at_sleep(|| {
            lock.prepare(record(3), WRITES, 0);
            lock.queue.push(record(3));
            advance(5 * MS);
        });
        assert_eq!(writer_comes(lock, Until::after(5 * MS + 1)), Err(GaveUp::TimedOut));
        assert_eq!(still_queued(lock), [3]);
        count(lock)
    }
    assert_eq!(leaves::<V5_10>(), BIAS | WAITERS);
    assert_eq!(leaves::<TodayKernel>(), BIAS | WAITERS | HANDOFF);
    assert_eq!(leaves::<HandoffNone>(), BIAS | WAITERS);
}

/// Thread 2 is first, and thread 1 comes: whose the lock is when it becomes free, by who is
/// entitled.
#[test]
fn a_writer_that_is_not_first_leaves_the_lock_to_an_entitled_first() {
    fn takes<Y: Policy>(freed: u64, entitled: bool) -> bool {
        let lock = queued::<Y>(WRITER | WAITERS, "w");
        at_sleep(move || {
            if entitled {
                let kind = record(2).waiter.kind.load(SeqCst);
                record(2).waiter.kind.store(kind | HANDOFF_SET, SeqCst);
            }
            lock.count.store(freed, SeqCst);
        });
        let taken = writer_comes(lock, Until::after(MS)).is_ok();
        assert_eq!(count(lock), if taken { WRITER | WAITERS } else { freed }, "{}", Y::NAME);
        assert_eq!(still_queued(lock), [2]);
        was_woken(2);
        taken
    }
    let promised = WAITERS | HANDOFF;
    for (freed, entitled) in [(WAITERS, false), (WAITERS, true), (promised, false)] {
        assert!(takes::<TodayKernel>(freed, entitled), "{freed:#x}");
    }
    assert!(!takes::<TodayKernel>(promised, true));
    assert!(takes::<V5_16>(WAITERS, true) && !takes::<V5_16>(promised, false));
    assert!(takes::<V5_10>(WAITERS, false) && !takes::<V5_10>(promised, false));
    assert!(takes::<HandoffNone>(WAITERS, false));
}

#[test]
fn a_writer_that_is_not_first_asks_in_the_first_one_s_name() {
    fn asks<Y: Policy>() -> (bool, bool, bool) {
        let lock = queued::<Y>(WRITER | WAITERS, "w");
        at_sleep(|| advance(5 * MS));
        assert!(writer_comes(lock, Until::after(5 * MS + 1)).is_err());
        let entitled = |who: u32| record(who).waiter.kind.load(SeqCst) & HANDOFF_SET != 0;
        assert!(record(2).waiter.kind.load(SeqCst) & 1 != 0, "a writer still");
        (count(lock) & HANDOFF != 0, entitled(1), entitled(2))
    }
    assert_eq!(asks::<TodayKernel>(), (true, false, true));
    assert_eq!(asks::<V5_16>(), (true, true, false));
    assert_eq!(asks::<V5_10>(), (false, false, false));
}

/// Its first request went with the one that was first then.
#[test]
fn who_asks_again_is_entitled_again() {
    let lock = queued::<V5_16>(WRITER | WAITERS, "w");
    lock.owner.store(7 << 8 | READER_OWNED, SeqCst);
    let entitled = || record(1).waiter.kind.load(SeqCst) & HANDOFF_SET != 0;
    at_sleep(|| advance(5 * MS));
    at_sleep(move || {
        assert!(entitled() && count(lock) == WRITER | WAITERS | HANDOFF);
        lock.queue.remove(record(2));
        lock.count.store(BIAS | WAITERS, SeqCst);
    });
    at_sleep(move || {
        assert!(entitled() && count(lock) == BIAS | WAITERS | HANDOFF);
        lock.count.store(WAITERS | HANDOFF, SeqCst);
    });
    assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()));
    assert_eq!(count(lock), WRITER);
}

#[test]
fn a_real_time_writer_asks_without_its_time_being_over() {
    fn asks<Y: Policy>(at_first: bool, later: bool) {
        let lock = queued::<Y>(BIAS, "");
        lock.owner.store(7 << 8 | READER_OWNED, SeqCst);
        is_realtime(1);
        at_sleep(move || assert_eq!(count(lock) & HANDOFF != 0, at_first, "{}", Y::NAME));
        at_sleep(move || assert_eq!(count(lock) & HANDOFF != 0, later, "{}", Y::NAME));
        assert!(writer_comes(lock, Until::after(MS)).is_err());
        assert_eq!(count(lock), BIAS);
        is_realtime(0);
    }
    asks::<TodayKernel>(true, true);
    asks::<V5_10>(false, true);
    asks::<Handoff4ms>(false, true);
    asks::<HandoffNone>(false, false);
}

/// The entitled writer does not sleep while the owner runs, and bounds its tries where there seems
/// to be none.
#[test]
fn an_entitled_writer_watches_the_owner_before_it_sleeps_again() {
    fn entitled<Y: Policy>(owner: u32, then: impl FnOnce(&'static Made<Y>)) -> &'static Made<Y> {
        let lock = queued::<Y>(WRITER, "");
        at_sleep(move || {
            lock.owner.store(owner, SeqCst);
            advance(5 * MS);
            should_yield(false);
        });
        then(lock);
        assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()), "{}", Y::NAME);
        assert_eq!(count(lock), WRITER);
        lock
    }
    fn spins<Y: Policy>() {
        // The owner runs, and goes: no second sleep.
        entitled::<Y>(7 << 8, |lock| {
            at_poll(|| {});
            at_poll(|| {
                lock.owner.store(0, SeqCst);
                lock.count.store(WAITERS | HANDOFF, SeqCst);
            });
        });
        // No owner: so many tries, then a sleep; and as many after it.
        let start = Clockwork::now();
        entitled::<Y>(0, |lock| {
            at_sleep(|| {});
            at_sleep(|| lock.count.store(WAITERS | HANDOFF, SeqCst));
        });
        assert_eq!(Clockwork::now(), start + 5 * MS + 16 * LOOK_NS, "{}", Y::NAME);
    }
    fn sleeps<Y: Policy>(owner: u32) {
        entitled::<Y>(owner, |lock| at_sleep(|| lock.count.store(WAITERS | HANDOFF, SeqCst)));
    }
    spins::<V5_10>();
    spins::<TodayKernel>();
    sleeps::<Handoff4ms>(7 << 8);
    sleeps::<Handoff4ms>(0);
    sleeps::<V5_10>(7 << 8 | READER_OWNED);
}

#[test]
fn a_writer_whose_spin_was_refused_by_a_mark_passes_it_on_to_readers() {
    fn wins<Y: Policy>(owner: u32) -> (u32, bool) {
        let lock = queued::<Y>(BIAS, "");
        lock.owner.store(owner, SeqCst);
        at_sleep(|| lock.count.store(WAITERS, SeqCst));
        assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()));
        (lock.owner.load(SeqCst), events().contains(&(RwsemOptNorspin, 1)))
    }
    let marked = 7 << 8 | READER_OWNED | RD_NONSPINNABLE;
    assert_eq!(wins::<V5_10>(marked), (1 << 8 | RD_NONSPINNABLE, true));
    assert_eq!(wins::<V5_10>(7 << 8 | READER_OWNED), (1 << 8, false));
    assert_eq!(wins::<TimedWriterSpin>(marked), (1 << 8, false));
}

#[test]
fn a_biased_writer_waits_for_nobody_to_be_active() {
    use biased::{A, W, WAIT};
    let lock = queued::<XaddBaseline>(W, "");
    at_sleep(|| {
        assert_eq!(count(lock), W.wrapping_add(WAIT));
        lock.count.store(WAIT.wrapping_add(A), SeqCst);
    });
    at_sleep(|| {
        assert_eq!(count(lock), WAIT.wrapping_add(A));
        lock.queue.push(record(3));
        lock.count.store(WAIT, SeqCst);
    });
    assert_eq!(writer_comes(lock, Until::FOREVER), Ok(()));
    assert_eq!(count(lock), WAIT.wrapping_add(W));
    // The second in the queue lets a first reader in where readers hold the lock.
    let lock = queued::<XaddBaseline>(WAIT.wrapping_add(A), "r");
    at_sleep(|| assert!(was_granted(2)));
    assert_eq!(writer_comes(lock, Until::after(MS)), Err(GaveUp::TimedOut));
    assert_eq!(count(lock), 2 * A);
}

#[test]
fn a_writer_that_becomes_first_in_its_sleep_asks_for_handoff() {
    let lock = queued::<V5_10>(WRITER | WAITERS, "w");
    should_yield(true);
    at_sleep(move || {
        assert_eq!(count(lock), WRITER | WAITERS, "another one is first");
        lock.queue.remove(record(2));
        advance(5 * MS);
    });
    at_sleep(move || {
        assert_eq!(count(lock), WRITER | WAITERS | HANDOFF);
        lock.count.store(WAITERS | HANDOFF, SeqCst);
    });
    lock.write_acquire();
    assert_eq!((count(lock), cues_left()), (WRITER, 0));
}
