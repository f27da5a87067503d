//! What every thread did when: a ring of state changes, for an exporter to draw.
//!
//! Each entry says that from its time on a thread was running, spinning, waiting for a CPU or
//! sleeping, and where. The ring keeps the last entries; older ones are dropped and counted.

use std::collections::VecDeque;

use serde::Serialize;

use crate::engine::heap::Ps;
use crate::engine::task::Account;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Executing.
    Running,
    /// Spinning.
    Spinning,
    /// Waiting for a CPU.
    Runnable,
    /// Sleeping.
    Sleeping,
}

/// From `ps` on, `thread` on `cpu` did `activity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Simulated time, picoseconds.
    pub ps: u64,
    /// The thread.
    pub thread: u32,
    /// Its CPU.
    pub cpu: u32,
    /// What it does from now on.
    pub activity: Activity,
}

/// At `ps`, `thread` entered a section of `lock` or was about to leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// Simulated time, picoseconds.
    pub ps: u64,
    /// The thread.
    pub thread: u32,
    /// The lock: a number that distinguishes locks on different lines.
    pub lock: u32,
    /// In or out.
    pub enters: bool,
}

/// The recorded changes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Trace {
    /// In order of time.
    pub changes: Vec<Change>,
    /// Sections begun and ended, in order of time.
    pub passages: Vec<Passage>,
    /// Earlier ones that did not fit.
    pub dropped: u64,
}

#[derive(Debug)]
pub(crate) struct Ring {
    most: usize,
    changes: VecDeque<Change>,
    passages: VecDeque<Passage>,
    dropped: u64,
}

impl Ring {
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), changes: VecDeque::new(), passages: VecDeque::new(), dropped: 0 }
    }

    pub(crate) fn note(&mut self, ps: Ps, cpu: u32, thread: u32, account: Account) {
        if self.changes.len() == self.most {
            self.changes.pop_front();
            self.dropped += 1;
        }
        let activity = match account {
            Account::Running => Activity::Running,
            Account::Spinning => Activity::Spinning,
            Account::Runnable => Activity::Runnable,
            Account::Sleeping => Activity::Sleeping,
        };
        self.changes.push_back(Change { ps, thread, cpu, activity });
    }

    pub(crate) fn pass(&mut self, passage: Passage) {
        if self.passages.len() == self.most {
            self.passages.pop_front();
            self.dropped += 1;
        }
        self.passages.push_back(passage);
    }

    pub(crate) fn into_trace(self) -> Trace {
        Trace { changes: self.changes.into(), passages: self.passages.into(), dropped: self.dropped }
    }
}
