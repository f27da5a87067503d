//! Popularity: which of many objects is wanted.

use crate::prng::Prng;

/// A distribution over objects.
pub(crate) struct Popularity {
    /// Sums of the weights up to each.
    sums: Vec<f64>,
}

impl Popularity {
    /// Zipf's over `0..n`: the k-th is drawn in proportion to 1 / (k + 1)^exponent.
    pub(crate) fn new(n: usize, exponent: f64) -> Self {
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
        let sums = (0..n).scan(0.0, |sum, rank| {
            *sum += weight(rank);
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    /// The k-th is drawn in proportion to the k-th of `weights`, of which there is at least one.
    pub(crate) fn weighed(weights: &[f64]) -> Self {
        let add = |sum: &mut f64, weight: &f64| {
            *sum += weight;
            Some(*sum)
        };
        Self { sums: weights.iter().scan(0.0, add).collect() }
    }

    pub(crate) fn draw(&self, prng: &mut Prng) -> usize {
        let all = self.sums[self.sums.len() - 1];
        let point = prng.unit() * all;
        self.sums.partition_point(|&sum| sum < point).min(self.sums.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_locks_are_drawn_in_proportion() {
        let popularity = Popularity::new(100, 1.0);
        let mut prng = Prng::new(3, 0);
        let mut hits = [0_u32; 100];
        for _ in 0..100_000 {
            hits[popularity.draw(&mut prng)] += 1;
        }
        let ratio = f64::from(hits[0]) / f64::from(hits[9]);
        assert!((8.0..12.5).contains(&ratio), "{ratio}");
    }
}
