//! `contend` and `rwsem-micro`: lock, section, unlock, think. (`spec/workloads.md` section 1)
//!
//! The two differ in what is usual: `contend` thinks and draws each operation, `rwsem-micro` does not think and
//! alternates strictly or gives each thread a role. A share of reads, a strict alternation and roles are all possible
//! in both.

use crate::driver::{Role, Run, drive};
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::section::Section;
use crate::spec::{Mix, Spec};
use crate::subject::{Exclusive, Shared};
use crate::worker::Worker;

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
    let mut reads = worker.index.is_multiple_of(2);
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
