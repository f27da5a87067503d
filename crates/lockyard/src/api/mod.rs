//! What users hold: the raw locks behind `lock_api`'s guards, a semaphore with permits, waits that
//! can be cancelled.
//!
//! Raw locks know nothing of `lock_api`; the implementations are here, one short block per lock.

mod cancellable;
mod condition;
mod exclusive;
mod fair;
mod inheriting;
#[cfg(feature = "std")]
pub(crate) mod names;
mod permit;
#[cfg(all(feature = "std", target_os = "linux", not(feature = "portable")))]
pub(crate) mod pi_names;
mod shared;
mod upgradable;

pub use cancellable::{CancellableMutex, CancellableRwLock};
pub use condition::{CancellableCondvar, MutexCondvar};
pub use fair::RawFairMutex;
pub use inheriting::CheckedMutex;
pub use permit::{Semaphore, SemaphorePermit};
pub use upgradable::RawUpgradableRwSem;

/// Times as `lock_api`'s users name them, by std's clock. What is left until an `Instant` is asked
/// of std, and waited for by the platform's clock.
#[cfg(feature = "std")]
mod time {
    #![allow(clippy::disallowed_types, clippy::disallowed_methods)]
    use core::time::Duration;
    use std::time::Instant;

    use crate::cancel::Until;
    use crate::platform::Platform;

    /// Until `timeout` has passed.
    pub(super) fn after<P: Platform>(timeout: Duration) -> Until<'static, P> {
        Until::after(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Until `deadline`.
    pub(super) fn at<P: Platform>(deadline: Instant) -> Until<'static, P> {
        after(deadline.saturating_duration_since(Instant::now()))
    }

    /// When `timeout` will have passed, if that can be named.
    pub(super) fn instant_after(timeout: Duration) -> Option<Instant> {
        Instant::now().checked_add(timeout)
    }
}
