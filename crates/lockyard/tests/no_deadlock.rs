//! The detector of feature `deadlock`: what is no deadlock is not reported. No test here leaves one
//! behind, so each look is to find none.

#![cfg(feature = "deadlock")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, scope};
use std::time::{Duration, Instant};

use lockyard::deadlock::check_deadlock;
use lockyard::{
    CancelToken, CancellableMutex, Condvar, Mutex, QRwLock, RecursiveRwLock, RtMutex, RwLock,
    RwLockUpgradableReadGuard, RwSem,
};
use lockyard_check::native::guarded;

/// A thread may hold a lock in two modes, and gives them back in any order.
#[test]
fn a_read_that_outlives_the_upgradable_one() {
    let (other, lock) = (&RwLock::new(()), &RwLock::new(()));
    // SAFETY: only looked at.
    let (raw_other, raw_lock) = unsafe { (other.raw(), lock.raw()) };
    let met = &Barrier::new(3);
    guarded("two modes of a lock", || {
        scope(|threads| {
            threads.spawn(move || {
                let upgradable = lock.upgradable_read();
                let _reads = lock.read();
                drop(upgradable);
                met.wait();
                met.wait();
                drop(other.write());
            });
            threads.spawn(move || {
                let _held = other.write();
                met.wait();
                met.wait();
                drop(lock.upgradable_read());
            });
            met.wait();
            let upgradable = lock.upgradable_read();
            met.wait();
            while !(raw_other.is_contended() && raw_lock.is_contended()) {
                thread::yield_now();
            }
            let found = check_deadlock();
            drop(upgradable);
            assert!(found.is_empty(), "{found:?}");
        });
    });
}

/// What was upgraded without a wait, and released, is held no more.
#[test]
fn an_upgrade_at_once_is_released_once() {
    let lock = &RwLock::new(0);
    // SAFETY: only looked at.
    let raw = unsafe { lock.raw() };
    guarded("an upgrade at once", || {
        let (locked, is_locked) = std::sync::mpsc::channel();
        scope(|threads| {
            threads.spawn(move || {
                *RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()) += 1;
                is_locked.recv().expect("it is sent");
                drop(lock.upgradable_read());
            });
            while *lock.read() == 0 {
                thread::yield_now();
            }
            let writes = lock.write();
            locked.send(()).expect("it is awaited");
            while !raw.is_contended() {
                thread::yield_now();
            }
            assert!((0..100).all(|_| check_deadlock().is_empty()));
            drop(writes);
        });
    });
}

/// Waits that end by themselves are no part of a cycle, nor is a mutex that its owner has given up
/// for a condition.
#[test]
fn what_ends_is_no_deadlock() {
    let (a, b) = (Mutex::new(()), Mutex::new(()));
    let (condition, waits) = (Condvar::new(), AtomicBool::new(false));
    let token = CancelToken::new();
    let met = Barrier::new(2);
    guarded("waits that end", || {
        scope(|threads| {
            let other = threads.spawn(|| {
                let _a = a.lock();
                met.wait();
                b.lock_cancellable(&token).is_err()
            });
            let _b = b.lock();
            met.wait();
            assert!(a.try_lock_for(Duration::from_millis(5)).is_none());
            for _ in 0..100 {
                assert!(check_deadlock().is_empty());
            }
            token.cancel();
            assert!(other.join().expect("it ends"), "b is held");
        });
        scope(|threads| {
            threads.spawn(|| {
                let _b = b.lock();
                let mut a = a.lock();
                waits.store(true, Relaxed);
                condition.wait_while(&mut a, |()| waits.load(Relaxed));
            });
            while !waits.load(Relaxed) {
                thread::yield_now();
            }
            // The other has b, and waits; this one has a.
            let held = a.lock();
            for _ in 0..100 {
                assert!(check_deadlock().is_empty());
            }
            waits.store(false, Relaxed);
            condition.notify_all();
            drop(held);
        });
    });
}

/// Guards of `QRwLock` travel: the thread that locked it may wait for it without a deadlock.
#[test]
fn a_guard_that_travels() {
    let lock = &QRwLock::new(());
    guarded("a travelling guard", || {
        let (give, get) = std::sync::mpsc::channel();
        scope(|threads| {
            threads.spawn(move || {
                give.send(lock.read()).expect("it is awaited");
                drop(lock.write());
            });
            let reads = get.recv().expect("it is sent");
            assert!((0..100).all(|_| {
                thread::yield_now();
                check_deadlock().is_empty()
            }));
            drop(reads);
        });
    });
}

/// Threads take locks in one order, in every way there is, while a checker looks again and again.
#[test]
fn no_false_alarm_under_torture() {
    let (first, second) = (Mutex::new(0u64), RwSem::new(0u64));
    let (third, fourth) = (RwLock::new(0u64), RecursiveRwLock::new(0u64));
    let (fifth, last) = (QRwLock::new(0u64), RtMutex::new(0u64));
    let over = AtomicBool::new(false);
    guarded("torture", || {
        scope(|threads| {
            for me in 0..4u32 {
                let (first, second, third) = (&first, &second, &third);
                let (fourth, fifth, last, over) = (&fourth, &fifth, &last, &over);
                threads.spawn(move || {
                    let mut round = me;
                    while !over.load(Relaxed) {
                        round += 1;
                        let outer = first.lock();
                        let reads = (round % 3 != 0).then(|| second.read());
                        let writes = (round % 3 == 0).then(|| second.write());
                        drop((round % 2 == 0).then_some(outer));
                        if round % 5 == 0 {
                            let upgradable = third.upgradable_read();
                            *RwLockUpgradableReadGuard::upgrade(upgradable) += 1;
                        } else {
                            let _reads = third.read();
                            let _again = (fourth.read(), fourth.try_read());
                        }
                        drop((reads, writes));
                        if round % 7 == 0 {
                            *fourth.write() += 1;
                        }
                        let _reads = fifth.read();
                        drop(third.try_write_for(Duration::from_micros(50)));
                        *last.lock() += 1;
                    }
                });
            }
            let end = Instant::now() + Duration::from_secs(2);
            let (mut looks, mut alarms) = (0u32, Vec::new());
            while alarms.is_empty() && Instant::now() < end {
                alarms = check_deadlock();
                looks += 1;
            }
            // Before what may panic: the scope waits for its threads.
            over.store(true, Relaxed);
            assert!(alarms.is_empty(), "{alarms:?}");
            assert!(looks > 0 && *last.lock() > 0);
        });
    });
}
