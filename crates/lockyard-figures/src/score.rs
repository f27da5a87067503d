//! How good a prediction is.
//!
//! A table says two things: numbers, and what a change of the lock did to them. The numbers depend
//! on a machine that is known only in part; the **ratio after/before** is what a commit message
//! argues with, and what is scored here.
//!
//! * **sign**: among the changes of more than 5 % (and of more than the standard deviation, where
//!   that was published), the share whose direction is right;
//! * **Spearman**: rank correlation of all published cells with the simulated ones, ties at their
//!   mean rank;
//! * **error**: `|simulated ratio / published ratio − 1|`, median and 90th percentile (nearest
//!   rank);
//! * **band**: from the lowest to the highest ratio over the variants; how many published ratios
//!   lie inside, and its median width, `high/low`;
//! * **baselines**: the same errors for a prophet who always says "no change" (ratio 1), and for
//!   one who always says the mean change: the geometric mean of the published ratios of the *other*
//!   tables that report the same quantity.
//!
//! Rows that anything was fitted on are left out of all of it.

use serde::Serialize;

/// A change below this share is no change: its direction is not scored.
pub const CHANGE: f64 = 0.05;

/// The bars that the project set itself.
pub mod bar {
    /// Share of signs that must be right.
    pub const SIGN: f64 = 0.85;
    /// Median error that must not be passed.
    pub const ERROR: f64 = 0.20;
    /// Rank correlation that must be reached, in tables of at least [`ROWS`] rows.
    pub const SPEARMAN: f64 = 0.8;
    /// See [`SPEARMAN`].
    pub const ROWS: usize = 6;
}

/// Middle and edges of what the variants gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Median over the variants with the machine's own numbers.
    pub median: f64,
    /// The lowest of all variants.
    pub low: f64,
    /// The highest of all variants.
    pub high: f64,
}

impl Estimate {
    /// The estimate from the values of the machine's own numbers and of all variants; `None`
    /// without any.
    pub(crate) fn of(own: &[f64], all: &[f64]) -> Option<Self> {
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median: median(own)?, low, high })
    }
}

/// A published change and the simulated one: ratios after/before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// As published.
    pub published: f64,
    /// As simulated.
    pub simulated: Estimate,
    /// A published change below this share is none.
    pub noise: f64,
}

/// Errors of a set of ratios.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Errors {
    /// Half of the errors are not larger.
    pub median: f64,
    /// Nine of ten errors are not larger.
    pub p90: f64,
}

impl Errors {
    fn of(errors: &[f64]) -> Option<Self> {
        Some(Self { median: median(errors)?, p90: percentile(errors, 0.9)? })
    }
}

/// The score of one table, or of several.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// Rows of the table.
    pub rows: usize,
    /// Changes that were scored.
    pub changes: usize,
    /// Changes that could not be scored, because runs failed.
    pub missing: usize,
    /// Changes of more than 5 %, and than the published standard deviation.
    pub signs: usize,
    /// Of which the direction is right.
    pub signs_right: usize,
    /// Rank correlation of the cells, if there are at least three.
    pub spearman: Option<f64>,
    /// Errors of the ratios.
    pub error: Option<Errors>,
    /// Errors of "no change".
    pub no_change: Option<Errors>,
    /// Errors of "the mean of the other tables".
    pub mean: Option<Errors>,
    /// Published ratios inside the band.
    pub inside_band: usize,
    /// Median of the band's `high / low`; infinite where the low edge is zero.
    pub band: Option<f64>,
}

impl Score {
    /// Scores `changes` and `cells` (published, simulated) of a table of `rows` rows; `mean` is the
    /// mean change of the other tables.
    pub fn of(rows: usize, changes: &[Pair], cells: &[(f64, f64)], mean: Option<f64>) -> Self {
        let all = |predicted: &dyn Fn(&Pair) -> f64| {
            Errors::of(&changes.iter().map(|pair| error(pair.published, predicted(pair))).collect::<Vec<_>>())
        };
        let widths: Vec<f64> = changes.iter().map(|pair| pair.simulated.high / pair.simulated.low.max(0.0)).collect();
        let inside = |pair: &&Pair| (pair.simulated.low..=pair.simulated.high).contains(&pair.published);
        let signed: Vec<&Pair> = changes.iter().filter(|pair| (pair.published - 1.0).abs() > pair.noise).collect();
        Self {
            rows,
            changes: changes.len(),
            missing: 0,
            signs: signed.len(),
            signs_right: signed.iter().filter(|pair| same_sign(pair.published, pair.simulated.median)).count(),
            spearman: spearman(cells),
            error: all(&|pair| pair.simulated.median),
            no_change: all(&|_| 1.0),
            mean: mean.and_then(|mean| all(&|_| mean)),
            inside_band: changes.iter().filter(inside).count(),
            band: median(&widths.into_iter().filter(|width| !width.is_nan()).collect::<Vec<_>>()),
        }
    }

    /// Share of the signs that are right.
    pub fn sign_share(&self) -> Option<f64> {
        (self.signs > 0).then(|| self.signs_right as f64 / self.signs as f64)
    }

    /// What the bars say, one statement each: what, and whether it holds.
    pub fn verdicts(&self) -> Vec<(String, bool)> {
        let percent = |share: f64| if share.is_finite() { format!("{:.0} %", share * 100.0) } else { "∞".to_owned() };
        let mut verdicts = Vec::new();
        if let Some(share) = self.sign_share() {
            let text =
                format!("direction right in {} of {} changes ({})", self.signs_right, self.signs, percent(share));
            verdicts.push((text, share >= bar::SIGN));
        }
        if let Some(spearman) = self.spearman.filter(|_| self.rows >= bar::ROWS) {
            verdicts.push((format!("Spearman {spearman:.2}"), spearman >= bar::SPEARMAN));
        }
        if self.missing > 0 {
            verdicts
                .push((format!("{} of {} changes not simulated", self.missing, self.missing + self.changes), false));
        }
        let Some(own) = self.error else { return verdicts };
        verdicts.push((format!("median error {}", percent(own.median)), own.median <= bar::ERROR));
        for (name, theirs) in [("no change", self.no_change), ("mean", self.mean)] {
            if let Some(theirs) = theirs {
                let better = own.median < theirs.median;
                let than = if better { "better than" } else { "not better than" };
                verdicts.push((format!("{than} “{name}” ({})", percent(theirs.median)), better));
            }
        }
        verdicts
    }
}

fn same_sign(published: f64, simulated: f64) -> bool {
    if published > 1.0 { simulated > 1.0 } else { simulated < 1.0 }
}

/// The relative error of a ratio.
pub fn error(published: f64, predicted: f64) -> f64 {
    (predicted / published - 1.0).abs()
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The value that a share of `share` of all values does not pass: nearest rank.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (share * sorted.len() as f64 - 1e-9).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The geometric mean of the values above zero.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = values.into_iter().filter(|value| *value > 0.0).map(f64::ln).collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

/// Spearman's rank correlation; `None` below three pairs, or if one side is all the same.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let left = ranks(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let right = ranks(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let middle = (pairs.len() as f64 + 1.0) / 2.0;
    let moment = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum::<f64>();
    let spread = (moment(&left, &left) * moment(&right, &right)).sqrt();
    (spread > 0.0).then(|| moment(&left, &right) / spread)
}

/// Ranks from 1; equal values share their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
    let equal = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
    values.iter().map(|value| below(*value) + (equal(*value) + 1.0) / 2.0).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(published: f64, simulated: f64) -> Pair {
        let simulated = Estimate { median: simulated, low: simulated * 0.8, high: simulated * 1.2 };
        Pair { published, simulated, noise: CHANGE }
    }

    #[test]
    fn medians_and_percentiles_of_known_sets() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(percentile(&ten, 0.9), Some(9.0));
        assert_eq!(percentile(&[5.0, 7.0], 0.9), Some(7.0));
        assert_eq!(percentile(&[], 0.9), None);
        assert!((geometric_mean([2.0, 8.0, 0.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
    }

    #[test]
    fn spearman_of_known_sets() {
        let of = |right: [f64; 5]| spearman(&[1.0, 2.0, 3.0, 4.0, 5.0].into_iter().zip(right).collect::<Vec<_>>());
        assert_eq!(of([10.0, 20.0, 30.0, 40.0, 50.0]), Some(1.0));
        assert_eq!(of([5.0, 4.0, 3.0, 2.0, 1.0]), Some(-1.0));
        // By hand: d = (0, 1, −1, 0, 0), rho = 1 − 6 · 2 / (5 · 24) = 0.9.
        assert!((of([1.0, 3.0, 2.0, 4.0, 5.0]).unwrap() - 0.9).abs() < 1e-12);
        assert_eq!(of([7.0; 5]), None);
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }

    #[test]
    fn signs_count_only_real_changes() {
        // 4 % is no change; 2.0 and 0.5 are; the second one has the wrong direction.
        let score = Score::of(3, &[pair(1.04, 0.5), pair(2.0, 1.5), pair(0.5, 1.5)], &[], None);
        assert_eq!((score.changes, score.signs, score.signs_right), (3, 2, 1));
        assert_eq!(score.sign_share(), Some(0.5));
        assert_eq!(Score::of(0, &[], &[], None).sign_share(), None);
        assert!(!same_sign(2.0, 1.0) && !same_sign(0.5, 1.0));
    }

    #[test]
    fn errors_and_baselines_by_hand() {
        // Errors: |1.5/2 − 1| = 0.25 and |0.5/0.5 − 1| = 0. No change: 0.5 and 1. Mean of the
        // others, 1.5: 0.25 and 2.
        let score = Score::of(2, &[pair(2.0, 1.5), pair(0.5, 0.5)], &[], Some(1.5));
        assert_eq!(score.error, Some(Errors { median: 0.125, p90: 0.25 }));
        assert_eq!(score.no_change, Some(Errors { median: 0.75, p90: 1.0 }));
        assert_eq!(score.mean, Some(Errors { median: 1.125, p90: 2.0 }));
        // Bands: 1.2 to 1.8 misses 2.0, 0.4 to 0.6 holds 0.5; both are 1.5 wide.
        assert_eq!(score.inside_band, 1);
        assert!((score.band.unwrap() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn verdicts_follow_the_bars() {
        let good = Score::of(2, &[pair(2.0, 1.9), pair(0.5, 0.52)], &[], Some(1.5));
        assert!(good.verdicts().iter().all(|verdict| verdict.1), "{:?}", good.verdicts());
        let bad = Score::of(2, &[pair(2.0, 0.9), pair(1.0, 3.0)], &[], Some(1.5));
        assert!(bad.verdicts().iter().all(|verdict| !verdict.1), "{:?}", bad.verdicts());
        // A collapse to nothing leaves an endless band, not a wrong number.
        let zero = Pair { published: 2.0, simulated: Estimate { median: 0.5, low: 0.0, high: 1.0 }, noise: CHANGE };
        assert_eq!(Score::of(1, &[zero], &[], None).band, Some(f64::INFINITY));
    }
}
