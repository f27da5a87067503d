//! Wake-ups are never lost. All waits here are without a timeout, so a lost one is a hang.

use lockyard::platform::Platform;

use crate::cases::exclusion::hammer;
use crate::cases::{Guarded, patterns};
use crate::lock::{Held, Lock, Way};
use crate::stage::{Seats, Stage, Steps, until};

/// Threads chase each other around a ring of locks, hand over hand: each takes the lock ahead
/// before it releases the one it holds. There is one lock more than threads, so somebody can always
/// move; almost every step waits for the thread ahead.
fn chase<L: Lock<P: Stage>>(threads: usize) {
    let rounds = <L::P as Stage>::SCALE.sleeps;
    let ring: Vec<Guarded<L>> = (0..=threads).map(|_| Guarded::default()).collect();
    let seated = Steps::<L::P>::default();
    L::P::run(threads, |me| {
        let mut place = me;
        let mut held = Held::new(&ring[place].lock, Way::Write);
        seated.advance();
        seated.wait_for(threads);
        for _ in 0..rounds {
            place = (place + 1) % ring.len();
            held = Held::new(&ring[place].lock, Way::Write);
            ring[place].section(me, Way::Write);
        }
        drop(held);
    });
    assert!(ring.iter().all(|guarded| guarded.lock.at_rest()));
}

/// Two threads, three locks: ping-pong.
pub fn ping_pong<L: Lock<P: Stage>>() {
    chase::<L>(2);
}

/// Three threads.
pub fn chase_of_three<L: Lock<P: Stage>>() {
    chase::<L>(3);
}

/// Four threads.
pub fn chase_of_four<L: Lock<P: Stage>>() {
    chase::<L>(4);
}

/// Two, three and four contenders who are often cut off inside their sections, so that the others
/// sleep.
pub fn sleeping_contenders<L: Lock<P: Stage>>() {
    for contenders in 2..=4 {
        let guarded = Guarded::<L>::default();
        let rounds = <L::P as Stage>::SCALE.sleeps / 4;
        L::P::run(contenders, |me| {
            for round in 0..rounds {
                let held = Held::new(&guarded.lock, Way::Write);
                L::P::nap(if round % 8 == 0 { 4 } else { 0 });
                guarded.section(me, Way::Write);
                drop(held);
            }
        });
        guarded.finish(u64::from(rounds) * contenders as u64);
    }
}

/// An almost idle lock: tiny sections, sleeps in between. Finds races that a saturated lock hides.
pub fn almost_idle<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let rounds = scale.sleeps / 20;
    L::P::run(scale.crowd, |me| {
        for _ in 0..rounds {
            let held = Held::new(&guarded.lock, Way::Write);
            guarded.section(me, Way::Write);
            drop(held);
            L::P::nap(4);
        }
    });
    guarded.finish(u64::from(rounds) * scale.crowd as u64);
}

/// Every way against every way, in a crowd.
pub fn every_way<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    hammer::<L>(scale.crowd, scale.sleeps / 20, |me, round| L::WAYS[(me + round as usize) % L::WAYS.len()]);
}

/// A queue of waiters, built one by one behind a holder, drains when it leaves: for every pattern
/// of ways.
pub fn a_queue_drains<L: Lock<P: Stage>>() {
    for ways in patterns::<L>(4) {
        drain::<L>(ways[0], &ways[1..]);
    }
}

/// As long a queue as the stage allows; in two ways, writers among readers.
pub fn a_long_queue_drains<L: Lock<P: Stage>>() {
    let length = <L::P as Stage>::SCALE.queue;
    for period in 1..=L::WAYS.len() + 1 {
        let ways: Vec<Way> = (0..length)
            .map(|place| if place % period == 0 { Way::Write } else { L::WAYS[L::WAYS.len() - 1] })
            .collect();
        drain::<L>(Way::Write, &ways);
    }
}

fn drain<L: Lock<P: Stage>>(holding: Way, waiting: &[Way]) {
    let guarded = Guarded::<L>::default();
    let seats = Seats::<L::P>::new(waiting.len());
    let arrived = Steps::<L::P>::default();
    let served: Vec<Steps<L::P>> = waiting.iter().map(|_| Steps::default()).collect();
    let writes = Steps::<L::P>::default();
    L::P::run(waiting.len() + 1, |me| {
        if me == waiting.len() {
            let held = Held::new(&guarded.lock, holding);
            for place in 0..waiting.len() {
                arrived.advance();
                // Readers may not have to wait for a reader.
                until::<L::P>(|| seats.queued(place) || served[place].count() > 0);
            }
            drop(held);
        } else {
            arrived.wait_for(me + 1);
            seats.sit(me);
            let held = Held::new(&guarded.lock, waiting[me]);
            served[me].advance();
            if guarded.section(me, waiting[me]) == 1 {
                writes.advance();
            }
            drop(held);
        }
    });
    guarded.finish(u64::from(writes.count()));
}
