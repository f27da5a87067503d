//! The workloads, one file each.
//!
//! Definitions follow the project's `spec/workloads.md`; each file names its section, and says
//! where a run on a real machine has to differ.

pub(crate) mod bkl_aim7;
pub(crate) mod boot_model;
pub(crate) mod build_model;
pub(crate) mod contend;
pub(crate) mod futex_hash;
pub(crate) mod kv_model;
pub(crate) mod lockref_model;
pub(crate) mod pf1_model;
pub(crate) mod pi_cross;
pub(crate) mod pi_inversion;
pub(crate) mod pi_stress;
pub(crate) mod priorities;
pub(crate) mod qrw_loop;
pub(crate) mod replay;
pub(crate) mod starve;
pub(crate) mod torture_spin;
pub(crate) mod uncontended;
