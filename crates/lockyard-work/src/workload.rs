//! The workloads, one file each, and what they share: who the threads are and how a section is spent.
//!
//! Definitions follow the project's `spec/workloads.md`; each file names its section, and says where a run on a real
//! machine has to differ.

use crate::driver::Role;
use crate::machine::Machine;
use crate::spec::Spec;

pub(crate) mod bkl_aim7;
pub(crate) mod build_model;
pub(crate) mod contend;
pub(crate) mod pf1_model;
pub(crate) mod qrw_loop;
pub(crate) mod starve;
pub(crate) mod torture_spin;
pub(crate) mod uncontended;

/// The threads of a cell, readers first.
fn crew(spec: &Spec) -> Vec<Role> {
    if !spec.has_roles() {
        return vec![Role::Both; spec.threads];
    }
    let mut roles = vec![Role::Reader; spec.readers];
    roles.resize(spec.readers + spec.writers, Role::Writer);
    roles
}

/// Spends a section: PAUSEs, then a sleep if the cell wants one.
#[inline(always)]
fn hold<M: Machine>(spec: &Spec) {
    M::pause(spec.cs);
    if !spec.cs_sleep.is_zero() {
        M::sleep(spec.cs_sleep.as_nanos() as u64);
    }
}
