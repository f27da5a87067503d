//! Errno is the caller's: no lock operation touches it, not on its slowest path.

use std::sync::Barrier;
use std::thread::scope;
use std::time::Duration;

use lockyard::cancel::Until;
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::rtmutex::{RawRtMutex, policy as pi};
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::{CancelToken, RtCondvar, RtMutex, Semaphore};
use lockyard_check::adapters::Binary;
use lockyard_check::lock::{Lock, Timed};
use lockyard_check::native::guarded;

/// A value that no system call returns.
const MARK: i32 = 4242;

fn errno() -> *mut i32 {
    // SAFETY: always answers for the calling thread.
    unsafe { libc::__errno_location() }
}

/// Runs `operations` and checks that errno is as before.
fn untouched(what: &str, operations: impl FnOnce()) {
    // SAFETY: the calling thread's own.
    unsafe { *errno() = MARK };
    operations();
    // SAFETY: the calling thread's own.
    assert_eq!(unsafe { *errno() }, MARK, "{what} changed errno");
}

fn contended<L: Lock<P = Linux>>(name: &str) {
    let lock = L::default();
    let start = Barrier::new(4);
    scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                start.wait();
                // The thread's first lock registers it: that, too.
                untouched(name, || {
                    for round in 0..400 {
                        let way = L::WAYS[round % L::WAYS.len()];
                        lock.lock(way);
                        Linux::nap(if round % 16 == 0 { 4 } else { 0 });
                        // SAFETY: locked above.
                        unsafe { lock.unlock(way) };
                        if lock.try_lock(way) {
                            // SAFETY: just taken.
                            unsafe { lock.unlock(way) };
                        }
                    }
                });
            });
        }
    });
}

fn ending<L: Timed<P = Linux>>(name: &str) {
    let lock = L::default();
    let token = CancelToken::new();
    for &way in L::WAYS {
        lock.lock(L::WAYS[0]);
        scope(|threads| {
            threads.spawn(|| {
                untouched(name, || {
                    assert!(lock.lock_until(way, Until::deadline(0)).is_err());
                    assert!(lock.lock_until(way, Until::after(2_000_000)).is_err());
                });
            });
            threads.spawn(|| untouched(name, || assert!(lock.lock_until(way, Until::cancelled(&token)).is_err())));
            untouched(name, || token.cancel());
        });
        // SAFETY: locked above.
        unsafe { lock.unlock(L::WAYS[0]) };
    }
}

#[test]
fn contended_operations_leave_errno_alone() {
    guarded("errno", || {
        contended::<RawQSpinLock<Linux>>("a spinlock");
        contended::<RawMutex<Linux>>("a mutex");
        contended::<RawTreeRtMutex<Linux>>("an rt-mutex");
        contended::<RawRtMutex<Linux>>("a PI mutex");
        contended::<RawRtMutex<Linux, pi::Merged>>("a PI mutex whose waiters are in the kernel");
        contended::<RawRwSem<Linux>>("an rwsem");
        contended::<KernelRwSem<Linux, policy::TodayKernel>>("the kernel's rwsem");
        contended::<Binary<RawSemaphore<Linux>>>("a semaphore");
        contended::<Binary<KernelSemaphore<Linux, DirectHandoff>>>("a semaphore with direct handoff");
    });
}

#[test]
fn ended_waits_leave_errno_alone() {
    guarded("errno", || {
        ending::<RawMutex<Linux>>("a mutex");
        ending::<RawTreeRtMutex<Linux>>("an rt-mutex");
        ending::<RawRtMutex<Linux>>("a PI mutex");
        ending::<RawRtMutex<Linux, pi::Merged>>("a PI mutex whose waiters are in the kernel");
        ending::<RawRwSem<Linux>>("an rwsem");
        ending::<KernelRwSem<Linux, policy::TodayKernel>>("the kernel's rwsem");
        ending::<Binary<RawSemaphore<Linux>>>("a semaphore");
        ending::<Binary<KernelSemaphore<Linux, DirectHandoff>>>("a semaphore with direct handoff");
    });
}

#[test]
fn a_pi_condition_variable_leaves_errno_alone() {
    guarded("errno", || {
        let (turn, changed) = (RtMutex::new(0u32), RtCondvar::new());
        let play = |mine: u32| {
            untouched("a condition variable", || {
                for _ in 0..200 {
                    let mut turn = turn.lock();
                    changed.wait_while(&mut turn, |turn| *turn % 2 != mine);
                    *turn += 1;
                    changed.notify_one();
                    changed.wait_for(&mut turn, Duration::from_nanos(1));
                }
            });
        };
        scope(|threads| {
            threads.spawn(|| play(0));
            play(1);
        });
    });
}

#[test]
fn a_semaphores_up_leaves_errno_alone() {
    guarded("errno", || {
        let semaphore = Semaphore::new(0);
        let raw = KernelSemaphore::<Linux, DirectHandoff>::with_units(0);
        scope(|threads| {
            threads.spawn(|| (0..200).for_each(|_| semaphore.acquire().forget()));
            threads.spawn(|| (0..200).for_each(|_| raw.down()));
            untouched("up", || {
                for round in 0..200 {
                    assert!(semaphore.release(1) && raw.up());
                    Linux::nap(if round % 8 == 0 { 4 } else { 0 });
                }
            });
        });
    });
}
