//! A place in a queued spinlock's queue: the node, which is a field of the thread record, and what its thread knows of itself while it waits.
//!
//! | field of a node | meaning | written by |
//! |---|---|---|
//! | `next` | the waiter behind | that waiter, once; before that its own thread (0); a head that changes a queue |
//! | `lane` | the NUMA node of the waiter, or what its kind takes for it | its thread |
//! | `wait` | waiting, asleep, or head, and what the new head is told | its thread, waiting and asleep; whoever makes it head |
//! | `due` | when its turn ends | its thread |
//!
//! Nodes are type-stable: whoever has a name may look, and find another use's values. What orders them: see [`queued`](super::queued).

use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::wait::thread::{NodeName, Thread, ThreadId};

use super::queued::TAIL_SHIFT;

// node.wait: a state, and above it what a new head is told.
pub(super) const WAITING: u64 = 0;
pub(super) const ASLEEP: u64 = 1;
pub(super) const HEAD: u64 = 2;
pub(super) const STATE: u64 = 3;
pub(super) const TOLD_SHIFT: u32 = 2;
/// So many bits a new head can be told.
pub(super) const TOLD: u32 = u64::BITS - TOLD_SHIFT;

/// A place in a spinlock's queue; a field of the thread record, in use only while waiting.
///
/// `lane` is the kind's own, for heads to read. What one head tells the next is in the word that makes it head: a store of its
/// own would take the waiter's line twice.
#[derive(Debug)]
#[repr(C)]
pub struct QueueNode<P: Platform> {
    pub(crate) next: P::U32,
    /// The NUMA node of the waiter, or what its kind takes for it.
    pub(crate) lane: P::U32,
    pub(crate) wait: P::U64,
    /// When the waiter's turn ends. A hint to the next waiter, which may read an earlier use's.
    pub(super) due: P::U64,
}

impl<P: Platform> Default for QueueNode<P> {
    fn default() -> Self {
        Self { next: P::U32::default(), lane: P::U32::default(), wait: P::U64::default(), due: P::U64::default() }
    }
}

impl<P: Platform> QueueNode<P> {
    /// Whether the waiter sleeps because its CPU is needed, as far as that can be known. A hint.
    pub(super) fn gives_way(&self) -> bool {
        P::spin_budget() == u32::MAX && self.wait.load(Relaxed) == ASLEEP
    }

    pub(crate) const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { next: P::U32::ZERO, lane: P::U32::ZERO, wait: P::U64::ZERO, due: P::U64::ZERO }
    }
}

impl NodeName {
    /// Who is last in the queue of a lock with this word; a mark of its kind, or nobody.
    pub(super) fn of_tail(word: u32) -> Option<Self> {
        Self::from_raw(word >> TAIL_SHIFT)
    }

    pub(super) fn node<P: Platform>(self) -> Option<&'static QueueNode<P>> {
        self.thread().map(|thread: &Thread<P>| &thread.nodes[self.level()])
    }
}

/// A thread that queues, and the node that it queues with.
#[derive(Debug, Clone, Copy)]
pub struct Place<P: Platform> {
    pub(super) me: &'static Thread<P>,
    pub(super) node: &'static QueueNode<P>,
    pub(super) name: NodeName,
    /// Whether its CPU was needed before it became head: it has slept, on an exact machine. Elsewhere waiters sleep for no reason but time.
    pub(super) gave_way: bool,
    /// For the kind: what it was told by whoever made it head, 0 if nobody did; then what it makes of that. Here and not in the node, whose line would have to be asked for while the
    /// lock is free.
    pub(super) past: u64,
    /// For the kind: the waiter's own lane.
    pub(super) lane: u32,
    /// Whether it tries for the lock before it looks at the word, once it is head: whoever made it head is near, and about to leave. Where that is so, its first
    /// attempt costs one transfer of the word's line; a look and an attempt cost two. Where the lock is still held, the look would have taken the line from the owner as well.
    pub(super) tries_first: bool,
}

impl<P: Platform> Place<P> {
    pub(super) fn thread(&self) -> ThreadId {
        self.me.id()
    }

    /// When the waiter's turn ends.
    pub(super) fn due(&self) -> u64 {
        self.node.due.load(Relaxed)
    }

    /// The waiter behind, who is there or is about to link itself.
    pub(super) fn successor(&self) -> NodeName {
        P::wait_window(|| NodeName::from_raw(self.node.next.load(Acquire)))
    }
}

/// Who is before a waiter that has just queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// Nobody: it is the head.
    Nobody,
    /// This waiter, to whom it has to link itself.
    Waiter(NodeName),
    /// Waiters of other queues, one of whom will make it head.
    Others,
}

impl Ahead {
    pub(super) fn of(previous: u16) -> Self {
        NodeName::from_raw(previous.into()).map_or(Self::Nobody, Self::Waiter)
    }
}
