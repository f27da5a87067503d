//! A wait with a token: ends when the token is cancelled, before or during the wait, for all who
//! share it and nobody else.

use lockyard::GaveUp;
use lockyard::cancel::{CancelToken, Until};
use lockyard::platform::Platform;

use crate::cases::{Guarded, patterns};
use crate::lock::{Held, Timed, Way};
use crate::stage::{Dice, Seats, Stage, Steps, until};

type Token<L> = CancelToken<<L as crate::lock::Lock>::P>;

/// Cancelled before the wait: fails at once while the lock is held, again and again, and leaves no
/// trace.
pub fn cancelled_before_the_wait<L: Timed<P: Stage>>() {
    for ways in patterns::<L>(2).filter(|ways| !ways[0].shares(ways[1])) {
        let lock = L::default();
        let token = Token::<L>::default();
        assert!(!token.is_cancelled());
        token.cancel();
        token.cancel();
        assert!(token.is_cancelled());
        let held = Held::new(&lock, ways[0]);
        L::P::run(1, |_| {
            for _ in 0..3 {
                let before = lock.state();
                assert_eq!(lock.lock_until(ways[1], Until::cancelled(&token)), Err(GaveUp::Cancelled));
                assert_eq!(lock.state(), before, "a cancelled wait left a trace");
            }
        });
        drop(held);
        assert!(lock.at_rest());
    }
}

/// A cancelled token does not stop an acquisition that need not wait.
pub fn a_cancelled_token_does_not_stop_a_free_lock<L: Timed<P: Stage>>() {
    let lock = L::default();
    let token = Token::<L>::default();
    token.cancel();
    for &way in L::WAYS {
        assert!(Held::until(&lock, way, Until::cancelled(&token)).is_ok());
        L::P::run(1, |_| assert!(Held::until(&lock, way, Until::cancelled(&token)).is_ok()));
    }
    assert!(lock.at_rest());
}

/// A token that nobody cancels does not end a wait; nor does one that others wait with.
pub fn a_live_token_does_not_disturb<L: Timed<P: Stage>>() {
    let mut others = Token::<L>::default();
    others.cancel();
    others = Token::<L>::default();
    for ways in patterns::<L>(3).filter(|ways| !ways[0].shares(ways[1])) {
        cancel::<L>(ways[0], &ways[1..], 0, &others);
    }
}

/// One, two and three waiters, any number of which share a token; the token is cancelled while they
/// wait. They give up, the others get the lock when its holder leaves.
pub fn cancelled_during_the_wait<L: Timed<P: Stage>>() {
    for length in 1..=3 {
        for ways in patterns::<L>(length + 1) {
            for cancelled in 1..1u32 << length {
                cancel::<L>(ways[0], &ways[1..], cancelled, &Token::<L>::default());
            }
        }
    }
}

/// Waiters `waiting` queue behind a holder; those in the set `cancelled` wait with a token that is
/// then cancelled, the others with `other`.
fn cancel<L: Timed<P: Stage>>(holding: Way, waiting: &[Way], cancelled: u32, other: &Token<L>) {
    let guarded = Guarded::<L>::default();
    let token = Token::<L>::default();
    let seats = Seats::<L::P>::new(waiting.len());
    let arrived = Steps::<L::P>::default();
    let done: Vec<Steps<L::P>> = waiting.iter().map(|_| Steps::default()).collect();
    let writes = Steps::<L::P>::default();
    let leaves = |place: usize| cancelled >> place & 1 == 1;
    L::P::run(waiting.len() + 1, |me| {
        if me == waiting.len() {
            let held = Held::new(&guarded.lock, holding);
            for place in 0..waiting.len() {
                arrived.advance();
                until::<L::P>(|| seats.queued(place) || done[place].count() > 0);
            }
            if cancelled != 0 {
                token.cancel();
            }
            for place in (0..waiting.len()).filter(|&place| leaves(place)) {
                done[place].wait_for(1);
            }
            drop(held);
            return;
        }
        arrived.wait_for(me + 1);
        seats.sit(me);
        let end = Until::cancelled(if leaves(me) { &token } else { other });
        match Held::until(&guarded.lock, waiting[me], end) {
            Ok(_held) => {
                if guarded.section(me, waiting[me]) == 1 {
                    writes.advance();
                }
            }
            Err(end) => {
                assert_eq!(end, GaveUp::Cancelled);
                assert!(leaves(me), "ended by somebody else's token");
            }
        }
        done[me].advance();
    });
    guarded.finish(u64::from(writes.count()));
}

/// A token and a deadline together: whichever comes first.
pub fn token_and_deadline<L: Timed<P: Stage>>() {
    for ways in patterns::<L>(2).filter(|ways| !ways[0].shares(ways[1])) {
        let lock = L::default();
        let live = Token::<L>::default();
        let cancelled = Token::<L>::default();
        cancelled.cancel();
        let held = Held::new(&lock, ways[0]);
        L::P::run(1, |_| {
            let soon = L::P::now() + 1_000;
            let end = Until::deadline(soon).or_cancelled(&live);
            assert_eq!(lock.lock_until(ways[1], end), Err(GaveUp::TimedOut));
            assert!(L::P::now() >= soon);
            let end = Until::deadline(u64::MAX).or_cancelled(&cancelled);
            assert_eq!(lock.lock_until(ways[1], end), Err(GaveUp::Cancelled));
        });
        drop(held);
        assert!(lock.at_rest());
    }
}

/// One token, waits on two locks at once.
pub fn one_token_for_two_locks<L: Timed<P: Stage>>() {
    let locks = [L::default(), L::default()];
    let token = Token::<L>::default();
    let seats = Seats::<L::P>::new(4);
    let begun = Steps::<L::P>::default();
    let done = Steps::<L::P>::default();
    L::P::run(5, |me| {
        if me == 4 {
            let held: Vec<_> = locks.iter().map(|lock| Held::new(lock, Way::Write)).collect();
            begun.advance();
            (0..4).for_each(|seat| seats.wait_queued(seat));
            token.cancel();
            done.wait_for(4);
            drop(held);
        } else {
            begun.wait_for(1);
            seats.sit(me);
            assert_eq!(locks[me % 2].lock_until(Way::Write, Until::cancelled(&token)), Err(GaveUp::Cancelled));
            done.advance();
        }
    });
    assert!(locks.iter().all(L::at_rest));
}

/// Tokens are cancelled at random moments of waits and releases, thousands of times: exactly one
/// outcome each, and the lock goes on.
pub fn cancel_against_release<L: Timed<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let writes = Steps::<L::P>::default();
    for round in 0..scale.sleeps / 40 {
        let token = Token::<L>::default();
        L::P::run(scale.threads, |me| {
            let mut dice = Dice::new(u64::from(round) << 8 | me as u64);
            if me == 0 {
                (0..dice.roll(8)).for_each(|_| L::P::nap(0));
                token.cancel();
            }
            for _ in 0..16 {
                let way = L::WAYS[dice.roll(L::WAYS.len() as u32) as usize];
                let end = if me % 2 == 0 { Until::cancelled(&token) } else { Until::FOREVER };
                match Held::until(&guarded.lock, way, end) {
                    Ok(_held) => {
                        if guarded.section(me, way) == 1 {
                            writes.advance();
                        }
                        L::P::nap(0);
                    }
                    Err(end) => {
                        assert_eq!((end, me % 2), (GaveUp::Cancelled, 0));
                        break;
                    }
                }
            }
        });
    }
    guarded.finish(u64::from(writes.count()));
}
