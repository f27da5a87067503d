//! parking_lot's names for Lockyard's locks: `use lockyard as parking_lot;` is meant to compile.
//!
//! Left out: `Once`, `OnceState` (`std::sync::Once` and `OnceLock` serve).

use core::num::NonZeroUsize;

use super::{MutexCondvar, RawFairMutex, RawUpgradableRwSem};
use crate::platform::{Native, native};

/// The raw [`Mutex`](crate::Mutex).
pub type RawMutex = super::RawMutex<Native>;
/// The raw [`RwLock`].
pub type RawRwLock = RawUpgradableRwSem<Native>;
/// The raw [`RecursiveRwLock`].
pub type RawRwLockRecursive = RawUpgradableRwSem<Native, true>;
/// The raw [`Condvar`].
pub type RawCondvar = MutexCondvar<Native>;

/// A [`MutexGuard`](crate::MutexGuard) of a part of the data.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// The condition variable of [`Mutex`](crate::Mutex): waits until another thread says that
/// something has changed.
///
/// Order: the waiter that came first is notified, fixed priorities before others. It is moved,
/// asleep, into the queue of the mutex, and wakes when that is free: one wake-up. Counts are exact.
/// Waits do not return spuriously, except those of threads that have no record (beyond 65,022 in a
/// process). Ends by a token: [`CancellableCondvar`](crate::CancellableCondvar). Cost of a
/// notification without waiters: one load. Size: 16 bytes. Memory: it may go once all its waiters
/// were notified, and the waits that timed out have returned. Fork: the parent's waiters are not in
/// the child.
///
/// # Panics
/// A wait panics if others wait with another mutex.
///
/// ```
/// use lockyard::{Condvar, Mutex};
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *READY.lock() = true;
///         CHANGED.notify_one();
///     });
///     let mut ready = READY.lock();
///     CHANGED.wait_while(&mut ready, |ready| !*ready);
///     assert!(*ready);
/// });
/// ```
///
/// Theory: `src/condvar.rs`; on any platform: [`raw::MutexCondvar`](crate::raw::MutexCondvar).
pub type Condvar = lock_api::Condvar<RawCondvar>;
pub use lock_api::WaitTimeoutResult;

/// A reader-writer lock with upgradable reads: [`RwSem`](crate::RwSem) behind a mutex that writers
/// and upgradable readers take first.
///
/// Reads cost what they cost there, writes two locks: without upgradable reads take
/// [`RwSem`](crate::RwSem). Bound: readers as there; writers and upgradable readers among
/// themselves a turn per waiter ahead, which lasts as long as a hold. Size: 64 bytes. Memory: it
/// must stay until each unlock has returned. Fork: what other threads held stays held in the child.
/// A panic unlocks; nothing is poisoned.
///
/// ```
/// use lockyard::{RwLock, RwLockUpgradableReadGuard};
///
/// let table = RwLock::new(vec![1]);
/// let read = table.upgradable_read();
/// if !read.contains(&2) {
///     // No other writer comes in between.
///     RwLockUpgradableReadGuard::upgrade(read).push(2);
/// }
/// assert_eq!(*table.read(), [1, 2]);
/// ```
///
/// Theory: `src/api/upgradable.rs`; on any platform:
/// [`raw::RawUpgradableRwSem`](crate::raw::RawUpgradableRwSem).
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// An [`RwLock`] locked for reading.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// An [`RwLock`] locked for writing.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// An [`RwLock`] locked for a read that may become a write.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
/// An [`RwLockReadGuard`] of a part of the data.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
/// An [`RwLockWriteGuard`] of a part of the data.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// An [`RwLock`] that a thread may lock for reading again while it reads: for code that calls back
/// into itself.
///
/// A reader that has waited behind a writer for 1.6 ms goes in beside other readers: a read inside
/// a read is late at worst. Try calls go in at once; so readers that only try keep a writer out for
/// as long as they overlap. All else as [`RwLock`].
///
/// ```
/// use lockyard::RecursiveRwLock;
///
/// let table = RecursiveRwLock::new(7);
/// let outer = table.read();
/// let inner = table.read();
/// assert_eq!(*outer + *inner, 14);
/// ```
///
/// Theory: `src/api/upgradable.rs`; on any platform:
/// [`raw::RawUpgradableRwSem`](crate::raw::RawUpgradableRwSem).
pub type RecursiveRwLock<T> = lock_api::RwLock<RawRwLockRecursive, T>;
/// A [`RecursiveRwLock`] locked for reading.
pub type RecursiveRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLock`] locked for writing.
pub type RecursiveRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLock`] locked for a read that may become a write.
pub type RecursiveRwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockReadGuard`] of a part of the data.
pub type MappedRecursiveRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLockRecursive, T>;
/// A [`RecursiveRwLockWriteGuard`] of a part of the data.
pub type MappedRecursiveRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLockRecursive, T>;

/// A [`Mutex`](crate::Mutex) every unlock of which hands over to the first waiter.
///
/// Bound: no thread passes one that sleeps in the queue. Slow where threads outnumber CPUs: the
/// mutex is idle for each wake-up; [`Mutex`](crate::Mutex) alone is fair within its bound. All else
/// as there.
///
/// ```
/// let queue = lockyard::FairMutex::new(vec![1]);
/// queue.lock().push(2);
/// assert_eq!(queue.into_inner(), [1, 2]);
/// ```
///
/// Theory: `src/mutex/mod.rs`; on any platform: [`raw::RawMutex`](crate::raw::RawMutex).
pub type FairMutex<T> = lock_api::Mutex<RawFairMutex<Native>, T>;
/// A locked [`FairMutex`].
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex<Native>, T>;
/// A [`FairMutexGuard`] of a part of the data.
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex<Native>, T>;

/// A [`Mutex`](crate::Mutex) that its owner may lock again. Gives out shared references only.
///
/// The owner's number is beside the mutex: a second lock is a load and an addition. All else as
/// [`Mutex`](crate::Mutex).
///
/// ```
/// use std::cell::Cell;
///
/// let depth = lockyard::ReentrantMutex::new(Cell::new(0));
/// let outer = depth.lock();
/// let inner = depth.lock();
/// inner.set(outer.get() + 1);
/// assert_eq!(outer.get(), 1);
/// ```
///
/// Theory: `src/mutex/mod.rs`; on any platform: [`raw::RawMutex`](crate::raw::RawMutex).
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, RawThreadId, T>;
/// A locked [`ReentrantMutex`].
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;
/// A [`ReentrantMutexGuard`] of a part of the data.
pub type MappedReentrantMutexGuard<'a, T> = lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// Names the calling thread for [`ReentrantMutex`].
#[derive(Debug)]
pub struct RawThreadId;

// SAFETY: no other live thread has the number.
unsafe impl lock_api::GetThreadId for RawThreadId {
    const INIT: Self = Self;

    #[inline]
    fn nonzero_thread_id(&self) -> NonZeroUsize {
        native::number()
    }
}

/// A [`Mutex`](crate::Mutex), in constants. (`Mutex::new` is one as well.)
pub const fn const_mutex<T>(value: T) -> crate::Mutex<T> {
    crate::Mutex::new(value)
}

/// An [`RwLock`], in constants.
pub const fn const_rwlock<T>(value: T) -> RwLock<T> {
    RwLock::new(value)
}

/// A [`FairMutex`], in constants.
pub const fn const_fair_mutex<T>(value: T) -> FairMutex<T> {
    FairMutex::new(value)
}

/// A [`ReentrantMutex`], in constants.
pub const fn const_reentrant_mutex<T>(value: T) -> ReentrantMutex<T> {
    ReentrantMutex::new(value)
}

#[cfg(feature = "arc_lock")]
pub use lock_api::{
    ArcMutexGuard, ArcReentrantMutexGuard, ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard,
};
