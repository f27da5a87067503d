//! The pool's bounds, and a lock that gets no record. On the real machine, in lanes dealt out by
//! thread.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::thread::scope;
use std::vec::Vec;

use super::contention::{MOST_VAIN, RIPE};
use super::pool::{HEADSHIP, LANES, Mark, Pool, RECORDS};
use super::{Past, RawHqSpinLock, Statistics, TYPE, Tunable, Visit};
use crate::platform::linux::Linux;
use crate::platform::thread::NodeName;
use crate::platform::{Ordering::Relaxed, Platform, Word};
use crate::spin::node::TOLD;

fn eager(pool: &Pool<Linux>) {
    for (tunable, value) in [
        (Tunable::FairnessThreshold, 2),
        (Tunable::GeneralHandoffsTurnNuma, 0),
        (Tunable::RemoteHandoffsTurnNuma, 0),
        (Tunable::WaitersPerLaneTurnNuma, 1),
        (Tunable::WaitBeforeLook, 0),
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

/// As many as of locks at random addresses: (1 - 1/e) of 64 places, give or take.
#[test]
fn locks_of_an_array_are_spread_over_the_records() {
    let distances = (1..=32).map(|words| words * 4).chain((8..=20).map(|log| 1 << log));
    for distance in distances {
        for array in (0..8).map(|number| 0x7f00_0000_0000 + number * 0x1_2340) {
            let first = |number: u64| {
                (0..number)
                    .all(|other| !Pool::<Linux>::same_places(array + number * distance, array + other * distance))
            };
            let places = (0..RECORDS as u64).filter(|&number| first(number)).count();
            assert!(places >= 32, "{places} places for locks {distance} bytes apart");
        }
    }
}

#[test]
fn the_three_places_of_a_lock_are_different() {
    static POOL: Pool<Linux> = Pool::new();
    for key in (0..4_096).map(|number| number * 4) {
        let places = [1, 2, 3].map(|mark| core::ptr::from_ref(POOL.find(key, Mark::of_tail(mark).unwrap()).lane(0)));
        assert!(places[0] != places[1] && places[1] != places[2] && places[2] != places[0], "{key}");
    }
}

#[test]
fn locks_are_spread_over_the_pool() {
    // Words side by side, a line, a page, and a megabyte apart.
    for apart in [4, 64, 4_096, 1 << 20] {
        let mut strangers: Vec<u64> = Vec::new();
        for key in (0..RECORDS as u64).map(|number| 0x7f00_0000_0000 + number * apart) {
            if !strangers.iter().any(|other| Pool::<Linux>::same_places(*other, key)) {
                strangers.push(key);
            }
        }
        assert!(strangers.len() > RECORDS / 2, "{} places for {RECORDS} locks, {apart} apart", strangers.len());
    }
}

#[test]
fn locks_with_the_same_places_leave_each_other_none() {
    static POOL: Pool<Linux> = Pool::new();
    let all: Vec<_> = core::iter::from_fn(|| POOL.grab(77, 0)).collect();
    assert_eq!(all.len(), 3);
    let mut same = 0;
    for key in (0..1_000).map(|number| number * 4) {
        let other = POOL.grab(key, 0);
        assert_eq!(other.is_none(), Pool::<Linux>::same_places(77, key), "{key}");
        same += usize::from(other.is_none());
        other.into_iter().for_each(|binding| binding.give_back(false));
    }
    // One in 64, more or less.
    assert!((1..100).contains(&same), "{same}");
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
    eager(Linux::commons().pool);
    let lock = RawHqSpinLock::<Linux>::default();
    // Another lock whose records are at the same places.
    let key =
        (1..).map(|step| Linux::key(&lock) + step * 64).find(|key| Pool::<Linux>::same_places(Linux::key(&lock), *key));
    let taken: Vec<_> = core::iter::from_fn(|| Linux::commons().pool.grab(key.unwrap(), 0)).collect();
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
    eager(Linux::commons().pool);
    let lock = RawHqSpinLock::<Linux>::default();
    scope(|threads| {
        let worker = threads.spawn(|| contend(&lock));
        let mut value = 0;
        while !worker.is_finished() {
            value = (value + 1) % 5;
            Linux::commons().pool.tunables().set(Tunable::FairnessThreshold, value).unwrap();
            Linux::commons().pool.tunables().set(Tunable::Lanes, value + 1).unwrap();
            std::thread::yield_now();
        }
    });
    eager(Linux::commons().pool);
}

#[test]
fn constants_are_as_documented() {
    // Bit 9 of the word; above the lanes' bits of the chain; beside a state of two bits.
    assert_eq!((TYPE, HEADSHIP, TOLD), (0x200, 0x1_0000_0000, 62));
}

#[test]
fn heads_are_told_what_was_known() {
    let past = Past { handoffs: 0xfedc, remote: 0x7654, lane: 0xa5, vain: MOST_VAIN, ripe: true };
    for past in [past, Past { ripe: false, ..past }] {
        let told = past.pack();
        assert!(told >> TOLD == 0 && Visit::unpack(told).is_none());
        let known = Past::unpack(told);
        assert_eq!(
            (known.handoffs, known.remote, known.lane, known.vain, known.ripe),
            (0xfedc, 0x7654, 0xa5, MOST_VAIN, past.ripe)
        );
    }
    // In hierarchical mode, with the same bits about it.
    let first = NodeName::from_raw(0x89ab);
    for (mark, first) in [(1, first), (2, None), (3, first)] {
        let visit = Visit { mark: Mark::of_tail(mark).unwrap(), run: 0xdead_beef, first };
        let told = visit.pack() | 1 << RIPE;
        let known = Visit::unpack(told).unwrap();
        assert_eq!((u32::from(known.mark.raw()), known.run, known.first), (mark, 0xdead_beef, first));
    }
    assert!([0, 4, u32::MAX].iter().all(|tail| Mark::of_tail(*tail).is_none()));
}

#[test]
fn an_attempt_in_vain_doubles_the_hand_overs_up_to_a_limit() {
    let mut past = Past { handoffs: 60, remote: 3, lane: 2, vain: 0, ripe: true };
    for vain in 1..=12 {
        past = Past { handoffs: 60, remote: 3, ..past }.afresh();
        assert_eq!((past.handoffs, past.remote, past.lane, past.ripe), (0, 0, 2, false));
        assert_eq!(past.vain, MOST_VAIN.min(vain));
    }
}

#[test]
fn lanes_are_visited_round_the_table() {
    static POOL: Pool<Linux> = Pool::new();
    POOL.tunables().set(Tunable::Lanes, LANES as u32).unwrap();
    POOL.tunables().set(Tunable::LocalHandoffsToIncreaseRemotes, 2).unwrap();
    let binding = POOL.grab(77, 30).unwrap();
    assert_eq!((binding.current(), binding.next_lane()), (30, None));
    // Somebody is head already.
    assert!([4, 31, 1].iter().all(|lane| !binding.enter_chain(*lane)));
    let mut visits = std::vec::Vec::new();
    while let Some(lane) = binding.next_lane() {
        // Waiters are left behind in the first only.
        binding.move_to(lane, visits.is_empty(), 3);
        visits.push(lane);
    }
    assert_eq!(visits, [31, 1, 4, 30]);
    assert_eq!(binding.statistics(), Some(Statistics { local: 12, remote: 4 }));
    assert!(binding.leave_chain(), "nobody waits");
    assert!(binding.enter_chain(8), "the headship was free");
    assert!(!binding.enter_chain(0) && !binding.leave_chain(), "somebody waits");
    // Who has the headship need not be in the chain.
    assert_eq!(binding.next_lane(), Some(0));
    // It has left its lane, where somebody has come since: that one waits for a whole round.
    assert!(!binding.enter_chain(8));
    assert_eq!(binding.next_lane(), Some(0));
    binding.move_to(0, false, 0);
    assert_eq!(binding.next_lane(), Some(8));
}

#[test]
fn checkers_are_shown_what_bearers_note() {
    static POOL: Pool<Linux> = Pool::new();
    let binding = POOL.grab(3, 0).unwrap();
    binding.note_vain_visits(0x5a5a);
    assert_eq!(POOL.notes().count(), 5 * RECORDS);
    assert_eq!(POOL.notes().filter(|word| word.load(Relaxed) == 0x5a5a).count(), 1);
}

#[test]
fn visits_pay_from_three_hand_overs_on() {
    static POOL: Pool<Linux> = Pool::new();
    let tunables = [(Tunable::Lanes, 3), (Tunable::GeneralHandoffsTurnNuma, 3), (Tunable::RemoteHandoffsKeepNuma, 2)];
    tunables.into_iter().for_each(|(tunable, value)| POOL.tunables().set(tunable, value).unwrap());
    assert!([0, 1, 77].iter().all(|key| !POOL.is_warm(*key)), "nobody has been here");
    for (paid, early, warm) in [(1, false, false), (2, false, true), (2, true, false), (3, false, true)] {
        let binding = POOL.grab(77, 0).unwrap();
        for visit in 1..=4 {
            assert!(!binding.is_in_vain());
            binding.move_to(visit % 3, false, 2);
        }
        assert!(binding.is_in_vain(), "more than three did not pay");
        for visit in 0..paid {
            binding.move_to(visit % 3, false, 3);
            assert!(!binding.is_in_vain());
        }
        binding.note_vain_visits(3);
        assert!(!binding.is_in_vain());
        binding.note_vain_visits(4);
        assert!(binding.is_in_vain());
        binding.give_back(early);
        assert_eq!((POOL.is_warm(77), POOL.is_warm(76), POOL.is_warm(78)), (warm, false, false));
    }
    assert_eq!(POOL.in_use(), 0);
}

#[test]
fn hand_overs_that_a_lane_went_without_are_not_counted() {
    static POOL: Pool<Linux> = Pool::new();
    POOL.tunables().set(Tunable::Lanes, 3).unwrap();
    let binding = POOL.grab(9, 0).unwrap();
    assert_eq!([binding.forgo(8, 100), binding.forgo(4, 100)], [0, 50]);
    binding.move_to(1, false, 60);
    assert_eq!(binding.statistics(), Some(Statistics { local: 10, remote: 1 }));
    binding.move_to(2, false, 60);
    assert_eq!(binding.statistics(), Some(Statistics { local: 70, remote: 2 }));
}

#[test]
fn lanes_close_together_or_not_at_all() {
    static POOL: Pool<Linux> = Pool::new();
    POOL.tunables().set(Tunable::Lanes, 5).unwrap();
    let binding = POOL.grab(11, 3).unwrap();
    let word = |lane| &binding.lane(lane).word;
    let words = || [0, 1, 2, 3, 4].map(|lane| word(lane).load(Relaxed));
    let open = binding.open();
    assert_eq!(words(), [open, open, open, 0, open]);
    // The headship's own lane, which is not in the chain, and one that is.
    word(3).store(open | 0x30, Relaxed);
    word(1).store(open | 0x10, Relaxed);
    assert!(!binding.enter_chain(1));
    // And one whose waiter has not noted it yet.
    word(4).store(open | 0x40, Relaxed);
    let before = words();
    assert_eq!(binding.close(false), None);
    assert_eq!(words(), before);
    assert!(!binding.enter_chain(4));
    let lasts = binding.close(false).expect("all have noted their lanes");
    assert_eq!((lasts[..6].to_vec(), words()), (std::vec![0, 0x10, 0, 0x30, 0x40, 0], [0; 5]));
    binding.reopen(&lasts);
    assert_eq!(words(), before);
    // The bearer has left its lane: what is there now has to be noted as any other.
    assert_eq!(binding.close(true), None);
    word(3).store(open, Relaxed);
    assert_eq!(binding.close(true).unwrap()[..6], [0, 0x10, 0, 0, 0x40, 0]);
    binding.give_back(false);
    assert!(binding.look().is_none() && binding.statistics().is_none());
}

#[test]
fn settings_are_copied() {
    let (one, other) = (super::Tunables::<Linux>::default(), super::Tunables::<Linux>::default());
    for (value, &tunable) in (0..).zip(Tunable::ALL) {
        one.set(tunable, tunable.default() ^ (value % 2)).unwrap();
        other.set(tunable, tunable.most()).unwrap();
        assert!(tunable.most() == u32::MAX || one.set(tunable, tunable.most() + 1).is_err());
    }
    other.copy_from(&one);
    assert!(Tunable::ALL.iter().all(|tunable| other.get(*tunable) == one.get(*tunable)));
}
