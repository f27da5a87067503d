//! The mutex's own states: what the word and the flags are when, and whom they bind.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // the tests' threads are the machine's

mod kernel;
pub(crate) mod machine;

use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};
use std::thread::{scope, yield_now};

use super::*;
use crate::event::Snapshot;
use crate::platform::linux::Linux;

type Raw<S = Lateral> = RawRtMutex<Linux, S>;

/// Events are the process's: the tests that count them take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: StdMutex<()> = StdMutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The mark of a top waiter that comes now, on the tests' [`machine`].
pub(crate) const SPINS: u32 = TOP_SPINS | ((machine::NOW >> 10) as u32) << SINCE;

/// The word and the flags.
fn state<S: Policy>(mutex: &Raw<S>) -> (u32, u32) {
    (mutex.word().load(SeqCst), mutex.flags().load(SeqCst))
}

fn release<S: Policy>(mutex: &Raw<S>) {
    // SAFETY: the tests hold what they release.
    unsafe { mutex.release() }.unwrap();
}

fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        yield_now();
    }
}

/// Runs `act` on a thread that holds another mutex: it is no lateral waiter.
fn nested<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    scope(|threads| {
        let holding = || {
            let other = Raw::<Lateral>::default();
            other.acquire().unwrap();
            let result = act();
            release(&other);
            result
        };
        threads.spawn(holding).join().unwrap()
    })
}

#[test]
fn without_contention_the_word_is_0_or_the_owners_id() {
    let mutex = Raw::<Lateral>::default();
    let me = Linux::register();
    for _ in 0..2 {
        assert_eq!(state(&mutex), (0, 0));
        mutex.acquire().unwrap();
        assert_eq!(state(&mutex), (me, 0));
        assert!(mutex.is_locked() && !mutex.is_contended());
        release(&mutex);
        assert!(mutex.try_acquire());
        assert_eq!(state(&mutex), (me, 0));
        release(&mutex);
    }
    assert_eq!(state(&mutex), (0, 0));
}

#[test]
fn holds_are_counted() {
    let (a, b) = (Raw::<Lateral>::default(), Raw::<policy::Off>::default());
    let before = Linux::holds();
    a.acquire().unwrap();
    assert!(b.try_acquire());
    assert_eq!(Linux::holds(), before + 2);
    assert_eq!(a.acquire(), Err(PiError::Deadlock));
    assert!(!b.try_acquire());
    assert_eq!(Linux::holds(), before + 2);
    release(&a);
    release(&b);
    assert_eq!(Linux::holds(), before);
}

#[test]
fn a_thread_that_never_locked_unlocks_nothing() {
    let mutex = Raw::<Lateral>::default();
    // SAFETY: refused, so nothing relies on it.
    let try_release = || scope(|threads| threads.spawn(|| unsafe { mutex.release() }).join().unwrap());
    assert_eq!(try_release(), Err(PiError::NotOwner), "free: its word is not that of who has no id yet");
    assert_eq!(state(&mutex), (0, 0));
    mutex.acquire().unwrap();
    assert_eq!(try_release(), Err(PiError::NotOwner));
    assert_eq!(state(&mutex), (Linux::register(), 0));
    release(&mutex);
}

#[test]
fn a_waiter_in_the_kernel_marks_the_word_and_is_handed_it() {
    fn hands_over<S: Policy>() {
        let mutex = Raw::<S>::default();
        let me = Linux::register();
        mutex.acquire().unwrap();
        scope(|threads| {
            let waiter = threads.spawn(|| {
                nested(|| {
                    mutex.acquire().unwrap();
                    let word = mutex.word().load(SeqCst);
                    release(&mutex);
                    (word, Linux::register())
                })
            });
            until(|| mutex.word().load(SeqCst) & WAITERS != 0);
            assert_eq!(mutex.word().load(SeqCst), me | WAITERS);
            assert!(mutex.is_contended() && !mutex.try_acquire());
            release(&mutex);
            // Its own from the release on, before it has run; it is never free in between.
            let (word, tid) = waiter.join().unwrap();
            assert_eq!(word & OWNER, tid);
            assert_ne!(word & WAITERS, 0);
        });
        assert_eq!(state(&mutex), (0, 0));
    }
    hands_over::<Lateral>();
    hands_over::<policy::Merged>();
    hands_over::<policy::Published>();
    hands_over::<policy::Off>();
}

#[test]
fn a_lateral_waiter_does_not_enter_the_kernel_before_its_turn_is_over_and_does_then() {
    let _alone = alone();
    let mutex = Raw::<Lateral>::default();
    mutex.acquire().unwrap();
    let before = Snapshot::now();
    let happened = |event| Snapshot::now().since(&before).get(event);
    scope(|threads| {
        threads.spawn(|| {
            mutex.acquire().unwrap();
            release(&mutex);
        });
        // Nobody releases it: the turn passes, and the waiter goes where nobody can pass it.
        until(|| mutex.word().load(SeqCst) & WAITERS != 0);
        // With `portable` the events are the other machine's.
        if cfg!(all(feature = "events", not(feature = "portable"))) {
            assert!(happened(Event::PiMutexHandoff) > 0 && happened(Event::PiMutexOptFail) > 0);
        }
        release(&mutex);
    });
    assert_eq!(state(&mutex), (0, 0));
}

#[test]
fn nobody_takes_a_free_mutex_from_a_spinning_top_waiter() {
    // Until the mark was young for the whole of it.
    until(|| {
        let begun = Linux::now();
        let mutex = Raw::<Lateral>::default();
        let mark = mutex.mark().unwrap();
        let tried = mutex.try_acquire();
        let came = nested(|| {
            // There is one slot: a thread that finds it taken waits in the kernel, and leaves the
            // slot to its owner.
            let came = (mutex.try_acquire(), mutex.spin(Linux::register(), 1_000, Until::FOREVER), mutex.acquire());
            release(&mutex);
            came
        });
        let young = Linux::now() < begun + RESERVED_NS;
        if young {
            assert_eq!((tried, came, state(&mutex)), (false, (false, false, Ok(())), (0, mark)));
        }
        young
    });
}

#[test]
fn a_free_mutex_is_kept_for_a_stopped_top_waiter_for_a_millisecond_only() {
    let _alone = alone();
    for (enter, left) in
        [(Raw::<Lateral>::try_acquire as fn(&Raw) -> bool, 0), (|mutex| mutex.acquire().is_ok(), LISTENING)]
    {
        let mutex = Raw::<Lateral>::default();
        let before = Snapshot::now();
        // As by a waiter that was stopped then, or by one that a fork left in the parent.
        let then = TOP_SPINS | ((Linux::now() - 2 * RESERVED_NS) >> 10 << SINCE) as u32;
        mutex.flags().store(then | left, SeqCst);
        assert!(enter(&mutex));
        assert_eq!(state(&mutex), (Linux::register(), left));
        if cfg!(feature = "events") {
            assert!(Snapshot::now().since(&before).get(Event::WaitLapsed) >= 1);
        }
        // There is a new one; the stopped one runs again.
        let now = mutex.mark().unwrap();
        mutex.unmark(then);
        assert_eq!(mutex.flags().load(SeqCst), now | left, "each clears its own mark");
        mutex.unmark(now);
        release(&mutex);
        assert_eq!(state(&mutex), (0, 0));
    }
}

#[test]
fn every_kind_of_release_obeys_a_listener() {
    let mutex = Raw::<Lateral>::default();
    mutex.acquire().unwrap();
    mutex.flags().store(LISTENING, SeqCst);
    release(&mutex);
    assert_eq!(state(&mutex), (0, 0));
    // Through the kernel.
    mutex.acquire().unwrap();
    mutex.flags().store(LISTENING, SeqCst);
    nested(|| assert_eq!(mutex.acquire_until(Until::after(1_000_000)), Err(PiError::TimedOut)));
    assert_eq!(mutex.word().load(SeqCst) & WAITERS, WAITERS, "the mark stays until the owner's release");
    release(&mutex);
    assert_eq!(state(&mutex), (0, 0));
}

#[test]
fn a_release_that_hands_over_leaves_the_listener_to_the_next_owner() {
    let mutex = Raw::<Lateral>::default();
    mutex.acquire().unwrap();
    mutex.flags().store(LISTENING, SeqCst);
    scope(|threads| {
        threads.spawn(|| {
            nested(|| {
                mutex.acquire().unwrap();
                assert_eq!(mutex.flags().load(SeqCst), LISTENING);
                release(&mutex);
                assert_eq!(state(&mutex), (0, 0));
            });
        });
        until(|| mutex.word().load(SeqCst) & WAITERS != 0);
        release(&mutex);
    });
}

#[test]
fn a_top_waiter_that_leaves_wakes_the_listener_that_it_kept_off() {
    let mutex = Raw::<Lateral>::default();
    // It met an owner, who has released the mutex since, while the listener was kept off; its own
    // patience is over before it looks.
    mutex.flags().store(TOP_SPINS | LISTENING, SeqCst);
    mutex.flags().fetch_and(!TOP_SPINS, SeqCst);
    mutex.released();
    assert_eq!(state(&mutex), (0, 0));
}

#[test]
fn spins_succeed() {
    if Linux::cpus() == 1 || !cfg!(feature = "events") {
        return;
    }
    fn succeeds<S: Policy>() {
        let _alone = alone();
        let mutex = Raw::<S>::default();
        let before = Snapshot::now();
        let spun = || Snapshot::now().since(&before).get(Event::PiMutexSpin) > 0;
        // Threads that hold another mutex spin as top waiters do. Goes on until one of them has
        // succeeded.
        scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    nested(|| {
                        while !spun() {
                            for _ in 0..1_000 {
                                mutex.acquire().unwrap();
                                Linux::relax();
                                release(&mutex);
                                Linux::relax();
                            }
                        }
                    });
                });
            }
        });
        assert_eq!(state(&mutex), (0, 0));
    }
    succeeds::<Lateral>();
    succeeds::<policy::Merged>();
    succeeds::<policy::Published>();
}

#[test]
fn a_dead_mutex_is_refused_even_if_its_word_is_free() {
    // As between the release of the thread that found the owner dead and its next look: the
    // exchange succeeds, and is taken back.
    let mutex = Raw::<Lateral>::default();
    mutex.flags().store(DEAD, SeqCst);
    let me = Linux::register();
    assert!(mutex.word().compare_exchange(0, me, SeqCst, SeqCst).is_ok());
    assert!(!mutex.taken(me));
    assert_eq!(state(&mutex), (0, DEAD));
    assert!(!mutex.try_acquire());
    assert_eq!(mutex.acquire(), Err(PiError::OwnerDied));
    assert_eq!(nested(|| mutex.acquire()), Err(PiError::OwnerDied));
    assert!(mutex.is_locked());
}
