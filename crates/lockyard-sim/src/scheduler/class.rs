//! Scheduling classes.
//!
//! *Fair*: the task with the least virtual run time goes first. Two forms: the completely fair
//! scheduler (a slice is the latency target divided by the number of runnable tasks, at least the
//! smallest slice; a woken task preempts if it is behind by the wake-up granularity) and the
//! earliest-eligible-virtual-deadline form of later kernels (a fixed slice; of the tasks that have
//! not had more than their share the one with the earliest deadline goes first). *Fifo*,
//! *RoundRobin*: fixed priorities above all fair tasks.

use serde::Serialize;

use crate::engine::heap::Ps;

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// By virtual run time.
    #[default]
    Fair,
    /// Real-time, runs until it blocks. Priority 1 (lowest) to 99.
    Fifo(u8),
    /// Real-time, takes turns with others of its priority.
    RoundRobin(u8),
}

impl Class {
    /// 0 for fair tasks.
    pub(crate) fn priority(self) -> u8 {
        match self {
            Self::Fair => 0,
            Self::Fifo(priority) | Self::RoundRobin(priority) => priority.max(1),
        }
    }

    pub(crate) fn is_realtime(self) -> bool {
        self != Self::Fair
    }
}

/// The form of the fair class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FairForm {
    /// Completely fair scheduler (Linux 2.6.23 to 6.5).
    #[default]
    Cfs,
    /// Earliest eligible virtual deadline first (Linux 6.6 and later).
    Eevdf,
}

/// Parameters of the fair class, taken from the machine's `[os]` section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fair {
    pub(crate) form: FairForm,
    pub(crate) latency: Ps,
    pub(crate) least_slice: Ps,
    pub(crate) wakeup_granularity: Ps,
    /// Whether a woken task may preempt at all.
    pub(crate) wakeup_preemption: bool,
}

impl Fair {
    /// How long one of `runnable` tasks may run in one go.
    pub(crate) fn slice(&self, runnable: usize) -> Ps {
        match self.form {
            FairForm::Cfs => (self.latency / runnable.max(1) as u64).max(self.least_slice),
            FairForm::Eevdf => self.least_slice,
        }
    }
}
