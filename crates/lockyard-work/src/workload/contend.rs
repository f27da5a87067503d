//! `contend` and `rwsem-micro`: lock, section, unlock, think. (`spec/workloads.md` section 1)
//!
//! The two differ in what is usual: `contend` thinks and draws each operation, `rwsem-micro` does
//! not think and alternates strictly or gives each thread a role. A share of reads, a strict
//! alternation and roles are all possible in both.
//!
//! Sections touch as many lines of data as the cell says, and the times between them may be drawn.
//!
//! **`rwsem-micro` begins with a disturbance**: the last thread's first section is a write that
//! sleeps for half a millisecond, so that everybody else falls asleep too. Locks whose waiters spin
//! or sleep may have two lasting states with the same threads, and fall from one into the other
//! when a holder is held up. A benchmark of seconds, as the published ones are, meets many a holder
//! that is; a window of milliseconds meets none, and would show whatever state it began in. Begun
//! so, what is left after the warm-up is what lasts.

use std::time::Duration;

use crate::data::Data;
use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::prng::Share;
use crate::section::Section;
use crate::spec::{Mix, Spec, Workload};
use crate::subject::{Exclusive, Shared};
use crate::tally::{Role, Run};
use crate::think::Think;
use crate::worker::Worker;

/// How long the disturbance takes. 240 threads need a fifth of it to fall asleep one after the
/// other, and the command warms up for a millisecond at least.
const DISTURBANCE: Duration = Duration::from_micros(500);

/// What the turns of one thread are made of.
pub(super) struct Turns<'a, M: Machine, L> {
    object: &'a Object<L>,
    data: &'a Data<M>,
    section: Section,
    think: Think,
}

impl<'a, M: Machine, L: Exclusive> Turns<'a, M, L> {
    pub(super) fn of(spec: &Spec, object: &'a Object<L>, data: &'a Data<M>) -> Self {
        Self { object, data, section: Section::of(spec), think: Think::of(spec) }
    }

    /// A write turn. Without data it is the one of all other workloads.
    #[inline(always)]
    fn write(&self, worker: &mut Worker<'_, M>) {
        if self.data.is_empty() {
            worker.write(self.object, self.section);
        } else {
            worker.change(self.object, self.section, self.data);
        }
        M::pause(self.think.next(&mut worker.prng));
    }

    /// A read turn, likewise.
    #[inline(always)]
    fn read(&self, worker: &mut Worker<'_, M>)
    where
        L: Shared,
    {
        if self.data.is_empty() {
            worker.read(self.object, self.section);
        } else {
            worker.look(self.object, self.section, self.data);
        }
        M::pause(self.think.next(&mut worker.prng));
    }
}

/// The disturbance, if it is for this thread to make. Whether it was.
fn disturb<M: Machine, L: Exclusive>(worker: &mut Worker<'_, M>, spec: &Spec, object: &Object<L>) -> bool {
    let last = worker.index > 0 && worker.index + 1 == spec.lockers();
    let writes = worker.role != Role::Reader && (spec.mix != Mix::Random || spec.read_pct < 100.0);
    let disturbs = spec.workload == Workload::RwsemMicro && last && writes;
    if disturbs {
        worker.write(object, Section { sleep_ns: DISTURBANCE.as_nanos() as u64, ..Section::of(spec) });
    }
    disturbs
}

/// Write turns only.
pub(crate) fn exclusive<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    let (object, data) = (Object::<L>::new(), Data::<M>::new(spec.lines));
    drive::<M, L>(spec, core::slice::from_ref(&object), |worker| {
        disturb(worker, spec, &object);
        writer(worker, &Turns::of(spec, &object, &data));
    })
}

/// Reads and writes, mixed as the cell says.
pub(crate) fn mixed<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    if spec.mix == Mix::Random && spec.read_pct == 0.0 {
        return exclusive::<M, L>(spec);
    }
    let (object, data) = (Object::<L>::new(), Data::<M>::new(spec.lines));
    drive::<M, L>(spec, core::slice::from_ref(&object), |worker| {
        let disturbed = disturb(worker, spec, &object);
        let turns = Turns::of(spec, &object, &data);
        match spec.mix {
            Mix::Random => random(worker, &turns, Share::percent(spec.read_pct)),
            Mix::Alternate => alternate(worker, &turns, disturbed || worker.index.is_multiple_of(2)),
            Mix::Roles => in_role(worker, &turns),
        }
    })
}

/// The life of a thread with a role.
pub(super) fn in_role<M: Machine, L: Shared>(worker: &mut Worker<'_, M>, turns: &Turns<'_, M, L>) {
    if worker.role != Role::Reader {
        return writer(worker, turns);
    }
    while worker.on() {
        turns.read(worker);
    }
}

fn writer<M: Machine, L: Exclusive>(worker: &mut Worker<'_, M>, turns: &Turns<'_, M, L>) {
    while worker.on() {
        turns.write(worker);
    }
}

/// A thread that draws: `reads` of its turns are reads.
fn random<M: Machine, L: Shared>(worker: &mut Worker<'_, M>, turns: &Turns<'_, M, L>, reads: Share) {
    while worker.on() {
        if worker.prng.takes(reads) {
            turns.read(worker);
        } else {
            turns.write(worker);
        }
    }
}

/// A thread that alternates. Even ones begin with a read, odd ones with a write.
fn alternate<M: Machine, L: Shared>(worker: &mut Worker<'_, M>, turns: &Turns<'_, M, L>, mut reads: bool) {
    while worker.on() {
        if reads {
            turns.read(worker);
        } else {
            turns.write(worker);
        }
        reads = !reads;
    }
}
