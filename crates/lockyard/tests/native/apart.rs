//! The rwsem whose readers share nothing: when they go apart, and when they come together.

use std::sync::Mutex;

use lockyard::platform::linux::Linux;
use lockyard::rwsem::apart::{Always, RawApartRwSem};
use lockyard::{PerCpuRwSem, ReadMostly};
use lockyard_check::native::guarded;

/// The counters are the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone(name: &'static str, test: fn()) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    guarded(name, test);
}

type Lock = RawApartRwSem<Linux>;

/// Reads beside a read, and a write: until readers are apart.
fn go_apart(lock: &Lock) {
    while !lock.is_apart() {
        lock.read_acquire();
        for _ in 0..64 {
            lock.read_acquire();
            // SAFETY: acquired above.
            unsafe { lock.read_release() };
        }
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
        lock.write_acquire();
        // SAFETY: acquired above.
        unsafe { lock.write_release() };
    }
}

/// A reader that waits for the one beside it never has to wait for it to leave: such a reader gives
/// up after a millisecond, and is in.
#[test]
fn nobody_waits_for_a_reader_that_stays() {
    alone("a reader stays", || {
        let lock = Lock::new();
        lock.read_acquire();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    lock.read_acquire();
                    // SAFETY: acquired above.
                    unsafe { lock.read_release() };
                }
            });
        });
        assert!(!lock.is_apart());
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
        go_apart(&lock);
    });
}

#[test]
fn one_thread_stays_as_it_was() {
    alone("one thread", || {
        let lock = Lock::new();
        for _ in 0..1_000 {
            lock.read_acquire();
            // SAFETY: acquired above.
            unsafe { lock.read_release() };
        }
        assert!(!lock.is_apart());
    });
}

#[test]
fn readers_go_apart_and_writes_bring_them_together() {
    alone("apart and together", || {
        let lock = Lock::new();
        go_apart(&lock);
        let write = || {
            lock.write_acquire();
            // SAFETY: acquired above.
            unsafe { lock.write_release() };
        };
        // There were reads before the first.
        write();
        (0..6).for_each(|_| write());
        assert!(lock.is_apart());
        (0..2).for_each(|_| write());
        assert!(!lock.is_apart() && !lock.is_locked());
    });
}

/// A read that is released by another thread, from another CPU perhaps, is released.
#[test]
fn anybody_may_release_a_read() {
    alone("released by others", || {
        let lock = RawApartRwSem::<Linux, Always>::new();
        for _ in 0..100 {
            std::thread::scope(|scope| {
                scope.spawn(|| lock.read_acquire());
            });
            assert!(lock.is_apart() && !lock.try_write_acquire());
            // SAFETY: on behalf of the thread that took it.
            unsafe { lock.read_release() };
            assert!(lock.try_write_acquire());
            // SAFETY: acquired above.
            unsafe { lock.write_release() };
        }
    });
}

/// A static of C++ is destroyed while detached threads go on: one that had entered in between took
/// itself out elsewhere, and no writer came in any more.
#[test]
fn counters_are_given_back_while_the_lock_is_used() {
    alone("given back", || {
        let lock = RawApartRwSem::<Linux, Always>::new();
        let (inside, end) = (std::sync::atomic::AtomicU32::new(0), std::sync::atomic::AtomicBool::new(false));
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let mut parted = 0;
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (lock, inside, end) = (&lock, &inside, &end);
                scope.spawn(move || {
                    for round in 0_u32.. {
                        if round % 64 == thread {
                            lock.write_acquire();
                            assert_eq!(inside.swap(1, relaxed), 0);
                            inside.store(0, relaxed);
                            // SAFETY: acquired above.
                            unsafe { lock.write_release() };
                            if end.load(relaxed) {
                                return;
                            }
                        }
                        lock.read_acquire();
                        assert_eq!(inside.load(relaxed), 0);
                        // SAFETY: acquired above.
                        unsafe { lock.read_release() };
                    }
                });
            }
            for _ in 0..20_000 {
                parted += u32::from(lock.is_apart() && lock.part_with_counters());
                std::thread::yield_now();
            }
            end.store(true, relaxed);
        });
        assert!(parted > 0, "the counters were never given back");
        assert!(lock.try_write_acquire(), "nobody is inside, {parted} times parted");
        // SAFETY: acquired above.
        unsafe { lock.write_release() };
    });
}

/// There is room for 32 locks: the others do without, and get it when it is given back. Where a
/// lock was dropped while it was held nobody else's readers are.
#[test]
fn the_room_is_bounded_and_comes_back() {
    alone("room", || {
        for round in 0..3 {
            let locks: Vec<_> = (0..40).map(|_| RawApartRwSem::<Linux, Always>::new()).collect();
            locks.iter().for_each(RawApartRwSem::read_acquire);
            assert_eq!(locks.iter().filter(|lock| lock.is_apart()).count(), 32, "in round {round}");
            for lock in &locks {
                assert!(!lock.try_write_acquire() && lock.try_read_acquire());
                // SAFETY: acquired above.
                unsafe {
                    lock.read_release();
                    lock.read_release();
                }
            }
        }
        let held = RawApartRwSem::<Linux, Always>::new();
        held.read_acquire();
        assert!(held.is_apart());
        drop(held);
        let lock = RawApartRwSem::<Linux, Always>::new();
        lock.read_acquire();
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
        assert!(lock.is_apart() && lock.try_write_acquire());
    });
}

#[test]
fn the_types_that_users_see() {
    alone("types", || {
        let (learned, always) = (ReadMostly::new(1), PerCpuRwSem::new(1));
        *learned.write() += 1;
        *always.write() += 1;
        let (one, two) = (always.read(), always.read());
        assert_eq!((*one + *two, *learned.read()), (4, 2));
        assert!(always.try_write().is_none());
        assert!(always.try_write_for(std::time::Duration::from_millis(1)).is_none());
        drop((one, two));
        let reading = lockyard::lock_api::RwLockWriteGuard::downgrade(always.write());
        assert!(always.try_read().is_some() && always.try_write().is_none() && *reading == 2);
    });
}
