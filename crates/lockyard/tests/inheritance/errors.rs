//! What cannot be granted is refused, and nobody hangs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{scope, spawn};
use std::time::Duration;

use lockyard::cancel::Until;
use lockyard::pi_mutex::{Lateral, Policy, RawPiMutex, policy};
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::{CancelToken, CheckedMutex, PiError, RtMutex};
use lockyard_check::native::guarded;

use crate::scene::Gate;

type Raw<S = Lateral> = RawPiMutex<Linux, S>;

/// Runs `act`, which must panic, and gives its message.
fn message(act: impl FnOnce()) -> String {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = catch_unwind(AssertUnwindSafe(act));
    std::panic::set_hook(hook);
    let panic = outcome.expect_err("a panic");
    panic.downcast::<String>().map(|text| *text).expect("a message")
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
    guarded("relock", || {
        refuses::<Lateral>();
        refuses::<policy::Merged>();
        refuses::<policy::Published>();
        refuses::<policy::Off>();
    });
}

#[test]
fn lock_panics_where_it_would_hang() {
    guarded("relock through lock_api", || {
        let mutex = RtMutex::new(());
        let held = mutex.lock();
        assert!(message(|| drop(mutex.lock())).contains("would deadlock"));
        assert!(message(|| drop(mutex.try_lock_for(Duration::from_secs(10)))).contains("would deadlock"));
        assert!(mutex.try_lock().is_none());
        drop(held);
        drop(mutex.lock());
    });
}

/// Threads in a ring each hold one lock and wait for the next one's: exactly one of them is refused, then all get through.
#[test]
fn a_cycle_of_two_to_eight_locks_is_refused_once() {
    fn ring<S: Policy>(length: usize) {
        let ring: Vec<Raw<S>> = (0..length).map(|_| Raw::default()).collect();
        let (held, go) = (Gate::default(), Gate::default());
        let refused: usize = scope(|threads| {
            let running: Vec<_> = (0..length)
                .map(|place| {
                    let (ring, held, go) = (&ring, &held, &go);
                    threads.spawn(move || {
                        ring[place].acquire().unwrap();
                        held.open();
                        go.pass();
                        let next = &ring[(place + 1) % length];
                        let outcome = next.acquire();
                        if outcome.is_ok() {
                            // SAFETY: acquired above.
                            unsafe { next.release() }.unwrap();
                        }
                        // SAFETY: as above.
                        unsafe { ring[place].release() }.unwrap();
                        match outcome {
                            Ok(()) => 0,
                            Err(error) => {
                                assert_eq!(error, PiError::Deadlock);
                                1
                            }
                        }
                    })
                })
                .collect();
            (0..length).for_each(|_| held.pass());
            (0..length).for_each(|_| go.open());
            running.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(refused, 1, "ring of {length}");
        assert!(ring.iter().all(|lock| !lock.is_locked() && !lock.is_contended()));
    }
    guarded("cycles", || {
        for length in 2..=8 {
            ring::<Lateral>(length);
            ring::<policy::Off>(length);
        }
    });
}

#[test]
fn only_the_owner_unlocks() {
    guarded("unlock by another", || {
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

/// The owner has exited: whoever asks is told, whether it came before or after, and however it waits.
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
    guarded("owner died", || {
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
    guarded("deadlines and tokens", || {
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
