//! The types that users see: the raw locks on the real machine, behind `lock_api`'s guards.
//!
//! Each alias is of one level: rustdoc shows on its page the methods of the type that it names,
//! not of a type that this one names in turn. The raw locks are in [`raw`]. The names of
//! parking_lot are in `api::names`, those of the locks on PI futexes in `api::pi_names`.

use crate::platform::Native;
use crate::raw::{self, tree_policy};

pub use crate::api::names::*;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub use crate::api::pi_names::*;
pub use crate::platform::native::can_lend_priorities;

/// A mutex: one owner at a time. The lock to begin with: any number of threads, any length of
/// section.
///
/// A waiter spins while the owner runs, then sleeps. Bound: running threads pass it for at most a
/// turn, 0.4 ms, and one more per waiter ahead of it. Ordering: what an owner did happens before
/// the next acquisition returns. Cost without contention: one atomic instruction each way. Size: 32
/// bytes. Memory: it must stay until each unlock has returned. Fork: what other threads held stays
/// held in the child. A panic unlocks; nothing is poisoned.
///
/// ```
/// use lockyard::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| *TOTAL.lock() += 1);
///     }
/// });
/// assert_eq!(*TOTAL.lock(), 4);
///
/// let mine = TOTAL.lock();
/// assert!(TOTAL.try_lock().is_none());
/// drop(mine);
/// assert!(TOTAL.try_lock_for(std::time::Duration::from_millis(1)).is_some());
/// ```
///
/// Theory: `src/mutex/mod.rs`; on any platform: [`raw::RawMutex`](crate::raw::RawMutex).
pub type Mutex<T> = lock_api::Mutex<raw::RawMutex<Native>, T>;
/// A locked [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawMutex<Native>, T>;

/// A reader-writer lock: many readers, or one writer. For data that is read far more often than
/// written; with upgradable reads take [`RwLock`].
///
/// Waiters spin while the owner runs, then sleep. Bound: readers and writers alike are passed for
/// at most a turn, 0.4 ms, and one more per waiter ahead: neither overlapping readers keep a writer
/// out, nor a stream of writers a reader. Readers are not recursive: a read inside a read may wait
/// for a writer that waits for the first. Cost without contention: one atomic instruction each way,
/// to read and to write. Size: 32 bytes. Memory: it must stay until each unlock has returned. Fork:
/// what other threads held stays held in the child. A panic unlocks; nothing is poisoned.
///
/// ```
/// use lockyard::{RwSem, lock_api::RwLockWriteGuard};
///
/// let table = RwSem::new(vec![1, 2, 3]);
/// {
///     let (one, two) = (table.read(), table.read());
///     assert_eq!(one.len() + two.len(), 6);
///     assert!(table.try_write().is_none());
/// }
/// let mut writing = table.write();
/// writing.push(4);
/// // Readers come in, and no writer in between.
/// let reading = RwLockWriteGuard::downgrade(writing);
/// assert_eq!((reading.len(), table.read().len()), (4, 4));
/// ```
///
/// Theory: `src/rwsem/mod.rs`; on any platform: [`raw::RawRwSem`](crate::raw::RawRwSem).
pub type RwSem<T> = lock_api::RwLock<raw::RawRwSem<Native>, T>;
/// A [`RwSem`] locked for reading.
pub type RwSemReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, raw::RawRwSem<Native>, T>;
/// A [`RwSem`] locked for writing.
pub type RwSemWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, raw::RawRwSem<Native>, T>;

/// A [`RwSem`] whose readers share nothing while writers are rare: for what many threads read all
/// the time, and hardly anybody writes, such as a configuration, a routing table, a schema.
///
/// Readers on different CPUs do not slow each other down; a write costs a visit of all CPUs or
/// caches. It goes into that mode by calls of `read` that overlap, out of it by the reads between
/// two writes, and 32 locks can be in it at a time. Timed and cancellable calls, downgrade and both
/// bounds are those of [`RwSem`]; there is no fair unlock. While a reader changes the mode, for 1
/// ms at most, tries and timed reads may fail, though no writer is there. Size: 128 bytes.
///
/// ```
/// static ROUTES: lockyard::ReadMostly<Vec<u32>> = lockyard::ReadMostly::new(Vec::new());
/// ROUTES.write().push(7);
/// assert_eq!(ROUTES.read().first(), Some(&7));
/// ```
///
/// Theory: `src/rwsem/apart/mod.rs`; on any platform:
/// [`raw::RawReadMostly`](crate::raw::RawReadMostly).
pub type ReadMostly<T> = lock_api::RwLock<raw::RawReadMostly<Native>, T>;
/// A [`ReadMostly`] locked for reading.
pub type ReadMostlyReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, raw::RawReadMostly<Native>, T>;
/// A [`ReadMostly`] locked for writing.
pub type ReadMostlyWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, raw::RawReadMostly<Native>, T>;

/// A [`ReadMostly`] whose readers are apart from the first read, for ever: the kernel's
/// percpu-rwsem, for those who know that writes are rare.
pub type PerCpuRwSem<T> = lock_api::RwLock<raw::RawPerCpuRwSem<Native>, T>;

/// A counting semaphore: so many threads at a time, or so many of a resource. Its promises are on
/// the page of [`raw::Semaphore`].
///
/// ```
/// static SLOTS: lockyard::Semaphore = lockyard::Semaphore::new(2);
///
/// let both = SLOTS.acquire_many(2);
/// assert!(SLOTS.try_acquire().is_none());
/// drop(both);
/// assert_eq!(SLOTS.available(), 2);
/// ```
///
/// Theory: `src/semaphore.rs`.
pub type Semaphore = raw::Semaphore<Native>;
/// Permits of a [`Semaphore`]; dropping them returns them.
pub type SemaphorePermit<'a> = raw::Permits<Native, &'a Semaphore>;
/// Permits of a [`Semaphore`] in an `Arc`, which they keep; dropping them returns them.
#[cfg(feature = "arc_lock")]
pub type OwnedSemaphorePermit = raw::Permits<Native, alloc::sync::Arc<Semaphore>>;

/// A mutex with priority inheritance, by Lockyard's own tree of waiters: for machines without PI
/// futexes, and to see who lends to whom.
///
/// Waiters are served by priority; each lends its priority to the owner, and down the chain of
/// owners that wait themselves, where the program may set priorities ([`can_lend_priorities`]).
/// Bound: none between priorities; equals in turn. Cost without contention: a compare-exchange each
/// way. Size: 12 bytes. Memory: the next owner may free it once it has unlocked it itself. Fork:
/// what other threads held stays held. A panic unlocks; nothing is poisoned.
///
/// # Panics
/// `lock`, where it would close a cycle of waits. An unlock by another thread than the owner.
///
/// ```
/// static SHARED: lockyard::TreeRtMutex<u32> = lockyard::TreeRtMutex::new(0);
/// *SHARED.lock() += 1;
/// assert_eq!(SHARED.try_lock().map(|value| *value), Some(1));
/// ```
///
/// Theory: `src/rtmutex_tree/mod.rs`; on any platform:
/// [`raw::RawTreeRtMutex`](crate::raw::RawTreeRtMutex).
pub type TreeRtMutex<T> = lock_api::Mutex<raw::RawTreeRtMutex<Native, tree_policy::Today>, T>;
/// A [`TreeRtMutex`] with policy `Y`. See [`tree_policy`].
pub type TreeRtMutexWith<Y, T> = lock_api::Mutex<raw::RawTreeRtMutex<Native, Y>, T>;
/// A locked [`TreeRtMutex`].
pub type TreeRtMutexGuard<'a, T, Y = tree_policy::Today> = lock_api::MutexGuard<'a, raw::RawTreeRtMutex<Native, Y>, T>;
/// Without PI futexes: [`TreeRtMutex`]. This machine lends no priorities.
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub type RtMutex<T> = lock_api::Mutex<raw::RawTreeRtMutex<Native>, T>;
/// A locked [`RtMutex`].
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub type RtMutexGuard<'a, T> = TreeRtMutexGuard<'a, T>;

/// A spinlock of 4 bytes, for sections of a microsecond and less, and for locks by the million.
///
/// Waiters queue, each spins on its own line; one whose owner does not run sleeps: no waiter burns
/// its CPU without bound. Bound: a turn, 0.4 ms, and one more per waiter ahead. Cost without
/// contention: a compare-exchange and a store. A guard may be dropped by another thread. Memory:
/// the next owner may free it once it has unlocked it itself. Fork: what other threads held stays
/// held. A panic unlocks; nothing is poisoned.
///
/// ```
/// use lockyard::SpinLock;
///
/// static SEED: SpinLock<u32> = SpinLock::new(1);
///
/// fn next() -> u32 {
///     let mut seed = SEED.lock();
///     *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
///     *seed
/// }
/// assert_ne!(next(), next());
/// ```
///
/// Theory: `src/spin/queued.rs`; on any platform: [`raw::RawQSpinLock`](crate::raw::RawQSpinLock).
pub type SpinLock<T> = lock_api::Mutex<raw::RawQSpinLock<Native>, T>;
/// A locked [`SpinLock`].
pub type SpinLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawQSpinLock<Native>, T>;

/// A [`SpinLock`] whose waiters of other NUMA nodes are moved aside: to compare [`HqSpinLock`]
/// with.
///
/// Bound: that of [`SpinLock`], and 1 ms. Cost without contention, size, memory, fork and panics as
/// [`SpinLock`].
///
/// ```
/// let counter = lockyard::CnaSpinLock::new(0);
/// *counter.lock() += 1;
/// assert_eq!(counter.into_inner(), 1);
/// ```
///
/// Theory: `src/spin/cna.rs`; on any platform: [`raw::RawCnaSpinLock`](crate::raw::RawCnaSpinLock).
pub type CnaSpinLock<T> = lock_api::Mutex<raw::RawCnaSpinLock<Native>, T>;
/// A locked [`CnaSpinLock`].
pub type CnaSpinLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawCnaSpinLock<Native>, T>;

/// A [`SpinLock`] for machines with several NUMA nodes: it queues by node while it is contended
/// from several.
///
/// Handing over within a node saves the transfer of the lock's and the data's lines. Bound: a turn
/// per waiter ahead in the own node, times the nodes. Cost without contention, size, memory, fork
/// and panics as [`SpinLock`].
///
/// ```
/// let counter = lockyard::HqSpinLock::new(0);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| *counter.lock() += 1);
///     }
/// });
/// assert_eq!(counter.into_inner(), 4);
/// ```
///
/// Theory: `src/spin/hq/mod.rs`; on any platform:
/// [`raw::RawHqSpinLock`](crate::raw::RawHqSpinLock).
pub type HqSpinLock<T> = lock_api::Mutex<raw::RawHqSpinLock<Native>, T>;
/// A locked [`HqSpinLock`].
pub type HqSpinLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawHqSpinLock<Native>, T>;

/// A reader-writer spinlock of 16 bytes, for sections of a microsecond and less.
///
/// Waiters spin, then sleep. Bound: a turn, 0.4 ms, per waiter ahead, readers and writers alike.
/// Readers are not recursive. Cost without contention: one atomic instruction to lock, and at most
/// one to unlock. A guard may be dropped by another thread. Memory: the next owner may free it once
/// it has unlocked it itself. Fork: what other threads held stays held. A panic unlocks; nothing is
/// poisoned.
///
/// ```
/// static ROUTES: lockyard::QRwLock<[u8; 4]> = lockyard::QRwLock::new([1, 2, 3, 4]);
/// assert_eq!(ROUTES.read().len(), 4);
/// ROUTES.write()[0] = 9;
/// assert_eq!(ROUTES.read()[0], 9);
/// ```
///
/// Theory: `src/qrwlock/mod.rs`; on any platform: [`raw::RawQRwLock`](crate::raw::RawQRwLock).
pub type QRwLock<T> = lock_api::RwLock<raw::RawQRwLock<Native>, T>;
/// A [`QRwLock`] locked for reading.
pub type QRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, raw::RawQRwLock<Native>, T>;
/// A [`QRwLock`] locked for writing.
pub type QRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, raw::RawQRwLock<Native>, T>;

/// A reference count and a spinlock in 8 bytes: for objects in tables, whose references come and go
/// far more often than the objects.
///
/// While nobody holds the lock, taking and giving up a reference is one compare-exchange; the last
/// reference is given up under the lock, so that no lookup finds an object that is being taken
/// apart. A count never wraps: see [counters](crate#counters-and-their-ends). Bound on waiting:
/// that of [`SpinLock`]. Memory: it must stay until each call has returned. Fork: as [`SpinLock`].
/// A panic unlocks; nothing is poisoned.
///
/// ```
/// static ENTRY: lockyard::LockRef = lockyard::LockRef::new();
/// assert!(ENTRY.get_not_dead()); // a lookup
/// ENTRY.get(); // a copy of the reference
/// assert!(ENTRY.put_or_lock().is_none());
/// let last = ENTRY.put_or_lock().expect("the last reference is given up under the lock");
/// last.mark_dead();
/// drop(last);
/// assert!(!ENTRY.get_not_dead());
/// ```
///
/// Theory: `src/lockref.rs`; on any platform: [`raw::LockRef`](crate::raw::LockRef).
pub type LockRef = raw::LockRef<Native>;
/// A [`LockRef`] whose spinlock is of kind `K`: see [`raw::WordLock`].
pub type LockRefWith<K> = raw::LockRef<Native, K>;
/// The locked spinlock of a [`LockRef`].
pub type LockRefGuard<'a> = raw::LockRefGuard<'a, Native>;

/// Parking by address: threads sleep on any 32-bit word until another thread wakes them, as with
/// the kernel's futexes.
///
/// The table has as many buckets as it is given, each with a spinlock, and may grow while threads
/// wait. No wake-up is lost between the comparison of the word and the sleep. Bound: waiters of a
/// word are woken in order. Memory: the table lives for ever; a word only while a call names it.
/// Fork: the parent's waiters are not in the child.
///
/// ```
/// use lockyard::platform::atomics::U32;
/// use lockyard::platform::{Ordering, Word};
/// use lockyard::{FutexBucket, FutexHash, FutexWaited};
///
/// static BUCKETS: [FutexBucket; 16] = [const { FutexBucket::new() }; 16];
/// static HASH: FutexHash = FutexHash::new(&BUCKETS);
///
/// let ready = U32::default();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         ready.store(1, Ordering::Release);
///         HASH.wake(&ready, usize::MAX);
///     });
///     while ready.load(Ordering::Acquire) == 0 {
///         HASH.wait(&ready, 0, None);
///     }
/// });
/// assert_eq!(HASH.wait(&ready, 0, None), FutexWaited::Differs);
/// ```
///
/// Theory: `src/futex_hash.rs`; on any platform: [`raw::FutexHash`](crate::raw::FutexHash).
pub type FutexHash = raw::FutexHash<'static, Native>;
/// A bucket of a [`FutexHash`].
pub type FutexBucket = raw::Bucket<Native>;

/// Ends waits: a lock call that waits with a token returns [`GaveUp::Cancelled`](crate::GaveUp)
/// once it is cancelled.
///
/// A cancelled token stays cancelled: later waits with it end at once, and what need not wait
/// succeeds. A lock that is granted in the same moment is kept: the call says which it was. Cost of
/// a wait with a token: two short sections under the token's spinlock. The calls:
/// [`CancellableMutex`](crate::CancellableMutex), [`CancellableRwLock`](crate::CancellableRwLock),
/// [`CancellableCondvar`](crate::CancellableCondvar), [`Semaphore`]. Memory: it outlives the waits,
/// by its borrow.
///
/// ```
/// use lockyard::{CancelToken, CancellableMutex, GaveUp, Mutex};
///
/// let (mutex, token) = (Mutex::new(()), CancelToken::new());
/// let held = mutex.lock();
/// std::thread::scope(|scope| {
///     let waiter = scope.spawn(|| mutex.lock_cancellable(&token).is_err());
///     token.cancel();
///     assert!(waiter.join().unwrap());
/// });
/// drop(held);
/// ```
///
/// Theory: `src/cancel.rs`; on any platform: [`raw::CancelToken`](crate::raw::CancelToken).
pub type CancelToken = raw::CancelToken<Native>;

/// The MCS lock, a baseline to measure against: strict order, a line of its own for each waiter.
///
/// Bound: in order. Where threads outnumber CPUs it is slow: the next in order may not run. Size: 4
/// bytes. A panic unlocks; nothing is poisoned.
///
/// ```
/// let value = lockyard::McsLock::new(1);
/// assert_eq!(*value.lock(), 1);
/// ```
///
/// Theory: `src/spin/mcs.rs`; on any platform: [`raw::RawMcsLock`](crate::raw::RawMcsLock).
pub type McsLock<T> = lock_api::Mutex<raw::RawMcsLock<Native>, T>;
/// A locked [`McsLock`].
pub type McsLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawMcsLock<Native>, T>;
/// The ticket spinlock, a baseline to measure against: strict order, one line for all.
///
/// Bound: in order. Where threads outnumber CPUs it is slow: the next in order may not run. Size: 4
/// bytes. A panic unlocks; nothing is poisoned.
///
/// ```
/// let value = lockyard::TicketLock::new(1);
/// assert_eq!(*value.lock(), 1);
/// ```
///
/// Theory: `src/spin/ticket.rs`; on any platform:
/// [`raw::RawTicketLock`](crate::raw::RawTicketLock).
pub type TicketLock<T> = lock_api::Mutex<raw::RawTicketLock<Native>, T>;
/// A locked [`TicketLock`].
pub type TicketLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawTicketLock<Native>, T>;
/// The test-and-test-and-set spinlock, a baseline to measure against: no order at all.
///
/// Bound: none. Size: 4 bytes. A panic unlocks; nothing is poisoned.
///
/// ```
/// let value = lockyard::TtasLock::new(1);
/// assert_eq!(*value.lock(), 1);
/// ```
///
/// Theory: `src/spin/ttas.rs`; on any platform: [`raw::RawTtasLock`](crate::raw::RawTtasLock).
pub type TtasLock<T> = lock_api::Mutex<raw::RawTtasLock<Native>, T>;
/// A locked [`TtasLock`].
pub type TtasLockGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawTtasLock<Native>, T>;

impl crate::event::Snapshot {
    /// The sums over all threads of this process, living and gone, on the real machine.
    ///
    /// Costs a walk over the thread records ever used. All zero with the feature `events` off.
    pub fn now() -> Self {
        crate::platform::native::snapshot()
    }
}
