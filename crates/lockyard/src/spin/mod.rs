//! Spinlocks: four bytes, one algorithm per file.

pub mod qspinlock;
