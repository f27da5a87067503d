//! Random draws: xoshiro256++ (Blackman and Vigna 2019), seeded through SplitMix64 (Steele, Lea,
//! Flood 2014).
//!
//! Own code, so that a seed means the same numbers for ever. Streams: the machine (jitter), each
//! task, the faults.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: [u64; 4],
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Random {
    /// Stream `stream` under `seed`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = seed;
        let mut mixer = split_mix(&mut mixer) ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self { state: core::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    /// 64 random bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// `true` once in `n` draws on average; never for 0.
    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        n != 0 && self.below(n) == 0
    }

    /// Puts `items` in random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draws = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(draws(1, 2), draws(1, 2));
        assert_ne!(draws(1, 2), draws(1, 3));
        assert_ne!(draws(1, 2), draws(2, 2));
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(3, 0).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
