//! Idle states, and the governor that chooses among them.
//!
//! A CPU with nothing to do expects to idle as long as it typically did of late and enters the
//! deepest state whose residency fits; leaving it costs that state's exit latency. "Typically" is
//! the rule of Linux's menu governor: the mean of the last eight idle times if they agree, without
//! the longest ones if that makes them agree. If nothing does, the governor scales the time to the
//! next timer by what it has learnt such times to be worth, which comes to the mean of what was
//! seen. An expected time below the shallowest residency means polling: no exit latency, and no
//! interrupt to be woken.

use crate::engine::heap::Ps;
use crate::machine::model::IdleState;

const REMEMBERED: usize = 8;
/// Intervals agree if their standard deviation is below this, or below a sixth of their mean.
const CLOSE: u64 = 20_000_000;

/// The governor of one CPU.
#[derive(Debug, Clone)]
pub(crate) struct Governor {
    intervals: [Ps; REMEMBERED],
    next: usize,
}

/// Too long to matter.
const LONG: Ps = 1_000_000_000_000;

impl Default for Governor {
    fn default() -> Self {
        Self { intervals: [LONG; REMEMBERED], next: 0 }
    }
}

impl Governor {
    /// The CPU idled for `time`.
    pub(crate) fn note(&mut self, time: Ps) {
        self.intervals[self.next] = time.min(LONG);
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// How long the CPU will probably idle now.
    pub(crate) fn expected(&self) -> Ps {
        let mut kept = self.intervals;
        kept.sort_unstable();
        let mut count = REMEMBERED;
        // Drop the longest, but never more than a quarter.
        while count * 4 >= REMEMBERED * 3 {
            let kept = &kept[..count];
            let mean = kept.iter().sum::<u64>() / count as u64;
            let square = |x: &u64| u128::from(x.abs_diff(mean)).pow(2);
            let variance = kept.iter().map(square).sum::<u128>() / count as u128;
            if variance <= u128::from(CLOSE).pow(2) || variance * 36 <= u128::from(mean).pow(2) {
                return mean;
            }
            count -= 1;
        }
        self.intervals.iter().sum::<u64>() / REMEMBERED as u64
    }

    /// The state to enter; `None` is polling.
    pub(crate) fn choose(&self, states: &[IdleState]) -> Option<usize> {
        let expected = self.expected();
        states.iter().rposition(|state| state.residency <= expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> Vec<IdleState> {
        let state = |name: &str, exit, residency| IdleState { name: name.to_owned(), exit, residency };
        vec![
            state("C1", 2_000_000, 2_000_000),
            state("C1E", 10_000_000, 20_000_000),
            state("C6", 133_000_000, 600_000_000),
        ]
    }

    #[test]
    fn regular_sleeps_are_predicted_and_one_long_one_is_forgiven() {
        let mut governor = Governor::default();
        assert_eq!(governor.choose(&states()), Some(2));
        (0..8).for_each(|_| governor.note(30_000_000));
        assert_eq!(governor.choose(&states()), Some(1));
        governor.note(LONG);
        assert_eq!(governor.choose(&states()), Some(1));
        (0..8).for_each(|_| governor.note(5_000_000));
        assert_eq!(governor.choose(&states()), Some(0));
        (0..8).for_each(|_| governor.note(500_000));
        assert_eq!(governor.choose(&states()), None);
    }

    #[test]
    fn irregular_sleeps_count_as_their_mean() {
        let mut governor = Governor::default();
        for n in 0..8 {
            governor.note(if n % 2 == 0 { 1_000_000 } else { 900_000_000 });
        }
        assert_eq!((governor.expected(), governor.choose(&states())), (450_500_000, Some(1)));
    }
}
