//! `build-model`: the locks of a parallel kernel build. (`spec/workloads.md` section 9)
//!
//! 4,000 locks (directories, files) of Zipf popularity 1.1. A task has eight of them at hand; it
//! computes 10 ms, then makes 20 read sections of 1 µs and two write sections of 3 µs on those, and
//! one write in a hundred sleeps 50 µs. After 50 ms the task ends and the next one begins, with
//! other locks. Tasks follow each other on one thread: threads are not born and joined here. Nearly
//! all acquisitions are uncontended; the lock events of the rest are the result.
//!
//! The specification has 200 µs of computing, and expects more than 99.9 % of the acquisitions to
//! be uncontended. Both cannot be: with 96 tasks the most popular lock would be asked for 1.5
//! million times a second, and in the simulator 13 % of all acquisitions queued. With 10 ms, some
//! two thousand acquisitions a second and task, 1 % do.

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::popularity::Popularity;
use crate::prng::Share;
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Shared;
use crate::tally::Run;

const LOCKS: usize = 4_000;
const ZIPF: f64 = 1.1;
const AT_HAND: usize = 8;
const COMPUTE_NS: u64 = 10_000_000;
const READS: u32 = 20;
const READ_NS: u64 = 1_000;
const WRITES: u32 = 2;
const WRITE_NS: u64 = 3_000;
const SLEEP_NS: u64 = 50_000;
const TASK_NS: u64 = 50_000_000;

pub(crate) fn run<M: Machine, L: Shared>(spec: &Spec) -> Result<Run, Error> {
    let objects: Vec<Object<L>> = (0..LOCKS).map(|_| Object::new()).collect();
    let popularity = Popularity::new(LOCKS, ZIPF);
    let compute = M::pauses(COMPUTE_NS) + spec.think;
    let [read, write] = [READ_NS, WRITE_NS].map(|ns| Section::of(spec).plus(M::pauses(ns)));
    let sleeping_write = Section { sleep_ns: SLEEP_NS, ..write };
    drive::<M, L>(spec, &objects, |worker| {
        while worker.on() {
            let born = M::stamp();
            let at_hand: [&Object<L>; AT_HAND] = core::array::from_fn(|_| &objects[popularity.draw(&mut worker.prng)]);
            while worker.on() && M::stamp().saturating_sub(born) < TASK_NS {
                M::pause(compute);
                for _ in 0..READS {
                    let object = at_hand[worker.prng.below(AT_HAND as u32) as usize];
                    worker.read(object, read);
                }
                for _ in 0..WRITES {
                    let object = at_hand[worker.prng.below(AT_HAND as u32) as usize];
                    let section = if worker.prng.takes(Share::percent(1.0)) { sleeping_write } else { write };
                    worker.write(object, section);
                }
            }
            worker.job();
        }
    })
}
