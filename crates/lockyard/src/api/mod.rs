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

pub use cancellable::{CancellableMutex, CancellableRwLock, RawMutexCancellable, RawRwLockCancellable};
pub use condition::{CancellableCondvar, MutexCondvar};
pub use fair::RawFairMutex;
pub use inheriting::CheckedMutex;
#[cfg(any(feature = "std", feature = "arc_lock"))]
pub use permit::OwnedSemaphorePermit;
pub use permit::{Semaphore, SemaphorePermit};
pub use upgradable::RawUpgradableRwSem;

/// A lock call that could only hang, or an unlock that changes nothing: `lock_api`'s guards carry no
/// error.
#[cold]
#[track_caller]
fn refused(error: &dyn core::fmt::Display) -> ! {
    panic!("{error}")
}

/// Waits that end by a time of std's.
#[cfg(feature = "std")]
mod time {
    #![allow(clippy::disallowed_types)] // lock_api's users speak std
    use core::time::Duration;

    use crate::cancel::Until;
    use crate::platform::{Platform, instants};

    /// Until `timeout` has passed.
    pub(super) fn after<P: Platform>(timeout: Duration) -> Until<'static, P> {
        Until::after(instants::nanoseconds(timeout))
    }

    /// Until `deadline`.
    pub(super) fn at<P: Platform>(deadline: std::time::Instant) -> Until<'static, P> {
        Until::after(instants::left_until(deadline))
    }
}
