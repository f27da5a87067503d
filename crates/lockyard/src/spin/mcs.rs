//! The MCS lock: each waiter spins on its own line, and a hand-over costs the same however many
//! wait.
//!
//! The queue lock of the books, a baseline to measure against: no stealing, no pending bit, no head
//! that watches the lock word. What it gains at high contention it loses when the next in line has
//! no CPU: the lock then waits for that thread alone.
//!
//! The original keeps the owner's node in the queue as long as the lock is held, so every held lock
//! needs a node. This is the form in which the lock itself stands in for it (K42): a node is in use
//! only while its thread waits.
//!
//! # The word
//!
//! | bits | name | meaning | written by |
//! |---|---|---|---|
//! | 0–15 | next | the first waiter, 0 = nobody waits | the first waiter, together with tail; an owner that has just left the queue |
//! | 16–31 | tail | 0 free; 1 held, nobody waits; else the last waiter: nesting level (2 bits), thread id (14 bits) | newcomers; the owner when nobody waits |
//!
//! | state (next, tail) | event | next |
//! |---|---|---|
//! | 0,0 | `acquire` | 0,HELD |
//! | 0,HELD | `release` | 0,0 |
//! | 0,HELD | a newcomer n | n,n |
//! | a,b | a newcomer n | a,n, then b's node names n |
//! | a,b | `release` | unchanged; a's node says that it is the owner now |
//! | a,a | a has become owner | 0,HELD |
//! | a,b | a has become owner; its node names c | c,b |
//! | a,b | a newcomer n of a child, and b is a ghost | n,n |
//! | a,b | `release` in a child, and a is a ghost | 0,0 |
//!
//! Every change but the last is a compare-exchange of the whole word, so `next` is zero exactly
//! when `tail` is not a waiter: `release` never waits.
//!
//! # Waiting
//!
//! Spins on its own node while the waiter before it runs, for [`Platform::spin_budget`] at most
//! (without limit where the machine tells when the CPU is needed); the first waiter, which does not
//! know the owner, as any spinlock's. Then it sleeps until it is made owner. **Bound on bypass:**
//! none pass; first come, first served. Threads without a node (registry exhausted, nested too
//! deep) try now and then, and only get a lock that nobody waits for.
//!
//! # Memory ordering
//!
//! * `word`: taking it free is Acquire and reads from the Release compare-exchange that freed it. A
//!   newcomer's is Release, and Acquire if somebody is before it: its node is ready for threads
//!   that read its name, and it may write to the node whose name it read. A releaser reads with
//!   Acquire.
//! * `node.next`: Release store by the newcomer, Acquire load by the owner.
//! * `node.wait`: Release swap by the releaser, Acquire by the waiter: the critical sections' own
//!   pair.
//!
//! **Destruction.** `release` does not touch the lock after its compare-exchange: the lock may be
//! freed by the next owner. The node it then touches is type-stable.
//!
//! # A waiter that is stopped
//!
//! The lock is handed over in the order of the queue, so it stops when one waiter stops: a thread
//! that a signal handler keeps for ever while it waits is made owner in its turn, and keeps
//! everybody out. That is the nature of the lock of the books; the lock that does without it is
//! [`qspinlock`](super::qspinlock).
//!
//! # fork
//!
//! A lock that another thread held or was being handed stays so in the child. Those that waited for
//! it are *ghosts* there ([`Platform::is_here`]). All of them were queued before any thread of the
//! child, so a tail that is a ghost says that nobody waits: a newcomer is then the first. And a
//! first waiter that is a ghost is followed by none but ghosts: the owner frees the lock. (A thread
//! that forks in a signal handler while it waits is behind an owner that the child does not have
//! either.)
//!
//! Sources: Mellor-Crummey and Scott 1991; the K42 variant: Auslander et al., US patent application
//! 2003/0200457, and Scott, "Shared-Memory Synchronization" (2013), section 4.3.

use crate::event::Event;
use crate::platform::record::McsNode;
use crate::platform::thread::{NodeName, Thread, one_level_deeper, with_nodes};
use crate::platform::{ConstPlatform, ConstZero, Lanes, Ordering::*, Patience, Platform, Word};
use crate::spin::bout;

const NEXT_LANE: u32 = 0;
const NEXT_MASK: u32 = 0xffff;
const TAIL_SHIFT: u32 = 16;
/// Held, and nobody waits. Not a name: thread ids begin with 1, and so names with 4.
const HELD: u32 = 1 << TAIL_SHIFT;

// node.wait
const WAITING: u32 = 0;
const ASLEEP: u32 = 1;
const OWNER: u32 = 2;

impl<P: Platform> McsNode<P> {
    fn of(thread: &Thread<P>, name: NodeName) -> &Self {
        &thread.mcs[name.level()]
    }
}

fn as_tail(name: NodeName) -> u32 {
    u32::from(name.raw()) << TAIL_SHIFT
}

/// The MCS lock: 4 bytes. See the [module text](self).
#[derive(Debug)]
#[repr(transparent)]
pub struct RawMcsLock<P: Platform> {
    word: P::Lanes,
}

impl<P: Platform> Default for RawMcsLock<P> {
    fn default() -> Self {
        Self { word: P::Lanes::default() }
    }
}

impl<P: ConstPlatform> RawMcsLock<P> {
    /// An unlocked lock, in constants.
    pub const fn new() -> Self {
        Self { word: P::Lanes::ZERO }
    }
}

impl<P: Platform> RawMcsLock<P> {
    /// Takes the lock. One compare-exchange if it is free.
    #[inline]
    pub fn acquire(&self) {
        if self.word.compare_exchange(0, HELD, Acquire, Relaxed).is_err() {
            self.acquire_slow();
        }
    }

    /// Takes the lock if it is free: never overtakes.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.word.compare_exchange(0, HELD, Acquire, Relaxed).is_ok()
    }

    /// Releases the lock: frees it, or makes the first waiter its owner.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    #[inline]
    pub unsafe fn release(&self) {
        if let Err(word) = self.word.compare_exchange(HELD, 0, Release, Acquire) {
            self.hand_over(word);
        }
    }

    /// Whether somebody holds the lock.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    /// Whether somebody waits for the lock.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.word.load(Relaxed) & NEXT_MASK != 0
    }

    /// The lock is waited for, or was: its word is `word`.
    fn hand_over(&self, mut word: u32) {
        let ghost = |name: NodeName| name.id().is_some_and(|id| !P::is_here(id));
        let next = loop {
            let Some(next) = NodeName::from_raw(word & NEXT_MASK) else { return };
            if !ghost(next) {
                break next;
            }
            // Release: as in `release`. A newcomer may have made itself the first meanwhile.
            match self.word.compare_exchange(word, 0, Release, Acquire) {
                Ok(_) => return,
                Err(found) => word = found,
            }
            P::relax();
        };
        let Some(thread) = next.thread::<P>() else { return };
        if McsNode::of(thread, next).wait.swap(OWNER, AcqRel) == ASLEEP {
            P::count(Event::PvKickUnlock, 1);
            thread.unpark();
        }
    }

    #[cold]
    fn acquire_slow(&self) {
        with_nodes::<P, _>(|me| {
            one_level_deeper(me, |place| {
                if let Some((me, level)) = place {
                    return self.acquire_queued(me, level);
                }
                P::count(Event::LockNoNode, 1);
                let mut round = 0;
                while !self.try_acquire() {
                    P::nap(round);
                    round = round.saturating_add(1);
                }
            });
        });
    }

    fn acquire_queued(&self, me: &'static Thread<P>, level: usize) {
        let name = NodeName::new(me.id(), level);
        let node = McsNode::of(me, name);
        node.next.store(0, Relaxed);
        node.wait.store(WAITING, Relaxed);
        let previous = match self.enqueue(name) {
            Place::Owner => return,
            Place::First => None,
            Place::Behind(previous) => previous.thread::<P>().inspect(|thread| {
                McsNode::of(thread, previous).next.store(name.raw().into(), Release);
            }),
        };
        Self::wait_for_ownership(me, node, previous);
        self.leave_queue(name, node);
        P::count(Event::LockSlowpath, 1);
    }

    /// Takes the lock if it has become free, or becomes the last waiter.
    fn enqueue(&self, name: NodeName) -> Place {
        let mut word = self.word.load(Relaxed);
        loop {
            let (place, new) = match NodeName::from_raw(word >> TAIL_SHIFT) {
                None => (Place::Owner, HELD),
                // Held, and nobody waits; or none but ghosts.
                Some(last) if word == HELD || last.id().is_some_and(|id| !P::is_here(id)) => {
                    (Place::First, as_tail(name) | u32::from(name.raw()))
                }
                Some(last) => (Place::Behind(last), as_tail(name) | word & NEXT_MASK),
            };
            match self.word.compare_exchange_weak(word, new, AcqRel, Relaxed) {
                Ok(_) => return place,
                Err(found) => word = found,
            }
            P::relax();
        }
    }

    fn wait_for_ownership(me: &Thread<P>, node: &McsNode<P>, previous: Option<&Thread<P>>) {
        let owner = || (node.wait.load(Acquire) == OWNER).then_some(());
        let patience = match previous {
            Some(previous) => Patience::ns(P::spin_budget()).courteous().while_running(previous.id()),
            None => bout::<P>(),
        };
        if P::spin(patience, owner).is_some() {
            return;
        }
        if node.wait.compare_exchange(WAITING, ASLEEP, AcqRel, Acquire).is_err() {
            return;
        }
        P::count(Event::PvWaitNode, 1);
        loop {
            me.park(None);
            if owner().is_some() {
                return;
            }
            P::count(Event::PvSpuriousWakeup, 1);
        }
    }

    /// The lock is ours: the word is to name the waiter behind us, if there is one.
    fn leave_queue(&self, name: NodeName, node: &McsNode<P>) {
        let only = as_tail(name) | u32::from(name.raw());
        if self.word.load(Relaxed) == only && self.word.compare_exchange(only, HELD, Relaxed, Relaxed).is_ok() {
            return;
        }
        // It has become last, and is about to say so.
        let next = P::wait_window(|| NodeName::from_raw(node.next.load(Acquire)));
        self.word.store_half(NEXT_LANE, next.raw(), Relaxed);
    }
}

/// Where a newcomer stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Owner,
    First,
    Behind(NodeName),
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawMcsLock<crate::platform::linux::Linux>>() == 4);
