//! What cannot be granted is refused, and nobody hangs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread::{scope, spawn};
use std::time::Duration;

use lockyard::cancel::Until;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::rtmutex::{Lateral, Policy, RawRtMutex, policy};
use lockyard::{CancelToken, CheckedMutex, PiError, RtMutex, TreeRtMutex};

use crate::scene::{Gate, alone, state, thread_name};

type Raw<S = Lateral> = RawRtMutex<Linux, S>;

/// Runs `act`, which must panic, and gives its message and the line.
fn told(act: impl FnOnce()) -> (String, u32) {
    let (tell, told) = channel();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().filter(|place| place.file() == file!());
        let _ = tell.send(place.map_or(0, |place| place.line()));
    }));
    let outcome = catch_unwind(AssertUnwindSafe(act));
    std::panic::set_hook(hook);
    let panic = outcome.expect_err("a panic");
    (panic.downcast::<String>().map(|text| *text).expect("a message"), told.recv().expect("a place"))
}

fn message(act: impl FnOnce()) -> String {
    told(act).0
}

#[test]
fn the_owner_cannot_lock_again() {
    fn refuses<S: Policy>() {
        let mutex = Raw::<S>::default();
        mutex.acquire().unwrap();
        assert_eq!(mutex.acquire(), Err(PiError::Deadlock));
        assert_eq!(mutex.acquire_until(Until::after(1_000_000_000)), Err(PiError::Deadlock));
        assert!(!mutex.try_acquire());
        // SAFETY: acquired above.
        assert_eq!(unsafe { mutex.release() }, Ok(()));
        assert_eq!(mutex.acquire(), Ok(()));
        // SAFETY: as above.
        assert_eq!(unsafe { mutex.release() }, Ok(()));
    }
    alone("relock", || {
        refuses::<Lateral>();
        refuses::<policy::Merged>();
        refuses::<policy::Published>();
        refuses::<policy::Off>();
    });
}

#[test]
fn lock_panics_where_it_would_hang() {
    alone("relock through lock_api", || {
        let mutex = RtMutex::new(());
        let held = mutex.lock();
        assert!(message(|| drop(mutex.lock())).contains("would deadlock"));
        assert!(message(|| drop(mutex.try_lock_for(Duration::from_secs(10)))).contains("would deadlock"));
        assert!(mutex.try_lock().is_none());
        drop(held);
        drop(mutex.lock());
    });
}

/// The line was one of the library.
#[test]
fn a_refused_lock_call_names_the_line_that_made_it() {
    alone("the place of a panic", || {
        let (mutex, tree) = (RtMutex::new(()), TreeRtMutex::new(()));
        let _held = (mutex.lock(), tree.lock());
        let second = Duration::from_secs(1);
        let here = line!();
        assert_eq!(told(|| drop(mutex.lock())).1, here + 1);
        assert_eq!(told(|| drop(tree.lock())).1, here + 2);
        assert_eq!(told(|| drop(mutex.try_lock_for(second))).1, here + 3);
        assert_eq!(told(|| drop(tree.try_lock_for(second))).1, here + 4);
    });
}

/// Threads in a ring each hold one lock and ask for the next one's. All then get through. Gives how
/// many were refused.
fn ring<S: Policy>(length: usize, mut let_go: impl FnMut(&[Gate], &[Raw<S>], &[i32])) -> Vec<bool> {
    let ring: Vec<Raw<S>> = (0..length).map(|_| Raw::default()).collect();
    let gates: Vec<Gate> = (0..length).map(|_| Gate::default()).collect();
    let (told, names) = channel();
    let refused = scope(|threads| {
        let running: Vec<_> = (0..length)
            .map(|place| {
                let (ring, gate, told) = (&ring, &gates[place], told.clone());
                threads.spawn(move || {
                    ring[place].acquire().unwrap();
                    told.send((place, thread_name())).unwrap();
                    gate.pass();
                    let next = &ring[(place + 1) % length];
                    let outcome = next.acquire();
                    if outcome.is_ok() {
                        // SAFETY: acquired above.
                        unsafe { next.release() }.unwrap();
                    }
                    // SAFETY: as above.
                    unsafe { ring[place].release() }.unwrap();
                    assert!(matches!(outcome, Ok(()) | Err(PiError::Deadlock)), "{outcome:?}");
                    outcome.is_err()
                })
            })
            .collect();
        let mut names: Vec<_> = names.iter().take(length).collect();
        names.sort_unstable();
        let names: Vec<_> = names.into_iter().map(|(_, name)| name).collect();
        let_go(&gates, &ring, &names);
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(ring.iter().all(|lock| !lock.is_locked() && !lock.is_contended()));
    refused
}

/// One after the other, each when the one before sleeps: it is the last, who closes the ring, that
/// is refused, and nobody else.
#[test]
fn who_closes_a_cycle_of_two_to_eight_locks_is_refused() {
    fn one_by_one<S: Policy>(length: usize) {
        let refused = ring::<S>(length, |gates, ring, names| {
            for place in 0..length {
                gates[place].open();
                while place + 1 < length && !(ring[place + 1].is_contended() && state(names[place]) == Some('S')) {
                    std::thread::yield_now();
                }
            }
        });
        let closes: Vec<bool> = (1..=length).map(|place| place == length).collect();
        assert_eq!(refused, closes);
    }
    alone("cycles", || {
        for length in 2..=8 {
            one_by_one::<Lateral>(length);
            one_by_one::<policy::Off>(length);
        }
    });
}

/// All at once: somebody is refused, whoever else sees the ring closed may be, and nobody hangs.
#[test]
fn a_cycle_closed_by_several_at_once_ends() {
    fn at_once<S: Policy>(length: usize) {
        let refused = ring::<S>(length, |gates, _, _| gates.iter().for_each(Gate::open));
        assert!(refused.contains(&true), "ring of {length}");
    }
    alone("cycles", || {
        for length in 2..=8 {
            at_once::<Lateral>(length);
            at_once::<policy::Off>(length);
        }
    });
}

#[test]
fn only_the_owner_unlocks() {
    alone("unlock by another", || {
        let mutex = Raw::<Lateral>::default();
        // SAFETY: refused.
        assert_eq!(unsafe { mutex.release() }, Err(PiError::NotOwner), "free");
        mutex.acquire().unwrap();
        scope(|threads| {
            // SAFETY: refused.
            threads.spawn(|| assert_eq!(unsafe { mutex.release() }, Err(PiError::NotOwner)));
        });
        assert!(mutex.is_locked());
        // SAFETY: acquired above.
        assert_eq!(unsafe { mutex.release() }, Ok(()));
        // Nor after it has.
        // SAFETY: refused.
        assert_eq!(unsafe { mutex.release() }, Err(PiError::NotOwner));
        let mutex = RtMutex::new(());
        // SAFETY: refused, by a panic.
        assert!(message(|| unsafe { mutex.force_unlock(lock_api::GuardNoSend::new()) }).contains("does not own it"));
    });
}

/// The owner has exited: a thread that asks is told, whether it came before or after, and however
/// it waits.
#[test]
fn a_dead_owners_mutex_stays_locked_and_says_so() {
    fn refuses<S: Policy>() {
        // Nobody waited when it exited.
        let mutex: &'static Raw<S> = Box::leak(Box::default());
        spawn(|| mutex.acquire().unwrap()).join().unwrap();
        assert_eq!(mutex.acquire(), Err(PiError::OwnerDied));
        assert_eq!(mutex.acquire_until(Until::after(1_000_000_000)), Err(PiError::OwnerDied));
        assert!(!mutex.try_acquire() && mutex.is_locked());

        // Several wait: among equals and, since they hold another mutex, in the kernel.
        let mutex: &'static Raw<S> = Box::leak(Box::default());
        let (held, exit) = (Gate::default(), Gate::default());
        scope(|threads| {
            threads.spawn(|| {
                mutex.acquire().unwrap();
                held.open();
                exit.pass();
            });
            held.pass();
            for place in 0..4 {
                threads.spawn(move || {
                    let other = Raw::<S>::default();
                    if place % 2 == 0 {
                        other.acquire().unwrap();
                    }
                    assert_eq!(mutex.acquire(), Err(PiError::OwnerDied));
                    if place % 2 == 0 {
                        // SAFETY: acquired above.
                        unsafe { other.release() }.unwrap();
                    }
                });
            }
            let mut round = 0;
            while !mutex.is_contended() {
                Linux::nap(round);
                round += 1;
            }
            exit.open();
        });
        assert_eq!(mutex.acquire(), Err(PiError::OwnerDied));
        assert!(!mutex.try_acquire() && mutex.is_locked());
    }
    /// A thread comes while the kernel passes on what the dead owner left. Between its exit and the
    /// heir's next look the word names a thread that the kernel has forgotten, and the kernel calls
    /// that corrupt.
    fn refuses_newcomers() {
        let mutex: &'static Raw<policy::Off> = Box::leak(Box::default());
        let (held, exit) = (Gate::default(), Gate::default());
        let over = AtomicBool::new(false);
        scope(|threads| {
            threads.spawn(|| {
                mutex.acquire().unwrap();
                held.open();
                exit.pass();
            });
            held.pass();
            threads.spawn(|| {
                let found = mutex.acquire();
                over.store(true, Relaxed);
                assert_eq!(found, Err(PiError::OwnerDied));
            });
            let mut round = 0;
            while !mutex.is_contended() {
                Linux::nap(round);
                round += 1;
            }
            for _ in 0..2 {
                threads.spawn(|| {
                    while !over.load(Relaxed) {
                        let found = mutex.acquire_until(Until::after(50_000));
                        assert!(matches!(found, Err(PiError::TimedOut | PiError::OwnerDied)), "{found:?}");
                    }
                });
            }
            exit.open();
        });
        assert_eq!(mutex.acquire(), Err(PiError::OwnerDied));
    }
    alone("owner died", || {
        for _ in 0..100 {
            refuses_newcomers();
        }
        refuses::<Lateral>();
        refuses::<policy::Off>();
        let mutex: &'static RtMutex<u32> = Box::leak(Box::new(RtMutex::new(1)));
        spawn(|| std::mem::forget(mutex.lock())).join().unwrap();
        assert!(mutex.try_lock().is_none());
        assert!(message(|| drop(mutex.lock())).contains("its owner exited"));
        assert_eq!(mutex.lock_checked().map(drop), Err(PiError::OwnerDied));
    });
}

#[test]
fn deadlines_and_tokens_end_waits() {
    alone("deadlines and tokens", || {
        let mutex = RtMutex::new(5);
        let token = CancelToken::new();
        // A free mutex is taken whatever the wait says.
        token.cancel();
        assert_eq!(mutex.lock_checked_until(Until::cancelled(&token)).map(|value| *value), Ok(5));
        assert_eq!(mutex.lock_checked_until(Until::deadline(1)).map(|value| *value), Ok(5));
        let _held = mutex.lock();
        scope(|threads| {
            for nested in [false, true] {
                let (mutex, token) = (&mutex, &token);
                threads.spawn(move || {
                    let other = RtMutex::new(());
                    let _other = nested.then(|| other.lock());
                    assert!(mutex.try_lock_for(Duration::from_millis(2)).is_none());
                    let ended = |until| mutex.lock_checked_until(until).map(drop);
                    assert_eq!(ended(Until::after(2_000_000)), Err(PiError::TimedOut));
                    assert_eq!(ended(Until::cancelled(token)), Err(PiError::Cancelled));
                    let live = CancelToken::new();
                    assert_eq!(ended(Until::after(2_000_000).or_cancelled(&live)), Err(PiError::TimedOut));
                });
            }
        });
    });
}
