//! Rounds: who is measured when, what a stop leaves, and how failures and ratios come out.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockyard_work::{Candidate, Error, Label, Measure, Origin, Record, Spec, Workload, candidates, rounds};

fn spec() -> Spec {
    Spec { duration: Duration::from_millis(1), warmup: Duration::ZERO, ..Spec::new(Workload::Contend) }
}

fn mutex() -> &'static Candidate {
    candidates().iter().find(|candidate| candidate.name == "std-mutex").unwrap()
}

/// A record made up: `kops` thousand operations per second, more in later rounds, and no thread
/// without a turn.
fn made_up(spec: &Spec, kops: f64) -> Record {
    static REAL: OnceLock<Record> = OnceLock::new();
    let real = REAL.get_or_init(|| mutex().measure(&self::spec()).unwrap());
    Record { kops_per_s: kops + spec.seed as f64, seed: spec.seed, idle_threads: 0, ..real.clone() }
}

fn fast(_: &Label, spec: &Spec) -> Result<Record, Error> {
    Ok(made_up(spec, 400.0))
}

fn slow(_: &Label, spec: &Spec) -> Result<Record, Error> {
    Ok(made_up(spec, 200.0))
}

/// The fastest, by leaving a thread without a turn.
fn unfair(_: &Label, spec: &Spec) -> Result<Record, Error> {
    Ok(Record { idle_threads: 1, ..made_up(spec, 800.0) })
}

fn broken(_: &Label, _: &Spec) -> Result<Record, Error> {
    Err(Error::Exclusion { torn: 1, lost: 0 })
}

fn candidate(name: &'static str, origin: Origin, run: Measure) -> Candidate {
    Candidate { name, origin, run, ..*mutex() }
}

#[test]
fn locks_take_turns_and_begin_elsewhere_each_round() {
    let all =
        [candidate("a", Origin::Peer, fast), candidate("b", Origin::Peer, slow), candidate("c", Origin::Peer, slow)];
    let mut seen = String::new();
    let go = AtomicBool::new(false);
    let chosen: Vec<&Candidate> = all.iter().collect();
    let report = rounds::run(&chosen, &Spec { seed: 0, ..spec() }, 3, &go, &mut |progress| {
        assert_eq!((progress.done, progress.planned), (seen.len(), 9));
        assert_eq!(progress.round, seen.len() / 3);
        seen.push_str(progress.candidate.name);
    })
    .unwrap();
    assert_eq!(seen, "abcbcacab");
    assert!(report.complete && report.failures.is_empty());
    assert_eq!(report.records.len(), 9);
    // Every lock had the same draws in a round.
    assert_eq!(report.records.iter().map(|record| record.seed).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
}

#[test]
fn ratios_are_to_the_best_peer() {
    let all = [
        candidate("ours", Origin::Lockyard, fast),
        candidate("theirs", Origin::Peer, slow),
        candidate("unfair", Origin::Peer, unfair),
        candidate("broken", Origin::Peer, broken),
    ];
    let chosen: Vec<&Candidate> = all.iter().collect();
    let report = rounds::run(&chosen, &Spec { seed: 9, ..spec() }, 3, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let [ours, theirs, _] = report.summaries.as_slice() else { panic!("{:?}", report.summaries) };
    assert_eq!((ours.kops_per_s, theirs.kops_per_s), (410.0, 210.0));
    assert_eq!(ours.ratio_to_best_peer, Some(410.0 / 210.0));
    assert_eq!(theirs.ratio_to_best_peer, Some(1.0));
    assert_eq!(rounds::best_peer(&report.summaries, false).map(|best| best.lock), Some("theirs"));
    assert_eq!(rounds::best_peer(&report.summaries, true).map(|best| best.lock), Some("unfair"));
    assert_eq!(ours.spread, 2.0 / 410.0);
    assert_eq!(report.failures.len(), 1);
    assert_eq!(report.failures[0].0, "broken");
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let all = [candidate("a", Origin::Lockyard, fast), candidate("b", Origin::Lockyard, slow)];
    let chosen: Vec<&Candidate> = all.iter().collect();
    let stop = AtomicBool::new(false);
    let report = rounds::run(&chosen, &spec(), 5, &stop, &mut |progress| {
        if progress.done == 2 {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(!report.complete);
    assert_eq!(report.records.len(), 3);
    assert_eq!(report.summaries.iter().map(|summary| summary.rounds).sum::<usize>(), 3);
    assert!(report.summaries.iter().all(|summary| summary.ratio_to_best_peer.is_none()));
    let report = rounds::run(&chosen, &spec(), 5, &stop, &mut |_| panic!("nothing is measured")).unwrap();
    assert!(report.summaries.is_empty() && !report.complete);
}

#[test]
fn nonsense_is_refused_before_anything_runs() {
    let go = AtomicBool::new(false);
    let refuse = |chosen: &[&Candidate], spec: &Spec, rounds: usize| {
        rounds::run(chosen, spec, rounds, &go, &mut |_| panic!("nothing is measured")).unwrap_err().to_string()
    };
    assert_eq!(refuse(&[], &spec(), 1), "no lock to measure");
    assert!(refuse(&[mutex()], &spec(), 0).contains("rounds"));
    assert!(refuse(&[mutex()], &Spec { threads: 0, ..spec() }, 1).contains("threads"));
    assert!(refuse(&[mutex()], &Spec { read_pct: 5.0, ..spec() }, 1).contains("no read side"));
}
