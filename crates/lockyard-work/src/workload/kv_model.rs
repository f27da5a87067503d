//! `kv-model`: memcached under as many sets as gets. (`spec/workloads.md` section 7)
//!
//! 1,024 locks for the keys, by hash, and four for the LRU lists, one per slab class. A get: 0.4 µs
//! under a key's lock. A set: 0.6 µs under a key's lock, then 0.3 µs under an LRU lock: those are
//! the hot ones. 2 µs between requests. Keys are drawn uniformly; each thread alternates sets and
//! gets, odd ones begin with a get. Turns are sections, jobs are requests. Metric:
//! `requests_per_s`.

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Exclusive;
use crate::tally::Run;

const KEYS: usize = 1_024;
const LISTS: usize = 4;
const GET_NS: u64 = 400;
const SET_NS: u64 = 600;
const LIST_NS: u64 = 300;
const OUTSIDE_NS: u64 = 2_000;

pub(crate) fn run<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    let objects: Vec<Object<L>> = (0..LISTS + KEYS).map(|_| Object::new()).collect();
    let (lists, keys) = objects.split_at(LISTS);
    let [get, set, list] = [GET_NS, SET_NS, LIST_NS].map(|ns| Section::of(spec).plus(M::pauses(ns)));
    let outside = M::pauses(OUTSIDE_NS) + spec.think;
    let mut run = drive::<M, L>(spec, &objects, |worker| {
        let mut sets = worker.index.is_multiple_of(2);
        while worker.on() {
            let key = worker.prng.below(KEYS as u32) as usize;
            if sets {
                worker.write(&keys[key], set);
                worker.write(&lists[key % LISTS], list);
            } else {
                worker.write(&keys[key], get);
            }
            sets = !sets;
            worker.job();
            M::pause(outside);
        }
    })?;
    sum_up(&mut run);
    Ok(run)
}

#[inline(never)]
fn sum_up(run: &mut Run) {
    let requests: u64 = run.tallies.iter().map(|tally| tally.jobs).sum();
    run.say("requests_per_s", requests as f64 * 1e9 / run.window_ns as f64);
}
