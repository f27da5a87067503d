//! The condition variable: nothing is lost, waits end when they should, the most urgent is served
//! first, and a notified thread lends its priority before it has run.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread::scope;
use std::time::{Duration, Instant};

use lockyard::rtmutex::{Lateral, Policy, policy};
use lockyard::{RtCondvar, RtCondvarWith, RtMutex, RtMutexWith};

use crate::scene::{Gate, alone, fixed, lent, permitted};

/// A bounded queue between several producers and consumers: everything that goes in comes out,
/// once.
fn queue<S: Policy>() {
    const EACH: u32 = 2_000;
    let store = RtMutexWith::<S, Vec<u32>>::new(Vec::new());
    let (filled, emptied) = (RtCondvarWith::<S>::new(), RtCondvarWith::<S>::new());
    let sum = AtomicU32::new(0);
    scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for item in 0..EACH {
                    let mut items = store.lock();
                    emptied.wait_while(&mut items, |items| items.len() >= 3);
                    items.push(item);
                    filled.notify_one();
                }
            });
            threads.spawn(|| {
                for _ in 0..EACH {
                    let mut items = store.lock();
                    filled.wait_while(&mut items, |items| items.is_empty());
                    sum.fetch_add(items.pop().expect("not empty"), SeqCst);
                    drop(items);
                    emptied.notify_one(); // also without the mutex
                }
            });
        }
    });
    assert_eq!(sum.load(SeqCst), 2 * (EACH * (EACH - 1) / 2));
    assert!(store.lock().is_empty());
}

#[test]
fn everything_that_goes_in_comes_out() {
    alone("a queue with two condition variables", || {
        queue::<Lateral>();
        queue::<policy::Off>();
    });
}

#[test]
fn everybody_is_notified() {
    alone("notify_all", || {
        const WAITERS: u32 = 8;
        let generation = RtMutex::new((0u32, 0u32));
        let (changed, arrived) = (RtCondvar::new(), RtCondvar::new());
        scope(|threads| {
            for _ in 0..WAITERS {
                threads.spawn(|| {
                    let mut state = generation.lock();
                    for round in 0..200 {
                        state.1 += 1;
                        if state.1 == WAITERS {
                            arrived.notify_one();
                        }
                        changed.wait_while(&mut state, |state| state.0 == round);
                    }
                });
            }
            let mut state = generation.lock();
            for round in 0..200 {
                arrived.wait_while(&mut state, |state| state.1 < WAITERS);
                *state = (round + 1, 0);
                changed.notify_all();
            }
        });
    });
}

#[test]
fn a_wait_ends_at_its_deadline_and_not_earlier() {
    alone("timed wait", || {
        let mutex = RtMutex::new(());
        let condvar = RtCondvar::new();
        let mut guard = mutex.lock();
        let start = Instant::now();
        let never = || true;
        assert!(condvar.wait_while_for(&mut guard, |()| never(), Duration::from_millis(20)).timed_out());
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert!(condvar.wait_until(&mut guard, start).timed_out(), "a deadline that has passed");
        // Nobody waits: nothing happens, and nothing is kept.
        condvar.notify_one();
        condvar.notify_all();
        assert!(condvar.wait_while_for(&mut guard, |()| never(), Duration::from_millis(2)).timed_out());
        drop(guard);
        assert!(!mutex.is_locked());
    });
}

#[test]
fn one_condition_variable_two_mutexes_one_after_the_other() {
    alone("rebinding", || {
        let condvar = RtCondvar::new();
        for _ in 0..3 {
            let mutex = Box::new(RtMutex::new(()));
            condvar.wait_for(&mut mutex.lock(), Duration::from_millis(1));
        }
    });
}

/// Notified while the notifier holds the mutex: high is moved to it, and the notifier runs at
/// high's priority from then on, although high has not run.
#[test]
fn the_notified_lends_its_priority_at_once() {
    if !permitted("boost by notification") {
        return;
    }
    alone("boost by notification", || {
        for run in 0..200 {
            let (mutex, condvar) = (RtMutex::new(false), RtCondvar::new());
            let waiting = Gate::default();
            let inside = AtomicBool::new(false);
            scope(|threads| {
                threads.spawn(|| {
                    fixed(30);
                    let mut told = mutex.lock();
                    waiting.open();
                    condvar.wait_while(&mut told, |told| !*told);
                    inside.store(true, SeqCst);
                });
                threads.spawn(|| {
                    fixed(1);
                    waiting.pass(); // one CPU: we run when high sleeps
                    let mut told = mutex.lock();
                    *told = true;
                    assert_eq!(lent(), 1, "run {run}");
                    condvar.notify_one();
                    assert_eq!(lent(), 30, "run {run}");
                    assert!(!inside.load(SeqCst));
                    drop(told);
                    assert!(inside.load(SeqCst), "run {run}: high runs before we go on");
                    assert_eq!(lent(), 1, "run {run}");
                });
            });
        }
    });
}

/// Of three sleepers the most urgent is notified first.
#[test]
fn the_most_urgent_is_notified_first() {
    if !permitted("order of notification") {
        return;
    }
    alone("order of notification", || {
        let (state, condvar) = (RtMutex::new((0, Vec::new())), RtCondvar::new());
        let sleeping = Gate::default();
        scope(|threads| {
            let (state, condvar, sleeping) = (&state, &condvar, &sleeping);
            for rank in [2, 3, 1] {
                threads.spawn(move || {
                    fixed(10 + rank);
                    let mut told = state.lock();
                    sleeping.open();
                    condvar.wait_while(&mut told, |told| told.0 == 0);
                    told.0 -= 1;
                    told.1.push(rank);
                });
            }
            threads.spawn(move || {
                fixed(1);
                (0..3).for_each(|_| sleeping.pass());
                for _ in 0..3 {
                    state.lock().0 += 1;
                    condvar.notify_one();
                }
            });
        });
        assert_eq!(state.lock().1, [3, 2, 1]);
    });
}
