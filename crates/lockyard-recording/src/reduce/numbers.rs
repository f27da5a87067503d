//! Numbers as a model has them.

use crate::time::Times;

/// Parts of a distribution.
pub(super) const PARTS: usize = 12;

/// A percentage.
pub(super) fn share(part: u64, of: usize) -> f64 {
    rounded(100.0 * part as f64 / of.max(1) as f64)
}

/// To four digits, and never to zero.
pub(super) fn rounded(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let digits = 10_f64.powi(3 - value.log10().floor() as i32);
    (value * digits).round() / digits
}

/// As [`spread`], where one value alone would stand for times from its half to one and a half: two
/// that are as far apart as these are from each other.
pub(super) fn around(values: &[u64]) -> Times {
    let times = spread(values);
    let [middle] = times.values() else { return times };
    let square = |&value: &u64| (value as f64 - *middle as f64).powi(2);
    let apart = (values.iter().map(square).sum::<f64>() / values.len().max(1) as f64).sqrt() as u64;
    Times::drawn(vec![middle.saturating_sub(apart.min(*middle / 2)), middle + apart.min(*middle / 2)])
}

/// One value if all are alike, else the means of equal parts in the order of size.
pub(super) fn spread(values: &[u64]) -> Times {
    if values.is_empty() {
        return Times::default();
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let mean = |part: &[u64]| part.iter().map(|&ns| ns as f64).sum::<f64>() / part.len() as f64;
    let middle = mean(&sorted);
    let variance = sorted.iter().map(|&value| (value as f64 - middle).powi(2)).sum::<f64>() / sorted.len() as f64;
    if sorted.len() < PARTS || variance.sqrt() <= 0.2 * middle {
        return Times::one(middle.round() as u64);
    }
    let edge = |part: usize| part * sorted.len() / PARTS;
    Times::drawn((0..PARTS).map(|part| mean(&sorted[edge(part)..edge(part + 1)]).round() as u64).collect())
}
