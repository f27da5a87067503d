//! Random cases, with every invariant looked at before every step.

use lockyard::cancel::Until;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard_check::native::guarded;
use lockyard_check::priorities::{Found, Size, perform};
use lockyard_sim::faults::Faults;
use lockyard_sim::machine::catalog;
use lockyard_sim::{Config, Sim, Simulation, compute};

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

/// Two waiters give up at the same moment while their owner, whose own wait makes them walk without
/// the wait lock, releases by the fast path. (A blind store to the word, planted there, goes wrong
/// at one seed in eighteen.)
#[test]
fn what_is_released_is_not_resurrected() {
    let model = catalog::machine("quad2008").unwrap_or_else(|error| panic!("{error}"));
    let resurrected = || {
        (1..=100).find(|&seed| {
            let faults = Faults { preempt_one_in: 1_000, preempt_ns: 2_000, ..Faults::default() };
            let config = Config { seed, faults, event_limit: 2_000_000, ..Config::new(model.clone()) };
            let simulation = Simulation::new(&config, 4).expect("a simulation");
            let [m, n] = ["m", "n"].map(|name| simulation.place(name, RawTreeRtMutex::<Sim>::default()).expect("room"));
            let release = |mutex: &RawTreeRtMutex<Sim>| {
                // SAFETY: acquired by the caller.
                unsafe { mutex.release() }.expect("the owner");
            };
            let outcome = simulation.run(|me| {
                for _ in 0..40 {
                    match me {
                        0 => {
                            m.acquire().unwrap_or_else(|cycle| panic!("{cycle}"));
                            if n.acquire_until(Until::after(2_000)).is_ok() {
                                release(n);
                            }
                            release(m);
                        }
                        1 => {
                            n.acquire().unwrap_or_else(|cycle| panic!("{cycle}"));
                            compute(3_000);
                            release(n);
                        }
                        _ => {
                            if m.acquire_until(Until::after(1_000)).is_ok() {
                                release(m);
                            }
                        }
                    }
                }
            });
            outcome.is_err()
        })
    };
    assert_eq!(guarded("property::resurrection", resurrected), None);
}
