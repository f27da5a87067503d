//! Times in classes that grow with them: four to an octave, so a quantile is at most 19 % off; from
//! 32 ns to half a second.

/// How many classes there are. The last holds everything longer.
pub const BUCKETS: usize = 96;

const FIRST_OCTAVE: u32 = 5;

/// The class of `ns`.
#[inline]
pub fn bucket(ns: u64) -> usize {
    let octave = ns.max(1 << FIRST_OCTAVE).ilog2();
    let quarter = (ns.max(1 << FIRST_OCTAVE) >> (octave - 2)) & 3;
    (((octave - FIRST_OCTAVE) * 4 + quarter as u32) as usize).min(BUCKETS - 1)
}

/// The least time of class `bucket`, and of one past the last.
pub fn lower(bucket: usize) -> u64 {
    match bucket as u64 {
        0 => 0,
        bucket => (4 + bucket % 4) << (u64::from(FIRST_OCTAVE) - 2 + bucket / 4),
    }
}

/// The time that `share` (0 to 1) of the times in `counts` do not exceed: the upper end of its
/// class, but at most `longest`. 0 if there are none.
pub fn quantile(counts: &[u64], share: f64, longest: u64) -> u64 {
    // The counts are another process's, and may be anything.
    let total = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    let rank = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0u64;
    for (bucket, count) in counts.iter().enumerate() {
        seen = seen.saturating_add(*count);
        if seen >= rank {
            return if bucket == BUCKETS - 1 { longest } else { lower(bucket + 1).min(longest) };
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_meet_without_gap_or_overlap() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(lower(index)), index, "the least of {index}");
            assert_eq!(bucket(lower(index + 1) - 1), index, "the greatest of {index}");
            assert!(lower(index + 1) as f64 <= lower(index).max(32) as f64 * 1.26, "{index} is too wide");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
        assert_eq!(lower(BUCKETS), 1 << 29);
    }

    #[test]
    fn quantiles_are_upper_ends_and_never_beyond_the_longest() {
        let mut counts = [0; BUCKETS];
        assert_eq!(quantile(&counts, 0.5, 0), 0);
        (0..99).for_each(|_| counts[bucket(1000)] += 1);
        counts[bucket(1_000_000)] += 1;
        let half = quantile(&counts, 0.5, 1_000_000);
        assert!((1000..1250).contains(&half), "{half}");
        assert_eq!(quantile(&counts, 0.99, 1_000_000), half);
        assert_eq!(quantile(&counts, 1.0, 1_000_000), 1_000_000);
        counts[BUCKETS - 1] += 1;
        assert_eq!(quantile(&counts, 1.0, 9_000_000_000), 9_000_000_000);
        counts.fill(u64::MAX);
        assert_eq!(quantile(&counts, 0.5, 1), 1, "counts that no process can have counted");
    }
}
