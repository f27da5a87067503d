//! Stamps for the inside of a measured loop: the time-stamp counter where it can be trusted, else
//! the clock.
//!
//! On x86-64 with an invariant counter a stamp is one unserialised `rdtsc` and a multiplication,
//! about 8 ns less than the clock. Its rate is found once, by running both for a few milliseconds.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first stamp, or since an arbitrary start.
#[inline(always)]
pub(super) fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if let Some(ns) = counter::now() {
        return ns;
    }
    clock()
}

/// The monotonic clock, ns since the first call.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};
    use std::sync::Once;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::clock;

    /// How long counter and clock are compared: a clock reading is good to 50 ns, so the rate is
    /// good to 1 in 10⁵.
    const CALIBRATION_NS: u64 = 5_000_000;
    /// Two readings of the clock this close have nothing but the counter's between them.
    const GOOD_NS: u64 = 200;
    /// The counter is of no use on this CPU.
    const NEVER: u64 = u64::MAX;

    /// Nanoseconds per count, times 2³²; zero until known.
    static RATE: AtomicU64 = AtomicU64::new(0);

    #[inline(always)]
    pub(super) fn now() -> Option<u64> {
        let mut rate = RATE.load(Ordering::Relaxed);
        if rate == 0 {
            rate = calibrated();
        }
        if rate == NEVER {
            return None;
        }
        Some(((u128::from(count()) * u128::from(rate)) >> 32) as u64)
    }

    #[inline(always)]
    fn count() -> u64 {
        // SAFETY: the instruction exists on every x86-64 CPU and has no effect but its result.
        unsafe { _rdtsc() }
    }

    #[cold]
    fn calibrated() -> u64 {
        static CALIBRATE: Once = Once::new();
        CALIBRATE.call_once(|| RATE.store(rate(), Ordering::Relaxed));
        RATE.load(Ordering::Relaxed)
    }

    fn rate() -> u64 {
        if !invariant() {
            return NEVER;
        }
        let (clock_start, count_start) = both();
        loop {
            let (now, count) = both();
            let (ns, counts) = (now - clock_start, count.wrapping_sub(count_start));
            if ns >= CALIBRATION_NS {
                return if counts == 0 { NEVER } else { ((u128::from(ns) << 32) / u128::from(counts)) as u64 };
            }
        }
    }

    /// Clock and counter at one moment: a thread that lost its CPU between the two readings would
    /// find a rate that is off by as much.
    fn both() -> (u64, u64) {
        const TRIES: u32 = 100;
        let mut best = (u64::MAX, 0, 0);
        for _ in 0..TRIES {
            let (before, count, after) = (clock(), count(), clock());
            let took = after - before;
            if took < best.0 {
                best = (took, before + took / 2, count);
            }
            if took < GOOD_NS {
                break;
            }
        }
        (best.1, best.2)
    }

    /// Whether the counter runs at one rate in all power states ("invariant TSC").
    fn invariant() -> bool {
        const POWER_MANAGEMENT: u32 = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & 1 << 8 != 0
    }
}
