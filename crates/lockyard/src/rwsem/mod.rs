//! The rw-semaphore: many readers or one writer; fast paths of one instruction; waiters sleep, and
//! take turns ([`wait::turn`](crate::wait::turn)).
//!
//! *Test*: a reader adds its [`BIAS`] before it knows whether it may enter. If it may not, it takes
//! the bias back. Meanwhile `count` shows a reader that does not hold the lock.
//!
//! # Words
//!
//! | word or bits | meaning | set by | cleared by | legal not to |
//! |---|---|---|---|---|
//! | count, 0 [`WRITER`] | a writer holds the lock | that writer | the same, by release or downgrade | – |
//! | count, 1 | the kernel's mark of a queue | nobody | – | – |
//! | count, 2 [`HANDOFF`] | only the first waiter enters | the first waiter, when its turn is over; under the wait lock a newcomer for a late first waiter, the new owner for one with a rank, a fair release | the first waiter, when it leaves with the lock; the waiter that empties the queue; the thread that ends the reservation | set it while the first waiter runs |
//! | count, 3 [`LISTENING`] | the next release wakes the first waiter | the first waiter, in the step in which its try fails; the new owner for the next waiter; a fair release | the release that wakes; the first waiter, when it leaves with the lock; the waiter that empties the queue | set it: the first waiter then sleeps to its timer |
//! | count, 4 [`PENDING`] | no reader enters but the first waiter: a writer spins for a lock that readers hold | the writer at the head of the spin queue | the same, when it stops spinning; a reader that finds it 1 ms old | set it: the writer then queues |
//! | count, 5–7 `ASKS` | for how many first waiters `LISTENING` was set, mod 8: see `embed` | with `LISTENING`; the first waiter, if it leaves without the lock and leaves `LISTENING` to the next | with `LISTENING`; a write release | – |
//! | count, 8–62 | readers, in units of [`BIAS`], that hold the lock **or test** | that reader | that reader | – |
//! | count, 63 [`READFAIL`] | *full*: no reader enters | the addition that makes 2⁵⁵ readers | the subtraction that goes below | – |
//! | `pressed_at` | when `PENDING` was set, in units of 1,024 ns, mod 2³² | the writer, before it sets `PENDING` | – | – |
//! | `wait_lock` | guards the queue | waiters, newcomers, fair releases, the thread that ends a reservation | the same | – |
//! | `queue`, `osq` | the waiters, and the threads that spin before they queue | waiters; spinners | the same | – |
//!
//! A waiter is not in `count`: threads that run are not slowed down by threads that sleep. A reader
//! that would change what the lock is (`apart`) presses as a writer does, outside the spin queue.
//!
//! # States
//!
//! | operation | finds | change of `count` |
//! |---|---|---|
//! | read | anything | + `BIAS`; with a bit of [`READ_BLOCK`]: − `BIAS`, and the reader waits |
//! | try to read | no bit of `READ_BLOCK`; in `apart`, none but `PENDING` | + `BIAS` |
//! | write | 0 | + `WRITER` |
//! | a try, a newcomer or a spinner, to write | nobody holds or tests, no `HANDOFF` | + `WRITER` |
//! | a try, a newcomer or a spinner, to read | no writer, not full, no `HANDOFF`, no `PENDING` | + `BIAS` |
//! | the first waiter, to write | nobody holds or tests | + `WRITER` |
//! | the first waiter, to read | no writer, not full | + `BIAS` |
//! | the first waiter asks | a writer, or readers that hold or test | + `LISTENING` and one of `ASKS`, or + `HANDOFF` |
//! | a reader releases, or takes its test back | | − `BIAS`; if no reader and no writer is left, and `LISTENING` is set: clears it, wakes the first waiter |
//! | a writer releases | | − `WRITER`; `LISTENING`: clears it, wakes the first waiter; `HANDOFF` alone: notes since when the lock is reserved |
//! | a writer downgrades | | + `BIAS` − `WRITER`; `LISTENING`: clears it, wakes the first waiter |
//! | a reader that holds reads again (`embed`) | readers, not full | + `BIAS`, past all waiters |
//!
//! # Invariants
//!
//! 1. At most one writer holds; a reader that holds and a writer never do at once. (A reader that
//!    tests may be counted beside a writer.)
//! 2. A waiter takes the lock itself: no thread makes a sleeping thread owner.
//! 3. A reader that takes its test back wakes as a release does: its bias may have kept the last
//!    release from waking, or the first waiter from entering.
//! 4. At rest `count` is 0, and the queue and the OSQ are empty.
//! 5. No reader that finds the lock full enters before a reader has left. So the count passes full
//!    by no more than the threads that came before, and those that test: it never overflows.
//!
//! # Ordering
//!
//! * `count`, holders: taking is Acquire, releasing is Release. Each change is a read-modify-write,
//!   so a writer synchronises with *all* readers before it: each continues the release sequences
//!   of those that it followed.
//! * `count`, requests: the first waiter and the new owner set `HANDOFF` and `LISTENING` with
//!   AcqRel. A release that finds `LISTENING` clears it with AcqRel, and then reads the name of the
//!   first waiter: see [`wait::turn`](crate::wait::turn) for why an old name does no harm. A
//!   newcomer sets `HANDOFF`, and a thread that ends a reservation clears it, with Relaxed: it only
//!   forbids.
//! * `PENDING`, `pressed_at`: a hint. A reader that reads an old `pressed_at` clears `PENDING`
//!   early: the writer's spin is lost.
//!
//! **Bound on bypass.** Readers and writers alike have the bound of
//! [`wait::turn`](crate::wait::turn): per waiter ahead a turn, a hold and a wake-up. So neither
//! overlapping readers keep a writer out, nor a stream of writers a reader. Reads again and
//! *beside* (`embed`) pass all waiters, without a bound. A reader that is stopped in its test keeps
//! writers out. (A try, and a reader of `embed`, does not test.)
//!
//! **Destruction.** A release may read `count` and the queue after the next owner has the lock: the
//! memory must stay until each release has returned. (Detached releases: see `embed`.)
//!
//! **fork.** A lock that another thread holds stays held in the child. A reader of the parent that
//! tests at the fork (a few instructions) is counted there. If the forking thread holds the lock
//! for writing, its release takes such readers out, as long as it is the only thread of the child.
//!
//! **Recursion**: none, for readers either: a writer queued in between waits for the first hold,
//! and the second acquisition for the writer.
//!
//! Sources: Documentation/locking of Linux; the changelogs of `locking/rwsem`, 2019 to 2026. The
//! kernel's own forms, which share only the count with this one, are in `history::rwsem` (feature
//! `history`).

pub mod apart;
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
/// For how many first waiters [`LISTENING`] was set since a release cleared it: see `embed`.
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
        if !self.read_fast() {
            self.read_forever();
        }
    }

    /// Takes the lock for reading unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn read_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.read_fast() { Ok(()) } else { self.read_slow(until) }
    }

    /// `false`: the caller may not enter, and is counted.
    #[inline(always)]
    fn read_fast(&self) -> bool {
        self.count.fetch_add(BIAS, Acquire) & READ_BLOCK == 0
    }

    /// Takes the lock for reading if no writer holds it, it is not kept for a waiter, and there are
    /// not as many readers as can be counted.
    #[inline]
    pub fn try_read_acquire(&self) -> bool {
        self.try_read_at_once() || self.try_read_slow()
    }

    /// The same, without a look at the queue.
    #[inline]
    pub fn try_read_at_once(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        while count & READ_BLOCK == 0 {
            match self.count.compare_exchange_weak(count, count + BIAS, Acquire, Relaxed) {
                Ok(_) => return true,
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
        let count = self.count.fetch_sub(BIAS, Release).wrapping_sub(BIAS);
        if count & (LOCKED | LISTENING) == LISTENING {
            self.released();
        }
    }

    /// Takes the lock for writing.
    #[inline]
    pub fn write_acquire(&self) {
        if !self.write_fast() {
            self.write_forever();
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

    /// Takes the lock for writing if nobody holds it or waits: without a look at the queue.
    #[inline(always)]
    pub fn write_fast(&self) -> bool {
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
