//! Spinlocks: four bytes each. What the queued ones share is in [`queued`], what they differ in one file or folder per kind.

pub mod cna;
pub mod hq;
pub mod qspinlock;
pub mod queued;
