//! Waking: where a woken task goes, and when it runs there.
//!
//! Fair: its previous CPU if that idles; else an idle core, else an idle hardware thread, in the
//! same last-level-cache domain (where the system looks for one: `os.idle_search`); else the
//! previous CPU's queue. Real-time: its previous CPU unless somebody as good runs there; then the
//! CPU with the lowest priority. An idle target costs an interrupt (unless it polls, watches its
//! flags while it idles as MWAIT does, or wakes by its own timer), the exit latency of its idle
//! state, and the context switch. On a busy target the task queues, and preempts if it is better or
//! far enough behind.
//!
//! Timers fire `timer_slack` late for fair tasks, on the CPU where the task slept. Where a sleep is
//! given by what it was seen to take (`Host::stay_away`), that and the exit latency are a part.

use crate::engine::Engine;
use crate::engine::heap::{Ps, What};
use crate::engine::task::{Account, State};
use crate::faults::Fault;
use crate::machine::line::NOBODY;

use super::class::{Class, FairForm};

/// A wake-up that comes from a timer, not from another task.
pub(crate) const TIMER: u32 = NOBODY;

impl Engine {
    /// Wakes `task`, on behalf of `by` (a CPU, or [`TIMER`]). Whether that CPU has sent an
    /// interrupt.
    pub(crate) fn wake(&mut self, task: u32, by: u32) -> bool {
        if let Some(deadline) = self.tasks[task as usize].deadline
            && by != TIMER
            && self.faults.grant_at_deadline()
        {
            self.faults.note(self.now, task, Fault::GrantAtDeadline);
            self.jump(self.when(deadline).saturating_sub(self.now));
        }
        let state = &mut self.tasks[task as usize];
        state.timer_stamp = state.timer_stamp.wrapping_add(1);
        if state.state != State::Sleeping {
            // It is about to sleep: it will not.
            state.woken = true;
            return false;
        }
        state.state = State::Runnable;
        self.account(task, Account::Runnable);
        if let Some(delay) = self.faults.wake_delay() {
            self.faults.note(self.now, task, Fault::LateWake);
            self.schedule(self.now + delay, What::Wake { task });
            return false;
        }
        let cpu = self.choose_cpu(task);
        let idle = self.cpus[cpu as usize].is_idle();
        let looks = idle && (self.cpus[cpu as usize].idle_state.is_none() || self.model.os.idle_watches);
        let ipi = match by {
            TIMER => 0,
            _ if by == cpu => 0,
            _ if looks => self.model.os.poll_wake,
            _ => self.model.os.wake_ipi,
        };
        let back = if by == TIMER { 0 } else { self.moves(task) };
        let preempts = self.arrive(task, cpu, ipi + back);
        (idle && !looks || preempts) && by != TIMER && by != cpu
    }

    /// What it takes to move the lines of `task`, but for the first, between its CPU and this one,
    /// one after the other.
    pub(super) fn moves(&self, task: u32) -> Ps {
        let core = self.cpus[self.tasks[task as usize].cpu as usize].core;
        if core == self.core { 0 } else { self.model.transfer(core, self.core) * (self.model.os.wake_lines.max(1) - 1) }
    }

    /// A delayed wake-up, or the start of a task.
    pub(crate) fn wake_arrives(&mut self, task: u32) {
        if self.tasks[task as usize].state == State::New {
            self.tasks[task as usize].state = State::Runnable;
            self.account(task, Account::Runnable);
            let cpu = self.tasks[task as usize].cpu;
            if self.cpus[cpu as usize].is_idle() {
                self.end_idle(cpu);
                return self.switch_to(cpu, task, 0, 0);
            }
            self.arrive(task, cpu, 0);
            return;
        }
        let cpu = self.choose_cpu(task);
        self.arrive(task, cpu, 0);
    }

    /// A runnable task comes to `cpu`, announced by an interrupt that takes `ipi`. Whether it
    /// preempts another.
    pub(crate) fn arrive(&mut self, task: u32, cpu: u32, ipi: Ps) -> bool {
        self.place_virtually(task, cpu);
        if self.cpus[cpu as usize].is_idle() {
            let exit = self.end_idle(cpu);
            let exit = if self.tasks[task as usize].comes_back { 0 } else { exit };
            self.switch_to(cpu, task, ipi + exit, self.model.os.ctx_switch / 2);
            return false;
        }
        self.update_virtual(cpu);
        self.cpus[cpu as usize].buddy = task;
        self.enqueue(task, cpu, false);
        let preempts = self.cpus[cpu as usize].current != NOBODY && self.preempts(task, cpu);
        if preempts {
            self.ask_to_leave(cpu, ipi);
        }
        preempts
    }

    /// The CPU stops idling; returns its exit latency.
    pub(super) fn end_idle(&mut self, cpu: u32) -> Ps {
        let now = self.now;
        let exits = self.model.idle_states();
        let idle = &mut self.cpus[cpu as usize];
        let time = now - idle.idle_since;
        idle.idle_time += time;
        idle.governor.note(time);
        idle.idle_state.map_or(0, |state| exits[state].exit)
    }

    /// A sleeper's virtual time: not so far behind that it would run alone for long, nor anything
    /// of another queue.
    fn place_virtually(&mut self, task: u32, cpu: u32) {
        let state = &mut self.tasks[task as usize];
        let queue = &self.cpus[cpu as usize].queue;
        if state.cpu != cpu {
            let behind = state.virtual_time as i64 - self.cpus[state.cpu as usize].queue.virtual_now as i64;
            state.virtual_time = (queue.virtual_now as i64 + behind).max(0) as Ps;
        }
        let floor = match self.fair.form {
            FairForm::Cfs => queue.virtual_now.saturating_sub(self.fair.latency / 2),
            FairForm::Eevdf => queue.virtual_now,
        };
        state.virtual_time = state.virtual_time.max(floor);
    }

    pub(super) fn choose_cpu(&self, task: u32) -> u32 {
        let state = &self.tasks[task as usize];
        if let Some(pinned) = state.pinned {
            return pinned;
        }
        let previous = state.cpu;
        if self.cpus[previous as usize].is_idle() {
            return previous;
        }
        if state.class != Class::Fair {
            return self.choose_by_priority(state.class.priority(), previous);
        }
        if !self.model.os.idle_search {
            return previous;
        }
        let topology = self.model.topology();
        let (cores, core) = (topology.cores(), self.cpus[previous as usize].core);
        let domain = self.model.llc_of[usize::from(core)];
        let near = || (0..cores).filter(|&core| self.model.llc_of[core] == domain);
        let threads = |core: usize| (0..topology.smt).map(move |thread| thread * cores + core);
        let idle = |cpu: &usize| self.cpus[*cpu].is_idle();
        let whole_core = near().find(|&core| threads(core).all(|cpu| idle(&cpu)));
        let found = whole_core.or_else(|| near().flat_map(threads).find(idle));
        found.map_or(previous, |cpu| cpu as u32)
    }

    fn choose_by_priority(&self, priority: u8, previous: u32) -> u32 {
        let running = |cpu: &u32| {
            let current = self.cpus[*cpu as usize].current;
            let queued = self.cpus[*cpu as usize].queue.priority();
            self.tasks.get(current as usize).map_or(0, |task| 1 + task.class.priority()).max(queued)
        };
        if running(&previous) <= priority {
            return previous;
        }
        let core = self.cpus[previous as usize].core;
        let key = |cpu: &u32| (running(cpu), self.model.distance(core, self.cpus[*cpu as usize].core), *cpu);
        let lowest = (0..self.cpus.len() as u32).min_by_key(key).unwrap_or(previous);
        if running(&lowest) <= priority { lowest } else { previous }
    }

    /// Sets the timer of `task` to `time`, later by its slack.
    pub(crate) fn arm_timer(&mut self, task: u32, time: Ps) {
        let slack = if self.tasks[task as usize].class == Class::Fair { self.model.os.timer_slack } else { 0 };
        self.set_timer(task, time.max(self.now).saturating_add(slack));
    }

    /// Sets the timer of `task` to `time`, exactly.
    pub(crate) fn set_timer(&mut self, task: u32, time: Ps) {
        let state = &mut self.tasks[task as usize];
        state.timer_stamp = state.timer_stamp.wrapping_add(1);
        let stamp = state.timer_stamp;
        self.schedule(time, What::Timer { task, stamp });
    }

    /// The program's clock jumps forward by `jump`, and the deadlines of those who sleep with it.
    pub(crate) fn jump(&mut self, jump: Ps) {
        self.clock_ahead += jump;
        for task in 0..self.tasks.len() as u32 {
            let state = &self.tasks[task as usize];
            if let Some(deadline) = state.deadline
                && jump > 0
                && !state.woken
                && matches!(state.state, State::Sleeping | State::Running)
            {
                // Beside the timer that it has: whichever comes first ends the sleep, and the other
                // with it.
                let slack = if state.class == Class::Fair { self.model.os.timer_slack } else { 0 };
                let (stamp, time) = (state.timer_stamp, self.when(deadline).max(self.now));
                self.schedule(time.saturating_add(slack), What::Timer { task, stamp });
            }
        }
    }

    /// A timer fires.
    pub(crate) fn timer(&mut self, task: u32, stamp: u32) {
        if self.tasks[task as usize].timer_stamp == stamp {
            self.leave_bucket(task);
            self.wake(task, TIMER);
        }
    }
}
