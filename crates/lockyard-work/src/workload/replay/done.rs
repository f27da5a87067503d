//! What threads of a replay did, and what that is worth.

use lockyard_recording::model::Role;

/// What threads of a role did in the window.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) operations: u64,
    /// In the second half of the window, where stamps are free.
    pub(super) late: u64,
    /// Of each take, how many sections were not run.
    pub(super) skipped: Vec<u64>,
}

impl Done {
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.late += other.late;
        self.skipped.resize(other.skipped.len(), 0);
        self.skipped.iter_mut().zip(&other.skipped).for_each(|(sum, skipped)| *sum += skipped);
    }

    /// CPU time of that by the times of `role`, ns.
    pub(super) fn took_ns(&self, role: &Role) -> f64 {
        let skipped = self.skipped.iter().enumerate().map(|(take, times)| *times as f64 * role.section_ns(take));
        // A try in vain near an edge of the window may be of an operation that does not count.
        (self.operations as f64 * role.operation_ns() - skipped.sum::<f64>()).max(0.0)
    }
}
