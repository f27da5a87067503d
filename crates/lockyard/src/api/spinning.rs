//! The raw spinlocks, as `lock_api` has them.

use lock_api::GuardSend;

use super::calls::{self, Watched};
use crate::deadlock::Mode::Exclusive;
use crate::platform::watch::{Class, Look};
use crate::platform::{ConstPlatform, Platform};
use crate::spin::{WordLock, cna, hq, mcs, qspinlock, ticket, ttas};

macro_rules! spinning {
    ($($(#[$doc:meta])* $lock:ident = $inner:ident::$raw:ident, $kind:literal;)*) => {$(
        $(#[$doc])*
        #[cfg_attr(not(feature = "stat"), repr(transparent))]
        pub struct $lock<P: Platform>($inner::$raw<P>, Class);

        impl<P: Platform> Default for $lock<P> {
            fn default() -> Self {
                Self($inner::$raw::default(), Class::new())
            }
        }

        // SAFETY: one thread owns the word at a time, and acquires on the release before: the
        // lock's theory page argues it.
        unsafe impl<P: ConstPlatform> lock_api::RawMutex for $lock<P> {
            #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
            const INIT: Self = Self($inner::$raw::new(), Class::new());
            type Guard = GuardSend;

            #[inline]
            fn lock(&self) -> GuardSend {
                calls::acquire(self, Exclusive, || self.0.try_acquire(), || self.0.acquire());
                GuardSend::new()
            }

            #[inline]
            fn try_lock(&self) -> Option<GuardSend> {
                calls::attempt(self, Exclusive, || self.0.try_acquire()).then(GuardSend::new)
            }

            #[inline]
            unsafe fn unlock(&self, _guard: GuardSend) {
                // SAFETY: the guard stands for an acquisition of this lock.
                calls::release(self, Exclusive, || unsafe { self.0.release() });
            }

            #[inline]
            fn is_locked(&self) -> bool {
                self.0.is_locked()
            }
        }

        impl<P: Platform> core::fmt::Debug for $lock<P> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<P: Platform> Look for $lock<P> {}

        impl<P: Platform> Watched for $lock<P> {
            const KIND: &'static str = $kind;

            fn class(&self) -> Option<&Class> {
                Some(&self.1)
            }
        }

        // SAFETY: those of the lock that it is made of.
        unsafe impl<P: Platform> WordLock<P> for $lock<P> {
            const NAME: &'static str = <$inner::$raw<P> as WordLock<P>>::NAME;
            const UNLOCKED: u32 = <$inner::$raw<P> as WordLock<P>>::UNLOCKED;
            type Word = $inner::$raw<P>;

            #[inline(always)]
            fn is_unlocked(word: u32) -> bool {
                <$inner::$raw<P> as WordLock<P>>::is_unlocked(word)
            }

            #[inline]
            fn acquire(&self) {
                self.0.acquire();
            }

            #[inline]
            fn try_acquire(&self) -> bool {
                self.0.try_acquire()
            }

            #[inline]
            unsafe fn release(&self) {
                // SAFETY: the caller's promise.
                unsafe { self.0.release() };
            }
        }
    )*};
}

spinning! {
    /// The queued spinlock: 4 bytes.
    ///
    /// Fairness: running threads pass a waiter for at most a turn, 0.4 ms, and one more per waiter
    /// ahead of it. Ordering: what an owner did happens before the next acquisition returns. Cost
    /// without contention: one compare-exchange, one store. A waiter spins, then sleeps: the owner
    /// may have lost its CPU. The next owner may free the lock as soon as it has unlocked it. A
    /// guard may go to another thread. Theory: `src/spin/queued.rs`.
    RawQSpinLock = qspinlock::RawQSpinLock, "SpinLock";
    /// The compact NUMA-aware spinlock: 4 bytes.
    ///
    /// As [`RawQSpinLock`], but the head of the queue moves waiters of other NUMA nodes aside, for
    /// a millisecond at most. Theory: `src/spin/cna.rs`.
    RawCnaSpinLock = cna::RawCnaSpinLock, "CnaSpinLock";
    /// The hierarchical spinlock: 4 bytes.
    ///
    /// As [`RawQSpinLock`], but under contention its waiters queue by NUMA node, or by last-level
    /// cache. A node's waiters are served in order of arrival, and nodes in a circle; what
    /// [`Tunables`](hq::Tunables) say decides when, and for how long. Theory: `src/spin/hq/mod.rs`.
    RawHqSpinLock = hq::RawHqSpinLock, "HqSpinLock";
    /// The MCS lock: 4 bytes. To measure against.
    ///
    /// Strict order of arrival; each waiter spins on a line of its own, then naps. Theory:
    /// `src/spin/mcs.rs`.
    RawMcsLock = mcs::RawMcsLock, "McsLock";
    /// The ticket spinlock: 4 bytes. To measure against.
    ///
    /// Strict order of arrival; all waiters spin on one line, then nap. Theory:
    /// `src/spin/ticket.rs`.
    RawTicketLock = ticket::RawTicketLock, "TicketLock";
    /// The test-and-test-and-set spinlock: 4 bytes. To measure against.
    ///
    /// No order: a waiter may wait for ever. All waiters spin on one line, then nap. Theory:
    /// `src/spin/ttas.rs`.
    RawTtasLock = ttas::RawTtasLock, "TtasLock";
}
