//! The buckets of the simulated futex: see [`futex`](super::futex).

use std::collections::{BTreeMap, VecDeque};

use super::lock::KernelLock;

/// Words with one hash.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) lock: KernelLock,
    /// Sleepers with the key of their word, first come first.
    pub(super) sleepers: VecDeque<(u64, u32)>,
}

/// All buckets that were ever used.
#[derive(Debug)]
pub(crate) struct Futexes {
    pub(super) mask: u64,
    pub(super) numbers: BTreeMap<u32, u32>,
    pub(super) buckets: Vec<Bucket>,
}

impl Futexes {
    /// 256 buckets to a CPU, as Linux has.
    pub(crate) fn new(cpus: usize) -> Self {
        Self { mask: (256 * cpus as u64).next_power_of_two() - 1, numbers: BTreeMap::new(), buckets: Vec::new() }
    }

    /// As [`KernelLock::queue_with`].
    pub(crate) fn queue_with(&self, task: u32) -> Option<(u32, u32)> {
        self.buckets.iter().find_map(|bucket| bucket.lock.queue_with(task))
    }
}
