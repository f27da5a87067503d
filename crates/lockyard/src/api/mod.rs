//! What users hold: the raw locks behind `lock_api`'s guards, a semaphore with permits, waits that can be cancelled.
//!
//! Raw locks know nothing of `lock_api`; the implementations are here, one short block per lock.

mod cancellable;
mod exclusive;
mod permit;
mod shared;

pub use cancellable::{CancellableMutex, CancellableRwLock};
pub use permit::{Semaphore, SemaphorePermit};

#[cfg(all(feature = "std", target_os = "linux"))]
mod time {
    // `lock_api` speaks std's `Instant`; this is where it becomes the seam's nanoseconds.
    #![allow(clippy::disallowed_types, clippy::disallowed_methods)]
    use core::time::Duration;
    use std::time::Instant;

    use crate::cancel::Until;
    use crate::platform::linux::Linux;

    /// Until `timeout` has passed.
    pub(super) fn after(timeout: Duration) -> Until<'static, Linux> {
        Until::after(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Until `deadline`.
    pub(super) fn at(deadline: Instant) -> Until<'static, Linux> {
        after(deadline.saturating_duration_since(Instant::now()))
    }
}
