//! On the real machine: waiters that a signal handler stops, and children of a fork.

use std::time::Duration;

use lockyard::platform::linux::Linux;
use lockyard_sim::faults::Fault;
use lockyard_torture::catalog::{Entry, Finding, Locks};
use lockyard_torture::native::{Wanted, torture, troubles};
use lockyard_torture::report::Failure;
use lockyard_torture::schedule::Trouble;

fn run(label: &str, fault: Fault, secs: u64, patience: u64) -> Result<u64, Box<Failure>> {
    let entry: Option<Entry<Linux>> = Linux::locks().into_iter().find(|entry| entry.label() == label);
    let wanted = Wanted {
        threads: vec![4],
        seed: 1,
        time: Duration::from_secs(secs),
        patience: Duration::from_secs(patience),
        trouble: vec![Trouble::Machine(fault)],
    };
    torture(&entry.expect("a lock of the catalog"), &wanted, &mut |_| true).map(|tally| {
        tally.by_threads.iter().map(|share| if fault == Fault::Stop { share.stops } else { share.rounds }).sum()
    })
}

/// One after the other: there is one handler, and a failure leaves threads behind.
#[test]
fn stops_and_forks() {
    for fault in [Fault::Stop, Fault::Fork] {
        if !troubles().contains(&Trouble::Machine(fault)) {
            continue;
        }
        for label in ["mutex", "rwsem:today", "qspinlock", "semaphore:opportunistic-safe"] {
            match run(label, fault, 2, 30) {
                Ok(rounds) => assert!(rounds > 0, "{label}: no {}", fault.name()),
                Err(failure) => panic!("{}", failure.text()),
            }
        }
    }
    if troubles().contains(&Trouble::Machine(Fault::Stop)) {
        let found = run("broken-reservation", Fault::Stop, 60, 4).map_err(|failure| failure.finding);
        assert_eq!(found, Err(Finding::Kept));
    }
    let found = run("broken-reservation", Fault::Fork, 60, 4).map_err(|failure| failure.finding);
    assert_eq!(found, Err(Finding::Hang));
}
