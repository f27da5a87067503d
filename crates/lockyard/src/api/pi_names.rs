//! The names of the locks that stand on the kernel's PI futexes.

use super::{RawRtCondvar, RawRtMutex};
use crate::platform::linux::Linux;
use crate::rtmutex::Lateral;

pub use super::CheckedMutex;
pub use crate::rtmutex::PiError;

/// A priority-inheritance mutex, for threads of different priorities: the owner runs at the
/// priority of the most urgent thread that waits for it.
///
/// Order: by priority, in the kernel; among time-sharing threads as [`Mutex`](crate::Mutex). Bound:
/// none between priorities; a turn, 0.4 ms, and one more per waiter ahead among time-sharing
/// threads. Cost without contention: a compare-exchange each way. Needs no privilege. Size: 24
/// bytes. Memory: it must stay until each unlock has returned. Fork: the forking thread can release
/// what it held, up to four forks deep. A panic unlocks; nothing is poisoned.
///
/// # Panics
/// `lock` panics where it could only hang: locked by its own owner, a cycle of waits, an owner that
/// has exited. `CheckedMutex` returns errors instead. An unlock by another thread than the owner.
///
/// ```
/// use std::time::Duration;
/// use lockyard::RtMutex;
///
/// static SETPOINT: RtMutex<f64> = RtMutex::new(0.5);
///
/// // A control loop of high priority waits for the section of the owner at most.
/// *SETPOINT.lock() += 0.25;
/// assert_eq!(SETPOINT.try_lock_for(Duration::from_millis(1)).map(|value| *value), Some(0.75));
/// ```
///
/// Theory: `src/rtmutex/mod.rs`; on any platform: [`raw::RawRtMutex`](crate::raw::RawRtMutex).
pub type RtMutex<T> = lock_api::Mutex<RawRtMutex<Linux, Lateral>, T>;
/// A [`RtMutex`] with policy `S`: see [`pi_policy`](crate::raw::pi_policy).
pub type RtMutexWith<S, T> = lock_api::Mutex<RawRtMutex<Linux, S>, T>;
/// A locked [`RtMutex`].
pub type RtMutexGuard<'a, T, S = Lateral> = lock_api::MutexGuard<'a, RawRtMutex<Linux, S>, T>;
/// The condition variable of [`RtMutex`]: a notified thread waits for the mutex by its priority
/// from the notification on.
///
/// Order: by priority. Waits may end spuriously; notifications are not counted (`false`, 0); tokens
/// are not looked at. Size: 16 bytes. Memory: it must stay until each call has returned.
///
/// ```
/// use lockyard::{RtCondvar, RtMutex};
///
/// static SAMPLES: RtMutex<Vec<u32>> = RtMutex::new(Vec::new());
/// static ARRIVED: RtCondvar = RtCondvar::new();
///
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         SAMPLES.lock().push(7);
///         ARRIVED.notify_one();
///     });
///     let mut samples = SAMPLES.lock();
///     ARRIVED.wait_while(&mut samples, |samples| samples.is_empty());
///     assert_eq!(samples.pop(), Some(7));
/// });
/// ```
///
/// Theory: `src/rtcondvar.rs`; on any platform: [`raw::RawRtCondvar`](crate::raw::RawRtCondvar).
pub type RtCondvar = lock_api::Condvar<RawRtCondvar<Linux, Lateral>>;
/// The condition variable of [`RtMutexWith`].
pub type RtCondvarWith<S> = lock_api::Condvar<RawRtCondvar<Linux, S>>;
