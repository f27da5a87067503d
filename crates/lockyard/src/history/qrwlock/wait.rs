//! The kernel's waiting: a thread that has to wait queues for an ordinary spinlock, the *wait
//! lock*.
//!
//! The holder of the wait lock is the first waiter, and the only one to
//! watch the word; the others wait in that lock's queue, readers and writers alike, in order.
//!
//! | state (readers, waiting, locked) | event | next |
//! |---|---|---|
//! | r,w,l with w or l | a reader comes | r+1,w,l, then r,w,l: it queues for the wait lock |
//! | r is full | a reader comes | r+1, then r: it queues, and waits until a reader has left; or it is refused, if it can be |
//! | r,0,l | the first waiter, a writer | r,1,l (2014: waits until l is 0, and then r,1,0) |
//! | 0,1,0 | the same | 0,0,1: it is in, and releases the wait lock |
//! | r,0,l | the first waiter, a reader | r+1,0,l: in when l is 0 (2014: waits first, counts then) |
//!
//! **First waiter.** One at most waits for the word. It spins, then registers in the table of
//! [sleeping heads](crate::wait::heads) under the address of the word and sleeps until a release
//! wakes it. It sleeps only after it has seen, registered and behind the heavy fence, that what it
//! waits for is not so. No release tells that *full* is clear again: a reader that waits for that
//! looks every millisecond.
//!
//! **Bound on bypass** (modern policies). The first waiter: a writer shuts everybody out with
//! *waiting*, a reader with its count shuts writers out; it is passed by nobody. Behind it: the
//! wait lock's bound, one [turn](crate::wait::turn::TURN_NS) per waiter ahead, plus the sections of
//! those served. Policies of 2014: none, see [`policy`](super::policy).
//!
//! **Reservations** do not end: a first waiter that is stopped keeps a free lock shut.
//!
//! **fork.** The first waiter, *waiting*, and the count of a waiting reader stay in the child.

use crate::event::Event;
use crate::platform::thread::{Thread, while_waiting};
use crate::platform::{Lanes, Ordering::*, Platform, Word};
use crate::spin::bout;
use crate::wait::heads;

use super::policy::{Policy, SetWaiting};
use super::{FULL, KernelQRwLock, LOCKED, LOCKED_LANE};

/// How long the first waiter sleeps where it cannot rely on being woken.
pub(super) const BLIND_NS: u64 = 1_000_000;

/// Whether a release wakes the thread that waits for a change of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Yes,
    No,
}

impl<P: Platform, Y: Policy> KernelQRwLock<P, Y> {
    /// A reader that is not counted any more, and found `word`.
    pub(super) fn read_waiting(&self, word: u32) {
        self.wait_lock.acquire();
        if word & FULL != 0 {
            self.wait_while_full();
        }
        self.read_queued();
    }

    /// First waiter, a reader: enters, and releases the wait lock.
    fn read_queued(&self) {
        if Y::KNOBS.count_then_wait {
            self.word.fetch_add(Self::READER, Relaxed);
            self.wait_for_writer();
        } else {
            // Nobody else can set *waiting* meanwhile, so a writer's byte that is zero can only
            // become *locked* again.
            let clear = |word| word & LOCKED == 0;
            self.wait(Told::Yes, clear, |_| true);
            self.word.fetch_add(Self::READER, Acquire);
            self.wait_for_writer();
        }
        // SAFETY: acquired by the caller.
        unsafe { self.wait_lock.release() };
    }

    /// An urgent reader for which there was no room: beside the queue, which it must not join.
    pub(super) fn wait_for_room(&self) {
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
    pub(super) fn wait_for_writer(&self) {
        self.wait(Told::Yes, |word| word & LOCKED != LOCKED, |_| true);
    }

    /// A writer that found the lock taken.
    pub(super) fn write_waiting(&self) {
        self.wait_lock.acquire();
        if !self.try_write_acquire() {
            self.set_waiting();
            let free = |word| word == Self::WAITING;
            let take = |word| {
                let taken = self.word.compare_exchange(word, LOCKED, Acquire, Relaxed).is_ok();
                P::count(Event::QrwWlockFail, i64::from(!taken));
                taken
            };
            self.wait(Told::Yes, free, take);
        }
        // SAFETY: acquired above.
        unsafe { self.wait_lock.release() };
    }

    /// First waiter, a writer: shuts everybody else out.
    pub(super) fn set_waiting(&self) {
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

    /// Waits until the word is `ready` and `take` of it succeeds. Sleeps only while it is not
    /// `ready`.
    fn wait(&self, told: Told, ready: impl Fn(u32) -> bool, take: impl Fn(u32) -> bool) {
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
                    Some((me, _)) => self.sleep_unless(me, told, &ready),
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
    fn sleep_unless(&self, me: &Thread<P>, told: Told, ready: &impl Fn(u32) -> bool) {
        let key = P::key(self);
        let registered = P::commons().heads.insert(key, me.id());
        let fenced = P::fence_heavy();
        let now_ready = || ready(self.word.load(Relaxed));
        if !now_ready() {
            P::count(Event::QrwSleep, 1);
            if registered && told == Told::Yes {
                heads::sleep(me, key, None, fenced, now_ready);
            } else {
                me.park(Some(P::now() + BLIND_NS));
            }
        }
        if registered {
            P::commons().heads.remove(key, me.id());
        }
    }
}
