//! Locks that are taken by calls of other names than most.

use super::*;

/// Timed calls of a rwlock had no place; those of C11 had the place of our own code that calls
/// pthread's.
#[test]
fn calls_of_other_names_have_the_places_of_their_callers() {
    let entries = preloaded::program("entries", "");
    let at = |function, mark| place_in("entries", function, mark);
    for (what, class, asks, holds) in [
        ("timed", at("main", "map"), at("timed_reader", "timed reader"), at("timed_writer", "timed writer")),
        ("c11", at("main", "made"), at("both_ones", "waits"), at("slow_one", "slow")),
    ] {
        let parts = [format!(" of {class}"), format!("asked for in {asks}"), format!("held from {holds} for ")];
        told_of(&entries, what, &parts);
    }
}
