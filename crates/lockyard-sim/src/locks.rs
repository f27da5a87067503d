//! Lockyard's locks on the simulated machine.

use lockyard_work::{Candidate, LOCKYARD, lockyard_candidates};

use crate::platform::Sim;

/// Lockyard's locks on the simulated machine, default policies first. They are compiled once, here:
/// whoever called the generic function would compile all of them again.
pub static LOCKS: [Candidate; LOCKYARD] = lockyard_candidates::<Sim>();
