//! `pi-cross`: owner and waiter on different CPUs, where a top waiter that spins can succeed.
//! (`spec/workloads.md` section 4.3)
//!
//! Three threads of fixed priority: *low* on one CPU and *high* on another lock, spend the section,
//! unlock and think, again and again; *medium* shares low's CPU and outranks it, and runs for a
//! moment every millisecond, so that a lock without inheritance inverts now and then. Low and high
//! leave their CPUs every [`BREATH`] turns for a moment: otherwise the rest of the system, and the
//! controller with it, would not run at all.

use super::priorities::Priorities;
use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::{Machine, MachineError};
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Exclusive;
use crate::tally::Run;

/// Turns between two moments in which a CPU is left to others.
const BREATH: u64 = 1_000;
const BREATH_NS: u64 = 50_000;
/// How often medium runs, and for how long.
const MEDIUM_EVERY_NS: u64 = 1_000_000;
const MEDIUM_NS: u64 = 20_000;

pub(crate) fn run<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    if M::cpus() < 2 {
        return Err(MachineError::new("pi-cross needs two CPUs: its owner and its waiter run on different ones").into());
    }
    let priorities = Priorities::default();
    let object = Object::<L>::new();
    let section = Section::of(spec);
    let run = drive::<M, L>(spec, core::slice::from_ref(&object), |worker| {
        let (cpu, priority) = [(0, 10), (1, 30), (0, 20)][worker.index % 3];
        M::pin(cpu);
        if !priorities.take::<M>(priority) {
            return;
        }
        if worker.index == 2 {
            while worker.on() {
                M::sleep(MEDIUM_EVERY_NS);
                M::pause(M::pauses(MEDIUM_NS));
            }
            return;
        }
        while worker.on() {
            for _ in 0..BREATH {
                worker.write(&object, section);
                M::pause(spec.think);
            }
            M::sleep(BREATH_NS);
        }
    });
    priorities.granted(spec)?;
    run
}
