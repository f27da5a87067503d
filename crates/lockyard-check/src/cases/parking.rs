//! A futex hash loses no wake-up, wakes whom it should, and may grow meanwhile. Not a lock:
//! see [`HashedMutex`](crate::adapters::hashed::HashedMutex).

use lockyard::futex_hash::Waited;
use lockyard::platform::{Ordering::Relaxed, Platform, Word};

use crate::cases::Guarded;
use crate::lock::{Hashed, Held, Way};
use crate::stage::{Stage, Steps, act_until};

/// The mutex excludes and nobody is forgotten while the table grows under it.
pub fn growing_loses_nobody<L: Hashed<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let rounds = scale.sleeps / 4;
    L::P::run(scale.threads, |me| {
        for round in 0..rounds {
            let held = Held::new(&guarded.lock, Way::Write);
            if round % 4 == 0 {
                L::P::nap(0);
            }
            guarded.section(me, Way::Write);
            if me == 0 && round % (rounds / 4).max(1) == 0 {
                guarded.lock.grow(4 << (4 * round / rounds.max(1)));
            }
            drop(held);
        }
    });
    guarded.finish(u64::from(rounds) * scale.threads as u64);
    assert!(!guarded.lock.grow(2), "a table that is not larger");
}

/// A table grows between a sleeper and its only waker. (Its old bucket was empty for a moment
/// before it said where to look: a lost wake-up.)
pub fn growing_hides_no_sleeper<L: Hashed<P: Stage>>() {
    let lock = L::default();
    let word = <L::P as Platform>::U32::default();
    L::P::run(3, |me| match me {
        0 => {
            while word.load(Relaxed) == 0 {
                lock.wait(&word, None);
            }
        }
        1 => {
            word.store(1, Relaxed);
            lock.wake(&word, 1);
        }
        _ => assert!(lock.grow(4)),
    });
}

/// Sleepers of two words in one table: a wake-up reaches those of its word, as many as asked for,
/// first come first; the rest by the deadline or by the next.
pub fn wakes_whom_it_should<L: Hashed<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let lock = L::default();
    let words: [<L::P as Platform>::U32; 2] = Default::default();
    let woken = [Steps::<L::P>::default(), Steps::default()];
    let each = scale.threads;
    L::P::run(2 * each + 1, |me| {
        if me < 2 * each {
            let of = me % 2;
            assert_eq!(lock.wait(&words[of], None), Waited::Woken);
            woken[of].advance();
            return;
        }
        let mut left = each;
        while left > 0 {
            let some = lock.wake(&words[0], 1);
            assert!(some <= 1);
            left -= some;
            L::P::nap(0);
        }
        woken[0].wait_for(each);
        assert_eq!((woken[1].count(), lock.wake(&words[0], usize::MAX)), (0, 0));
        let mut left = each;
        act_until::<L::P>(|| {
            left -= lock.wake(&words[1], left);
            left == 0
        });
    });
    assert_eq!(woken.each_ref().map(|woken| woken.count() as usize), [each; 2]);
    words[0].store(1, Relaxed);
    L::P::run(1, |_| assert_eq!(lock.wait(&words[0], None), Waited::Differs));
}

/// A deadline ends a wait, and what was granted at the last moment is not lost: the wakes that
/// found somebody are the waits that say so.
pub fn deadlines_and_wakes_agree<L: Hashed<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let lock = L::default();
    let word = <L::P as Platform>::U32::default();
    let (slept, woken, gone) = (Steps::<L::P>::default(), Steps::<L::P>::default(), Steps::<L::P>::default());
    let rounds = scale.sleeps / 10;
    L::P::run(scale.threads, |me| {
        if me == 0 {
            act_until::<L::P>(|| {
                (0..lock.wake(&word, 1)).for_each(|_| {
                    woken.advance();
                });
                gone.count() as usize == scale.threads - 1
            });
        } else {
            for _ in 0..rounds {
                let deadline = L::P::now() + 20_000;
                match lock.wait(&word, Some(deadline)) {
                    Waited::Woken => {
                        slept.advance();
                    }
                    waited => {
                        assert_eq!(waited, Waited::TimedOut);
                        assert!(L::P::now() >= deadline, "gave up early");
                    }
                }
            }
            gone.advance();
        }
    });
    assert_eq!(slept.count(), woken.count());
    assert_eq!(lock.wake(&word, usize::MAX), 0, "somebody is still queued");
}
