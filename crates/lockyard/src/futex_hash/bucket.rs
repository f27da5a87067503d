//! A bucket of a futex hash, and what may lock it.

use core::fmt;

use super::MOVED;
use crate::platform::thread::Thread;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::WordLock;
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::queue::WaitQueue;

/// A lock for buckets: every [`WordLock`] is one, and whatever else runs a section under a lock.
///
/// # Safety
///
/// * [`with`](BucketLock::with) runs the section once, on the calling thread, and returns what it
///   has returned.
/// * Of all sections of one lock one runs at a time, and sees what those before it did.
///
/// ```compile_fail,E0200
/// #[derive(Default)]
/// struct Nothing; // a lock that does not lock takes an `unsafe` to write down
/// impl lockyard::raw::BucketLock<lockyard::platform::Native> for Nothing {
///     fn with<R>(&self, section: impl FnOnce() -> R) -> R { section() }
/// }
/// ```
pub unsafe trait BucketLock<P: Platform>: Default + Send + Sync {
    /// Runs `section` with the lock held.
    fn with<R>(&self, section: impl FnOnce() -> R) -> R;
}

// SAFETY: between `acquire` and `release` of such a lock one thread is at a time, and sees what the
// one before it did: its own promise.
unsafe impl<P: Platform, K: WordLock<P>> BucketLock<P> for K {
    #[inline]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // No child of a fork begins with a bucket locked.
        P::begin_window();
        self.acquire();
        let result = section();
        // SAFETY: acquired above.
        unsafe { self.release() };
        P::end_window();
        result
    }
}

/// The bucket's second line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Queue<P: Platform>(pub(super) WaitQueue<P>);

/// A bucket of a [`FutexHash`](super::FutexHash). All-zero is empty if that is an unlocked `L`.
#[repr(C, align(64))]
pub struct Bucket<P: Platform, L: BucketLock<P> = RawQSpinLock<P>> {
    pub(super) waiters: P::U32,
    pub(super) lock: L,
    pub(super) queue: Queue<P>,
}

impl<P: Platform, L: BucketLock<P>> Default for Bucket<P, L> {
    fn default() -> Self {
        Self { waiters: P::U32::default(), lock: L::default(), queue: Queue(WaitQueue::default()) }
    }
}

impl<P: ConstPlatform> Bucket<P> {
    /// An empty bucket, in constants.
    pub const fn new() -> Self {
        Self { waiters: P::U32::ZERO, lock: RawQSpinLock::new(), queue: Queue(WaitQueue::new()) }
    }
}

impl<P: Platform, L: BucketLock<P>> fmt::Debug for Bucket<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("waiters", &self.waiters).finish_non_exhaustive()
    }
}

impl<P: Platform, L: BucketLock<P>> Bucket<P, L> {
    /// Under the lock: whether its sleepers are in the next table.
    pub(super) fn is_moved(&self) -> bool {
        self.waiters.load(Relaxed) & MOVED != 0
    }

    /// Under the lock: takes a sleeper out.
    pub(super) fn take_out(&self, thread: &Thread<P>) {
        self.queue.0.remove(thread);
        self.waiters.fetch_sub(1, Relaxed);
    }
}
