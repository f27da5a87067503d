//! What a program does with its locks, as data that is played back elsewhere.
//!
//! * [`recording`]: what a program did, event by event; its file and its lines of text.
//! * [`model`]: roles of threads, the locks that each takes in order, how long they are held.
//!   People read and edit it as a small TOML file. [`Recording::model`] is what a recording comes
//!   to.
//! * [`model::change`]: the same program with another structure: more shards, shorter sections, no
//!   lock, a reader-writer lock.
//! * [`summary`]: what each class of locks cost the program that was recorded.
//! * [`critical`]: the path along which its time was spent, from thread to thread.
//! * [`standstill`]: the threads that wait for locks where a recording ends.
//! * [`saturation`]: at how many threads a lock is never free any more, without a simulation.

pub mod critical;
mod error;
pub mod model;
mod pools;
pub mod recording;
mod reduce;
pub mod saturation;
pub mod standstill;
pub mod summary;
pub mod time;
mod turns;
mod walk;

pub use error::Error;
pub use model::Model;
pub use recording::Recording;
