//! CPU time spent on purpose: a chain of multiplications, each of which waits for the one before.
//!
//! A clock would not do: a thread that lost its CPU would find its time gone by when it got it
//! back, and would have computed less than it should. The length of a link is measured once.

use std::hint::black_box;
use std::sync::OnceLock;

use super::stamp;

/// Links that take 1024 ns.
fn rate() -> u64 {
    static MEASURED: OnceLock<u64> = OnceLock::new();
    /// Long enough to hide the stamps, short enough to fit between two interrupts.
    const LINKS: u64 = 20_000;
    *MEASURED.get_or_init(|| {
        let tries = (0..9).map(|_| {
            let start = stamp::now();
            chain(LINKS);
            stamp::now().saturating_sub(start)
        });
        (LINKS << 10) / tries.min().unwrap_or(1).max(1)
    })
}

/// Links of the chain that fit into a nanosecond.
#[cfg(feature = "simulated")]
pub(super) fn links_per_ns() -> f64 {
    rate() as f64 / 1024.0
}

/// Computes for about `ns` nanoseconds, and the chain's beginning and end.
pub(super) fn spend(ns: u64) {
    if ns > 0 {
        chain(((u128::from(ns) * u128::from(rate())) >> 10) as u64);
    }
}

#[inline(never)]
fn chain(links: u64) {
    let (mut value, mut left) = (black_box(links | 1), links);
    // No iterator: without optimisation it would take longer than a link.
    while left > 0 {
        value = (value ^ value >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        left -= 1;
    }
    black_box(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_is_longer() {
        // The fastest of many: nobody else need be quiet.
        let least = |ns| {
            let tries = (0..50).map(|_| {
                let start = stamp::now();
                spend(ns);
                stamp::now().saturating_sub(start)
            });
            tries.min().unwrap_or(0)
        };
        let (short, long) = (least(2_000), least(40_000));
        assert!(long > 4 * short, "2 µs took {short} ns, 40 µs {long} ns");
    }
}
