//! A machine made of coroutines: Lockyard's locks, unchanged, on many-core NUMA machines that
//! nobody here owns.
//!
//! [`Sim`] implements the library's [`Platform`](lockyard::platform::Platform): the very lock
//! source that ships runs inside a deterministic simulation of caches, interconnect, scheduler and
//! futexes. Same source, machine, workload and seed give the same result to the last digit, on
//! every host, on any number of host threads.
//!
//! * [`Simulation`]: a machine and the threads of a program.
//! * [`inside`]: what a program says and asks on a simulated thread.
//! * [`machine`]: machines as data, [`catalog`](machine::catalog) lists them.
//! * [`report`]: where time and cache lines went.
//! * [`calibration`]: everything that was fitted.
//! * [`hand_over`]: a line's way on the host.
//! * [`faults`]: an adversarial machine, for tests.
//!
//! One simulation runs on one host thread; several may run side by side on several. The model is
//! described where it is implemented: `machine::server` (transfers), `machine::buffer` (stores),
//! `engine::spin` (waiting), `scheduler` (everything that sleeps).
//!
//! # Bounds
//!
//! 4,096 threads besides a workload's controller, on 1,024 CPUs. Words of simulated locks may live
//! anywhere; in the simulated memory ([`Simulation::place`]) their layout decides which of them
//! share lines, elsewhere the host's addresses do, line by line in order of first touch. A
//! simulated thread must not free or move a word that it stored to in the last microsecond, other
//! than on its own stack: the store may still be on its way.

pub mod calibration;
mod config;
mod engine;
mod error;
pub mod faults;
pub mod hand_over;
pub mod inside;
pub mod machine;
mod names;
mod platform;
pub mod report;
pub mod scheduler;
mod simulation;
pub mod trace;
mod weakening;

pub use config::{Config, Start};
pub use error::Error;
pub use inside::{
    changes, clock_ps, compute, cpu, cpu_ns, fork, freed, is_parked, may_stop, operation, pin_here, set_class,
    stopped_until,
};
pub use platform::{Sim, stands_for, words};
pub use simulation::{MOST_THREADS, Remembered, Simulation};
pub use weakening::Weakening;
