//! What a thread's record holds for each lock, and what all locks of a machine share: plain words,
//! below the locks.
//!
//! Here is what the words are; which thread writes them, when, and in which order, is on the page
//! of the algorithm. All-zero is the state at rest.
//!
//! | words | of | page |
//! |---|---|---|
//! | [`QueueNode`] | queued spinlocks | [`spin::node`](crate::spin::node) |
//! | [`McsNode`] | MCS locks | [`spin::mcs`](crate::spin::mcs) |
//! | [`OsqNode`] | locks whose spinners queue | [`wait::osq`](crate::wait::osq) |
//! | [`Waiter`] | locks whose waiters sleep in a queue | `wait::queue` |
//! | [`Inheritance`] | own-tree rt-mutexes | `rtmutex_tree::waiter` |
//! | [`ParkedHeads`] | locks whose word has no room for a sleeper's name | [`wait::heads`](crate::wait::heads) |
//! | [`Pool`] | hierarchical spinlocks | `spin::hq::pool` |
//! | `Readers` | rwsems whose readers share nothing | `rwsem::apart` |

use super::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};

/// Plain words of a record: the structure, and its state at rest, at run time (`Default`; with an
/// expression for an array that is too long for it) and in constants ([`ConstZero`]).
macro_rules! words {
    (@rest) => { Default::default() };
    (@rest $rest:expr) => { $rest };
    ($($(#[$what:meta])* $seen:vis struct $name:ident {
        $($(#[$field_what:meta])* $field:ident: $type:ty $(= $rest:expr)?,)*
    })*) => {$(
        $(#[$what])*
        #[derive(Debug)]
        #[repr(C)]
        $seen struct $name<P: Platform> {
            $($(#[$field_what])* pub(crate) $field: $type,)*
        }

        impl<P: Platform> Default for $name<P> {
            fn default() -> Self {
                Self { $($field: words!(@rest $($rest)?),)* }
            }
        }

        impl<P: ConstPlatform> ConstZero for $name<P> {
            const ZERO: Self = Self { $($field: ConstZero::ZERO,)* };
        }
    )*};
}

impl<T: ConstZero, const N: usize> ConstZero for [T; N] {
    const ZERO: Self = [const { T::ZERO }; N];
}

// ---- queued spinlocks

/// In `wait` of a [`QueueNode`]: its thread waits, awake.
pub(crate) const WAITING: u64 = 0;
/// It sleeps.
pub(crate) const ASLEEP: u64 = 1;
/// It is head.
pub(crate) const HEAD: u64 = 2;
/// It has left the node behind in the queue.
pub(crate) const LEFT: u64 = 3;
/// The bits of `wait` that are one of these.
pub(crate) const STATE: u64 = 3;

words! {
    /// A place in a spinlock's queue, in use only while waiting.
    ///
    /// `lane` is the kind's own, for heads to read. What one head tells the next is in the word
    /// that makes it head: a store of its own would take the waiter's line twice.
    pub(crate) struct QueueNode {
        next: P::U32,
        /// The NUMA node of the waiter, or what its kind takes for it.
        lane: P::U32,
        wait: P::U64,
        /// When the waiter's turn ends. A hint to the next waiter, which may read an earlier use's.
        due: P::U64,
    }
}

impl<P: Platform> QueueNode<P> {
    /// Whether the node is in a queue that its thread has left. Only its thread makes it so.
    pub(crate) fn is_left(&self) -> bool {
        // Acquire: what was read in the node before it was taken out has been read.
        self.wait.load(Acquire) & STATE == LEFT
    }
}

// ---- MCS locks, spin queues

words! {
    /// A place in an MCS lock's queue, in use only while waiting.
    pub(crate) struct McsNode {
        next: P::U32,
        wait: P::U32,
    }

    /// A place in a spin queue.
    pub(crate) struct OsqNode {
        next: P::U32,
        prev: P::U32,
        locked: P::U32,
        /// The owner is in some queue, or its node is: refuses another join.
        busy: P::U32,
    }
}

impl<P: Platform> OsqNode<P> {
    /// Whether the node is in no queue.
    pub(crate) fn is_free(&self) -> bool {
        self.busy.load(Acquire) == 0
    }
}

// ---- locks whose waiters sleep in a queue

words! {
    /// A place in one wait queue.
    pub(crate) struct Link {
        next: P::U32,
        prev: P::U32,
    }

    /// What a lock and its waiter tell each other.
    pub(crate) struct Waiter {
        /// In a lock's queue, and in the list of a cancellation token.
        links: [Link<P>; 2],
        /// Set by a granter: the lock, or the unit, is yours.
        granted: P::U32,
        /// What the waiter wants, in the lock's own terms.
        kind: P::U32,
        /// The lock's own note about this waiter.
        note: P::U32,
        /// In how many lists the thread is, or is about to be: refuses a nested wait from a signal
        /// handler. Touched only by the owner.
        busy: P::U32,
        /// Its number among those of its queue: one more than that of the one before it.
        place: P::U32,
        /// What the thread knows of the lock it last spun for.
        mostly_read: MostlyRead<P>,
        /// From this time on the waiter is entitled to a handoff.
        due: P::U64,
        /// Since when the lock has been free and reserved for this waiter: see `turn::reservation`.
        /// Anybody; the waiter clears it when it runs.
        reserved: P::U64,
        /// The key of the word that it sleeps on, in a futex hash. Written before it queues.
        key: P::U64,
    }

    /// How often a thread found readers in its way at one lock, the last that it spun for. Touched
    /// only by the thread.
    pub(crate) struct MostlyRead {
        /// Bits 0–7: rises by 1 with each reader, falls by 4 with each writer: high where more than
        /// four in five are readers. Above: which lock.
        word: P::U32,
    }
}

impl<P: Platform> Waiter<P> {
    /// Before the thread's links are touched.
    pub(crate) fn enter(&self) {
        self.busy.store(self.busy.load(Relaxed) + 1, Relaxed);
    }

    /// After they were touched for the last time.
    pub(crate) fn leave(&self) {
        self.busy.store(self.busy.load(Relaxed) - 1, Relaxed);
    }
}

// ---- own-tree rt-mutexes

words! {
    /// A thread's part in priority inheritance.
    pub(crate) struct Inheritance {
        /// The word of a spinlock.
        lock: P::Lanes,
        held: P::U32,
        donors: PriorityList<P, DONATING>,
        base: P::U32,
        effective: P::U32,
        keeps: P::U32,
        passed: P::U32,
        waits: P::U32,
        requeue: P::U32,
        blocked_on: P::U64,
        nodes: [Node<P>; 2],
    }

    /// A thread's place in one list by priority, with that list's own copy of its priority.
    pub(crate) struct Node {
        priority: P::U32,
        /// Zero: in no list.
        next: P::U32,
        prev: P::U32,
        /// The heads of the levels below and above; zero in a node that heads no level.
        below: P::U32,
        above: P::U32,
    }
}

/// Which of a thread's two nodes: among the waiters of the lock it wants …
pub(crate) const WAITING_FOR: usize = 0;
/// … or among the first waiters of all locks that one thread owns.
pub(crate) const DONATING: usize = 1;

/// A list of threads by priority, through their `PLACE` nodes. All-zero is empty.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct PriorityList<P: Platform, const PLACE: usize> {
    pub(crate) first: P::U32,
}

impl<P: Platform, const PLACE: usize> Default for PriorityList<P, PLACE> {
    fn default() -> Self {
        Self { first: P::U32::default() }
    }
}

impl<P: ConstPlatform, const PLACE: usize> ConstZero for PriorityList<P, PLACE> {
    const ZERO: Self = Self { first: ConstZero::ZERO };
}

impl<P: Platform> Inheritance<P> {
    /// Whether the thread holds no own-tree mutex.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.load(Relaxed) == 0
    }
}

// ---- what all locks of a machine share

/// The tables that all locks of a machine share.
#[derive(Debug)]
pub struct Commons<P: Platform> {
    /// The sleeping heads of locks.
    pub heads: &'static ParkedHeads<P>,
    /// What contended hierarchical spinlocks borrow, and what is set for all of them.
    pub pool: &'static Pool<P>,
}

/// Lines of the table of sleeping heads.
pub(crate) const LINES: usize = 64;
/// Heads of a line.
pub(crate) const SLOTS: usize = 7;

words! {
    /// One line: the heads sleeping on the locks that hash here.
    #[repr(align(64))]
    pub(crate) struct Line {
        count: P::U64,
        entries: [P::U64; SLOTS],
    }

    /// The table of sleeping heads.
    pub struct ParkedHeads {
        lines: [Line<P>; LINES] = core::array::from_fn(|_| Line::default()),
    }
}

impl<P: ConstPlatform> ParkedHeads<P> {
    /// An empty table, in constants.
    pub const fn new() -> Self {
        Self::ZERO
    }
}

/// The most lanes of a hierarchical spinlock. Nodes beyond share lanes.
pub const LANES: usize = 32;
/// Records of a machine: so many locks can be in hierarchical mode at a time.
pub const RECORDS: usize = 64;
/// How many things can be set.
pub(crate) const TUNABLES: usize = 9;

words! {
    /// The queue of one node's waiters.
    #[repr(align(64))]
    pub(crate) struct Lane {
        word: P::U64,
        head: P::U32,
    }

    /// What a lock borrows. The first line is read by everybody and hardly ever written, the second
    /// is the head's.
    #[repr(align(128))]
    pub(crate) struct Record {
        owner: P::U64,
        generation: P::U64,
        /// Key + 1 of the lock that last had the record, if that paid.
        warm: P::U64,
        lanes: P::U32,
        current: P::U32,
        second_line: Headship<P>,
    }

    /// What the heads of one lock note for each other.
    #[repr(align(64))]
    pub(crate) struct Headship {
        chain: P::U64,
        /// Visits of lanes that paid.
        paid: P::U32,
        /// Visits since then that did not.
        unpaid: P::U32,
        local: P::U32,
        remote: P::U32,
        /// How many share the most crowded lane; forgets slowly.
        crowd: P::U32,
        /// Hand-overs that this visit goes without, though they count as made.
        forgone: P::U32,
    }

    /// The records of a machine, and what is set for all its hierarchical locks.
    #[repr(align(4096))]
    pub struct Pool {
        lanes: [[Lane<P>; RECORDS]; LANES] =
            core::array::from_fn(|_| core::array::from_fn(|_| Lane::default())),
        records: [Record<P>; RECORDS] = core::array::from_fn(|_| Record::default()),
        tunables: Tunables<P>,
        census: Census<P>,
        readers: Readers<P>,
    }

    /// The settings. Any value is safe at any time, also between two steps of a lock: it decides
    /// which waiter is next, never whether one is.
    pub struct Tunables {
        /// Each differs from its default by so many bits: all-zero memory is the defaults.
        words: [P::U32; TUNABLES],
    }

    /// How many records are lent. On a line of its own: a thread that takes one must not take the
    /// settings from everybody.
    #[repr(align(128))]
    pub(crate) struct Census {
        in_use: P::U32,
        most_in_use: P::U32,
    }
}

// ---- rwsems whose readers share nothing

/// So many locks can have their readers apart at a time.
pub(crate) const APART: usize = 32;
/// Counters of a lock by last-level cache. Caches beyond share them.
pub(crate) const BY_CACHE: usize = 32;
/// Counters of a lock by CPU. CPUs beyond share them.
pub(crate) const BY_CPU: usize = 512;

words! {
    /// What locks whose readers are apart borrow.
    pub(crate) struct Readers {
        by_cache: [ReaderLane<P>; BY_CACHE],
        by_cpu: [ReaderLane<P>; BY_CPU] = core::array::from_fn(|_| ReaderLane::default()),
        drains: [Drain<P>; APART],
        /// A bit for each number that is lent.
        lent: Lent<P>,
    }

    /// The counters of one cache or CPU: one for each number that a lock may borrow.
    #[repr(align(128))]
    pub(crate) struct ReaderLane {
        counts: [P::U64; APART],
    }

    /// Which writer sleeps until the readers of a number have left.
    #[repr(align(64))]
    pub(crate) struct Drain {
        waiter: P::U32,
    }

    /// On a line of its own.
    #[repr(align(128))]
    pub(crate) struct Lent {
        numbers: P::U32,
    }
}

impl<P: ConstPlatform> Pool<P> {
    /// A pool with all records free, in constants.
    pub const fn new() -> Self {
        Self::ZERO
    }
}
