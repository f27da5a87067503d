//! Lockyard: the Linux kernel's adaptive locks, rebuilt for userspace.
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
//! # Which lock?
//!
//! | situation | lock |
//! |---|---|
//! | one owner at a time, any number of threads | [`Mutex`], and [`Condvar`] to wait for a change |
//! | mostly readers | [`RwSem`]; [`RwLock`] where a reader may become the writer |
//! | hardly any writer, and readers on many CPUs all the time | [`ReadMostly`] |
//! | at most N threads at a time, or N of something | [`Semaphore`] |
//! | sections below a microsecond, or locks by the million | [`SpinLock`], [`QRwLock`]; [`HqSpinLock`] on several NUMA nodes |
//! | threads of different priorities | [`RtMutex`], `RtCondvar` |
//! | objects with references, in a table | [`LockRef`] |
//!
//! **From std.** `lock()` returns the guard, not a `Result`: a panic unlocks, and nothing is
//! poisoned. `Condvar::wait` takes `&mut guard`. `RwLock` is [`RwSem`], or [`RwLock`] for
//! upgradable reads. `Once`, `OnceLock`, `LazyLock` and `Barrier` of std serve as they are.
//!
//! **From parking_lot.** `use lockyard as parking_lot;` has its names but `Once`, and its features
//! `arc_lock`, `serde`, `owning_ref`; `deadlock_detection` is `deadlock`. There is no `send_guard`:
//! a waiter watches the thread that locked. (Guards of spinlocks and [`QRwLock`], and permits, may
//! travel.)
//!
//! **Calls that end** are named alike everywhere: `try_…_for` a duration, `try_…_until` a time,
//! `…_cancellable` by a [`CancelToken`]. The traits `Cancellable…` have those that `lock_api` has
//! not.
//!
//! **Examples** are in `examples/`: `cache` ([`RwSem`]), `pool` ([`Mutex`], [`Condvar`]), `rate`
//! ([`Semaphore`]), `control` ([`RtMutex`]), `refcount` ([`LockRef`]), `own_platform` (a machine of
//! one's own, without an operating system).
//!
//! **Stability.** There is no release yet: names may change, the promises below may not.
//!
//! # The locks
//!
//! | type | raw lock | bytes | waits by | bound on bypass |
//! |---|---|---|---|---|
//! | [`Mutex`] | [`raw::RawMutex`] | 32 | spinning while the owner runs, then sleeping | one turn per waiter ahead |
//! | [`RwSem`] | [`raw::RawRwSem`] | 32 | the same, for readers and writers | one turn per waiter ahead, both kinds |
//! | [`ReadMostly`] | [`raw::RawReadMostly`] | 128 | the same; a writer for each CPU | the same |
//! | [`PerCpuRwSem`] | [`raw::RawPerCpuRwSem`] | 128 | the same | the same |
//! | [`Semaphore`] | [`raw::Semaphore`] | 24 | the same | one turn per waiter ahead |
//! | [`RtMutex`] | `raw::RawRtMutex` | 24 | priority inheritance: in the kernel, by priority, where priorities matter; as [`Mutex`] among equals | none between classes; one turn per waiter ahead among equals |
//! | [`SpinLock`] | [`raw::RawQSpinLock`] | 4 | spinning, then sleeping (a thread is a virtual CPU) | one turn per waiter ahead |
//! | [`CnaSpinLock`] | [`raw::RawCnaSpinLock`] | 4 | the same, the queue sorted by NUMA node | the same, and 1 ms |
//! | [`HqSpinLock`] | [`raw::RawHqSpinLock`] | 4 | the same; queued by NUMA node while contended | the same per waiter of the own node, times the nodes |
//! | [`QRwLock`] | [`raw::RawQRwLock`] | 16 | the same, for readers and writers | one turn per waiter ahead, both kinds |
//! | [`TreeRtMutex`] | [`raw::RawTreeRtMutex`] | 12 | spinning as first waiter while the owner runs, then sleeping; lends its priority meanwhile | by priority |
//! | [`LockRef`] | [`raw::LockRef`] | 8 | a count and a spinlock in one word: as [`SpinLock`], and only while somebody holds it | as [`SpinLock`] |
//! | [`McsLock`], [`TicketLock`], [`TtasLock`] | [`raw::RawMcsLock`], [`raw::RawTicketLock`], [`raw::RawTtasLock`] | 4 | spinning; baselines to measure against | in order; in order; none |
//!
//! A *turn* is 0.4 ms: for so long, running threads may pass a lock around while others sleep. A
//! waiter has one of its own, after those of the waiters ahead. That is what keeps throughput when
//! threads outnumber CPUs; the bound is what keeps every thread going.
//!
//! # Promises
//!
//! * All-zero bytes are an unlocked lock; `const fn new`.
//! * No allocation, no panic, no change of errno and no thread-local destructor on any lock path.
//!   ([`RtMutex`] and [`TreeRtMutex`] panic where they could only hang, and at a foreign unlock;
//!   [`Semaphore`] where more units are asked for than there can be; [`Condvar`] where threads wait
//!   with two mutexes. Feature `deadlock` allocates, and has a thread-local destructor.)
//! * No spinning without bound on a thread that may not be running.
//! * A lock's memory must stay until every unlock call on it has returned. The spinlocks,
//!   [`QRwLock`] and [`TreeRtMutex`] may be freed by the next owner as soon as that one has
//!   unlocked them.
//! * Locks are not recursive. A guard may be forgotten: the lock stays locked, nothing else
//!   happens. A locked lock may be dropped by its owner.
//! * After `fork` the child has the locks as they were; those that other threads held stay held.
//!   The forking thread can release what it held, an [`RtMutex`] up to four forks deep.
//!
//! # Counters and their ends
//!
//! Guards can be forgotten and units released without end, so every count has one. None begins
//! anew: what would pass it is refused, or waits.
//!
//! | lock | counts | up to | there |
//! |---|---|---|---|
//! | [`RwSem`] | readers | 2⁵⁵ | `try_read` is `None`; `read` waits until a reader leaves, a timed one at most its time. No writer enters |
//! | [`ReadMostly`], [`PerCpuRwSem`] | readers, apart | 2³⁰ | no writer enters any more |
//! | [`QRwLock`] | readers | 2²² | the same |
//! | [`Semaphore`] | units | 2³¹ − 1, [`MAX_UNITS`](raw::MAX_UNITS) | [`release`](raw::Semaphore::release) is `false` and adds nothing; `new` cuts off; a permit that is dropped is gone |
//! | [`LockRef`] | references | 2³¹ − 1 | [`get_not_zero`](raw::LockRef::get_not_zero), [`get_not_dead`](raw::LockRef::get_not_dead) are `false`; [`get`](raw::LockRef::get), which cannot refuse, saturates: the object is never given up. Dead stays dead |
//! | [`Mutex`], [`RtMutex`], [`TreeRtMutex`], [`SpinLock`], [`CnaSpinLock`], [`HqSpinLock`], [`McsLock`], [`TtasLock`] | nothing | – | not recursive; a waiter queues by its thread record; without one (65,022 threads have one) it looks now and then |
//! | [`TicketLock`] | threads that wait | 65,535 | a number for each of the 65,022 threads that have a record, and 513 for waits in signal handlers; threads without a record draw none, and look now and then |
//! | [`Condvar`] | nothing | – | |
//! | `RtCondvar` | threads that wait | 2¹⁹ − 1 | one more is not counted: its wait is a nap, and returns for no reason |
//! | `RtCondvar` | notifications | 2³², in a circle | a thread that is about to sleep while exactly so many come overlooks them |
//! | [`FutexHash`] | threads that wait in a bucket | 2³¹ − 1 | more than the kernel has threads |
//! | owner-checking C and pthread objects | users of one thread record | 2¹⁵, in a circle | the owner is the record and this count: the 32,768th later thread on the record of a thread that ended as owner passes for it |
//!
//! The C interface waits and refuses likewise (`EBUSY`; `EOVERFLOW` for a unit). The preload
//! library answers a reader with `EAGAIN`, as glibc does.
//!
//! # Looking inside
//!
//! Every decision of a slow path counts a named event: [`event::Snapshot::now`]. With
//! `use lockyard_stat as _;` in a program (crate `lockyard-stat`), `lockyard stat -- PROGRAM` says
//! which lock hurts, which lines wait for it, and which thread holds it at which line.
//!
//! # Where what is
//!
//! Here: the types. [`raw`]: the locks without data, on any platform; each says what it guarantees,
//! and in which file that is argued. [`platform`]: what a platform of your own implements.
//! [`event`]: the counters.
//!
//! # Features
//!
//! `std` (default): the real machine. Without it only the generic algorithms remain, for platforms
//! of your own. `events` (default): the counters; without it they cost nothing and take no memory.
//! `deadlock`: `deadlock::check_deadlock` finds cycles of waits, and names threads and locks.
//! `stat`: locks tell the crate `lockyard-stat`, which turns it on, what they do. `history`: the
//! kernel's locks of other years, for measurements. `portable`: on Linux, the machine of other
//! systems. `unstable-internals`: what the locks are made of, for Lockyard's own crates; it changes
//! in any release.
//!
//! # Systems
//!
//! Linux has all of the above. On macOS, Windows, the BSDs, Android and WebAssembly the same types
//! stand on the standard library (`src/platform/portable.rs`): they keep order, bounds and promises
//! about memory. They know no priorities, NUMA nodes or `fork`; a waiter cannot tell whether the
//! owner runs, and spins 20 µs at most; [`RtMutex`] is [`TreeRtMutex`], and `RtCondvar`,
//! `CheckedMutex` and `RtMutexWith` are absent. A thread's first lock may allocate, and signal
//! handlers must not lock.
//!
//! A processor without atomics of 64 bits has those of the crate `portable-atomic`, which locks for
//! them: there signal handlers must not lock either, and a fork beside another thread may leave the
//! child with such a lock held.

#![no_std]

#[cfg(any(feature = "arc_lock", feature = "deadlock"))]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(all(target_arch = "x86_64", target_pointer_width = "32"))]
compile_error!("lockyard: x32 is not supported; build for x86_64-unknown-linux-gnu or i686-unknown-linux-gnu");

#[cfg(feature = "deadlock")]
pub mod deadlock;
#[cfg(not(feature = "deadlock"))]
#[allow(unreachable_pub)] // public with the feature
mod deadlock;
pub mod event;
#[cfg(feature = "std")]
mod front;
#[cfg(feature = "history")]
pub mod history;
pub mod platform;
pub mod raw;

/// What the locks are made of. Public with the feature `unstable-internals`, and never stable.
#[cfg_attr(not(feature = "unstable-internals"), allow(dead_code, unreachable_pub, unused_imports))]
#[path = ""]
mod internals {
    pub mod api;
    pub mod cancel;
    pub mod condvar;
    pub mod futex_hash;
    pub mod lockref;
    pub mod mutex;
    pub mod qrwlock;
    pub mod rtcondvar;
    pub mod rtmutex;
    pub mod rtmutex_tree;
    pub mod rwsem;
    pub mod semaphore;
    pub mod spin;
    pub mod wait;
}

#[cfg(not(feature = "unstable-internals"))]
use internals::*;
#[cfg(feature = "unstable-internals")]
pub use internals::*;

pub use api::{CancellableCondvar, CancellableMutex, CancellableRwLock, CancellableSemaphore};
pub use cancel::{GaveUp, Until};
#[cfg(feature = "std")]
pub use front::*;
pub use futex_hash::Waited as FutexWaited;
pub use lock_api;
