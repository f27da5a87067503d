//! A child process: the thread that forks goes on in it with new threads, its heirs; the others are
//! ghosts.
//!
//! The simulation becomes the child: what happens in the parent after a fork is what happens in a
//! run without. Ghosts do nothing any more, and their memory stays as it is: records, stacks, what
//! they wrote into locks. A child begins when no other thread is in a window or in the kernel, and
//! every store is visible, as on the real machine: the forking thread waits for that, not for ever.

use super::Engine;
use super::heap::{Ps, What};
use super::host::Host;
use super::task::{Doing, State};
use crate::faults::Fault;

/// How often a thread looks whether it can fork, and the time between.
const LOOKS: u32 = 400;
const BETWEEN: Ps = 700_000;

impl Host {
    /// The running thread may fork here. Whether it has, and is the child's.
    pub(crate) fn fork(self) -> bool {
        if !self.engine().faults.fork() {
            return false;
        }
        self.drain_stores();
        for _ in 0..LOOKS {
            if self.engine().can_fork() {
                let engine = self.engine();
                engine.faults.note(engine.now, engine.current, Fault::Fork);
                engine.fork();
                return true;
            }
            self.pass(BETWEEN);
        }
        false
    }
}

impl Engine {
    /// Whether nothing is under way that a child must not begin with.
    fn can_fork(&self) -> bool {
        let others = self.tasks.iter().enumerate().filter(|&(task, _)| task != self.current as usize);
        let whole = |state: &super::task::Task| {
            let busy = state.state == State::Running && (state.kernel > 0 || state.doing == Doing::Memory);
            state.windows == 0 && !busy && state.state != State::New
        };
        others.into_iter().all(|(_, state)| whole(state)) && self.cpus.iter().all(|cpu| cpu.buffer.is_empty())
    }

    /// All tasks but the running one become ghosts, and its heirs begin.
    fn fork(&mut self) {
        let (tasks, current) = (self.tasks.len(), self.current as usize);
        let parents: Vec<u32> =
            (0..tasks - self.heirs).filter(|&task| task != current).map(|task| task as u32).collect();
        self.epoch += 1;
        self.finished = 0;
        self.expected = 1 + self.heirs;
        for &task in &parents {
            let state = &mut self.tasks[task as usize];
            state.ghost = true;
            state.timer_stamp = state.timer_stamp.wrapping_add(1);
            state.spin_stamp = state.spin_stamp.wrapping_add(1);
            state.deadline = None;
            self.leave_bucket(task);
        }
        // The queues first: a CPU that is left takes from them.
        for &task in &parents {
            if self.tasks[task as usize].state == State::Runnable {
                self.leave_queue(task);
            }
        }
        for task in parents {
            let before = std::mem::replace(&mut self.tasks[task as usize].state, State::Done);
            if before == State::Running {
                self.leave_cpu(task);
            }
        }
        if let Some(order) = &mut self.seen {
            order.fork((tasks - self.heirs..tasks).chain([current]));
        }
        for task in tasks - self.heirs..tasks {
            self.tasks[task].state = State::New;
            self.schedule(self.now, What::Wake { task: task as u32 });
        }
    }
}
