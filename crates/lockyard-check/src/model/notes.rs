//! What the checking machine notes of threads and words.

use std::cell::Cell;

/// Why a thread does not run.
#[derive(Debug, Clone)]
pub(super) enum State {
    Running,
    /// Waits for a change of a word that it read: where, and which change it has seen; or for a
    /// time, if it looked at the clock. With patience it never gives up.
    Polling {
        reads: Vec<Read>,
        patient: bool,
        until: Option<u64>,
    },
    /// Sleeps on this word.
    Parked {
        word: usize,
        deadline: Option<u64>,
    },
    /// Sleeps until this time, whatever the clock does for others.
    Napping {
        until: u64,
    },
    /// Waits for all others to end.
    Joining,
    Done,
}

/// A word that a poll read, and how often it had changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    pub(super) word: *const Track,
    pub(super) version: u32,
}

/// The record of whoever sets the scene.
pub(super) const HOST: usize = 1;

/// The number of every word that is made once for all executions.
pub(super) const FIXED: u32 = u32::MAX;

/// Such a word, and how it becomes a new one, modelled, when an execution begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    pub(super) word: *const (),
    pub(super) renew: fn(*const ()),
}

/// What the machine notes about a word.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// Its number in the order of making.
    pub(super) ordinal: u32,
    pub(super) version: Cell<u32>,
    /// The newest value.
    pub(super) latest: Cell<u64>,
    /// The execution to which all this belongs. In any other the word is zero.
    pub(super) epoch: Cell<u32>,
    /// The thread that touched it, + 1.
    pub(super) toucher: Cell<u8>,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Ready,
    GaveUp,
}

/// What is noted while a condition is polled.
#[derive(Debug, Default)]
pub(super) struct Poll {
    pub(super) reading: bool,
    pub(super) reads: Vec<Read>,
    /// Whether some of what was read was out of date.
    pub(super) stale: bool,
    /// When to look at the clock again, if it was looked at.
    pub(super) until: Option<u64>,
}

/// What happens before an operation.
#[cfg(feature = "shuttle")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Somebody else may run.
    On,
    /// Somebody's time may have come.
    Look,
    /// Somebody else should run.
    GiveWay,
}

pub(super) struct Role {
    pub(super) state: State,
    /// Set when nobody could go on: this one's patience is spent, or its wake-up has come.
    pub(super) released: bool,
    pub(super) poll: Poll,
    pub(super) looks: u64,
    /// How often it let others run while it waited.
    pub(super) yields: u64,
    /// Operations since it last gave way.
    #[cfg(feature = "shuttle")]
    pub(super) slice: u32,
}
