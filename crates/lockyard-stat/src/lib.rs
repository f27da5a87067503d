//! `lockyard stat` sees the locks of a Rust program: which one hurts, which lines wait for it,
//! which thread holds it at which line.
//!
//! ```toml
//! [dependencies]
//! lockyard = "0.1"
//! lockyard-stat = "0.1"
//!
//! [profile.release]
//! debug = "line-tables-only"    # lines, not addresses
//! ```
//!
//! ```
//! // In main.rs, once:
//! use lockyard_stat as _;
//! ```
//!
//! ```text
//! cargo build --release
//! lockyard stat -- target/release/my-program
//! ```
//!
//! `lockyard top`, `lockyard record` and `lockyard stat --pid` work likewise: a program that is
//! started with `LOCKYARD_STAT=1` in its environment, or calls [`open`], can be looked at.
//!
//! # What is seen
//!
//! | lock | seen |
//! |---|---|
//! | `Mutex`, `FairMutex`, `ReentrantMutex` | acquisitions, waits, holds, tries |
//! | `RtMutex`, `TreeRtMutex` | the same |
//! | `RwSem`, `RwLock`, `RecursiveRwLock` | the same, readers and writers apart |
//! | `ReadMostly`, `PerCpuRwSem` | the same |
//! | the spinlocks, `QRwLock` | the same without holds: a guard may go to another thread |
//! | `Condvar`, `RtCondvar` | the mutex is given up, and waited for afterwards |
//! | `Semaphore`, `LockRef` | events alone |
//! | locks that are not Lockyard's | nothing |
//!
//! A change of mode counts as a release and an acquisition.
//!
//! A lock's class is the place at which it was first taken: the locks of one field are several
//! classes if different lines took them first. [`Named`] gives them a name of the program's own,
//! and makes them one. There are 255 classes, of which 159 may be places; locks of further ones are
//! counted together. Name what locks are for ("shard"), not each lock ("shard 17").
//!
//! `lockyard record` takes a guard that goes to another thread to be held to the end: do not record
//! such a program.
//!
//! pthread locks of such a program are not seen beside Lockyard's.
//!
//! Lines need an optimised build (`opt-level` 1, 2, 3 or `"s"`, not `"z"`): without, the lock calls
//! are functions of their own, and the line is one in `lock_api`. A function that is inlined in two
//! places counts as two. On other processors than x86-64 and AArch64 no line is known.
//!
//! # Cost
//!
//! A lock is one word larger: a spinlock has 8 bytes, a `Mutex` 40. While nobody has asked, a call
//! is one load and a branch dearer. While somebody has, 10 to 20 ns; a call that waits reads the
//! clock four times, and for a lock with readers looks at the pages of 64 threads, and now and then
//! of all. See [`lockyard_segment`](https://docs.rs/lockyard-segment).
//!
//! The crate turns on the features `std`, `events`, `stat` and `unstable-internals` of `lockyard`.
//!
//! Linux. On other systems [`open`] refuses, and nothing else happens.

#[cfg(target_os = "linux")]
mod linux;

use lockyard::api::Watched;
use lockyard::lock_api::{Mutex, RawMutex, RawRwLock, RwLock};

/// Why there are no statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The file in `/dev/shm` could not be made or mapped, or there was no room: the number is the
    /// system's `errno`.
    System(i32),
    /// There are none on this system.
    Unsupported,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::System(error) => {
                write!(f, "no statistics in /dev/shm: {}", std::io::Error::from_raw_os_error(error))
            }
            Self::Unsupported => f.write_str("lock statistics need Linux"),
        }
    }
}

impl std::error::Error for Refused {}

/// Lets `lockyard stat` see what this process's locks do, from now on.
///
/// A program that is started with `LOCKYARD_STAT` in its environment, and `lockyard stat -- …`
/// starts it so, need not call this. Allocates, and registers handlers for fork and exit.
///
/// # Errors
/// Why not. The locks work as well without.
pub fn open() -> Result<(), Refused> {
    #[cfg(target_os = "linux")]
    return linux::open();
    #[cfg(not(target_os = "linux"))]
    Err(Refused::Unsupported)
}

/// Names for locks, as reports show them.
///
/// ```
/// use lockyard::Mutex;
/// use lockyard_stat::Named;
///
/// let accounts = Mutex::named("accounts", vec![1, 2, 3]);
/// static TOTAL: Mutex<u64> = Mutex::new(0);
/// TOTAL.set_name("total");
/// # assert_eq!(accounts.lock().len(), 3);
/// ```
pub trait Named {
    /// What the lock protects.
    type Target;

    /// A lock around `value` that reports call `name` (its first 168 bytes). Locks of one type and
    /// one name are one class.
    fn named(name: &str, value: Self::Target) -> Self;

    /// Gives the lock a name, in place of the one it had. What was counted before stays with that.
    fn set_name(&self, name: &str);
}

macro_rules! named {
    ($lock:ident, $raw:ident) => {
        impl<R: $raw + Watched, T> Named for $lock<R, T> {
            type Target = T;

            fn named(name: &str, value: T) -> Self {
                let lock = Self::new(value);
                lock.set_name(name);
                lock
            }

            fn set_name(&self, name: &str) {
                // SAFETY: the raw lock is not acquired here, nor released.
                let raw = unsafe { self.raw() };
                #[cfg(target_os = "linux")]
                linux::set_name(raw, name);
                #[cfg(not(target_os = "linux"))]
                let _ = (raw, name);
            }
        }
    };
}

named!(Mutex, RawMutex);
named!(RwLock, RawRwLock);
