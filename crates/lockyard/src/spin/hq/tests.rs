//! The pool's bounds, and a lock that gets no record. On the real machine, in lanes dealt out by thread.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::thread::scope;
use std::vec::Vec;

use super::pool::{LANES, Pool};
use super::{RawHqSpinLock, TYPE, Tunable};
use crate::platform::linux::Linux;
use crate::platform::{Ordering::Relaxed, Platform, Word};

fn eager(pool: &Pool<Linux>) {
    for (tunable, value) in [
        (Tunable::FairnessThreshold, 2),
        (Tunable::GeneralHandoffsTurnNuma, 0),
        (Tunable::RemoteHandoffsTurnNuma, 0),
        (Tunable::WaitersPerLaneTurnNuma, 1),
        (Tunable::Lanes, 3),
    ] {
        pool.tunables().set(tunable, value).unwrap();
    }
}

/// A counter under the lock: is every increment there?
fn contend(lock: &RawHqSpinLock<Linux>) {
    struct Shared(core::cell::UnsafeCell<u64>);
    // SAFETY: touched under the lock only.
    unsafe impl Sync for Shared {}
    impl Shared {
        fn increment(&self) {
            // SAFETY: as above.
            unsafe { *self.0.get() += 1 };
        }
    }
    let count = Shared(core::cell::UnsafeCell::new(0));
    scope(|threads| {
        for _ in 0..6 {
            threads.spawn(|| {
                for _ in 0..2_000 {
                    lock.acquire();
                    count.increment();
                    // SAFETY: acquired above.
                    unsafe { lock.release() };
                }
            });
        }
    });
    assert_eq!(count.0.into_inner(), 12_000);
    assert_eq!(lock.raw(), TYPE);
}

#[test]
fn a_lock_has_three_places_and_gives_them_back() {
    static POOL: Pool<Linux> = Pool::new();
    eager(&POOL);
    for round in 1..4 {
        let bindings: Vec<_> = core::iter::from_fn(|| POOL.grab(77, 1)).collect();
        assert_eq!((bindings.len(), POOL.in_use()), (3, 3));
        for binding in &bindings {
            assert_eq!((binding.current(), binding.open() >> 16), (1, round));
            assert!(binding.next_lane().is_none());
            // The lane of the headship is still closed: nobody can have queued there.
            binding.lane(1).word.store(binding.open(), Relaxed);
            assert_eq!(binding.close(true), Some([0; LANES]));
            assert!(binding.look().is_some());
            binding.give_back(false);
            assert!(binding.look().is_none());
        }
        assert_eq!((POOL.in_use(), POOL.most_in_use(), POOL.most_in_use()), (0, 3, 0));
    }
}

#[test]
fn lanes_have_quotas_in_proportion_to_their_crowds() {
    static POOL: Pool<Linux> = Pool::new();
    let binding = POOL.grab(5, 0).unwrap();
    // The most crowded so far has all of it; another what its share is, to the hand-over.
    assert_eq!([24, 8, 24, 12].map(|crowd| binding.forgo(crowd, 1000)), [0, 666, 0, 500]);
    assert_eq!(binding.forgo(0, u32::MAX), u32::MAX);
    // A crowd that has gone is forgotten.
    (0..40).for_each(|_| {
        binding.forgo(3, 1000);
    });
    assert_eq!(binding.forgo(3, 1000), 0);
}

#[test]
fn a_pool_without_a_free_record_means_the_plain_queue() {
    eager(Linux::hq());
    let lock = RawHqSpinLock::<Linux>::default();
    // Another lock whose records are at the same places.
    let key =
        (1..).map(|step| Linux::key(&lock) + step * 64).find(|key| Pool::<Linux>::same_places(Linux::key(&lock), *key));
    let taken: Vec<_> = core::iter::from_fn(|| Linux::hq().grab(key.unwrap(), 0)).collect();
    contend(&lock);
    for binding in taken {
        binding.lane(0).word.store(binding.open(), Relaxed);
        assert!(binding.close(true).is_some());
        binding.give_back(false);
    }
    contend(&lock);
}

#[test]
fn settings_may_change_at_any_time() {
    eager(Linux::hq());
    let lock = RawHqSpinLock::<Linux>::default();
    scope(|threads| {
        let worker = threads.spawn(|| contend(&lock));
        let mut value = 0;
        while !worker.is_finished() {
            value = (value + 1) % 5;
            Linux::hq().tunables().set(Tunable::FairnessThreshold, value).unwrap();
            Linux::hq().tunables().set(Tunable::Lanes, value + 1).unwrap();
            std::thread::yield_now();
        }
    });
    eager(Linux::hq());
}
