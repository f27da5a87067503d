//! `contend` and `rwsem-micro`: lock, section, unlock, think. (`spec/workloads.md` section 1)
//!
//! The two differ in what is usual: `contend` thinks and draws each operation, `rwsem-micro` does
//! not think and alternates strictly or gives each thread a role. A share of reads, a strict
//! alternation and roles are all possible in both.
//!
//! **`rwsem-micro` begins with a disturbance**: the last thread's first section is a write that
//! sleeps for half a millisecond, so that everybody else falls asleep too. Locks whose waiters spin
//! or sleep may have two lasting states with the same threads, and fall from one into the other
//! when a holder is held up. A benchmark of seconds, as the published ones are, meets many a holder
//! that is; a window of milliseconds meets none, and would show whatever state it began in. Begun
//! so, what is left after the warm-up is what lasts.

use std::time::Duration;

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::section::Section;
use crate::spec::{Mix, Spec, Workload};
use crate::subject::{Exclusive, Shared};
use crate::tally::{Role, Run};
use crate::worker::Worker;

/// How long the disturbance takes. 240 threads need a fifth of it to fall asleep one after the
/// other, and the command warms up for a millisecond at least.
const DISTURBANCE: Duration = Duration::from_micros(500);

/// The disturbance, if it is for this thread to make. Whether it was.
fn disturb<M: Machine, L: Exclusive>(worker: &mut Worker<'_, M>, spec: &Spec, object: &Object<L>) -> bool {
    let last = worker.index > 0 && worker.index + 1 == spec.lockers();
    let writes = worker.role != Role::Reader && (spec.mix != Mix::Random || spec.read_pct < 100);
    let disturbs = spec.workload == Workload::RwsemMicro && last && writes;
    if disturbs {
        worker.write(object, Section { sleep_ns: DISTURBANCE.as_nanos() as u64, ..Section::of(spec) });
    }
    disturbs
}

/// Write turns only.
pub(crate) fn exclusive<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    let object = Object::<L>::new();
    drive::<M, L>(spec, core::slice::from_ref(&object), |worker| writer::<M, L>(worker, spec, &object))
}

/// Reads and writes, mixed as the cell says.
pub(crate) fn mixed<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    let object = Object::<L>::new();
    let objects = core::slice::from_ref(&object);
    match (spec.mix, spec.read_pct) {
        (Mix::Random, 0) => exclusive::<M, L>(spec),
        (Mix::Random, _) => drive::<M, L>(spec, objects, |worker| random::<M, L>(worker, spec, &object)),
        (Mix::Alternate, _) => drive::<M, L>(spec, objects, |worker| alternate::<M, L>(worker, spec, &object)),
        (Mix::Roles, _) => drive::<M, L>(spec, objects, |worker| in_role::<M, L>(worker, spec, &object)),
    }
}

/// The life of a thread with a role.
pub(super) fn in_role<M: Machine, L: Shared>(worker: &mut Worker<'_, M>, spec: &Spec, object: &Object<L>) {
    match worker.role {
        Role::Reader => reader::<M, L>(worker, spec, object),
        Role::Writer | Role::Both => writer::<M, L>(worker, spec, object),
    }
}

fn writer<M: Machine, L: Exclusive>(worker: &mut Worker<'_, M>, spec: &Spec, object: &Object<L>) {
    let section = Section::of(spec);
    disturb(worker, spec, object);
    while worker.on() {
        worker.write(object, section);
        M::pause(spec.think);
    }
}

fn reader<M: Machine, L: Shared>(worker: &mut Worker<'_, M>, spec: &Spec, object: &Object<L>) {
    let section = Section::of(spec);
    while worker.on() {
        worker.read(object, section);
        M::pause(spec.think);
    }
}

fn random<M: Machine, L: Shared>(worker: &mut Worker<'_, M>, spec: &Spec, object: &Object<L>) {
    let section = Section::of(spec);
    disturb(worker, spec, object);
    while worker.on() {
        if worker.prng.percent(spec.read_pct) {
            worker.read(object, section);
        } else {
            worker.write(object, section);
        }
        M::pause(spec.think);
    }
}

/// Even threads begin with a read, odd ones with a write.
fn alternate<M: Machine, L: Shared>(worker: &mut Worker<'_, M>, spec: &Spec, object: &Object<L>) {
    let section = Section::of(spec);
    let mut reads = disturb(worker, spec, object) || worker.index.is_multiple_of(2);
    while worker.on() {
        if reads {
            worker.read(object, section);
        } else {
            worker.write(object, section);
        }
        reads = !reads;
        M::pause(spec.think);
    }
}
