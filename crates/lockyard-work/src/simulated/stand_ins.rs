//! What stands on a simulated machine for locks of programs, which cannot run there: the C
//! library's, and the spinlock of the first pages of every book.
//!
//! * [`FutexMutex`]: a mutex of three states on a futex (Drepper, "Futexes Are Tricky", 2011,
//!   section 5): no spinning, barging, one waiter woken by each unlock that finds some.
//! * [`FutexRwLock`]: readers go first, and register by one addition; a writer waits for all of
//!   them; the last to leave wakes everybody. It is not the C library's algorithm: that one has
//!   phases and two futexes more. Both cost a reader two read-modify-writes of one word.
//! * [`TestAndSet`]: a waiter tries again after each PAUSE, and so keeps the line on its way.
//! * [`BookMcs`]: the MCS lock as it was published (Mellor-Crummey and Scott, 1991): the owner's
//!   node stays in the queue, and no waiter ever sleeps. Lockyard's `mcs` frees the node, for which
//!   an owner changes the lock's word twice more.
//!
//! | word | value | set by | cleared by |
//! |---|---|---|---|
//! | mutex | 0 free, 1 taken, 2 taken and somebody may sleep | the owner; 2: a waiter | the owner |
//! | rwlock | `WRITER` | a writer that finds no reader | the writer |
//! | | `ASLEEP`: somebody may sleep | a waiter, before it sleeps | the thread that wakes all |
//! | | `READER` × readers, waiting ones too | each reader | each reader |
//!
//! Ordering: acquire on the operation that takes the word, release on the one that gives it back.
//! Bypass is not bounded: neither lock is fair.

use lockyard::platform::{Ordering, Patience, Platform, Word};
use lockyard_sim::MOST_THREADS;

use crate::machine::Machine;
use crate::padded::Padded;
use crate::subject::{Exclusive, Shared};

/// A mutex of three states.
#[derive(Debug)]
pub struct FutexMutex<M: Platform>(M::U32);

impl<M: Machine> Exclusive for FutexMutex<M> {
    fn new() -> Self {
        Self(M::U32::default())
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.swap(2, Ordering::Acquire) != 0 {
                M::park(&self.0, 2, None);
            }
        }
        let result = section();
        if self.0.swap(0, Ordering::Release) == 2 {
            M::unpark(&self.0);
        }
        result
    }
}

/// A spinlock whose waiters write: one word, 0 or 1, changed by compare-exchanges alone.
#[derive(Debug)]
pub(super) struct TestAndSet<M: Platform>(M::U32);

impl<M: Machine> Exclusive for TestAndSet<M> {
    fn new() -> Self {
        Self(M::U32::default())
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        while self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            M::pause(1);
        }
        let result = section();
        // Nobody else changes it meanwhile.
        let _ = self.0.compare_exchange(1, 0, Ordering::Release, Ordering::Relaxed);
        result
    }
}

/// A queue of waiters, each of which looks at a line of its own.
#[derive(Debug)]
pub(super) struct BookMcs<M: Platform> {
    /// The last of the queue, by its number; 0: nobody.
    tail: Padded<M::U32>,
    nodes: Box<[Node<M::U32>]>,
}

/// A thread's place in the queue.
#[derive(Debug, Default)]
struct Node<W> {
    next: Padded<W>,
    granted: Padded<W>,
}

impl<M: Machine> BookMcs<M> {
    /// The number that `found` comes to have.
    fn awaited(found: impl Fn() -> u32) -> u32 {
        loop {
            let number = M::spin(Patience::ns(u32::MAX), || Some(found()).filter(|&number| number != 0));
            if let Some(number) = number {
                return number;
            }
        }
    }
}

impl<M: Machine> Exclusive for BookMcs<M> {
    fn new() -> Self {
        Self { tail: Padded::default(), nodes: (0..=MOST_THREADS).map(|_| Node::default()).collect() }
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // Threads are numbered from 1.
        let me = M::current().map_or(0, |thread| thread.id().raw());
        let node = &self.nodes[me as usize];
        node.next.store(0, Ordering::Relaxed);
        node.granted.store(0, Ordering::Relaxed);
        let before = self.tail.swap(me, Ordering::AcqRel);
        if before != 0 {
            self.nodes[before as usize].next.store(me, Ordering::Release);
            Self::awaited(|| node.granted.load(Ordering::Acquire));
        }
        let result = section();
        let mut next = node.next.load(Ordering::Acquire);
        if next == 0 {
            if self.tail.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
                return result;
            }
            next = Self::awaited(|| node.next.load(Ordering::Acquire));
        }
        self.nodes[next as usize].granted.store(1, Ordering::Release);
        result
    }
}

const WRITER: u32 = 1;
const ASLEEP: u32 = 2;
const READER: u32 = 4;

/// A reader-writer lock that prefers readers.
#[derive(Debug)]
pub struct FutexRwLock<M: Platform>(M::U32);

impl<M: Machine> FutexRwLock<M> {
    /// Sleeps if the word is still `seen`.
    fn sleep(&self, seen: u32) {
        let marked = seen | ASLEEP;
        let is_marked =
            seen == marked || self.0.compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_marked {
            M::park(&self.0, marked, None);
        }
    }

    fn wake(&self) {
        M::unpark_all(&self.0, MOST_THREADS as u32);
    }
}

impl<M: Machine> Exclusive for FutexRwLock<M> {
    fn new() -> Self {
        Self(M::U32::default())
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        loop {
            let seen = self.0.load(Ordering::Relaxed);
            if seen & !ASLEEP != 0 {
                self.sleep(seen);
            } else if self.0.compare_exchange(seen, seen | WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                break;
            }
        }
        let result = section();
        if self.0.fetch_and(!(WRITER | ASLEEP), Ordering::Release) & ASLEEP != 0 {
            self.wake();
        }
        result
    }
}

impl<M: Machine> Shared for FutexRwLock<M> {
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        let mut seen = self.0.fetch_add(READER, Ordering::Acquire) + READER;
        while seen & WRITER != 0 {
            self.sleep(seen);
            seen = self.0.load(Ordering::Acquire);
        }
        let result = section();
        // The last reader leaves a word that nobody waits behind: the mark goes with the wake-up.
        let left = self.0.fetch_sub(READER, Ordering::Release) - READER;
        let cleared =
            left == ASLEEP && self.0.compare_exchange(ASLEEP, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if cleared {
            self.wake();
        }
        result
    }
}
