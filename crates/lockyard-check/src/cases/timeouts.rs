//! A wait with a deadline: never ends early, leaves no trace, does no harm to the waiters before
//! and behind, and never loses a lock that was given at the last moment.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::platform::Platform;

use crate::cases::{Guarded, patterns};
use crate::lock::{Held, Timed, Way};
use crate::stage::{Dice, Seats, Stage, Steps, until};

fn now<L: Timed<P: Stage>>() -> u64 {
    <L::P as Platform>::now()
}

fn timeout<L: Timed<P: Stage>>() -> u64 {
    <L::P as Stage>::SCALE.timeout_ns
}

/// A deadline that has passed fails while the lock is held (nobody will release it: a wait would
/// hang), and leaves no trace.
pub fn zero_timeout_does_not_wait<L: Timed<P: Stage>>() {
    for ways in patterns::<L>(2) {
        let (holding, trying) = (ways[0], ways[1]);
        let lock = L::default();
        let _held = Held::new(&lock, holding);
        L::P::run(1, |_| {
            for deadline in [0, 1, now::<L>()] {
                let before = lock.state();
                let result = Held::until(&lock, trying, Until::deadline(deadline)).map(drop);
                let expected = if holding.shares(trying) { Ok(()) } else { Err(GaveUp::TimedOut) };
                assert_eq!(result, expected, "{trying:?} while held by {holding:?}");
                assert_eq!(lock.state(), before, "a timeout left a trace: {trying:?} while held by {holding:?}");
            }
        });
    }
}

/// A lock that need not be waited for is taken, however late it is.
pub fn a_free_lock_is_taken_after_the_deadline<L: Timed<P: Stage>>() {
    let lock = L::default();
    for &way in L::WAYS {
        assert!(Held::until(&lock, way, Until::deadline(0)).is_ok());
        L::P::run(1, |_| assert!(Held::until(&lock, way, Until::deadline(0)).is_ok()));
    }
    assert!(lock.at_rest());
}

/// A timed-out wait returns no earlier than its deadline, and leaves the lock as it was.
pub fn never_early<L: Timed<P: Stage>>() {
    for ways in patterns::<L>(2).filter(|ways| !ways[0].shares(ways[1])) {
        let lock = L::default();
        let held = Held::new(&lock, ways[0]);
        L::P::run(1, |_| {
            for fraction in [100, 10, 1] {
                let before = lock.state();
                let deadline = now::<L>() + timeout::<L>() / fraction;
                assert_eq!(lock.lock_until(ways[1], Until::deadline(deadline)), Err(GaveUp::TimedOut));
                assert!(now::<L>() >= deadline, "gave up before its deadline");
                assert_eq!(lock.state(), before, "a timeout left a trace");
            }
        });
        drop(held);
        assert!(lock.at_rest());
    }
}

/// A deadline in the far future, up to the end of time, is as good as none.
pub fn a_far_deadline_is_no_deadline<L: Timed<P: Stage>>() {
    for ways in patterns::<L>(2).filter(|ways| !ways[0].shares(ways[1])) {
        for untils in [Until::deadline(u64::MAX), Until::after(u64::MAX), Until::after(1 << 60)] {
            let lock = L::default();
            let seats = Seats::<L::P>::new(1);
            let begun = Steps::<L::P>::default();
            L::P::run(2, |me| {
                if me == 1 {
                    let held = Held::new(&lock, ways[0]);
                    begun.advance();
                    seats.wait_queued(0);
                    drop(held);
                } else {
                    begun.wait_for(1);
                    seats.sit(0);
                    assert!(Held::until(&lock, ways[1], untils).is_ok());
                }
            });
            assert!(lock.at_rest());
        }
    }
}

/// One, two and three waiters queue behind a holder; one of them, in each place, times out. The
/// holder leaves: all others get the lock.
pub fn a_leaver_in_every_place<L: Timed<P: Stage>>() {
    for length in 1..=3 {
        for ways in patterns::<L>(length + 1) {
            for leaver in 0..length {
                leave::<L>(ways[0], &ways[1..], leaver);
            }
        }
    }
}

fn leave<L: Timed<P: Stage>>(holding: Way, waiting: &[Way], leaver: usize) {
    let guarded = Guarded::<L>::default();
    let seats = Seats::<L::P>::new(waiting.len());
    let arrived = Steps::<L::P>::default();
    let done: Vec<Steps<L::P>> = waiting.iter().map(|_| Steps::default()).collect();
    let writes = Steps::<L::P>::default();
    L::P::run(waiting.len() + 1, |me| {
        if me == waiting.len() {
            let held = Held::new(&guarded.lock, holding);
            for place in 0..waiting.len() {
                arrived.advance();
                until::<L::P>(|| seats.queued(place) || done[place].count() > 0);
            }
            // The others are queued, or (readers behind a reader) have been inside.
            done[leaver].wait_for(1);
            drop(held);
            return;
        }
        arrived.wait_for(me + 1);
        seats.sit(me);
        let end = if me == leaver { Until::after(timeout::<L>() / 20) } else { Until::FOREVER };
        match Held::until(&guarded.lock, waiting[me], end) {
            Ok(_held) => {
                if guarded.section(me, waiting[me]) == 1 {
                    writes.advance();
                }
            }
            Err(end) => {
                assert_eq!((end, me), (GaveUp::TimedOut, leaver));
            }
        }
        done[me].advance();
    });
    guarded.finish(u64::from(writes.count()));
}

/// Waits whose deadlines fall just when the lock becomes free: exactly one outcome, and the lock
/// goes on.
pub fn timeout_against_release<L: Timed<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let writes = Steps::<L::P>::default();
    L::P::run(scale.threads, |me| {
        let mut dice = Dice::new(me as u64 + 1);
        for _ in 0..scale.sleeps / 4 {
            let way = L::WAYS[dice.roll(L::WAYS.len() as u32) as usize];
            let end = Until::after(u64::from(dice.roll(100_000)));
            if let Ok(_held) = Held::until(&guarded.lock, way, end) {
                if guarded.section(me, way) == 1 {
                    writes.advance();
                }
                if dice.roll(4) == 0 {
                    let release = now::<L>() + u64::from(dice.roll(100_000));
                    until::<L::P>(|| now::<L>() >= release);
                }
            }
        }
    });
    guarded.finish(u64::from(writes.count()));
}

/// Patient and impatient waiters of all kinds in a crowd: the patient ones all get through.
pub fn the_patient_get_through<L: Timed<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let writes = Steps::<L::P>::default();
    L::P::run(scale.crowd, |me| {
        let mut dice = Dice::new(me as u64 + 1);
        for round in 0..scale.sleeps / 20 {
            let way = L::WAYS[dice.roll(L::WAYS.len() as u32) as usize];
            let end = match me % 3 {
                0 => Until::FOREVER,
                1 => Until::after(u64::from(dice.roll(1_000_000))),
                _ => Until::deadline(0),
            };
            if let Ok(_held) = Held::until(&guarded.lock, way, end) {
                if guarded.section(me, way) == 1 {
                    writes.advance();
                }
                if round % 16 == 0 {
                    L::P::nap(4);
                }
            } else {
                assert_ne!(me % 3, 0, "gave up without a reason");
            }
        }
    });
    guarded.finish(u64::from(writes.count()));
}
