//! What users hold: the raw locks behind `lock_api`'s guards, a semaphore with permits, waits that
//! can be cancelled.
//!
//! Algorithms know nothing of `lock_api`: each is wrapped here, in a type of the same name whose
//! only methods are `lock_api`'s. What embedders call beside them stays inside.

mod around;
pub(crate) mod calls;
mod cancellable;
mod condition;
mod exclusive;
mod inheriting;
#[cfg(feature = "std")]
pub(crate) mod names;
mod permit;
#[cfg(all(feature = "std", target_os = "linux", not(feature = "portable")))]
pub(crate) mod pi_names;
mod shared;
mod spinning;
mod upgradable;

pub use around::{Around, Hold};
pub use calls::Watched;
pub use cancellable::{CancellableMutex, CancellableRwLock, RawMutexCancellable, RawRwLockCancellable};
pub use condition::{CancellableCondvar, MutexCondvar};
pub use exclusive::{RawFairMutex, RawMutex, RawTreeRtMutex};
pub use inheriting::{CheckedMutex, RawRtCondvar, RawRtMutex};
pub use permit::{CancellableSemaphore, Permits, Semaphore};
pub use shared::{RawPerCpuRwSem, RawQRwLock, RawReadMostly, RawRwSem};
pub use spinning::{RawCnaSpinLock, RawHqSpinLock, RawMcsLock, RawQSpinLock, RawTicketLock, RawTtasLock};
pub use upgradable::RawUpgradableRwSem;

#[cfg(feature = "stat")]
pub use crate::platform::watch::{Ask, Class, Look, Moved, Owner, Take, Watcher, watch};

/// A lock call that could only hang, or an unlock that changes nothing: the guards of `lock_api`
/// carry no error.
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
