//! Readers are inside together, writers alone, and a writer can become a reader without letting go.

use lockyard::platform::Platform;

use crate::cases::Guarded;
use crate::cases::exclusion::hammer;
use crate::lock::{Held, Lock, Shared, Way};
use crate::stage::{Seats, Stage, Steps};

/// Readers really overlap: each stays until all are inside.
pub fn readers_overlap<L: Shared<P: Stage>>() {
    for readers in 2..=4 {
        let lock = L::default();
        let inside = Steps::<L::P>::default();
        L::P::run(readers, |_| {
            let _held = Held::new(&lock, Way::Read);
            inside.advance();
            inside.wait_for(readers);
        });
        assert!(lock.at_rest());
    }
}

/// Readers that were queued behind a writer are all let in, and are inside together.
pub fn queued_readers_overlap<L: Shared<P: Stage>>() {
    let readers = <L::P as Stage>::SCALE.threads;
    let lock = L::default();
    let seats = Seats::<L::P>::new(readers);
    let begun = Steps::<L::P>::default();
    let inside = Steps::<L::P>::default();
    L::P::run(readers + 1, |me| {
        if me == readers {
            let held = Held::new(&lock, Way::Write);
            begun.advance();
            (0..readers).for_each(|seat| seats.wait_queued(seat));
            drop(held);
        } else {
            begun.wait_for(1);
            seats.sit(me);
            let _held = Held::new(&lock, Way::Read);
            inside.advance();
            inside.wait_for(readers);
        }
    });
    assert!(lock.at_rest());
}

/// Every share of readers.
pub fn readers_and_writers<L: Shared<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    for writers_in in [2, 5, 20] {
        hammer::<L>(scale.threads, scale.rounds / 2, |me, round| {
            if (round + me as u32).is_multiple_of(writers_in) { Way::Write } else { Way::Read }
        });
    }
}

/// Dedicated readers and writers.
pub fn readers_beside_writers<L: Shared<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    hammer::<L>(scale.threads, scale.rounds, |me, _| if me % 2 == 0 { Way::Write } else { Way::Read });
}

/// Readers only, in a crowd: nobody waits for ever for others of the same kind.
pub fn readers_only<L: Shared<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    hammer::<L>(scale.crowd, scale.rounds / 4, |_, _| Way::Read);
}

/// Downgrade lets readers in, waiting and new ones, and keeps writers out.
pub fn downgrade_lets_readers_in_and_keeps_writers_out<L: Shared<P: Stage>>() {
    let guarded = Guarded::<L>::default();
    let seats = Seats::<L::P>::new(2);
    let begun = Steps::<L::P>::default();
    let read = Steps::<L::P>::default();
    let wrote = Steps::<L::P>::default();
    L::P::run(4, |me| match me {
        0 => {
            let held = Held::new(&guarded.lock, Way::Write);
            guarded.section(me, Way::Write);
            begun.advance();
            seats.wait_queued(0);
            let held = held.downgrade();
            begun.advance();
            read.wait_for(2);
            assert!(!guarded.lock.try_lock(Way::Write));
            guarded.section(me, Way::Read);
            assert_eq!(wrote.count(), 0);
            begun.advance(); // a writer queues from here on
            seats.wait_queued(1);
            assert_eq!(wrote.count(), 0, "a writer came in beside a downgraded one");
            drop(held);
        }
        1 => {
            begun.wait_for(1);
            seats.sit(0);
            let _held = Held::new(&guarded.lock, Way::Read);
            guarded.section(me, Way::Read);
            read.advance();
        }
        2 => {
            begun.wait_for(2);
            let _held = Held::new(&guarded.lock, Way::Read);
            guarded.section(me, Way::Read);
            read.advance();
        }
        _ => {
            begun.wait_for(3);
            seats.sit(1);
            let _held = Held::new(&guarded.lock, Way::Write);
            wrote.advance();
            guarded.section(me, Way::Write);
        }
    });
    guarded.finish(2);
}

/// Writers that downgrade in the thick of it: what they wrote is what they read.
pub fn downgrade_is_one_step<L: Shared<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let written = Steps::<L::P>::default();
    L::P::run(scale.threads, |me| {
        for round in 0..scale.rounds / 2 {
            let way = if (round as usize + me).is_multiple_of(3) { Way::Read } else { Way::Write };
            let held = Held::new(&guarded.lock, way);
            guarded.section(me, way);
            if way == Way::Write {
                let mine = written.advance();
                let _held = held.downgrade();
                guarded.section(me, Way::Read);
                if round % 16 == 0 {
                    L::P::nap(0);
                }
                assert_eq!(
                    written.count(),
                    mine,
                    "somebody wrote between a write section and the read section it became"
                );
            }
        }
    });
    guarded.finish(u64::from(written.count()));
}

/// A reader among many writers that try, and the other way round: tries of both kinds do not
/// disturb each other's counts.
pub fn tries_of_both_kinds<L: Shared<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let writes = Steps::<L::P>::default();
    L::P::run(scale.threads, |me| {
        for round in 0..scale.rounds {
            let way = L::WAYS[(me + round as usize / 3) % 2];
            if let Some(_held) = Held::try_new(&guarded.lock, way) {
                if guarded.section(me, way) == 1 {
                    writes.advance();
                }
            } else {
                L::P::relax();
            }
        }
    });
    guarded.finish(u64::from(writes.count()));
}

/// The lock says truly how it is held.
pub fn at_rest_again<L: Shared<P: Stage>>() {
    let lock = L::default();
    assert!(lock.at_rest());
    for &way in <L as Lock>::WAYS {
        drop(Held::new(&lock, way));
        assert!(lock.at_rest());
    }
    drop(Held::new(&lock, Way::Write).downgrade());
    assert!(lock.at_rest());
}
