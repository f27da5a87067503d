//! The locks without data, on a platform of one's choice: for `lock_api`, and for an own
//! [`Platform`](crate::platform::Platform).
//!
//! `lock_api::Mutex<raw::RawMutex<P>, T>` is a mutex on the platform `P`. A raw lock is used
//! through `lock_api`'s traits alone; its constructor is their `INIT`. Its page says what it
//! guarantees, and names the file whose first lines argue that.
//!
//! | lock | trait |
//! |---|---|
//! | [`RawMutex`], [`RawFairMutex`], [`RawTreeRtMutex`], `RawRtMutex` | `RawMutex`, `RawMutexTimed` |
//! | [`RawQSpinLock`], [`RawCnaSpinLock`], [`RawHqSpinLock`], [`RawMcsLock`], [`RawTicketLock`], [`RawTtasLock`] | `RawMutex` |
//! | [`RawRwSem`] | `RawRwLock`, `RawRwLockTimed`, `RawRwLockDowngrade` |
//! | [`RawReadMostly`], [`RawPerCpuRwSem`] | the same |
//! | [`RawQRwLock`] | the same |
//! | [`RawUpgradableRwSem`] | all of a reader-writer lock |
//! | [`MutexCondvar`], `RawRtCondvar` | `RawCondvar`, `RawCondvarTimed` |
//! | [`Around`] one of the above, with interrupts or preemption off | `RawMutex`, `RawRwLock` |
//!
//! ```
//! use lockyard::lock_api;
//! use lockyard::platform::Native;
//! use lockyard::raw::RawMutex;
//!
//! static COUNTER: lock_api::Mutex<RawMutex<Native>, u64> = lock_api::Mutex::new(0);
//! *COUNTER.lock() += 1;
//! ```

pub use crate::api::{
    Around, Hold, MutexCondvar, Permits, RawCnaSpinLock, RawFairMutex, RawHqSpinLock, RawMcsLock, RawMutex,
    RawMutexCancellable, RawPerCpuRwSem, RawQRwLock, RawQSpinLock, RawReadMostly, RawRwLockCancellable, RawRwSem,
    RawTicketLock, RawTreeRtMutex, RawTtasLock, RawUpgradableRwSem, Semaphore,
};
#[cfg(all(feature = "std", target_os = "linux", not(feature = "portable")))]
pub use crate::api::{RawRtCondvar, RawRtMutex};
pub use crate::cancel::CancelToken;
pub use crate::futex_hash::{Bucket, BucketLock, FutexHash};
pub use crate::lockref::{LockRef, LockRefGuard};
#[cfg(all(feature = "std", target_os = "linux", not(feature = "portable")))]
pub use crate::rtmutex::policy as pi_policy;
pub use crate::rtmutex_tree::{policy as tree_policy, set_priority};
pub use crate::semaphore::MAX_UNITS;
pub use crate::spin::WordLock;
pub use crate::spin::hq::{OutOfRange, Tunable, Tunables};
