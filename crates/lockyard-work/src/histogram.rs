//! Waiting times: a fixed table of counts over log-linear intervals.
//!
//! Each power of two is cut into 16 intervals, so a percentile is known to within 6 %. The largest
//! value is kept exactly. Recording is a few instructions and no branch but the clamp.

/// Intervals per power of two, as a power of two.
const FINE_BITS: u32 = 4;
const FINE: usize = 1 << FINE_BITS;
/// Values from 2⁴² ns (73 minutes) up share the last interval.
const TOP_BITS: u32 = 42;
const INTERVALS: usize = FINE * (TOP_BITS - FINE_BITS + 1) as usize;

/// Counts of durations in nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; INTERVALS]>,
    longest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; INTERVALS]), longest: 0 }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").field("samples", &self.samples()).field("longest", &self.longest).finish()
    }
}

impl Histogram {
    /// Counts one duration.
    #[inline(always)]
    pub fn add(&mut self, ns: u64) {
        self.counts[interval(ns)] += 1;
        self.longest = self.longest.max(ns);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.longest = 0;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.longest = self.longest.max(other.longest);
    }

    /// How many durations were counted.
    pub fn samples(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The longest duration, exactly. Zero if there is none.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The duration that `share` (0 to 1) of the durations do not exceed, to within an interval.
    /// Zero if there is none.
    pub fn quantile(&self, share: f64) -> u64 {
        let samples = self.samples();
        let rank = ((samples as f64 * share).ceil() as u64).clamp(1, samples.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(index).min(self.longest);
            }
        }
        0
    }
}

/// The interval of `ns`: the first `FINE` hold one value each, then `FINE` per power of two.
#[inline(always)]
fn interval(ns: u64) -> usize {
    let ns = ns.min((1 << TOP_BITS) - 1);
    let exponent = (ns | 1 << FINE_BITS).ilog2() - FINE_BITS;
    (exponent as usize * FINE) + (ns >> exponent) as usize
}

/// A value in the middle of interval `index`.
fn middle(index: usize) -> u64 {
    if index < 2 * FINE {
        return index as u64;
    }
    let exponent = (index / FINE - 1) as u32;
    let low = (FINE + index % FINE) as u64;
    (low << exponent) + (1 << exponent >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_dense_and_ordered() {
        assert_eq!(interval(u64::MAX), INTERVALS - 1);
        let mut previous = 0;
        for bits in 0..TOP_BITS {
            for fine in 0..2 * FINE as u64 {
                let value = (1 << bits) + (fine << bits) / (2 * FINE as u64);
                let index = interval(value);
                assert!(index == previous || index == previous + 1, "{value} falls in {index} after {previous}");
                previous = index;
                let known = middle(index) as f64 / value as f64;
                assert!((0.93..=1.07).contains(&known), "{value} is reported as {}", middle(index));
            }
        }
    }

    #[test]
    fn percentiles_of_a_known_set() {
        let mut histogram = Histogram::default();
        for ns in 1..=100_000 {
            histogram.add(ns);
        }
        for (share, expected) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let found = histogram.quantile(share) as f64;
            assert!((found / expected - 1.0).abs() < 0.04, "{share}: {found}");
        }
        assert_eq!(histogram.quantile(0.0), 1);
        assert_eq!(histogram.quantile(1.0), histogram.longest().min(histogram.quantile(1.0)));
        assert_eq!(histogram.longest(), 100_000);
        assert_eq!(histogram.samples(), 100_000);
    }

    #[test]
    fn one_long_wait_is_seen_and_merging_adds() {
        let mut histogram = Histogram::default();
        for _ in 0..999 {
            histogram.add(10);
        }
        let mut other = Histogram::default();
        other.add(5_000_000_000);
        histogram.merge(&other);
        assert_eq!(histogram.quantile(0.5), 10);
        assert_eq!(histogram.quantile(0.999), 10);
        assert_eq!(histogram.longest(), 5_000_000_000);
        histogram.clear();
        assert_eq!((histogram.samples(), histogram.longest(), histogram.quantile(0.5)), (0, 0, 0));
    }
}
