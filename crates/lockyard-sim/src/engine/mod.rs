//! The engine: discrete events in integer picoseconds, tasks as coroutines, one simulation to a
//! host thread.
//!
//! | file | what |
//! |---|---|
//! | `heap` | the event queue |
//! | `task` | a simulated thread's state |
//! | `arena` | the memory of the simulated program |
//! | `host` | from a task's stack to the engine: passing time, suspending |
//! | `access` | loads, stores, read-modify-writes, fences |
//! | `fork` | a child process: one thread goes on, the others are ghosts |
//! | `spin` | waiting for a change of lines |
//! | `run` | the loop that takes events and resumes tasks |
//! | `random` | random draws |
//! | `stores` | stores on their way from buffers to lines |
//! | `tally` | sums of a run, and what they were at a moment |
//! | `order` | who has seen what: races on protected data |
//! | `waits` | what each thread does when a run ends before its time |
//! | `watch` | what is watched of memory: freed objects, frames that have returned, the last seam calls of each task |
//!
//! **Run-ahead.** A task that computes or hits goes on without a switch as long as its clock stays
//! below the next event's time; otherwise it schedules itself and suspends. The order of events is
//! that of (time, order of scheduling), and a task alone at the front would be the next event
//! anyway: results are the same with run-ahead off.
//!
//! **Borrows.** Tasks and the loop reach the engine through a raw pointer and borrow it for one
//! statement at a time; no borrow lives across a suspension. Functions that may suspend are methods
//! of [`host::Host`], all others of [`Engine`].

pub(crate) mod access;
pub(crate) mod arena;
pub(crate) mod fork;
pub(crate) mod heap;
pub(crate) mod host;
pub(crate) mod order;
pub(crate) mod random;
pub(crate) mod run;
pub(crate) mod spin;
mod stores;
pub(crate) mod tally;
pub(crate) mod task;
pub(crate) mod waits;
pub(crate) mod watch;

use std::ptr::NonNull;
use std::sync::Arc;

use lockyard::event::COUNT;

use crate::config::Config;
use crate::error::Error;
use crate::faults::FaultState;
use crate::machine::line::{KernelLine, Lines, NOBODY, Place, Shape};
use crate::machine::model::{Model, ONE};
use crate::scheduler::buckets::Futexes;
use crate::scheduler::class::Fair;
use crate::scheduler::cpu::{Activity, Cpu};
use crate::scheduler::shared::Shared;
use crate::trace::{Passage, Ring};
use heap::{Heap, Ps, What};
use random::Random;
use tally::{Mark, Tally};
use task::{Account, State, Task};

/// A simulation's state.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) now: Ps,
    /// The running task may go on by itself while its clock is below this.
    pub(crate) limit: Ps,
    /// The running task, its CPU and core, and by how much siblings slow it.
    pub(crate) current: u32,
    pub(crate) here: u32,
    pub(crate) core: u16,
    pub(crate) slow: u64,
    pub(crate) run_ahead: bool,
    pub(crate) time_limit: Ps,
    pub(crate) event_limit: u64,
    pub(crate) heap: Heap,
    pub(crate) model: Arc<Model>,
    pub(crate) random: Random,
    /// Whether hints are as vague as Linux gives them to a program.
    pub(crate) as_linux: bool,
    /// Whether blocking and waking need no system call.
    pub(crate) in_kernel: bool,
    pub(crate) tasks: Vec<Task>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) lines: Lines,
    pub(crate) futexes: Futexes,
    pub(crate) fair: Fair,
    /// Tasks in run queues.
    pub(crate) waiting: usize,
    pub(crate) shared: Shared,
    /// What the timer's handlers write, and when they are due.
    pub(crate) tick_line: u32,
    pub(crate) next_tick: Ps,
    /// CPUs in the order of the placement.
    pub(crate) order: Vec<u32>,
    pub(crate) finished: usize,
    /// How many tasks end before the run does.
    pub(crate) expected: usize,
    /// How many tasks, the last, begin in the child of a fork.
    pub(crate) heirs: usize,
    /// 1, and 2 in the child of a fork.
    pub(crate) epoch: u32,
    /// Ghosts are taken for threads of this process, on purpose.
    pub(crate) believes_in_ghosts: bool,
    pub(crate) counts: [u64; COUNT],
    pub(crate) tally: Tally,
    pub(crate) faults: FaultState,
    /// Looks at everything before each step, and after each effect.
    pub(crate) observer: Option<NonNull<dyn FnMut()>>,
    /// Looks at everything before a thread that was stopped goes on.
    pub(crate) judge: Option<NonNull<dyn FnMut()>>,
    pub(crate) guard: watch::Guard,
    pub(crate) seen: Option<Box<order::Order>>,
    /// How far the program's clock is ahead of the simulation's.
    pub(crate) clock_ahead: Ps,
    pub(crate) trace: Option<Ring>,
    pub(crate) failure: Option<Error>,
    /// Addresses of record 0, of the table of heads, of the hierarchical locks' pool.
    pub(crate) records: usize,
    pub(crate) heads: usize,
    pub(crate) pool: usize,
    /// Threads with a CPU of their own choice: thread, CPU, pinned.
    pub(crate) assigned: Vec<(u32, u32, bool)>,
    /// Thread 0 only presides over the others.
    pub(crate) presided: bool,
    /// Sums at moments the program asked for them.
    pub(crate) marks: Vec<Mark>,
}

impl Engine {
    pub(crate) fn new(config: &Config, base: usize, len: usize) -> Self {
        let model = config.machine.clone();
        let topology = model.topology().clone();
        let cores = topology.cores();
        let shape = Shape {
            cores,
            clusters: topology.clusters(),
            domains: (0..cores).map(|core| topology.llc_of(core) + 1).max().unwrap_or(1),
            cluster_of: model.cluster_of.clone(),
            domain_of: model.llc_of.clone(),
        };
        let mut lines = Lines::new(shape, base, len);
        let cpus = (0..topology.cpus())
            .map(|cpu| {
                let core = topology.core_of(cpu);
                let place = Place::Kernel(KernelLine::RunQueue(cpu as u32));
                Cpu::new(core as u16, lines.create(place, topology.node_of(core) as u16))
            })
            .collect();
        let tick_line = lines.create(Place::Kernel(KernelLine::Timekeeping), 0);
        let guard = watch::Guard::new(config.watch_memory, config.journal);
        let mut faults = FaultState::new(&config.faults, config.seed);
        faults.active |= guard.is_on() || config.watch_order;
        let os = &model.os;
        let fair = Fair {
            form: config.fair,
            latency: os.cfs_latency,
            least_slice: os.cfs_min_slice,
            wakeup_granularity: os.cfs_wakeup_gran,
            wakeup_preemption: config.wakeup_preemption,
        };
        Self {
            now: 0,
            limit: 0,
            current: NOBODY,
            here: 0,
            core: 0,
            slow: ONE,
            run_ahead: config.run_ahead,
            time_limit: config.time_limit_ns.saturating_mul(1000),
            event_limit: config.event_limit,
            heap: Heap::default(),
            as_linux: config.as_linux,
            in_kernel: config.in_kernel,
            random: Random::new(config.seed, u64::from_le_bytes(*b"machine ")),
            tasks: Vec::new(),
            futexes: Futexes::new(topology.cpus()),
            fair,
            waiting: 0,
            shared: Shared::default(),
            tick_line,
            next_tick: Ps::MAX,
            order: topology.order(config.placement, config.seed),
            finished: 0,
            expected: 0,
            heirs: 0,
            epoch: 1,
            believes_in_ghosts: config.believes_in_ghosts,
            counts: [0; COUNT],
            tally: Tally::default(),
            faults,
            observer: None,
            judge: None,
            guard,
            seen: config.watch_order.then(|| Box::new(order::Order::new(config.weakening.clone()))),
            clock_ahead: 0,
            trace: config.trace.map(Ring::new),
            failure: None,
            records: 0,
            heads: 0,
            pool: 0,
            assigned: Vec::new(),
            presided: false,
            marks: Vec::new(),
            cpus,
            lines,
            model,
        }
    }

    /// From now on `observer` is called before each step and after each effect. It must outlive the
    /// run.
    pub(crate) fn set_observer(&mut self, observer: &'static mut dyn FnMut()) {
        self.observer = Some(NonNull::from(observer));
        self.faults.active = true;
    }

    /// Whether `thread` sleeps on a word and nobody has woken it.
    pub(crate) fn is_parked(&self, thread: usize) -> bool {
        self.tasks.get(thread).is_some_and(|task| task.state == State::Sleeping && task.bucket.is_some() && !task.woken)
    }

    /// Schedules `what`; the running task does not go past it.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, time: Ps, what: What) {
        self.limit = self.limit.min(time);
        self.heap.push(time, what);
    }

    /// `task` goes on at `time`, and not as scheduled before.
    #[inline(always)]
    pub(crate) fn wake_at(&mut self, time: Ps, task: u32) {
        let state = &mut self.tasks[task as usize];
        state.stamp = state.stamp.wrapping_add(1);
        let stamp = state.stamp;
        self.schedule(time, What::Task { task, stamp });
    }

    /// From now on the time of `task` goes to `account`.
    pub(crate) fn account(&mut self, task: u32, account: Account) {
        let now = self.now;
        let state = &mut self.tasks[task as usize];
        if let Some(ring) = &mut self.trace {
            ring.note(now, state.cpu, task, account);
        }
        state.charge(now, account);
        if matches!(account, Account::Running | Account::Spinning) {
            let activity = if account == Account::Spinning { Activity::Spinning } else { Activity::Busy };
            self.cpus[state.cpu as usize].activity = activity;
        }
    }

    /// For the trace: the running task has entered a section of the lock at `address`, or is about
    /// to leave it.
    pub(crate) fn note_passage(&mut self, address: usize, enters: bool) {
        if self.trace.is_none() {
            return;
        }
        let node = self.model.node_of[usize::from(self.core)];
        let lock = self.lines.find(address, node);
        let (now, thread) = (self.now, self.current);
        if let Some(ring) = &mut self.trace {
            ring.pass(Passage { ps: now, thread, lock, enters });
        }
    }

    /// By how much the hardware threads beside `cpu` slow it.
    pub(crate) fn slowdown(&self, cpu: u32) -> u64 {
        let topology = self.model.topology();
        let (cores, smt) = (topology.cores(), topology.smt);
        let mut slow = ONE;
        if smt > 1 {
            let core = cpu as usize % cores;
            for other in (0..smt).map(|thread| thread * cores + core).filter(|&other| other != cpu as usize) {
                slow = slow.max(match self.cpus[other].activity {
                    Activity::Idle => ONE,
                    Activity::Spinning => self.model.smt_spin,
                    Activity::Busy => self.model.smt_busy,
                });
            }
        }
        slow
    }

    /// What the program's clock shows.
    pub(crate) fn clock(&self) -> Ps {
        self.now + self.clock_ahead
    }

    /// When the program's clock shows `ns`, on the simulation's.
    pub(crate) fn when(&self, ns: u64) -> Ps {
        ns.saturating_mul(1000).saturating_sub(self.clock_ahead)
    }

    /// A name for an address that does not depend on the host: an arena offset, or a line's number.
    pub(crate) fn key(&mut self, address: usize) -> u64 {
        match self.lines.place(address) {
            Place::Arena(line) => (line * 64 + address % 64) as u64,
            _ => {
                let node = self.model.node_of[usize::from(self.core)];
                let line = self.lines.find(address, node);
                (1 << 40) + u64::from(line) * 64 + (address % 64) as u64
            }
        }
    }
}
