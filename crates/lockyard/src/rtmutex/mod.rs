//! The priority-inheritance mutex: a kernel PI futex, and a queue in user space for the threads
//! that have no priority to lend.
//!
//! The kernel boosts an owner for the threads that wait in the kernel. After such a wait each
//! release is a system call, which names the next owner, and a switch to it. That is needed where
//! priorities differ, and costs a factor of 20 to 50 where they do not.
//!
//! *Top waiter*: a thread that spins, in user space, to be the next owner. *Lateral waiter*: a
//! time-sharing thread that waits in user space among its equals. *Chain* of a waiter: the owner,
//! the owner of the mutex for which that one waits, and so on.
//!
//! # Words
//!
//! | word or bits | meaning | set by | cleared by | legal not to |
//! |---|---|---|---|---|
//! | word, 0–29 | kernel thread id of the owner; 0: free | the taker, from 0; the kernel, for the next owner | the owner, if the word is its id and nothing else; the kernel | – |
//! | word, 30 `OWNER_DIED` | the owner before exited with the mutex held | the kernel | the kernel, at the owner's release | – |
//! | word, 31 `WAITERS` | threads wait in the kernel, or did during this hold | the kernel | the kernel, at the owner's release | – |
//! | flag `LISTENING` | the next release wakes the first lateral waiter | the first lateral waiter; the new owner, as it leaves the queue, for the next | the release that wakes; the first lateral waiter, when it takes the mutex; the waiter that empties the queue | set it: the first waiter then sleeps to its timer |
//! | flag `TOP_SPINS` | of the threads that take the word in user space, only the top waiter may | the top waiter, if it is clear | the top waiter; a thread that finds it older than [`RESERVED_NS`]; in the child of a fork, the release of an inherited hold | set it: the thread waits in the kernel |
//! | flags, 3–31 | when `TOP_SPINS` was set, in units of 1,024 ns, mod 2²⁹; else 0 | with `TOP_SPINS` | with `TOP_SPINS` | – |
//! | flag `DEAD` | an owner exited with the mutex held: nobody takes it | the thread that the kernel tells | nobody | – |
//!
//! The word is the kernel's: see [`platform::pi`](crate::platform::pi). It knows no flags.
//!
//! # States
//!
//! | word | event | next |
//! |---|---|---|
//! | 0 | a thread takes it, flags permitting; the top waiter takes it | t |
//! | 0 | a thread goes to wait in the kernel | t: the kernel gives it the word |
//! | t | t releases, one compare-exchange | 0; if `LISTENING`, it wakes the first lateral waiter |
//! | t | a thread waits in the kernel | t + `WAITERS` |
//! | t + `WAITERS` | t releases, a system call | u, or u + `WAITERS`: u is the most urgent waiter; or 0 |
//! | t + `WAITERS` | t exits | u + `OWNER_DIED` (+ `WAITERS`): u sets `DEAD`, releases, and returns an error |
//! | t, which has exited | a thread goes to wait in the kernel | the kernel refuses; that thread sets `DEAD`, and returns an error |
//!
//! | caller | waits | because |
//! |---|---|---|
//! | of fixed priority | spins as top waiter for [`SPIN_NS`], then waits in the kernel | an owner must inherit its priority soon |
//! | with deadlines | waits in the kernel | likewise, at once |
//! | time-sharing, and it holds another such mutex | spins as top waiter for [`NESTED_SPIN_NS`], then waits in the kernel | a more urgent thread may wait for *it*: the chain must not end here |
//! | time-sharing, and it has no place to queue: a handler that interrupted a wait, a thread without a record | likewise | |
//! | time-sharing, and it holds none | [laterally](lateral) for its turn, then in the kernel | it is of the lowest class: it lends nothing, and no thread below it could pass it |
//!
//! A top waiter spins only if the word has no kernel bits, the owner runs, there is another CPU, no
//! thread needs its own, and `TOP_SPINS` was clear. It stops when the word gets a kernel bit, or
//! another owner than it met ([`policy::Published`]: it goes on). The table is that of
//! [`policy::Lateral`]: other [policies](policy) have no lateral waiters, [`policy::Off`] no spin.
//!
//! A top waiter that is stopped, or that a fork left in the parent, keeps the mutex from threads in
//! user space for `RESERVED_NS`, from the start of its spin. When it runs again it clears its own
//! mark, which it knows by the time, or one of the same microsecond.
//!
//! # Bound on bypass
//!
//! While a thread waits in the kernel the word is never 0, so no thread passes it but a more urgent
//! one; equals are served in order of arrival. While a top waiter spins, a thread that has read the
//! flags before may take the word, and so may a thread that comes to the kernel while the word is
//! 0. Neither prolongs the spin. So the most urgent thread waits at most for
//!
//! > its spin and its system call, then the rest of one section of each owner in its chain, at the
//! > waiter's own priority, and their switches.
//!
//! Lateral waiters have the bound of [`wait::turn`](crate::wait::turn) among themselves. A lateral
//! waiter lends nothing. It may yet be in the chain of a more urgent thread, if it holds a PI lock
//! of another make, and its own priority may rise while it waits. Both last for the turns of the
//! waiters ahead and its own; then it waits in the kernel. [`policy::Merged`] avoids both.
//!
//! # Errors
//!
//! An owner that locks again is refused. So is a thread that would close a cycle of waits: it holds
//! a mutex, so it waits in the kernel, which looks; it asks again for most of a millisecond. So is
//! a thread that wants a mutex whose owner exited: the data may be in use
//! ([`lock_api::MutexGuard::leak`]), so the mutex stays locked for ever. The kernel goes by thread
//! ids: if a new thread has the id of the dead owner, waiters wait for that one. A thread that is
//! not the owner is refused its release.
//!
//! On a machine **without PI futexes** a thread that would wait in the kernel polls. Then nothing
//! is inherited, no cycle and no exited owner is found, and the bounds do not hold.
//!
//! # Ordering
//!
//! * `word`: taking is Acquire, releasing is Release or stronger; in the kernel, its system calls.
//! * `LISTENING`: {a release stores 0 to the word; loads the flags} against {a listener sets the
//!   flag; loads the word}: all four are SeqCst, so one of them sees the other. A release through
//!   the kernel has a full fence between the two. Where the machine has pairs the fast paths
//!   exchange word and flags in one step, and only if no flag is set.
//! * `TOP_SPINS`: set with Relaxed: a hint. Cleared with SeqCst: a top waiter that leaves without
//!   the mutex, and finds `LISTENING`, then looks at the word as a release does. A thread that
//!   clears the mark of another wants the mutex: its release obeys, or that of the thread that was
//!   faster. If it gives up instead, the first waiter looks by its timer, at the end of its turn.
//! * `DEAD`: set before the finder gives the word back, and read in or after the exchange that
//!   takes the word: the word orders them.
//!
//! **Destruction.** A release may read the flags after another thread may own the mutex: the memory
//! must stay until each `release` has returned.
//!
//! **fork.** A mutex that another thread holds stays held in the child. The forking thread keeps
//! what it holds: the word has its id in the parent, and its release stores 0 (up to four forks
//! deep; where the machine notices each fork). The kernel knows neither owner nor waiters there:
//! no thread of the child may wait in the kernel for that mutex before that release.
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
use crate::wait::turn::RESERVED_NS;

pub use error::PiError;
pub use kernel::{NESTED_SPIN_NS, SPIN_NS};
pub use policy::{Lateral, Policy, TopWaiter};

const LISTENING: u32 = 1;
const TOP_SPINS: u32 = 1 << 1;
const DEAD: u32 = 1 << 2;
/// Where the time of `TOP_SPINS` begins.
const SINCE: u32 = 3;
/// `TOP_SPINS`, and its time.
const MARK: u32 = TOP_SPINS | !0 << SINCE;

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
        self.present_flags() & (TOP_SPINS | DEAD) == 0
            && self.word().load(Relaxed) == 0
            && self.word().compare_exchange(0, me, Acquire, Relaxed).is_ok()
            && self.taken(me)
    }

    /// The flags, without a mark that is too old.
    fn present_flags(&self) -> u32 {
        let flags = self.flags().load(Relaxed);
        if flags & TOP_SPINS == 0 { flags } else { self.end_stale_mark(flags) }
    }

    /// The time now, where a mark keeps it.
    fn mark_now() -> u32 {
        ((P::now() >> 10) as u32) << SINCE
    }

    /// The flags are `flags`, and the top waiter spins: clears its mark if it is stopped. Machines
    /// on which no thread is stopped give a spin all time.
    #[cold]
    fn end_stale_mark(&self, flags: u32) -> u32 {
        let most = (RESERVED_NS >> 10) as u32;
        let age = Self::mark_now().wrapping_sub(flags & MARK & !TOP_SPINS) >> SINCE;
        // The marker's clock may be a little ahead: then the difference is that below 2^29.
        if P::spin_budget() == u32::MAX || age <= most || age >= (1 << (32 - SINCE)) - most {
            return flags;
        }
        match self.flags().compare_exchange(flags, flags & !MARK, SeqCst, Relaxed) {
            Ok(_) => {
                P::count(Event::WaitLapsed, 1);
                flags & !MARK
            }
            Err(found) => found,
        }
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
        self.flags().fetch_and(!MARK, Relaxed);
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
