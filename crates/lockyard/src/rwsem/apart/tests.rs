//! Readers of another lock that test at counters which have been given back.

use std::sync::{Arc, Mutex, PoisonError};

use super::*;
use crate::platform::record::APART;
use crate::rwsem::tests::machine::{BEFORE_A_SLEEP, BEFORE_ITS_CPU, BEHIND_AN_EXCHANGE, Tireless, meanwhile};

/// The counters are the machine's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Readers go apart with the first read, and come together with each write.
#[derive(Debug, Clone, Copy, Default)]
struct Restless;

impl Policy for Restless {
    const ENOUGH: u32 = 1;
    const AT_ONCE: bool = true;
    const FEW: u32 = u32::MAX;
    const POOR: u32 = 1;
}

type Lock = RawApartRwSem<Tireless, Restless>;

fn read<Y: Policy>(lock: &RawApartRwSem<Tireless, Y>) {
    lock.read_acquire();
    // SAFETY: acquired above.
    unsafe { lock.read_release() };
}

fn write<Y: Policy>(lock: &RawApartRwSem<Tireless, Y>) {
    lock.write_acquire();
    // SAFETY: acquired above.
    unsafe { lock.write_release() };
}

/// A reader has found the gate open and is stopped; the readers come together and `next` happens;
/// the reader adds itself, is stopped again, and `last` happens.
fn late(next: impl FnOnce() + Send + 'static, last: impl FnOnce() + Send + 'static) {
    let lock = Arc::new(Lock::new());
    read(&lock);
    assert!(lock.is_apart());
    let again = lock.clone();
    meanwhile(BEFORE_ITS_CPU, move || {
        write(&again);
        assert!(!again.is_apart());
        next();
    });
    meanwhile(BEHIND_AN_EXCHANGE, last);
    read(&lock);
}

/// A reader that tests where nobody else is counts in no other lock.
#[test]
fn a_late_reader_keeps_nobody_out() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    late(
        || {},
        || {
            let other = Lock::new();
            read(&other);
            assert!(other.try_write_acquire());
        },
    );
}

/// The drop of a lock took a late reader of another lock for one of its own whose guard was
/// forgotten: the counters were one too low for ever, and a writer came in beside a reader.
#[test]
fn a_late_reader_is_not_taken_for_a_forgotten_one() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // All counters are borrowed, those with the late reader among them.
    let all = || -> [Lock; APART] { core::array::from_fn(|_| Lock::new()) };
    let others = Arc::new(Mutex::new(None));
    let dropped = others.clone();
    late(
        move || {
            let locks = all();
            locks.iter().for_each(read);
            assert!(locks.iter().all(Lock::is_apart));
            *others.lock().unwrap() = Some(locks);
        },
        move || drop(dropped.lock().unwrap().take()),
    );
    let locks = all();
    for lock in &locks {
        lock.read_acquire();
        assert!(lock.is_apart(), "counters were lost");
        assert!(lock.is_locked() && !lock.try_write_acquire(), "a writer beside a reader");
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
    }
}

/// Among hundreds of readers none of them had the lock to write in time, and each failure doubled
/// what was enough: they never went apart.
#[test]
fn a_writer_that_leaves_parts_the_readers() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = RawApartRwSem::<Tireless>::new();
    let beside = |reads: u32| {
        lock.read_acquire();
        (0..reads).for_each(|_| read(&lock));
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
        assert!(!lock.is_apart());
    };
    beside(Learned::ENOUGH - 1);
    write(&lock);
    assert!(!lock.is_apart());
    beside(Learned::ENOUGH);
    write(&lock);
    assert!(lock.is_apart());
}

/// A reader inside keeps the place as it is; then twice as many reads are enough.
#[test]
fn a_reader_that_cannot_part_them_asks_later() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = RawApartRwSem::<Tireless>::new();
    lock.read_acquire();
    (0..4 * Learned::ENOUGH).for_each(|_| read(&lock));
    assert!(!lock.is_apart());
    assert_eq!((lock.seen.load(SeqCst), lock.shifting.load(SeqCst)), (0, 1 << 1));
    // A writer does not wait for as many.
    (0..Learned::ENOUGH).for_each(|_| read(&lock));
    // SAFETY: acquired above.
    unsafe { lock.read_release() };
    assert!(!lock.is_apart());
    write(&lock);
    assert!(lock.is_apart());
}

/// Readers that have left when one of them presses are apart afterwards.
#[test]
fn a_press_parts_readers_that_no_writer_meets() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = RawApartRwSem::<Tireless>::new();
    assert!(lock.may_shift(4 * Learned::ENOUGH) && !lock.may_shift(u32::MAX), "one at a time");
    assert!(lock.shift() && lock.is_apart());
    assert_eq!(lock.shifting.load(SeqCst), 0);
    // SAFETY: `shift` has acquired it.
    unsafe { lock.join() };
    assert!(lock.readers_apart() == 1 && !lock.sem.is_locked());
    // SAFETY: `join` holds it for reading.
    unsafe { lock.read_release() };
    assert!(!lock.is_locked());
}

/// A lock whose writers downgrade took no notice of writes.
#[test]
fn a_downgrade_is_a_write() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = RawApartRwSem::<Tireless>::new();
    let downgraded = |reads: u32| {
        lock.write_acquire();
        // SAFETY: acquired above.
        unsafe { lock.downgrade() };
        (0..reads).for_each(|_| read(&lock));
        // SAFETY: held since.
        unsafe { lock.read_release() };
    };
    (0..Learned::ENOUGH).for_each(|_| downgraded(1));
    write(&lock);
    assert!(!lock.is_apart());
    downgraded(Learned::ENOUGH);
    downgraded(0);
    assert!(lock.is_apart());
    (0..Learned::POOR).for_each(|_| downgraded(0));
    assert!(!lock.is_apart());
}

/// A reader that tries and finds another one about to change the place does not pass a first
/// waiter.
#[test]
fn a_try_passes_a_press_and_no_reservation() {
    let lock = RawApartRwSem::<Tireless>::new();
    lock.read_acquire();
    for (bits, passes) in [(crate::rwsem::PENDING, true), (crate::rwsem::HANDOFF, false)] {
        lock.sem.count.fetch_or(bits, SeqCst);
        assert_eq!(lock.sem.try_read_pressed(), passes);
        lock.sem.count.fetch_and(!bits, SeqCst);
    }
}

/// A writer of the parent had marked the gate held, and not yet looked again: in the child the next
/// writer came in beside a reader.
#[test]
fn a_child_looks_again_where_a_writer_of_the_parent_was_about_to() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = RawApartRwSem::<Tireless, Embedded<Always>>::new();
    read(&lock);
    lock.read_acquire();
    assert!(lock.is_apart() && lock.sem.try_write_acquire());
    assert!(lock.try_read_again(), "past a writer that waits");
    lock.set_place(lock.place().held());
    assert!(!lock.try_read_again(), "past one that may hold");
    // SAFETY: no other thread is there.
    unsafe { lock.forget_others(false) };
    assert!(!lock.try_write_acquire(), "a writer beside a reader");
    for _ in 0..2 {
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
    }
    assert!(lock.try_write_acquire());
}

/// The last reader had come in by the gate that a writer opened before it released `sem`: the lock
/// was said to be held, and kept its counters.
#[test]
fn counters_are_given_back_by_a_reader_that_came_before_the_end_of_a_write() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = Arc::new(Lock::new());
    read(&lock);
    assert!(lock.is_apart() && lock.sem.try_write_acquire());
    // The writer is about to release `sem`.
    read(&lock);
    let again = lock.clone();
    // SAFETY: on behalf of the writer.
    meanwhile(BEFORE_A_SLEEP, move || unsafe { again.sem.write_release() });
    assert!(lock.part_with_counters() && !lock.is_apart());
    // Nor is it waited for for ever: it holds.
    lock.write_acquire();
    assert!(!lock.part_with_counters());
    // SAFETY: acquired above.
    unsafe { lock.write_release() };
}

/// Counters that were given back were taken for writes that are not rare: each time the lock needed
/// twice as many reads to go apart again.
#[test]
fn a_lock_that_has_given_its_counters_back_goes_apart_as_soon_as_before() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lock = RawApartRwSem::<Tireless>::new();
    for _ in 0..4 {
        lock.read_acquire();
        (0..Learned::ENOUGH).for_each(|_| read(&lock));
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
        write(&lock);
        assert!(lock.is_apart() && lock.part_with_counters() && !lock.is_apart());
    }
}
