//! The read-mostly rwsem, step by step on a machine with one thread that plays them all: who opens
//! and closes stints, what becomes of those in seats, and what a stint must have paid.

use std::boxed::Box;
use std::vec::Vec;

use super::policy::{EVERY, PAYS, RELUCTANT};
use super::seats::{GAP_NS, used};
use super::*;
use crate::platform::ThreadId;
use crate::platform::record::{PLACES, seat_of};
use crate::wait::tests::clockwork::*;

type Made = RawReadMostlyRwSem<Clockwork>;

const AT_ONCE: Until<'static, Clockwork> = Until::deadline(0);

fn made() -> &'static Made {
    drop_cues();
    events();
    Box::leak(Box::new(Made::new()))
}

/// Releases what the test has acquired.
fn leave<Y: Policy>(lock: &RawReadMostlyRwSem<Clockwork, Y>) {
    // SAFETY: the thread whose part is played holds it for reading.
    unsafe { lock.read_release() };
}

fn write_release(lock: &Made) {
    // SAFETY: the thread whose part is played holds it for writing.
    unsafe { lock.write_release() };
}

/// Reads by the thread `who` that find others inside, until they have opened a stint.
fn crowd(lock: &Made, who: u32) {
    as_thread(9, || lock.read_acquire());
    as_thread(who, || {
        for _ in 0..EVERY << RELUCTANT {
            if lock.is_open_to_seats() {
                return;
            }
            lock.read_acquire();
            leave(lock);
        }
    });
    as_thread(9, || leave(lock));
    assert!(lock.is_open_to_seats());
    events();
}

/// Reads until the stint has paid.
fn pay(lock: &Made) {
    for _ in 0..PAYS * used::<Clockwork>(lock.stint.load(Relaxed)).len() as u64 {
        lock.read_acquire();
        leave(lock);
    }
}

/// How many holds show in seats.
fn seated(lock: &Made) -> usize {
    let stint = lock.stint.load(Relaxed);
    let places = used::<Clockwork>(stint).iter().flat_map(|seat| &seat.places);
    if stint < FIRST { 0 } else { places.filter(|place| place.load(Relaxed) == stint & TOKEN).count() }
}

fn count(event: Event) -> i64 {
    events().iter().find(|(seen, _)| *seen == event).map_or(0, |(_, number)| *number)
}

#[test]
fn readers_that_meet_nobody_open_nothing() {
    let lock = made();
    for _ in 0..10 * EVERY {
        lock.read_acquire();
        assert!(lock.is_locked() && !lock.is_write_locked());
        leave(lock);
        lock.write_acquire();
        assert!(lock.is_write_locked());
        write_release(lock);
        assert!(lock.try_read_acquire());
        leave(lock);
        assert!(lock.try_write_acquire());
        write_release(lock);
    }
    assert_eq!((lock.stint.load(Relaxed), lock.reluctance.load(Relaxed)), (0, 0));
    assert_eq!(events(), []);
    assert!(!lock.is_locked());
}

#[test]
fn one_of_some_readers_that_meet_others_opens_a_stint() {
    let lock = made();
    as_thread(9, || lock.read_acquire());
    for number in 1..=EVERY {
        assert!(!lock.is_open_to_seats(), "{number}");
        lock.read_acquire();
        leave(lock);
    }
    assert!(lock.is_open_to_seats());
    assert_eq!(events(), [(Event::ReadMostlyOpen, 1)]);
    as_thread(9, || leave(lock));
    // From here on readers touch the rwsem no more.
    lock.read_acquire();
    assert!(!lock.sem.is_locked() && lock.is_locked() && !lock.is_write_locked());
    assert_eq!(seated(lock), 1);
    leave(lock);
    assert!(!lock.is_locked());
}

/// A waiting writer would have to close it.
#[test]
fn nobody_opens_a_stint_before_a_waiter() {
    let lock = made();
    as_thread(9, || lock.read_acquire());
    at_sleep(move || {
        as_thread(2, || {
            for _ in 0..2 * EVERY {
                assert!(lock.try_read_acquire());
                lock.met_others();
                leave(lock);
            }
        });
        assert!(!lock.is_open_to_seats());
        as_thread(9, || leave(lock));
    });
    lock.write_acquire();
    assert_eq!(cues_left(), 0);
    write_release(lock);
}

#[test]
fn a_writer_counts_in_a_reader_that_stays_and_waits_like_any_other() {
    let lock = made();
    crowd(lock, 2);
    as_thread(3, || lock.read_acquire());
    assert_eq!(seated(lock), 1);
    assert_eq!(lock.write_acquire_until(AT_ONCE), Err(GaveUp::TimedOut));
    assert!(seated(lock) == 0 && lock.stint.load(Relaxed) < FIRST);
    assert!(lock.sem.is_locked() && !lock.is_write_locked());
    assert_eq!(count(Event::ReadMostlyMoved), 1);
    // Others still read beside it, and no writer gets in.
    as_thread(4, || {
        assert!(lock.try_read_acquire());
        leave(lock);
    });
    assert!(!lock.try_write_acquire());
    as_thread(3, || leave(lock));
    assert!(!lock.is_locked());
    assert_eq!(lock.write_acquire_until(AT_ONCE), Ok(()));
    assert!(lock.is_write_locked() && !lock.try_read_acquire());
    write_release(lock);
}

#[test]
fn a_reader_that_leaves_in_time_is_not_counted_in() {
    let lock = made();
    crowd(lock, 2);
    as_thread(3, || lock.read_acquire());
    at_poll(move || as_thread(3, || leave(lock)));
    assert_eq!(lock.write_acquire_until(AT_ONCE), Ok(()));
    assert!(cues_left() == 0 && lock.stint.load(Relaxed) < FIRST);
    assert_eq!(events(), [(Event::ReadMostlyClose, 1)]);
    write_release(lock);
    assert!(!lock.is_locked());
}

/// Several that stay cost a writer a bounded time, and none is lost.
#[test]
fn a_writer_waits_for_few_gaps() {
    let lock = made();
    crowd(lock, 2);
    (3..13).for_each(|who| as_thread(who, || lock.read_acquire()));
    assert_eq!(seated(lock), 10);
    let start = Clockwork::now();
    assert_eq!(lock.write_acquire_until(AT_ONCE), Err(GaveUp::TimedOut));
    assert!(Clockwork::now() - start <= u64::from(seats::GAPS) * (u64::from(GAP_NS) + 2 * LOOK_NS));
    assert_eq!(count(Event::ReadMostlyMoved), 10);
    for who in 3..13 {
        assert!(lock.is_locked() && !lock.try_write_acquire());
        as_thread(who, || leave(lock));
    }
    assert!(!lock.is_locked() && lock.try_write_acquire());
    write_release(lock);
}

#[test]
fn a_try_to_write_leaves_readers_in_their_seats() {
    let lock = made();
    crowd(lock, 2);
    as_thread(3, || lock.read_acquire());
    let stint = lock.stint.load(Relaxed);
    assert!(!lock.try_write_acquire());
    // Where the reader comes between the look and the closing.
    lock.sem.write_acquire();
    assert!(!lock.try_close());
    assert_eq!((lock.stint.load(Relaxed), seated(lock), lock.sem.is_locked()), (stint, 1, false));
    as_thread(3, || leave(lock));
    assert!(lock.try_write_acquire() && lock.is_write_locked());
    assert!(lock.stint.load(Relaxed) < FIRST);
    write_release(lock);
    assert_eq!(events(), [(Event::ReadMostlyClose, 1)]);
}

/// A stint that did not pay makes the lock reluctant; one that did, less so.
#[test]
fn a_lock_learns_if_stints_pay() {
    let lock = made();
    let opened_after = || {
        as_thread(9, || lock.read_acquire());
        let after = (1..).find(|_| {
            lock.read_acquire();
            leave(lock);
            lock.is_open_to_seats()
        });
        as_thread(9, || leave(lock));
        after.unwrap()
    };
    let close = || {
        lock.write_acquire();
        write_release(lock);
        lock.reluctance()
    };
    for reluctance in 0..4 {
        assert!(opened_after() <= EVERY << reluctance);
        assert_eq!(close(), reluctance + 1);
    }
    for expected in [2, 0, 0] {
        opened_after();
        pay(lock);
        assert_eq!(close(), expected);
    }
    lock.reluctance.store(RELUCTANT, Relaxed);
    opened_after();
    assert_eq!(close(), RELUCTANT);
}

#[test]
fn a_thread_with_all_places_taken_and_one_without_a_record_read_by_the_rwsem() {
    let locks: Vec<_> = (0..=PLACES).map(|_| made()).collect();
    locks.iter().for_each(|lock| crowd(lock, 2));
    as_thread(3, || {
        locks.iter().for_each(|lock| lock.read_acquire());
        assert!(locks[..PLACES].iter().all(|lock| seated(lock) == 1 && !lock.sem.is_locked()));
        assert!(seated(locks[PLACES]) == 0 && locks[PLACES].sem.is_locked());
        locks.iter().for_each(|lock| leave(*lock));
        // A hold twice: two places.
        locks[0].read_acquire();
        locks[0].read_acquire();
        assert_eq!(seated(locks[0]), 2);
        leave(locks[0]);
        assert_eq!(seated(locks[0]), 1);
        leave(locks[0]);
    });
    as_thread(0, || {
        locks[0].read_acquire();
        assert!(seated(locks[0]) == 0 && locks[0].sem.is_locked());
        leave(locks[0]);
    });
    assert!(locks.iter().all(|lock| !lock.is_locked()));
}

/// What one thread holds in its seat and has counted: whichever it releases first.
#[test]
fn holds_of_one_thread_are_alike() {
    let lock = made();
    as_thread(3, || lock.read_acquire());
    crowd(lock, 2);
    as_thread(3, || {
        lock.read_acquire();
        assert!(lock.sem.is_locked() && seated(lock) == 1);
        leave(lock);
        assert!(lock.is_locked() && !lock.try_write_acquire());
        leave(lock);
    });
    assert!(!lock.is_locked());
}

#[test]
fn a_stint_widens_for_a_reader_with_a_seat_beyond() {
    let lock = made();
    crowd(lock, 2);
    assert_eq!(used::<Clockwork>(lock.stint.load(Relaxed)).len(), 4);
    for (who, seats) in [(3, 4), (4, 8), (31, 32), (5, 32), (63, 64), (64, 64), (65, 64)] {
        as_thread(who, || {
            lock.read_acquire();
            assert_eq!((used::<Clockwork>(lock.stint.load(Relaxed)).len(), seated(lock)), (seats, 1), "{who}");
            leave(lock);
        });
    }
    // One that has found a stint that is over.
    let stint = lock.stint.load(Relaxed);
    as_thread(2, || lock.write_acquire());
    assert!(!as_thread(3, || lock.sit_down(stint)));
    as_thread(2, || write_release(lock));
    assert!(seat_of::<Clockwork>(ThreadId::from_raw(3).unwrap()).unwrap().0.is_empty());
}

#[test]
fn a_downgraded_writer_is_a_reader() {
    let lock = made();
    crowd(lock, 2);
    lock.write_acquire();
    // SAFETY: acquired above.
    unsafe { lock.downgrade() };
    assert!(lock.is_locked() && !lock.is_write_locked() && !lock.try_write_acquire());
    leave(lock);
    assert!(!lock.is_locked());
}

/// A dead thread's hold must be found by nobody else's release, and a late destructor's by its own.
#[test]
fn a_record_with_a_hold_in_its_seat_is_in_use() {
    let lock = made();
    crowd(lock, 2);
    as_thread(20, || {
        assert!(record(20).is_unused());
        lock.read_acquire();
        assert!(!record(20).is_unused());
        leave(lock);
        assert!(record(20).is_unused());
    });
}

/// A lock may go, or a guard be forgotten, while a stint is open: no other stint has that token.
#[test]
fn a_token_left_behind_means_nothing_to_another_lock() {
    let lock = Made::new();
    crowd(&lock, 2);
    as_thread(3, || lock.read_acquire());
    let token = lock.stint.load(Relaxed) & TOKEN;
    drop(lock);
    let lock = made();
    crowd(lock, 2);
    assert_ne!(lock.stint.load(Relaxed) & TOKEN, token);
    assert_eq!(lock.write_acquire_until(AT_ONCE), Ok(()));
    write_release(lock);
}

#[test]
fn without_a_policy_every_reader_opens_a_stint() {
    drop_cues();
    let lock = RawReadMostlyRwSem::<Clockwork, Always>::new();
    lock.read_acquire();
    assert!(lock.is_open_to_seats() && lock.sem.is_locked());
    lock.read_acquire();
    leave(&lock);
    leave(&lock);
    assert!(!lock.is_locked() && lock.try_write_acquire());
    assert!(!lock.is_open_to_seats());
    // SAFETY: acquired above.
    unsafe { lock.write_release() };
}
