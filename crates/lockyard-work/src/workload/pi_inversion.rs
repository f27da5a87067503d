//! `pi-inversion`: how long the most urgent thread waits while the owner of what it wants is
//! outranked by a third. (`pi-classic` and `pi-chain` of `spec/workloads.md` section 4.3; as
//! cyclictest, it reports one latency: high's wait)
//!
//! All threads run on one CPU, by fixed priority. `threads` − 2 of them form a chain of as many
//! locks: the first owns the first lock, each further one owns the next and waits for the one
//! before. *High* wants the last. *Medium* outranks all owners and has nothing to do with the
//! locks: it thinks (`think`, much longer than a section). The rounds are staged:
//!
//! ```text
//! first   locks 1, lets the others go on: each outranks it, so it runs until it waits for the lock before its own
//!         lets high go on, which readies medium and wants the last lock
//! then    with inheritance: first runs its section at high's priority, unlocks; the locks pass along the chain to high; medium thinks
//!         without: medium thinks, then all that
//! ```
//!
//! What is measured: `rounds`; `late`, those in which high waited more than 100 µs longer than the
//! first owner's section took by the clock; and by how much at most (`beyond_section_us`). The
//! section begins when high waits. A pause after each round keeps the system, which throttles
//! threads of fixed priority, out of the game.
//!
//! Of those that were late, `taken` are no lock's doing: for so long that without it high would
//! have been in time, none of the program's threads had the CPU. While high waits somebody always
//! could have it, medium if nobody else, so it was taken away: by the host of a virtual machine, or
//! by interrupts.
//!
//! `overtaken`: rounds in which medium had the CPU while high waited, however briefly. That is the
//! inversion itself: with inheritance there are none, and a late round without it went by in
//! threads that had high's priority.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::priorities::Priorities;
use crate::driver::drive;
use crate::error::Error;
use crate::gate::Gate;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::spec::Spec;
use crate::subject::Exclusive;
use crate::tally::Run;
use crate::worker::Worker;

const MEDIUM: u32 = 20;
const HIGH: u32 = 30;
/// More than this beyond a section is late.
const LATE_NS: u64 = 100_000;
/// Where the threads run: the second CPU they may use, if there are two, since interrupts mostly go
/// to the first.
const CPU: usize = 1;
/// The pause after a round, in thirds of what the round takes: fixed priorities use three quarters
/// of the CPU at most.
const PAUSE_THIRDS: u64 = 1;

/// What the threads of a run share.
struct Stage<M: Machine, L> {
    /// The chain, first lock first.
    objects: Vec<Object<L>>,
    /// One for each thread.
    gates: Vec<Gate<M>>,
    /// Passed once for each thread that has ended its part of the round.
    ended: Gate<M>,
    over: AtomicBool,
    /// What the first owner's section took in this round, and how long nobody of the program had
    /// the CPU in it.
    section_ns: AtomicU64,
    section_taken_ns: AtomicU64,
    rounds: AtomicU64,
    late: AtomicU64,
    taken: AtomicU64,
    /// Medium has had the CPU in this round.
    medium_ran: AtomicBool,
    overtaken: AtomicU64,
    beyond_ns: AtomicU64,
}

/// Measures a time, and how much of it nobody of the program had a CPU.
struct Watch<M> {
    since: u64,
    cpu_ns: Option<u64>,
    machine: PhantomData<M>,
}

impl<M: Machine> Watch<M> {
    fn start() -> Self {
        let cpu_ns = M::program_cpu_ns();
        Self { since: M::stamp(), cpu_ns, machine: PhantomData }
    }

    /// The end, by the clock, not before the start; and what was taken.
    fn stop(&self) -> (u64, u64) {
        let end = M::stamp().max(self.since);
        let used = M::program_cpu_ns().zip(self.cpu_ns).map(|(now, then)| now - then);
        (end, used.map_or(0, |used| (end - self.since).saturating_sub(used)))
    }
}

pub(crate) fn run<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    let priorities = Priorities::default();
    let depth = spec.threads - 2;
    let stage = Stage::<M, L> {
        objects: (0..depth).map(|_| Object::new()).collect(),
        gates: (0..spec.threads).map(|_| Gate::default()).collect(),
        ended: Gate::default(),
        over: AtomicBool::new(false),
        section_ns: AtomicU64::new(0),
        section_taken_ns: AtomicU64::new(0),
        rounds: AtomicU64::new(0),
        late: AtomicU64::new(0),
        taken: AtomicU64::new(0),
        medium_ran: AtomicBool::new(false),
        overtaken: AtomicU64::new(0),
        beyond_ns: AtomicU64::new(0),
    };
    let (medium, high) = (depth, depth + 1);
    let run = drive::<M, L>(spec, &stage.objects, |worker| {
        M::pin(CPU);
        let me = worker.index;
        let priority = if me == high {
            HIGH
        } else if me == medium {
            MEDIUM
        } else {
            1 + me as u32
        };
        if !priorities.take::<M>(priority) {
            return;
        }
        if me == high {
            stage.high(worker, spec);
            return;
        }
        loop {
            stage.gates[me].pass();
            if stage.over.load(Relaxed) {
                return;
            }
            match me {
                0 => stage.first(spec),
                _ if me == medium => {
                    stage.medium_ran.store(true, Relaxed);
                    M::pause(spec.think);
                }
                _ => stage.objects[me].lock.with(|| stage.objects[me - 1].lock.with(|| ())),
            }
            stage.ended.open();
        }
    });
    priorities.granted(spec)?;
    let mut run = run?;
    let number = |counter: &AtomicU64| counter.load(Relaxed) as f64;
    run.say("rounds", number(&stage.rounds));
    run.say("late", number(&stage.late));
    run.say("taken", number(&stage.taken));
    run.say("overtaken", number(&stage.overtaken));
    run.say("beyond_section_us", number(&stage.beyond_ns) / 1e3);
    Ok(run)
}

impl<M: Machine, L: Exclusive> Stage<M, L> {
    /// The life of the most urgent thread, which leads the rounds.
    fn high(&self, worker: &mut Worker<'_, M>, spec: &Spec) {
        let (medium, high) = (self.objects.len(), self.objects.len() + 1);
        let round_ns = (f64::from(spec.cs) + f64::from(spec.think)) * M::pause_ns();
        while worker.on() {
            self.gates[0].open();
            self.gates[high].pass();
            self.medium_ran.store(false, Relaxed);
            self.gates[medium].open();
            let watch = Watch::<M>::start();
            let ((entered, taken), overtaken) =
                self.objects[medium - 1].lock.with(|| (watch.stop(), self.medium_ran.load(Relaxed)));
            if worker.waited(watch.since, entered) {
                let beyond = (entered - watch.since).saturating_sub(self.section_ns.load(Relaxed));
                let taken = taken.saturating_sub(self.section_taken_ns.load(Relaxed));
                let late = beyond > LATE_NS;
                self.overtaken.fetch_add(u64::from(overtaken), Relaxed);
                self.rounds.fetch_add(1, Relaxed);
                self.late.fetch_add(u64::from(late), Relaxed);
                self.taken.fetch_add(u64::from(late && beyond.saturating_sub(taken) <= LATE_NS), Relaxed);
                self.beyond_ns.fetch_max(beyond, Relaxed);
            }
            (0..high).for_each(|_| self.ended.pass());
            M::sleep((round_ns as u64 * PAUSE_THIRDS).div_ceil(3));
        }
        self.over.store(true, Relaxed);
        self.gates[..high].iter().for_each(Gate::open);
    }

    /// A round of the first owner.
    fn first(&self, spec: &Spec) {
        let (depth, high) = (self.objects.len(), self.objects.len() + 1);
        self.objects[0].lock.with(|| {
            self.gates[1..depth].iter().for_each(Gate::open);
            self.gates[high].open();
            // High waits. Without inheritance medium runs now, and then it is our turn.
            let watch = Watch::<M>::start();
            M::pause(spec.cs);
            let (end, taken) = watch.stop();
            self.section_ns.store(end - watch.since, Relaxed);
            self.section_taken_ns.store(taken, Relaxed);
        });
    }
}
