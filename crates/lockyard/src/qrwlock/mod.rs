//! The queued reader-writer spinlock: readers count themselves in, whoever has to wait queues for an ordinary spinlock.
//!
//! For short sections with many readers. The first waiter holds the *wait lock*, a [queued spinlock](crate::spin::qspinlock), and is the only one
//! to watch the word; the others wait in that lock's queue, readers and writers alike, in order. Readers may not be recursive: the second
//! acquisition waits for a writer that waits for the first. (For signal handlers there is [`read_acquire_urgent`](RawQRwLock::read_acquire_urgent).)
//!
//! # The word
//!
//! | modern | 2014 | name | written by |
//! |---|---|---|---|
//! | bits 0–7 = 255 | the same | locked | a writer: from 0 by a compare-exchange of the whole word; the writer inside: to 0 by a byte store |
//! | bit 8 | bits 0–7 = 1 | waiting | the first waiter, a writer, sets it and exchanges it for *locked*, or clears it when it steps aside; nobody else touches it |
//! | bits 9–31 | bits 8–31 | readers | readers, by additions; an arriving reader that may not enter takes itself out again |
//! | bit 31 | the same | full | nobody: the readers' highest bit. No more may come, urgent ones neither: forgotten guards must not make the count begin anew |
//!
//! | state (readers, waiting, locked) | event | next |
//! |---|---|---|
//! | r,0,0 | a reader comes | r+1,0,0: it is in |
//! | r,w,l with w or l | a reader comes | r+1,w,l, then r,w,l: it queues for the wait lock |
//! | r is full | a reader comes | r+1, then r: it queues, and waits until a reader has left; or it is refused, if it can be |
//! | 0,0,0 | a writer comes | 0,0,1: it is in; in any other state it queues |
//! | r,0,l | the first waiter, a writer | r,1,l (2014: waits until l is 0, and then r,1,0) |
//! | 0,1,0 | the same | 0,0,1: it is in, and lets go of the wait lock |
//! | r,1,0 | the same, its time is over | r,0,0: it queues anew |
//! | r,0,l | the first waiter, a reader | r+1,0,l: in when l is 0 (2014: waits first, counts then) |
//!
//! Which layout, and how *waiting* is set, is the [`policy`]'s.
//!
//! # Invariants
//!
//! 1. While *locked* is set no reader is inside. (Counts of readers on their way out again may show.)
//! 2. At most one waiter of the word: it holds the wait lock. Urgent readers wait beside it.
//! 3. An arriving reader's count may show at any time. So a writer compares the whole word with *waiting*, in the same step in which it enters.
//! 4. Whoever takes the last reader out, inside or arriving, wakes the first waiter if it sleeps; so does whoever clears *locked*.
//! 5. Readers never pass *full* by more than there are threads: each takes itself out again, or was let in before the bit was set. As many more would fit.
//!
//! # Waiting
//!
//! In the wait lock's queue as its theory says. The first waiter spins, then registers in the table of [sleeping heads](crate::wait::heads) under the
//! address of the word and sleeps until invariant 4 wakes it. It sleeps only after it has seen, registered and behind the heavy fence, that what it waits
//! for is not so. That *full* is clear again nobody tells: who waits for that looks every millisecond.
//!
//! **Bound on bypass** (modern policies). The first waiter: a writer shuts everybody out with *waiting*, a reader with its count shuts writers out; it
//! is passed by nobody. Behind it: the wait lock's bound, one [turn](crate::wait::turn::TURN_NS) per waiter ahead, plus the sections of those served.
//! Policies of 2014: none, see there.
//!
//! # Stepping aside
//!
//! A reader that holds the lock may wait for another one that comes: a waiting writer shuts both out
//! for ever. Where programs do that, writers come by
//! [`write_acquire_aside`](RawQRwLock::write_acquire_aside). Such a writer is first waiter, with
//! *waiting* set, for 2 ms. If readers are inside by then it clears *waiting*, lets go of the wait
//! lock, and queues anew, behind all readers that have queued meanwhile. Each time it keeps readers
//! out for twice as long, up to 32 ms, so it gets the lock unless readers hold it for so long. A
//! reader is shut out for that time by each writer ahead of it. Such a writer loses its place: the
//! bound on bypass holds for it from its last queueing on.
//!
//! # Memory ordering
//!
//! * `word`: entering is Acquire (a reader's addition, or its load that finds *locked* clear; a writer's compare-exchange) and reads from the Release of
//!   the one that made it possible: a reader's subtraction, a writer's byte store. All changes of readers' counts and of *waiting* are read-modify-writes
//!   and keep those release sequences.
//! * Setting *waiting* and taking an arriving reader out again order nothing: Relaxed.
//! * Sleeping against leaving: {register; heavy fence; read word} against {leave; light fence; read table}; see `heads`.
//!
//! **Destruction.** Releases do not touch the lock after their one step on the word: they look at the table by address. A waiter is a user.
//!
//! **fork.** A lock held or queued on by other threads stays so in the child. [`forget_waiters`](RawQRwLock::forget_waiters)
//! leaves no waiter behind where the forking thread holds the lock for writing. Where it does not, a
//! waiting reader's count stays: nothing tells it from one that reads.
//!
//! Sources: queued rwlock (Linux, Waiman Long 2014); "Don't contend with readers when setting _QW_WAITING" (2015); Mellor-Crummey and Scott, "Scalable reader-writer synchronization" (1991).

pub mod policy;

use core::marker::PhantomData;

use crate::event::Event;
use crate::platform::{ConstPlatform, ConstZero, Lanes, Ordering::*, Platform, Word};
use crate::spin::bout;
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::heads;
use crate::wait::thread::{Thread, while_waiting};
use policy::{Layout, Policy, SetWaiting, Today};

const LOCKED: u32 = 0xff;
const LOCKED_LANE: u32 = 0;
/// Set in the writer's byte when it is *locked*, and in no other of its values.
const INSIDE: u32 = 0x80;
/// More readers than threads can be, by far: four million and more, from guards that were forgotten. As many again fit, for those that are arriving.
const FULL: u32 = 1 << 31;
/// How long the first waiter sleeps where it cannot rely on being woken.
const BLIND_NS: u64 = 1_000_000;
/// How long a writer that steps aside keeps readers out at first.
const RESERVED_NS: u64 = 2_000_000;
/// What that grows to.
const LONGEST_RESERVED_NS: u64 = 32_000_000;

/// Whether somebody wakes who waits for a change of the word. (Invariant 4)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Yes,
    No,
}

/// The queued reader-writer spinlock: 8 bytes. See the [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawQRwLock<P: Platform, Y: Policy = Today> {
    word: P::Lanes,
    wait_lock: RawQSpinLock<P>,
    policy: PhantomData<Y>,
}

impl<P: Platform, Y: Policy> Default for RawQRwLock<P, Y> {
    fn default() -> Self {
        Self { word: P::Lanes::default(), wait_lock: RawQSpinLock::default(), policy: PhantomData }
    }
}

impl<P: ConstPlatform, Y: Policy> RawQRwLock<P, Y> {
    /// An unlocked lock, in constants.
    pub const fn new() -> Self {
        Self { word: P::Lanes::ZERO, wait_lock: RawQSpinLock::new(), policy: PhantomData }
    }
}

impl<P: Platform, Y: Policy> RawQRwLock<P, Y> {
    const LAYOUT: Layout = Y::KNOBS.layout();
    const READER: u32 = Self::LAYOUT.reader;
    const WAITING: u32 = Self::LAYOUT.waiting;
    /// What belongs to writers.
    const WRITERS: u32 = Self::READER - 1;
    /// What an arriving reader must not see.
    const BARRED: u32 = Self::WRITERS | FULL;

    /// Takes the lock for reading. One addition if no writer is inside or waits. While there are as many readers as can be counted it waits until one has left.
    #[inline]
    pub fn read_acquire(&self) {
        let word = self.word.fetch_add(Self::READER, Acquire);
        if word & Self::BARRED != 0 {
            self.read_slow(word);
        }
    }

    /// Takes the lock for reading unless a writer is inside or waits, or there are as many readers as can be counted.
    #[inline]
    pub fn try_read_acquire(&self) -> bool {
        if self.word.load(Relaxed) & Self::BARRED != 0 {
            return false;
        }
        let entered = self.word.fetch_add(Self::READER, Acquire) & Self::BARRED == 0;
        if !entered {
            self.leave(Relaxed);
        }
        entered
    }

    /// Takes the lock for reading as [`read_acquire`](Self::read_acquire) does, unless there are as many readers as can be counted: then `false`.
    #[inline]
    pub fn read_acquire_unless_full(&self) -> bool {
        let word = self.word.fetch_add(Self::READER, Acquire);
        word & Self::BARRED == 0 || self.read_slow_unless_full(word)
    }

    /// Takes the lock for reading past waiting writers: waits only for one that is inside, and while there are as many readers as can be counted.
    ///
    /// For readers that may be running on top of another reader of the same lock, such as signal handlers: queueing behind a writer that waits
    /// for that one would never end. Unfair on purpose.
    #[inline]
    pub fn read_acquire_urgent(&self) {
        if !self.read_acquire_urgent_unless_full() {
            self.wait_for_room();
        }
    }

    /// As [`read_acquire_urgent`](Self::read_acquire_urgent), unless there are as many readers as can be counted: then `false`.
    #[inline]
    pub fn read_acquire_urgent_unless_full(&self) -> bool {
        let word = self.word.fetch_add(Self::READER, Acquire);
        word & (INSIDE | FULL) == 0 || self.urgent_slow(word)
    }

    /// Whether there are as many readers as can be counted: one more waits until one has left, or is refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.word.load(Relaxed) & FULL != 0
    }

    /// Takes the lock for reading once more, past everybody who waits, if readers hold it.
    pub fn try_read_again(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & LOCKED != LOCKED && word & FULL == 0 && word >= Self::READER {
            match self.word.compare_exchange_weak(word, word + Self::READER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
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
        self.leave(Release);
    }

    /// Takes the lock for writing. One compare-exchange if it is free.
    #[inline]
    pub fn write_acquire(&self) {
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            self.write_slow();
        }
    }

    /// Takes the lock for writing, but keeps readers out for others that read for a time only. See *Stepping aside* in the [module text](self).
    #[inline]
    pub fn write_acquire_aside(&self) {
        if self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_err() {
            self.write_slow_aside();
        }
    }

    /// Takes the lock for writing if it is free and nobody waits.
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
    /// The caller holds it for writing, or acts for the thread that does. It then holds it for reading.
    #[inline]
    pub unsafe fn downgrade(&self) {
        let key = P::key(self);
        self.word.fetch_add(Self::READER - LOCKED, Release);
        Self::kick(key);
    }

    /// In a child process: forgets who waited for the lock in the parent. Who holds it still does.
    ///
    /// # Safety
    /// No thread of this process waits for the lock or reads it, or does anything with it but take it for writing and release it without waiting, until this returns.
    pub unsafe fn forget_waiters(&self) {
        // SAFETY: nobody in this process holds the wait lock: its holder, if any, was another thread of the parent.
        unsafe { self.wait_lock.forget() };
        let mut word = self.word.load(Relaxed);
        loop {
            // Beside a writer nobody reads: the counts are of the parent's waiters. (Invariant 1) In the
            // layout of 2014 the mark shares the writer's byte.
            let kept = if word & LOCKED == LOCKED { LOCKED } else { word & !Self::WAITING };
            match self.word.compare_exchange_weak(word, kept, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
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

    /// Takes a reader out, and wakes the first waiter if it was the last. (Invariant 4)
    #[inline]
    fn leave(&self, order: crate::platform::Ordering) {
        let key = P::key(self);
        if self.word.fetch_sub(Self::READER, order) & !Self::WRITERS == Self::READER {
            Self::kick(key);
        }
    }

    /// The word has changed for the better. The lock may be gone: only its key is used.
    #[inline]
    fn kick(key: u64) {
        P::fence_light();
        if P::heads().any(key) {
            P::heads().kick(key);
        }
    }

    #[cold]
    fn read_slow(&self, word: u32) {
        self.leave(Relaxed);
        self.wait_lock.acquire();
        if word & FULL != 0 {
            self.wait_while_full();
        }
        self.read_queued();
    }

    #[cold]
    fn read_slow_unless_full(&self, word: u32) -> bool {
        self.leave(Relaxed);
        let room = word & FULL == 0;
        if room {
            self.wait_lock.acquire();
            self.read_queued();
        }
        room
    }

    /// First waiter, a reader: enters, and lets go of the wait lock.
    fn read_queued(&self) {
        if Y::KNOBS.count_then_wait {
            self.word.fetch_add(Self::READER, Relaxed);
            self.wait_for_writer();
        } else {
            // Nobody else can set *waiting* meanwhile, so a writer's byte that is zero can only become *locked* again.
            let clear = |word| word & LOCKED == 0;
            self.wait(Told::Yes, clear, |_| true);
            self.word.fetch_add(Self::READER, Acquire);
            self.wait_for_writer();
        }
        // SAFETY: acquired by the caller.
        unsafe { self.wait_lock.release() };
        P::count(Event::QrwReadSlowpath, 1);
    }

    /// An urgent reader that is counted in, and has found `word`. `false`: it is not any more, there is no room.
    #[cold]
    fn urgent_slow(&self, word: u32) -> bool {
        if word & FULL != 0 {
            self.leave(Relaxed);
            return false;
        }
        P::count(Event::QrwReadSlowpath, 1);
        self.wait_for_writer();
        true
    }

    /// An urgent reader for which there was no room: beside the queue, which it must not join.
    #[cold]
    fn wait_for_room(&self) {
        loop {
            self.wait_while_full();
            if self.read_acquire_urgent_unless_full() {
                return;
            }
            P::relax();
        }
    }

    fn wait_while_full(&self) {
        self.wait(Told::No, |word| word & FULL == 0, |_| true);
    }

    /// Counted in already: waits until no writer is inside.
    fn wait_for_writer(&self) {
        self.wait(Told::Yes, |word| word & LOCKED != LOCKED, |_| true);
    }

    #[cold]
    fn write_slow(&self) {
        self.wait_lock.acquire();
        if !self.try_write_acquire() {
            self.wait_to_write(None);
        }
        // SAFETY: acquired above.
        unsafe { self.wait_lock.release() };
        P::count(Event::QrwWriteSlowpath, 1);
    }

    #[cold]
    fn write_slow_aside(&self) {
        let mut reserved = RESERVED_NS;
        loop {
            self.wait_lock.acquire();
            let taken = self.try_write_acquire() || self.wait_to_write(Some(P::now().saturating_add(reserved)));
            // SAFETY: acquired above.
            unsafe { self.wait_lock.release() };
            if taken {
                break;
            }
            reserved = (2 * reserved).min(LONGEST_RESERVED_NS);
        }
        P::count(Event::QrwWriteSlowpath, 1);
    }

    /// First waiter, a writer: waits until the lock is its own. `false`: readers held it until `end`, and are kept out no longer.
    fn wait_to_write(&self, end: Option<u64>) -> bool {
        self.set_waiting();
        let free = |word| word == Self::WAITING;
        let take = |word| {
            let taken = self.word.compare_exchange(word, LOCKED, Acquire, Relaxed).is_ok();
            P::count(Event::QrwWlockFail, i64::from(!taken));
            taken
        };
        if self.wait_until(Told::Yes, end, free, take) {
            return true;
        }
        self.word.fetch_and(!Self::WAITING, Relaxed);
        false
    }

    /// First waiter, a writer: shuts everybody else out.
    fn set_waiting(&self) {
        // While a writer is inside, 2014's byte is its.
        let clear = |word| word & LOCKED == 0;
        let counted = |set: bool| {
            P::count(Event::QrwWaitingFail, i64::from(!set));
            set
        };
        match Y::KNOBS.set_waiting {
            SetWaiting::FetchOr => {
                self.word.fetch_or(Self::WAITING, Relaxed);
            }
            SetWaiting::FetchAdd => {
                self.word.fetch_add(Self::WAITING, Relaxed);
            }
            SetWaiting::ByteCas => self.wait(Told::Yes, clear, |_| {
                counted(self.word.compare_exchange_byte(LOCKED_LANE, 0, Self::WAITING as u8, Relaxed, Relaxed).is_ok())
            }),
            SetWaiting::WordCas => self.wait(Told::Yes, clear, |word| {
                counted(self.word.compare_exchange(word, word | Self::WAITING, Relaxed, Relaxed).is_ok())
            }),
        }
    }

    /// Waits until the word is `ready` and `take` of it succeeds. Sleeps only while it is not `ready`.
    fn wait(&self, told: Told, ready: impl Fn(u32) -> bool, take: impl Fn(u32) -> bool) {
        self.wait_until(told, None, ready, take);
    }

    /// The same, but not past `end` while readers hold the lock: `false`.
    fn wait_until(
        &self,
        told: Told,
        end: Option<u64>,
        ready: impl Fn(u32) -> bool,
        take: impl Fn(u32) -> bool,
    ) -> bool {
        let attempt = || {
            let word = self.word.load(Acquire);
            (ready(word) && take(word)).then_some(())
        };
        let patience = bout::<P>();
        if P::spin(patience, attempt).is_some() {
            return true;
        }
        while_waiting::<P, _>(|place| {
            let mut round = 0u32;
            while P::spin(patience, attempt).is_none() {
                let over = end.is_some_and(|end| P::now() >= end);
                if over && self.word.load(Relaxed) & LOCKED != LOCKED {
                    return false;
                }
                match place {
                    // Past its end: the writer inside wakes it.
                    Some((me, _)) => self.sleep_unless(me, told, end.filter(|_| !over), &ready),
                    None => {
                        P::nap(round);
                        round = round.saturating_add(1);
                    }
                }
            }
            true
        })
    }

    /// Sleeps until woken, or until `end`, unless the word is `ready` by now.
    #[cold]
    fn sleep_unless(&self, me: &Thread<P>, told: Told, end: Option<u64>, ready: &impl Fn(u32) -> bool) {
        let key = P::key(self);
        let registered = P::heads().insert(key, me.id());
        let fenced = P::fence_heavy();
        let now_ready = || ready(self.word.load(Relaxed));
        if !now_ready() {
            P::count(Event::QrwSleep, 1);
            if registered && told == Told::Yes {
                heads::sleep(me, key, end, fenced, now_ready);
            } else {
                let blind = P::now() + BLIND_NS;
                me.park(Some(end.map_or(blind, |end| end.min(blind))));
            }
        }
        if registered {
            P::heads().remove(key, me.id());
        }
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawQRwLock<crate::platform::linux::Linux>>() == 8);

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
