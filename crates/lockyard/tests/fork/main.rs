//! A process that forks while its threads fight for locks.
//!
//! The child has one thread, the one that forked. What it held it still holds and can release, take
//! again, and use with new threads. What others held stays held: the child must not touch that. The
//! parent notices nothing.
//!
//! | file | what |
//! |---|---|
//! | `held` | locks that are held at the fork, by the forking thread or another, with waiters or without |
//! | `records` | names and records of threads in the child |

// This test is about the system's processes and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

#[path = "../child/mod.rs"]
mod child;
mod held;
mod records;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex as StdMutex, PoisonError};
use std::thread::scope;

use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard::platform::{Patience, Platform};
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::wait::osq::Osq;
use lockyard::{Mutex, RwSem, Semaphore, SpinLock};
use lockyard_check::adapters::Binary;
use lockyard_check::lock::{Held, Lock};
use lockyard_check::native::guarded;

use child::{crew, in_child};

/// One fork at a time.
static FORKING: StdMutex<()> = StdMutex::new(());

fn test(name: &str, body: impl FnOnce()) {
    let _forking = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    guarded(name, body);
}

/// Tells threads to stop when it is dropped: also where a check fails, or a scope would wait for
/// them for ever.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn check(condition: bool, why: &'static str) -> Result<(), &'static str> {
    condition.then_some(()).ok_or(why)
}

/// Threads of the child contend for `lock`.
fn contend<L: Lock<P = Linux>>(lock: &L) -> Result<(), &'static str> {
    let count = AtomicU32::new(0);
    crew(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for round in 0..200 {
                    let _held = Held::new(lock, L::WAYS[0]);
                    let seen = count.load(SeqCst);
                    Linux::nap(if round % 16 == 0 { 4 } else { 0 });
                    count.store(seen + 1, SeqCst);
                }
            });
        }
    });
    check(count.load(SeqCst) == 800, "the child's threads do not exclude each other")
}

/// Forks, again and again, while threads hammer all kinds of locks.
#[test]
fn fork_in_the_middle_of_contention() {
    test("fork under contention", || {
        let (spin, mutex, rwsem, semaphore) = (SpinLock::new(0), Mutex::new(0), RwSem::new(0), Semaphore::new(1));
        let stop = AtomicBool::new(false);
        let rounds = AtomicU32::new(0);
        scope(|threads| {
            let _stops = Stops(&stop);
            for _ in 0..3 {
                threads.spawn(|| {
                    while !stop.load(SeqCst) {
                        *spin.lock() += 1;
                        *mutex.lock() += 1;
                        *rwsem.write() += 1;
                        std::hint::black_box(*rwsem.read());
                        drop(semaphore.acquire());
                        rounds.fetch_add(1, SeqCst);
                    }
                });
            }
            for _ in 0..10 {
                let before = rounds.load(SeqCst);
                in_child(|| {
                    // Its own locks, on all paths.
                    contend(&RawQSpinLock::<Linux>::default())?;
                    contend(&RawMutex::<Linux>::default())?;
                    contend(&RawRwSem::<Linux>::default())?;
                    contend(&Binary::<RawSemaphore<Linux>>::default())
                });
                // The parent goes on.
                let mut round = 0;
                while rounds.load(SeqCst) < before + 10 {
                    Linux::nap(round);
                    round += 1;
                }
            }
        });
        assert_eq!((*spin.lock(), *mutex.lock()), (*rwsem.read(), rounds.load(SeqCst)));
    });
}

/// Of the parent's spinners none is here: the child's threads may spin.
#[test]
fn a_spinner_of_the_parent_keeps_no_thread_of_the_child_from_spinning() {
    test("fork with a spinner", || {
        let queue = Osq::<Linux>::new();
        let (spins, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let wait_for = |flag: &AtomicBool| {
            while !flag.load(SeqCst) {
                Linux::nap(6);
            }
        };
        scope(|threads| {
            let _stops = Stops(&stop);
            threads.spawn(|| {
                let me = Linux::current().unwrap();
                assert!(queue.join(me, Patience::ns(0)));
                spins.store(true, SeqCst);
                wait_for(&stop);
                queue.leave(me);
            });
            wait_for(&spins);
            in_child(|| {
                let me = Linux::current().ok_or("no record")?;
                check(queue.join(me, Patience::ns(0)), "behind a spinner that is not here")?;
                queue.leave(me);
                check(!queue.is_locked(), "not at rest")
            });
        });
        assert!(!queue.is_locked());
    });
}
