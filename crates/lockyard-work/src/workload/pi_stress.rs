//! `pi-stress`: rt-tests' pi_stress, groups of three threads that invert priorities.
//! (`spec/workloads.md` section 4)
//!
//! A group is three FIFO threads, low (1), middle (2) and high (3), bound to one CPU, a mutex and
//! five barriers; group i has the i-th CPU, counted round. One round:
//!
//! | low | middle | high |
//! |---|---|---|
//! | loop and start barriers | the same | the same |
//! | locks | waits at the elevate barrier | waits at the locked barrier |
//! | locked barrier: lets high go, which preempts | | locks: blocks, low inherits 3 |
//! | elevate barrier: meets middle | lets low go | |
//! | unlocks: high preempts | | has the mutex, unlocks |
//! | finish barrier | the same | the same; one *inversion* more |
//!
//! The owner and its waiter share a CPU, so the owner never runs while its waiter does: **a waiter
//! that spins cannot gain anything here**, whatever a table of it says. Most of a round is barriers
//! and switches: about thirteen arrivals to one contended lock.
//!
//! A barrier is two words and one call that wakes all others, as pthread's. The original also takes
//! an ordinary mutex around its loop flag.
//!
//! On a real machine it takes the right to set priorities, and says so where that is missing. The
//! controller has priority 4. Metric: `inversions_per_s`; an operation is a lock taken, by low or
//! high.

use lockyard::platform::{Ordering, Word};

use super::priorities::Priorities;
use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::padded::Padded;
use crate::section::Section;
use crate::spec::Spec;
use crate::subject::Exclusive;
use crate::tally::Run;
use crate::worker::Worker;

const GROUP: usize = 3;
const LOW: usize = 0;
const MIDDLE: usize = 1;

/// Lets threads go when as many as it is for have come, again and again.
struct Barrier<M: Machine> {
    parties: u32,
    arrived: M::U32,
    /// How often they have been let go.
    round: M::U32,
}

impl<M: Machine> Barrier<M> {
    fn new(parties: u32) -> Self {
        Self { parties, arrived: M::U32::default(), round: M::U32::default() }
    }

    /// Waits for the others. The last to come does `act` before anybody goes.
    fn wait(&self, act: impl FnOnce()) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < self.parties {
            while self.round.load(Ordering::Acquire) == round {
                M::park(&self.round, round, None);
            }
            return;
        }
        act();
        self.arrived.store(0, Ordering::Relaxed);
        self.round.store(round.wrapping_add(1), Ordering::Release);
        M::unpark_all(&self.round, self.parties - 1);
    }
}

/// What the threads of a group share beside the mutex.
struct Group<M: Machine> {
    begin: Barrier<M>,
    start: Barrier<M>,
    locked: Barrier<M>,
    elevate: Barrier<M>,
    finish: Barrier<M>,
    stop: M::U32,
}

impl<M: Machine> Group<M> {
    fn new() -> Self {
        let all = || Barrier::new(GROUP as u32);
        Self {
            begin: all(),
            start: all(),
            locked: Barrier::new(2),
            elevate: Barrier::new(2),
            finish: all(),
            stop: M::U32::default(),
        }
    }
}

pub(crate) fn run<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    let groups = spec.threads / GROUP;
    let objects: Vec<Object<L>> = (0..groups).map(|_| Object::new()).collect();
    let shared: Vec<Padded<Group<M>>> = (0..groups).map(|_| Padded(Group::new())).collect();
    let priorities = Priorities::default();
    let run = drive::<M, L>(spec, &objects, |worker| {
        let (group, role) = (worker.index / GROUP, worker.index % GROUP);
        M::pin(group);
        if !priorities.take::<M>(role as u32 + 1) {
            return;
        }
        live(worker, role, &objects[group], &shared[group].0, Section::of(spec));
    });
    priorities.granted(spec)?;
    let mut run = run?;
    sum_up(&mut run);
    Ok(run)
}

fn live<M: Machine, L: Exclusive>(
    worker: &mut Worker<'_, M>,
    role: usize,
    object: &Object<L>,
    group: &Group<M>,
    section: Section,
) {
    loop {
        group.begin.wait(|| {
            if !worker.on() {
                group.stop.store(1, Ordering::Relaxed);
            }
        });
        if group.stop.load(Ordering::Relaxed) != 0 {
            return;
        }
        group.start.wait(|| {});
        match role {
            LOW => worker.write_around(object, || {
                group.locked.wait(|| {});
                group.elevate.wait(|| {});
                section.spend::<M>();
                true
            }),
            MIDDLE => group.elevate.wait(|| {}),
            _ => {
                group.locked.wait(|| {});
                worker.write(object, section);
                worker.job();
            }
        }
        group.finish.wait(|| {});
    }
}

#[inline(never)]
fn sum_up(run: &mut Run) {
    let inversions: u64 = run.tallies.iter().map(|tally| tally.jobs).sum();
    run.say("inversions_per_s", inversions as f64 * 1e9 / run.window_ns as f64);
}
