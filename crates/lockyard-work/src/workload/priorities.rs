//! Fixed priorities for the threads of a run, and what is said where they are refused.

use std::sync::OnceLock;

use crate::error::Error;
use crate::machine::{Machine, MachineError};
use crate::spec::Spec;

/// Whether the threads of a run got the priorities they asked for: all of them do, or none.
#[derive(Debug, Default)]
pub(super) struct Priorities {
    refused: OnceLock<MachineError>,
}

impl Priorities {
    /// Gives the calling thread the fixed priority `priority`. `false`: refused, as every other
    /// thread of the run will be; then it must end.
    pub(super) fn take<M: Machine>(&self, priority: u32) -> bool {
        let outcome = M::fixed_priority(priority);
        outcome.map_err(|why| _ = self.refused.set(why)).is_ok()
    }

    /// After the run.
    ///
    /// # Errors
    /// One line that says what is needed.
    pub(super) fn granted(self, spec: &Spec) -> Result<(), Error> {
        match self.refused.into_inner() {
            Some(why) => Err(MachineError::new(format!("{} was skipped: {why}", spec.workload)).into()),
            None => Ok(()),
        }
    }
}
