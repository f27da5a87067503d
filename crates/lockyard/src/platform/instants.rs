//! Times as `lock_api`'s users name them, by std's clock. What is left until an `Instant` is asked
//! of std, and waited for by the platform's clock.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use core::time::Duration;
use std::time::Instant;

/// How long it is until `deadline`, in nanoseconds.
pub(crate) fn left_until(deadline: Instant) -> u64 {
    nanoseconds(deadline.saturating_duration_since(Instant::now()))
}

/// When `timeout` will have passed, if that can be named.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// `timeout` in nanoseconds; what is longer than can be counted is for ever.
pub(crate) fn nanoseconds(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)
}
