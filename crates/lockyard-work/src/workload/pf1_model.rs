//! `pf1-model`: will-it-scale's page_fault1 on one address-space lock. (`spec/workloads.md` section
//! 6)
//!
//! Each thread maps 128 MiB, touches every page, and unmaps: 32,768 read sections of 0.7 µs with
//! 0.3 µs between them, then a write section of 2 µs (map), one of 20 µs and a read section of 3 ms
//! (unmap and page-table teardown). The original downgrades from the last write to the last read;
//! not every peer can, so they are two sections for all. Threads begin at evenly spaced pages, so
//! that a short window sees unmaps. Metric: `reads_per_s`.

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Shared;
use crate::tally::Run;

const PAGES: usize = 32_768;
const FAULT_NS: u64 = 700;
const TOUCH_NS: u64 = 300;
const MAP_NS: u64 = 2_000;
const UNMAP_NS: u64 = 20_000;
const TEARDOWN_NS: u64 = 3_000_000;

pub(crate) fn run<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    let object = Object::<L>::new();
    let section = |ns| Section { pauses: M::pauses(ns), ..Section::default() };
    let [map, unmap, teardown] = [MAP_NS, UNMAP_NS, TEARDOWN_NS].map(section);
    let fault = Section::of(spec).plus(M::pauses(FAULT_NS));
    let touch = M::pauses(TOUCH_NS) + spec.think;
    let mut run = drive::<M, L>(spec, core::slice::from_ref(&object), |worker| {
        let mut page = worker.index * PAGES / spec.threads;
        while worker.on() {
            worker.read(&object, fault);
            M::pause(touch);
            page += 1;
            if page == PAGES {
                page = 0;
                worker.write(&object, unmap);
                worker.read(&object, teardown);
                worker.write(&object, map);
            }
        }
    })?;
    sum_up(&mut run);
    Ok(run)
}

#[inline(never)]
fn sum_up(run: &mut Run) {
    let reads: u64 = run.tallies.iter().map(|tally| tally.reads).sum();
    run.say("reads_per_s", reads as f64 * 1e9 / run.window_ns as f64);
}
