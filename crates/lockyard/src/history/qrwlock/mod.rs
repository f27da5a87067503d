//! The kernel's queued reader-writer spinlock: readers count themselves in, a thread that has to
//! wait queues for a spinlock.
//!
//! The one that people use is [`RawQRwLock`](crate::raw::RawQRwLock), policy `today`
//! by name: the same fast paths, but waiters take turns.
//!
//! # The words
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `word` | who holds the lock, and whether it is reserved: below | everybody |
//! | `wait_lock` | its holder is the first waiter; its queue is the queue | waiters |
//!
//! | `word`, modern | 2014 | name | written by |
//! |---|---|---|---|
//! | bits 0–7 = 255 | the same | locked | a writer: from 0 by a compare-exchange of the whole word; the writer inside: to 0 by a byte store |
//! | bit 8 | bits 0–7 = 1 | waiting | the first waiter, a writer, sets it: nobody else may enter. Cleared by it as it enters |
//! | bits 9–31 | bits 8–31 | readers | readers, by additions; an arriving reader that may not enter takes itself out again |
//! | bit 31 | the same | full | nobody: the readers' highest bit. No more may come, urgent ones neither: forgotten guards must not make the count begin anew |
//!
//! | state (readers, waiting, locked) | event | next |
//! |---|---|---|
//! | r,0,0 | a reader comes | r+1,0,0: it is in |
//! | 0,0,0 | a writer comes | 0,0,1: it is in; in any other state it waits |
//! | r,0,1 | the writer leaves; it downgrades | r,0,0; r+1,0,0 |
//!
//! What a thread does that has to wait is said in `wait`. A [policy] decides the layout and how
//! *waiting* is set.
//!
//! # Invariants
//!
//! 1. While *locked* is set no reader is inside. (Counts of readers on their way out again, and of
//!    one that waits, may show.)
//! 2. An arriving reader's count may show at any time. So a writer compares the whole word,
//!    *waiting* included, in the same step in which it enters.
//! 3. A thread that takes the last reader out, inside or arriving, wakes the registered waiter; so
//!    does a thread that clears *locked*.
//! 4. Readers never pass *full* by more than there are threads: each takes itself out again, or was
//!    let in before the bit was set. As many more would fit.
//!
//! # Memory ordering
//!
//! * `word`: entering is Acquire (a reader's addition, or its load that finds *locked* clear; a
//!   writer's compare-exchange) and reads from the Release of the thread that made it possible: a
//!   reader's subtraction, a writer's byte store. All changes of readers' counts and of *waiting*
//!   are read-modify-writes and keep those release sequences.
//! * Setting *waiting* and taking an arriving reader out again order nothing: Relaxed.
//! * Sleeping against leaving: {register; heavy fence; read word} against {leave; light fence; read
//!   table}; see `wait::heads`.
//!
//! **Bound on bypass, reservations, fork.** See `wait`.
//!
//! **Destruction.** Releases do not touch the lock after their one step on the word: they look at
//! the table by address. A waiter is a user.
//!
//! Sources: queued rwlock (Linux, Waiman Long 2014); "Don't contend with readers when setting
//! _QW_WAITING" (2015); Mellor-Crummey and Scott, "Scalable reader-writer synchronization" (1991).

pub mod policy;

mod wait;

use core::marker::PhantomData;

use crate::event::Event;
use crate::platform::{ConstPlatform, ConstZero, Lanes, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use policy::{Layout, Policy};

const LOCKED: u32 = 0xff;
const LOCKED_LANE: u32 = 0;
/// Set in the writer's byte when it is *locked*, and in no other of its values.
const INSIDE: u32 = 0x80;
/// More readers than threads can be, by far: four million and more, from guards that were
/// forgotten. As many again fit, for those that are arriving.
const FULL: u32 = 1 << 31;

/// The kernel's queued reader-writer spinlock, with policy `Y`: 8 bytes. See the [module
/// text](self).
#[derive(Debug)]
#[repr(C)]
pub struct KernelQRwLock<P: Platform, Y: Policy> {
    word: P::Lanes,
    wait_lock: RawQSpinLock<P>,
    policy: PhantomData<Y>,
}

impl<P: Platform, Y: Policy> Default for KernelQRwLock<P, Y> {
    fn default() -> Self {
        Self { word: P::Lanes::default(), wait_lock: RawQSpinLock::default(), policy: PhantomData }
    }
}

impl<P: ConstPlatform, Y: Policy> KernelQRwLock<P, Y> {
    /// An unlocked lock, in constants.
    pub const fn new() -> Self {
        Self { word: P::Lanes::ZERO, wait_lock: RawQSpinLock::new(), policy: PhantomData }
    }
}

impl<P: Platform, Y: Policy> KernelQRwLock<P, Y> {
    const LAYOUT: Layout = Y::KNOBS.layout();
    const READER: u32 = Self::LAYOUT.reader;
    const WAITING: u32 = Self::LAYOUT.waiting;
    /// What belongs to writers.
    const WRITERS: u32 = Self::READER - 1;
    /// What an arriving reader must not see.
    const BARRED: u32 = Self::WRITERS | FULL;

    /// Takes the lock for reading. One addition if no writer is inside or waits. While there are as
    /// many readers as can be counted it waits until one has left.
    #[inline]
    pub fn read_acquire(&self) {
        let word = self.word.fetch_add(Self::READER, Acquire);
        if word & Self::BARRED != 0 {
            self.read_slow(word);
        }
    }

    /// Takes the lock for reading unless a writer is inside or waits, or there are as many readers
    /// as can be counted.
    #[inline]
    pub fn try_read_acquire(&self) -> bool {
        if self.word.load(Relaxed) & Self::BARRED != 0 {
            return false;
        }
        let entered = self.word.fetch_add(Self::READER, Acquire) & Self::BARRED == 0;
        if !entered {
            self.take_back();
        }
        entered
    }

    /// Takes the lock for reading past waiting writers: waits only for one that is inside, and
    /// while there are as many readers as can be counted. For readers that may be running on top of
    /// another reader of the same lock.
    #[inline]
    pub fn read_acquire_urgent(&self) {
        if !self.read_acquire_urgent_unless_full() {
            self.wait_for_room();
        }
    }

    /// As [`read_acquire_urgent`](Self::read_acquire_urgent), unless there are as many readers as
    /// can be counted: then `false`.
    #[inline]
    pub fn read_acquire_urgent_unless_full(&self) -> bool {
        let word = self.word.fetch_add(Self::READER, Acquire);
        word & (INSIDE | FULL) == 0 || self.urgent_slow(word)
    }

    /// Whether there are as many readers as can be counted: one more waits until one has left, or
    /// is refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.word.load(Relaxed) & FULL != 0
    }

    /// Releases a read lock.
    ///
    /// # Safety
    /// The caller holds it for reading, or acts for a thread that does.
    #[inline]
    pub unsafe fn read_release(&self) {
        self.leave();
    }

    /// Takes the lock for writing. One compare-exchange if it is free.
    #[inline]
    pub fn write_acquire(&self) {
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            self.write_slow();
        }
    }

    /// Takes the lock for writing if nobody holds it and no writer waits.
    #[inline]
    pub fn try_write_acquire(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok()
    }

    /// Releases the write lock.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release(&self) {
        let key = P::key(self);
        self.word.store_byte(LOCKED_LANE, 0, Release);
        Self::kick(key);
    }

    /// Makes the write lock a read lock, in one step.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does. It then holds it for
    /// reading.
    #[inline]
    pub unsafe fn downgrade(&self) {
        let key = P::key(self);
        self.word.fetch_add(Self::READER - LOCKED, Release);
        Self::kick(key);
    }

    /// Whether somebody holds the lock or waits for it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    /// Whether a writer holds the lock.
    #[inline]
    pub fn is_write_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED == LOCKED
    }

    /// Whether somebody waits for the lock.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.wait_lock.is_locked()
    }

    /// A reader leaves, and wakes the first waiter if it was the last. (Invariant 3)
    #[inline]
    fn leave(&self) {
        let key = P::key(self);
        if self.word.fetch_sub(Self::READER, Release) & !Self::WRITERS == Self::READER {
            Self::kick(key);
        }
    }

    /// An arriving reader takes itself out again, and wakes as if it left.
    #[cold]
    fn take_back(&self) {
        let key = P::key(self);
        if self.word.fetch_sub(Self::READER, Relaxed) & !Self::WRITERS == Self::READER {
            Self::kick(key);
        }
    }

    /// The word has changed for the better. The lock may be gone: only its key is used.
    #[inline]
    fn kick(key: u64) {
        P::fence_light();
        if P::commons().heads.any(key) {
            P::commons().heads.kick(key);
        }
    }

    /// A reader that is counted and has found `word`: it takes itself out, and waits.
    #[cold]
    fn read_slow(&self, word: u32) {
        self.take_back();
        self.read_waiting(word);
        P::count(Event::QrwReadSlowpath, 1);
    }

    /// An urgent reader that is counted in, and has found `word`. `false`: it is not any more,
    /// there is no room.
    #[cold]
    fn urgent_slow(&self, word: u32) -> bool {
        if word & FULL != 0 {
            self.take_back();
            return false;
        }
        P::count(Event::QrwReadSlowpath, 1);
        self.wait_for_writer();
        true
    }

    #[cold]
    fn write_slow(&self) {
        self.write_waiting();
        P::count(Event::QrwWriteSlowpath, 1);
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
