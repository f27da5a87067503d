//! parking_lot's names for Lockyard's locks: what each of them adds.

// Threads of the system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::time::Duration;

use lockyard::cancel::CancelToken;
use lockyard::lock_api::{self, RawRwLock as _, RawRwLockFair, RawRwLockUpgrade as _};
use lockyard::platform::{Native, Platform};
use lockyard::{
    CancellableCondvar, Condvar, FairMutex, GaveUp, Mutex, MutexGuard, RecursiveRwLock, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard, RwLockWriteGuard, Semaphore, raw,
};
use lockyard_check::native::guarded;

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        Native::nap(8);
    }
}

#[test]
fn notifications_are_counted() {
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    assert!(!condvar.notify_one());
    assert_eq!(condvar.notify_all(), 0);
    guarded("notifications", || {
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    let mut waiting = mutex.lock();
                    *waiting += 1;
                    condvar.wait(&mut waiting);
                });
            }
            wait_until(|| *mutex.lock() == 5);
            // Every waiter queues before it releases the mutex.
            assert!(condvar.notify_one());
            assert_eq!(condvar.notify_all(), 4);
        });
    });
    assert!(!condvar.notify_one());
}

#[test]
fn a_wait_ends_by_its_time_and_by_its_token() {
    let (mutex, condvar, token) = (Mutex::new(()), Condvar::new(), CancelToken::new());
    let mut held = mutex.lock();
    assert!(condvar.wait_for(&mut held, Duration::from_millis(1)).timed_out());
    assert!(condvar.wait_while_for(&mut held, |()| true, Duration::from_millis(1)).timed_out());
    assert!(!condvar.wait_while_for(&mut held, |()| false, Duration::ZERO).timed_out());
    drop(held);
    guarded("token", || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut held = mutex.lock();
                assert_eq!(condvar.wait_cancellable(&mut held, &token), Err(GaveUp::Cancelled));
                assert!(mutex.is_locked());
            });
            token.cancel();
        });
    });
    assert!(!condvar.notify_one());
}

#[test]
#[should_panic(expected = "more than one mutex")]
fn a_condition_variable_has_one_mutex_at_a_time() {
    let (one, other, condvar) = (Mutex::new(false), Mutex::new(()), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut waiting = one.lock();
            *waiting = true;
            condvar.wait(&mut waiting);
        });
        wait_until(|| *one.lock());
        let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            condvar.wait_for(&mut other.lock(), Duration::from_secs(5));
        }));
        assert!(condvar.notify_one() && !other.is_locked());
        if let Err(panic) = wrong {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Increments under an upgrade are lost if a writer comes between the read and the write.
#[test]
fn no_writer_comes_between_an_upgradable_read_and_its_upgrade() {
    const TIMES: u32 = 2_000;
    let counter = RwLock::new(0u32);
    guarded("upgrades", || {
        std::thread::scope(|scope| {
            for number in 0..4u32 {
                let counter = &counter;
                scope.spawn(move || {
                    for round in 0..TIMES {
                        let read = counter.upgradable_read();
                        let seen = *read;
                        match (number + round) % 3 {
                            0 => *RwLockUpgradableReadGuard::upgrade(read) = seen + 1,
                            1 => {
                                let mut tried = RwLockUpgradableReadGuard::try_upgrade_for(read, Duration::ZERO);
                                loop {
                                    match tried {
                                        Ok(mut write) => break *write = seen + 1,
                                        Err(read) => {
                                            assert_eq!(*read, seen);
                                            tried = RwLockUpgradableReadGuard::try_upgrade(read);
                                        }
                                    }
                                }
                            }
                            _ => {
                                drop(read);
                                let mut write = counter.write();
                                *write += 1;
                                let read = RwLockWriteGuard::downgrade_to_upgradable(write);
                                drop(RwLockUpgradableReadGuard::downgrade(read));
                            }
                        }
                    }
                });
                scope.spawn(move || (0..TIMES).for_each(|_| assert!(*counter.read() <= 4 * TIMES)));
            }
        });
    });
    assert_eq!(*counter.read(), 4 * TIMES);
    // SAFETY: only looked at.
    let raw = unsafe { counter.raw() };
    assert!(!raw.is_locked() && !raw.is_contended());
    assert!(raw.try_lock_upgradable().is_some() && raw.is_locked() && !raw.is_locked_exclusive());
}

#[test]
fn a_reader_reads_again_past_a_waiting_writer() {
    let lock = RecursiveRwLock::new(0);
    guarded("a read inside a read", || {
        std::thread::scope(|scope| {
            let outer = lock.read();
            let writer = scope.spawn(|| *lock.write() += 1);
            // SAFETY: only looked at.
            wait_until(|| unsafe { lock.raw() }.is_contended());
            assert_eq!(*lock.try_read().expect("readers hold it"), 0);
            assert_eq!(*lock.read(), 0);
            drop(outer);
            writer.join().unwrap();
        });
    });
    assert_eq!(*lock.read(), 1);
}

/// That nobody passes the waiter is played step by step in `tests/sleeping/mutex.rs`.
#[test]
fn a_fair_mutex_counts() {
    let (fair, plain) = (FairMutex::new(0), Mutex::new(0));
    guarded("fair unlocks", || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        *fair.lock() += 1;
                        let mut held = plain.lock();
                        MutexGuard::bump(&mut held);
                        *held += 1;
                    }
                });
            }
        });
    });
    assert_eq!((*fair.lock(), *plain.lock()), (2_000, 2_000));
}

fn is_released_fairly_and_bumped<R: RawRwLockFair + Send + Sync>() {
    let lock = lock_api::RwLock::<R, u32>::new(0);
    guarded("fair releases", || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..250 {
                        let mut held = lock.write();
                        lock_api::RwLockWriteGuard::bump(&mut held);
                        *held += 1;
                        lock_api::RwLockWriteGuard::unlock_fair(held);
                        let mut seen = lock.read();
                        lock_api::RwLockReadGuard::bump(&mut seen);
                        assert!(*seen > 0);
                        lock_api::RwLockReadGuard::unlock_fair(seen);
                    }
                });
            }
        });
    });
    assert_eq!(*lock.read(), 1_000);
}

#[test]
fn reader_writer_locks_are_released_fairly_and_bumped() {
    is_released_fairly_and_bumped::<raw::RawRwSem<Native>>();
    is_released_fairly_and_bumped::<raw::RawQRwLock<Native>>();
    is_released_fairly_and_bumped::<raw::RawUpgradableRwSem<Native>>();
    is_released_fairly_and_bumped::<raw::RawUpgradableRwSem<Native, true>>();
}

#[test]
fn people_see_what_is_in_it() {
    let slots = Semaphore::new(3);
    let two = slots.acquire_many(2);
    assert_eq!(format!("{slots:?} {two:?}"), "Semaphore { available: 1 } Permits { permits: 2, .. }");
    assert_eq!(format!("{:?}", lockyard::CancelToken::new()), "CancelToken { cancelled: false, .. }");
}

#[test]
fn an_owner_locks_a_reentrant_mutex_again() {
    let mutex = ReentrantMutex::new(7);
    let outer = mutex.lock();
    assert_eq!((*mutex.lock(), *outer), (7, 7));
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock().is_none()));
    });
    drop(outer);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock().is_some()));
    });
}
