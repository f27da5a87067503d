//! Random draws of a workload: one small generator per thread, from a recorded seed.

/// SplitMix64 (Steele, Lea, Flood 2014). Small, fast, and the same on every machine for ever.
#[derive(Debug, Clone)]
pub(crate) struct Prng(u64);

impl Prng {
    /// The generator of stream `stream` under `seed`. Different streams are unrelated.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut root = Self(seed);
        Self(root.next() ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// 64 random bits.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`.
    #[inline(always)]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// `true` once in `n` draws, on average.
    #[inline(always)]
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next() < u64::MAX / n.max(1)
    }

    /// `true` in `share` of all draws, on average.
    #[inline(always)]
    pub(crate) fn takes(&mut self, share: Share) -> bool {
        self.next() >> 32 < share.0
    }

    /// A number from the unit interval, never zero.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A draw from the standard normal distribution (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (core::f64::consts::TAU * self.unit()).cos()
    }
}

/// A share of all draws: of 2³² equally likely ones, those below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share(u64);

impl Share {
    /// `percent` of 100, 0 to 100, to within 2⁻³².
    pub(crate) fn percent(percent: f64) -> Self {
        Self((percent * (1_u64 << 32) as f64 / 100.0).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_draws_and_streams_differ() {
        let draws = |seed, stream| {
            let mut prng = Prng::new(seed, stream);
            (0..8).map(|_| prng.next()).collect::<Vec<_>>()
        };
        assert_eq!(draws(7, 3), draws(7, 3));
        assert_ne!(draws(7, 3), draws(7, 4));
        assert_ne!(draws(7, 3), draws(8, 3));
    }

    #[test]
    fn shares_are_met() {
        let mut prng = Prng::new(1, 0);
        let mut hits = |percent, draws| (0..draws).filter(|_| prng.takes(Share::percent(percent))).count();
        let (many, most) = (hits(95.0, 100_000), hits(99.9, 1_000_000));
        assert!((94_500..95_500).contains(&many), "{many}");
        assert!((998_800..999_200).contains(&most), "{most}");
        assert_eq!((hits(100.0, 1000), hits(0.0, 1000)), (1000, 0));
        let rare = (0..100_000).filter(|_| prng.one_in(100)).count();
        assert!((800..1200).contains(&rare), "{rare}");
    }

    /// Seeds that were recorded before shares could be fractions still mean the same run.
    #[test]
    fn a_whole_percentage_is_the_comparison_of_a_number_below_100() {
        for percent in 0..=100 {
            let share = Share::percent(f64::from(percent));
            // The draws on both sides of each border.
            for border in 0..=100_u64 {
                for bits in ((border << 32) / 100).saturating_sub(2)..((border << 32) / 100 + 3).min(1 << 32) {
                    assert_eq!(bits < share.0, (bits * 100) >> 32 < u64::from(percent), "{percent} {bits}");
                }
            }
            let (mut old, mut new) = (Prng::new(3, 0), Prng::new(3, 0));
            assert!((0..1000).all(|_| (old.below(100) < percent) == new.takes(share)));
        }
    }

    #[test]
    fn normal_draws_have_unit_variance() {
        let mut prng = Prng::new(5, 0);
        let draws: Vec<f64> = (0..20_000).map(|_| prng.normal()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
