//! The variants of a machine that a table is rerun on.
//!
//! Nobody published where threads sat, and the machines are known only within ranges. So each job
//! runs several times:
//!
//! * every placement with two seeds, on the machine's own numbers: the middle of these is the
//!   prediction;
//! * with whole groups of uncertain numbers at the lower and at the upper end of their ranges,
//!   placed by filling: these widen the band and do not move the middle.
//!
//! Only numbers with confidence D or E move. All tables get the same variants: nothing here knows
//! locks, policies, workloads or tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockyard_sim::Config;
use lockyard_sim::machine::catalog;
use lockyard_sim::machine::model::Model;
use lockyard_sim::machine::topology::Placement;
use serde::Serialize;

use crate::error::Error;

/// Groups of numbers that move together: what a line costs under contention, and what sleeping
/// costs.
const GROUPS: [(&str, &[&str]); 2] = [
    ("line service", &["model.occupancy_ratio", "model.request_flight_share"]),
    ("wake-up", &["os.ctx_switch", "os.wake_waker_side", "os.wake_ipi"]),
];

/// The group that is no machine's: what is known of a load ([`Given::ends`](crate::plan::Given)).
const LOAD: &str = "load";

/// Engine events after which a run is given up: twice what the longest needs (AIM7 with
/// `direct-handoff`, 20 million), some twenty seconds of the host.
const MOST_EVENTS: u64 = 40_000_000;

/// An end of the ranges of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The lower one.
    Low,
    /// The upper one.
    High,
}

/// One way to rerun a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// Where threads begin.
    pub placement: Placement,
    /// Seed of machine and workload.
    pub seed: u64,
    /// Which group of numbers is moved, if any, and where to.
    pub moved: Option<(&'static str, End)>,
}

impl Variant {
    /// The variants of every job, those with the machine's own numbers first.
    pub fn all(seeds: u64, ranges: bool) -> Vec<Self> {
        let seeds = 1..=seeds.max(1);
        let own = seeds.flat_map(|seed| Placement::ALL.map(|placement| Self { placement, seed, moved: None }));
        let edges = GROUPS.iter().flat_map(|group| [End::Low, End::High].map(|end| (group.0, end)));
        let edges = edges.filter(|_| ranges).map(|moved| Self { moved: Some(moved), ..Self::own(1) });
        let loads = [End::Low, End::High].map(|end| Self { moved: Some((LOAD, end)), ..Self::own(1) });
        // Those of loads come last: jobs without ends do without them.
        own.chain(edges).chain(loads.into_iter().filter(|_| ranges)).collect()
    }

    /// Placed by filling, on the machine's own numbers.
    fn own(seed: u64) -> Self {
        Self { placement: Placement::Fill, seed, moved: None }
    }

    /// The end of its range at which a load is, if it is at one.
    pub(crate) fn load_end(&self) -> Option<End> {
        self.moved.filter(|moved| moved.0 == LOAD).map(|moved| moved.1)
    }

    /// The same where the placement is known. What would have been another placement is another
    /// seed.
    pub(crate) fn placed(self, known: Option<Placement>) -> Self {
        let Some(placement) = known else { return self };
        let rank = Placement::ALL.iter().position(|other| *other == self.placement).unwrap_or_default();
        Self { placement, seed: self.seed + 1_000 * rank as u64, ..self }
    }

    /// Whether the machine has its own numbers.
    pub fn is_own(&self) -> bool {
        self.moved.is_none()
    }

    /// The simulator's configuration for `machine`.
    pub(crate) fn config(&self, machines: &Machines) -> Config {
        Config {
            seed: self.seed,
            placement: self.placement,
            event_limit: MOST_EVENTS,
            // Every published table is of locks inside a kernel.
            in_kernel: true,
            ..Config::new(machines.model(self.moved))
        }
    }
}

/// What a band is over, in one line.
pub fn describe(variants: &[Variant]) -> String {
    let own = variants.iter().filter(|variant| variant.is_own()).count();
    let groups = GROUPS.map(|(name, paths)| format!("{name} ({})", paths.join(", ")));
    let placements = Placement::ALL.map(Placement::name).join(", ");
    let ranges = if own < variants.len() {
        format!("; the band also over both ends of the ranges of {}", groups.join(" and "))
    } else {
        String::new()
    };
    format!("{own} runs a cell: placements {placements} × seeds 1 to {}{ranges}", own / Placement::ALL.len())
}

/// A machine with its own numbers, and with those of each group moved.
#[derive(Debug, Clone)]
pub(crate) struct Machines(BTreeMap<Option<(&'static str, bool)>, Arc<Model>>);

impl Machines {
    pub(crate) fn build(id: &str, changes: &[(String, f64)]) -> Result<Self, Error> {
        let base = catalog::machine(id)?;
        let has = |path: &str| base.quantities().contains_key(path);
        let changes: Vec<(&str, f64)> =
            changes.iter().map(|(path, value)| (path.as_str(), *value)).filter(|(path, _)| has(path)).collect();
        // Without the changes it is a machine: what is wrong is one of them.
        let own = catalog::with(id, &changes).map_err(|error| Error::Change(error.to_string()))?;
        let mut all = BTreeMap::from([(None, own.clone())]);
        for (name, paths) in GROUPS {
            for high in [false, true] {
                let movable = paths.iter().filter_map(|path| Some((*path, own.quantities().get(*path)?)));
                let edges = movable
                    .filter(|(_, quantity)| quantity.movable())
                    .map(|(path, quantity)| (path, if high { quantity.high } else { quantity.low }));
                let changes: Vec<(&str, f64)> = changes.iter().copied().chain(edges).collect();
                all.insert(Some((name, high)), catalog::with(id, &changes)?);
            }
        }
        Ok(Self(all))
    }

    /// Whether the machine has a number at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.model(None).quantities().contains_key(path)
    }

    fn model(&self, moved: Option<(&'static str, End)>) -> Arc<Model> {
        let key = moved.map(|(name, end)| (name, end == End::High));
        self.0.get(&key).or_else(|| self.0.get(&None)).expect("the machine itself is always there").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_move_every_machine() {
        for id in catalog::ids() {
            let machines = Machines::build(id, &[]).unwrap();
            let prints: std::collections::BTreeSet<u64> =
                machines.0.values().map(|model| model.fingerprint()).collect();
            assert_eq!(prints.len(), 1 + 2 * GROUPS.len(), "{id}");
        }
    }

    #[test]
    fn own_numbers_come_first_and_edges_are_placed_by_filling() {
        let variants = Variant::all(2, true);
        assert_eq!(variants.len(), 6 + 4 + 2);
        assert!(variants[..10].iter().all(|variant| variant.load_end().is_none()));
        assert_eq!(variants[10..].iter().filter_map(Variant::load_end).collect::<Vec<_>>(), [End::Low, End::High]);
        assert!(variants[..6].iter().all(Variant::is_own) && !variants[6..].iter().any(Variant::is_own));
        assert!(
            describe(&variants).starts_with("6 runs a cell: placements fill, spread, random × seeds 1 to 2; the band")
        );
        assert_eq!(Variant::all(1, false).len(), 3);
    }

    #[test]
    fn a_known_placement_is_that_of_all_and_no_run_is_made_twice() {
        let placed = |known| Variant::all(2, false).into_iter().map(move |variant| variant.placed(known));
        assert!(placed(Some(Placement::Fill)).all(|variant| variant.placement == Placement::Fill));
        let seeds: std::collections::BTreeSet<u64> =
            placed(Some(Placement::Fill)).map(|variant| variant.seed).collect();
        assert_eq!(seeds.len(), 6);
        assert!(placed(None).eq(Variant::all(2, false)));
    }
}
