//! What is done around a hold is done once, and undone once, whatever becomes of the hold.

use std::cell::Cell;

use lockyard::lock_api;
use lockyard::platform::Native;
use lockyard::raw::{Around, Hold, RawQRwLock, RawQSpinLock, RawTreeRtMutex};

thread_local! {
    /// A bit for each hold.
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}

struct Noted;

impl Hold for Noted {
    type State = u32;
    fn enter() -> u32 {
        let bit = 1 << HOLDS.get().trailing_ones();
        HOLDS.set(HOLDS.get() | bit);
        bit
    }
    fn leave(bit: u32) {
        assert_eq!(HOLDS.get() & bit, bit);
        HOLDS.set(HOLDS.get() & !bit);
    }
}

#[test]
fn each_hold_has_one_before_and_one_behind_it_and_an_attempt_that_fails_none() {
    type Lock = Around<RawQSpinLock<Native>, Noted>;
    let (first, second) = (lock_api::Mutex::<Lock, ()>::new(()), lock_api::Mutex::<Lock, ()>::new(()));
    let outer = first.lock();
    let inner = second.try_lock();
    assert!(first.try_lock().is_none() && first.is_locked());
    assert_eq!(HOLDS.get(), 0b11);
    drop(outer);
    assert_eq!(HOLDS.get(), 0b10);
    drop(inner);
    assert_eq!(HOLDS.get(), 0);
}

#[test]
fn a_lock_that_panics_is_left() {
    // Taken again by its owner, it would wait for ever.
    let lock = lock_api::Mutex::<Around<RawTreeRtMutex<Native>, Noted>, ()>::new(());
    let guard = lock.lock();
    assert!(crate::panics(|| drop(lock.lock())));
    assert_eq!(HOLDS.get(), 1);
    drop(guard);
    assert_eq!(HOLDS.get(), 0);
}

#[test]
fn readers_and_writers_likewise() {
    let lock = lock_api::RwLock::<Around<RawQRwLock<Native>, Noted>, ()>::new(());
    let readers = (lock.read(), lock.try_read());
    assert!(lock.try_write().is_none());
    assert_eq!(HOLDS.get(), 0b11);
    drop(readers);
    let writer = lock.write();
    assert!(lock.try_read().is_none() && lock.is_locked_exclusive());
    assert_eq!(HOLDS.get(), 1);
    drop(writer);
    assert_eq!(HOLDS.get(), 0);
    drop(lock.try_write());
    assert_eq!(HOLDS.get(), 0);
}
