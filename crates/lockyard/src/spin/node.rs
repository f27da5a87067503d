//! A place in a queued spinlock's queue: the node, which is a field of the thread record, and what
//! its thread knows of itself while it waits.
//!
//! | field of a node | meaning | written by |
//! |---|---|---|
//! | `next` | the waiter behind; or `VACANT`: that waiter is head when it links itself | that waiter, once; before that its own thread (0); a head that changes a queue; a head that leaves, 0 → vacant |
//! | `lane` | the NUMA node of the waiter, or what its kind takes for it | its thread |
//! | `wait` | waiting, asleep, head, or left behind, and what the new head is told | its thread, waiting, asleep and left behind; the promoter, head; the thread that takes a node left behind out of the queue, waiting |
//! | `due` | when its turn ends; of a thread's first node also: when it came as an [urgent waiter](super::urgent) | its thread |
//!
//! Nodes are type-stable: a reader that has a name may look, and find another use's values. What
//! orders them: see [`queued`](super::queued).
//!
//! **Left behind.** A node stays in its queue without its thread in two cases, and the thread does
//! not use it again before it is taken out (see [`lapse`](super::lapse)): a waiter has taken the
//! lock past a head that did not come, and the promoter that comes to the node takes it out; or a
//! head has left before the waiter behind had linked itself, and that waiter finds `VACANT`, is
//! head, and takes the node out.

use crate::platform::thread::{NodeName, Thread, ThreadId};
use crate::platform::{Ordering::*, Platform, Word};

pub(super) use crate::platform::record::{ASLEEP, HEAD, LEFT, QueueNode, STATE, WAITING};

/// Where the last waiter's name is in a lock's word.
pub(super) const TAIL_SHIFT: u32 = 16;
pub(super) const TOLD_SHIFT: u32 = 2;
/// In `next`: the waiter that links itself here is head. Not a name: those begin with 4.
pub(super) const VACANT: u32 = 1;
/// So many bits a new head can be told.
pub(super) const TOLD: u32 = u64::BITS - TOLD_SHIFT;

impl<P: Platform> QueueNode<P> {
    /// Whether the waiter sleeps because its CPU is needed, as far as that can be known. A hint.
    pub(super) fn gives_way(&self) -> bool {
        P::spin_budget() == u32::MAX && self.wait.load(Relaxed) == ASLEEP
    }

    /// Whether its thread left it behind in another process than that of `epoch`.
    fn is_left_before(&self, epoch: u32) -> bool {
        let wait = self.wait.load(Relaxed);
        wait & STATE == LEFT && wait >> TOLD_SHIFT != u64::from(epoch)
    }

    /// The node is in no queue any more: its thread may use it again.
    pub(super) fn take_out(&self) {
        self.wait.store(WAITING, Release);
    }
}

impl NodeName {
    /// The last waiter of a lock with this word, or a mark of its kind. `None`: neither.
    pub(super) fn of_tail(word: u32) -> Option<Self> {
        Self::from_raw(word >> TAIL_SHIFT)
    }

    /// Whether a waiter with this node is of another process: its thread is, or has left the node
    /// behind there. (Where there is no ancestor nothing is looked at.)
    #[inline(always)]
    pub(super) fn is_ghost<P: Platform>(self) -> bool {
        let Some(id) = self.id() else { return false };
        let epoch = P::epoch();
        epoch > 1 && (!P::is_here(id) || self.node::<P>().is_some_and(|node| node.is_left_before(epoch)))
    }

    /// The tail of `word`, a ghost, is in the word no more: if it is the node of a thread of this
    /// process, that may use it again.
    pub(super) fn bury_last<P: Platform>(word: u32) {
        let last = Self::of_tail(word).filter(|last| last.id().is_some_and(P::is_here));
        if let Some(node) = last.and_then(Self::node::<P>) {
            node.take_out();
        }
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
    /// Whether its CPU was needed before it became head: it has slept, on an exact machine.
    /// Elsewhere waiters sleep for no reason but time.
    pub(super) gave_way: bool,
    /// For the kind: what its promoter told it, 0 if it had none; then what it makes of that. Here
    /// and not in the node, whose line would have to be asked for while the lock is free.
    pub(super) past: u64,
    /// For the kind: the waiter's own lane.
    pub(super) lane: u32,
    /// Whether it tries for the lock before it reads the word, once it is head: its promoter is
    /// near, and about to leave. Where that is so, its first attempt, which asks for the line to be
    /// written, costs one transfer of it; a read and an attempt cost two. Where the lock is still
    /// held, the read would have taken the line from the owner as well.
    pub(super) tries_first: bool,
    /// The process in which it queued: in a child that a signal handler of its own thread made, the
    /// queue is another process's.
    pub(super) epoch: u32,
    /// Whether its thread has left it behind: a promoter acts for it.
    pub(super) absent: bool,
}

impl<P: Platform> Place<P> {
    pub(super) fn thread(&self) -> ThreadId {
        self.me.id()
    }

    /// When the waiter's turn ends.
    pub(super) fn due(&self) -> u64 {
        self.node.due.load(Relaxed)
    }

    /// The waiter behind, which is there or is about to link itself. `None`: it does not come to
    /// that, for some reason; an exact machine waits for it.
    pub(super) fn successor(&self) -> Option<NodeName> {
        let linked = || NodeName::from_raw(self.node.next.load(Acquire));
        if P::spin_budget() == u32::MAX { Some(P::wait_window(linked)) } else { P::try_window(linked) }
    }

    /// The place of `name`, whose thread has left it, for the promoter that has come there with
    /// what a head is `told`.
    pub(super) fn of_absent(name: NodeName, told: u64) -> Option<Self> {
        let (me, node) = name.thread::<P>().zip(name.node::<P>())?;
        let lane = node.lane.load(Relaxed).max(1);
        Some(Self {
            me,
            node,
            name,
            gave_way: false,
            past: told,
            lane,
            tries_first: false,
            epoch: P::epoch(),
            absent: true,
        })
    }
}

/// Which waiter is head after a head has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Onward {
    /// A waiter that was told so; or none waits.
    Settled,
    /// The waiter that has queued behind the node and has not linked itself: when it does so.
    Lies,
    /// None yet: the next node was left behind. What a head there is told.
    Absent(NodeName, u64),
}

/// What is before a waiter that has just queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// Nobody: it is the head.
    Nobody,
    /// This waiter, to which it has to link itself.
    Waiter(NodeName),
    /// Waiters of other queues, one of which will make it head.
    Others,
}

impl Ahead {
    pub(super) fn of(previous: u16) -> Self {
        NodeName::from_raw(previous.into()).map_or(Self::Nobody, Self::Waiter)
    }
}
