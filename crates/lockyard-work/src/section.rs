//! What a thread does while it holds the lock.

use crate::machine::Machine;
use crate::spec::Spec;

/// A critical section, as data: so that one compiled turn serves every workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// PAUSEs.
    pub(crate) pauses: u32,
    /// A sleep after them. Zero: none.
    pub(crate) sleep_ns: u64,
    /// The CPU given away at the end.
    pub(crate) give_way: bool,
}

impl Section {
    /// The section that a cell asks for.
    pub(crate) fn of(spec: &Spec) -> Self {
        Self { pauses: spec.cs, sleep_ns: spec.cs_sleep.as_nanos() as u64, give_way: false }
    }

    /// Longer by `pauses`.
    pub(crate) fn plus(mut self, pauses: u32) -> Self {
        self.pauses += pauses;
        self
    }

    /// Spends it.
    #[inline(always)]
    pub(crate) fn spend<M: Machine>(&self) {
        M::around();
        M::pause(self.pauses);
        if self.sleep_ns != 0 || self.give_way {
            self.leave_cpu::<M>();
        }
    }

    #[cold]
    fn leave_cpu<M: Machine>(&self) {
        if self.sleep_ns != 0 {
            M::sleep(self.sleep_ns);
        }
        if self.give_way {
            M::nap(0);
        }
    }
}
