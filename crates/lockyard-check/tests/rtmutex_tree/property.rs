//! Random cases, with every invariant looked at before every step.

use lockyard_check::native::guarded;
use lockyard_check::priorities::{Found, Size, perform};

/// Performs the cases with these seeds. `LOCKYARD_PRIORITY_CASES` sets how many.
fn cases(size: Size, count: u64) -> Found {
    let count = std::env::var("LOCKYARD_PRIORITY_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(count);
    let mut sum = Found::default();
    for seed in 1..=count {
        match perform(seed, size) {
            Ok(found) => sum.add(&found),
            Err(error) => panic!("case {seed}, {size:?}: failed {error}"),
        }
    }
    sum
}

/// The short form. What it must have met is part of it: a case that meets nothing shows nothing.
#[test]
fn effective_priority_is_the_maximum_over_all_waiters() {
    let found = guarded("property::effective_priority", || cases(Size::Small, 250));
    let count = |event: &str| found.events.get(event).copied().unwrap_or(0);
    assert!(found.settled > 0 && found.grants > 0 && found.timeouts > 0, "{found:?}");
    assert!(found.deadlocks[1] > 0 && found.deadlocks[2..].iter().sum::<u64>() > 0, "{:?}", found.deadlocks);
    for event in ["rtmutex_boost", "rtmutex_deboost", "rtmutex_walk", "rtmutex_spin_owner", "rtmutex_steal"] {
        assert!(count(event) > 0, "no case met {event}");
    }
    assert_eq!(count("rtmutex_boost_fail"), 0);
}

/// More than 32 threads on as many CPUs.
#[test]
fn crowds_on_large_machines() {
    let found = guarded("property::crowds", || cases(Size::Crowd, 4));
    assert!(found.settled > 0 && found.events.get("rtmutex_boost").is_some_and(|&count| count > 0), "{found:?}");
}

/// Cases that once failed: 1068, where a release and a taking of the same mutex followed each other
/// unseen; 1903, where a waiter kept its place by a priority that it had no more; 8425, where the
/// last look came before the last store was visible.
#[test]
fn cases_that_failed() {
    for seed in [1068, 1903, 8425, 15362, 21433, 38964, 40229] {
        let found = guarded("property::cases_that_failed", || perform(seed, Size::Small));
        assert!(found.is_ok(), "case {seed}: {found:?}");
    }
}
