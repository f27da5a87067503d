//! A lock that can be measured.

use crate::error::Error;
use crate::machine::Machine;
use crate::measure::{check, measure_counted, measure_exclusive, measure_shared};
use crate::record::Record;
use crate::spec::{Spec, Workload};
use crate::subject::{Counted, Family, Label, Origin, Shared, Subject};

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
    /// Runs one cell on it.
    pub measure: fn(&Spec) -> Result<Record, Error>,
}

impl Candidate {
    /// The lock `S`, which has no read side, on the machine `M`.
    pub const fn exclusive<M: Machine, S: Subject>() -> Self {
        Self::new(S::LABEL, false, measure_exclusive::<M, S>)
    }

    /// The lock `S`, which readers can share, on the machine `M`.
    pub const fn shared<M: Machine, S: Subject + Shared>() -> Self {
        Self::new(S::LABEL, true, measure_shared::<M, S>)
    }

    /// The lock `S`, which has a reference count of its own, on the machine `M`.
    pub const fn counted<M: Machine, S: Subject + Counted>() -> Self {
        Self::new(S::LABEL, false, measure_counted::<M, S>)
    }

    const fn new(label: Label, shared: bool, measure: fn(&Spec) -> Result<Record, Error>) -> Self {
        let Label { name, policy, family, origin } = label;
        Self { name, policy, family, origin, shared, caution: None, by_name: false, sleeps: true, measure }
    }

    /// The same, with a word of caution.
    pub(crate) const fn caution(mut self, why: &'static str) -> Self {
        self.caution = Some(why);
        self
    }

    /// The same, left out where no lock is named.
    pub(crate) const fn by_name(mut self) -> Self {
        self.by_name = true;
        self
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
