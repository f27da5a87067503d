//! Real signals: handlers that take other locks while the thread that they interrupt waits, holds
//! or releases. (Every interleaving, step by step, is in `history/signals`.)

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex as StdMutex, PoisonError};
use std::thread::scope;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::{Mutex, RwSem, Semaphore, SpinLock};
use lockyard_check::native::guarded;

/// The handler's locks; the interrupted code takes others.
static SPIN: SpinLock<u64> = SpinLock::new(0);
static MUTEX: Mutex<u64> = Mutex::new(0);
static RWSEM: RwSem<u64> = RwSem::new(0);
static SEMAPHORE: Semaphore = Semaphore::new(1);
static HANDLED: AtomicU32 = AtomicU32::new(0);
static TRIED: AtomicU32 = AtomicU32::new(0);
/// 0: the handler only tries; 1: it waits.
static MODE: AtomicI32 = AtomicI32::new(0);

/// One test at a time: there is one handler.
static STAGE: StdMutex<()> = StdMutex::new(());

extern "C" fn handler(_signal: i32) {
    if MODE.load(SeqCst) == 0 {
        let mut taken = 0;
        if let Some(mut value) = SPIN.try_lock() {
            *value += 1;
            taken += 1;
        }
        if let Some(mut value) = MUTEX.try_lock() {
            *value += 1;
            taken += 1;
        }
        if let Some(mut value) = RWSEM.try_write() {
            *value += 1;
            taken += 1;
        }
        taken += u32::from(SEMAPHORE.try_acquire().is_some());
        TRIED.fetch_add(taken, SeqCst);
    } else {
        *SPIN.lock() += 1;
        *MUTEX.lock() += 1;
        *RWSEM.write() += 1;
        drop(SEMAPHORE.acquire());
        std::hint::black_box(*RWSEM.read());
    }
    HANDLED.fetch_add(1, SeqCst);
}

fn install(flags: i32) {
    // SAFETY: a plain handler; it calls nothing but lock operations, which is what is under test.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as usize;
        action.sa_flags = flags;
        libc::sigemptyset(&mut action.sa_mask);
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// `waiter` runs on a thread that is sent signals until it has returned, one after the other.
fn bombarded(waiter: impl FnOnce() + Send) {
    let target = std::sync::OnceLock::new();
    let done = AtomicBool::new(false);
    scope(|threads| {
        threads.spawn(|| {
            // SAFETY: no arguments.
            target.set(unsafe { libc::pthread_self() }).expect("set once");
            waiter();
            done.store(true, SeqCst);
            // Stay until the sender has seen it: its last signal must have a thread to go to.
            while target.get().is_some() && done.load(SeqCst) {
                Linux::nap(0);
            }
        });
        let target = *target.wait();
        while !done.load(SeqCst) {
            let before = HANDLED.load(SeqCst);
            // SAFETY: the thread waits for us to clear `done` before it exits.
            assert_eq!(unsafe { libc::pthread_kill(target, libc::SIGUSR1) }, 0);
            let mut round = 0;
            while HANDLED.load(SeqCst) == before {
                Linux::nap(round);
                round += 1;
            }
        }
        done.store(false, SeqCst);
    });
}

/// Threads that keep the handler's locks busy, while `act` runs.
fn busy(act: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !stop.load(SeqCst) {
                    *SPIN.lock() += 1;
                    *MUTEX.lock() += 1;
                    *RWSEM.write() += 1;
                    drop(SEMAPHORE.acquire());
                    Linux::nap(0);
                }
            });
        }
        act();
        stop.store(true, SeqCst);
    });
}

/// A thread that locks and waits all the time is interrupted all the time.
fn interrupted(name: &str, mode: i32, flags: i32) {
    let _stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    guarded(name, || {
        install(flags);
        MODE.store(mode, SeqCst);
        let handled = HANDLED.load(SeqCst);
        let (spin, mutex, rwsem, semaphore) = (SpinLock::new(0), Mutex::new(0), RwSem::new(0), Semaphore::new(1));
        let work = || {
            for round in 0..300 {
                *spin.lock() += 1;
                {
                    let mut value = mutex.lock();
                    *value += 1;
                    Linux::nap(if round % 16 == 0 { 4 } else { 0 });
                }
                *rwsem.write() += 1;
                std::hint::black_box(*rwsem.read());
                drop(semaphore.acquire());
            }
        };
        busy(|| {
            scope(|threads| {
                threads.spawn(work);
                bombarded(work);
            });
        });
        assert_eq!((*spin.lock(), *mutex.lock(), *rwsem.read(), semaphore.available()), (600, 600, 600, 1));
        assert!(HANDLED.load(SeqCst) > handled);
    });
}

#[test]
fn a_handler_tries_locks_while_its_thread_waits() {
    interrupted("signals: try", 0, libc::SA_RESTART);
    assert!(TRIED.load(SeqCst) > 0, "no try in a handler ever succeeded");
}

#[test]
fn a_handler_tries_locks_without_restart() {
    interrupted("signals: try, no restart", 0, 0);
}

#[test]
fn a_handler_waits_for_locks_while_its_thread_waits() {
    interrupted("signals: lock", 1, libc::SA_RESTART);
}

#[test]
fn a_handler_waits_for_locks_without_restart() {
    interrupted("signals: lock, no restart", 1, 0);
}
