//! `starve-writers` and `starve-readers`: who is left out when the other side never lets go.
//!
//! Threads have roles and sleep inside their sections (1 ms), so that the lock, not the CPU, is
//! what they wait for. *starve-writers*: eight readers, begun one after the other within one
//! section, so that one of them nearly always holds the lock; a writer gets in only if the lock
//! stops admitting readers. *starve-readers*: four writers loop, the lock is never free for longer
//! than a handover; a reader gets in only if the lock makes a writer wait. The roles' own waits are
//! the result.

use super::contend::{self, Turns};
use crate::data::Data;
use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::spec::Spec;
use crate::subject::Shared;
use crate::tally::{Role, Run};

pub(crate) fn run<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    let object = Object::<L>::new();
    let data = Data::<M>::new(spec.lines);
    let section = spec.cs_sleep.as_nanos() as u64;
    drive::<M, L>(spec, core::slice::from_ref(&object), |worker| {
        if worker.role == Role::Reader {
            M::sleep(section * worker.index as u64 / spec.readers as u64);
        }
        contend::in_role(worker, &Turns::of(spec, &object, &data));
    })
}
