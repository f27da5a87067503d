//! Whether threads may have fixed priorities at all.

use std::sync::OnceLock;

use crate::error::Error;
use crate::machine::{Machine, MachineError};
use crate::spec::Spec;

/// Tries a fixed priority, on a thread that ends at once.
///
/// # Errors
/// One line that says what is needed.
pub(super) fn permitted<M: Machine>(spec: &Spec) -> Result<(), Error> {
    let outcome = OnceLock::new();
    M::run(1, &|_| _ = outcome.set(M::fixed_priority(1)))?;
    match outcome.into_inner() {
        Some(Err(why)) => Err(MachineError::new(format!("{} was skipped: {why}", spec.workload)).into()),
        _ => Ok(()),
    }
}
