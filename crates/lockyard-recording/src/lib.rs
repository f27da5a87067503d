//! What a program does with its locks, as data that is played back elsewhere.
//!
//! * [`model`]: roles of threads, the locks that each takes in order, how long they are held. People
//!   read and edit it as a small TOML file.
//! * [`model::change`]: the same program with another structure: more shards, shorter sections, no
//!   lock, a reader-writer lock.
//! * [`saturation`]: at how many threads a lock is never free any more, without a simulation.

mod error;
pub mod model;
pub mod saturation;
pub mod time;

pub use error::Error;
pub use model::Model;
