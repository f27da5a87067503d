//! What safe code can do wrong, and what comes of it: never two holders.
//!
//! Unlocking what one has not locked is not among it: guards are the only way, and a guard is a
//! proof. Mutexes that inherit priorities know their owners all the same and panic
//! (`tests/inheritance/errors.rs`, `tests/rtmutex_tree/native.rs`).

use std::mem::forget;
use std::time::Duration;

use lockyard::semaphore::MAX_UNITS;
use lockyard::{CnaSpinLock, HqSpinLock, Mutex, QRwLock, RwSem, Semaphore, SpinLock};

const SHORT: Duration = Duration::from_millis(2);

/// A thread that asks for what it has: a try says no, a timed wait ends. (A wait without an end
/// would be for ever.)
#[test]
fn asking_for_what_one_has() {
    let mutex = Mutex::new(());
    let held = mutex.lock();
    assert!(mutex.try_lock().is_none() && mutex.try_lock_for(SHORT).is_none());
    drop(held);
    assert!(mutex.try_lock().is_some(), "the attempts left nothing behind");

    let (plain, cna, hq) = (SpinLock::new(()), CnaSpinLock::new(()), HqSpinLock::new(()));
    let held = (plain.lock(), cna.lock(), hq.lock());
    assert!(plain.try_lock().is_none() && cna.try_lock().is_none() && hq.try_lock().is_none());
    drop(held);
    assert!(plain.try_lock().is_some() && cna.try_lock().is_some() && hq.try_lock().is_some());
}

/// There are no upgrades: a reader that asks to write is a reader in its own way.
#[test]
fn writing_what_one_reads() {
    let sem = RwSem::new(());
    let reads = sem.read();
    assert!(sem.try_write().is_none() && sem.try_write_for(SHORT).is_none());
    assert!(sem.try_read().is_some(), "the writer that gave up shuts nobody out");
    drop(reads);
    assert!(sem.try_write().is_some());

    let spinning = QRwLock::new(());
    let reads = spinning.read();
    assert!(spinning.try_write().is_none());
    drop(reads);
    assert!(spinning.try_write().is_some());
}

/// A lock whose guard was forgotten stays locked, and may be dropped: it owns nothing.
#[test]
fn forgotten_guards() {
    let mutex = Mutex::new(7);
    forget(mutex.lock());
    assert!(mutex.is_locked() && mutex.try_lock().is_none());
    assert_eq!(mutex.into_inner(), 7);
    let sem = RwSem::new(7);
    forget(sem.read());
    assert!(sem.try_read().is_some() && sem.try_write().is_none());
    assert_eq!(sem.into_inner(), 7);
}

/// Beside one reader that stays, so many are forgotten that their number would begin anew in the 23
/// bits it has: no writer comes in beside the one that stays.
#[test]
fn forgotten_readers_in_numbers() {
    let lock = QRwLock::new(0);
    let stays = lock.read();
    let forgotten = (0..1u32 << 23).map_while(|_| lock.try_read().map(forget)).count();
    assert_eq!(forgotten, (1 << 22) - 1, "half of what would fit");
    assert!(lock.try_read().is_none() && lock.try_write().is_none());
    assert_eq!(*stays, 0);
}

/// Permits that were never taken cannot be returned without end.
#[test]
fn more_permits_than_there_can_be() {
    let sem = Semaphore::new(u32::MAX);
    assert_eq!(sem.available(), MAX_UNITS);
    assert!(!sem.release(1));
    drop(sem.acquire());
    assert_eq!(sem.available(), MAX_UNITS);
}
