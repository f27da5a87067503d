//! Every lock of Lockyard once: behind one trait for each thing that it can do, and in one list.
//!
//! | module | what |
//! |---|---|
//! | [`lock`] | the traits: [`Lock`](lock::Lock), and for those that can [`Timed`](lock::Timed), [`Shared`](lock::Shared), [`References`](lock::References), [`Hashed`](lock::Hashed); [`Count`](lock::Count), [`Weigh`](lock::Weigh) |
//! | [`adapters`] | the locks behind them |
//! | [`entry`] | what is known of a lock on every platform |
//! | [`list`] | the list: type, promises, runners and [`Entry`] of each lock |
//! | [`types`], [`entries`] | of each line of the list the type and the entry, under the line's name |
//!
//! Workloads, torture, the conformance suite, model checkers and `lockyard list` get their locks
//! from the list:
//!
//! ```
//! use lockyard_catalog::{entries, types};
//! use lockyard::platform::linux::Linux;
//! use lockyard_catalog::lock::{Held, Way};
//!
//! macro_rules! label {
//!     (($labels:ident) $lock:ident count [$($promise:ident)*]) => {};
//!     (($labels:ident) $lock:ident weigh [$($promise:ident)*]) => {};
//!     (($labels:ident) $lock:ident $capability:ident [$($promise:ident)*]) => {
//!         drop(Held::new(&types::$lock::<Linux>::default(), Way::Write));
//!         $labels.push(entries::$lock.label());
//!     };
//! }
//!
//! let mut labels = Vec::new();
//! lockyard_catalog::locks!(bench => label (labels));
//! assert!(labels.contains(&"rwsem:today".to_owned()));
//! ```

pub mod adapters;
pub mod entry;
pub mod list;
pub mod lock;

pub use entry::{Entry, Family};
pub use list::{entries, types};
