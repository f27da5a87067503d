//! The thread record: what other threads may touch of a thread, and its parking token.
//!
//! Records are type-stable: they are never unmapped while a lock exists, and are named by
//! [`ThreadId`], so that a waker, a spinner or an unlocker may touch one after its thread has moved
//! on or exited. A name tells which thread runs or waits now, not which one *holds*, after the
//! holder's death too: see "What a name means, and for how long" in `platform::linux::threads`.
//!
//! # Parking token
//!
//! | token | meaning | may be set by |
//! |---|---|---|
//! | `EMPTY` | nothing pending | the owner |
//! | `NOTIFIED` | a wake-up is due; the next park returns at once | anyone |
//! | `PARKED` | the owner sleeps, or is about to | the owner |
//!
//! The token is sticky: a wake-up given before the owner sleeps is not lost, whatever the order of
//! their instructions, because both sides only do read-modify-writes on one word. It carries no
//! reason. Every waiter therefore waits in a loop over its own condition; a wake-up meant for an
//! earlier wait, or for the record's earlier thread, costs one round.
//!
//! # Memory ordering
//!
//! `token`: a wake-up is a Release swap, consuming it is an Acquire swap, so what the waker wrote
//! before is visible to the waiter's re-check. Coherence of this one word gives "either the sleeper
//! sees the wake, or the waker sees the sleeper": the compare-exchange before a sleep orders
//! nothing, the swap behind it does. `id` is written once by the thread that claims the record,
//! before anyone can know its name.

use core::num::NonZeroU32;

use super::record::{Inheritance, McsNode, OsqNode, QueueNode, Waiter};
use super::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::event::Event;

/// The name of a thread record: 1 to [`ThreadId::MAX_INDEX`], or [`ThreadId::ANONYMOUS`].
///
/// Fits in 16 bits, zero is never used: lock words store it beside their flags. A spinlock's word
/// has room for 14 bits of it: see [`ThreadId::MAX_QUEUED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ThreadId(NonZeroU32);

impl ThreadId {
    /// The largest name of a record.
    pub const MAX_INDEX: u32 = (1 << 16) - 2;

    /// The largest name of a record with which a thread can queue for spinlocks: 14 bits, what a
    /// queued spinlock's tail has room for.
    pub const MAX_QUEUED: u32 = (1 << 14) - 1;

    /// Every thread that found the registry exhausted. It may own locks; it must not queue, but
    /// with a record that it borrows ([`Platform::stand_in`]).
    pub const ANONYMOUS: ThreadId = ThreadId(NonZeroU32::new(Self::MAX_INDEX + 1).unwrap());

    /// Bits that a name takes.
    pub const BITS: u32 = 16;

    /// The id with number `raw`, if it is one.
    #[inline(always)]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match NonZeroU32::new(raw) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The number of this id.
    #[inline(always)]
    pub const fn raw(self) -> u32 {
        self.0.get()
    }

    /// Whether this is [`ThreadId::ANONYMOUS`].
    #[inline(always)]
    pub const fn is_anonymous(self) -> bool {
        self.raw() > Self::MAX_INDEX
    }

    /// Whether the nodes of this record have names: its thread can queue for spinlocks with it.
    #[inline(always)]
    pub(crate) const fn has_nodes(self) -> bool {
        self.raw() <= Self::MAX_QUEUED
    }
}

/// Nesting levels of queued spinlocks in one thread: the thread itself and signal handlers.
pub(crate) const NESTING: usize = 4;

/// The name of one of the nodes that a thread queues with for spinlocks, in 16 bits: thread id and
/// nesting level. Names begin with 4, so that a lock has a few values for marks of its own beside
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeName(u16);

impl NodeName {
    pub(crate) fn new(thread: ThreadId, level: usize) -> Self {
        Self((thread.raw() << NESTING.ilog2()) as u16 | level as u16)
    }

    /// The name, or the mark, with this number; `None` for zero.
    pub(crate) fn from_raw(raw: u32) -> Option<Self> {
        (raw != 0).then_some(Self(raw as u16))
    }

    pub(crate) fn raw(self) -> u16 {
        self.0
    }

    /// Whose node it is; `None` for a mark.
    pub(crate) fn thread<P: Platform>(self) -> Option<&'static Thread<P>> {
        self.id().map(P::thread)
    }

    /// The name of the thread whose node it is.
    pub(crate) fn id(self) -> Option<ThreadId> {
        ThreadId::from_raw(u32::from(self.0) >> NESTING.ilog2())
    }

    /// Which of the thread's nodes.
    pub(crate) fn level(self) -> usize {
        usize::from(self.0) % NESTING
    }
}

/// How a thread without a record may wait for a signal.
#[derive(Debug)]
pub enum StandIn<P: Platform> {
    /// With this record, which it has borrowed.
    Record(&'static Thread<P>),
    /// Beside a thread that has: [`Platform::sleep_beside`] with these numbers.
    Joined(u32, u32),
    /// Not at all: it looks again after a while.
    Nobody,
}

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

/// A thread's record. See the module text.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Thread<P: Platform> {
    /// Parking token.
    token: P::U32,
    /// This record's own number; zero until first claimed.
    id: P::U32,
    /// How often the thread parked. Touched only by the owner (and its signal handlers).
    parks: P::U32,
    /// Queue nodes in use. Touched only by the owner (and its signal handlers).
    pub(crate) depth: P::U32,
    /// The node with which the thread queues among a lock's spinners.
    pub(crate) osq: OsqNode<P>,
    /// The nodes with which the thread queues for spinlocks.
    pub(crate) nodes: [QueueNode<P>; NESTING],
    /// The place in which the thread sleeps for a lock.
    pub(crate) waiter: Waiter<P>,
    /// The nodes with which the thread queues for MCS locks.
    pub(crate) mcs: [McsNode<P>; NESTING],
    /// The ticket locks that the thread waits for, by address; 0: none. For a child of a fork,
    /// where nobody else tells which numbers are ghosts'.
    pub(crate) tickets: [P::U64; NESTING],
    /// The thread's part in priority inheritance.
    pub(crate) pi: Inheritance<P>,
}

impl<P: Platform> Default for Thread<P> {
    fn default() -> Self {
        Self {
            token: P::U32::default(),
            id: P::U32::default(),
            parks: P::U32::default(),
            depth: P::U32::default(),
            osq: OsqNode::default(),
            nodes: Default::default(),
            waiter: Waiter::default(),
            mcs: Default::default(),
            tickets: Default::default(),
            pi: Inheritance::default(),
        }
    }
}

impl<P: Platform> Thread<P> {
    /// A record that nobody has claimed, in constants.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self {
            token: ConstZero::ZERO,
            id: ConstZero::ZERO,
            parks: ConstZero::ZERO,
            depth: ConstZero::ZERO,
            osq: ConstZero::ZERO,
            nodes: ConstZero::ZERO,
            waiter: ConstZero::ZERO,
            mcs: ConstZero::ZERO,
            tickets: ConstZero::ZERO,
            pi: ConstZero::ZERO,
        }
    }

    /// Names a record. For platforms, when a thread claims it.
    pub fn set_id(&self, id: ThreadId) {
        self.id.store(id.raw(), Relaxed);
    }

    /// The record's name.
    ///
    /// # Panics
    /// If no thread ever claimed it.
    #[inline]
    pub fn id(&self) -> ThreadId {
        ThreadId::from_raw(self.id.load(Relaxed)).expect("an unclaimed thread record was used")
    }

    /// Whether the thread is in no queue.
    pub fn is_idle(&self) -> bool {
        self.depth.load(Relaxed) == 0 && self.waiter.busy.load(Relaxed) == 0
    }

    /// Whether the record may change hands: the thread is in no queue and has left no node in one,
    /// and no lock that inherits priorities by name knows it as its owner.
    pub fn is_unused(&self) -> bool {
        self.is_idle() && !self.nodes.iter().any(QueueNode::is_left) && self.osq.is_free() && self.pi.is_idle()
    }

    /// The lowest level from the depth on whose spinlock node is in no queue: `depth` says so from
    /// here on, and the caller takes it back afterwards. `None`: there is none, and nothing has
    /// changed. Only for the record's own thread.
    pub(crate) fn enter_level(&self) -> Option<usize> {
        let depth = self.depth.load(Relaxed);
        for level in depth as usize..NESTING {
            // Stored before the node is looked at: a signal handler from here on uses the next one.
            self.depth.store(level as u32 + 1, Relaxed);
            if !self.nodes[level].is_left() {
                return Some(level);
            }
        }
        self.depth.store(depth, Relaxed);
        None
    }

    /// When the thread came as an [urgent waiter](crate::spin::urgent). A hint: a wait inside that
    /// wait, in a signal handler, moves it.
    pub(crate) fn urgent_since(&self) -> u64 {
        self.nodes[0].due.load(Relaxed)
    }

    /// The thread, which queues with no node, comes as an urgent waiter now.
    pub(crate) fn becomes_urgent(&self) {
        self.nodes[0].due.store(P::now(), Relaxed);
    }

    /// Whether a notification is pending: the thread was woken and has not run since. A hint.
    pub(crate) fn is_notified(&self) -> bool {
        self.token.load(Relaxed) == NOTIFIED
    }

    /// Forgets a wake-up that is due. For machines that give the record to another user, at rest:
    /// to be woken once too often is never wrong, but an observer of the new one would wonder.
    pub fn forget_wake_up(&self) {
        self.token.store(EMPTY, Relaxed);
    }

    /// Whether this is `other`'s record.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }

    /// Sleeps until notified or until `deadline`; returns at once if a notification is pending. May
    /// return spuriously. Only for the record's own thread.
    pub(crate) fn park(&self, deadline: Option<u64>) {
        let _ = self.sleep(|token| P::park(token, PARKED, deadline));
    }

    /// As [`Self::park`], until `deadline` of [`Platform::realtime`].
    pub(crate) fn park_realtime(&self, deadline: u64) {
        let _ = self.sleep(|token| P::park_realtime(token, PARKED, deadline));
    }

    /// As [`Self::park`]. `true`: a notification has ended it, or was pending.
    pub(crate) fn nap(&self, deadline: u64) -> bool {
        self.sleep(|token| P::park(token, PARKED, Some(deadline)))
    }

    fn sleep(&self, park: impl FnOnce(&P::U32)) -> bool {
        self.parks.store(self.parks().wrapping_add(1), Relaxed);
        if self.token.compare_exchange(EMPTY, PARKED, Relaxed, Relaxed).is_ok() {
            P::count(Event::ParkSleep, 1);
            park(&self.token);
        }
        self.token.swap(EMPTY, Acquire) == NOTIFIED
    }

    /// How often the thread has parked so far. Only for the record's own thread.
    pub(crate) fn parks(&self) -> u32 {
        self.parks.load(Relaxed)
    }

    /// After a wait inside another wait (a signal handler's, a queue's own spinlock's): if it
    /// parked since there were `parks`, it may have taken a notification that was meant for the
    /// outer one, which therefore gets one. Only for the record's own thread.
    pub(crate) fn give_back(&self, parks: u32) {
        if self.parks() != parks {
            // A swap: what it overwrites may be a notification that came since, and what its giver
            // wrote must be visible to the outer wait.
            self.token.swap(NOTIFIED, Acquire);
        }
    }

    /// Notifies the record's thread: wakes it, or makes its next park return at once.
    pub(crate) fn unpark(&self) {
        if P::notify(self, || self.token.swap(NOTIFIED, Release)) == PARKED {
            P::count(Event::ParkWake, 1);
            P::unpark(&self.token);
        }
    }
}

/// For simulated machines, and for checkers, which tell late writes from lost ones.
#[cfg(feature = "unstable-internals")]
impl<P: Platform> Thread<P> {
    /// Its parking token.
    pub fn token(&self) -> &P::U32 {
        &self.token
    }

    /// The words of its spinlock nodes that it clears before it queues and that others write then.
    /// A write that may come before the clearing is lost.
    pub fn links(&self) -> impl Iterator<Item = &P::U32> {
        let queued = self.nodes.iter().map(|node| &node.next);
        queued.chain(self.mcs.iter().flat_map(|node| [&node.next, &node.wait]))
    }

    /// Of the same kind as [`Self::links`], in words of another size: by these a waiter is made
    /// head.
    pub fn grants(&self) -> impl Iterator<Item = &P::U64> {
        self.nodes.iter().map(|node| &node.wait)
    }
}

/// Runs `wait`, during which the calling thread counts as waiting, one nesting level deeper than
/// what it waits for already.
///
/// `wait` is given the thread's record and the level, or `None` if there is no record, or no level,
/// to wait with: then it must not queue. Afterwards an outer wait gets back what an inner one may
/// have taken from it.
pub(crate) fn while_waiting<P: Platform, R>(wait: impl FnOnce(Option<(&'static Thread<P>, usize)>) -> R) -> R {
    one_level_deeper(P::current(), wait)
}

/// The same, with `me` for the record to wait with.
pub(crate) fn one_level_deeper<P: Platform, R>(
    me: Option<&'static Thread<P>>,
    wait: impl FnOnce(Option<(&'static Thread<P>, usize)>) -> R,
) -> R {
    let Some(me) = me else { return wait(None) };
    let level = me.depth.load(Relaxed);
    if level as usize >= NESTING {
        return wait(None);
    }
    // Stored before anything of the level is touched: a signal handler from here on uses the next
    // one.
    let parks = me.parks();
    me.depth.store(level + 1, Relaxed);
    let result = wait(Some((me, level as usize)));
    me.depth.store(level, Relaxed);
    if level > 0 || me.waiter.busy.load(Relaxed) != 0 {
        me.give_back(parks);
    }
    result
}

/// Runs `wait` with a record whose nodes have names: the calling thread's, or one that it borrows
/// for as long. `None`: there is none, and the thread must not queue.
#[inline(always)]
pub(crate) fn with_nodes<P: Platform, R>(wait: impl FnOnce(Option<&'static Thread<P>>) -> R) -> R {
    match P::current() {
        Some(me) if me.id().has_nodes() => wait(Some(me)),
        _ => with_borrowed_nodes(wait),
    }
}

#[cold]
fn with_borrowed_nodes<P: Platform, R>(wait: impl FnOnce(Option<&'static Thread<P>>) -> R) -> R {
    match P::stand_in(0) {
        StandIn::Record(me) => {
            let result = wait(Some(me));
            P::stood_in(me);
            result
        }
        _ => wait(None),
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
