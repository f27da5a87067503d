//! Waiters that a signal handler keeps, as a collector does that stops the world: one that goes on
//! needs the lock that they wait for, which nobody holds.
//!
//! None is stopped in a window, in which a lock inside the lock may be its own.

// Threads and signals of the system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread::scope;

use lockyard::platform::Platform;
use lockyard::platform::linux::{Linux, threads};
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::EagerHq;
use lockyard_check::lock::{Lock, Way};
use lockyard_check::native::guarded;

static STOPPED: AtomicU32 = AtomicU32::new(0);
static GO: AtomicBool = AtomicBool::new(false);
/// A thread was in a window, and is to be stopped later.
static AGAIN: AtomicBool = AtomicBool::new(false);

/// One world at a time: there is one handler.
static WORLD: Mutex<()> = Mutex::new(());

extern "C" fn stop(_signal: i32) {
    if threads::is_in_window() {
        AGAIN.store(true, SeqCst);
        return;
    }
    STOPPED.fetch_add(1, SeqCst);
    wait_until(|| GO.load(SeqCst));
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        Linux::nap(8);
    }
}

fn wait_ns(ns: u64) {
    let end = Linux::now() + ns;
    wait_until(|| Linux::now() >= end);
}

/// Stops `waiters` that have waited for `waited` ns, releases the lock, and takes it five times.
fn others_get_it<L: Lock<P = Linux>>(waiters: usize, waited: u64, tries: bool) {
    let lock = L::default();
    let served = AtomicU32::new(0);
    let names: Vec<AtomicUsize> = (0..waiters).map(|_| AtomicUsize::new(0)).collect();
    STOPPED.store(0, SeqCst);
    GO.store(false, SeqCst);
    lock.lock(Way::Write);
    scope(|scope| {
        let way = |number: usize| L::WAYS[number % L::WAYS.len()];
        for (number, thread) in names.iter().enumerate() {
            let (lock, served, way) = (&lock, &served, way(number));
            scope.spawn(move || {
                // SAFETY: names the calling thread.
                thread.store(unsafe { libc::pthread_self() } as usize, SeqCst);
                lock.lock(way);
                served.fetch_add(1, SeqCst);
                // SAFETY: acquired above.
                unsafe { lock.unlock(way) };
            });
        }
        wait_until(|| names.iter().all(|thread| thread.load(SeqCst) != 0));
        wait_ns(waited);
        AGAIN.store(true, SeqCst);
        wait_until(|| {
            if AGAIN.swap(false, SeqCst) {
                for thread in &names {
                    // SAFETY: the thread waits for a lock that we hold.
                    unsafe { libc::pthread_kill(thread.load(SeqCst) as libc::pthread_t, libc::SIGUSR2) };
                }
            }
            STOPPED.load(SeqCst) == waiters as u32
        });
        // SAFETY: acquired above.
        unsafe { lock.unlock(Way::Write) };
        for way in (0..5).map(way) {
            if tries {
                wait_until(|| lock.try_lock(way));
            } else {
                lock.lock(way);
            }
            assert_eq!(served.load(SeqCst), 0);
            // SAFETY: acquired above.
            unsafe { lock.unlock(way) };
        }
        // One that has to queue for it gets it as well.
        lock.lock(Way::Write);
        let late = scope.spawn(|| {
            lock.lock(Way::Write);
            // SAFETY: acquired above.
            unsafe { lock.unlock(Way::Write) };
        });
        wait_ns(2_000_000);
        // SAFETY: acquired above.
        unsafe { lock.unlock(Way::Write) };
        late.join().unwrap();
        assert_eq!(served.load(SeqCst), 0);
        GO.store(true, SeqCst);
    });
    assert_eq!(served.load(SeqCst), waiters as u32);
    assert!(lock.at_rest());
}

fn for_all_waits<L: Lock<P = Linux>>(name: &str) {
    let _world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: a plain handler, which waits.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stop as extern "C" fn(i32) as usize;
        libc::sigemptyset(&mut action.sa_mask);
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
    for waited in [0, 1, 20, 200] {
        for waiters in [1, 2, 16, 64] {
            for tries in [false, true] {
                guarded(&format!("{name}: {waiters} stopped after {waited} ms, tries: {tries}"), || {
                    others_get_it::<L>(waiters, waited * 1_000_000, tries);
                });
            }
        }
    }
}

#[test]
fn a_spinlock_is_not_kept_for_stopped_waiters() {
    for_all_waits::<RawQSpinLock<Linux>>("plain");
}

#[test]
fn a_reader_writer_spinlock_is_not_kept_for_stopped_waiters() {
    for_all_waits::<RawQRwLock<Linux>>("qrwlock");
}

#[test]
fn a_cna_spinlock_is_not_kept_for_stopped_waiters() {
    for_all_waits::<RawCnaSpinLock<Linux>>("cna");
}

#[test]
fn a_hierarchical_spinlock_is_not_kept_for_stopped_waiters() {
    for_all_waits::<RawHqSpinLock<Linux>>("hq");
    for_all_waits::<EagerHq<Linux, 4>>("hq, by node");
}

#[test]
fn an_rt_mutex_with_its_own_tree_is_not_kept_for_stopped_waiters() {
    for_all_waits::<RawTreeRtMutex<Linux>>("rtmutex-tree");
}
