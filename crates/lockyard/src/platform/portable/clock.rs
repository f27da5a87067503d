//! Time: nanoseconds since the process first asked, and an hour: zero means "never" in locks.
//!
//! WebAssembly without a system has no clock. There each look at the time adds a microsecond to it,
//! and a sleep until a deadline brings it there: waits that have an end do end.

/// Whether there is a clock.
pub(super) const TICKS: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
mod counted {
    use std::sync::OnceLock;
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();
    const HOUR_NS: u64 = 3_600_000_000_000;

    #[inline]
    pub(in super::super) fn now() -> u64 {
        HOUR_NS + START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    /// `deadline` has passed by itself.
    pub(in super::super) fn passed(_deadline: u64) {}
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod counted {
    use core::sync::atomic::Ordering::Relaxed;

    use crate::platform::atomics::AtomicU64;

    static LOOKS: AtomicU64 = AtomicU64::new(3_600_000_000_000);

    pub(in super::super) fn now() -> u64 {
        LOOKS.fetch_add(1_000, Relaxed)
    }

    /// A thread that slept until `deadline` finds that it has passed.
    pub(in super::super) fn passed(deadline: u64) {
        // Not "for ever": there time goes on.
        LOOKS.fetch_max(deadline.min(u64::MAX / 2), Relaxed);
    }
}

pub(super) use counted::{now, passed};
