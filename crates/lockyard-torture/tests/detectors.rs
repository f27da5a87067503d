//! Every detector fires on a lock that is broken in its way, and on no sound one.

use std::time::Duration;

use lockyard_catalog::lock::Way;
use lockyard_sim::Sim;
use lockyard_sim::faults::Fault;
use lockyard_sim::machine::catalog;
use lockyard_torture::catalog::{Defect, Entry, Finding, Locks};
use lockyard_torture::report::Failure;
use lockyard_torture::schedule::{Fixed, Trouble};
use lockyard_torture::simulated::{Tally, Wanted, first_finding, torture};

fn entry(label: &str) -> Entry<Sim> {
    Sim::locks().into_iter().find(|entry| entry.label() == label).expect("a lock of the catalog")
}

fn wanted(machine: &str, seed: u64, schedules: u64) -> Wanted {
    Wanted {
        machine: catalog::machine(machine).expect("a machine of the catalog"),
        machine_name: machine.to_owned(),
        seed,
        schedules,
        time: Duration::from_secs(600),
        fixed: Fixed::default(),
        workers: 1,
    }
}

fn run(entry: &Entry<Sim>, machine: &str, seed: u64, schedules: u64) -> Result<Tally, Box<Failure>> {
    torture(entry, &wanted(machine, seed, schedules), &|_| true)
}

/// `label` must be found wanting within `schedules`, with its finding.
fn is_found(label: &str, machine: &str, schedules: u64) {
    let entry = entry(label);
    let Defect::Planted(findings) = entry.defect else { panic!("{label} is not broken on purpose") };
    match first_finding(&entry, &wanted(machine, 1, schedules)) {
        None => panic!("{label}: nothing found in {schedules} schedules on {machine}"),
        Some(finding) => assert!(findings.contains(&finding), "{label}: found {}", finding.text()),
    }
}

macro_rules! found {
    ($($test:ident: $label:literal on $machine:literal within $schedules:literal;)*) => {$(
        #[test]
        fn $test() {
            is_found($label, $machine, $schedules);
        }
    )*};
}

found! {
    exclusion: "broken-nothing" on "quad2008" within 10;
    lost_wakeups: "broken-wakeups" on "quad2008" within 2_000;
    waits_that_end_early: "broken-patience" on "quad2008" within 20;
    kept_locks: "broken-timeout" on "quad2008" within 100;
    deaf_to_tokens: "broken-cancel" on "quad2008" within 2_000;
    readers_beside_writers: "broken-readers" on "quad2008" within 100;
    bypassed_for_ever: "broken-fairness" on "quad2008" within 500;
    writers_starved_by_readers: "broken-preference" on "quad2008" within 500;
    lost_units: "broken-units" on "quad2008" within 500;
    touched_after_release: "broken-release" on "quad2008" within 5_000;
    frames_that_have_returned: "broken-waiter" on "quad2008" within 1_000;
    missing_acquires: "broken-acquire" on "quad2008" within 20;
    missing_releases: "broken-unlock" on "quad2008" within 20;
    spinning_for_a_sleeper: "broken-spin" on "skx_2s_40c" within 1_000;
}

/// Of a lock that keeps itself for waiters that do not come, each kind of such waiters is a finding
/// of its own.
#[test]
fn locks_kept_for_who_does_not_come() {
    for (fault, expected) in [(Fault::Stop, Finding::Kept), (Fault::Fork, Finding::Hang)] {
        let fixed = Fixed { trouble: Some(vec![Trouble::Machine(fault)]), ..Fixed::default() };
        let found = first_finding(&entry("broken-reservation"), &Wanted { fixed, ..wanted("quad2008", 1, 200) });
        assert_eq!(found, Some(expected), "{}", fault.name());
    }
}

/// Lockyard's own locks hang in a child that takes ghosts for waiters: the fault reaches what tells
/// them.
#[test]
fn locks_that_believe_in_ghosts() {
    for label in ["mcs", "semaphore:direct-handoff"] {
        let trouble = Some(vec![Trouble::Machine(Fault::Fork)]);
        let fixed = Fixed { trouble, small: true, believes_in_ghosts: true, ..Fixed::default() };
        let found = first_finding(&entry(label), &Wanted { fixed, ..wanted("quad2008", 1, 2_000) });
        assert!(found.is_some(), "{label}");
    }
}

/// Whether a lock is kept for somebody can only be told of one that says whether it is held.
#[test]
fn every_lock_says_that_it_is_open() {
    for entry in Sim::locks().into_iter().filter(|entry| entry.defect == Defect::None) {
        let lock = (entry.make)();
        for &way in lock.ways() {
            assert!(lock.is_open(way), "{}", entry.label());
        }
        if lock.units() == 1 {
            lock.lock(Way::Write);
            assert!(!lock.ways().iter().any(|&way| lock.is_open(way)), "{}", entry.label());
            // SAFETY: acquired above.
            unsafe { lock.unlock(Way::Write) };
        }
    }
}

/// The control, and every lock that is not known to be defective.
#[test]
fn sound_locks_pass() {
    for entry in Sim::locks() {
        if entry.defect == Defect::None || entry.name == "sound" {
            for machine in ["quad2008", "skx_2s_40c", "kunpeng920_2s_96c"] {
                if let Err(failure) = run(&entry, machine, 1, 10) {
                    panic!("{}", failure.text());
                }
            }
        }
    }
}

/// A failure is made smaller and told, and is the same in every detail the next time.
#[test]
fn failures_are_told_and_replayed() {
    let entry = entry("broken-wakeups");
    let first = run(&entry, "quad2008", 1, 2_000).expect_err("broken");
    let again = run(&entry, "quad2008", 1, 2_000).expect_err("broken");
    assert_eq!(first.finding, Finding::Hang);
    assert_eq!((&first.replay, &first.telling), (&again.replay, &again.telling));
    assert!(first.telling.events.iter().any(|events| !events.is_empty()));
    assert!(first.telling.calls.iter().flatten().any(|call| call.contains("src/broken/")), "{:?}", first.telling.calls);
    assert!(first.text().contains("replay, to the instruction"));
}
