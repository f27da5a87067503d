//! What a thread does between two turns: PAUSEs, always as many or a drawn number.
//!
//! A drawn time is one of 256 equally likely ones, looked up in a table of the thread's own: a
//! logarithm would take longer than a short think time. Entry i is the mean of the i-th part of the
//! exponential distribution, rounded so that the entries' mean is the mean that was asked for.

use crate::prng::Prng;
use crate::spec::{Spec, ThinkShape};

/// The parts of the distribution.
const PARTS: usize = 256;

/// The times between two turns of a thread.
#[derive(Debug)]
pub(crate) struct Think {
    /// The mean, in PAUSEs.
    pauses: u32,
    /// The times to draw from, if they are drawn.
    drawn: Option<Box<[u32; PARTS]>>,
}

impl Think {
    /// The think times that a cell asks for.
    pub(crate) fn of(spec: &Spec) -> Self {
        let drawn = match spec.think_shape {
            ThinkShape::Fixed => None,
            ThinkShape::Exponential => Some(Box::new(exponential(spec.think))),
        };
        Self { pauses: spec.think, drawn }
    }

    /// The next, in PAUSEs. Takes a number from `prng` only if times are drawn.
    #[inline(always)]
    pub(crate) fn next(&self, prng: &mut Prng) -> u32 {
        match &self.drawn {
            None => self.pauses,
            Some(times) => times[(prng.next() >> 56) as usize],
        }
    }
}

/// The means of the parts of the exponential distribution with this mean.
fn exponential(mean: u32) -> [u32; PARTS] {
    let mut times = [0; PARTS];
    let (mut exact, mut placed) = (0.0, 0);
    // The integral of the quantile function, −ln(1 − u), is u + (1 − u) ln(1 − u).
    let up_to = |part: usize| {
        let rest = 1.0 - part as f64 / PARTS as f64;
        1.0 - rest + if rest > 0.0 { rest * rest.ln() } else { 0.0 }
    };
    for (part, time) in times.iter_mut().enumerate() {
        exact += f64::from(mean) * (up_to(part + 1) - up_to(part)) * PARTS as f64;
        // What rounding takes from one entry it gives to the next.
        let whole = exact.round() as u64;
        *time = (whole - placed) as u32;
        placed = whole;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Workload;

    #[test]
    fn the_mean_is_the_one_asked_for() {
        for mean in [0, 1, 5, 20, 1000, 10_000_000] {
            let times = exponential(mean);
            assert_eq!(times.iter().map(|&time| u64::from(time)).sum::<u64>(), u64::from(mean) * PARTS as u64);
        }
    }

    #[test]
    fn the_times_are_spread_as_an_exponential_is() {
        let times = exponential(1000);
        // The median is ln 2 of the mean; one in e is longer than the mean; the tail is cut at 6.5.
        assert!((693..700).contains(&times[PARTS / 2]), "{}", times[PARTS / 2]);
        assert_eq!(times.iter().filter(|&&time| time > 1000).count(), 94);
        assert!((6_500..6_600).contains(&times[PARTS - 1]), "{}", times[PARTS - 1]);
    }

    #[test]
    fn fixed_times_draw_nothing() {
        let spec = Spec { think: 7, ..Spec::new(Workload::Contend) };
        let (mut prng, mut same) = (Prng::new(1, 0), Prng::new(1, 0));
        assert_eq!(Think::of(&spec).next(&mut prng), 7);
        assert_eq!(prng.next(), same.next());
        let drawn = Think::of(&Spec { think_shape: ThinkShape::Exponential, ..spec });
        let sum: u64 = (0..100_000).map(|_| u64::from(drawn.next(&mut prng))).sum();
        assert!((680_000..720_000).contains(&sum), "{sum}");
    }
}
