//! The detector of feature `deadlock`: planted cycles are found and named, and what is no deadlock
//! is not reported.
//!
//! A planted deadlock stays until the program ends: its threads are never joined, its locks never
//! dropped. So each test looks for cycles of its own locks.

#![cfg(feature = "deadlock")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, scope};
use std::time::{Duration, Instant};

use lockyard::deadlock::{DeadlockedThread, Mode, check_deadlock};
use lockyard::{
    CancelToken, CancellableMutex, Condvar, FairMutex, Mutex, QRwLock, RecursiveRwLock, RtMutex, RwLock,
    RwLockUpgradableReadGuard, RwSem, TreeRtMutex,
};
use lockyard_check::native::guarded;

/// Something that lives as long as the program.
fn kept<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn address<T>(raw: &T) -> usize {
    std::ptr::from_ref(raw).addr()
}

/// The cycles that lead through `locks` only.
fn cycles_of(locks: &[usize]) -> Vec<Vec<DeadlockedThread>> {
    let mut cycles = check_deadlock();
    cycles.retain(|cycle| cycle.iter().all(|thread| locks.contains(&thread.waits_for().address())));
    cycles
}

/// Starts threads that never come back, and waits until a cycle through `locks` is reported.
fn planted(name: &'static str, locks: &[usize], threads: Vec<Box<dyn FnOnce() + Send>>) -> Vec<DeadlockedThread> {
    let count = threads.len();
    for (number, act) in threads.into_iter().enumerate() {
        thread::Builder::new().name(format!("{name} {number}")).spawn(act).expect("a thread");
    }
    let mut found = Vec::new();
    guarded(name, || {
        while found.is_empty() {
            found = cycles_of(locks);
            thread::yield_now();
        }
    });
    assert_eq!((found.len(), found[0].len()), (1, count), "{found:?}");
    found.remove(0)
}

fn boxed(act: impl FnOnce() + Send + 'static) -> Box<dyn FnOnce() + Send> {
    Box::new(act)
}

#[test]
fn two_mutexes_in_two_orders() {
    let (a, b) = (kept(Mutex::new(())), kept(Mutex::new(())));
    let met = kept(Barrier::new(2));
    #[inline(never)]
    fn takes_the_second(second: &Mutex<()>) {
        drop(second.lock());
    }
    let order = |first: &'static Mutex<()>, second: &'static Mutex<()>| {
        boxed(move || {
            let _first = first.lock();
            met.wait();
            takes_the_second(second);
        })
    };
    // SAFETY: only looked at.
    let (at_a, at_b) = unsafe { (address(a.raw()), address(b.raw())) };
    let cycle = planted("two mutexes", &[at_a, at_b], vec![order(a, b), order(b, a)]);
    for thread in &cycle {
        let [held] = thread.holds() else { panic!("{thread}") };
        let (has, wants) = if thread.name() == Some("two mutexes 0") { (at_a, at_b) } else { (at_b, at_a) };
        assert_eq!((held.address(), thread.waits_for().address()), (has, wants));
        assert_eq!((held.kind(), held.mode()), ("Mutex", Mode::Exclusive));
        let shown = thread.to_string();
        assert!(shown.contains(&format!("waits for Mutex at {wants:#x} (exclusive)")), "{shown}");
        assert!(thread.backtrace().to_string().contains("takes_the_second"), "{}", thread.backtrace());
    }
    assert_ne!(cycle[0].thread_id(), cycle[1].thread_id());
    // It lasts, and so does the report.
    assert_eq!(cycles_of(&[at_a, at_b]).len(), 1);
}

/// Through three kinds of mutexes, two of which know cycles of their own kind only.
#[test]
fn three_mutexes_of_three_kinds() {
    let (a, b, c) = (kept(RtMutex::new(())), kept(FairMutex::new(())), kept(TreeRtMutex::new(())));
    let met = kept(Barrier::new(3));
    // SAFETY: only looked at.
    let locks = unsafe { [address(a.raw()), address(b.raw()), address(c.raw())] };
    macro_rules! order {
        ($first:ident, $second:ident) => {
            boxed(move || {
                let _first = $first.lock();
                met.wait();
                let _second = $second.lock();
            })
        };
    }
    let cycle = planted("three mutexes", &locks, vec![order!(a, b), order!(b, c), order!(c, a)]);
    let mut kinds: Vec<_> = cycle.iter().map(|thread| thread.waits_for().kind()).collect();
    kinds.sort_unstable();
    // Without PI futexes the one is the other.
    let rt_mutex = if cfg!(feature = "portable") { "TreeRtMutex" } else { "RtMutex" };
    assert_eq!(kinds, ["FairMutex", rt_mutex, "TreeRtMutex"]);
    // Each waits for what the next one has.
    for (thread, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
        assert_eq!(thread.waits_for().address(), next.holds()[0].address());
    }
}

#[test]
fn a_reader_of_one_writes_the_other() {
    let (a, b) = (kept(RwSem::new(())), kept(RwLock::new(())));
    let met = kept(Barrier::new(2));
    // SAFETY: only looked at.
    let locks = unsafe { [address(a.raw()), address(b.raw())] };
    let first = boxed(move || {
        let _reads = a.read();
        met.wait();
        let _writes = b.write();
    });
    let second = boxed(move || {
        let _reads = b.read();
        met.wait();
        let _writes = a.write();
    });
    let cycle = planted("readers and writers", &locks, vec![first, second]);
    assert!(cycle.iter().all(|thread| thread.holds()[0].mode() == Mode::Shared), "{cycle:?}");
    assert!(cycle.iter().all(|thread| thread.waits_for().mode() == Mode::Exclusive), "{cycle:?}");
}

/// A read inside a read, and a writer in between: no holder keeps the second read out.
#[test]
fn a_reader_behind_a_writer_that_waits_for_it() {
    let lock = kept(RwSem::new(()));
    let read = kept(AtomicBool::new(false));
    // SAFETY: only looked at.
    let at = unsafe { address(lock.raw()) };
    let reader = boxed(move || {
        let _outer = lock.read();
        read.store(true, Relaxed);
        loop {
            // Past the writer, until its turn is over.
            drop(lock.read());
            thread::yield_now();
        }
    });
    let writer = boxed(move || {
        while !read.load(Relaxed) {
            thread::yield_now();
        }
        let _writes = lock.write();
    });
    let cycle = planted("reader behind writer", &[at], vec![reader, writer]);
    assert!(cycle.iter().any(|thread| thread.waits_for().mode() == Mode::Shared), "{cycle:?}");
}

#[test]
fn a_thread_that_waits_for_itself() {
    let (mutex, lock) = (kept(Mutex::new(())), kept(RwLock::new(())));
    // SAFETY: only looked at.
    let (at_mutex, at_lock) = unsafe { (address(mutex.raw()), address(lock.raw())) };
    let twice = boxed(move || {
        let _held = mutex.lock();
        let _again = mutex.lock();
    });
    let cycle = planted("one mutex", &[at_mutex], vec![twice]);
    assert_eq!(cycle[0].name(), Some("one mutex 0"));
    let writes = boxed(move || {
        let _reads = lock.read();
        let _writes = lock.write();
    });
    planted("read, then write", &[at_lock], vec![writes]);
}

/// Two that read, each of which wants the other to go before it writes.
#[test]
fn an_upgrade_waits_for_a_reader_that_waits_for_the_upgrader() {
    let (lock, mutex) = (kept(RwLock::new(())), kept(Mutex::new(())));
    let met = kept(Barrier::new(2));
    // SAFETY: only looked at.
    let locks = unsafe { [address(lock.raw()), address(mutex.raw())] };
    let upgrader = boxed(move || {
        let _held = mutex.lock();
        let reads = lock.upgradable_read();
        met.wait();
        let _writes = RwLockUpgradableReadGuard::upgrade(reads);
    });
    let reader = boxed(move || {
        let _reads = lock.read();
        met.wait();
        let _held = mutex.lock();
    });
    let cycle = planted("upgrade", &locks, vec![upgrader, reader]);
    assert!(cycle.iter().any(|thread| thread.waits_for().mode() == Mode::Upgrading), "{cycle:?}");
}

/// What was upgraded without a wait, and released, is held no more.
#[test]
fn an_upgrade_at_once_is_released_once() {
    let lock = kept(RwLock::new(0));
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
            assert!((0..100).all(|_| cycles_of(&[address(raw)]).is_empty()));
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
    // SAFETY: only looked at.
    let locks = unsafe { [address(a.raw()), address(b.raw())] };
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
                assert!(cycles_of(&locks).is_empty());
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
                assert!(cycles_of(&locks).is_empty());
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
    let lock = kept(QRwLock::new(()));
    // SAFETY: only looked at.
    let locks = unsafe { [address(lock.raw())] };
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
                cycles_of(&locks).is_empty()
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
    // SAFETY: only looked at.
    let locks = unsafe {
        [
            address(first.raw()),
            address(second.raw()),
            address(third.raw()),
            address(fourth.raw()),
            address(fifth.raw()),
            address(last.raw()),
        ]
    };
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
                alarms = cycles_of(&locks);
                looks += 1;
            }
            // Before what may panic: the scope waits for its threads.
            over.store(true, Relaxed);
            assert!(alarms.is_empty(), "{alarms:?}");
            assert!(looks > 0 && *last.lock() > 0);
        });
    });
}
