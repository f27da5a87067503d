//! What a real-time task costs all CPUs.
//!
//! Two things of the real-time class are the whole machine's, whatever CPU a task is bound to. Both
//! are written where a task begins or ceases to be the best of its CPU's:
//!
//! * **The map of priorities.** For each level (one for everything below the real-time priorities,
//!   one for each of those) the number of CPUs whose best task has it, and which they are: so a
//!   wake-up finds the CPU with the least urgent task. When the best priority of a CPU changes, it
//!   is entered at the new level and taken out at the old one: a number and a set of CPUs each,
//!   four locked instructions. Numbers are 16 bytes apart, four to a line; a set has a line of its
//!   own.
//! * **The budget.** Real-time tasks may use 95 % of each second; one timer for the machine refills
//!   the budget. Every task that becomes runnable looks whether there is a budget, which is written
//!   beside the timer's lock, and then, under the lock, whether the timer runs.
//!
//! With all CPUs at it, these lines go round between them: within a socket in tens of nanoseconds,
//! between sockets in hundreds.
//!
//! Sources: Haskins, "sched: add RT-balance, cpupri" (2007, 2008);
//! Documentation/scheduler/sched-rt-group.

use crate::engine::Engine;
use crate::engine::host::Host;
use crate::engine::task::State;
use crate::machine::line::{KernelLine, NOBODY, Place};

use super::lock::KernelLock;

/// The level of the lowest real-time priority, 1: below it are idle, fair, and one that is not
/// used.
const LOWEST: u32 = 3;
const FAIR: u32 = 1;
/// Numbers to a line.
const TO_A_LINE: u32 = 4;

fn level(priority: u8) -> u32 {
    if priority == 0 { FAIR } else { LOWEST - 1 + u32::from(priority) }
}

impl Engine {
    fn number_line(&mut self, level: u32) -> u32 {
        let lines = &mut self.lines;
        let place = level / TO_A_LINE;
        *self.shared.numbers.entry(place).or_insert_with(|| lines.create(Place::Kernel(KernelLine::Priorities), 0))
    }

    fn set_line(&mut self, level: u32) -> u32 {
        let lines = &mut self.lines;
        *self.shared.sets.entry(level).or_insert_with(|| lines.create(Place::Kernel(KernelLine::Priorities), 0))
    }

    fn budget_lock(&mut self) -> &mut KernelLock {
        let lines = &mut self.lines;
        self.shared.timer.get_or_insert_with(|| KernelLock::new(lines.create(Place::Kernel(KernelLine::Budget), 0)))
    }

    /// The priority of the best task of `cpu`, `task` left out of account.
    fn best_without(&self, cpu: u32, task: u32) -> u8 {
        let here = &self.cpus[cpu as usize];
        let running = self.tasks.get(here.current as usize).filter(|_| here.current != task && here.current != NOBODY);
        let mut best = running.map_or(0, |running| running.class.priority());
        for queued in here.queue.iter().filter(|&queued| queued != task) {
            best = best.max(self.tasks[queued as usize].class.priority());
        }
        best
    }
}

impl Host {
    /// The running task is about to sleep.
    pub(super) fn leaves_realtime(self) {
        let engine = self.engine();
        let (task, cpu) = (engine.current, engine.here);
        let own = engine.tasks[task as usize].class.priority();
        let others = engine.best_without(cpu, task);
        self.enter_best(own.max(others), others);
    }

    /// `task` becomes runnable on the CPU where it is.
    pub(super) fn enters_realtime(self, task: u32) {
        let engine = self.engine();
        let state = &engine.tasks[task as usize];
        let (own, cpu) = (state.class.priority(), state.cpu);
        if own == 0 {
            return;
        }
        let others = engine.best_without(cpu, task);
        self.look_at_budget();
        self.enter_best(others, own.max(others));
    }

    /// `task` changes to `priority`: if it is runnable, as if it left and came back.
    pub(super) fn changes_realtime(self, task: u32, priority: u8) {
        let engine = self.engine();
        let state = &engine.tasks[task as usize];
        let (own, cpu) = (state.class.priority(), state.cpu);
        if own == priority || !matches!(state.state, State::Running | State::Runnable) {
            return;
        }
        let others = engine.best_without(cpu, task);
        self.enter_best(own.max(others), others);
        if priority > 0 {
            self.look_at_budget();
        }
        self.enter_best(others, priority.max(others));
    }

    /// A CPU's best priority was `before` and is `now`.
    fn enter_best(self, before: u8, now: u8) {
        if before == now {
            return;
        }
        let (old, new) = (level(before), level(now));
        for level in [new, old] {
            let line = self.engine().set_line(level);
            self.kernel_update(line, || ());
            let line = self.engine().number_line(level);
            self.kernel_update(line, || ());
        }
    }

    /// Whether there is a budget, and its timer runs: it does.
    fn look_at_budget(self) {
        let line = self.engine().budget_lock().line;
        self.kernel_load(line);
        self.lock(Engine::budget_lock);
        self.unlock(Engine::budget_lock);
    }
}
