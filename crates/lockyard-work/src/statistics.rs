//! The few numbers that runs are reduced to.

use serde::Serialize;

/// Smallest, mean and largest of a set of counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Range {
    /// Smallest.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: u64,
}

impl Range {
    /// The range of `counts`; all zero if there are none.
    pub fn of(counts: &[u64]) -> Self {
        let (Some(&min), Some(&max)) = (counts.iter().min(), counts.iter().max()) else { return Self::default() };
        Self { min, mean: counts.iter().sum::<u64>() as f64 / counts.len() as f64, max }
    }
}

/// The fairness factor of the CNA paper: the share of all operations that the busier half of the
/// threads got. 0.5 is perfectly fair, 1 is starvation.
///
/// With an odd number of threads the middle one counts half, so that equal counts give exactly 0.5.
/// Without any operation nobody was treated worse than another: 0.5.
pub fn fairness(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return 0.5;
    }
    let mut sorted = counts.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let half = sorted.len() / 2;
    let busier: u64 = sorted[..half].iter().sum();
    let middle = if sorted.len() % 2 == 1 { sorted[half] as f64 / 2.0 } else { 0.0 };
    (busier as f64 + middle) / total as f64
}

/// The median of `values`; the mean of the middle two if they are even in number. Zero if there are
/// none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// How far apart `values` are: (largest − smallest) / median. Zero if there are fewer than two.
pub fn spread(values: &[f64]) -> f64 {
    let middle = median(values);
    if values.len() < 2 || middle == 0.0 {
        return 0.0;
    }
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (largest - smallest) / middle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_a_half_for_equals_and_one_for_starvation() {
        assert_eq!(fairness(&[5, 5, 5, 5]), 0.5);
        assert_eq!(fairness(&[7, 7, 7]), 0.5);
        assert_eq!(fairness(&[9]), 0.5);
        assert_eq!(fairness(&[100, 0]), 1.0);
        assert_eq!(fairness(&[0, 0, 100, 0]), 1.0);
        assert_eq!(fairness(&[3, 1]), 0.75);
        assert_eq!(fairness(&[1, 2, 3]), 4.0 / 6.0);
        assert_eq!(fairness(&[]), 0.5);
        assert_eq!(fairness(&[0, 0]), 0.5);
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(&[2.0]), 0.0);
        assert_eq!(spread(&[1.0, 2.0, 4.0]), 1.5);
    }

    #[test]
    fn range_of_nothing_is_zero() {
        assert_eq!(Range::of(&[]), Range::default());
        assert_eq!(Range::of(&[4, 1, 1]), Range { min: 1, mean: 2.0, max: 4 });
    }
}
