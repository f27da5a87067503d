//! Time: the monotonic clock (vDSO, about 20 ns), its coarse form (about 5 ns, lags by a tick), and
//! the length of one `PAUSE`.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};

/// Monotonic nanoseconds.
#[inline]
pub(super) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds of the real-time clock. Before its beginning it is 0.
pub(super) fn realtime() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    u64::try_from(time.tv_sec).map_or(0, |seconds| seconds.saturating_mul(1_000_000_000) + time.tv_nsec as u64)
}

/// Monotonic nanoseconds as of the last tick.
#[inline]
pub(super) fn tick() -> u64 {
    read(ClockId::MonotonicCoarse)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

static RELAX_PS: AtomicU32 = AtomicU32::new(0);

/// Picoseconds that one spin-loop hint takes on this machine, measured on first use (about 10 µs,
/// once per process).
#[inline]
pub(super) fn relax_ps() -> u32 {
    match RELAX_PS.load(Relaxed) {
        0 => measure(),
        ps => ps,
    }
}

#[cold]
fn measure() -> u32 {
    const HINTS: u32 = 32;
    // The fastest of a few runs: the others were interrupted.
    let fastest = (0..5)
        .map(|_| {
            let start = now();
            for _ in 0..HINTS {
                core::hint::spin_loop();
            }
            now() - start
        })
        .min()
        .unwrap_or(0);
    let ps = (fastest.clamp(HINTS as u64, 1_000_000) * 1000 / u64::from(HINTS)) as u32;
    RELAX_PS.store(ps, Relaxed);
    ps
}
