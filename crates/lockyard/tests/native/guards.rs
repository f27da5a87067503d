//! The public face under hard treatment: panics in sections, forgotten guards, dropped locks,
//! timeouts and tokens through `lock_api`'s guards.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::scope;
use std::time::{Duration, Instant};

use lock_api::{GuardNoSend, RwLockWriteGuard};
use lockyard::{
    CancelToken, CancellableMutex, CancellableRwLock, CancellableSemaphore, GaveUp, Mutex, RwSem, Semaphore, SpinLock,
};
use lockyard_check::native::guarded;

use crate::panics;

#[test]
fn a_panic_in_the_section_releases_without_poison() {
    guarded("panic", || {
        let (mutex, spin, rwsem, semaphore) = (Mutex::new(0), SpinLock::new(0), RwSem::new(0), Semaphore::new(1));
        assert!(panics(|| {
            let (mut a, mut b, mut c, _d) = (mutex.lock(), spin.lock(), rwsem.write(), semaphore.acquire());
            (*a, *b, *c) = (1, 1, 1);
            panic!("in the section");
        }));
        assert!(panics(|| {
            let _shared = rwsem.read();
            panic!("in a read section");
        }));
        // No poison: what was written is there, and everything is free.
        assert_eq!((*mutex.try_lock().unwrap(), *spin.try_lock().unwrap(), *rwsem.try_write().unwrap()), (1, 1, 1));
        assert_eq!(semaphore.available(), 1);
    });
}

#[test]
fn a_panic_in_the_section_lets_waiters_in() {
    guarded("panic with waiters", || {
        let mutex = Mutex::new(0);
        let inside = AtomicU32::new(0);
        scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..200 {
                        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                            let mut value = mutex.lock();
                            assert_eq!(inside.fetch_add(1, Relaxed), 0);
                            *value += 1;
                            assert_eq!(inside.fetch_sub(1, Relaxed), 1);
                            // Unwinds without the hook's output.
                            std::panic::resume_unwind(Box::new(()));
                        }));
                    }
                });
            }
        });
        assert_eq!(mutex.into_inner(), 800);
    });
}

#[test]
fn a_forgotten_guard_leaves_the_lock_held() {
    let mutex = Mutex::new(0);
    std::mem::forget(mutex.lock());
    assert!(mutex.is_locked() && mutex.try_lock().is_none());
    // SAFETY: the forgotten guard's.
    unsafe { mutex.force_unlock(GuardNoSend::new()) };
    assert!(mutex.try_lock().is_some());

    let rwsem = RwSem::new(0);
    std::mem::forget(rwsem.read());
    assert!(rwsem.try_write().is_none() && rwsem.try_read().is_some());
    // SAFETY: the forgotten guard's.
    unsafe { rwsem.force_unlock_read(GuardNoSend::new()) };
    std::mem::forget(rwsem.write());
    assert!(rwsem.try_read().is_none());
    // SAFETY: the forgotten guard's.
    unsafe { rwsem.force_unlock_write(GuardNoSend::new()) };
    assert!(rwsem.try_write().is_some());

    let semaphore = Semaphore::new(2);
    semaphore.acquire().forget();
    assert_eq!(semaphore.available(), 1);
    assert!(semaphore.release(1));
    assert_eq!(semaphore.available(), 2);
}

#[test]
fn a_held_lock_can_be_dropped() {
    for _ in 0..100 {
        let mutex = Box::new(Mutex::new(String::from("data")));
        std::mem::forget(mutex.lock());
        drop(mutex);
        let rwsem = Box::new(RwSem::new(String::from("data")));
        std::mem::forget(rwsem.read());
        assert_eq!(rwsem.into_inner(), "data");
    }
}

#[test]
fn timeouts_through_the_guards_are_never_early() {
    guarded("timeouts", || {
        let (mutex, rwsem, semaphore) = (Mutex::new(0), RwSem::new(0), Semaphore::new(0));
        let (_held, _written) = (mutex.lock(), rwsem.write());
        scope(|threads| {
            threads.spawn(|| {
                let timeout = Duration::from_millis(3);
                let start = Instant::now();
                assert!(mutex.try_lock_for(timeout).is_none());
                assert!(start.elapsed() >= timeout);
                let end = Instant::now() + timeout;
                assert!(rwsem.try_read_until(end).is_none() && Instant::now() >= end);
                let end = Instant::now() + timeout;
                assert!(rwsem.try_write_until(end).is_none() && Instant::now() >= end);
                let start = Instant::now();
                assert!(semaphore.try_acquire_for(timeout).is_none());
                assert!(start.elapsed() >= timeout);
                // Long past, and beyond the end of time: both are answered.
                assert!(mutex.try_lock_until(start - Duration::from_millis(1)).is_none());
                assert!(semaphore.try_acquire_for(Duration::ZERO).is_none());
            });
        });
        drop(_held);
        assert!(mutex.try_lock_for(Duration::MAX).is_some());
    });
}

#[test]
fn tokens_through_the_guards() {
    let (mutex, rwsem, semaphore) = (Mutex::new(0), RwSem::new(0), Semaphore::new(1));
    let token = CancelToken::new();
    token.cancel();
    // What need not wait is not stopped.
    assert!(mutex.lock_cancellable(&token).is_ok());
    assert!(rwsem.read_cancellable(&token).is_ok() && rwsem.write_cancellable(&token).is_ok());
    assert!(semaphore.acquire_cancellable(&token).is_ok());
    let (_held, _written, _permit) = (mutex.lock(), rwsem.write(), semaphore.acquire());
    scope(|threads| {
        threads.spawn(|| {
            assert_eq!(mutex.lock_cancellable(&token).err(), Some(GaveUp::Cancelled));
            assert_eq!(rwsem.read_cancellable(&token).err(), Some(GaveUp::Cancelled));
            assert_eq!(rwsem.write_cancellable(&token).err(), Some(GaveUp::Cancelled));
            assert_eq!(semaphore.acquire_cancellable(&token).err(), Some(GaveUp::Cancelled));
        });
    });
}

#[test]
fn a_write_guard_becomes_a_read_guard() {
    let rwsem = RwSem::new(1);
    let mut writing = rwsem.write();
    *writing = 2;
    let reading = RwLockWriteGuard::downgrade(writing);
    assert_eq!((*reading, *rwsem.read()), (2, 2));
    assert!(rwsem.try_write().is_none());
}

/// A spinlock's guard and a semaphore's permit may be dropped by another thread.
#[test]
fn guards_that_may_travel() {
    guarded("travelling guards", || {
        let (spin, semaphore) = (SpinLock::new(1), Semaphore::new(1));
        let (held, permit) = (spin.lock(), semaphore.acquire());
        scope(|threads| {
            let other = threads.spawn(|| {
                let value = *spin.lock();
                (value, drop(semaphore.acquire())).0
            });
            threads.spawn(move || {
                let mut held = held;
                *held = 2;
                drop((held, permit));
            });
            assert_eq!(other.join().unwrap(), 2);
        });
        assert_eq!(semaphore.available(), 1);
    });
}

/// Plain data, no atomics: what a thread sanitizer can watch.
#[test]
fn plain_data_behind_every_guard() {
    guarded("plain data", || {
        let (mutex, spin, rwsem) =
            (Mutex::new((0i64, 0i64)), SpinLock::new([0u64; 8]), RwSem::new((0u64, vec![0u64; 4])));
        scope(|threads| {
            for thread in 0..4 {
                let (mutex, spin, rwsem) = (&mutex, &spin, &rwsem);
                threads.spawn(move || {
                    for round in 0..2_000 {
                        {
                            let mut pair = mutex.lock();
                            assert_eq!(pair.0, -pair.1);
                            pair.0 += 1;
                            pair.1 -= 1;
                        }
                        {
                            let mut pattern = spin.lock();
                            assert!(pattern.iter().all(|&word| word == pattern[0]));
                            pattern.iter_mut().for_each(|word| *word += 1);
                        }
                        if (round + thread) % 4 == 0 {
                            let mut data = rwsem.write();
                            data.0 += 1;
                            let sum = data.0;
                            data.1.iter_mut().for_each(|word| *word = sum);
                        } else {
                            let data = rwsem.read();
                            assert!(data.1.iter().all(|&word| word == data.0));
                        }
                    }
                });
            }
        });
        assert_eq!(mutex.into_inner(), (8_000, -8_000));
        assert_eq!(spin.into_inner(), [8_000; 8]);
        assert_eq!(rwsem.into_inner().0, 2_000);
    });
}
