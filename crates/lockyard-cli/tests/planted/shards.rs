//! Locks of one class.

use super::*;

/// The threads were told to split further what they protect, which had been done.
#[test]
fn the_only_lock_of_many_that_threads_wait_for_is_named() {
    let parts = [
        "Locks cost this program ".to_owned(),
        format!(" for mutex of {}", place_in("shards", "customer", "customer")),
        "Of its 64 locks, the one at 0x".to_owned(),
        " of the waiting: spread what they protect more evenly".to_owned(),
    ];
    told_by("shards", "uneven", &parts);
}
