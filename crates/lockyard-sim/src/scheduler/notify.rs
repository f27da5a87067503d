//! What a kernel touches of a thread that it looks at or wakes, whether that thread sleeps or not.
//!
//! A library's waker writes into the other thread's token, and is done if nobody sleeps. A kernel's
//! does more before it knows: it links the thread into its list of those to be woken and takes a
//! reference, locks the thread, looks at its state, and drops the reference. If the state says that
//! the thread will sleep while it is still on its CPU, it locks that CPU's run queue to tell it not
//! to. Locks that are passed on to threads which are about to sleep, or wake up and are late, pay
//! for that at every release.
//!
//! | of a thread | line | written by |
//! |---|---|---|
//! | link and lock | one of the kernel's | wakers |
//! | state, reference count, whether it is on a CPU | the one of its token, which stands for its state | wakers, and itself |
//!
//! So a kernel's spinner fetches the second line when it looks whether an owner runs; what a
//! library looks at stays in its cache.
//!
//! All of it holds for locks that are simulated as part of the kernel
//! ([`Config::in_kernel`](crate::Config)) only. What it takes to wake a sleeper comes on top
//! (`futex`).

use lockyard::platform::{Platform, ThreadId};

use crate::engine::Engine;
use crate::engine::host::Host;
use crate::machine::line::{KernelLine, NOBODY, Place};
use crate::platform::words::U32;
use crate::platform::{RECORD, Sim};

impl Engine {
    /// The task whose record is at `address`.
    fn task_at(&self, address: usize) -> Option<u32> {
        let index = address.checked_sub(self.records)? / RECORD;
        (index < self.tasks.len()).then_some(index as u32)
    }

    /// The line of a task's own lock.
    fn lock_line(&mut self, task: u32) -> u32 {
        if self.tasks[task as usize].lock_line == NOBODY {
            let cpu = self.tasks[task as usize].cpu;
            let node = self.model.node_of[usize::from(self.cpus[cpu as usize].core)];
            self.tasks[task as usize].lock_line = self.lines.create(Place::Kernel(KernelLine::Task(task)), node);
        }
        self.tasks[task as usize].lock_line
    }
}

impl Host {
    /// Leaves a wake-up in `token` by `exchange`, which returns what was there.
    pub(crate) fn notify(self, token: &U32, exchange: impl FnOnce() -> u32) -> u32 {
        let (engine, address) = (self.engine(), token.place());
        let Some(task) = engine.task_at(address).filter(|&task| engine.in_kernel && task != engine.current) else {
            return exchange();
        };
        self.outside_spins("wakes another");
        self.enter_kernel();
        let (lock, (state, _)) = (self.engine().lock_line(task), self.engine().touch(address));
        // Linked; referenced; locked.
        for line in [lock, state, lock] {
            self.kernel_update(line, || ());
        }
        let found = exchange();
        let engine = self.engine();
        let told_before = found == token.peek();
        if !told_before && engine.runs(task) {
            let queue = engine.cpus[engine.tasks[task as usize].cpu as usize].rq_line;
            self.kernel_update(queue, || ());
        }
        // The reference is dropped.
        self.kernel_update(state, || ());
        self.leave_kernel();
        found
    }

    /// Fetches what tells a kernel whether a thread runs.
    pub(crate) fn fetch_state(self, thread: ThreadId) {
        if self.engine().in_kernel && !thread.is_anonymous() {
            // Its name is in the line of its token.
            let _ = Sim::thread(thread).id();
        }
    }
}
