//! What all CPUs share of the real-time class: see [`realtime`](super::realtime).

use std::collections::BTreeMap;

use super::lock::KernelLock;

/// The map of priorities, and the budget.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// By level: number's line, set's line.
    pub(super) numbers: BTreeMap<u32, u32>,
    pub(super) sets: BTreeMap<u32, u32>,
    /// The lock of the budget's timer.
    pub(super) timer: Option<KernelLock>,
}

impl Shared {
    /// As [`KernelLock::queue_with`].
    pub(crate) fn queue_with(&self, task: u32) -> Option<(u32, u32)> {
        self.timer.as_ref().and_then(|lock| lock.queue_with(task))
    }
}
