//! `boot-model`: what a parallel boot does to read-write semaphores. (`spec/workloads.md` section
//! 9)
//!
//! Services start one after the other on every CPU. A process maps the twenty segments of its
//! program and libraries, and each mapping enters a list that belongs to the file, under the file's
//! lock for **writing** (the kernel's `i_mmap_rwsem`; its "Process Addresses" document says who
//! takes it and how). So does each unmapping when the process ends. In between it computes for 5
//! ms, its page faults under a lock that is its own and so in nobody's way. Readers of a file's
//! list (somebody looks for all who map a page) are rare: one in a process's life. 200 files, of
//! Zipf popularity 1: everybody maps the C library.
//!
//! The locks that are in demand are thus held for short times, by writers that run: what
//! `build-model`, where reads outnumber writes, is not.

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::popularity::Popularity;
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Shared;
use crate::tally::Run;

const FILES: usize = 200;
const ZIPF: f64 = 1.0;
const SEGMENTS: usize = 20;
/// Under the lock: into a tree, or out of it.
const LIST_NS: u64 = 500;
/// Between two mappings, and between two unmappings.
const MAP_NS: u64 = 20_000;
const UNMAP_NS: u64 = 5_000;
/// The process's own work.
const COMPUTE_NS: u64 = 5_000_000;
/// A look through a file's list.
const LOOK_NS: u64 = 1_000;

pub(crate) fn run<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    let files: Vec<Object<L>> = (0..FILES).map(|_| Object::new()).collect();
    let popularity = Popularity::new(FILES, ZIPF);
    let [list, look] = [LIST_NS, LOOK_NS].map(|ns| Section::of(spec).plus(M::pauses(ns)));
    let [map, unmap, compute] = [MAP_NS, UNMAP_NS, COMPUTE_NS].map(|ns| M::pauses(ns) + spec.think);
    drive::<M, L>(spec, &files, |worker| {
        while worker.on() {
            let mapped: [&Object<L>; SEGMENTS] = core::array::from_fn(|_| &files[popularity.draw(&mut worker.prng)]);
            for file in mapped {
                M::pause(map);
                worker.write(file, list);
            }
            // No two services take as long: between none of it and all of it twice.
            M::pause(worker.prng.below(compute.saturating_mul(2)));
            let file = &files[popularity.draw(&mut worker.prng)];
            worker.read(file, look);
            for file in mapped {
                M::pause(unmap);
                worker.write(file, list);
            }
            worker.job();
        }
    })
}
