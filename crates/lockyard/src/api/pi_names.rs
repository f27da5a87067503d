//! The names of the locks that stand on the kernel's PI futexes.

use super::{RawRtCondvar, RawRtMutex};
use crate::platform::linux::Linux;
use crate::rtmutex::Lateral;

pub use super::CheckedMutex;
pub use crate::rtmutex::PiError;

/// A priority-inheritance mutex: a thread of low priority that holds it runs at the priority of
/// the most urgent one that waits for it. See [`raw::RawRtMutex`](crate::raw::RawRtMutex).
///
/// Order: by priority; among time-sharing threads as [`Mutex`](crate::Mutex). Ordering: Acquire and
/// Release. Cost: without contention one compare-exchange each way. Needs no privilege. Works in
/// one process, between threads that keep their own thread ids: see `fork` there.
///
/// # Panics
/// `lock` panics where it could only hang: locked by its own owner, a cycle of waits, an owner
/// that has exited. [`CheckedMutex`] returns errors instead.
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
pub type RtMutex<T> = RtMutexWith<Lateral, T>;
/// A [`RtMutex`] with policy `S`: see [`pi_policy`](crate::raw::pi_policy).
pub type RtMutexWith<S, T> = lock_api::Mutex<RawRtMutex<Linux, S>, T>;
/// A locked [`RtMutex`].
pub type RtMutexGuard<'a, T, S = Lateral> = lock_api::MutexGuard<'a, RawRtMutex<Linux, S>, T>;
/// The condition variable of [`RtMutex`]: a notified thread waits for the mutex by its priority
/// from the notification on. Waits may end spuriously; notifications are not counted (`false`,
/// 0). See [`raw::RawRtCondvar`](crate::raw::RawRtCondvar).
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
pub type RtCondvar = RtCondvarWith<Lateral>;
/// The condition variable of [`RtMutexWith`].
pub type RtCondvarWith<S> = lock_api::Condvar<RawRtCondvar<Linux, S>>;
