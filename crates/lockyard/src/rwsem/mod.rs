//! The rw-semaphore: many readers or one writer, sleeping; fast paths of one instruction; waiters
//! take turns.
//!
//! # The words
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `count` | who holds the lock, and what waiters ask for: below | everybody, by read-modify-writes |
//! | `pressed_at` | when `PENDING` was set last, in units of 1,024 ns, mod 2³² | the writer that sets it |
//! | `wait_lock` | guards the queue | waiters |
//! | `queue`, `osq` | the waiters, and before they queue the spinners: [`wait::turn`](crate::wait::turn) | waiters |
//!
//! | bits of count | name | meaning | set by | cleared by |
//! |---|---|---|---|---|
//! | 0 | [`WRITER`] | a writer holds the lock | that writer | the same |
//! | 1 | – | (the kernel's mark of a queue: never set) | | |
//! | 2 | [`HANDOFF`] | the lock is kept: only the first waiter enters | the first waiter when its turn is over; a newcomer in its name | that waiter, when it leaves the queue; the thread that ends the reservation |
//! | 3 | [`LISTENING`] | the first waiter asks to be woken by the next release | the first waiter; a waiter that leaves the queue, for the next | the release that wakes it |
//! | 4 | [`PENDING`] | no more readers but the first waiter: a writer spins for a lock that readers hold | the writer at the head of the spin queue | the same; a reader that finds it stale |
//! | 5–7 | `ASKS` | how often `LISTENING` was set since a release cleared it, mod 8: see `embed` | with `LISTENING` | with `LISTENING`; a write release |
//! | 8–62 | readers, in units of [`BIAS`] | hold the lock, **or test it**: a reader announces itself first, and takes that back if it must wait | that reader | the same |
//! | 63 | [`READFAIL`] | the lock is *full*: no more readers may come, but those that test it | nobody: the readers' highest bit | |
//!
//! | operation | sees | change |
//! |---|---|---|
//! | read | anything | + `BIAS`; slow path if there is a bit of [`READ_BLOCK`] |
//! | try to read | no bit of `READ_BLOCK` | + `BIAS` |
//! | write, try to write | 0 | + `WRITER` |
//! | a thread that is not first takes it to write | nobody holds, no `HANDOFF` | + `WRITER` |
//! | a thread that is not first takes it to read | no writer, not full, no `HANDOFF`, no `PENDING` | + `BIAS` |
//! | the first waiter takes it | the same, but for `HANDOFF` and `PENDING` | + `WRITER` or `BIAS` |
//! | the first waiter asks | held | + `LISTENING` and one of `ASKS`, or + `HANDOFF` |
//! | release | | − `BIAS` or − `WRITER`; wakes if there is `LISTENING` (a reader: and nobody else is left) |
//! | a reader takes its test back | | − `BIAS`; wakes as a release |
//! | downgrade | | + `BIAS` − `WRITER`; wakes if there is `LISTENING` |
//!
//! A waiter is not in `count`: threads that run are not slowed down by those that sleep.
//!
//! # Invariants
//!
//! 1. At most one writer; never a writer and a reader that holds. (Readers that test may be counted
//!    beside a writer.)
//! 2. Every waiter, reader or writer, takes the lock itself; nobody is made owner in its sleep.
//! 3. A reader that takes its test back wakes the first waiter if that listens and the lock is
//!    free: its bias may have kept the last release from it.
//! 4. At rest: `count` is 0, the queue and the OSQ are empty.
//! 5. No reader that finds the lock full enters before a reader has left. So the count passes its
//!    end by no more than the threads that came before it was full, and those that test: it never
//!    begins anew.
//!
//! # Memory ordering
//!
//! `count`: every taking is Acquire, every release is a Release read-modify-write, so that a writer
//! synchronises with *all* readers before it: each continues the release sequence of those it
//! followed. `HANDOFF` and `PENDING` change by Relaxed read-modify-writes. A release that sees
//! `LISTENING` clears it with AcqRel and then reads the first waiter's name; see `wait::turn` for
//! why a stale name does no harm. `pressed_at`: Relaxed; a stale value ends `PENDING` early, which
//! costs the writer's spin and nothing else.
//!
//! **Bound on bypass.** Readers and writers alike: one turn, a hold and a wake-up per waiter ahead.
//! A stream of overlapping readers cannot keep a writer out longer than its turn, and a stream of
//! writers no reader.
//!
//! **Destruction.** A release touches the lock after the next owner may have it (queue, wait lock):
//! the memory must stay until every release has returned. (Detached releases: see `embed`.)
//! **fork**: a lock that other threads hold stays held in the child. A reader of the parent that
//! was between its addition and its taking that back stays counted there (two instructions, beside
//! a writer). **Recursion**: none, for readers either: with a writer queued in between, the second
//! acquisition waits for the first.
//!
//! Sources: Documentation/locking of Linux; the changelogs of `locking/rwsem`, 2019 to 2026. The
//! kernel's own forms, which share only the count with this one, are in `history::rwsem` (feature
//! `history`).

mod embed;
mod fair;
mod turns;

#[cfg(all(test, feature = "std", target_os = "linux"))]
pub(crate) mod tests;

use crate::cancel::{GaveUp, Until};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;

/// A writer holds the lock.
pub const WRITER: u64 = 1;
/// The lock is kept for the first waiter.
pub const HANDOFF: u64 = 4;
/// The first waiter asks to be woken by the next release.
pub const LISTENING: u64 = 8;
/// A writer spins for a lock that readers hold: no more of them for the moment.
pub const PENDING: u64 = 16;
/// How often [`LISTENING`] was set since a release cleared it: see `embed`.
const ASKS: u64 = 0xe0;
/// One of [`ASKS`].
const ASK: u64 = 0x20;
/// One reader.
pub const BIAS: u64 = 256;
/// There are as many readers as can be counted: 2^55. As many more would fit.
pub const READFAIL: u64 = 1 << 63;
/// Any reader.
pub const READERS: u64 = !(BIAS - 1);
/// Somebody holds or tests the lock.
pub const LOCKED: u64 = WRITER | READERS;
/// What a write release leaves: it wakes the waiter that asked, so `ASKS` may go. On x86-64 this
/// mask makes a release one `lock and` whose flags tell the result (with those bits the compiler
/// sees a comparison, and falls back to a compare-exchange loop).
const NOT_WRITER: u64 = !(WRITER | ASKS);
/// A reader must not simply proceed.
pub const READ_BLOCK: u64 = WRITER | HANDOFF | PENDING | READFAIL;

/// The rw-semaphore: 32 bytes, the last word of which belongs to the embedder. See the [module
/// text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawRwSem<P: Platform> {
    count: P::U64,
    pressed_at: P::U32,
    wait_lock: RawQSpinLock<P>,
    queue: WaitQueue<P>,
    osq: Osq<P>,
    /// Keeps `embedder` where it is.
    unused: P::U32,
    /// Free for an embedder (where glibc keeps the kind); all zero otherwise.
    embedder: P::U32,
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = {
    type R = RawRwSem<crate::platform::linux::Linux>;
    assert!(size_of::<R>() == 32 && core::mem::offset_of!(R, count) == 0);
    assert!(core::mem::offset_of!(R, embedder) == 28);
};

impl<P: Platform> Default for RawRwSem<P> {
    fn default() -> Self {
        Self {
            count: P::U64::default(),
            pressed_at: P::U32::default(),
            wait_lock: RawQSpinLock::default(),
            queue: WaitQueue::default(),
            osq: Osq::default(),
            unused: P::U32::default(),
            embedder: P::U32::default(),
        }
    }
}

impl<P: ConstPlatform> RawRwSem<P> {
    /// An unlocked rwsem, in constants.
    pub const fn new() -> Self {
        Self {
            count: P::U64::ZERO,
            pressed_at: P::U32::ZERO,
            wait_lock: RawQSpinLock::new(),
            queue: WaitQueue::new(),
            osq: Osq::new(),
            unused: P::U32::ZERO,
            embedder: P::U32::ZERO,
        }
    }
}

impl<P: Platform> RawRwSem<P> {
    /// Takes the lock for reading. While there are as many readers as can be counted it waits until
    /// one has left.
    #[inline]
    pub fn read_acquire(&self) {
        if self.read_fast().is_err() {
            // Forever: the result cannot be an error.
            let _ = self.read_slow(Until::FOREVER);
        }
    }

    /// Takes the lock for reading as [`read_acquire`](Self::read_acquire) does, unless there are as
    /// many readers as can be counted: then `false`.
    #[inline]
    pub fn read_acquire_unless_full(&self) -> bool {
        match self.read_fast() {
            Ok(()) => true,
            Err(before) => self.read_slow_unless_full(before),
        }
    }

    /// Takes the lock for reading unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn read_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.read_fast().or_else(|_| self.read_slow(until))
    }

    /// `Err`: the count before ours was added, which it still is.
    #[inline(always)]
    fn read_fast(&self) -> Result<(), u64> {
        let before = self.count.fetch_add(BIAS, Acquire);
        if before & READ_BLOCK == 0 { Ok(()) } else { Err(before) }
    }

    /// Takes the lock for reading if no writer holds it, it is not kept for a waiter, and there are
    /// not as many readers as can be counted.
    #[inline]
    pub fn try_read_acquire(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count & READ_BLOCK == 0 {
            match self.count.compare_exchange_weak(count, count + BIAS, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
        self.try_read_slow()
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
        let count = self.count.fetch_sub(BIAS, Release).wrapping_sub(BIAS);
        if count & (LOCKED | LISTENING) == LISTENING {
            self.released();
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
        self.count.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
    }

    /// Takes the lock for writing if nobody holds it and it is not kept for a waiter.
    #[inline]
    pub fn try_write_acquire(&self) -> bool {
        self.write_fast() || self.try_write_slow()
    }

    /// Releases the write lock.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release(&self) {
        if self.count.fetch_and(NOT_WRITER, Release) & NOT_WRITER != 0 {
            self.write_released();
        }
    }

    /// Makes the write lock a read lock, in one step. The first waiter is woken if it listens: it
    /// may be a reader.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does. It then holds it for
    /// reading.
    #[inline]
    pub unsafe fn downgrade(&self) {
        if self.count.fetch_add(BIAS - WRITER, Release) & LISTENING != 0 {
            self.released();
        }
    }

    /// Whether the lock is held, or waited for.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Whether a writer holds the lock.
    #[inline]
    pub fn is_write_locked(&self) -> bool {
        self.count.load(Relaxed) & WRITER != 0
    }

    /// Whether there are as many readers as can be counted: one more waits until one has left, or
    /// is refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count.load(Relaxed) & READFAIL != 0
    }

    /// Whether somebody waits in the queue.
    #[inline]
    pub fn is_contended(&self) -> bool {
        !self.queue.is_empty()
    }
}
