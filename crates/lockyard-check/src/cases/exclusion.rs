//! Mutual exclusion: two-word invariant, owner, torn patterns, hash chain, activity of readers and
//! writers. See [`Data`](crate::data::Data).

use lockyard::platform::Platform;

use crate::cases::Guarded;
use crate::lock::{Held, Lock, Way};
use crate::stage::{Dice, Stage, Steps};

/// `threads` threads, each `rounds` acquisitions in the ways of `way`.
pub(super) fn hammer<L: Lock<P: Stage>>(threads: usize, rounds: u32, way: impl Fn(usize, u32) -> Way + Sync) {
    let guarded = Guarded::<L>::default();
    let writes = Steps::<L::P>::default();
    L::P::run(threads, |me| {
        for round in 0..rounds {
            let way = way(me, round);
            let held = Held::new(&guarded.lock, way);
            if guarded.section(me, way) == 1 {
                writes.advance();
            }
            drop(held);
        }
    });
    guarded.finish(u64::from(writes.count()));
}

/// Writers only.
pub fn sections_exclude_each_other<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    hammer::<L>(scale.threads, scale.rounds, |_, _| Way::Write);
}

/// The least contention there is.
pub fn two_threads<L: Lock<P: Stage>>() {
    hammer::<L>(2, <L::P as Stage>::SCALE.rounds, |_, _| Way::Write);
}

/// Many more threads than CPUs, tiny sections.
pub fn oversubscription<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    hammer::<L>(scale.crowd, scale.rounds / 8, |_, _| Way::Write);
}

/// Locking, trying, and holding for a while, at random, in every way the lock has.
pub fn mixed_operations<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let writes = Steps::<L::P>::default();
    L::P::run(scale.threads, |me| {
        let mut dice = Dice::new(me as u64 + 1);
        for _ in 0..scale.rounds {
            let way = L::WAYS[dice.roll(L::WAYS.len() as u32) as usize];
            let held =
                if dice.roll(2) == 0 { Held::try_new(&guarded.lock, way) } else { Some(Held::new(&guarded.lock, way)) };
            if held.is_some() && guarded.section(me, way) == 1 {
                writes.advance();
            }
            if dice.roll(64) == 0 {
                L::P::nap(0); // held, or not, while others run
            }
        }
    });
    guarded.finish(u64::from(writes.count()));
}

/// Nested sections of several locks of the same kind, always in ascending order.
pub fn nested_locks<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let locks: Vec<Guarded<L>> = (0..4).map(|_| Guarded::default()).collect();
    let writes: Vec<Steps<L::P>> = (0..4).map(|_| Steps::default()).collect();
    L::P::run(scale.threads, |me| {
        let mut dice = Dice::new(me as u64 + 1);
        for _ in 0..scale.rounds / 4 {
            let chosen = dice.roll(16);
            let mut held = Vec::new();
            for (number, guarded) in locks.iter().enumerate().filter(|&(number, _)| chosen >> number & 1 == 1) {
                held.push(Held::new(&guarded.lock, Way::Write));
                guarded.section(me, Way::Write);
                writes[number].advance();
            }
        }
    });
    for (guarded, writes) in locks.iter().zip(&writes) {
        guarded.finish(u64::from(writes.count()));
    }
}
