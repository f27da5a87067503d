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
//! [`locking`](super::locking) plays the accesses.

use std::collections::VecDeque;

use crate::machine::line::NOBODY;

/// A lock of the simulated kernel.
#[derive(Debug)]
pub(crate) struct KernelLock {
    pub(crate) line: u32,
    /// The task that holds it, or [`NOBODY`].
    pub(super) holder: u32,
    /// The task that waits with the lock's own bit, or [`NOBODY`].
    pending: u32,
    /// Tasks that queue for it, with nodes.
    queue: VecDeque<u32>,
}

/// Where one is that did not find a lock free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
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
    pub(super) fn try_take(&mut self, task: u32) -> bool {
        let free = !self.is_held() && self.pending == NOBODY && self.queue.is_empty();
        if free {
            self.holder = task;
        }
        free
    }

    /// `task` will wait.
    pub(super) fn wait(&mut self, task: u32) -> Wait {
        if self.pending == NOBODY && self.queue.is_empty() {
            self.pending = task;
            return Wait::Pending;
        }
        let last = self.queue.back().copied();
        self.queue.push_back(task);
        last.map_or(Wait::First, Wait::Behind)
    }

    /// Whether the first of those who wait so may take the lock.
    pub(super) fn is_for(&self, wait: Wait) -> bool {
        !self.is_held() && (wait == Wait::Pending || self.pending == NOBODY)
    }

    /// The first of those who wait so takes the lock. Returns who is first in the queue then, if
    /// that has changed.
    pub(super) fn take_over(&mut self, task: u32, wait: Wait) -> Option<u32> {
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
