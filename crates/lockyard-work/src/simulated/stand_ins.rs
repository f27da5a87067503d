//! What stands on a simulated machine for locks of programs, which cannot run there: the C
//! library's, and the spinlock of the first pages of every book.
//!
//! * [`FutexMutex`]: a mutex of three states on a futex (Drepper, "Futexes Are Tricky", 2011,
//!   section 5): no spinning, barging, one waiter woken by each unlock that finds some.
//! * [`FutexRwLock`]: a reader registers by one addition. It goes first: a writer waits until no
//!   reader is left, in turns with the other writers. The last reader hands the lock to a writer
//!   that waits: readers that come from then on sleep until it has been. This is how the C
//!   library's rwlock of the default kind behaves, and not its algorithm, which has two futexes
//!   more. Both cost a reader two read-modify-writes of one word.
//! * [`SleeplessSpin`]: a waiter looks until the lock is free, then tries to take it. It never
//!   gives its CPU away, not even to the owner: neither does the C library's.
//! * [`TestAndSet`]: a waiter tries again after each PAUSE, and so keeps the line on its way.
//! * [`BookMcs`]: the MCS lock as it was published (Mellor-Crummey and Scott, 1991): the owner's
//!   node stays in the queue, and no waiter ever sleeps. Lockyard's `mcs` frees the node, for which
//!   an owner changes the lock's word twice more.
//!
//! | word | value | set by | cleared by |
//! |---|---|---|---|
//! | mutex | 0 free, 1 taken, 2 taken and somebody may sleep | the owner; 2: a waiter | the owner |
//! | rwlock | `WRITER` | a writer that finds no reader; the last reader, for it | the writer |
//! | | `WAITS`: a writer waits | the writer | the last reader, with the above |
//! | | `ASLEEP`: somebody may sleep | a waiter, before it sleeps | the thread that wakes all |
//! | | `READER` × readers, waiting ones too | each reader | each reader |
//!
//! Ordering: acquire on the operation that takes the word, release on the one that gives it back.
//! Bypass is not bounded: no lock but MCS is fair.

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
        self.release();
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| {
            let result = section();
            self.release();
            result
        })
    }
}

impl<M: Machine> FutexMutex<M> {
    fn release(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            M::unpark(&self.0);
        }
    }
}

/// A spinlock whose waiters look, and never sleep.
#[derive(Debug)]
pub struct SleeplessSpin<M: Platform>(M::U32);

impl<M: Machine> Exclusive for SleeplessSpin<M> {
    fn new() -> Self {
        Self(M::U32::default())
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        while !self.take() {
            let free = || (self.0.load(Ordering::Relaxed) == 0).then_some(());
            if M::spin(Patience::ns(u32::MAX), free).is_none() {
                // One CPU: the owner runs when the scheduler lets it.
                M::pause(64);
            }
        }
        let result = section();
        self.0.store(0, Ordering::Release);
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        self.take().then(|| {
            let result = section();
            self.0.store(0, Ordering::Release);
            result
        })
    }
}

impl<M: Machine> SleeplessSpin<M> {
    fn take(&self) -> bool {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
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
        self.release();
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| {
            let result = section();
            self.release();
            result
        })
    }
}

impl<M: Machine> TestAndSet<M> {
    fn release(&self) {
        // Nobody else changes it meanwhile.
        let _ = self.0.compare_exchange(1, 0, Ordering::Release, Ordering::Relaxed);
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
    /// The calling thread's number, whose node is new.
    fn enter(&self) -> u32 {
        // Threads are numbered from 1.
        let me = M::current().map_or(0, |thread| thread.id().raw());
        let node = &self.nodes[me as usize];
        node.next.store(0, Ordering::Relaxed);
        node.granted.store(0, Ordering::Relaxed);
        me
    }

    fn release(&self, me: u32) {
        let node = &self.nodes[me as usize];
        let mut next = node.next.load(Ordering::Acquire);
        if next == 0 {
            if self.tail.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
            next = Self::awaited(|| node.next.load(Ordering::Acquire));
        }
        self.nodes[next as usize].granted.store(1, Ordering::Release);
    }

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
        let me = self.enter();
        let before = self.tail.swap(me, Ordering::AcqRel);
        if before != 0 {
            self.nodes[before as usize].next.store(me, Ordering::Release);
            let node = &self.nodes[me as usize];
            Self::awaited(|| node.granted.load(Ordering::Acquire));
        }
        let result = section();
        self.release(me);
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let me = self.enter();
        self.tail.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok().then(|| {
            let result = section();
            self.release(me);
            result
        })
    }
}

const WRITER: u32 = 1;
const ASLEEP: u32 = 2;
const WAITS: u32 = 4;
const READER: u32 = 8;

/// A reader-writer lock that prefers readers.
#[derive(Debug)]
pub struct FutexRwLock<M: Platform> {
    word: M::U32,
    /// The writer that has the lock, or is the next to have it, holds this.
    writers: FutexMutex<M>,
}

impl<M: Machine> FutexRwLock<M> {
    /// Sleeps if the word is still `seen`.
    fn sleep(&self, seen: u32) {
        let marked = seen | ASLEEP;
        if seen == marked || self.change(seen, marked, Ordering::Relaxed) {
            M::park(&self.word, marked, None);
        }
    }

    fn change(&self, seen: u32, new: u32, order: Ordering) -> bool {
        self.word.compare_exchange(seen, new, order, Ordering::Relaxed).is_ok()
    }

    fn wake(&self, left: u32) {
        if left & ASLEEP != 0 {
            M::unpark_all(&self.word, MOST_THREADS as u32);
        }
    }

    /// The first of the writers: takes the lock when no reader has it.
    fn take(&self) {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen < READER {
                if self.change(seen, seen | WRITER, Ordering::Acquire) {
                    return;
                }
            } else if self.change(seen, seen | WAITS, Ordering::Relaxed) {
                break;
            }
        }
        loop {
            let seen = self.word.load(Ordering::Acquire);
            if seen & WRITER != 0 {
                return;
            }
            self.sleep(seen);
        }
    }

    fn give(&self) {
        self.wake(self.word.fetch_and(!(WRITER | ASLEEP), Ordering::Release));
    }

    fn leave(&self) {
        let mut left = self.word.fetch_sub(READER, Ordering::Release) - READER;
        while left < READER && left & (WAITS | WRITER) == WAITS {
            // Acquire as well: on behalf of the writer, which sees what all readers did.
            if self.change(left, WRITER, Ordering::AcqRel) {
                self.wake(left);
                return;
            }
            left = self.word.load(Ordering::Relaxed);
        }
    }
}

impl<M: Machine> Exclusive for FutexRwLock<M> {
    fn new() -> Self {
        Self { word: M::U32::default(), writers: FutexMutex::new() }
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.writers.with(|| {
            self.take();
            let result = section();
            self.give();
            result
        })
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let once = || {
            let taken = self.change(0, WRITER, Ordering::Acquire);
            taken.then(|| {
                let result = section();
                self.give();
                result
            })
        };
        self.writers.try_with(once).flatten()
    }
}

impl<M: Machine> Shared for FutexRwLock<M> {
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        let mut seen = self.word.fetch_add(READER, Ordering::Acquire) + READER;
        while seen & WRITER != 0 {
            self.sleep(seen);
            seen = self.word.load(Ordering::Acquire);
        }
        let result = section();
        self.leave();
        result
    }

    fn try_with_shared<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & WRITER == 0 {
            if self.change(seen, seen + READER, Ordering::Acquire) {
                let result = section();
                self.leave();
                return Some(result);
            }
            seen = self.word.load(Ordering::Relaxed);
        }
        None
    }
}
