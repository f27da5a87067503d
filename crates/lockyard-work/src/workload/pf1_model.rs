//! `pf1-model`: will-it-scale's page_fault1 on one address-space lock. (`spec/workloads.md` section 6)
//!
//! Each thread maps 128 MiB, touches every page, and unmaps: 32,768 read sections of 0.7 µs with 0.3 µs between them,
//! then a write section of 2 µs (map), one of 20 µs and a read section of 3 ms (unmap and page-table teardown). The
//! original downgrades from the last write to the last read; not every peer can, so they are two sections for all.
//! Threads begin at evenly spaced pages, so that a short window sees unmaps. Metric: `reads_per_s`.

use super::{crew, hold};
use crate::driver::{Run, drive};
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::spec::Spec;
use crate::subject::Shared;

const PAGES: usize = 32_768;
const FAULT_NS: u64 = 700;
const TOUCH_NS: u64 = 300;
const MAP_NS: u64 = 2_000;
const UNMAP_NS: u64 = 20_000;
const TEARDOWN_NS: u64 = 3_000_000;

pub(crate) fn run<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    let object = Object::<L>::new();
    let [fault, touch, map, unmap, teardown] =
        [FAULT_NS, TOUCH_NS, MAP_NS, UNMAP_NS, TEARDOWN_NS].map(|ns| M::pauses(ns));
    let mut run = drive::<M, L>(spec, &crew(spec), core::slice::from_ref(&object), |worker| {
        let mut page = worker.index * PAGES / spec.threads;
        while worker.on() {
            worker.read(&object, || {
                M::pause(fault);
                hold::<M>(spec);
            });
            M::pause(touch + spec.think);
            page += 1;
            if page == PAGES {
                page = 0;
                worker.write(&object, || M::pause(unmap));
                worker.read(&object, || M::pause(teardown));
                worker.write(&object, || M::pause(map));
            }
        }
    })?;
    let reads: u64 = run.tallies.iter().map(|tally| tally.reads).sum();
    run.metrics.insert("reads_per_s".to_owned(), reads as f64 * 1e9 / run.window_ns as f64);
    Ok(run)
}
