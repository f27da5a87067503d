//! References are conserved, the last one is given up under the lock, the dead stay dead, and the
//! lock's owner is alone with the count.

use lockyard::platform::Platform;

use crate::lock::{Held, Last, References, Way};
use crate::stage::{Dice, Stage, Steps};

/// Threads take and give up references in every way, and now and then the lock, on an object that
/// keeps one: none is lost, none is left.
pub fn references_are_conserved<L: References<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let object = L::default();
    assert!(object.get_not_dead());
    L::P::run(scale.threads, |me| {
        let mut dice = Dice::new(me as u64 + 1);
        let mut mine = 0;
        for _ in 0..scale.rounds {
            match dice.roll(8) {
                0 | 1 => {
                    assert!(object.get_not_dead());
                    mine += 1;
                }
                2 => {
                    assert!(object.get_not_zero());
                    mine += 1;
                }
                3 if mine > 0 => {
                    object.get();
                    mine += 1;
                }
                4 if mine > 0 => mine -= u32::from(object.put_return().is_some()),
                5 => drop(Held::new(&object, Way::Write)),
                _ if mine > 0 => {
                    assert!(!object.put_or(|_| Last::Keep), "the object's own reference was given up");
                    mine -= 1;
                }
                _ => {}
            }
            assert!(object.count() > mine as i32);
        }
        (0..mine).for_each(|_| assert!(!object.put_or(|_| Last::Keep)));
    });
    assert_eq!(object.count(), 1);
    assert!(object.put_or(|count| if count == 1 { Last::Put } else { Last::Keep }));
    assert!(object.at_rest());
}

/// All give up theirs at once: exactly one has the last, under the lock, and the object comes to
/// life again for the next round.
pub fn exactly_one_has_the_last<L: References<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let object = L::default();
    let (begun, last) = (Steps::<L::P>::default(), Steps::<L::P>::default());
    let rounds = scale.sleeps as usize / 8;
    L::P::run(scale.threads, |_| {
        for round in 0..rounds {
            assert!(object.get_not_dead());
            begun.advance();
            begun.wait_for((round + 1) * scale.threads);
            object.put_or(|count| {
                assert_eq!(count, 1, "the lock was given for a reference that is not the last");
                last.advance();
                Last::Put
            });
            last.wait_for(round + 1);
            assert_eq!(last.count() as usize, round + 1, "two had the last");
        }
    });
    assert!(object.at_rest());
}

/// Lookups against the death of the object: none succeeds after it.
pub fn the_dead_stay_dead<L: References<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    for _ in 0..scale.sleeps / 8 {
        let object = L::default();
        assert!(object.get_not_dead());
        let dead = Steps::<L::P>::default();
        L::P::run(scale.threads, |me| {
            if me == 0 {
                object.get();
                object.kill();
                dead.advance();
            } else {
                loop {
                    let was_dead = dead.count() > 0;
                    if !object.get_not_zero() {
                        break;
                    }
                    assert!(!was_dead, "a dead object was given out");
                    object.put_or(|_| Last::Keep);
                }
                dead.wait_for(1);
                assert!(!object.get_not_dead() && !object.get_not_zero() && object.put_return().is_none());
            }
        });
        assert!(object.count() < 0);
    }
}

/// Under the lock the count stands still.
pub fn the_owner_is_alone_with_the_count<L: References<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let object = L::default();
    assert!(object.get_not_dead());
    L::P::run(scale.threads, |me| {
        for round in 0..scale.rounds / 4 {
            if me == 0 {
                let held = Held::new(&object, Way::Write);
                let count = object.count();
                if round % 32 == 0 {
                    L::P::nap(0);
                }
                assert_eq!(object.count(), count, "a reference was counted past the lock's owner");
                assert!(object.put_return().is_none());
                drop(held);
            } else {
                assert!(object.get_not_zero());
                assert!(!object.put_or(|_| Last::Keep));
            }
        }
    });
    assert_eq!(object.count(), 1);
}
