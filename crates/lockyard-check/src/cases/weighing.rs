//! Semaphores that give many units in one step: all of them or none, and nobody starves, whatever
//! sizes wait beside each other.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::platform::Platform;

use crate::lock::Weigh;
use crate::stage::{Dice, Seats, Stage, Steps};

/// How often the waiter must get through.
const SERVED: u32 = 5;

/// Threads take as many as they like; never more are out than there are, and all come back: in one
/// step, one by one, or in two parts.
pub fn sizes_are_conserved<S: Weigh<P: Stage>>() {
    const UNITS: u32 = 4;
    let scale = <S::P as Stage>::SCALE;
    let semaphore = S::with_units(UNITS);
    let out = Steps::<S::P>::default();
    S::P::run(scale.threads, |me| {
        let mut dice = Dice::new(me as u64 + 1);
        for round in 0..scale.rounds / 4 {
            let size = dice.roll(UNITS + 1);
            let taken = match round % 3 {
                0 => semaphore.try_down_many(size),
                1 => semaphore.down_many_until(size, Until::after(u64::from(dice.roll(100_000)))).is_ok(),
                _ => {
                    semaphore.down_many(size);
                    true
                }
            };
            if !taken {
                assert_ne!(size, 0, "nothing can be had at any time");
                continue;
            }
            (0..size).for_each(|_| assert!(out.advance() <= UNITS, "more are out than there are"));
            if round % 32 == me as u32 {
                S::P::nap(0);
            }
            (0..size).for_each(|_| out.retreat());
            let part = dice.roll(size + 1);
            if dice.roll(2) == 0 {
                assert!(semaphore.up_many(part) && semaphore.up_many(size - part));
            } else {
                (0..size).for_each(|_| assert!(semaphore.up()));
            }
        }
    });
    assert_eq!(semaphore.units(), UNITS);
}

/// A waiter for many has them when the last of them comes, however they come.
pub fn units_come_one_by_one<S: Weigh<P: Stage>>() {
    for size in 1..=4 {
        for part in 1..=size {
            let semaphore = S::with_units(0);
            let seats = Seats::<S::P>::new(1);
            S::P::run(2, |me| {
                if me == 0 {
                    seats.sit(0);
                    semaphore.down_many(size);
                } else {
                    seats.wait_queued(0);
                    (0..size).step_by(part as usize).for_each(|had| assert!(semaphore.up_many(part.min(size - had))));
                }
            });
            assert_eq!(semaphore.units(), 0);
        }
    }
}

/// One call returns the units of several waiters: each gets its own.
pub fn one_up_reaches_every_waiter<S: Weigh<P: Stage>>() {
    for waiters in 1..=4 {
        let semaphore = S::with_units(0);
        let seats = Seats::<S::P>::new(waiters);
        let sizes = |me: usize| me as u32 % 3 + 1;
        S::P::run(waiters + 1, |me| {
            if me == waiters {
                (0..waiters).for_each(|seat| seats.wait_queued(seat));
                assert!(semaphore.up_many((0..waiters).map(sizes).sum()));
            } else {
                seats.sit(me);
                semaphore.down_many(sizes(me));
            }
        });
        assert_eq!(semaphore.units(), 0);
    }
}

/// Threads that take one at a time, of which there is always one out, do not starve a waiter for
/// all; nor the other way round.
pub fn every_size_gets_through<S: Weigh<P: Stage>>() {
    const UNITS: u32 = 3;
    for (barging, waiting) in [(1, UNITS), (UNITS, 1), (UNITS - 1, UNITS)] {
        let semaphore = S::with_units(UNITS);
        let served = Steps::<S::P>::default();
        S::P::run(4, |me| {
            if me == 0 {
                for _ in 0..SERVED {
                    semaphore.down_many(waiting);
                    served.advance();
                    assert!(semaphore.up_many(waiting));
                    S::P::nap(4);
                }
                return;
            }
            while served.count() < SERVED {
                semaphore.down_many(barging);
                S::P::nap(0);
                assert!(semaphore.up_many(barging));
            }
        });
        assert_eq!(semaphore.units(), UNITS);
    }
}

/// A waiter for more than there is gives up: the waiter behind it needs no up to go on.
pub fn a_leaver_lets_smaller_ones_in<S: Weigh<P: Stage>>() {
    let timeout = <S::P as Stage>::SCALE.timeout_ns / 20;
    let semaphore = S::with_units(2);
    let seats = Seats::<S::P>::new(1);
    let gone = Steps::<S::P>::default();
    S::P::run(2, |me| {
        if me == 0 {
            seats.sit(0);
            assert_eq!(semaphore.down_many_until(3, Until::after(timeout)), Err(GaveUp::TimedOut));
            gone.advance();
        } else {
            crate::stage::until::<S::P>(|| seats.queued(0) || gone.count() > 0);
            // Once it keeps others out this one queues behind it. Not where time stands still while
            // threads act: there it goes past.
            let mut tries = 0;
            crate::stage::act_until::<S::P>(|| {
                tries += 1;
                let passes = || semaphore.try_down_many(2) && semaphore.up_many(2);
                tries > 1_000 || gone.count() > 0 || !passes()
            });
            semaphore.down_many(2);
        }
    });
    assert_eq!(semaphore.units(), 0);
}
