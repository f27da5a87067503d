//! Workloads for locks: what is run, on which lock, and what is written down about it.
//!
//! A workload is written once, generic over the [`Machine`] it runs on and over the lock under test
//! ([`Exclusive`], [`Shared`]); `Linux` is the real machine, a simulator is another one. The
//! measured loops are monomorphised: nothing between the loop and the lock is called through a
//! pointer.
//!
//! * [`machine`]: what a workload needs beyond the locks' own seam.
//! * [`subject`]: a lock under test.
//! * [`spec`]: one cell of a matrix, and what makes it valid.
//! * [`record`]: what a run yields, the same for every machine.
//! * [`catalog`]: the locks there are, Lockyard's and the peers.
//! * `simulated`, with the feature of that name: all that on simulated machines.
//! * [`replay`]: a recorded program as a workload.
//! * [`rounds`]: several locks, measured in turn, reduced to medians.
//!
//! ```no_run
//! use lockyard_work::{Spec, Workload, candidates};
//!
//! let spec = Spec { threads: 16, cs: 20, ..Spec::new(Workload::Contend) };
//! for candidate in candidates() {
//!     if candidate.check(&spec).is_ok() {
//!         let record = candidate.measure(&spec)?;
//!         println!("{}: {:.0} kops/s", candidate.label(), record.kops_per_s);
//!     }
//! }
//! # Ok::<(), lockyard_work::Error>(())
//! ```

mod candidate;
pub mod catalog;
mod control;
mod data;
mod driver;
mod erased;
pub mod error;
mod gate;
pub mod histogram;
mod invariant;
mod kind;
pub mod machine;
pub mod measure;
mod padded;
mod peers;
mod pool;
mod popularity;
mod prng;
mod quota;
pub mod record;
pub mod replay;
pub mod rounds;
mod section;
// The unit tests need no lock of a simulated machine, and would compile all of them once more.
#[cfg(all(feature = "simulated", not(test)))]
pub mod simulated;
pub mod spec;
pub mod statistics;
pub mod subject;
mod tally;
mod think;
mod worker;
mod workload;

pub use catalog::{Candidate, Measure, candidates, lockyard_candidates};
pub use error::Error;
pub use machine::{Machine, MachineError, Usage};
pub use measure::{measure_counted, measure_exclusive, measure_shared};
pub use record::Record;
pub use replay::Replay;
pub use rounds::{Progress, Report, Summary};
pub use spec::{Mix, Spec, ThinkShape, Workload};
pub use subject::{Counted, Exclusive, Family, Label, Origin, Shared};
