//! What can be set of the hierarchical lock while it runs, for all locks of a platform together.

use core::fmt;

use crate::platform::record::{LANES, TUNABLES};
use crate::platform::{Ordering::Relaxed, Platform, Word};
use crate::spin::queued::QUEUED_NS;

pub use crate::platform::record::Tunables;

macro_rules! tunables {
    ($($(#[doc = $what:literal])* $name:ident = $text:literal, $variable:literal: $default:literal, $most:expr;)*) => {
        /// Something that can be set.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Tunable {
            $($(#[doc = $what])* $name,)*
        }

        impl Tunable {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name: the kernel's where the kernel has it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The environment variable.
            pub const fn variable(self) -> &'static str {
                match self { $(Self::$name => $variable),* }
            }

            /// The value if nobody sets another.
            pub const fn default(self) -> u32 {
                match self { $(Self::$name => $default),* }
            }

            /// The largest value that makes sense; the least is 0.
            pub const fn most(self) -> u32 {
                match self { $(Self::$name => $most),* }
            }
        }
    };
}

tunables! {
    /// Hand-overs inside the most crowded lane before one to another lane is forced; fewer in the
    /// others, in proportion.
    FairnessThreshold = "fairness_threshold", "LOCKYARD_HQ_FAIRNESS_THRESHOLD": 1000, u32::MAX;
    /// More hand-overs than this in one busy period are needed to leave the plain queue.
    GeneralHandoffsTurnNuma = "general_handoffs_turn_numa", "LOCKYARD_HQ_GENERAL_HANDOFFS_TURN_NUMA": 50, u16::MAX as u32;
    /// More of them than this must have changed the node.
    RemoteHandoffsTurnNuma = "remote_handoffs_turn_numa", "LOCKYARD_HQ_REMOTE_HANDOFFS_TURN_NUMA": 2, u16::MAX as u32;
    /// And so many waiters must be there for each lane that occurs among them, at least 1.
    WaitersPerLaneTurnNuma = "waiters_per_lane_turn_numa", "LOCKYARD_HQ_WAITERS_PER_LANE_TURN_NUMA": 2, 64;
    /// A lock whose lanes were visited so often with profit leaves the plain queue again at the
    /// first change of node.
    RemoteHandoffsKeepNuma = "remote_handoffs_keep_numa", "LOCKYARD_HQ_REMOTE_HANDOFFS_KEEP_NUMA": 1, u32::MAX;
    /// A visit of a lane with more hand-overs than this counts as profit.
    LocalHandoffsToIncreaseRemotes = "local_handoffs_to_increase_remotes", "LOCKYARD_HQ_LOCAL_HANDOFFS_TO_INCREASE_REMOTES": 2, u32::MAX;
    /// A waiter of the plain queue does as in the plain lock for so many ns, and then looks where
    /// it is; a waiter that is head sooner is no evidence for a change of node.
    WaitBeforeLook = "wait_before_look_ns", "LOCKYARD_HQ_WAIT_BEFORE_LOOK_NS": 1000, QUEUED_NS;
    /// 1: a lane per last-level cache where a NUMA node has several of them, and heads that try for
    /// the lock before they look at it; 0, as published: a lane per NUMA node, and heads that look
    /// first.
    LanesByCache = "lanes_by_cache", "LOCKYARD_HQ_LANES_BY_CACHE": 1, 1;
    /// Lanes: 0 one per NUMA node, 1 never leave the plain queue, else so many, whatever the nodes
    /// (threads are dealt out by id): for tests on a small machine.
    Lanes = "lanes", "LOCKYARD_HQ_LANES": 0, LANES as u32;
}

const _: () = assert!(Tunable::ALL.len() == TUNABLES);

/// A value that was refused, in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange(pub Tunable);

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: a number from 0 to {} is needed", self.0.variable(), self.0.most())
    }
}

impl core::error::Error for OutOfRange {}

impl<P: Platform> Tunables<P> {
    /// The value of `tunable`.
    #[inline]
    pub fn get(&self, tunable: Tunable) -> u32 {
        self.words[tunable as usize].load(Relaxed) ^ tunable.default()
    }

    /// Sets `tunable`.
    ///
    /// # Errors
    /// The value is too large; nothing has changed.
    pub fn set(&self, tunable: Tunable, value: u32) -> Result<(), OutOfRange> {
        if value > tunable.most() {
            return Err(OutOfRange(tunable));
        }
        self.words[tunable as usize].store(value ^ tunable.default(), Relaxed);
        Ok(())
    }

    /// Sets what the environment names (`LOCKYARD_HQ_…`, see [`Tunable::variable`]). For a
    /// program's beginning: it allocates.
    ///
    /// # Errors
    /// The first value that is no number or out of range; those before it are set.
    #[cfg(feature = "std")]
    pub fn set_from_environment(&self) -> Result<(), OutOfRange> {
        for &tunable in Tunable::ALL {
            if let Some(text) = std::env::var_os(tunable.variable()) {
                let value = text.to_str().and_then(|text| text.trim().parse().ok());
                self.set(tunable, value.ok_or(OutOfRange(tunable))?)?;
            }
        }
        Ok(())
    }
}

/// For a program that sets up one machine as another.
#[cfg(feature = "unstable-internals")]
impl<P: Platform> Tunables<P> {
    /// Sets everything as in `other`.
    pub fn copy_from<Q: Platform>(&self, other: &Tunables<Q>) {
        for &tunable in Tunable::ALL {
            self.words[tunable as usize].store(other.get(tunable) ^ tunable.default(), Relaxed);
        }
    }
}
