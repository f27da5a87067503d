//! Counting semaphores: units are conserved, waiters are woken by as many `up`s as there are,
//! whoever makes them.

use lockyard::GaveUp;
use lockyard::cancel::{CancelToken, Until};
use lockyard::platform::Platform;

use crate::lock::Count;
use crate::stage::{Dice, Seats, Stage, Steps, until};

/// Never more inside than units, and in the end as many units as in the beginning.
pub fn units_are_conserved<S: Count<P: Stage>>() {
    let scale = <S::P as Stage>::SCALE;
    for units in 1..=3 {
        let semaphore = S::with_units(units);
        let inside = Steps::<S::P>::default();
        S::P::run(scale.threads + 1, |me| {
            for round in 0..scale.rounds / 2 {
                semaphore.down();
                assert!(inside.advance() <= units, "more inside than units");
                if round % 32 == me as u32 {
                    S::P::nap(0);
                }
                inside.retreat();
                semaphore.up();
            }
        });
        assert_eq!(semaphore.units(), units);
    }
}

/// As many inside together as there are units.
pub fn units_are_independent<S: Count<P: Stage>>() {
    for units in 1..=4 {
        let semaphore = S::with_units(units);
        let inside = Steps::<S::P>::default();
        S::P::run(units as usize, |_| {
            semaphore.down();
            inside.advance();
            inside.wait_for(units as usize);
            semaphore.up();
        });
        assert_eq!(semaphore.units(), units);
    }
}

/// A try takes a unit if there is one, never waits, and leaves no trace when it fails; so does a
/// deadline that has passed.
pub fn tries_do_not_wait<S: Count<P: Stage>>() {
    let semaphore = S::with_units(2);
    assert!(semaphore.try_down() && semaphore.try_down());
    S::P::run(1, |_| {
        let before = semaphore.state();
        assert!(!semaphore.try_down());
        assert_eq!(semaphore.down_until(Until::deadline(0)), Err(GaveUp::TimedOut));
        let token = CancelToken::default();
        token.cancel();
        assert_eq!(semaphore.down_until(Until::cancelled(&token)), Err(GaveUp::Cancelled));
        let deadline = S::P::now() + <S::P as Stage>::SCALE.timeout_ns / 20;
        assert_eq!(semaphore.down_until(Until::deadline(deadline)), Err(GaveUp::TimedOut));
        assert!(S::P::now() >= deadline, "gave up before its deadline");
        assert_eq!(semaphore.state(), before, "a failed down left a trace");
    });
    assert!(semaphore.up());
    assert_eq!(semaphore.down_until(Until::deadline(0)), Ok(()));
}

/// Units above the initial number are allowed, up to the limit; the `up` that exceeds it changes
/// nothing.
pub fn the_limit<S: Count<P: Stage>>() {
    let semaphore = S::with_units(0);
    assert!(semaphore.up() && semaphore.up());
    assert_eq!(semaphore.units(), 2);
    let full = S::with_units(S::MOST);
    assert_eq!(full.units(), S::MOST);
    assert!(!full.up());
    assert_eq!(full.units(), S::MOST);
    assert!(full.try_down());
    assert!(full.up());
    assert!(!full.up());
}

/// k waiters and k `up`s in a row by a thread that never downed: every waiter gets its unit. The
/// lost wake-up of 2008.
pub fn quick_ups_reach_every_waiter<S: Count<P: Stage>>() {
    for waiters in 1..=4 {
        for _ in 0..10 {
            let semaphore = S::with_units(0);
            let seats = Seats::<S::P>::new(waiters);
            S::P::run(waiters + 1, |me| {
                if me == waiters {
                    (0..waiters).for_each(|seat| seats.wait_queued(seat));
                    (0..waiters).for_each(|_| assert!(semaphore.up()));
                } else {
                    seats.sit(me);
                    semaphore.down();
                }
            });
            assert_eq!(semaphore.units(), 0);
        }
    }
}

/// Used as an event counter: one side ups in bursts, the other downs; nothing is lost, nothing is
/// left.
pub fn bursts_of_events<S: Count<P: Stage>>() {
    let scale = <S::P as Stage>::SCALE;
    let semaphore = S::with_units(0);
    let consumers = scale.threads;
    let each = scale.sleeps / 4;
    S::P::run(consumers + 1, |me| {
        if me < consumers {
            (0..each).for_each(|_| semaphore.down());
            return;
        }
        let mut dice = Dice::new(7);
        let mut left = each * consumers as u32;
        while left > 0 {
            let burst = (dice.roll(6) + 1).min(left);
            (0..burst).for_each(|_| assert!(semaphore.up()));
            left -= burst;
            if dice.roll(4) == 0 {
                S::P::nap(0);
            }
        }
    });
    assert_eq!(semaphore.units(), 0);
}

/// A token passed around a ring of semaphores by two, three and four threads: every step wakes a
/// thread.
pub fn ping_pong<S: Count<P: Stage>>() {
    let rounds = <S::P as Stage>::SCALE.sleeps;
    for threads in 2..=4 {
        let ring: Vec<S> = (0..threads).map(|place| S::with_units(u32::from(place == 0))).collect();
        S::P::run(threads, |me| {
            for _ in 0..rounds / threads as u32 {
                ring[me].down();
                ring[(me + 1) % threads].up();
            }
        });
        assert_eq!(ring.iter().map(S::units).sum::<u32>(), 1);
    }
}

/// One to three waiters, one of which gives up, in each place; then there is a unit for each of the
/// others.
pub fn a_leaver_in_every_place<S: Count<P: Stage>>() {
    let timeout = <S::P as Stage>::SCALE.timeout_ns / 20;
    for waiters in 1..=3 {
        for leaver in 0..waiters {
            let semaphore = S::with_units(0);
            let seats = Seats::<S::P>::new(waiters);
            let arrived = Steps::<S::P>::default();
            let left = Steps::<S::P>::default();
            S::P::run(waiters + 1, |me| {
                if me == waiters {
                    for seat in 0..waiters {
                        arrived.advance();
                        until::<S::P>(|| seats.queued(seat) || seat == leaver && left.count() > 0);
                    }
                    left.wait_for(1);
                    (1..waiters).for_each(|_| assert!(semaphore.up()));
                    return;
                }
                arrived.wait_for(me + 1);
                seats.sit(me);
                if me == leaver {
                    assert_eq!(semaphore.down_until(Until::after(timeout)), Err(GaveUp::TimedOut));
                    left.advance();
                } else {
                    semaphore.down();
                }
            });
            assert_eq!(semaphore.units(), 0);
        }
    }
}

/// Deadlines that pass just when units arrive: what was not taken is still there.
pub fn timeout_against_up<S: Count<P: Stage>>() {
    let scale = <S::P as Stage>::SCALE;
    let semaphore = S::with_units(0);
    let taken = Steps::<S::P>::default();
    let done = Steps::<S::P>::default();
    let ups = Steps::<S::P>::default();
    let consumers = scale.threads;
    S::P::run(consumers + 1, |me| {
        let mut dice = Dice::new(me as u64 + 1);
        if me == consumers {
            while (done.count() as usize) < consumers {
                if semaphore.units() < 4 {
                    semaphore.up();
                    ups.advance();
                }
                let next = S::P::now() + u64::from(dice.roll(50_000));
                until::<S::P>(|| S::P::now() >= next);
            }
            return;
        }
        for _ in 0..scale.sleeps / 8 {
            if semaphore.down_until(Until::after(u64::from(dice.roll(100_000)))).is_ok() {
                taken.advance();
            }
        }
        done.advance();
    });
    assert_eq!(semaphore.units(), ups.count() - taken.count());
}

/// A crowd that shares few units, with all kinds of patience.
pub fn the_patient_get_through<S: Count<P: Stage>>() {
    let scale = <S::P as Stage>::SCALE;
    let semaphore = S::with_units(2);
    S::P::run(scale.crowd, |me| {
        let mut dice = Dice::new(me as u64 + 1);
        for round in 0..scale.sleeps / 20 {
            let end = if me % 3 == 0 { Until::FOREVER } else { Until::after(u64::from(dice.roll(1_000_000))) };
            match semaphore.down_until(end) {
                Ok(()) => {
                    S::P::nap(if round % 16 == 0 { 4 } else { 0 });
                    semaphore.up();
                }
                Err(_) => assert_ne!(me % 3, 0, "gave up without a reason"),
            }
        }
    });
    assert_eq!(semaphore.units(), 2);
}
