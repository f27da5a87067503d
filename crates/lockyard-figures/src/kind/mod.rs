//! Kinds of figures: how a table of a kind becomes a plan. One file per kind; each begins with what
//! stands for what.

pub(crate) mod aim7;
pub(crate) mod code_size;
pub(crate) mod events;
pub(crate) mod fairness;
pub(crate) mod gains;
mod loads;
pub(crate) mod locks;
pub(crate) mod pi_stress;
pub(crate) mod rates;
pub(crate) mod rw_loop;
pub(crate) mod spin_loop;
pub(crate) mod spread;
