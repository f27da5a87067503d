//! `uncontended`: what lock and unlock cost when nobody else wants the lock.
//!
//! One thread measures; the controller is a second thread, alive and asleep for the whole run,
//! because glibc leaves out the atomic instructions in programs with a single thread. Batches are
//! timed, not operations, and the median batch is what is reported: an interrupt spoils one batch,
//! not the result. With nobody to exclude there is no protected data.

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::spec::Spec;
use crate::statistics::median;
use crate::subject::{Exclusive, Shared};
use crate::tally::Run;

/// Operations between two stamps: some 20 µs.
const BATCH: u64 = 1024;

/// Lock and unlock for writing.
pub(crate) fn exclusive<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    batches::<M, L>(spec, |lock| lock.with(|| ()))
}

/// Lock and unlock for reading, or for writing if the cell has no reads.
pub(crate) fn shared<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    if spec.read_pct == 0.0 { exclusive::<M, L>(spec) } else { batches::<M, L>(spec, |lock| lock.with_shared(|| ())) }
}

#[inline(always)]
fn batches<M: Machine, L: Exclusive>(spec: &Spec, pair: impl Fn(&L) + Sync) -> Result<Run, Error> {
    let object = Object::<L>::new();
    let objects = core::slice::from_ref(&object);
    let mut run = drive::<M, L>(spec, objects, |worker| {
        let lock: &L = &object.lock;
        while worker.on() {
            let start = M::stamp();
            for _ in 0..BATCH {
                pair(lock);
            }
            worker.batch(BATCH, M::stamp().saturating_sub(start));
        }
    })?;
    sum_up(&mut run);
    Ok(run)
}

#[inline(never)]
fn sum_up(run: &mut Run) {
    let batches: Vec<f64> = run.tallies.iter().flat_map(|tally| &tally.batches).map(|&ns| ns as f64).collect();
    run.ns_per_op = Some(median(&batches) / BATCH as f64);
}
