//! The queued spinlock of the simulated kernel.
//!
//! Whoever finds it held queues, and spins on a line of its own until the lock is handed to it. Two lines are simulated, the lock's and the waiter's; what is in them is the
//! engine's. First come, first served; holders and waiters are in the kernel and not preempted.

use std::collections::VecDeque;

use lockyard::platform::Patience;

use crate::engine::Engine;
use crate::engine::host::Host;
use crate::machine::line::{KernelLine, NOBODY, Place};

/// A lock of the simulated kernel.
#[derive(Debug)]
pub(crate) struct KernelLock {
    pub(crate) line: u32,
    /// The task that holds it, or [`NOBODY`].
    holder: u32,
    /// Tasks that queue for it.
    queue: VecDeque<u32>,
}

impl KernelLock {
    pub(crate) fn new(line: u32) -> Self {
        Self { line, holder: NOBODY, queue: VecDeque::new() }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holder != NOBODY
    }

    /// `task` takes the lock, or queues for it.
    fn take(&mut self, task: u32) -> bool {
        let free = !self.is_held();
        if free {
            self.holder = task;
        } else {
            self.queue.push_back(task);
        }
        free
    }

    /// The holder leaves. Returns whose it is now.
    fn leave(&mut self) -> Option<u32> {
        let next = self.queue.pop_front();
        self.holder = next.unwrap_or(NOBODY);
        next
    }

    /// The lock's line and its holder, if `task` queues for it.
    pub(crate) fn queue_with(&self, task: u32) -> Option<(u32, u32)> {
        self.queue.contains(&task).then_some((self.line, self.holder))
    }
}

impl Engine {
    /// The line with which `task` queues for locks of the kernel.
    fn node_line(&mut self, task: u32) -> u32 {
        if self.tasks[task as usize].node_line == NOBODY {
            let node = self.model.node_of[usize::from(self.core)];
            let line = self.lines.create(Place::Kernel(KernelLine::Node(task)), node);
            self.tasks[task as usize].node_line = line;
        }
        self.tasks[task as usize].node_line
    }
}

impl Host {
    /// Takes the lock that `find` finds.
    pub(super) fn lock(self, find: impl Fn(&mut Engine) -> &mut KernelLock) {
        let task = self.task();
        let line = find(self.engine()).line;
        let taken = self.kernel_update(line, || {
            let taken = find(self.engine()).take(task);
            if !taken {
                self.engine().tasks[task as usize].granted = false;
            }
            taken
        });
        if !taken {
            self.await_grant(task);
        }
    }

    /// Releases the lock that `find` finds.
    pub(super) fn unlock(self, find: impl Fn(&mut Engine) -> &mut KernelLock) {
        let line = find(self.engine()).line;
        // Whoever comes until the line is here has queued.
        let next = self.kernel_update(line, || find(self.engine()).leave());
        if let Some(next) = next {
            let node = self.engine().node_line(next);
            self.kernel_update(node, || self.engine().tasks[next as usize].granted = true);
        }
    }

    /// Spins on a line of its own until a lock is handed to `task`.
    fn await_grant(self, task: u32) {
        let own = self.engine().node_line(task);
        loop {
            let granted = self.spin(Patience::ns(u32::MAX), || {
                self.kernel_load(own);
                self.engine().tasks[task as usize].granted.then_some(())
            });
            if granted.is_some() {
                return;
            }
        }
    }
}
