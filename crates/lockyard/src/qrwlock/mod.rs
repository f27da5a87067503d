//! The queued reader-writer spinlock: readers count themselves in, a thread that has to wait takes
//! turns with the others.
//!
//! For short sections with many readers. Readers may not be recursive: the second acquisition waits
//! for a writer that waits for the first. (For signal handlers there is
//! [`read_acquire_urgent`](RawQRwLock::read_acquire_urgent).)
//!
//! # The words
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `word` | who holds the lock, and whether it is reserved: below | everybody |
//! | `wait_lock` | guards the queue | waiters |
//! | `queue`, `osq` | the waiters, and before they queue the spinners, see [`wait::turn`](crate::wait::turn) | waiters |
//!
//! | `word` | name | written by |
//! |---|---|---|
//! | bits 0–7 = 255 | locked | a writer: from 0 by a compare-exchange of the whole word; the writer inside: to 0 by a byte store |
//! | bits 0–7 = 1 | claimed | a writer: from 0 by a compare-exchange of the byte; see below |
//! | bit 8 | waiting | the first waiter sets it, or a fair release: nobody else may enter. Cleared by the first waiter when it has the lock, or by the thread that ends the reservation |
//! | bits 9–31 | readers | readers, by additions; an arriving reader that may not enter takes itself out again |
//! | bit 31 | full | nobody: the readers' highest bit. No more may come, urgent ones neither: forgotten guards must not make the count begin anew |
//!
//! | state (readers, waiting, locked) | event | next |
//! |---|---|---|
//! | r,0,0 | a reader comes | r+1,0,0: it is in |
//! | 0,0,0 | a writer comes | 0,0,1: it is in; in any other state it waits |
//! | r,w,0 | a writer comes that saw 0,0,0 | r,w,claimed: nobody enters; then 0,0,1 or r,w,0 |
//! | r,0,1 | the writer leaves; it downgrades | r,0,0; r+1,0,0 |
//!
//! A writer claims where narrow steps are faster than a wide one: see [`Lanes::take_bare`]. It then
//! looks at the other bits, and stores 255 to its byte. If others show, it stores 0, and waits.
//!
//! What a thread does that has to wait is said in `turns`. The kernel's locks of this kind, which
//! wait otherwise, are in `history::qrwlock` (feature `history`).
//!
//! # Invariants
//!
//! 1. While *locked* is set no reader is inside. (Counts of readers on their way out again may
//!    show.) While *claimed* is, readers may be inside, but nobody enters.
//! 2. An arriving reader's count may show at any time. So a writer compares the whole word,
//!    *waiting* included, in the same step in which it enters. Or it claims its byte, and looks at
//!    the other bits later: the count of a reader that is inside then was there before the claim.
//! 3. A thread that takes the last reader out wakes the registered waiters; so does a thread that
//!    clears *locked* or *claimed*. (A reader beside one of those leaves that to the writer.)
//! 4. Readers never pass *full* by more than there are threads: each takes itself out again, or was
//!    let in before the bit was set. As many more would fit.
//! 5. The look after a claim may be two, of bits 16–31 and then of bits 8–23. They find fewer than
//!    128 readers, and then a multiple of 32,768. That is 0 unless 32,000 threads and more are
//!    between their addition and taking that back at once: nobody else adds after a claim.
//!
//! # Memory ordering
//!
//! * `word`: entering is Acquire (a reader's addition, or its compare-exchange; a writer's
//!   compare-exchange, and its look after a claim) and reads from the Release of the thread that
//!   made it possible: a reader's subtraction, a writer's byte store. All changes of readers'
//!   counts and of *waiting* are read-modify-writes and keep those release sequences.
//! * Setting *waiting* and taking an arriving reader out again order nothing: Relaxed.
//! * Sleeping against leaving: {register; heavy fence; read word} against {leave; light fence; read
//!   table}; see [`heads`](crate::wait::heads).
//!
//! **Bound on bypass.** That of [`wait::turn`](crate::wait::turn), readers and writers alike.
//!
//! **Stopped for ever.** A waiter keeps nobody out. A reader that is stopped between its
//! addition and taking that back, some instructions in which it is not inside, keeps writers out.
//! (A try, and [`read_acquire_queued`](RawQRwLock::read_acquire_queued), adds only to enter.) A
//! writer that is stopped between its claim and its look keeps everybody out. (A try makes no
//! claim.)
//!
//! **Destruction.** Releases do not touch the lock after their one step on the word: they look at
//! the table by address. A waiter is a user, and so is a writer with a claim.
//!
//! **fork.** A lock held by another thread stays held in the child. The forking thread goes on with
//! what it holds: the parent's waiters are not in the child's queue. A parent's reader between its
//! addition and its taking that back is counted in the child. The writer inside takes it out as it
//! leaves or downgrades, while it is the child's only thread (invariant 1). Where the forking
//! thread holds the lock for reading, or the child has started threads by then, such a reader stays
//! counted: it is one of the parent's readers, which all stay. Another thread's claim is no hold: a
//! thread that finds it in its way takes it back while it is the child's only thread, and so does
//! [`forget_waiters`](RawQRwLock::forget_waiters). Where the child has threads by then, it stays.
//!
//! Sources: queued rwlock (Linux, Waiman Long 2014); "Don't contend with readers when setting
//! _QW_WAITING" (2015); Mellor-Crummey and Scott, "Scalable reader-writer synchronization" (1991).

mod embed;
mod fair;
mod turns;

use crate::cancel::{GaveUp, Until};

use crate::event::Event;
use crate::platform::{ConstPlatform, ConstZero, Lanes, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;

const LOCKED: u32 = 0xff;
const CLAIMED: u32 = 1;
const WAITING: u32 = 1 << 8;
/// One reader; what is below belongs to writers.
const READER: u32 = 1 << 9;
const LOCKED_LANE: u32 = 0;
/// More readers than threads can be, by far: four million and more, from guards that were
/// forgotten. As many again fit, for those that are arriving.
const FULL: u32 = 1 << 31;
/// What belongs to writers.
const WRITERS: u32 = READER - 1;
/// What an arriving reader must not see.
const BARRED: u32 = WRITERS | FULL;

/// The queued reader-writer spinlock: 16 bytes. See the [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawQRwLock<P: Platform> {
    word: P::Lanes,
    wait_lock: RawQSpinLock<P>,
    queue: WaitQueue<P>,
    osq: Osq<P>,
}

impl<P: Platform> Default for RawQRwLock<P> {
    fn default() -> Self {
        Self {
            word: P::Lanes::default(),
            wait_lock: RawQSpinLock::default(),
            queue: WaitQueue::default(),
            osq: Osq::default(),
        }
    }
}

impl<P: ConstPlatform> RawQRwLock<P> {
    /// An unlocked lock, in constants.
    pub const fn new() -> Self {
        Self { word: P::Lanes::ZERO, wait_lock: RawQSpinLock::new(), queue: WaitQueue::new(), osq: Osq::new() }
    }
}

impl<P: Platform> RawQRwLock<P> {
    /// Takes the lock for reading. One addition if no writer is inside or waits. While there are as
    /// many readers as can be counted it waits until one has left.
    #[inline]
    pub fn read_acquire(&self) {
        let word = self.word.fetch_add(READER, Acquire);
        if word & BARRED != 0 {
            self.read_slow();
        }
    }

    /// Takes the lock for reading unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn read_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        let word = self.word.fetch_add(READER, Acquire);
        if word & BARRED == 0 { Ok(()) } else { self.read_slow_until(until) }
    }

    /// Takes the lock for reading unless a writer is inside, the lock is kept for a waiter, or
    /// there are as many readers as can be counted. Also refused at the moment at which a writer
    /// comes, which may find other readers and wait.
    #[inline]
    pub fn try_read_acquire(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & BARRED == 0 {
            match self.word.compare_exchange_weak(word, word + READER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        self.turns_try_read()
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
    // Accesses of the byte that a release has stored last, or of the others, but not of both: a
    // processor may keep such a one waiting until the store is done.
    #[inline]
    pub fn write_acquire(&self) {
        if !self.take_bare() {
            self.write_slow();
        }
    }

    /// Takes the lock for writing unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn write_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.take_bare() { Ok(()) } else { self.write_slow_until(until) }
    }

    /// Takes the lock for writing if it is free and not kept for a waiter.
    #[inline]
    pub fn try_write_acquire(&self) -> bool {
        if self.word.load(Relaxed) == 0 && self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok() {
            return true;
        }
        self.turns_try_write()
    }

    /// Releases the write lock.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release(&self) {
        self.forget_strays();
        self.clear_byte();
    }

    /// Makes the write lock a read lock, in one step.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does. It then holds it for
    /// reading.
    #[inline]
    pub unsafe fn downgrade(&self) {
        self.forget_strays();
        let key = P::key(self);
        self.word.fetch_add(READER - LOCKED, Release);
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
        !self.queue.is_empty()
    }

    /// Takes the lock for writing if nobody holds it, waits or arrives.
    #[inline]
    fn take_bare(&self) -> bool {
        match self.word.take_bare(CLAIMED as u8, LOCKED as u8) {
            Some(taken) => taken || self.step_back(),
            None => false,
        }
    }

    /// The claim of a writer that is not alone goes. A thread that it kept out may sleep by now.
    #[cold]
    fn step_back(&self) -> bool {
        self.clear_byte();
        false
    }

    /// A writer leaves, and wakes the first waiter. (Invariant 3)
    #[inline]
    fn clear_byte(&self) {
        let key = P::key(self);
        self.word.store_byte(LOCKED_LANE, 0, Release);
        Self::kick(key);
    }

    /// The writer inside is about to leave. Readers that are counted beside it are arriving: few,
    /// so the middle shows them (invariant 5). In a child with one thread they were, in the parent,
    /// and take themselves out there.
    #[inline]
    fn forget_strays(&self) {
        if self.word.load_middle() >= (READER >> 8) as u16 {
            self.forget_strays_of_a_parent();
        }
    }

    #[cold]
    fn forget_strays_of_a_parent(&self) {
        if P::is_alone_in_child() {
            self.word.fetch_and(WRITERS, Relaxed);
        }
    }

    /// A reader leaves, and wakes the first waiter if the lock is free then. (Invariant 3)
    #[inline]
    fn leave(&self) {
        let key = P::key(self);
        if self.word.fetch_sub(READER, Release) & !WAITING == READER {
            Self::kick(key);
        }
    }

    /// An arriving reader takes itself out again, and wakes the first waiter if the lock is free
    /// then. (A waiter that is woken in vain registers no more: a writer inside is to wake it.)
    #[cold]
    fn take_back(&self) {
        let key = P::key(self);
        if self.word.fetch_sub(READER, Relaxed) & !WAITING == READER {
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

    /// A reader that is counted and may not proceed: it takes itself out, and waits.
    #[cold]
    fn read_slow(&self) {
        self.take_back();
        // Forever: the result cannot be an error.
        let _ = self.turns_read(Until::FOREVER);
        P::count(Event::QrwReadSlowpath, 1);
    }

    #[cold]
    fn read_slow_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.take_back();
        P::count(Event::QrwReadSlowpath, 1);
        self.turns_read(until)
    }

    #[cold]
    fn write_slow(&self) {
        // Forever: the result cannot be an error.
        let _ = self.turns_write(Until::FOREVER);
        P::count(Event::QrwWriteSlowpath, 1);
    }

    #[cold]
    fn write_slow_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        P::count(Event::QrwWriteSlowpath, 1);
        self.turns_write(until)
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawQRwLock<crate::platform::linux::Linux>>() == 16);

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
