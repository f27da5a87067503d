//! What only the real machine can show, one theme per file. Tests that need a process of their own
//! are beside this folder: `allocation`, `exhaustion`, `fork`.

// These tests are about threads, clocks and signals of the system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod embedding;
mod errno;
mod guards;
mod layout;
mod messages;
mod permits;
mod signals;
mod thread_exit;
mod traits;
