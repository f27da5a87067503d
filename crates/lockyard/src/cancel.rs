//! When a blocking acquisition gives up: a deadline, a cancellation token, or never.
//!
//! A [`CancelToken`] takes the place of the kernel's "killable" and "interruptible" waits.
//! [`CancelToken::cancel`] wakes every thread that waits with the token; their lock calls return
//! [`GaveUp::Cancelled`], unless the lock was granted to them first. A cancelled token stays
//! cancelled: later waits with it fail at once, but an acquisition that need not wait still
//! succeeds.
//!
//! **Ordering.** `cancelled` is stored (Release) before the token's lock is taken to wake the list;
//! a waiter joins the list under that lock and reads `cancelled` (Acquire) afterwards. One of the
//! two sees the other. Wake-ups are sticky, so one that comes between the waiter's look and its
//! sleep is not lost.
//!
//! **Signal handlers.** A thread has one link for token lists: from before it joins one until it
//! has left, a wait from a handler does not queue.
//!
//! **Lifetime.** A token must outlive the waits that use it; the borrow says so.

use core::fmt;

use crate::platform::pi::At;
use crate::platform::thread::Thread;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::queue::{TOKEN, WaitQueue};
use crate::wait::section;

/// Why a blocking acquisition returned without the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GaveUp {
    /// The deadline passed.
    TimedOut,
    /// The token was cancelled.
    Cancelled,
}

impl core::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            GaveUp::TimedOut => "the lock was not acquired before the deadline",
            GaveUp::Cancelled => "the wait for the lock was cancelled",
        })
    }
}

impl core::error::Error for GaveUp {}

/// Ends waits: a lock call that waits with a token returns [`GaveUp::Cancelled`] once it is
/// cancelled.
///
/// A cancelled token stays cancelled: later waits with it end at once, but an acquisition that need
/// not wait still succeeds. A token may be used by many waits at a time. Theory: `src/cancel.rs`.
pub struct CancelToken<P: Platform> {
    cancelled: P::U32,
    lock: RawQSpinLock<P>,
    waiters: WaitQueue<P, TOKEN>,
}

impl<P: Platform> fmt::Debug for CancelToken<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

impl<P: Platform> Default for CancelToken<P> {
    fn default() -> Self {
        Self { cancelled: P::U32::default(), lock: RawQSpinLock::default(), waiters: WaitQueue::default() }
    }
}

impl<P: Platform> CancelToken<P> {
    /// A token that is not cancelled.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { cancelled: P::U32::ZERO, lock: RawQSpinLock::new(), waiters: WaitQueue::new() }
    }

    /// Cancels: every present and future wait with this token ends. A waiter that is told sees what
    /// was done before.
    pub fn cancel(&self) {
        self.cancelled.store(1, Release);
        section::enter(&self.lock);
        let mut next = self.waiters.first();
        while let Some(waiter) = next {
            next = self.waiters.after(waiter);
            waiter.unpark();
        }
        // SAFETY: acquired above.
        unsafe { section::exit(&self.lock) };
    }

    /// Makes a cancelled token good again. For a caller that knows that all its waits were told.
    pub fn renew(&self) {
        // Relaxed: a waiter that sees this goes on waiting, as if it had never been cancelled, and
        // reads nothing because of it.
        self.cancelled.store(0, Relaxed);
    }

    /// Whether [`CancelToken::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Acquire) != 0
    }
}

/// For embedders, which know of forks.
#[cfg(feature = "unstable-internals")]
impl<P: Platform> CancelToken<P> {
    /// In a child process: good again, and without the parent's waiters.
    ///
    /// # Safety
    /// No thread of this process waits with the token, or cancels it, until this returns.
    pub unsafe fn forget_waiters(&self) {
        self.waiters.forget();
        // SAFETY: nobody in this process holds it: its holder, if any, was another thread of the
        // parent.
        unsafe { self.lock.forget() };
        self.renew();
    }
}

/// A waiter that sleeps by the monotonic clock looks at the real-time clock so often.
pub(crate) const LOOK_NS: u64 = 100_000_000;

/// When a wait ends without success.
#[derive(Debug)]
pub struct Until<'a, P: Platform> {
    deadline: Option<At>,
    token: Option<&'a CancelToken<P>>,
}

impl<P: Platform> Clone for Until<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Until<'_, P> {}

impl<'a, P: Platform> Until<'a, P> {
    /// Never.
    pub const FOREVER: Self = Self { deadline: None, token: None };

    /// At `deadline`, absolute nanoseconds of [`Platform::now`].
    pub const fn deadline(deadline: u64) -> Self {
        Self { deadline: Some(At::Monotonic(deadline)), token: None }
    }

    /// At `deadline`, absolute nanoseconds of the real-time clock, [`Platform::realtime`]. A wait
    /// notices that the clock was set: at once, or within 0.1 s if it also keeps a turn.
    pub const fn realtime(deadline: u64) -> Self {
        Self { deadline: Some(At::Realtime(deadline)), token: None }
    }

    /// After `ns` nanoseconds from now.
    pub fn after(ns: u64) -> Self {
        Self::deadline(P::now().saturating_add(ns))
    }

    /// When `token` is cancelled.
    pub const fn cancelled(token: &'a CancelToken<P>) -> Self {
        Self { deadline: None, token: Some(token) }
    }

    /// ... or when `token` is cancelled.
    #[must_use]
    pub const fn or_cancelled(mut self, token: &'a CancelToken<P>) -> Self {
        self.token = Some(token);
        self
    }

    /// ... or `ns` nanoseconds from now.
    pub(crate) fn or_after(self, ns: u64) -> Self {
        self.slice(P::now().saturating_add(ns))
    }

    /// When it ends by itself, on its own clock.
    pub(crate) fn end(&self) -> Option<At> {
        self.deadline
    }

    /// The time at which to stop sleeping, as far as is known now. Of [`Platform::now`].
    pub(crate) fn wake_time(&self) -> Option<u64> {
        match self.deadline {
            None => None,
            Some(At::Monotonic(deadline)) => Some(deadline),
            Some(At::Realtime(deadline)) => Some(P::now().saturating_add(deadline.saturating_sub(P::realtime()))),
        }
    }

    /// The earlier of the wait's own end and `other`, for a wait that looks again then: soon, if
    /// its own clock may be set meanwhile.
    pub(crate) fn wake_time_or(&self, other: u64) -> Option<u64> {
        let look = match self.deadline {
            Some(At::Realtime(_)) => other.min(P::now().saturating_add(LOOK_NS)),
            _ => other,
        };
        Some(self.wake_time().map_or(look, |deadline| deadline.min(look)))
    }

    /// The same wait, but no longer than until `other`.
    pub(crate) fn slice(self, other: u64) -> Self {
        Self { deadline: self.wake_time_or(other).map(At::Monotonic), ..self }
    }

    /// Puts `me`, the calling thread, to sleep until it is notified or the wait's own end comes, on
    /// the clock of that.
    pub(crate) fn park(&self, me: &Thread<P>) {
        match self.deadline {
            Some(At::Realtime(deadline)) => me.park_realtime(deadline),
            _ => me.park(self.wake_time()),
        }
    }

    /// Whether a token may end the wait.
    pub(crate) fn is_cancellable(&self) -> bool {
        self.token.is_some()
    }

    /// Whether the wait is over. Reads the clock only if there is a deadline.
    pub(crate) fn over(&self) -> Option<GaveUp> {
        if self.token.is_some_and(CancelToken::is_cancelled) {
            return Some(GaveUp::Cancelled);
        }
        let over = match self.deadline {
            None => false,
            Some(At::Monotonic(deadline)) => P::now() >= deadline,
            Some(At::Realtime(deadline)) => P::realtime() >= deadline,
        };
        over.then_some(GaveUp::TimedOut)
    }

    /// Runs a wait of `me`: its token, if any, knows whom to wake meanwhile.
    pub(crate) fn watching<R>(&self, me: &Thread<P>, wait: impl FnOnce() -> R) -> R {
        let Some(token) = self.token else { return wait() };
        let listed = |change: fn(&WaitQueue<P, TOKEN>, &Thread<P>) -> bool| {
            section::locked(&token.lock, || change(&token.waiters, me));
        };
        me.waiter.enter();
        listed(WaitQueue::push);
        let result = wait();
        listed(WaitQueue::remove);
        me.waiter.leave();
        result
    }

    /// For a thread that may not queue (registry exhausted, signal handler): tries again and again,
    /// giving the CPU away in between.
    pub(crate) fn poll(&self, mut attempt: impl FnMut() -> bool) -> Result<(), GaveUp> {
        let mut round = 0u32;
        loop {
            if attempt() {
                if round > 0 {
                    P::after_naps();
                }
                return Ok(());
            }
            if let Some(end) = self.over() {
                return Err(end);
            }
            P::nap(round);
            round = round.saturating_add(1);
        }
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn a_wait_ends_by_what_it_was_given() {
        let token = CancelToken::<Linux>::new();
        let either = Until::deadline(5).or_cancelled(&token);
        let waits = [Until::FOREVER, Until::deadline(5), Until::cancelled(&token), either];
        assert_eq!(waits.map(|until| until.is_cancellable()), [false, false, true, true]);
        assert_eq!(waits.map(|until| until.wake_time()), [None, Some(5), None, Some(5)]);
        assert_eq!(waits.map(|until| until.wake_time_or(7)), [Some(7), Some(5), Some(7), Some(5)]);
        assert_eq!(waits.map(|until| until.wake_time_or(3)), [Some(3); 4]);
    }
}
