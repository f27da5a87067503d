//! The detector of feature `deadlock`: planted cycles are found and named. `no_deadlock` has what
//! is not to be reported.
//!
//! A planted deadlock stays until the program ends: its threads are never joined, its locks never
//! dropped. So each test looks for cycles of its own locks.

#![cfg(feature = "deadlock")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

#[cfg(not(feature = "portable"))]
use lockyard::CheckedMutex as _;
use lockyard::deadlock::{DeadlockedThread, Mode, check_deadlock};
use lockyard::{FairMutex, Mutex, RecursiveRwLock, RtMutex, RwLock, RwLockUpgradableReadGuard, RwSem, TreeRtMutex};
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
    let lock = kept(RwLock::new(()));
    // SAFETY: only looked at.
    let at_lock = unsafe { address(lock.raw()) };
    let upgrades = boxed(move || {
        let _reads = lock.read();
        let _writes = RwLockUpgradableReadGuard::upgrade(lock.upgradable_read());
    });
    planted("read, then upgrade", &[at_lock], vec![upgrades]);
}

/// An upgradable read waits for a writer also where plain reads do not.
#[test]
fn an_upgradable_read_behind_a_writer_that_waits_for_its_thread() {
    let lock = kept(RecursiveRwLock::new(()));
    // SAFETY: only looked at.
    let raw = unsafe { lock.raw() };
    let met = kept(Barrier::new(2));
    let reader = boxed(move || {
        let _outer = lock.read();
        met.wait();
        while !raw.is_contended() {
            thread::yield_now();
        }
        let _inner = lock.upgradable_read();
    });
    let writer = boxed(move || {
        met.wait();
        let _writes = lock.write();
    });
    let cycle = planted("upgradable read", &[address(raw)], vec![reader, writer]);
    assert!(cycle.iter().any(|thread| thread.waits_for().mode() == Mode::Upgradable), "{cycle:?}");
    assert!(cycle.iter().any(|thread| thread.to_string().ends_with("holds nothing")), "{cycle:?}");
}

/// A call that may fail waits without an end all the same.
#[cfg(not(feature = "portable"))]
#[test]
fn a_checked_lock_in_a_cycle() {
    let (mutex, inheriting) = (kept(Mutex::new(())), kept(RtMutex::new(())));
    let met = kept(Barrier::new(2));
    // SAFETY: only looked at.
    let locks = unsafe { [address(mutex.raw()), address(inheriting.raw())] };
    let checked = boxed(move || {
        let _held = mutex.lock();
        met.wait();
        let _never = inheriting.lock_checked();
    });
    let other = boxed(move || {
        let _held = inheriting.lock();
        met.wait();
        let _never = mutex.lock();
    });
    planted("checked", &locks, vec![checked, other]);
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
