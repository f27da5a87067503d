//! Lockyard: the Linux kernel's adaptive locks, rebuilt for userspace.
//!
//! | type | raw lock | bytes | waits by | bound on bypass |
//! |---|---|---|---|---|
//! | [`Mutex`] | [`mutex::RawMutex`] | 32 | spinning while the owner runs, then sleeping | one turn per waiter ahead |
//! | [`RwSem`] | [`rwsem::RawRwSem`] | 32 | the same, for readers and writers | one turn per waiter ahead, both kinds |
//! | [`ReadMostlyRwSem`], [`PerCpuRwSem`] | [`read_mostly::RawReadMostlyRwSem`] | 48 | the same; readers share no line where writers are rare | twice that of [`RwSem`] for writers |
//! | [`Semaphore`] | [`semaphore::RawSemaphore`] | 24 | the same | one turn per waiter ahead |
//! | [`RtMutex`] | [`rtmutex::RawRtMutex`] | 24 | priority inheritance: in the kernel, by priority, where priorities matter; as [`Mutex`] among equals | none between classes; one turn per waiter ahead among equals |
//! | [`SpinLock`] | [`spin::qspinlock::RawQSpinLock`] | 4 | spinning, then sleeping (a thread is a virtual CPU) | one turn per waiter ahead |
//! | [`CnaSpinLock`] | [`spin::cna::RawCnaSpinLock`] | 4 | the same, the queue sorted by NUMA node | the same, and 1 ms |
//! | [`HqSpinLock`] | [`spin::hq::RawHqSpinLock`] | 4 | the same; queued by NUMA node while contended | the same per waiter of the own node, times the nodes |
//! | [`QRwLock`] | [`qrwlock::RawQRwLock`] | 16 | the same, for readers and writers | one turn per waiter ahead, both kinds |
//! | [`TreeRtMutex`] | [`rtmutex_tree::RawTreeRtMutex`] | 12 | spinning as first waiter while the owner runs, then sleeping; lends its priority meanwhile | by priority |
//! | [`LockRef`] | [`lockref::LockRef`] | 8 | a count and a spinlock in one word: as [`SpinLock`], and only while somebody holds it | as [`SpinLock`] |
//! | [`McsLock`], [`TicketLock`], [`TtasLock`] | [`spin::mcs`], [`spin::ticket`], [`spin::ttas`] | 4 | spinning; baselines to measure against | in order; in order; none |
//!
//! A *turn* is 0.4 ms ([`wait::turn::TURN_NS`]): for so long, running threads may pass a lock
//! around while others sleep. That is what keeps throughput when threads outnumber CPUs; the bound
//! is what keeps every thread going.
//!
//! ```
//! use lockyard::{Mutex, RwSem};
//!
//! static COUNTER: Mutex<u64> = Mutex::new(0);
//! *COUNTER.lock() += 1;
//!
//! let table = RwSem::new(vec![1, 2, 3]);
//! assert_eq!(table.read().len(), 3);
//! table.write().push(4);
//! ```
//!
//! # Promises
//!
//! * All-zero bytes are an unlocked lock; `const fn new`.
//! * No allocation, no panic, no change of errno and no thread-local destructor on any lock path.
//!   ([`RtMutex`] and [`TreeRtMutex`] panic where they could only hang, and at a foreign unlock.)
//! * No spinning without bound on a thread that may not be running.
//! * A lock's memory must stay until every unlock call on it has returned. [`SpinLock`] alone may
//!   be freed by the next owner as soon as that one has unlocked it.
//! * Locks are not recursive. A guard may be forgotten: the lock stays locked, nothing else
//!   happens. A locked lock may be dropped by whoever owns it.
//! * After `fork` the child has the locks as they were; those that other threads held stay held. (A
//!   held [`RtMutex`] belongs to a thread of the parent.)
//!
//! # Counters and their ends
//!
//! Guards can be forgotten and units released without end, so every count has one. None begins
//! anew: what would pass it is refused, or waits.
//!
//! | lock | counts | up to | there |
//! |---|---|---|---|
//! | [`RwSem`] | readers | 2⁵⁵ | `try_read` is `None`; `read` waits until a reader leaves, a timed one at most its time; [`read_acquire_unless_full`](rwsem::RawRwSem::read_acquire_unless_full) is `false`. No writer enters |
//! | [`QRwLock`] | readers | 2²² | the same; [`read_acquire_urgent`](qrwlock::RawQRwLock::read_acquire_urgent) waits as well, [`read_acquire_urgent_unless_full`](qrwlock::RawQRwLock::read_acquire_urgent_unless_full) is `false` |
//! | [`Semaphore`] | units | 2³¹ − 1, [`MAX_UNITS`](semaphore::MAX_UNITS) | [`release`](api::Semaphore::release) is `false` and adds nothing; `new` cuts off; a permit that is dropped is gone |
//! | [`LockRef`] | references | 2³¹ − 1 | [`get_not_zero`](lockref::LockRef::get_not_zero), [`get_not_dead`](lockref::LockRef::get_not_dead) are `false`; [`get`](lockref::LockRef::get), which cannot refuse, saturates: the object is never given up. Dead stays dead |
//! | [`Mutex`], [`RtMutex`], [`TreeRtMutex`], [`SpinLock`], [`CnaSpinLock`], [`HqSpinLock`], [`McsLock`], [`TtasLock`] | nothing | – | not recursive; who waits has a place by its thread record, or without one (16,383 threads have one) looks now and then |
//! | [`TicketLock`] | threads that wait | 65,535 | as many numbers as records, four levels of signal handlers each, can draw; threads without a record draw none |
//! | [`Condvar`] | nothing | – | |
//! | [`RtCondvar`] | threads that wait | 2¹⁹ − 1 | one more is not counted: its wait is a nap, and returns for no reason |
//! | [`RtCondvar`] | notifications | 2³², in a circle | a thread that is about to sleep while exactly so many come overlooks them |
//! | [`FutexHash`] | threads that wait in a bucket | 2³¹ − 1 | more than the kernel has threads |
//!
//! The C interface waits and refuses likewise (`EBUSY`; `EOVERFLOW` for a unit). The preload
//! library answers a reader with `EAGAIN`, as glibc does.
//!
//! # Looking inside
//!
//! Every decision of a slow path counts a named event: [`event::Snapshot::now`].
//!
//! # Features
//!
//! `std` (default): the real machine. Without it only the generic algorithms remain, for platforms
//! of your own. `events` (default): the counters; without it they cost nothing and take no memory.
//! `history`: the kernel's locks of other years, for measurements. `portable`: on Linux, the
//! machine of other systems.
//!
//! # Systems
//!
//! Linux has all of the above. On macOS, Windows, the BSDs, Android and WebAssembly the same types
//! stand on the standard library ([`platform::portable`]): they keep order, bounds and promises
//! about memory. They know no priorities, NUMA nodes or `fork`; a waiter cannot tell whether the
//! owner runs, and spins 20 µs at most; [`RtMutex`] is [`TreeRtMutex`], and `RtCondvar`,
//! `CheckedMutex` and `RtMutexWith` are absent. A thread's first lock may allocate, and signal
//! handlers must not lock.

#![no_std]

#[cfg(feature = "std")]
extern crate std;

#[cfg(all(target_arch = "x86_64", target_pointer_width = "32"))]
compile_error!("lockyard: x32 is not supported; build for x86_64-unknown-linux-gnu or i686-unknown-linux-gnu");

#[cfg(all(feature = "std", not(target_has_atomic = "64")))]
compile_error!("the feature `std` of lockyard needs 64-bit atomics, which this target has not");

pub mod api;
pub mod cancel;
pub mod condvar;
pub mod event;
pub mod futex_hash;
#[cfg(feature = "history")]
pub mod history;
pub mod lockref;
pub mod mutex;
pub mod platform;
pub mod qrwlock;
pub mod read_mostly;
pub mod rtcondvar;
pub mod rtmutex;
pub mod rtmutex_tree;
pub mod rwsem;
pub mod semaphore;
pub mod spin;
pub mod wait;

pub use cancel::GaveUp;
pub use lock_api;
pub use rtmutex_tree::RawTreeRtMutex;
pub use spin::hq;

#[cfg(feature = "std")]
pub use front::*;

/// The types users see: the raw locks on the real machine, behind `lock_api`'s guards.
#[cfg(feature = "std")]
mod front {
    use crate::platform::Native;
    use crate::{api, cancel, futex_hash, lockref, mutex, qrwlock, read_mostly, rtmutex_tree, rwsem, spin};

    pub use crate::api::names::*;
    pub use crate::api::{CancellableCondvar, CancellableMutex, CancellableRwLock};

    /// A mutex: spins while the owner runs, sleeps otherwise, bounded unfairness. See [`mutex`].
    pub type Mutex<T> = lock_api::Mutex<mutex::RawMutex<Native>, T>;
    /// A locked [`Mutex`].
    pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, mutex::RawMutex<Native>, T>;

    /// A mutex with priority inheritance, by Lockyard's own waiter tree: any policy, deadlocks
    /// named. Lending takes the right to set priorities ([`can_lend_priorities`]). See
    /// [`rtmutex_tree`].
    ///
    /// ```
    /// static SHARED: lockyard::TreeRtMutex<u32> = lockyard::TreeRtMutex::new(0);
    /// *SHARED.lock() += 1;
    /// ```
    pub type TreeRtMutex<T> = TreeRtMutexWith<rtmutex_tree::policy::Today, T>;
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
    pub type RtMutex<T> = TreeRtMutex<T>;
    /// A locked [`RtMutex`].
    #[cfg(any(not(target_os = "linux"), feature = "portable"))]
    pub type RtMutexGuard<'a, T> = TreeRtMutexGuard<'a, T>;

    /// A reader-writer lock. See [`rwsem`].
    pub type RwSem<T> = lock_api::RwLock<rwsem::RawRwSem<Native>, T>;
    /// A [`RwSem`] locked for reading.
    pub type RwSemReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, rwsem::RawRwSem<Native>, T>;
    /// A [`RwSem`] locked for writing.
    pub type RwSemWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, rwsem::RawRwSem<Native>, T>;

    /// A [`RwSem`] whose readers share no cache line while writers are rare: it sees when that pays.
    /// For tables that every thread reads all the time. See [`read_mostly`].
    ///
    /// A read then costs one locked instruction on a line of the thread's own, and its release one;
    /// without a crowd of readers it costs what it costs with [`RwSem`]. A write also looks at a line
    /// of each thread that has read.
    ///
    /// ```
    /// static ROUTES: lockyard::ReadMostlyRwSem<[u8; 4]> = lockyard::ReadMostlyRwSem::new([1, 2, 3, 4]);
    /// assert_eq!(ROUTES.read().len(), 4);
    /// ROUTES.write()[0] = 9;
    /// ```
    pub type ReadMostlyRwSem<T> = lock_api::RwLock<read_mostly::RawReadMostlyRwSem<Native>, T>;
    /// A [`ReadMostlyRwSem`] locked for reading.
    pub type ReadMostlyRwSemReadGuard<'a, T> =
        lock_api::RwLockReadGuard<'a, read_mostly::RawReadMostlyRwSem<Native>, T>;
    /// A [`ReadMostlyRwSem`] locked for writing.
    pub type ReadMostlyRwSemWriteGuard<'a, T> =
        lock_api::RwLockWriteGuard<'a, read_mostly::RawReadMostlyRwSem<Native>, T>;

    /// A [`ReadMostlyRwSem`] that does not look whether it pays: readers share no line whenever no
    /// writer holds or waits. What the kernel calls a per-CPU rw-semaphore; here it is per thread.
    ///
    /// ```
    /// static MODULES: lockyard::PerCpuRwSem<u32> = lockyard::PerCpuRwSem::new(0);
    /// *MODULES.write() += 1;
    /// assert_eq!(*MODULES.read(), 1);
    /// ```
    pub type PerCpuRwSem<T> = lock_api::RwLock<read_mostly::RawReadMostlyRwSem<Native, read_mostly::Always>, T>;

    /// A queued spinlock of 4 bytes that never burns CPU without bound. See [`spin::qspinlock`].
    pub type SpinLock<T> = lock_api::Mutex<spin::qspinlock::RawQSpinLock<Native>, T>;
    /// A locked [`SpinLock`].
    pub type SpinLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::qspinlock::RawQSpinLock<Native>, T>;

    /// A [`SpinLock`] whose waiters of other NUMA nodes are moved aside. See [`spin::cna`].
    pub type CnaSpinLock<T> = lock_api::Mutex<spin::cna::RawCnaSpinLock<Native>, T>;
    /// A locked [`CnaSpinLock`].
    pub type CnaSpinLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::cna::RawCnaSpinLock<Native>, T>;

    /// A [`SpinLock`] that queues by NUMA node while it is contended. See [`spin::hq`].
    pub type HqSpinLock<T> = lock_api::Mutex<spin::hq::RawHqSpinLock<Native>, T>;
    /// A locked [`HqSpinLock`].
    pub type HqSpinLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::hq::RawHqSpinLock<Native>, T>;
    /// The MCS lock, a baseline: strict order, a line of its own for each waiter. See
    /// [`spin::mcs`].
    pub type McsLock<T> = lock_api::Mutex<spin::mcs::RawMcsLock<Native>, T>;
    /// A locked [`McsLock`].
    pub type McsLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::mcs::RawMcsLock<Native>, T>;
    /// The ticket spinlock, a baseline: strict order, one line for all. See [`spin::ticket`].
    pub type TicketLock<T> = lock_api::Mutex<spin::ticket::RawTicketLock<Native>, T>;
    /// A locked [`TicketLock`].
    pub type TicketLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::ticket::RawTicketLock<Native>, T>;
    /// The test-and-test-and-set spinlock, a baseline: no order at all. See [`spin::ttas`].
    pub type TtasLock<T> = lock_api::Mutex<spin::ttas::RawTtasLock<Native>, T>;
    /// A locked [`TtasLock`].
    pub type TtasLockGuard<'a, T> = lock_api::MutexGuard<'a, spin::ttas::RawTtasLock<Native>, T>;

    /// A queued reader-writer spinlock of 16 bytes, for short sections. See [`qrwlock`].
    ///
    /// ```
    /// static ROUTES: lockyard::QRwLock<[u8; 4]> = lockyard::QRwLock::new([1, 2, 3, 4]);
    /// assert_eq!(ROUTES.read().len(), 4);
    /// ROUTES.write()[0] = 9;
    /// ```
    pub type QRwLock<T> = lock_api::RwLock<qrwlock::RawQRwLock<Native>, T>;
    /// A [`QRwLock`] locked for reading.
    pub type QRwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, qrwlock::RawQRwLock<Native>, T>;
    /// A [`QRwLock`] locked for writing.
    pub type QRwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, qrwlock::RawQRwLock<Native>, T>;

    /// Parking by address: threads sleep on words, in a table of buckets. See [`futex_hash`].
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
    pub type FutexHash = futex_hash::FutexHash<'static, Native>;
    /// A bucket of a [`FutexHash`].
    pub type FutexBucket = futex_hash::Bucket<Native>;

    /// A reference count and a spinlock in 8 bytes. See [`lockref`].
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
    pub type LockRef = LockRefWith<spin::qspinlock::RawQSpinLock<Native>>;
    /// A [`LockRef`] whose spinlock is of kind `K`.
    pub type LockRefWith<K> = lockref::LockRef<Native, K>;
    /// The locked spinlock of a [`LockRef`].
    pub type LockRefGuard<'a, K = spin::qspinlock::RawQSpinLock<Native>> = lockref::LockRefGuard<'a, Native, K>;

    /// A counting semaphore. See [`semaphore`](crate::semaphore).
    pub type Semaphore = api::Semaphore<Native>;
    /// A permit of a [`Semaphore`].
    pub type SemaphorePermit<'a> = api::SemaphorePermit<'a, Native>;

    /// Ends waits: a lock call that waits with a token returns
    /// [`GaveUp::Cancelled`](cancel::GaveUp) once it is cancelled.
    pub type CancelToken = cancel::CancelToken<Native>;
}
