//! Faults on purpose: what an adversarial machine may do to a lock.
//!
//! Off by default. When on, every seam call is a place where something may happen, drawn from the seed: the same
//! configuration and seed meets the same faults. Further kinds (a wake-up lost by a full hash line, a CPU that runs slowly, a thread that exits
//! while others look at it) belong here: a field in [`Faults`], a draw in `FaultState`, one question at the seam.

use crate::engine::heap::Ps;
use crate::engine::random::Random;

/// What may go wrong, and how often. A rate of n means once in n opportunities on average; 0 means never.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    /// Memory operations after which the thread loses its CPU for a while.
    pub preempt_one_in: u32,
    /// The longest such absence, ns.
    pub preempt_ns: u32,
    /// Sleeps that end without anybody having woken the thread.
    pub spurious_one_in: u32,
    /// After at most this long, ns.
    pub spurious_ns: u32,
    /// Wake-ups that reach the scheduler late.
    pub delay_one_in: u32,
    /// By at most this long, ns.
    pub delay_ns: u32,
}

impl Faults {
    /// A rough machine: everything happens, often.
    pub const ROUGH: Self = Self {
        preempt_one_in: 500,
        preempt_ns: 200_000,
        spurious_one_in: 10,
        spurious_ns: 50_000,
        delay_one_in: 10,
        delay_ns: 200_000,
    };
}

/// The adversary at work.
#[derive(Debug)]
pub(crate) struct FaultState {
    pub(crate) active: bool,
    faults: Faults,
    random: Random,
}

impl FaultState {
    pub(crate) fn new(faults: &Faults, seed: u64) -> Self {
        let random = Random::new(seed, u64::from_le_bytes(*b"faults  "));
        Self { active: *faults != Faults::default(), faults: faults.clone(), random }
    }

    fn draw(&mut self, one_in: u32, longest_ns: u32) -> Option<Ps> {
        (self.active && self.random.one_in(one_in)).then(|| 1000 * Ps::from(self.random.below(longest_ns.max(1)) + 1))
    }

    pub(crate) fn preemption(&mut self) -> Option<Ps> {
        self.draw(self.faults.preempt_one_in, self.faults.preempt_ns)
    }

    pub(crate) fn spurious_wake(&mut self) -> Option<Ps> {
        self.draw(self.faults.spurious_one_in, self.faults.spurious_ns)
    }

    pub(crate) fn wake_delay(&mut self) -> Option<Ps> {
        self.draw(self.faults.delay_one_in, self.faults.delay_ns)
    }
}
