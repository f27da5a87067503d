//! `torture-spin`: the writers of locktorture on a spinlock, steady setting. (`spec/workloads.md`
//! section 3)
//!
//! Steady: no stutter, no shuffling, no long holds, no change of priority, threads pinned round
//! robin. What remains of the cycle, for n writers: once in 2²⁰ cycles a sleep of one tick; inside
//! the section 2 µs busy with probability 1/(400 n), and the CPU given away with probability
//! 1/(20000 n). The section is otherwise empty (`cs` adds to it). The write-held flag that the
//! original checks is the protected data that every workload here checks.
//!
//! `torture-spin-2021`: in kernels up to 5.14 the probability of 2 µs was 1/(4 n), so that an
//! acquisition held the lock for 500 ns by the number of writers on average, and not for 5.
//!
//! **Begin.** All writers begin at one instant, as they do whenever the original's stutter has
//! stopped them: a queue keeps the order in which its waiters came, for as long as nobody leaves
//! it, so that who begins after whom decides whom the lock meets for the whole window. Until then
//! they sleep, up to 0.2 ms of the warm-up.

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::section::Section;
use crate::spec::{Spec, Workload};
use crate::subject::Exclusive;
use crate::tally::Run;

const TICK_NS: u64 = 4_000_000;
const SHORT_NS: u64 = 2_000;
/// Writers begin together, at a multiple of this.
const BEGIN_NS: u64 = 200_000;

pub(crate) fn run<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    let object = Object::<L>::new();
    let writers = spec.threads as u64;
    let section = Section::of(spec);
    let short = M::pauses(SHORT_NS);
    let one_in = writers * if spec.workload == Workload::TortureSpin2021 { 4 } else { 400 };
    drive::<M, L>(spec, core::slice::from_ref(&object), |worker| {
        M::pin(worker.index);
        M::sleep(BEGIN_NS - M::stamp() % BEGIN_NS);
        while worker.on() {
            if worker.prng.one_in(1 << 20) {
                M::sleep(TICK_NS);
            }
            let busy = if worker.prng.one_in(one_in) { short } else { 0 };
            let give_way = worker.prng.one_in(writers * 20_000);
            worker.write(&object, Section { give_way, ..section.plus(busy) });
            M::pause(spec.think);
        }
    })
}
