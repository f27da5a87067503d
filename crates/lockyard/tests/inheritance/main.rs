//! Priority inheritance on the real machine: that the boost happens, what is refused, fork, and the
//! condition variable.
//!
//! A program of its own, since its threads take fixed priorities. Nothing is timed: threads of one
//! CPU run in an order that their priorities decide, and the kernel says which priority a thread
//! has.

// These tests are about threads and priorities of the system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod boost;
#[path = "../child/mod.rs"]
mod child;
mod condvar;
mod errors;
mod fork;
mod scene;
