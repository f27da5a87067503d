//! Model checkers under the seam: the very source of the locks, explored.
//!
//! | module | what |
//! |---|---|
//! | [`machine`] | the platform: one for all checkers |
//! | [`engine`] | what a checker offers to it |
//! | `weak` | loom, with the feature of that name: all interleavings and all values that weak memory allows, up to a bound |
//! | `random` | shuttle, with the feature of that name: random schedules, many threads, sequential consistency |
//! | [`setting`] | the machine of a scenario: spins, clocks |
//! | [`world`] | one execution: who waits for what, the clock |
//! | [`words`] | the words |
//! | [`sites`] | ordering sites, and how one is weakened |
//! | `scenarios` | what loom explores, lock by lock |
//!
//! Waiting is one operation (see [`world`]); a wake-up orders nothing by itself, so that an
//! ordering that a lock lacks is not supplied by the checker. Words whose lanes are touched alone
//! are whole words here (see [`words`]).

// A stage: the threads are the checker's.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]
// Random schedules do without histories, and begin exploring at once.
#![cfg_attr(not(feature = "loom"), allow(dead_code))]

pub mod engine;
mod history;
mod keys;
mod learned;
pub mod machine;
mod notes;
#[cfg(feature = "shuttle")]
pub mod random;
#[cfg(feature = "loom")]
pub mod scenarios;
pub mod setting;
pub mod sites;
#[cfg(feature = "loom")]
pub mod weak;
pub mod words;
pub mod world;
