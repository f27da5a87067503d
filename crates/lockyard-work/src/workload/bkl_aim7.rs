//! `bkl-aim7`: many tasks and one big lock that is dropped around sleeps. (`spec/workloads.md` section 5.3)
//!
//! The kernel's AIM7 regression: a semaphore that hands itself to a sleeping waiter leaves CPUs idle while the lock
//! is free in all but name. A task does jobs without end. 40 % of the jobs only compute (6.5 ms on average); the
//! others compute 2.4 ms and take the lock 20 times for 2 µs, and in one section of ten they block: the lock is
//! dropped, the task sleeps 100 µs, and takes it again. Job lengths are lognormal.
//!
//! Differences from the original: a window instead of 97 jobs per task, so the job timing index is taken over jobs
//! done per task instead of time taken per task, and is rough in short windows; 64 tasks instead of 2000 unless asked
//! for. `cs` adds PAUSEs to each section. Metrics: `jobs_per_min`, `job_timing_index`; the record's `busy` is the
//! other half of the picture.

use crate::driver::{Run, drive};
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::prng::Prng;
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Exclusive;

const COMPUTE_PCT: u32 = 40;
const COMPUTE_NS: f64 = 6.5e6;
const LOCKING_NS: f64 = 2.4e6;
/// Spread of job lengths: standard deviation of their logarithm.
const SIGMA: f64 = 0.5;
/// Pieces of a job; a locking job takes the lock after each.
const PIECES: u32 = 20;
const SECTION_NS: u64 = 2_000;
const SLEEP_NS: u64 = 100_000;

pub(crate) fn run<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    let object = Object::<L>::new();
    let pauses = M::pauses(SECTION_NS);
    let whole = Section::of(spec).plus(pauses);
    let half = Section { pauses: pauses / 2, ..Section::default() };
    let mut run = drive::<M, L>(spec, core::slice::from_ref(&object), |worker| {
        'tasks: while worker.on() {
            let computes = worker.prng.percent(COMPUTE_PCT);
            let piece = piece::<M>(&mut worker.prng, if computes { COMPUTE_NS } else { LOCKING_NS });
            for _ in 0..PIECES {
                M::pause(piece);
                if !worker.on() {
                    break 'tasks;
                }
                if computes {
                    continue;
                }
                if worker.prng.one_in(10) {
                    worker.write(&object, half);
                    M::sleep(SLEEP_NS);
                    worker.write(&object, half);
                } else {
                    worker.write(&object, whole);
                }
            }
            worker.job();
        }
    })?;
    sum_up(&mut run);
    Ok(run)
}

#[inline(never)]
fn sum_up(run: &mut Run) {
    let jobs: Vec<u64> = run.tallies.iter().map(|tally| tally.jobs).collect();
    run.say("jobs_per_min", jobs.iter().sum::<u64>() as f64 * 60e9 / run.window_ns as f64);
    run.say("job_timing_index", timing_index(&jobs));
}

/// PAUSEs in one piece of a job of `mean` ns.
fn piece<M: Machine>(prng: &mut Prng, mean: f64) -> u32 {
    let ns = mean * (SIGMA * prng.normal() - SIGMA * SIGMA / 2.0).exp();
    M::pauses((ns / f64::from(PIECES)) as u64)
}

/// 100 × (1 − standard deviation / mean), rounded down; 0 if that is negative.
fn timing_index(jobs: &[u64]) -> f64 {
    let n = jobs.len().max(1) as f64;
    let mean = jobs.iter().sum::<u64>() as f64 / n;
    if mean == 0.0 {
        return 0.0;
    }
    let variance = jobs.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>() / n;
    (100.0 * (1.0 - variance.sqrt() / mean)).floor().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timing_index_of_known_sets() {
        assert_eq!(timing_index(&[10, 10, 10]), 100.0);
        assert_eq!(timing_index(&[9, 11]), 90.0);
        assert_eq!(timing_index(&[0, 0, 0, 100]), 0.0);
        assert_eq!(timing_index(&[0]), 0.0);
    }
}
