//! The types that users see: the raw locks on the real machine, behind `lock_api`'s guards.
//!
//! What a lock guarantees is said where its raw lock is, in [`raw`]. The names of parking_lot are
//! in `api::names`, those of the locks on PI futexes in `api::pi_names`.

use crate::platform::Native;
use crate::raw::{self, tree_policy};

pub use crate::api::names::*;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub use crate::api::pi_names::*;
pub use crate::platform::native::can_lend_priorities;

/// A mutex: spins while the owner runs, then sleeps. See [`raw::RawMutex`].
pub type Mutex<T> = lock_api::Mutex<raw::RawMutex<Native>, T>;
/// A locked [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawMutex<Native>, T>;

/// A reader-writer lock whose waiters spin, then sleep. See [`raw::RawRwSem`].
pub type RwSem<T> = lock_api::RwLock<raw::RawRwSem<Native>, T>;
/// A [`RwSem`] locked for reading.
pub type RwSemReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, raw::RawRwSem<Native>, T>;
/// A [`RwSem`] locked for writing.
pub type RwSemWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, raw::RawRwSem<Native>, T>;

/// A counting semaphore. See [`raw::Semaphore`].
pub type Semaphore = raw::Semaphore<Native>;
/// A permit of a [`Semaphore`].
pub type SemaphorePermit<'a> = raw::SemaphorePermit<'a, Native>;

/// A mutex with priority inheritance, by Lockyard's own tree of waiters. See
/// [`raw::RawTreeRtMutex`].
pub type TreeRtMutex<T> = TreeRtMutexWith<tree_policy::Today, T>;
/// A [`TreeRtMutex`] with policy `Y`. See [`tree_policy`].
pub type TreeRtMutexWith<Y, T> = lock_api::Mutex<raw::RawTreeRtMutex<Native, Y>, T>;
/// A locked [`TreeRtMutex`].
pub type TreeRtMutexGuard<'a, T, Y = tree_policy::Today> = lock_api::MutexGuard<'a, raw::RawTreeRtMutex<Native, Y>, T>;
/// Without PI futexes: [`TreeRtMutex`]. This machine lends no priorities.
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub type RtMutex<T> = TreeRtMutex<T>;
/// A locked [`RtMutex`].
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub type RtMutexGuard<'a, T> = TreeRtMutexGuard<'a, T>;

/// A queued spinlock of 4 bytes whose waiters spin, then sleep. See [`raw::RawQSpinLock`].
pub type SpinLock<T> = lock_api::Mutex<raw::RawQSpinLock<Native>, T>;
/// A locked [`SpinLock`].
pub type SpinLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawQSpinLock<Native>, T>;

/// A [`SpinLock`] that moves waiters of other NUMA nodes aside. See [`raw::RawCnaSpinLock`].
pub type CnaSpinLock<T> = lock_api::Mutex<raw::RawCnaSpinLock<Native>, T>;
/// A locked [`CnaSpinLock`].
pub type CnaSpinLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawCnaSpinLock<Native>, T>;

/// A [`SpinLock`] that queues by NUMA node under contention. See [`raw::RawHqSpinLock`].
pub type HqSpinLock<T> = lock_api::Mutex<raw::RawHqSpinLock<Native>, T>;
/// A locked [`HqSpinLock`].
pub type HqSpinLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawHqSpinLock<Native>, T>;

/// A queued reader-writer spinlock of 16 bytes, for short sections. See [`raw::RawQRwLock`].
pub type QRwLock<T> = lock_api::RwLock<raw::RawQRwLock<Native>, T>;
/// A [`QRwLock`] locked for reading.
pub type QRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, raw::RawQRwLock<Native>, T>;
/// A [`QRwLock`] locked for writing.
pub type QRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, raw::RawQRwLock<Native>, T>;

/// A reference count and a spinlock in 8 bytes. See [`raw::LockRef`].
pub type LockRef = raw::LockRef<Native>;
/// A [`LockRef`] whose spinlock is of kind `K`: see [`raw::WordLock`].
pub type LockRefWith<K> = raw::LockRef<Native, K>;
/// The locked spinlock of a [`LockRef`].
pub type LockRefGuard<'a> = raw::LockRefGuard<'a, Native>;

/// Parking by address: threads sleep on words, in a table of buckets. See [`raw::FutexHash`].
pub type FutexHash = raw::FutexHash<'static, Native>;
/// A bucket of a [`FutexHash`].
pub type FutexBucket = raw::Bucket<Native>;

/// Ends the waits that are given it. See [`raw::CancelToken`].
pub type CancelToken = raw::CancelToken<Native>;

/// The MCS lock, to measure against. See [`raw::RawMcsLock`].
pub type McsLock<T> = lock_api::Mutex<raw::RawMcsLock<Native>, T>;
/// A locked [`McsLock`].
pub type McsLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawMcsLock<Native>, T>;
/// The ticket spinlock, to measure against. See [`raw::RawTicketLock`].
pub type TicketLock<T> = lock_api::Mutex<raw::RawTicketLock<Native>, T>;
/// A locked [`TicketLock`].
pub type TicketLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawTicketLock<Native>, T>;
/// The test-and-test-and-set spinlock, to measure against. See [`raw::RawTtasLock`].
pub type TtasLock<T> = lock_api::Mutex<raw::RawTtasLock<Native>, T>;
/// A locked [`TtasLock`].
pub type TtasLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawTtasLock<Native>, T>;
