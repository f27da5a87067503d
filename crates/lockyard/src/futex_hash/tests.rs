//! Tables: how they grow, and what becomes of those that are used against the rules.

use super::*;
use crate::platform::linux::Linux;

fn table<const N: usize>() -> [Bucket<Linux>; N] {
    [const { Bucket::new() }; N]
}

#[test]
fn a_moved_bucket_says_so_in_its_uppermost_bit() {
    let (old, new) = (table::<1>(), table::<2>());
    let hash = FutexHash::with_table(&old);
    // Somebody is about to lock it.
    old[0].waiters.fetch_add(1, Relaxed);
    assert!(hash.grow(&new));
    assert_eq!(old[0].waiters.load(Relaxed), 0x8000_0001);
    assert!(old[0].is_moved() && new.iter().all(|bucket| bucket.waiters.load(Relaxed) == 0));
}

#[test]
fn the_last_table_is_not_grown() {
    let (first, second, third) = (table::<1>(), table::<2>(), table::<4>());
    let hash = FutexHash::with_table(&first);
    // As if there had been others.
    hash.current.store(TABLES as u32 - 2, Relaxed);
    assert!(hash.grow(&second));
    assert_eq!(hash.buckets(), 2);
    assert!(!hash.grow(&third), "there is no cell for it");
    assert_eq!(hash.buckets(), 2);
}

#[test]
fn words_side_by_side_are_spread_over_the_buckets() {
    const BUCKETS: usize = 64;
    let buckets = table::<BUCKETS>();
    let hash = FutexHash::with_table(&buckets);
    for page in [0x1000, 0x55d0_c0de_1000, 0x7f12_3456_0000_u64] {
        let mut used = [false; BUCKETS];
        for word in 0..BUCKETS as u64 {
            let bucket = hash.bucket(0, page + 4 * word);
            let place = buckets.iter().position(|other| core::ptr::eq(other, bucket)).expect("of this table");
            used[place] = true;
        }
        let used = used.into_iter().filter(|used| *used).count();
        assert!(used > BUCKETS * 3 / 4, "{BUCKETS} words share {used} buckets");
    }
}

/// Two hashes over one table, one of which grows: a bucket sent the other's threads to a table that
/// it did not have.
#[test]
fn a_bucket_that_another_hash_has_moved_leads_nowhere() {
    let (shared, larger, own) = (table::<1>(), table::<2>(), table::<4>());
    let [mover, other] = [(); 2].map(|()| FutexHash::with_table(&shared));
    let word = <Linux as Platform>::U32::default();
    assert!(mover.grow(&larger));
    for _ in 0..2 {
        assert_eq!(other.wait(&word, 1, None), Waited::Differs);
        assert_eq!(other.wait(&word, 0, Some(0)), Waited::TimedOut);
        assert_eq!(other.wake(&word, 1), 0);
    }
    assert_eq!((other.buckets(), shared[0].waiters.load(Relaxed)), (1, MOVED));
    // It may go on in a table of its own.
    assert!(other.grow(&own));
    assert_eq!((other.buckets(), shared[0].waiters.load(Relaxed)), (4, MOVED));
    assert_eq!((mover.wait(&word, 0, Some(0)), other.wait(&word, 0, Some(0))), (Waited::TimedOut, Waited::TimedOut));
    assert!(own.iter().chain(&larger).all(|bucket| bucket.waiters.load(Relaxed) == 0));
}

/// A table's buckets would have been moved into themselves, under their own locks.
#[test]
fn a_table_with_buckets_of_an_earlier_one_is_refused() {
    let (buckets, apart) = (table::<8>(), table::<4>());
    let hash = FutexHash::with_table(&buckets[1..2]);
    assert!(!hash.grow(&buckets) && !hash.grow(&buckets[0..2]) && !hash.grow(&buckets[1..5]));
    assert_eq!(hash.buckets(), 1);
    assert!(hash.grow(&apart) && !hash.grow(&buckets), "not of the first, neither");
    let hash = FutexHash::with_table(&buckets[..2]);
    assert!(hash.grow(&buckets[4..]));
    assert_eq!(hash.buckets(), 4);
}

/// Hashes that grow in all the ways they should not: nothing is promised to their sleepers, but no
/// thread panics, or reads a table's place while it is written.
#[test]
#[allow(clippy::disallowed_methods)] // the tests' threads are the machine's
fn hashes_that_share_all_their_tables_find_their_ends() {
    let tables: [std::vec::Vec<Bucket<Linux>>; 8] =
        core::array::from_fn(|number| (0..1 << number).map(|_| Bucket::default()).collect());
    for _ in 0..20 {
        let hash = FutexHash::with_table(&tables[0]);
        std::thread::scope(|scope| {
            for me in 0..2 {
                let (hash, tables) = (&hash, &tables);
                scope.spawn(move || {
                    (1..8).map(|next| hash.grow(&tables[(next + me).min(7)])).filter(|grown| *grown).count()
                });
            }
            scope.spawn(|| {
                let word = <Linux as Platform>::U32::default();
                for _ in 0..50 {
                    assert_eq!(hash.wait(&word, 1, None), Waited::Differs);
                    assert!(hash.wake(&word, 1) == 0 && hash.buckets().is_power_of_two());
                }
            });
        });
        assert_eq!(hash.buckets(), 128);
    }
}
