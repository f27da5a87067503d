//! A fixed result for tests of the formats: two cells of mutexes, one lock of ours and two others.

use std::collections::BTreeMap;
use std::time::Duration;

use lockyard_work::{Family, Origin, Spec, Summary, Workload};

use crate::machine::MachineFacts;
use crate::results::{CellResult, GroupResult, Results};

/// The results.
pub(crate) fn results() -> Results {
    let alone = Spec { duration: Duration::from_millis(50), ..Spec::new(Workload::Uncontended) };
    let crowd = Spec { threads: 16, cs: 20, duration: Duration::from_millis(200), ..Spec::new(Workload::Contend) };
    let mut ours = summary("mutex", Origin::Lockyard, 812.4, 1.083, 8.2e6, 0);
    for (name, count) in [("mutex_slowpath", 4200), ("mutex_opt_lock", 3900), ("lock_slowpath", 17)] {
        ours.events.insert(name.to_owned(), count);
        ours.events_per_kop.insert(name.to_owned(), count as f64 / 10.0);
    }
    let cells = vec![
        cell(
            alone,
            vec![
                summary("mutex", Origin::Lockyard, 70_120.0, 1.02, 0.0, 0),
                summary("std-mutex", Origin::Peer, 68_760.0, 1.0, 0.0, 0),
                summary("pthread-mutex", Origin::Peer, 60_000.0, 0.873, 0.0, 0),
            ],
        ),
        cell(
            crowd,
            vec![
                ours,
                summary("std-mutex", Origin::Peer, 750.0, 1.0, 31.4e6, 0),
                summary("pthread-mutex", Origin::Peer, 400.0, 0.533, 226.0e6, 3),
            ],
        ),
    ];
    Results {
        command: "compare",
        machine: MachineFacts {
            model: "Example CPU, 2.5 GHz".to_owned(),
            cpus_usable: 2,
            cpus_online: 2,
            nodes: vec!["node 0: CPUs 0-1".to_owned()],
            caches: vec!["L1d 32 KiB".to_owned()],
            kernel: "7.2.0".to_owned(),
            pause_ns: 43.3,
        },
        started: "2026-11-21 08:10:00".to_owned(),
        elapsed: Duration::from_secs(57),
        seed: 1,
        interrupted: false,
        groups: vec![GroupResult { name: "mutex".to_owned(), cells }],
        scores: Vec::new(),
    }
}

fn cell(spec: Spec, locks: Vec<Summary>) -> CellResult {
    CellResult { spec, rounds: 3, locks, records: Vec::new(), failures: Vec::new(), complete: true }
}

fn summary(lock: &'static str, origin: Origin, kops: f64, ratio: f64, wait_ns: f64, idle: usize) -> Summary {
    Summary {
        lock,
        policy: None,
        family: Family::Mutex,
        origin,
        rounds: 3,
        kops_per_s: kops,
        ns_per_op: 1e6 / kops,
        spread: 0.034,
        ratio_to_best_peer: Some(ratio),
        fairness: 0.52,
        idle_threads: idle as f64,
        worst_idle_threads: idle,
        wait_p50: wait_ns / 1000.0,
        wait_p99: wait_ns / 100.0,
        wait_p999: wait_ns / 10.0,
        wait_max: wait_ns,
        worst_wait: wait_ns as u64,
        roles: Vec::new(),
        busy: 0.98,
        others: 0.01,
        metrics: BTreeMap::new(),
        events_per_kop: BTreeMap::new(),
        events: BTreeMap::new(),
    }
}
