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
//! | bit 8 | bits 0–7 = 1 | waiting | the first waiter, a writer, sets it and exchanges it for *locked*; nobody else touches it |
//! | bits 9–31 | bits 8–31 | readers | readers, by additions; an arriving reader that may not enter takes itself out again |
//! | bit 31 | the same | full | nobody: the readers' highest bit. No more may come: forgotten guards must not make the count begin anew |
//!
//! | state (readers, waiting, locked) | event | next |
//! |---|---|---|
//! | r,0,0 | a reader comes | r+1,0,0: it is in |
//! | r,w,l with w or l | a reader comes | r+1,w,l, then r,w,l: it queues for the wait lock |
//! | r is full | a reader comes | r+1, then r: it queues, and waits until the readers have left |
//! | 0,0,0 | a writer comes | 0,0,1: it is in; in any other state it queues |
//! | r,0,l | the first waiter, a writer | r,1,l (2014: waits until l is 0, and then r,1,0) |
//! | 0,1,0 | the same | 0,0,1: it is in, and lets go of the wait lock |
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
//!
//! # Waiting
//!
//! In the wait lock's queue as its theory says. The first waiter spins, then registers in the table of [sleeping heads](crate::wait::heads) under the
//! address of the word and sleeps until invariant 4 wakes it. It sleeps only after it has seen, registered and behind the heavy fence, that what it waits
//! for is not so.
//!
//! **Bound on bypass** (modern policies). The first waiter: a writer shuts everybody out with *waiting*, a reader with its count shuts writers out; it
//! is passed by nobody. Behind it: the wait lock's bound, one [turn](crate::wait::turn::TURN_NS) per waiter ahead, plus the sections of those served.
//! Policies of 2014: none, see there.
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
//! **fork.** A lock held or queued on by other threads stays so in the child.
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
/// More readers than threads can be, by far: four million and more, from guards that were forgotten. As many again fit, for those that are arriving.
const FULL: u32 = 1 << 31;
/// How long the first waiter sleeps where it cannot rely on being woken.
const BLIND_NS: u64 = 1_000_000;

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

    /// Takes the lock for reading. One addition if no writer is inside or waits.
    #[inline]
    pub fn read_acquire(&self) {
        let word = self.word.fetch_add(Self::READER, Acquire);
        if word & Self::BARRED != 0 {
            self.read_slow(word);
        }
    }

    /// Takes the lock for reading unless a writer is inside or waits.
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

    /// Takes the lock for reading past waiting writers: waits only for one that is inside.
    ///
    /// For readers that may be running on top of another reader of the same lock, such as signal handlers: queueing behind a writer that waits
    /// for that one would never end. Unfair on purpose.
    #[inline]
    pub fn read_acquire_urgent(&self) {
        if self.word.fetch_add(Self::READER, Acquire) & LOCKED == LOCKED {
            P::count(Event::QrwReadSlowpath, 1);
            self.wait_for_writer();
        }
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
    /// No thread of this process waits for the lock, or does anything with it but take it and release it without waiting, until this returns.
    pub unsafe fn forget_waiters(&self) {
        // SAFETY: nobody in this process holds the wait lock: its holder, if any, was another thread of the parent.
        unsafe { self.wait_lock.forget() };
        if self.word.load(Relaxed) & LOCKED != LOCKED {
            // In the layout of 2014 the mark shares the writer's byte.
            self.word.fetch_and(!Self::WAITING, AcqRel);
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
            // Whoever takes the last reader out ends a sleep (invariant 4).
            self.wait(|word| word & FULL == 0, |_| true);
        }
        if Y::KNOBS.count_then_wait {
            self.word.fetch_add(Self::READER, Relaxed);
            self.wait_for_writer();
        } else {
            // Nobody else can set *waiting* meanwhile, so a writer's byte that is zero can only become *locked* again.
            let clear = |word| word & LOCKED == 0;
            self.wait(clear, |_| true);
            self.word.fetch_add(Self::READER, Acquire);
            self.wait_for_writer();
        }
        // SAFETY: acquired above.
        unsafe { self.wait_lock.release() };
        P::count(Event::QrwReadSlowpath, 1);
    }

    /// Counted in already: waits until no writer is inside.
    fn wait_for_writer(&self) {
        self.wait(|word| word & LOCKED != LOCKED, |_| true);
    }

    #[cold]
    fn write_slow(&self) {
        self.wait_lock.acquire();
        if !self.try_write_acquire() {
            self.set_waiting();
            let free = |word| word == Self::WAITING;
            self.wait(free, |word| {
                let taken = self.word.compare_exchange(word, LOCKED, Acquire, Relaxed).is_ok();
                P::count(Event::QrwWlockFail, i64::from(!taken));
                taken
            });
        }
        // SAFETY: acquired above.
        unsafe { self.wait_lock.release() };
        P::count(Event::QrwWriteSlowpath, 1);
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
            SetWaiting::ByteCas => self.wait(clear, |_| {
                counted(self.word.compare_exchange_byte(LOCKED_LANE, 0, Self::WAITING as u8, Relaxed, Relaxed).is_ok())
            }),
            SetWaiting::WordCas => self.wait(clear, |word| {
                counted(self.word.compare_exchange(word, word | Self::WAITING, Relaxed, Relaxed).is_ok())
            }),
        }
    }

    /// Waits until the word is `ready` and `take` of it succeeds. Sleeps only while it is not `ready`.
    fn wait(&self, ready: impl Fn(u32) -> bool, take: impl Fn(u32) -> bool) {
        let attempt = || {
            let word = self.word.load(Acquire);
            (ready(word) && take(word)).then_some(())
        };
        let patience = bout::<P>();
        if P::spin(patience, attempt).is_some() {
            return;
        }
        while_waiting::<P, _>(|place| {
            let mut round = 0u32;
            while P::spin(patience, attempt).is_none() {
                match place {
                    Some((me, _)) => self.sleep_unless(me, &ready),
                    None => {
                        P::nap(round);
                        round = round.saturating_add(1);
                    }
                }
            }
        });
    }

    /// Sleeps until woken, unless the word is `ready` by now.
    #[cold]
    fn sleep_unless(&self, me: &Thread<P>, ready: &impl Fn(u32) -> bool) {
        let key = P::key(self);
        let registered = P::heads().insert(key, me.id());
        let fenced = P::fence_heavy();
        let now_ready = || ready(self.word.load(Relaxed));
        if !now_ready() {
            P::count(Event::QrwSleep, 1);
            if registered {
                heads::sleep(me, None, fenced, now_ready);
            } else {
                me.park(Some(P::now() + BLIND_NS));
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
