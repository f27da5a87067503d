//! A try never waits: it is made while the lock is held and nobody will release it, so one that
//! waits hangs. A failed one changes nothing.

use crate::cases::{Guarded, patterns};
use crate::lock::{Held, Lock, Way};
use crate::stage::{Stage, Steps};

/// Against each way of being held, each way of trying, by another thread.
pub fn try_succeeds_exactly_when_compatible<L: Lock<P: Stage>>() {
    for ways in patterns::<L>(2) {
        let (holding, trying) = (ways[0], ways[1]);
        let lock = L::default();
        let _held = Held::new(&lock, holding);
        L::P::run(1, |_| {
            let before = lock.state();
            let second = Held::try_new(&lock, trying);
            assert_eq!(second.is_some(), holding.shares(trying), "{trying:?} while held by {holding:?}");
            drop(second);
            assert_eq!(lock.state(), before, "a try left a trace: {trying:?} while held by {holding:?}");
        });
    }
}

/// The holder's own try fails as well: no recursion, no deadlock.
pub fn own_try_fails<L: Lock<P: Stage>>() {
    let lock = L::default();
    let held = Held::new(&lock, Way::Write);
    for &way in L::WAYS {
        assert!(!lock.try_lock(way));
    }
    drop(held);
    assert!(lock.at_rest());
}

/// A free lock can be taken by trying, again and again, by everyone.
pub fn try_takes_a_free_lock<L: Lock<P: Stage>>() {
    let lock = L::default();
    for &way in L::WAYS {
        for _ in 0..3 {
            assert!(Held::try_new(&lock, way).is_some());
            L::P::run(1, |_| assert!(Held::try_new(&lock, way).is_some()));
        }
    }
    assert!(lock.at_rest());
}

/// Many failed tries while one thread holds the lock: afterwards it works as before.
pub fn failed_tries_do_no_harm<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let tried = Steps::<L::P>::default();
    L::P::run(scale.threads, |me| {
        if me == 0 {
            let _held = Held::new(&guarded.lock, Way::Write);
            guarded.section(me, Way::Write);
            tried.advance();
            tried.wait_for(scale.threads);
        } else {
            tried.wait_for(1);
            for _ in 0..scale.rounds.min(1000) {
                for &way in L::WAYS {
                    assert!(!guarded.lock.try_lock(way));
                }
            }
            tried.advance();
        }
        let _held = Held::new(&guarded.lock, Way::Write);
        guarded.section(me, Way::Write);
    });
    guarded.finish(1 + scale.threads as u64);
}

/// Threads that only ever try: one that gets in excludes the rest, and one always does.
pub fn only_tries<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    L::P::run(scale.threads, |me| {
        let mut round = 0;
        let mut taken = 0;
        while taken < scale.rounds / 4 {
            match Held::try_new(&guarded.lock, Way::Write) {
                Some(_held) => {
                    guarded.section(me, Way::Write);
                    taken += 1;
                    round = 0;
                }
                None => {
                    <L::P as lockyard::platform::Platform>::nap(round);
                    round = (round + 1).min(4);
                }
            }
        }
    });
    guarded.finish(u64::from(scale.rounds / 4) * scale.threads as u64);
}
