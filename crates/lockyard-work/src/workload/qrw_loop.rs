//! `qrw-loop`: the qrwlock patch's test. (`spec/workloads.md` section 2)
//!
//! Empty sections, no think time; operation `i` of a thread is a write iff `i mod 6 = 5` (with the
//! usual five reads to a write), and thread `k` begins at phase `k`. The original does 5 million
//! operations per thread; here the window is fixed and the time for that many is derived: the
//! metric `ms_per_5m_each`.

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Shared;
use crate::tally::Run;

pub(crate) fn run<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    let object = Object::<L>::new();
    let section = Section::of(spec);
    let cycle = spec.ratio as usize + 1;
    let mut run = drive::<M, L>(spec, core::slice::from_ref(&object), |worker| {
        let mut phase = worker.index % cycle;
        while worker.on() {
            if phase == cycle - 1 {
                worker.write(&object, section);
                phase = 0;
            } else {
                worker.read(&object, section);
                phase += 1;
            }
            M::pause(spec.think);
        }
    })?;
    sum_up(&mut run);
    Ok(run)
}

#[inline(never)]
fn sum_up(run: &mut Run) {
    let each = run.turns() as f64 / run.tallies.len() as f64;
    if each > 0.0 {
        run.say("ms_per_5m_each", run.window_ns as f64 / 1e6 * (5e6 / each));
    }
}
