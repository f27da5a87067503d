//! Locks of one class.

use super::*;

/// The threads were told to split further what they protect, which had been done.
#[test]
fn the_only_lock_of_many_that_threads_wait_for_is_named() {
    let asked = place_in("shards", "customer", "customer");
    let parts = [
        "Locks cost this program ".to_owned(),
        format!(" for mutex of {asked}"),
        "Of its 64 locks, the one at 0x".to_owned(),
        " of the waiting: spread what they protect more evenly".to_owned(),
    ];
    told_by("shards", "one", &parts);
}

/// It was one of three: each process has a copy.
#[test]
fn the_only_lock_of_each_process_is_none_of_many() {
    let asked = place_in("shards", "worker", "worker");
    let report = told_of(&preloaded::program("shards", ""), "forked", &[format!(" for mutex of {asked}")]);
    assert!(!report.contains("Of its "), "{report}");
}
