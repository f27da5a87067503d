//! The priority-inheritance mutex of the real machine: a kernel PI futex, with as little of the
//! kernel as strict order between classes allows.
//!
//! The kernel boosts an owner only for those who wait in the kernel, and from then on hands the
//! word over itself: every release is a system call and a switch to a thread that sleeps. That is
//! right where priorities differ, and costs a factor of 20 to 50 where they do not. So who waits
//! where depends on what its waiting can do for anybody:
//!
//! | caller | waits | because |
//! |---|---|---|
//! | of fixed priority, or with deadlines | as top waiter: spins for [`SPIN_NS`], then in the kernel | its priority must be lent, soon |
//! | time-sharing, and holding another such mutex | likewise, for [`NESTED_SPIN_NS`] | somebody urgent may wait for *it*: the chain must not end here |
//! | time-sharing, holding none | among its equals, in user space ([`lateral`]), for its turn; then in the kernel | it is of the lowest class: it has nothing to lend, and nobody below it could pass it |
//!
//! # The word
//!
//! The kernel's: see [`platform::pi`](crate::platform::pi). Beside it stand flags of our own, which
//! bind only those who wait in user space:
//!
//! | flag | meaning | changed by |
//! |---|---|---|
//! | `LISTENING` | the first lateral waiter sleeps and asks to be woken by the next release | it, or the owner for it; cleared by the release that obeys, and by who empties the queue |
//! | `TOP_SPINS` | the top waiter spins: time-sharing threads keep off. One spinner at a time: this is its slot | the spinner |
//! | `DEAD` | an owner exited with the mutex held | who finds out; for ever |
//!
//! | word | state | who changes it |
//! |---|---|---|
//! | 0 | free | anyone whom no flag forbids, one compare-exchange to its thread id |
//! | t | held; kernel knows nothing | t, one compare-exchange to 0; the kernel, to t + `WAITERS` |
//! | t + `WAITERS` | held; threads wait in the kernel, or did during this hold | the kernel: t's release is a system call that names the next owner, or writes 0 |
//! | t + `OWNER_DIED` (+ `WAITERS`) | the owner before t exited: t refuses, and says so | the kernel |
//!
//! # Strict order between classes
//!
//! While a thread waits in the kernel the word is never 0, so nobody passes it. While one spins as
//! top waiter, time-sharing threads keep off, and the release that it waits for can be passed by a
//! thread that was about to exchange the word already, once; another thread of fixed priority goes
//! to the kernel at once, which ends the spin. So the wait of the most urgent thread is at most
//!
//! > the rest of its spin, and one section of each owner in its chain, at the waiter's own
//! > priority, and their switches.
//!
//! A lateral waiter is time-sharing and holds no mutex of this kind. Two things escape it: that it
//! holds a PI lock of another make for which somebody urgent waits, and that its own priority was
//! raised meanwhile. Both are bounded by the turns of those ahead and its own, after which it waits
//! in the kernel; where that is too long, [`policy::Merged`] is the policy.
//!
//! **Bound on bypass.** Among equals in the kernel: none, order of arrival. Among lateral waiters:
//! that of [`wait::turn`](crate::wait::turn), a turn for each ahead.
//!
//! # Errors
//!
//! A lock that its owner locks again, and one that closes a cycle of waits, is refused: whoever
//! could be part of a cycle waits in the kernel, which looks. So is one whose owner exited: its
//! data may still be in use ([`lock_api::MutexGuard::leak`]), so it stays locked for ever, but
//! nobody hangs on it. The kernel goes by thread ids: if the dead owner's has been given to a new
//! thread, that one is waited for. A release by another than the owner is refused.
//!
//! # Memory ordering
//!
//! `word`: taking is Acquire, releasing is Release or stronger; through the kernel, its system
//! calls. Where the machine has pairs the fast paths exchange word and flags as one, and only if
//! there are no flags. Elsewhere, and on slow paths, a release stores the word and then reads the
//! flags, a listener stores its flag and then reads the word: all four are SeqCst, so one of them
//! sees the other (the one reason for SeqCst here). A release through the kernel puts a full fence
//! in between. `DEAD` is stored before the finder gives the word back, and read by each taker in or
//! after the exchange that took it: the word orders them.
//!
//! **Destruction.** A release may read the flags after another thread may own the mutex: the memory
//! must stay until every `release` has returned. **fork.** A mutex that another thread holds stays
//! held in the child. The forking thread releases what it holds: the word names its id in the
//! parent, so the release stores 0 itself. (The kernel knows neither owner nor waiters there:
//! threads of the child must not wait in the kernel for such a mutex before it has been released
//! once.) Four forks deep.
//!
//! **Without PI futexes** (a kernel built without them) those who would wait in the kernel poll,
//! and nothing is inherited.
//!
//! Sources: Documentation/locking/pi-futex, futex(2), spec of FUTEX_LOCK_PI2 (Linux 5.14);
//! "locking/rtmutex: Reduce top-waiter blocking on a lock" (2016), "Add adaptive spinwait
//! mechanism", "lateral steal" (2021); Sha, Rajkumar, Lehoczky, "Priority Inheritance Protocols"
//! (1990).

mod error;
mod kernel;
pub mod lateral;
pub mod policy;

#[cfg(all(test, feature = "std", target_os = "linux"))]
pub(crate) mod tests;

use core::marker::PhantomData;

use crate::cancel::Until;
use crate::event::Event;
use crate::platform::pi::{Class, OWNER, PiPlatform, WAITERS};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Pair, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;

pub use error::PiError;
pub use kernel::{NESTED_SPIN_NS, SPIN_NS};
pub use policy::{Lateral, Policy, TopWaiter};

const LISTENING: u32 = 1;
const TOP_SPINS: u32 = 1 << 1;
const DEAD: u32 = 1 << 2;

/// The priority-inheritance mutex: 24 bytes, aligned to 8 (condition variables keep its address).
/// See the [module text](self).
#[derive(Debug)]
#[repr(C, align(8))]
pub struct RawRtMutex<P: Platform, S: Policy = Lateral> {
    /// The kernel's word, and our flags.
    pair: Pair<P>,
    /// This and what follows: the lateral waiters.
    wait_lock: RawQSpinLock<P>,
    osq: Osq<P>,
    /// Free for an embedder (where glibc keeps the kind).
    embedder_kind: P::U32,
    queue: WaitQueue<P>,
    policy: PhantomData<S>,
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = {
    type M = RawRtMutex<crate::platform::linux::Linux>;
    assert!(size_of::<M>() == 24 && core::mem::offset_of!(M, embedder_kind) == 16);
};

impl<P: Platform, S: Policy> Default for RawRtMutex<P, S> {
    fn default() -> Self {
        Self {
            pair: Pair::default(),
            wait_lock: RawQSpinLock::default(),
            osq: Osq::default(),
            embedder_kind: P::U32::default(),
            queue: WaitQueue::default(),
            policy: PhantomData,
        }
    }
}

impl<P: Platform, S: Policy> RawRtMutex<P, S> {
    /// An unlocked mutex, in constants.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self {
            pair: Pair::new(),
            wait_lock: RawQSpinLock::new(),
            osq: Osq::new(),
            embedder_kind: P::U32::ZERO,
            queue: WaitQueue::new(),
            policy: PhantomData,
        }
    }

    /// Whether somebody holds the mutex, or did when it exited.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.owner() != 0 || self.flags().load(Relaxed) & DEAD != 0
    }

    /// The kernel's word.
    #[inline(always)]
    pub(crate) fn word(&self) -> &P::Lanes {
        &self.pair.low
    }

    #[inline(always)]
    fn flags(&self) -> &P::U32 {
        &self.pair.high
    }

    /// The kernel thread id of the owner; 0: free.
    #[inline]
    pub fn owner(&self) -> u32 {
        self.word().load(Relaxed) & OWNER
    }

    /// Whether somebody waits, or did during the present hold.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.word().load(Relaxed) & WAITERS != 0 || !self.queue.is_empty()
    }
}

impl<P: PiPlatform, S: Policy> RawRtMutex<P, S> {
    /// Takes the mutex.
    ///
    /// # Errors
    /// [`PiError::Deadlock`], [`PiError::OwnerDied`], [`PiError::Corrupt`].
    #[inline]
    pub fn acquire(&self) -> Result<(), PiError> {
        if self.acquire_fast() { Ok(()) } else { self.acquire_forever() }
    }

    /// Takes the mutex unless `until` comes first. An acquisition that need not wait succeeds
    /// whatever `until` says. A cancelled wait may end a millisecond late.
    ///
    /// # Errors
    /// As [`RawRtMutex::acquire`], and why the wait ended.
    #[inline]
    pub fn acquire_until(&self, until: Until<'_, P>) -> Result<(), PiError> {
        if self.acquire_fast() { Ok(()) } else { self.acquire_slow(until) }
    }

    /// Takes the mutex if it is free and no top waiter spins for it. Never waits, and leaves no
    /// trace when it fails.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.acquire_fast() || self.try_slow()
    }

    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        let Some(me) = P::known() else { return false };
        if P::PAIRS {
            // Noted before it is so: a locked instruction waits for all stores before it, and here,
            // unlike between the two of a short section, there is time.
            P::set_holds(me.holds.wrapping_add(1));
            // Free and without flags, in one step.
            if P::pair_exchange(&self.pair, 0, u64::from(me.tid), Acquire).is_ok() {
                return true;
            }
            P::set_holds(me.holds);
            false
        } else {
            self.flags().load(Relaxed) == 0
                && self.word().compare_exchange(0, me.tid, Acquire, Relaxed).is_ok()
                && self.taken(me.tid)
        }
    }

    /// Releases the mutex.
    ///
    /// # Errors
    /// [`PiError::NotOwner`], [`PiError::Corrupt`].
    ///
    /// # Safety
    /// Nothing that relies on the mutex being held is done afterwards.
    #[inline]
    pub unsafe fn release(&self) -> Result<(), PiError> {
        let me = P::last_known();
        if P::PAIRS && P::pair_exchange(&self.pair, u64::from(me.tid), 0, Release).is_ok() {
            P::set_holds(me.holds.wrapping_sub(1));
            return Ok(());
        }
        self.release_slow()
    }

    /// The caller, `me`, has exchanged 0 for its thread id. `false`: it must not have the mutex,
    /// and has it no more.
    #[inline(always)]
    fn taken(&self, me: u32) -> bool {
        if self.flags().load(Relaxed) & DEAD != 0 {
            self.give_back(me);
            return false;
        }
        P::set_holds(P::holds().wrapping_add(1));
        true
    }

    #[cold]
    fn give_back(&self, me: u32) {
        if self.word().compare_exchange(me, 0, Release, Relaxed).is_err() {
            // Cannot fail: the word is ours, and the kernel has it for those who wait.
            let _ = P::unlock_pi(self.word());
        }
    }

    /// Takes the mutex if it is free, and no top waiter spins for it.
    fn take(&self, me: u32) -> bool {
        self.flags().load(Relaxed) & (TOP_SPINS | DEAD) == 0
            && self.word().load(Relaxed) == 0
            && self.word().compare_exchange(0, me, Acquire, Relaxed).is_ok()
            && self.taken(me)
    }

    fn is_dead(&self) -> bool {
        self.flags().load(Relaxed) & DEAD != 0
    }

    #[cold]
    fn try_slow(&self) -> bool {
        if self.word().load(Relaxed) != 0 {
            return false;
        }
        P::current(); // so that waiters can see whether we run
        self.take(Self::me())
    }

    /// The calling thread's kernel id.
    fn me() -> u32 {
        P::known().map_or_else(P::register, |me| me.tid)
    }

    /// Apart, so that the fast path makes no room for an [`Until`].
    #[cold]
    #[inline(never)]
    fn acquire_forever(&self) -> Result<(), PiError> {
        self.acquire_slow(Until::FOREVER)
    }

    #[cold]
    fn acquire_slow(&self, until: Until<'_, P>) -> Result<(), PiError> {
        let record = P::current();
        let me = Self::me();
        // The first lock of this thread, or free with flags: one more try before anything dearer.
        if self.take(me) {
            return Ok(());
        }
        P::count(Event::PiMutexSlowpath, 1);
        if self.is_dead() {
            return Err(PiError::OwnerDied);
        }
        if self.word().load(Relaxed) & OWNER == me {
            P::count(Event::PiMutexDeadlock, 1);
            return Err(PiError::Deadlock);
        }
        // In a signal handler that interrupted a wait there is no second place to queue with.
        let can_queue = record.is_some_and(|record| record.waiter.busy.load(Relaxed) == 0);
        let class = P::class();
        if S::LATERAL && can_queue && class == Class::TimeSharing && P::holds() == 0 {
            return lateral::acquire(self, me, until);
        }
        self.acquire_urgent(me, class, until)
    }

    /// Not inlined: it would cost the fast path registers to save.
    #[cold]
    #[inline(never)]
    fn release_slow(&self) -> Result<(), PiError> {
        let me = Self::me();
        if self.word().compare_exchange(me, 0, SeqCst, Relaxed).is_err() {
            if P::had(self.word().load(Relaxed) & OWNER) {
                return self.release_inherited();
            }
            self.release_in_kernel(me)?;
        }
        P::set_holds(P::holds().wrapping_sub(1));
        if self.flags().load(SeqCst) != 0 {
            self.released();
        }
        Ok(())
    }

    /// In the child of a fork: the caller took the mutex before. The waiters that the word and the
    /// flags tell of are the parent's.
    #[cold]
    fn release_inherited(&self) -> Result<(), PiError> {
        self.flags().fetch_and(!TOP_SPINS, Relaxed);
        self.word().store(0, SeqCst);
        self.released();
        Ok(())
    }

    /// After a release: wakes the first lateral waiter if it listens and the mutex is still free.
    /// If it is not, the next release will see the flag.
    #[cold]
    fn released(&self) {
        if self.flags().load(SeqCst) & LISTENING != 0
            && self.word().load(SeqCst) == 0
            && self.flags().fetch_and(!LISTENING, AcqRel) & LISTENING != 0
            && let Some(first) = self.queue.first()
        {
            P::count(Event::PiMutexWake, 1);
            first.unpark();
        }
    }
}
