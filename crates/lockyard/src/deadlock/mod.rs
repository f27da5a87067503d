//! Deadlock detection (feature `deadlock`): cycles of threads that wait for each other's locks.
//!
//! Each thread notes which locks it holds, and which it waits for. [`check_deadlock`] looks at the
//! notes of all threads at one instant, and returns the cycles.
//!
//! ```
//! # #[cfg(feature = "deadlock")] {
//! // In a thread of its own, now and then:
//! for cycle in lockyard::deadlock::check_deadlock() {
//!     for thread in cycle {
//!         eprintln!("{thread}\n{}", thread.backtrace());
//!     }
//! }
//! # }
//! ```
//!
//! # What is seen
//!
//! | lock | noted |
//! |---|---|
//! | `Mutex`, `FairMutex`, `ReentrantMutex`, `RtMutex`, `TreeRtMutex` | the owner, and threads in `lock` |
//! | `RwSem`, `RwLock`, `RecursiveRwLock` | each holder with its mode, and threads in `read`, `write`, `upgradable_read` and `upgrade` |
//! | `Condvar`, `RtCondvar` | the mutex is given up during the wait |
//! | `Semaphore` | nothing: any thread may return a permit, so no set of waiters is known to be stuck |
//! | `QRwLock` | nothing: its guards can be sent, so a thread may not hold what it has locked |
//! | spinlocks, `LockRef`, raw locks, those of C | nothing |
//!
//! A call that may end by itself (`try_…`, a deadline, a token, an `Until`) is no part of a cycle.
//! Its success is noted as any other.
//!
//! # What a report means
//!
//! A thread notes a hold after it has the lock, and takes the note back before it releases it; it
//! notes a wait before it begins, and takes it back after it has the lock. So at the instant of
//! the look each noted hold is real, and so is each wait for a lock that the note of another thread
//! excludes. A cycle of these is a deadlock: no false alarm.
//!
//! One kind of cycle is less certain: a reader that waits behind a writer, which waits for other
//! readers. The reader may be about to go in. Such a cycle is reported if it has stood, with the
//! same waits, for [`SETTLED`]. It is in any case an order of locking that can deadlock.
//!
//! A thread that was notified and waits for the mutex of its condition variable is noted with
//! neither. A lock whose guard was forgotten stays noted until its thread ends: if it is dropped or
//! moved, another lock at that address may be taken for it.
//!
//! # Cost
//!
//! Without the feature: none, not an instruction. With it, each call takes and releases a mutex of
//! std's that only the checker contends for; a wait takes a backtrace and an allocation; the first
//! lock of a thread allocates. Memory: a record a thread while it lives, an entry a held lock.
//! Signal handlers must not lock then, nor may a global allocator, nor the child of a fork before
//! it executes another program.

#[cfg(feature = "deadlock")]
mod cycles;

pub use crate::platform::mode::Mode;
#[cfg(feature = "deadlock")]
use crate::platform::notes;
#[cfg(feature = "deadlock")]
pub use crate::platform::notes::LockUse;
#[cfg(feature = "deadlock")]
pub use cycles::{DeadlockedThread, SETTLED, check_deadlock};

/// The name of a lock's kind. `None`: it is not watched.
pub(crate) type Kind = Option<&'static str>;

/// The one kind whose readers do not wait behind a waiting writer for ever.
#[cfg(feature = "deadlock")]
const RECURSIVE_RW_LOCK: &str = "RecursiveRwLock";

/// Takes `lock` by `wait`; `attempt` takes it if that is possible now.
#[inline(always)]
pub(crate) fn acquire_or_fail<L, E>(
    lock: &L,
    kind: Kind,
    mode: Mode,
    attempt: impl FnOnce() -> bool,
    wait: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    #[cfg(feature = "deadlock")]
    if let Some(kind) = kind {
        if attempt() {
            notes::acquired(lock, kind, mode);
        } else {
            let waiting = notes::waits(lock, kind, mode);
            wait()?;
            waiting.acquired();
        }
        return Ok(());
    }
    let _ = (lock, kind, mode, attempt);
    wait()
}

/// `lock` was taken by a try that needs no wait: if `taken`.
#[inline(always)]
pub(crate) fn attempt<L>(lock: &L, kind: Kind, mode: Mode, taken: bool) -> bool {
    if taken {
        acquired(lock, kind, mode);
    }
    taken
}

/// `lock` was taken, by a wait that ends.
#[inline(always)]
pub(crate) fn acquired<L>(lock: &L, kind: Kind, mode: Mode) {
    #[cfg(feature = "deadlock")]
    if let Some(kind) = kind {
        notes::acquired(lock, kind, mode);
    }
    let _ = (lock, kind, mode);
}

/// `lock`, held as `mode`, is about to be released.
#[inline(always)]
pub(crate) fn released<L>(lock: &L, kind: Kind, mode: Mode) {
    #[cfg(feature = "deadlock")]
    if kind.is_some() {
        notes::released(lock, mode);
    }
    let _ = (lock, kind, mode);
}

/// The calling thread holds `lock` as `to`, not as `from`, from now on.
#[inline(always)]
pub(crate) fn changed<L>(lock: &L, kind: Kind, from: Mode, to: Mode) {
    #[cfg(feature = "deadlock")]
    if kind.is_some() {
        notes::changed(lock, from, to);
    }
    let _ = (lock, kind, from, to);
}
