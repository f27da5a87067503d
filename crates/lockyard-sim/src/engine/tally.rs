//! Sums of a run, and what they were at a moment.

use super::Engine;

/// Sums of a run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    /// Memory operations.
    pub(crate) operations: u64,
    /// Transfers by distance class.
    pub(crate) transfers: [u64; 7],
    /// Coroutine switches.
    pub(crate) resumes: u64,
    /// Writes that became visible, and changes of threads' classes.
    pub(crate) changes: u64,
}

/// What was counted until some moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark {
    pub(crate) ps: u64,
    pub(crate) tally: Tally,
    pub(crate) spent: [u64; 4],
}

impl Engine {
    /// The sums so far, without the thread that presides over the others, if one does.
    pub(crate) fn mark(&mut self) -> Mark {
        let now = self.now;
        let mut spent = [0; 4];
        for task in self.tasks.iter_mut().skip(usize::from(self.presided)) {
            let account = task.account;
            task.charge(now, account);
            for (sum, own) in spent.iter_mut().zip(task.spent) {
                *sum += own;
            }
        }
        Mark { ps: now, tally: self.tally.clone(), spent }
    }
}
