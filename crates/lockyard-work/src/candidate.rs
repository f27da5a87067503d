//! A lock that can be measured.

use lockyard_catalog::Entry;

use crate::error::Error;
use crate::machine::Machine;
use crate::measure::{check, measure_exclusive, measure_shared};
use crate::record::Record;
use crate::spec::{Spec, Workload};
use crate::subject::{Exclusive, Family, Label, Origin, Shared};

/// A lock that can be measured.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// The lock's name.
    pub name: &'static str,
    /// Its policy, if it comes in several.
    pub policy: Option<&'static str>,
    /// Which locks it is compared with.
    pub family: Family,
    /// Who made it.
    pub origin: Origin,
    /// Whether readers can share it.
    pub shared: bool,
    /// Why it should only be measured when it is asked for by name, if so: a known defect kept for
    /// study.
    pub caution: Option<&'static str>,
    /// Whether comparisons that name no locks leave it out: a baseline, or a lock inside another
    /// one.
    pub by_name: bool,
    /// Whether its waiters sleep sooner or later. A lock whose waiters spin for ever leaves threads
    /// without a turn where they outnumber the CPUs.
    pub sleeps: bool,
    /// What it is, in one line; of a lock that comes in several policies, what the policy is.
    pub about: &'static str,
    /// Runs one cell on it: [`Candidate::measure`].
    pub run: Measure,
}

/// Runs one cell on the lock with this label.
pub type Measure = fn(&Label, &Spec) -> Result<Record, Error>;

impl Candidate {
    /// One of Lockyard's locks, which `run` measures.
    pub(crate) const fn listed(entry: &Entry, shared: bool, run: Measure) -> Self {
        let Entry { name, policy, family, defect, by_name, about, .. } = *entry;
        Self {
            name,
            policy,
            family,
            origin: Origin::Lockyard,
            shared,
            caution: defect,
            by_name,
            sleeps: true,
            about,
            run,
        }
    }

    /// The peer `S`, which has no read side, on the machine `M`.
    pub(crate) const fn peer<M: Machine, S: Exclusive + 'static>(
        family: Family,
        name: &'static str,
        about: &'static str,
    ) -> Self {
        let Label { name, policy, family, origin } = Label::peer(name, family);
        let run = measure_exclusive::<M, S>;
        Self { name, policy, family, origin, shared: false, caution: None, by_name: false, sleeps: true, about, run }
    }

    /// The peer `S`, which readers can share, on the machine `M`.
    pub(crate) const fn rw_peer<M: Machine, S: Shared + 'static>(name: &'static str, about: &'static str) -> Self {
        Self { shared: true, run: measure_shared::<M, S>, ..Self::peer::<M, S>(Family::Rw, name, about) }
    }

    /// Runs `spec` on it.
    ///
    /// # Errors
    /// The cell makes no sense or needs what the lock cannot do, the machine cannot run it, or the
    /// lock does not exclude.
    pub fn measure(&self, spec: &Spec) -> Result<Record, Error> {
        (self.run)(&self.as_label(), spec)
    }

    /// The same, whose waiters never sleep.
    pub(crate) const fn spinning(mut self) -> Self {
        self.sleeps = false;
        self
    }

    /// The name, with the policy behind a colon if there is one: `rwsem:today`.
    pub fn label(&self) -> String {
        self.as_label().full()
    }

    /// Whether it can run `workload` at all.
    pub fn supports(&self, workload: Workload) -> bool {
        (self.shared || !workload.needs_shared()) && (self.family == Family::Mutex || !workload.needs_priorities())
    }

    /// Whether it can run `spec`.
    ///
    /// # Errors
    /// One line that says why not.
    pub fn check(&self, spec: &Spec) -> Result<(), Error> {
        check(&self.as_label(), self.shared, spec)
    }

    fn as_label(&self) -> Label {
        Label { name: self.name, policy: self.policy, family: self.family, origin: self.origin }
    }
}
