//! The first waiter's spin. (Kernel bug no. 1: its test for the first place was inverted, nothing
//! crashed, and only a counter would have shown it.)

use std::collections::BTreeMap;

use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rtmutex_tree::policy::{NoSpin, Policy, Published2016, Strict, Today};
use lockyard_sim::machine::catalog;
use lockyard_sim::scheduler::class::Class;
use lockyard_sim::{Config, Sim, Simulation, Start, compute, set_class};

fn config() -> Config {
    let model = catalog::machine("skx_2s_40c").unwrap_or_else(|error| panic!("{error}"));
    Config { start: Start::InOrder, ..Config::new(model) }
}

fn lock<Y: Policy>(mutex: &RawTreeRtMutex<Sim, Y>, section_ns: u64) {
    mutex.acquire().unwrap_or_else(|cycle| panic!("{cycle}"));
    compute(section_ns);
    // SAFETY: acquired above.
    unsafe { mutex.release() }.expect("the owner");
}

/// Threads on CPUs of their own that take the mutex again and again.
fn contend<Y: Policy>(threads: usize) -> BTreeMap<&'static str, u64> {
    let simulation = Simulation::new(&config(), threads).expect("a simulation");
    let mutex = simulation.place("mutex", RawTreeRtMutex::<Sim, Y>::default()).expect("room");
    let report = simulation.run(|me| {
        set_class(Class::Fifo(10 + me as u8));
        for _ in 0..200 {
            // Longer inside than outside: each always meets the other.
            lock(mutex, 300);
            compute(100);
        }
    });
    report.unwrap_or_else(|error| panic!("{error}")).events
}

/// Whether most waits were over without a sleep.
fn spins_paid(events: &BTreeMap<&'static str, u64>) -> bool {
    let count = |event: &str| events.get(event).copied().unwrap_or(0);
    let (queued, paid) = (count("rtmutex_slow_block"), count("rtmutex_spin_owner"));
    queued > 50 && paid * 2 > queued
}

/// With the policies that spin most waits are over without a sleep; with the one that does not,
/// none is.
#[test]
fn spins_pay() {
    let (today, published) = (contend::<Today>(2), contend::<Published2016>(2));
    for (policy, events) in [(Today::NAME, today), (Published2016::NAME, published)] {
        assert!(spins_paid(&events), "{policy}: {events:?}");
    }
    let events = contend::<NoSpin>(2);
    assert_eq!(events.get("rtmutex_spin").copied().unwrap_or(0), 0);
}

/// Somebody more urgent comes: the spinner is displaced, stops at once and sleeps; the newcomer
/// spins in its place, and has the mutex first.
#[test]
fn a_displaced_spinner_stops() {
    let simulation = Simulation::new(&config(), 3).expect("a simulation");
    let mutex = simulation.place("mutex", RawTreeRtMutex::<Sim, Strict>::default()).expect("room");
    let report = simulation.run(|me| {
        set_class(Class::Fifo(10 * (me as u8 + 1)));
        compute(me as u64 * 20_000);
        lock(mutex, if me == 0 { 100_000 } else { 1_000 });
    });
    let events = report.unwrap_or_else(|error| panic!("{error}")).events;
    let count = |event: &str| events.get(event).copied().unwrap_or(0);
    assert_eq!(count("rtmutex_spin_displaced"), 1, "{events:?}");
    assert!(count("rtmutex_spin_owner") >= 1, "{events:?}");
    assert!(count("rtmutex_slow_sleep") >= 1, "{events:?}");
}
