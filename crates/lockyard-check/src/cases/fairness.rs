//! Nobody starves. Nothing is measured: one thread keeps taking the lock, and stops only when the
//! waiter has been served, so a lock that lets it starve the waiter hangs. Only for locks that
//! promise a bound.

use lockyard::platform::Platform;

use crate::cases::patterns;
use crate::lock::{Held, Lock, Way};
use crate::stage::{Seats, Stage, Steps, until};

/// How often the waiter must get through.
const SERVED: u32 = 5;

/// One thread takes the lock again and again without a pause, until the waiter was served: for
/// every way of both.
pub fn a_waiter_gets_past_a_barger<L: Lock<P: Stage>>() {
    for ways in patterns::<L>(2) {
        let (barging, waiting) = (ways[0], ways[1]);
        let lock = L::default();
        let served = Steps::<L::P>::default();
        L::P::run(2, |me| {
            if me == 0 {
                while served.count() < SERVED {
                    let held = Held::new(&lock, barging);
                    L::P::relax();
                    drop(held);
                }
            } else {
                for _ in 0..SERVED {
                    let held = Held::new(&lock, waiting);
                    served.advance();
                    drop(held);
                    L::P::nap(4); // the barger has it again before we come back
                }
            }
        });
        assert!(lock.at_rest());
    }
}

/// The same with a crowd of bargers, each of which holds the lock for a while.
pub fn a_waiter_gets_past_a_crowd<L: Lock<P: Stage>>() {
    let crowd = <L::P as Stage>::SCALE.crowd;
    for &waiting in L::WAYS {
        let lock = L::default();
        let served = Steps::<L::P>::default();
        L::P::run(crowd, |me| {
            if me == 0 {
                for _ in 0..SERVED {
                    let held = Held::new(&lock, waiting);
                    served.advance();
                    drop(held);
                    L::P::nap(4);
                }
            } else {
                while served.count() < SERVED {
                    let held = Held::new(&lock, L::WAYS[me % L::WAYS.len()]);
                    if me % 4 == 0 {
                        L::P::nap(0);
                    }
                    drop(held);
                }
            }
        });
        assert!(lock.at_rest());
    }
}

/// The first waiter is served although the lock is never seen free: its holder takes it again at
/// once, by trying, whenever it has released it.
pub fn handoff_to_a_waiter<L: Lock<P: Stage>>() {
    for ways in patterns::<L>(2) {
        let (holding, waiting) = (ways[0], ways[1]);
        if holding.shares(waiting) {
            continue;
        }
        let lock = L::default();
        let served = Steps::<L::P>::default();
        let begun = Steps::<L::P>::default();
        L::P::run(2, |me| {
            if me == 0 {
                let mut held = Some(Held::new(&lock, holding));
                begun.advance();
                while served.count() == 0 {
                    drop(held.take());
                    held = Held::try_new(&lock, holding);
                    let mut patience = 64;
                    until::<L::P>(|| {
                        patience -= 1;
                        patience == 0 || served.count() > 0
                    });
                }
            } else {
                begun.wait_for(1);
                let _held = Held::new(&lock, waiting);
                served.advance();
            }
        });
        assert!(lock.at_rest());
    }
}

/// Two readers hold the lock by turns, overlapping, so that it is never free by itself: a writer
/// gets through. A reader only leaves when the other is inside, or has been made to wait.
pub fn a_writer_gets_past_overlapping_readers<L: Lock<P: Stage>>() {
    let lock = L::default();
    let seats = Seats::<L::P>::new(2);
    let inside = [Steps::<L::P>::default(), Steps::<L::P>::default()];
    let served = Steps::<L::P>::default();
    L::P::run(3, |me| {
        if me == 2 {
            inside[0].wait_for(1);
            for _ in 0..SERVED {
                let held = Held::new(&lock, Way::Write);
                served.advance();
                drop(held);
                L::P::nap(4);
            }
            return;
        }
        seats.sit(me);
        let other = 1 - me;
        while served.count() < SERVED {
            let held = Held::new(&lock, Way::Read);
            let entries = inside[other].count();
            inside[me].advance();
            until::<L::P>(|| inside[other].count() > entries || seats.queued(other) || served.count() >= SERVED);
            drop(held);
        }
        inside[me].advance();
    });
    assert!(lock.at_rest());
}

/// Several writers take the lock in a loop: a reader gets through.
pub fn a_reader_gets_past_writers<L: Lock<P: Stage>>() {
    let lock = L::default();
    let served = Steps::<L::P>::default();
    L::P::run(5, |me| {
        if me == 0 {
            for _ in 0..SERVED {
                let held = Held::new(&lock, Way::Read);
                served.advance();
                drop(held);
                L::P::nap(4);
            }
        } else {
            while served.count() < SERVED {
                let _held = Held::new(&lock, Way::Write);
                L::P::nap(if me == 1 { 4 } else { 0 });
            }
        }
    });
    assert!(lock.at_rest());
}
