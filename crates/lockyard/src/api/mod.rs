//! What users hold: the raw locks behind `lock_api`'s guards, a semaphore with permits, waits that
//! can be cancelled.
//!
//! Raw locks know nothing of `lock_api`; the implementations are here, one short block per lock.

mod cancellable;
mod condition;
mod exclusive;
mod fair;
mod inheriting;
#[cfg(all(feature = "std", target_os = "linux"))]
pub(crate) mod names;
mod permit;
mod shared;
mod upgradable;

pub use cancellable::{CancellableMutex, CancellableRwLock};
pub use condition::{CancellableCondvar, MutexCondvar};
pub use fair::RawFairMutex;
pub use inheriting::CheckedMutex;
pub use permit::{Semaphore, SemaphorePermit};
pub use upgradable::RawUpgradableRwSem;

#[cfg(all(feature = "std", target_os = "linux"))]
mod time {
    // `lock_api` speaks std's `Instant`; the platform makes the seam's nanoseconds of it.
    #![allow(clippy::disallowed_types)]
    use core::time::Duration;
    use std::time::Instant;

    use crate::cancel::Until;
    use crate::platform::linux::{Linux, clock};

    /// Until `timeout` has passed.
    pub(super) fn after(timeout: Duration) -> Until<'static, Linux> {
        Until::after(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Until `deadline`.
    pub(super) fn at(deadline: Instant) -> Until<'static, Linux> {
        after(clock::until(deadline))
    }
}
