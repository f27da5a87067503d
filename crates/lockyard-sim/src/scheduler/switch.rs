//! Leaving and taking a CPU.
//!
//! A task leaves because it blocks, is done, yields, or is preempted. The CPU then takes the next
//! task of its queue, pulls one from another CPU, or idles. A switch costs `ctx_switch`, half of it
//! before the old task is off the CPU and half of it after: a task that blocks pays for the first
//! half itself, and who wakes it meanwhile finds it still there; a CPU that idles has that half
//! behind it. The new task counts as on the CPU from the beginning of the second.
//!
//! **Preemption.** Somebody better (a woken task, an expired slice) sets `need_resched`. A
//! computing or spinning task is then preempted at once; one that waits for a line, or is inside
//! the kernel, as soon as it can be; never with a store buffer that is not empty. A task that spins
//! politely (`Patience::courteous`: in the kernel such code disables preemption and looks at the
//! flag) is told and has `polite` time to stop by itself.
//!
//! **Ticks** act only on CPUs whose queue is not empty; elsewhere they take time from whoever runs
//! (see `interrupt`), and change nothing. A tick ends slices and hands queued tasks to idle CPUs.
//! **Pulling.** A CPU that runs out of work takes a waiting task from the nearest queue, unless the
//! task is pinned or has run within `migration_cost` (its data are still in the other CPU's cache),
//! or, with `buddies_stay`, is the one that was woken last in that queue; a tick hands over such a
//! task as well.

use crate::engine::Engine;
use crate::engine::heap::{Ps, What};
use crate::engine::task::{Account, Doing, State};
use crate::machine::line::NOBODY;

use super::class::{Class, FairForm};
use super::cpu::Activity;

impl Engine {
    /// Brings the virtual time of the CPU's task up to date.
    pub(super) fn update_virtual(&mut self, cpu: u32) {
        let current = self.cpus[cpu as usize].current;
        let Some(task) = self.tasks.get_mut(current as usize) else { return };
        let mut running = None;
        if task.class == Class::Fair {
            if task.doing != Doing::Switching {
                task.virtual_time += self.now - task.counted;
                task.counted = self.now;
            }
            running = Some(task.virtual_time);
        }
        self.cpus[cpu as usize].queue.advance(running);
    }

    /// Puts a task into the queue of a CPU.
    pub(super) fn enqueue(&mut self, task: u32, cpu: u32, front: bool) {
        let state = &mut self.tasks[task as usize];
        state.cpu = cpu;
        let target = &mut self.cpus[cpu as usize];
        state.queue_key = target.queue.push(task, state.class, state.virtual_time, front);
        self.waiting += 1;
        if target.current != NOBODY && !target.ticking {
            target.ticking = true;
            let tick = self.model.os.tick;
            self.schedule((self.now / tick + 1) * tick, What::Tick { cpu });
        }
    }

    /// The CPU's task goes back to its queue, and the best takes over. The caller suspends if the
    /// task is running.
    pub(crate) fn requeue(&mut self, task: u32, preempted: bool) {
        let now = self.now;
        let state = &mut self.tasks[task as usize];
        let cpu = state.cpu;
        state.left = match state.doing {
            Doing::Computing { until } if until > now && task != self.current => until - now,
            _ => 0,
        };
        state.state = State::Runnable;
        self.account(task, Account::Runnable);
        self.update_virtual(cpu);
        if !preempted {
            let greatest = self.cpus[cpu as usize].queue.greatest().unwrap_or(0);
            let state = &mut self.tasks[task as usize];
            state.virtual_time = state.virtual_time.max(greatest);
        }
        let front = preempted && matches!(self.tasks[task as usize].class, Class::Fifo(_));
        self.enqueue(task, cpu, front);
        self.leave_cpu(task);
    }

    /// The task gives up its CPU; its state says why.
    pub(crate) fn leave_cpu(&mut self, task: u32) {
        let cpu = self.tasks[task as usize].cpu;
        self.update_virtual(cpu);
        let now = self.now;
        let state = &mut self.tasks[task as usize];
        state.stamp = state.stamp.wrapping_add(1);
        state.watch_stamp = state.watch_stamp.wrapping_add(1);
        state.doing = Doing::Switching;
        state.give_up = false;
        state.left_at = now;
        let leaving = &mut self.cpus[cpu as usize];
        leaving.current = NOBODY;
        leaving.need_resched = false;
        leaving.stopped = false;
        leaving.stamp = leaving.stamp.wrapping_add(1);
        for index in 0..self.tasks[task as usize].spun_for_by.len() {
            let spinner = self.tasks[task as usize].spun_for_by[index];
            self.poke(spinner);
        }
        let blocked = self.tasks[task as usize].state == State::Sleeping;
        self.take_next(cpu, blocked);
    }

    /// The CPU is free: takes a task, or idles. The task that has blocked has paid for the first
    /// half of the switch.
    fn take_next(&mut self, cpu: u32, blocked: bool) {
        let switch = if blocked { self.model.os.ctx_switch / 2 } else { self.model.os.ctx_switch };
        let next = self.cpus[cpu as usize].queue.pop(&self.fair);
        if let Some(task) = next {
            self.waiting -= 1;
            return self.switch_to(cpu, task, 0, switch);
        }
        if let Some(task) = self.pull(cpu) {
            return self.switch_to(cpu, task, 0, switch);
        }
        let idle = &mut self.cpus[cpu as usize];
        idle.activity = Activity::Idle;
        idle.idle_since = self.now;
        idle.idle_state = idle.governor.choose(self.model.idle_states());
    }

    /// `task` will run on `cpu` after `delay`, and a switch.
    pub(super) fn switch_to(&mut self, cpu: u32, task: u32, delay: Ps, switch: Ps) {
        let state = &mut self.tasks[task as usize];
        if state.cpu != cpu {
            state.migrations += 1;
        }
        state.cpu = cpu;
        state.state = State::Running;
        state.doing = Doing::Switching;
        let target = &mut self.cpus[cpu as usize];
        target.current = task;
        target.activity = Activity::Busy;
        target.need_resched = false;
        target.switches += 1;
        target.stamp = target.stamp.wrapping_add(1);
        let stamp = target.stamp;
        self.start_ticks();
        if self.current != NOBODY {
            // A sibling of the running task may have become busy.
            self.slow = self.slowdown(self.here);
        }
        let delay = delay + self.uneven(switch);
        self.schedule(self.now + delay, What::Switched { cpu, stamp });
    }

    /// A switch is complete. Returns the task if it goes on at once.
    pub(crate) fn switched(&mut self, cpu: u32, stamp: u32) -> Option<u32> {
        let target = &self.cpus[cpu as usize];
        let (task, line, core) = (target.current, target.rq_line, target.core);
        if target.stamp != stamp || task == NOBODY {
            return None;
        }
        // The scheduler has worked on the CPU's queue: its line is here now.
        if self.lines[line].flight.is_none() {
            self.take_ownership(line, core);
        }
        let now = self.now;
        let spinning = self.tasks[task as usize].spinning;
        self.account(task, if spinning { Account::Spinning } else { Account::Running });
        let state = &mut self.tasks[task as usize];
        state.turn_since = now;
        state.counted = now;
        let left = std::mem::take(&mut state.left);
        state.doing = Doing::Computing { until: now + left };
        if !self.cpus[cpu as usize].queue.is_empty() && !self.cpus[cpu as usize].ticking {
            self.cpus[cpu as usize].ticking = true;
            let tick = self.model.os.tick;
            self.schedule((now / tick + 1) * tick, What::Tick { cpu });
        }
        if left > 0 {
            self.wake_at(now + left, task);
            if self.tasks[task as usize].give_up && self.tasks[task as usize].kernel == 0 {
                self.preempt(task);
            }
            return None;
        }
        Some(task)
    }

    /// Somebody better waits for `cpu`; its task is told now and leaves after `delay` at the
    /// earliest.
    pub(super) fn ask_to_leave(&mut self, cpu: u32, delay: Ps) {
        let target = &mut self.cpus[cpu as usize];
        let (task, stamp) = (target.current, target.stamp);
        if task == NOBODY || target.need_resched {
            return;
        }
        target.need_resched = true;
        let state = &self.tasks[task as usize];
        let delay = if state.spinning && state.courteous { delay.max(self.model.os.polite) } else { delay };
        self.poke(task);
        self.schedule(self.now + delay, What::Force { cpu, stamp });
    }

    /// Time is up for the CPU's task.
    pub(crate) fn force(&mut self, cpu: u32, stamp: u32) {
        let target = &self.cpus[cpu as usize];
        if target.stamp == stamp && target.need_resched {
            self.reschedule(cpu);
        }
    }

    /// Preempts the CPU's task as soon as it can be.
    pub(crate) fn reschedule(&mut self, cpu: u32) {
        let task = self.cpus[cpu as usize].current;
        let Some(state) = self.tasks.get_mut(task as usize) else { return };
        let later = state.kernel > 0
            || task == self.current
            || matches!(state.doing, Doing::Memory | Doing::Switching)
            || !self.cpus[cpu as usize].buffer.is_empty();
        if later {
            let told = std::mem::replace(&mut state.give_up, true);
            if task == self.current {
                self.limit = 0;
            } else if !told && !self.cpus[cpu as usize].buffer.is_empty() && state.kernel == 0 {
                let number = self.cpus[cpu as usize].buffer.next_number();
                self.await_stores(cpu, number, NOBODY);
            }
            return;
        }
        self.preempt(task);
    }

    fn preempt(&mut self, task: u32) {
        self.tasks[task as usize].involuntary += 1;
        self.requeue(task, true);
    }

    /// A scheduler tick.
    pub(crate) fn tick(&mut self, cpu: u32) {
        let task = self.cpus[cpu as usize].current;
        if self.cpus[cpu as usize].queue.is_empty() || task == NOBODY {
            self.cpus[cpu as usize].ticking = false;
            return;
        }
        self.schedule(self.now + self.model.os.tick, What::Tick { cpu });
        self.update_virtual(cpu);
        self.push_to_idle(cpu);
        let queue = &self.cpus[cpu as usize].queue;
        if queue.is_empty() || self.tasks[task as usize].doing == Doing::Switching {
            return;
        }
        let state = &self.tasks[task as usize];
        let ran = self.now - state.turn_since;
        let expired = match state.class {
            Class::Fair => ran >= self.fair.slice(queue.len() + 1) || queue.priority() > 0,
            Class::RoundRobin(priority) => ran >= self.model.os.rr_slice && queue.priority() >= priority,
            Class::Fifo(priority) => queue.priority() > priority,
        };
        if expired {
            self.ask_to_leave(cpu, 0);
        }
    }

    /// Whether somebody on this CPU would run if `task` yielded.
    pub(crate) fn yields_to_somebody(&self, task: u32) -> bool {
        let state = &self.tasks[task as usize];
        let queue = &self.cpus[state.cpu as usize].queue;
        match state.class {
            Class::Fair => !queue.is_empty(),
            Class::Fifo(priority) | Class::RoundRobin(priority) => queue.priority() >= priority,
        }
    }

    /// Whether `task` may be taken to `cpu`.
    fn may_move(&self, task: u32, cpu: u32) -> bool {
        let state = &self.tasks[task as usize];
        let cold = state.class.is_realtime() || self.now - state.left_at >= self.model.os.migration_cost;
        state.pinned.is_none_or(|pinned| pinned == cpu) && cold
    }

    /// Whether `cpu`, out of work, takes `task`.
    fn may_pull(&self, task: u32, cpu: u32) -> bool {
        let buddy = self.model.os.buddies_stay && self.cpus[self.tasks[task as usize].cpu as usize].buddy == task;
        !buddy && self.may_move(task, cpu)
    }

    /// Takes a waiting task from the nearest CPU that has one.
    fn pull(&mut self, cpu: u32) -> Option<u32> {
        if self.waiting == 0 || !self.model.os.idle_pulls {
            return None;
        }
        let core = self.cpus[cpu as usize].core;
        let from = (0..self.cpus.len() as u32)
            .filter(|&other| other != cpu && self.cpus[other as usize].current != NOBODY)
            .filter(|&other| self.cpus[other as usize].queue.iter().any(|task| self.may_pull(task, cpu)))
            .min_by_key(|&other| {
                let victim = &self.cpus[other as usize];
                (self.model.distance(core, victim.core), usize::MAX - victim.queue.len(), other)
            })?;
        let task = self.cpus[from as usize].queue.iter().find(|&task| self.may_pull(task, cpu))?;
        self.detach(task, cpu);
        Some(task)
    }

    /// Takes a queued task out of its queue, on its way to `cpu`.
    pub(super) fn detach(&mut self, task: u32, cpu: u32) {
        let state = &mut self.tasks[task as usize];
        let from = state.cpu as usize;
        let (class, key) = (state.class, state.queue_key);
        let behind = state.virtual_time as i64 - self.cpus[from].queue.virtual_now as i64;
        state.virtual_time = (self.cpus[cpu as usize].queue.virtual_now as i64 + behind).max(0) as Ps;
        self.cpus[from].queue.remove(class, key);
        self.waiting -= 1;
    }

    /// Takes a runnable task that will not run out of its queue, unless it is still on its way
    /// there.
    pub(crate) fn leave_queue(&mut self, task: u32) {
        let state = &self.tasks[task as usize];
        let (cpu, class, key) = (state.cpu as usize, state.class, state.queue_key);
        if self.cpus[cpu].queue.iter().any(|queued| queued == task) {
            self.cpus[cpu].queue.remove(class, key);
            self.waiting -= 1;
        }
    }

    /// Hands one waiting task of `cpu` to an idle CPU, the nearest.
    fn push_to_idle(&mut self, cpu: u32) {
        let core = self.cpus[cpu as usize].core;
        let idle = (0..self.cpus.len() as u32)
            .filter(|&other| self.cpus[other as usize].is_idle())
            .min_by_key(|&other| (self.model.distance(core, self.cpus[other as usize].core), other));
        let Some(idle) = idle else { return };
        let Some(task) = self.cpus[cpu as usize].queue.iter().find(|&task| self.may_move(task, idle)) else { return };
        self.detach(task, idle);
        let exit = self.end_idle(idle);
        self.switch_to(idle, task, self.model.os.wake_ipi + exit, self.model.os.ctx_switch / 2);
    }

    /// Whether a task that wakes up on a busy CPU preempts.
    pub(super) fn preempts(&self, task: u32, cpu: u32) -> bool {
        let target = &self.cpus[cpu as usize];
        let (woken, current) = (&self.tasks[task as usize], &self.tasks[target.current as usize]);
        if woken.class.is_realtime() || current.class.is_realtime() {
            return woken.class.priority() > current.class.priority();
        }
        if !self.fair.wakeup_preemption {
            return false;
        }
        match self.fair.form {
            FairForm::Cfs => current.virtual_time > woken.virtual_time + self.fair.wakeup_granularity,
            FairForm::Eevdf => {
                let mean = target.queue.mean_with(current.virtual_time);
                woken.virtual_time <= mean && woken.virtual_time < current.virtual_time
            }
        }
    }
}
