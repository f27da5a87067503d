//! The real-time mutex with its own waiter tree: priority inheritance through chains, deadlock
//! detection, top-waiter spinning.
//!
//! A thread of high priority that waits for a mutex lends its priority to the owner, and if the
//! owner itself waits for another mutex, to the owner of that, and so on. So nobody waits longer
//! than the critical sections ahead take, however many threads of middle priority want the CPU.
//!
//! | file | what |
//! |---|---|
//! | `mod` | the word, the fast paths, the interface |
//! | `slow` | taking, queueing, waiting, leaving, releasing |
//! | `chain` | the chain walk, deadlocks |
//! | `waiter` | a thread's part: what it waits for, which threads lend to it |
//! | `plist` | the priority-sorted list |
//! | [`policy`] | whether the first waiter spins, and which threads may pass it |
//! | `promise` | which waiter a free mutex is kept for, and how long |
//! | `proxy` | queueing on behalf of another thread: condition variables |
//! | [`condvar`] | a condition variable that keeps inheritance |
//! | [`audit`] | the invariants, as a check |
//!
//! # The word
//!
//! | bits | name | meaning | changed by |
//! |---|---|---|---|
//! | 0–14 | owner | thread id, 0 = free | taker, releaser |
//! | 16 | `WAITERS` | somebody waits, or looks: no fast path | the holder of the wait lock |
//!
//! | owner | `WAITERS` | state | changed by |
//! |---|---|---|---|
//! | 0 | 0 | free | anybody, by one compare-exchange |
//! | 0 | 1 | free and promised: the heir has been woken to take it (`promise`) | under the wait lock |
//! | t | 0 | held | t, by one compare-exchange; or somebody under the wait lock, setting the bit |
//! | t | 1 | held, with waiters (or with a thread that looks for a moment) | under the wait lock |
//!
//! # Order
//!
//! By effective priority, first come first served among equals. Priorities are those of the
//! scheduler's fixed-priority class, 1 to 99, higher is more urgent; all time-sharing threads count
//! as 0. (Deadline threads count as 99: their deadlines are neither compared nor lent.)
//!
//! **Bound on bypass.** A free mutex that is promised may be taken by a thread of strictly higher
//! priority, as it would have been queued first anyway. Among time-sharing threads the
//! [policy](policy::Steal) may let newcomers pass a first waiter 32 times. No real-time thread is
//! ever passed by an equal. That holds for waiters that get a CPU: a promise ends after
//! [`RESERVED_NS`](crate::wait::turn::RESERVED_NS), and then others pass until the waiter runs.
//!
//! **Bound on inversion.** A thread at the end of a chain of k mutexes waits for k critical
//! sections. That holds where the platform can lend priorities ([`Platform::set_priority`]); where
//! it cannot, order is kept and nobody is boosted.
//!
//! # Waiting
//!
//! Lock: fast path; else under the wait lock try, queue, lend, walk the chain; then try, spin if
//! first while the owner runs, or sleep; again. Unlock: fast path; else under the wait lock take
//! the first waiter off the donors, mark the mutex free and promised; then wake the heir,
//! **then** give back what was lent. (The kernel does it the other way round with preemption off. A
//! user-space thread that gave back first could be preempted in between, and the waiter would not
//! be awake.)
//!
//! A promised mutex's waiter stays queued until it has taken it: if something more urgent takes it
//! first, nothing has to be undone.
//!
//! # Memory ordering
//!
//! `word`: a fast acquire is Acquire, a fast release is Release; every other change is a
//! read-modify-write, or made by the owner, so release sequences go on. Taking under the wait lock
//! is an Acquire as well: the last owner may have left by the fast path and never seen the wait
//! lock. Setting `WAITERS` and reading the owner is one instruction, so nothing needs a fence
//! between them.
//!
//! `donors`, `waiters`: changed under locks; the name of the first waiter is also read by spinners,
//! Relaxed, and only compared.
//!
//! A wake-up is sticky ([`platform::thread`](crate::platform::thread)) and comes after the word has
//! changed under the wait lock; the waiter tries under the same lock before it sleeps.
//!
//! # Invariants
//!
//! Those of [`audit`], numbered there.
//!
//! **Destruction.** A release touches nothing of the mutex after another thread may have taken it:
//! it may be freed by the next owner as soon as that one has unlocked it. **Ownership is by name.**
//! A record is not given to another thread while its thread holds such a mutex, so the name stays
//! that of the one that locked it. **fork**: the child has the mutex as it was, its wait lock free
//! (`wait::section`); nobody lends across processes. **Signal handlers** may try, and wait by
//! polling without lending, for a mutex without waiters: one that the interrupted code waits for is
//! never free for the handler. A handler must not unlock a mutex that it has made others wait for.
//!
//! **Limits in user space.** The wait lock and the threads' locks are spinlocks whose owner nobody
//! boosts: a thread of low priority that is preempted, or stopped, in the microsecond in which it
//! holds one delays threads that need it until it runs again. On Linux lending takes `CAP_SYS_NICE`
//! and overwrites what other programs set meanwhile. So there this is a mutex to opt into; the one
//! that needs no privilege is made of kernel PI futexes.
//!
//! Sources: Documentation/locking/rt-mutex-design (Linux); "locking/rtmutex: Reduce top-waiter
//! blocking on a lock" (2016); "locking/rtmutex: Add adaptive spinwait mechanism" (2021); Sha,
//! Rajkumar, Lehoczky, "Priority Inheritance Protocols" (1990).

pub mod audit;
mod chain;
pub mod condvar;
pub(crate) mod plist;
pub mod policy;
mod promise;
mod proxy;
mod slow;
pub(crate) mod waiter;

use core::marker::PhantomData;

use crate::cancel::{GaveUp, Until};
use crate::platform::thread::ThreadId;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;

pub use chain::{Cycle, DEPTH, NAMED};
use plist::{PriorityList, WAITING};
use policy::Policy;

const OWNER: u32 = 0xffff;
const WAITERS: u32 = 1 << 16;

/// The highest priority.
pub const MAX_PRIORITY: u32 = 99;

/// Why an rt-mutex was not acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The deadline passed.
    TimedOut,
    /// The token was cancelled.
    Cancelled,
    /// It would have waited for itself.
    Deadlock(Cycle),
}

impl From<GaveUp> for Refused {
    fn from(end: GaveUp) -> Self {
        match end {
            GaveUp::TimedOut => Self::TimedOut,
            GaveUp::Cancelled => Self::Cancelled,
        }
    }
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TimedOut => GaveUp::TimedOut.fmt(f),
            Self::Cancelled => GaveUp::Cancelled.fmt(f),
            Self::Deadlock(cycle) => cycle.fmt(f),
        }
    }
}

impl core::error::Error for Refused {}

/// An rt-mutex was released by a thread that does not own it. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOwner;

impl core::fmt::Display for NotOwner {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("an rt-mutex was unlocked by a thread that does not own it")
    }
}

impl core::error::Error for NotOwner {}

/// What every policy's mutex is made of: chains run through mutexes of all policies.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Core<P: Platform> {
    word: P::U32,
    wait_lock: RawQSpinLock<P>,
    waiters: PriorityList<P, WAITING>,
}

impl<P: Platform> Core<P> {
    /// The owner's name.
    #[inline]
    fn owner(&self) -> Option<ThreadId> {
        ThreadId::from_raw(self.word.load(Relaxed) & OWNER)
    }
}

/// The real-time mutex: 12 bytes. See the [module text](self).
#[repr(transparent)]
pub struct RawTreeRtMutex<P: Platform, Y: Policy = policy::Today> {
    core: Core<P>,
    policy: PhantomData<Y>,
}

impl<P: Platform, Y: Policy> core::fmt::Debug for RawTreeRtMutex<P, Y> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("RawTreeRtMutex").field(&Y::NAME).field(&self.core).finish()
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawTreeRtMutex<crate::platform::linux::Linux>>() <= 32);

impl<P: Platform, Y: Policy> Default for RawTreeRtMutex<P, Y> {
    fn default() -> Self {
        let core =
            Core { word: P::U32::default(), wait_lock: RawQSpinLock::default(), waiters: PriorityList::default() };
        Self { core, policy: PhantomData }
    }
}

impl<P: Platform, Y: Policy> RawTreeRtMutex<P, Y> {
    /// An unlocked mutex, in constants.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        let core = Core { word: P::U32::ZERO, wait_lock: RawQSpinLock::new(), waiters: ConstZero::ZERO };
        Self { core, policy: PhantomData }
    }

    /// Takes the mutex.
    ///
    /// # Errors
    /// It would have waited for itself: the caller owns it, or its owner waits, perhaps through
    /// others, for a mutex that the caller owns.
    #[inline]
    pub fn acquire(&self) -> Result<(), Cycle> {
        if self.acquire_fast() {
            return Ok(());
        }
        self.acquire_forever()
    }

    /// Takes the mutex unless `until` comes first. An acquisition that need not wait succeeds
    /// whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended, or why there was none.
    #[inline]
    pub fn acquire_until(&self, until: Until<'_, P>) -> Result<(), Refused> {
        if self.acquire_fast() {
            return Ok(());
        }
        self.core.acquire_slow::<Y>(until).inspect(|()| Self::hold(1))
    }

    /// Takes the mutex if it is free, and not promised to a waiter of the caller's priority or
    /// higher.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.acquire_fast() || self.try_acquire_slow()
    }

    /// Releases the mutex.
    ///
    /// # Errors
    /// The caller does not own it; then nothing has changed.
    ///
    /// # Safety
    /// If the caller owns it, it gives up what it protects.
    #[inline]
    pub unsafe fn release(&self) -> Result<(), NotOwner> {
        let me = P::id().unwrap_or(ThreadId::ANONYMOUS);
        if self.core.word.compare_exchange(me.raw(), 0, Release, Relaxed).is_err() {
            if self.core.owner() != Some(me) {
                return Err(NotOwner);
            }
            self.core.release_slow(me);
        }
        Self::hold(-1);
        Ok(())
    }

    /// Releases the mutex for its owner, which has gone.
    ///
    /// # Safety
    /// The mutex is held, and its owner does nothing with mutexes at the same time: it has exited,
    /// or has handed its ownership to the caller.
    pub unsafe fn release_for_owner(&self) {
        let Some(owner) = self.core.owner() else { return };
        if self.core.word.compare_exchange(owner.raw(), 0, Release, Relaxed).is_err() {
            self.core.release_slow(owner);
        }
        if !owner.is_anonymous() {
            let held = &P::thread(owner).pi.held;
            held.store(held.load(Relaxed).wrapping_sub(1), Relaxed);
        }
    }

    /// Whether somebody holds the mutex.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.owner().is_some()
    }

    /// The owner.
    #[inline]
    pub fn owner(&self) -> Option<ThreadId> {
        self.core.owner()
    }

    /// Whether somebody waits for it.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.core.waiters.first().is_some()
    }

    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        let taken = P::id().is_some_and(|me| self.core.word.compare_exchange(0, me.raw(), Acquire, Relaxed).is_ok());
        if taken {
            Self::hold(1);
        }
        taken
    }

    /// Counts what the calling thread holds.
    #[inline(always)]
    fn hold(more: i32) {
        if let Some(me) = P::id().filter(|me| !me.is_anonymous()) {
            let held = &P::thread(me).pi.held;
            held.store(held.load(Relaxed).wrapping_add_signed(more), Relaxed);
        }
    }

    #[cold]
    fn acquire_forever(&self) -> Result<(), Cycle> {
        match self.acquire_until(Until::FOREVER) {
            Err(Refused::Deadlock(cycle)) => Err(cycle),
            // Nothing else ends a wait that lasts for ever.
            _ => Ok(()),
        }
    }

    #[cold]
    fn try_acquire_slow(&self) -> bool {
        let taken = self.core.try_acquire_slow::<Y>();
        if taken {
            Self::hold(1);
        }
        taken
    }
}

/// The priority with which `thread` runs and waits, as far as rt-mutexes know.
pub fn effective_priority<P: Platform>(thread: ThreadId) -> u32 {
    P::thread(thread).pi.priorities().1
}

/// Sets the priority of `thread` without inheritance: 0 is time-sharing, 1 to 99 real-time. What is
/// lent to it stays lent, and if it waits for a mutex of this kind it changes its place there, and
/// so down the chain.
///
/// This is how programs that use `TreeRtMutex` change priorities: a change made behind their back
/// while something is lent would be lost.
///
/// `false`: the machine refused, or `thread` has no record. (What waits for mutexes is ordered by
/// the new priority nevertheless.)
pub fn set_priority<P: Platform>(thread: ThreadId, priority: u32) -> bool {
    if thread.is_anonymous() {
        return false;
    }
    let thread = P::thread(thread);
    let locked = waiter::lock(thread);
    let done = locked.set_base(priority.min(MAX_PRIORITY));
    chain::carry_change(thread, locked);
    done
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
