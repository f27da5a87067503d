//! The types that users see: the raw locks on the real machine, behind `lock_api`'s guards.
//!
//! Each is an alias of one level: rustdoc shows on its page the methods of the type that it names,
//! not of a type that this one names in turn.

use crate::platform::Native;
use crate::{api, cancel, futex_hash, lockref, mutex, qrwlock, rtmutex_tree, rwsem, spin};

pub use crate::api::names::*;
pub use crate::api::{CancellableCondvar, CancellableMutex, CancellableRwLock};

/// A mutex: one owner at a time. The lock to begin with: any number of threads, any length of
/// section.
///
/// A waiter spins while the owner runs, then sleeps. Bound: running threads pass it for at most a
/// turn, 0.4 ms, per waiter ahead of it. Ordering: what an owner did happens before the next
/// acquisition returns. Cost without contention: one atomic instruction each way. Size: 32 bytes.
/// Memory: it must stay until each unlock has returned. Fork: what other threads held stays held in
/// the child. A panic unlocks; nothing is poisoned.
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
/// Theory: [`mutex`](mod@crate::mutex).
pub type Mutex<T> = lock_api::Mutex<mutex::RawMutex<Native>, T>;
/// A locked [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, mutex::RawMutex<Native>, T>;

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
/// Theory: [`rtmutex_tree`](mod@crate::rtmutex_tree).
pub type TreeRtMutex<T> = lock_api::Mutex<rtmutex_tree::RawTreeRtMutex<Native, rtmutex_tree::policy::Today>, T>;
/// A [`TreeRtMutex`] with policy `Y`; see [`rtmutex_tree::policy`].
pub type TreeRtMutexWith<Y, T> = lock_api::Mutex<rtmutex_tree::RawTreeRtMutex<Native, Y>, T>;
/// A locked [`TreeRtMutex`].
pub type TreeRtMutexGuard<'a, T, Y = rtmutex_tree::policy::Today> =
    lock_api::MutexGuard<'a, rtmutex_tree::RawTreeRtMutex<Native, Y>, T>;
pub use crate::platform::native::can_lend_priorities;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
pub use crate::api::pi_names::*;
/// Without PI futexes: [`TreeRtMutex`]. This machine lends no priorities.
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub type RtMutex<T> = lock_api::Mutex<rtmutex_tree::RawTreeRtMutex<Native>, T>;
/// A locked [`RtMutex`].
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
pub type RtMutexGuard<'a, T> = TreeRtMutexGuard<'a, T>;

/// A reader-writer lock: many readers, or one writer. For data that is read far more often than
/// written; with upgradable reads take [`RwLock`].
///
/// Waiters spin while the owner runs, then sleep. Bound: readers and writers alike are passed for
/// at most a turn, 0.4 ms, per waiter ahead: neither overlapping readers keep a writer out, nor a
/// stream of writers a reader. Readers are not recursive: a read inside a read may wait for a
/// writer that waits for the first. Cost without contention: one atomic instruction each way, to
/// read and to write. Size: 32 bytes. Memory: it must stay until each unlock has returned. Fork:
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
/// Theory: [`rwsem`](mod@crate::rwsem).
pub type RwSem<T> = lock_api::RwLock<rwsem::RawRwSem<Native>, T>;
/// A [`RwSem`] locked for reading.
pub type RwSemReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, rwsem::RawRwSem<Native>, T>;
/// A [`RwSem`] locked for writing.
pub type RwSemWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, rwsem::RawRwSem<Native>, T>;

/// A spinlock of 4 bytes, for sections of a microsecond and less, and for locks by the million.
///
/// Waiters queue, each spins on its own line; one whose owner does not run sleeps: no waiter burns
/// its CPU without bound. Bound: a turn, 0.4 ms, per waiter ahead. Cost without contention: a
/// compare-exchange and a store. A guard may be dropped by another thread. Memory: the next owner
/// may free it once it has unlocked it itself. Fork: what other threads held stays held. A panic
/// unlocks; nothing is poisoned.
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
/// Theory: [`spin::qspinlock`](mod@crate::spin::qspinlock).
pub type SpinLock<T> = lock_api::Mutex<spin::qspinlock::RawQSpinLock<Native>, T>;
/// A locked [`SpinLock`].
pub type SpinLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::qspinlock::RawQSpinLock<Native>, T>;

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
/// Theory: [`spin::cna`](mod@crate::spin::cna).
pub type CnaSpinLock<T> = lock_api::Mutex<spin::cna::RawCnaSpinLock<Native>, T>;
/// A locked [`CnaSpinLock`].
pub type CnaSpinLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::cna::RawCnaSpinLock<Native>, T>;

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
/// Theory: [`spin::hq`](mod@crate::spin::hq).
pub type HqSpinLock<T> = lock_api::Mutex<spin::hq::RawHqSpinLock<Native>, T>;
/// A locked [`HqSpinLock`].
pub type HqSpinLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::hq::RawHqSpinLock<Native>, T>;
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
/// Theory: [`spin::mcs`](mod@crate::spin::mcs).
pub type McsLock<T> = lock_api::Mutex<spin::mcs::RawMcsLock<Native>, T>;
/// A locked [`McsLock`].
pub type McsLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::mcs::RawMcsLock<Native>, T>;
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
/// Theory: [`spin::ticket`](mod@crate::spin::ticket).
pub type TicketLock<T> = lock_api::Mutex<spin::ticket::RawTicketLock<Native>, T>;
/// A locked [`TicketLock`].
pub type TicketLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::ticket::RawTicketLock<Native>, T>;
/// The test-and-test-and-set spinlock, a baseline to measure against: no order at all.
///
/// Bound: none. Size: 4 bytes. A panic unlocks; nothing is poisoned.
///
/// ```
/// let value = lockyard::TtasLock::new(1);
/// assert_eq!(*value.lock(), 1);
/// ```
///
/// Theory: [`spin::ttas`](mod@crate::spin::ttas).
pub type TtasLock<T> = lock_api::Mutex<spin::ttas::RawTtasLock<Native>, T>;
/// A locked [`TtasLock`].
pub type TtasLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::ttas::RawTtasLock<Native>, T>;

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
/// Theory: [`qrwlock`](mod@crate::qrwlock).
pub type QRwLock<T> = lock_api::RwLock<qrwlock::RawQRwLock<Native>, T>;
/// A [`QRwLock`] locked for reading.
pub type QRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, qrwlock::RawQRwLock<Native>, T>;
/// A [`QRwLock`] locked for writing.
pub type QRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, qrwlock::RawQRwLock<Native>, T>;

/// Parking by address: threads sleep on any 32-bit word until another thread wakes them, as with
/// the kernel's futexes.
///
/// The table has as many buckets as it is given, each with a spinlock, and may grow while threads
/// wait. No wake-up is lost between the comparison of the word and the sleep. Bound: waiters of a
/// word are woken in order. Memory: the table lives for ever; a word only while a call names it.
/// Fork: the parent's waiters are not in the child.
///
/// ```
/// use lockyard::futex_hash::Waited;
/// use lockyard::platform::atomics::U32;
/// use lockyard::platform::{Ordering, Word};
/// use lockyard::{FutexBucket, FutexHash};
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
/// assert_eq!(HASH.wait(&ready, 0, None), Waited::Differs);
/// ```
///
/// Theory: [`futex_hash`](mod@crate::futex_hash).
pub type FutexHash = futex_hash::FutexHash<'static, Native>;
/// A bucket of a [`FutexHash`].
pub type FutexBucket = futex_hash::Bucket<Native>;

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
/// Theory: [`lockref`](mod@crate::lockref).
pub type LockRef = lockref::LockRef<Native, spin::qspinlock::RawQSpinLock<Native>>;
/// A [`LockRef`] whose spinlock is of kind `K`.
pub type LockRefWith<K> = lockref::LockRef<Native, K>;
/// The locked spinlock of a [`LockRef`].
pub type LockRefGuard<'a, K = spin::qspinlock::RawQSpinLock<Native>> = lockref::LockRefGuard<'a, Native, K>;

/// A counting semaphore: so many threads at a time, or so many of a resource. Its promises are on the
/// page of [`api::Semaphore`].
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
/// Theory: [`semaphore`](mod@crate::semaphore).
pub type Semaphore = api::Semaphore<Native>;
/// A permit of a [`Semaphore`].
pub type SemaphorePermit<'a> = api::SemaphorePermit<'a, Native>;
/// A permit that keeps its [`Semaphore`] alive.
pub type OwnedSemaphorePermit = api::OwnedSemaphorePermit<Native>;

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
/// Theory: [`cancel`](mod@crate::cancel).
pub type CancelToken = cancel::CancelToken<Native>;
