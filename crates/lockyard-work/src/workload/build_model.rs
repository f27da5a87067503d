//! `build-model`: the locks of a parallel kernel build. (`spec/workloads.md` section 9)
//!
//! 4,000 locks (directories, files) of Zipf popularity 1.1. A task has eight of them at hand; it computes 200 µs,
//! then makes 20 read sections of 1 µs and two write sections of 3 µs on those, and one write in a hundred sleeps 50
//! µs. After 50 ms the task ends and the next one begins, with other locks. Tasks follow each other on one thread:
//! threads are not born and joined here. Nearly all acquisitions are uncontended; the lock events of the rest are the
//! result.

use crate::driver::{Run, drive};
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::prng::Prng;
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Shared;

const LOCKS: usize = 4_000;
const ZIPF: f64 = 1.1;
const AT_HAND: usize = 8;
const COMPUTE_NS: u64 = 200_000;
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
                    let section = if worker.prng.percent(1) { sleeping_write } else { write };
                    worker.write(object, section);
                }
            }
            worker.job();
        }
    })
}

/// Zipf's distribution over `0..n`: the k-th is drawn in proportion to 1 / (k + 1)^s.
struct Popularity {
    /// Sums of the weights up to each.
    sums: Vec<f64>,
}

impl Popularity {
    fn new(n: usize, exponent: f64) -> Self {
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
        let sums = (0..n).scan(0.0, |sum, rank| {
            *sum += weight(rank);
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    fn draw(&self, prng: &mut Prng) -> usize {
        let all = self.sums[self.sums.len() - 1];
        let point = prng.unit() * all;
        self.sums.partition_point(|&sum| sum < point).min(self.sums.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_locks_are_drawn_in_proportion() {
        let popularity = Popularity::new(100, 1.0);
        let mut prng = Prng::new(3, 0);
        let mut hits = [0_u32; 100];
        for _ in 0..100_000 {
            hits[popularity.draw(&mut prng)] += 1;
        }
        let ratio = f64::from(hits[0]) / f64::from(hits[9]);
        assert!((8.0..12.5).contains(&ratio), "{ratio}");
    }
}
