//! The queued spinlock of the simulated kernel.
//!
//! Its traffic is that of the kernel's own (`spec/qspinlock.md`), access by access: how often the
//! line goes round for one owner is what makes a lock that the whole machine shares dear.
//!
//! | who | asks for |
//! |---|---|
//! | finds it free | the lock's line: compare-exchange |
//! | finds it held, nobody waiting | the same, which fails; *pending* set; looks until it is free; set to held |
//! | finds somebody waiting | the same, which fails; tail exchanged; linked in the predecessor's node; looks at its own node until told; looks at the lock until it is free; set to held; tells its successor |
//! | releases | the lock's line: store |
//!
//! What is in these lines, the lock's and one node's for each task, is the engine's. First come,
//! first served; holders and waiters are in the kernel and not preempted.

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
    /// The task that waits with the lock's own bit, or [`NOBODY`].
    pending: u32,
    /// Tasks that queue for it, with nodes.
    queue: VecDeque<u32>,
}

/// Where one is that did not find a lock free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Pending,
    First,
    Behind(u32),
}

impl KernelLock {
    pub(crate) fn new(line: u32) -> Self {
        Self { line, holder: NOBODY, pending: NOBODY, queue: VecDeque::new() }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holder != NOBODY
    }

    /// `task` takes the lock, if nobody has it or waits.
    fn try_take(&mut self, task: u32) -> bool {
        let free = !self.is_held() && self.pending == NOBODY && self.queue.is_empty();
        if free {
            self.holder = task;
        }
        free
    }

    /// `task` will wait.
    fn wait(&mut self, task: u32) -> Wait {
        if self.pending == NOBODY && self.queue.is_empty() {
            self.pending = task;
            return Wait::Pending;
        }
        let last = self.queue.back().copied();
        self.queue.push_back(task);
        last.map_or(Wait::First, Wait::Behind)
    }

    /// Whether the first of those who wait so may take the lock.
    fn is_for(&self, wait: Wait) -> bool {
        !self.is_held() && (wait == Wait::Pending || self.pending == NOBODY)
    }

    /// The first of those who wait so takes the lock. Returns who is first in the queue then, if
    /// that has changed.
    fn take_over(&mut self, task: u32, wait: Wait) -> Option<u32> {
        self.holder = task;
        if wait == Wait::Pending {
            self.pending = NOBODY;
            return None;
        }
        self.queue.pop_front();
        self.queue.front().copied()
    }

    /// The lock's line and its holder, if `task` waits for it.
    pub(crate) fn queue_with(&self, task: u32) -> Option<(u32, u32)> {
        (self.pending == task || self.queue.contains(&task)).then_some((self.line, self.holder))
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
        if self.kernel_update(line, || find(self.engine()).try_take(task)) {
            return;
        }
        self.engine().tasks[task as usize].granted = false;
        let wait = self.kernel_update(line, || find(self.engine()).wait(task));
        if let Wait::Behind(other) = wait {
            self.stand_behind(other, task);
        }
        self.look_until(line, || find(self.engine()).is_for(wait));
        let next = self.kernel_update(line, || find(self.engine()).take_over(task, wait));
        if let Some(next) = next {
            let node = self.engine().node_line(next);
            self.kernel_update(node, || self.engine().tasks[next as usize].granted = true);
        }
    }

    /// Releases the lock that `find` finds.
    pub(super) fn unlock(self, find: impl Fn(&mut Engine) -> &mut KernelLock) {
        let line = find(self.engine()).line;
        self.kernel_update(line, || find(self.engine()).holder = NOBODY);
    }

    /// Links the node of `task` behind that of `other`, and spins on it until told that `task` is
    /// first.
    fn stand_behind(self, other: u32, task: u32) {
        let before = self.engine().node_line(other);
        self.kernel_update(before, || ());
        let own = self.engine().node_line(task);
        self.look_until(own, || self.engine().tasks[task as usize].granted);
    }

    /// Spins, looking at `line`.
    fn look_until(self, line: u32, done: impl Fn() -> bool) {
        loop {
            let seen = self.spin(Patience::ns(u32::MAX), || {
                self.kernel_load(line);
                done().then_some(())
            });
            if seen.is_some() {
                return;
            }
        }
    }
}
