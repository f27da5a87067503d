//! What the code that takes locks of a class has waited, and has made others wait.

use core::sync::atomic::{AtomicU64, Ordering::*};

use super::Place;
use crate::layout::CallerTally;

/// What a piece of code that takes locks of a class has waited, and has made others wait.
#[derive(Debug, Clone, Default)]
pub struct CallerSample {
    /// The code.
    pub place: Place,
    /// Whether it takes the lock together with others.
    pub shared: bool,
    /// Waits that began here.
    pub waits: u64,
    /// Their time, in nanoseconds.
    pub wait_ns: u64,
    /// The longest; 0: not known.
    pub wait_max: u64,
    /// Acquisitions here for whose release others waited.
    pub holds: u64,
    /// Their hold time, in nanoseconds.
    pub hold_ns: u64,
    /// The longest; 0: not known.
    pub hold_max: u64,
    /// The kernel's name of the thread that held longest; 0: unknown, or not for a millisecond.
    pub holder: u32,
    /// That thread's name.
    pub name: String,
}

impl CallerSample {
    pub(crate) fn words(tally: &CallerTally) -> [&AtomicU64; 6] {
        let CallerTally { waits, wait_ns, wait_max, holds, hold_ns, hold_max } = tally;
        [waits, wait_ns, wait_max, holds, hold_ns, hold_max]
    }

    pub(crate) fn read(&mut self, tally: &CallerTally) {
        let Self { waits, wait_ns, wait_max, holds, hold_ns, hold_max, .. } = self;
        let fields = [waits, wait_ns, wait_max, holds, hold_ns, hold_max];
        fields.into_iter().zip(Self::words(tally)).for_each(|(field, word)| *field = word.load(Relaxed));
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.shared == other.shared && self.place == other.place
    }

    /// What was counted between `earlier` and this. The longest times are known if they were longer
    /// than any before.
    #[must_use]
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        later.waits = self.waits.saturating_sub(earlier.waits);
        later.wait_ns = self.wait_ns.saturating_sub(earlier.wait_ns);
        later.holds = self.holds.saturating_sub(earlier.holds);
        later.hold_ns = self.hold_ns.saturating_sub(earlier.hold_ns);
        if self.wait_max <= earlier.wait_max {
            later.wait_max = 0;
        }
        if self.hold_max <= earlier.hold_max {
            // The thread that is known for it held before.
            (later.hold_max, later.holder, later.name) = (0, 0, String::new());
        }
        later
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.waits = self.waits.wrapping_add(other.waits);
        self.wait_ns = self.wait_ns.wrapping_add(other.wait_ns);
        self.wait_max = self.wait_max.max(other.wait_max);
        self.holds = self.holds.wrapping_add(other.holds);
        self.hold_ns = self.hold_ns.wrapping_add(other.hold_ns);
        if other.hold_max > self.hold_max {
            self.hold_max = other.hold_max;
            (self.holder, self.name) = (other.holder, other.name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest of all time were told of, however short all were that were counted since.
    #[test]
    fn the_longest_times_since_are_not_those_before() {
        let caller = |waits, wait_max, hold_max| {
            let (holds, wait_ns, hold_ns) = (waits, waits * 1_000, waits * 1_000);
            CallerSample { waits, wait_ns, wait_max, holds, hold_ns, hold_max, holder: 7, ..CallerSample::default() }
        };
        let before = caller(10, 500, 900);
        let since = caller(20, 500, 900).since(&before);
        assert_eq!((since.wait_ns, since.wait_max, since.hold_max, since.holder), (10_000, 0, 0, 0));
        let since = caller(20, 600, 1_000).since(&before);
        assert_eq!((since.wait_max, since.hold_max, since.holder), (600, 1_000, 7));
    }
}
