//! Changing the class of a task that may be anywhere: in a queue, on a CPU, asleep.
//!
//! A queued task moves to where its new priority puts it, on another CPU if it may run at once
//! there; one that runs gives way if somebody better waits for its CPU now; one that sleeps wakes
//! up with it. As in the kernel, who is raised queues behind its new equals.
//!
//! A priority that is lent is the `Fifo` class over the task's own, which stays what it was.
//!
//! Cost: the run queue's line of the task's CPU and, for real-time priorities, what all CPUs share
//! ([`super::realtime`]), as in waking; a system call on top unless the locks are part of the
//! kernel.

use crate::engine::Engine;
use crate::engine::host::Host;
use crate::engine::task::State;

use super::class::Class;

impl Class {
    /// The class with a fixed priority, or the fair one.
    pub(crate) fn of_priority(priority: u32) -> Self {
        match u8::try_from(priority.min(99)) {
            Ok(priority @ 1..) => Self::Fifo(priority),
            _ => Self::Fair,
        }
    }
}

impl Engine {
    /// Gives `task` the class `class`.
    pub(crate) fn change_class(&mut self, task: u32, class: Class) {
        let (old, state, cpu) = {
            let task = &self.tasks[task as usize];
            (task.class, task.state, task.cpu)
        };
        if old == class {
            return;
        }
        self.tally.changes += 1;
        if state == State::Running {
            self.update_virtual(cpu);
            let now = self.now;
            let running = &mut self.tasks[task as usize];
            running.class = class;
            running.counted = now;
            self.bound_realtime_spin(task);
            if self.cpus[cpu as usize].queue.priority() > class.priority() {
                self.ask_to_leave(cpu, 0);
            }
            return;
        }
        let key = self.tasks[task as usize].queue_key;
        let queued = state == State::Runnable && self.cpus[cpu as usize].queue.holds(task, old, key);
        if queued {
            self.detach(task, cpu);
        }
        self.tasks[task as usize].class = class;
        self.bound_realtime_spin(task);
        if queued {
            let cpu = self.choose_cpu(task);
            self.arrive(task, cpu, 0);
        }
    }
}

impl Host {
    /// Lets `task` run with priority `effective`, of which `base` is its own: the seam's question.
    pub(crate) fn set_priority(self, task: u32, base: u32, effective: u32) -> bool {
        if self.engine().tasks.get(task as usize).is_none() {
            return false;
        }
        self.enter_kernel();
        let engine = self.engine();
        let call = if engine.in_kernel { 0 } else { engine.model.os.yield_call };
        self.pass(call);
        let engine = self.engine();
        let cpu = engine.tasks[task as usize].cpu;
        let queue = engine.cpus[cpu as usize].rq_line;
        self.kernel_update(queue, || ());
        self.changes_realtime(task, u8::try_from(effective).unwrap_or(99));
        let engine = self.engine();
        let state = &mut engine.tasks[task as usize];
        if u32::from(state.own_class.priority()) != base {
            state.own_class = Class::of_priority(base);
        }
        let class = if effective > base { Class::of_priority(effective) } else { state.own_class };
        engine.change_class(task, class);
        self.leave_kernel();
        true
    }
}
