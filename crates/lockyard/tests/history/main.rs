//! The bugs that others had: each a test, named by its number in the project's analysis of the
//! kernel's history, played step by step.
//!
//! | file | bugs |
//! |---|---|
//! | `rwsem` | B0, B2, B8 to B10, B12, B13, B17; races R1, R2, R7, R10 to R12 |
//! | `mutex` | M1 to M3 |
//! | `osq` | O1 to O3: cancelling as first, middle and last, against leaving and each other |
//! | `semaphore` | the lost wake-up of 2008, shown; and its repair |
//! | `signals` | handlers that use locks while their thread waits for one |
//! | `turns` | our own: CPUs that fell idle beside a lock that nobody fought over |
//!
//! Schedules are scripts (`lockyard_check::scripted`): nothing depends on time or luck, and "hangs"
//! is a fact, not a timeout. What needs weak memory to show (B1, B3, B4, O1) is for the model
//! checkers.

mod mutex;
mod osq;
mod rwsem;
mod semaphore;
mod signals;
mod turns;

pub(crate) use lockyard_check::scripts;
