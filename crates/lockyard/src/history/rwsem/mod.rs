//! The kernel's rw-semaphore: many readers or one writer, sleeping; fast paths of one instruction,
//! and every policy of Linux since 2019.
//!
//! The one that people use is [`RawRwSem`](crate::raw::RawRwSem), policy `today` by name:
//! of what is here it shares the places of the readers and of the writer in the count.
//!
//! # The words
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `count` | who holds the lock, and whether somebody waits: below | everybody, by read-modify-writes |
//! | `owner` | who has or last had it: a hint, see `owner` | holders; spinners mark it |
//! | `wait_lock` | guards the queue, and every change of `WAITERS` and `HANDOFF` | |
//! | `queue` | the sleeping waiters, first come, first served | under `wait_lock` |
//! | `osq` | the spinners, see `wait::osq` | spinners |
//! | `reader_spinners` | how many readers spin, where that is limited | spinning readers |
//!
//! | bits of count | name | meaning |
//! |---|---|---|
//! | 0 | [`WRITER`] | a writer holds the lock |
//! | 1 | [`WAITERS`] | the queue is not empty |
//! | 2 | [`HANDOFF`] | barging is forbidden: the first waiter is next |
//! | 8–62 | readers, in units of [`BIAS`] | hold the lock, **or test it**: a reader announces itself first, and takes that back if it must wait |
//! | 63 | [`READFAIL`] | the lock is *full*: no more readers may come, but those that test it |
//!
//! | operation | sees | change | under `wait_lock` |
//! |---|---|---|---|
//! | read | anything | + `BIAS`; slow path if there is a bit of [`READ_BLOCK`] | no |
//! | try to read | no bit of `READ_BLOCK` | + `BIAS` | no |
//! | write, try to write | 0 | + `WRITER` | no |
//! | spinner takes it to write | nobody holds, no `HANDOFF` | + `WRITER` | no |
//! | first waiter queues | | + `WAITERS`; a reader − `BIAS` | yes |
//! | queued writer wins | nobody holds; see `write` | + `WRITER`, − `HANDOFF`, − `WAITERS` if alone | yes |
//! | waiter asks for handoff | held, no `HANDOFF` | + `HANDOFF` | yes |
//! | queued readers are granted | see `grant` | + `BIAS` each, − `HANDOFF`, − `WAITERS` if none is left | yes |
//! | last waiter gives up | | − `WAITERS`, − `HANDOFF` | yes |
//! | release | | − `BIAS` or − `WRITER`; wakes if there are `WAITERS` (a reader: and nobody else is left) | no |
//! | downgrade | | + `BIAS` − `WRITER`; lets queued readers in | no |
//!
//! The policies `xadd-baseline` read the word otherwise: see `biased`.
//!
//! # Invariants
//!
//! 1. At most one writer; never a writer and a reader that holds. (Readers that test may be counted
//!    beside a writer.)
//! 2. Whenever `wait_lock` is free: `WAITERS` ⇔ the queue is not empty.
//! 3. `HANDOFF` ⇒ the queue is not empty.
//! 4. `WAITERS` and `HANDOFF` change only under `wait_lock`.
//! 5. A queued writer is removed only by itself; a queued reader by the thread that grants it the
//!    lock, or by itself if not granted.
//! 6. A granted reader's bias is in `count` before it is told.
//! 7. A write release that sees `WAITERS` makes a grant pass; a read release if also nobody holds
//!    or tests the lock any more.
//! 8. `owner` never decides who enters.
//! 9. A reader stores `owner` only while it holds the lock.
//! 10. At rest: `count` is 0, the queue and the OSQ are empty.
//! 11. A thread that takes back a bias it added to test then holds the lock, tries again, or looks
//!     at `count` under `wait_lock` and wakes.
//! 12. No reader that finds the lock full enters before a reader has left. So the count passes its
//!     end by no more than the threads that came before it was full, and those that test: it never
//!     begins anew.
//!
//! # Memory ordering
//!
//! `count`: every taking is Acquire, every release is a Release read-modify-write, so that a writer
//! synchronises with *all* readers before it: each continues the release sequence of those it
//! followed. Flags change by Relaxed read-modify-writes. A releaser that sees `WAITERS` takes
//! `wait_lock` after the waiter that set the bit: had it come before, its change of `count` would
//! have, too, and it could not have seen the bit. `owner`: Relaxed; zeroed before a writer's
//! release. `granted`: see `grant`.
//!
//! **Bound on bypass.** With handoff, a first waiter is passed for its time (4 ms) and until a
//! failed try after that; each waiter ahead costs as much. Without handoff there is no bound.
//!
//! **Destruction.** A release touches the lock after the next owner may have it (queue, wait lock):
//! the memory must stay until every release has returned. **fork**: a lock that other threads hold
//! stays held in the child. A reader of the parent that was between its addition and its taking
//! that back stays counted there (two instructions, beside a writer). **Recursion**: none, for
//! readers either: with a writer queued in between, the second acquisition waits for the first.
//!
//! Sources: Documentation/locking of Linux; the changelogs of `locking/rwsem`, 2019 to 2026, listed
//! in [`policy`].

pub mod policy;

mod beside;
mod biased;
mod detached;
mod grant;
mod owner;
mod read;
mod spin;
mod write;

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;

use core::marker::PhantomData;

use crate::cancel::{GaveUp, Until};
use crate::platform::thread::Thread;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;

use grant::Mode;
use owner::me;
use policy::{CountScheme, Policy};

/// A writer holds the lock.
pub const WRITER: u64 = 1;
/// The queue is not empty.
pub const WAITERS: u64 = 2;
/// Barging is forbidden: the first waiter is next.
pub const HANDOFF: u64 = 4;
/// One reader.
pub const BIAS: u64 = 256;
/// There are as many readers as can be counted: 2^55. As many more would fit.
pub const READFAIL: u64 = 1 << 63;
/// Any reader.
pub const READERS: u64 = !(BIAS - 1);
/// Somebody holds or tests the lock.
pub const LOCKED: u64 = WRITER | READERS;
/// A reader must not simply proceed.
pub const READ_BLOCK: u64 = WRITER | WAITERS | HANDOFF | READFAIL;

/// The most readers served by one grant pass.
pub const MAX_GRANTS: usize = 256;

impl CountScheme {
    /// What one reader adds.
    pub(super) const fn unit(self) -> u64 {
        match self {
            Self::Biased => biased::A,
            Self::Bits => BIAS,
        }
    }

    /// What a queue that is not empty adds.
    pub(super) const fn waiters(self) -> u64 {
        match self {
            Self::Biased => biased::WAIT,
            Self::Bits => WAITERS,
        }
    }

    /// Whether somebody holds or tests the lock.
    pub(super) const fn held(self, count: u64) -> bool {
        match self {
            Self::Biased => biased::held(count),
            Self::Bits => count & LOCKED != 0,
        }
    }

    /// Whether there are as many readers as can be counted.
    pub(super) const fn full(self, count: u64) -> bool {
        match self {
            Self::Biased => biased::full(count),
            Self::Bits => count & READFAIL != 0,
        }
    }

    /// With a queue that is not empty: whether a writer holds the lock, or (biased) tries to.
    pub(super) const fn written(self, count: u64) -> bool {
        match self {
            Self::Biased => biased::written(count),
            Self::Bits => count & WRITER != 0,
        }
    }
}

/// The kernel's rw-semaphore, with policy `Y`: 32 bytes, the last word of which belongs to the
/// embedder. See the [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct KernelRwSem<P: Platform, Y: Policy> {
    pub(super) count: P::U64,
    pub(super) owner: P::U32,
    pub(super) wait_lock: RawQSpinLock<P>,
    pub(super) queue: WaitQueue<P>,
    pub(super) osq: Osq<P>,
    pub(super) reader_spinners: P::U32,
    /// Free for an embedder (where glibc keeps the kind); all zero otherwise.
    embedder: P::U32,
    policy: PhantomData<Y>,
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = {
    type R = KernelRwSem<crate::platform::linux::Linux, policy::TodayKernel>;
    assert!(size_of::<R>() <= 40);
    assert!(core::mem::offset_of!(R, count) == 0 && core::mem::offset_of!(R, owner) == 8);
    assert!(core::mem::offset_of!(R, embedder) == 28);
};

impl<P: Platform, Y: Policy> Default for KernelRwSem<P, Y> {
    fn default() -> Self {
        Self {
            count: P::U64::default(),
            owner: P::U32::default(),
            wait_lock: RawQSpinLock::default(),
            queue: WaitQueue::default(),
            osq: Osq::default(),
            reader_spinners: P::U32::default(),
            embedder: P::U32::default(),
            policy: PhantomData,
        }
    }
}

impl<P: ConstPlatform, Y: Policy> KernelRwSem<P, Y> {
    /// An unlocked rwsem, in constants.
    pub const fn new() -> Self {
        Self {
            count: P::U64::ZERO,
            owner: P::U32::ZERO,
            wait_lock: RawQSpinLock::new(),
            queue: WaitQueue::new(),
            osq: Osq::new(),
            reader_spinners: P::U32::ZERO,
            embedder: P::U32::ZERO,
            policy: PhantomData,
        }
    }
}

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    /// Takes the lock for reading. While there are as many readers as can be counted it waits until
    /// one has left.
    #[inline]
    pub fn read_acquire(&self) {
        if let Err(count) = self.read_fast() {
            // Forever: the result cannot be an error.
            let _ = self.read_slow(count, Until::FOREVER);
        }
    }

    /// Takes the lock for reading unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn read_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.read_fast().or_else(|count| self.read_slow(count, until))
    }

    /// `Err`: the count, our bias included.
    #[inline(always)]
    fn read_fast(&self) -> Result<(), u64> {
        if Y::COUNT == CountScheme::Biased {
            return self.biased_read_fast();
        }
        let me = me::<P>();
        let before = self.count.fetch_add(BIAS, Acquire);
        if before & READ_BLOCK != 0 {
            return Err(before.wrapping_add(BIAS));
        }
        self.owned_by_reader(me, 0);
        Ok(())
    }

    /// Takes the lock for reading if no writer holds it, nobody waits, and there are not as many
    /// readers as can be counted.
    #[inline]
    pub fn try_read_acquire(&self) -> bool {
        if Y::COUNT == CountScheme::Biased {
            return self.biased_try_read();
        }
        let me = me::<P>();
        let mut count = self.count.load(Relaxed);
        while count & READ_BLOCK == 0 {
            match self.count.compare_exchange_weak(count, count + BIAS, Acquire, Relaxed) {
                Ok(_) => {
                    self.owned_by_reader(me, 0);
                    return true;
                }
                Err(found) => count = found,
            }
        }
        false
    }

    /// Releases a read lock.
    ///
    /// # Safety
    /// The caller holds it for reading, or acts for a thread that does.
    #[inline]
    pub unsafe fn read_release(&self) {
        self.release_bias();
    }

    /// Takes a bias out of the count, and wakes if it was the last.
    #[inline(always)]
    fn release_bias(&self) {
        if Y::COUNT == CountScheme::Biased {
            return self.biased_read_release();
        }
        let count = self.count.fetch_sub(BIAS, Release).wrapping_sub(BIAS);
        if count & (LOCKED | WAITERS) == WAITERS {
            self.read_released();
        }
    }

    /// Takes the lock for writing.
    #[inline]
    pub fn write_acquire(&self) {
        if !self.write_fast() {
            // Forever: the result cannot be an error.
            let _ = self.write_slow(Until::FOREVER);
        }
    }

    /// Takes the lock for writing unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn write_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.write_fast() { Ok(()) } else { self.write_slow(until) }
    }

    #[inline(always)]
    fn write_fast(&self) -> bool {
        if Y::COUNT == CountScheme::Biased {
            return self.biased_write_fast();
        }
        let me = me::<P>();
        let taken = self.count.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok();
        if taken {
            self.owned_by_writer(me);
        }
        taken
    }

    /// Takes the lock for writing if nobody holds it and nobody waits.
    #[inline]
    pub fn try_write_acquire(&self) -> bool {
        if Y::COUNT == CountScheme::Biased {
            return self.biased_try_write();
        }
        self.write_fast()
    }

    /// Releases the write lock.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release(&self) {
        self.owner.store(0, Relaxed);
        if Y::COUNT == CountScheme::Biased {
            return self.biased_write_release();
        }
        let count = self.count.fetch_sub(WRITER, Release).wrapping_sub(WRITER);
        if count & WAITERS != 0 {
            self.wake(Mode::Any);
        }
    }

    /// Makes the write lock a read lock, in one step. Queued readers are let in.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does. It then holds it for
    /// reading.
    #[inline]
    pub unsafe fn downgrade(&self) {
        if Y::COUNT == CountScheme::Biased {
            return self.biased_downgrade();
        }
        let count = self.count.fetch_add(BIAS - WRITER, Release).wrapping_add(BIAS - WRITER);
        self.own_as_reader();
        if count & WAITERS != 0 {
            self.wake(Mode::ReadOwned);
        }
    }

    /// Whether the lock is held, or waited for.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Whether a writer holds the lock. (Biased policies cannot tell from the count and go by the
    /// owner word: a hint there.)
    #[inline]
    pub fn is_write_locked(&self) -> bool {
        let count = self.count.load(Relaxed);
        match Y::COUNT {
            CountScheme::Biased => biased::held(count) && self.write_owner().is_some(),
            CountScheme::Bits => count & WRITER != 0,
        }
    }

    /// Whether there are as many readers as can be counted: one more waits until one has left, or
    /// is refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        Y::COUNT.full(self.count.load(Relaxed))
    }

    /// Whether somebody waits in the queue.
    #[inline]
    pub fn is_contended(&self) -> bool {
        !self.queue.is_empty()
    }
}

/// The caller's record, if it may queue: registered, and not already waiting (in a signal handler).
fn queueable<P: Platform>() -> Option<&'static Thread<P>> {
    P::current().filter(|thread| thread.waiter.busy.load(Relaxed) == 0)
}
