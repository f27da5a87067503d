//! One lock beside another, cell by cell: what the examples that compare two locks on every machine
//! of the catalog share.

use std::ops::RangeInclusive;

use lockyard_sim::Config;
use lockyard_sim::machine::catalog;
use lockyard_sim::machine::topology::Placement;
use lockyard_work::simulated::{LOCKS, session};
use lockyard_work::{Candidate, Spec};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Every machine, each in all its modes, whose name begins with `only`.
pub(crate) fn machines(only: &str) -> Vec<String> {
    let each = |id: &str| match catalog::modes(id) {
        modes if modes.is_empty() => vec![id.to_owned()],
        modes => modes.iter().map(|mode| format!("{id}:{mode}")).collect(),
    };
    catalog::ids().flat_map(each).filter(|name| name.starts_with(only)).collect()
}

pub(crate) fn find(lock: &str) -> Result<&'static Candidate, Failure> {
    LOCKS.iter().find(|known| known.label() == lock).ok_or_else(|| format!("unknown lock '{lock}'").into())
}

/// Times per turn, all threads together, ns: one for each seed, in ascending order.
pub(crate) fn times(
    lock: &Candidate,
    machine: &str,
    placement: Placement,
    spec: &Spec,
    seeds: RangeInclusive<u64>,
) -> Result<Vec<f64>, Failure> {
    let (seeds, workers) = (&Vec::from_iter(seeds), std::thread::available_parallelism()?.get());
    let some_seeds = |worker: usize| {
        let mut found = Vec::new();
        for &seed in seeds.iter().skip(worker).step_by(workers) {
            let config = Config { seed, placement, ..Config::new(catalog::machine(machine)?) };
            let spec = Spec { seed, ..spec.clone() };
            let (record, _) = session(&config, || lock.measure(&spec));
            found.push(record?.ns_per_op);
        }
        Ok::<_, Failure>(found)
    };
    let all: Result<Vec<_>, _> = std::thread::scope(|scope| {
        let workers = Vec::from_iter((0..workers).map(|worker| scope.spawn(move || some_seeds(worker))));
        workers.into_iter().map(|worker| worker.join().expect("a measuring thread panicked")).collect()
    });
    let mut found = all?.concat();
    found.sort_by(f64::total_cmp);
    Ok(found)
}

pub(crate) fn median(found: &[f64]) -> f64 {
    found[found.len() / 2]
}

pub(crate) fn mean(found: &[f64]) -> f64 {
    found.iter().sum::<f64>() / found.len() as f64
}
