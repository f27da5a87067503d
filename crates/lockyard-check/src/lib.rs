//! The conformance suite of Lockyard: one set of cases, written once, for every lock on every
//! platform.
//!
//! | module | what |
//! |---|---|
//! | [`stage`] | what a test asks of a machine beyond the seam: threads, and to see that one of them waits |
//! | [`lock`], [`adapters`] | a lock as the suite sees it, and Lockyard's own: see [`catalog`] |
//! | [`data`] | what a lock under test protects, and the checks that notice when it does not |
//! | [`cases`] | the cases |
//! | [`suite`] | the list of cases, and [`conformance!`] |
//! | [`broken`] | locks that the suite must reject |
//! | [`native`] | the real machine as a stage, with a watchdog |
//! | `model` | loom and shuttle under the seam, with the features of these names: every interleaving of small scenarios, real orderings |
//! | `simulated` | the simulated machine as a stage, with random schedules (feature `simulated`) |
//! | `priorities` | priority inheritance as a property, on random cases (likewise) |
//! | [`scripted`] | a machine whose every step is decided by the test: single preemptions, one by one; definite hangs |
//!
//! The locks of the list get the whole suite by [`conformance_of!`], and any other that implements
//! [`lock::Lock`] by one line:
//!
//! ```
//! use lockyard::platform::linux::Linux;
//! use lockyard::spin::qspinlock::RawQSpinLock;
//!
//! lockyard_check::conformance!(spin: RawQSpinLock<Linux>, [exclusive, fair]);
//! # fn main() {}
//! ```
//!
//! A new platform implements [`stage::Stage`]. The cases name no thread, clock or atomic of the
//! host: clippy sees to that.

#![warn(clippy::disallowed_types, clippy::disallowed_methods)]
#![allow(clippy::missing_panics_doc)] // checks panic; that is what they are for
#![allow(clippy::needless_range_loop)] // a case names an actor by its place in several lists at once

pub mod broken;
pub mod cases;
pub mod data;
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub mod model;
pub mod native;
#[cfg(feature = "simulated")]
pub mod priorities;
pub mod scripted;
#[cfg(feature = "simulated")]
pub mod simulated;
pub mod stage;
pub mod suite;

pub use lockyard_catalog as catalog;
pub use lockyard_catalog::adapters::embedded;
pub use lockyard_catalog::{adapters, lock};

/// The Rust of the documents, compiled and run with the doc tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide/src/rust.md")]
    struct FromRust;
    #[doc = include_str!("../../../docs/guide/src/priorities.md")]
    struct Priorities;
    #[doc = include_str!("../../../docs/guide/src/platform.md")]
    struct Platforms;
}
