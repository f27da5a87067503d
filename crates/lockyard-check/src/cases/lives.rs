//! Threads that come and go: short lives, exits while others wait, locks that outlive the thread
//! that took them.

use lockyard::platform::Platform;

use crate::cases::Guarded;
use crate::lock::{Held, Lock, Way};
use crate::stage::{Seats, Stage, Steps};

/// Thousands of threads that each take the lock once; a few at a time, so that they contend.
pub fn many_short_threads<L: Lock<P: Stage>>() {
    const TOGETHER: usize = 8;
    let batches = <L::P as Stage>::SCALE.short_lived / TOGETHER;
    let guarded = Guarded::<L>::default();
    let writes = Steps::<L::P>::default();
    for batch in 0..batches {
        L::P::run(TOGETHER, |me| {
            let way = L::WAYS[(me + batch) % L::WAYS.len()];
            let held = Held::new(&guarded.lock, way);
            if guarded.section(me, way) == 1 {
                writes.advance();
            }
            if me == 0 {
                L::P::nap(0);
            }
            drop(held);
        });
    }
    guarded.finish(u64::from(writes.count()));
}

/// A thread exits with the lock held while others wait: it stays held, and they go on when it is
/// released for the holder. Where nobody may do that, it stays held.
pub fn exit_of_a_holder<L: Lock<P: Stage>>() {
    for &way in L::WAYS {
        let lock = L::default();
        if !L::RELEASED_BY_OTHERS {
            L::P::run(1, |_| lock.lock(way));
            assert!(!lock.try_lock(Way::Write) && !lock.at_rest());
            continue;
        }
        let seats = Seats::<L::P>::new(3);
        L::P::run(1, |_| lock.lock(way)); // and is gone when this returns
        assert!(!lock.try_lock(Way::Write));
        let queued = Steps::<L::P>::default();
        L::P::run(4, |me| {
            if me == 3 {
                (0..3).for_each(|seat| seats.wait_queued(seat));
                queued.advance();
                // SAFETY: on behalf of the thread that took it.
                unsafe { lock.unlock(way) };
            } else {
                seats.sit(me);
                let _held = Held::new(&lock, Way::Write);
                assert_eq!(queued.count(), 1, "let in beside a holder that has exited");
            }
        });
        assert!(lock.at_rest());
    }
}

/// Waiters exit as soon as they have had the lock, while others are still queued, and new threads
/// (with their records) queue behind.
pub fn exits_while_others_wait<L: Lock<P: Stage>>() {
    let scale = <L::P as Stage>::SCALE;
    let guarded = Guarded::<L>::default();
    let rounds = (scale.sleeps / 100).max(1);
    let stop = Steps::<L::P>::default();
    let writes = Steps::<L::P>::default();
    L::P::run(3, |me| {
        if me == 0 {
            for _ in 0..rounds {
                // Threads of a run within a run: they come and go while 1 and 2 contend.
                L::P::run(scale.threads, |inner| {
                    let held = Held::new(&guarded.lock, Way::Write);
                    guarded.section(10 + inner, Way::Write);
                    L::P::nap(0);
                    drop(held);
                    writes.advance();
                });
            }
            stop.advance();
        } else {
            while stop.count() == 0 {
                let held = Held::new(&guarded.lock, Way::Write);
                guarded.section(me, Way::Write);
                L::P::nap(if me == 1 { 0 } else { 4 });
                drop(held);
                writes.advance();
            }
        }
    });
    guarded.finish(u64::from(writes.count()));
}

/// A lock that is held when it is dropped, or waited for a moment before, leaves nothing behind:
/// the next lock at its place is free.
pub fn drop_of_a_held_lock<L: Lock<P: Stage>>() {
    for round in 0..64 {
        let way = L::WAYS[round % L::WAYS.len()];
        let mut place = Some(Box::new(L::default()));
        if let Some(lock) = &place {
            let held = Held::new(&**lock, way);
            L::P::run(1, |_| assert!(!lock.try_lock(Way::Write)));
            core::mem::forget(held);
        }
        place = None;
        assert!(place.is_none());
        let lock = Box::new(L::default());
        L::P::run(1, |_| assert!(Held::try_new(&*lock, Way::Write).is_some()));
    }
}

/// A guard that is forgotten leaves the lock held, and nothing else.
pub fn forgotten_guard<L: Lock<P: Stage>>() {
    for &way in L::WAYS {
        let lock = L::default();
        core::mem::forget(Held::new(&lock, way));
        L::P::run(1, |_| assert!(!lock.try_lock(Way::Write)));
        // SAFETY: the forgotten guard's.
        unsafe { lock.unlock(way) };
        assert!(lock.at_rest());
        drop(Held::new(&lock, Way::Write));
    }
}
