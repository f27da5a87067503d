//! Parking by address: threads sleep on a word, in buckets with a spinlock each, and are woken by
//! address.
//!
//! What the kernel's futex is made of, as a library: for platforms whose threads can be put to
//! sleep and woken one by one but that have no futex, for tables apart from everybody else's, and
//! to measure bucket locks. Where the real one is at hand ([`Platform::park`]) it is the one to
//! use: it needs no table, and works across processes.
//!
//! # A bucket
//!
//! | line | word | meaning | written by |
//! |---|---|---|---|
//! | 1 | waiters | bits 0–30: threads queued, or about to lock the bucket to queue; bit 31: moved, look in the next table | a waiter before it locks: + 1; if it does not queue: − 1; the thread that takes it out, under the lock: − 1; the grower, under the lock: moved |
//! | 1 | lock | any [`BucketLock`] | – |
//! | 2 | queue | sleepers of all words that hash here, first come first | under the lock |
//!
//! The queue is on a line of its own: threads that only look at `waiters`, or spin for the lock, do
//! not disturb its owner's work on the queue. A sleeper's place, its key and its `granted` flag are
//! in its thread record.
//!
//! | what | steps |
//! |---|---|
//! | [`wait`](FutexHash::wait) | waiters + 1; full fence; lock; the word differs: unlock, waiters − 1, return; else queue, unlock, sleep until granted or late |
//! | late | lock; granted after all: woken; else take out, waiters − 1, unlock |
//! | [`wake`](FutexHash::wake) | full fence; waiters is 0: return; lock; take out those with the key, waiters − 1, granted; unlock; wake them |
//!
//! # Invariants
//!
//! 1. `waiters` is never less than the number of queued threads.
//! 2. A queued thread is in the bucket of its key in the newest table whose older buckets for the
//!    key have all been moved.
//! 3. A waker touches nothing of a sleeper after `granted` but its name.
//! 4. A table's place in the hash is written once, before `announced` says so, and read only by
//!    threads that know of it: from `current`, or from `announced`.
//!
//! # Growing
//!
//! [`grow`](FutexHash::grow) publishes a larger table and moves bucket by bucket, each under its
//! lock: queue over, then *moved*, in the same step in which the old bucket's `waiters` falls. A
//! thread that has locked, or looked at, a moved bucket goes on to the next table. Tables never
//! shrink and are never given back, so there is nothing to count and no grace period: doubling, all
//! old ones together are as large as the new one.
//!
//! **A bucket belongs to one table of one hash.** Two hashes may share a table as long as neither
//! grows. A bucket that another hash has moved leads nowhere here: a wait there polls, as without a
//! record; a waker finds nobody; a sleeper that was moved along stays until the other hash wakes
//! its word.
//!
//! # Memory ordering
//!
//! * The pair that must not fail: {waiter: waiters + 1; full fence; read the word} against {waker:
//!   write the word; full fence; read waiters}. Both need [`Platform::fence`], for a store, or an
//!   addition, and a load of another word. Not both can miss.
//! * `moved` is Release and read with Acquire: `announced`, the next table and its bucket's
//!   `waiters`, written before, are visible. `current` likewise. `announced` is Release and Acquire
//!   on its own account: a bucket that another hash has moved says nothing of this one's tables. A
//!   waiter that began in the next table has seen *moved*, or `current`, before its fence; so a
//!   waker that missed its count reads *moved* behind its own fence.
//! * `granted`: Release by the waker, Acquire by the sleeper: it returns after what the waker did.
//!   The queue is the lock's.
//!
//! **Waiting** for the bucket lock is the lock's. On a platform that sleeps by this table, its own
//! bucket locks must not: take one that naps
//! ([`RawTicketLock`](crate::spin::ticket::RawTicketLock),
//! [`RawTtasLock`](crate::spin::ttas::RawTtasLock)). **Bound on bypass:** sleepers of a word are
//! woken in the order in which they queued. **Without a record** (registry exhausted, a signal
//! handler on top of a wait) a thread does not queue: it looks at the word every millisecond or so,
//! and returns now and then as if woken.
//!
//! **Destruction.** The tables outlive the waits; the word may go as soon as its waiters have been
//! woken. **fork.** Sleepers of other threads are still queued in the child and never leave:
//! wake-ups may be spent on them.
//!
//! Sources: futexes (Linux, `perf bench futex hash` is the measure of this table); Franke, Russell
//! and Kirkwood, "Fuss, futexes and furwocks" (2002); the private hash that grows (Linux 2025);
//! queue and lock on two lines: an RFC of June 2026.

mod bucket;

use core::cell::UnsafeCell;
use core::fmt;

use crate::event::Event;
use crate::platform::thread::Thread;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::queue::WakeList;

pub use bucket::{Bucket, BucketLock};

const MOVED: u32 = 1 << 31;
/// The most tables that one hash has had.
const TABLES: usize = 20;
/// How often a thread without a record looks at the word before it returns: a few milliseconds.
const POLLS: u32 = 13;
/// How many are woken for one acquisition of the bucket lock.
const WAKES: usize = 16;

/// How a [`wait`](FutexHash::wait) ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// A waker took the thread out, or it could not queue and has slept for a while: look at the
    /// word again.
    Woken,
    /// The word had another value.
    Differs,
    /// The deadline came first.
    TimedOut,
}

/// What there was to do in one bucket.
enum Found<T> {
    Here(T),
    Moved,
}

/// Parking by address: threads sleep on words, in a table of buckets.
///
/// A waker that has changed the word before it calls [`wake`](Self::wake) wakes a thread that
/// sleeps, or is about to sleep, for the old value. Threads of one word are woken in the order in
/// which they came, fixed priorities before others. Nothing is allocated. Theory:
/// `src/futex_hash.rs`.
///
/// ```
/// use lockyard::platform::atomics::U32;
/// use lockyard::platform::{Ordering, Word};
/// use lockyard::{FutexBucket, FutexHash, FutexWaited};
///
/// static BUCKETS: [FutexBucket; 16] = [const { FutexBucket::new() }; 16];
/// static HASH: FutexHash = FutexHash::new(&BUCKETS);
///
/// let ready = U32::default();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         ready.store(1, Ordering::Release);
///         HASH.wake(&ready, usize::MAX);
///     });
///     while ready.load(Ordering::Acquire) == 0 {
///         HASH.wait(&ready, 0, None);
///     }
/// });
/// assert_eq!(HASH.wait(&ready, 0, None), FutexWaited::Differs);
/// ```
pub struct FutexHash<'t, P: Platform, L: BucketLock<P> = RawQSpinLock<P>> {
    /// Written once each, by the grower. (Invariant 4)
    tables: [UnsafeCell<&'t [Bucket<P, L>]>; TABLES],
    current: P::U32,
    /// The last table that is written: `current`, or while the hash grows the one after it.
    announced: P::U32,
    growing: L,
}

// SAFETY: a table's cell is read only by threads that have been told of it, after its only write;
// buckets are Sync. (Invariant 4)
unsafe impl<P: Platform, L: BucketLock<P>> Sync for FutexHash<'_, P, L> {}

impl<P: Platform, L: BucketLock<P>> fmt::Debug for FutexHash<'_, P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutexHash").field("buckets", &self.buckets()).finish_non_exhaustive()
    }
}

impl<P: ConstPlatform> FutexHash<'static, P> {
    /// A hash over `table` with queued spinlocks, in constants. See [`FutexHash::with_table`].
    pub const fn new(table: &'static [Bucket<P>]) -> Self {
        assert!(table.len().is_power_of_two(), "the number of buckets is a power of two");
        Self {
            tables: [const { UnsafeCell::new(&[] as &[Bucket<P>]) }; TABLES],
            current: P::U32::ZERO,
            announced: P::U32::ZERO,
            growing: RawQSpinLock::new(),
        }
        .first(table)
    }

    const fn first(mut self, table: &'static [Bucket<P>]) -> Self {
        self.tables[0] = UnsafeCell::new(table);
        self
    }
}

impl<'t, P: Platform, L: BucketLock<P>> FutexHash<'t, P, L> {
    /// A hash over `table`.
    ///
    /// # Panics
    /// If the number of buckets is not a power of two.
    pub fn with_table(table: &'t [Bucket<P, L>]) -> Self {
        assert!(table.len().is_power_of_two(), "the number of buckets is a power of two");
        let tables = core::array::from_fn(|_| UnsafeCell::new(table));
        Self { tables, current: P::U32::default(), announced: P::U32::default(), growing: L::default() }
    }

    /// How many buckets there are now.
    pub fn buckets(&self) -> usize {
        self.table(self.current.load(Acquire) as usize).len()
    }

    /// Sleeps while `*word == expected`, until woken or until `deadline` (absolute, ns of
    /// [`Platform::now`]).
    pub fn wait(&self, word: &P::U32, expected: u32, deadline: Option<u64>) -> Waited {
        let Some(me) = P::current().filter(|me| me.waiter.busy.load(Relaxed) == 0) else {
            return Self::poll(word, expected, deadline);
        };
        let key = P::key(word);
        match self.queue(me, key, || word.load(Relaxed) == expected) {
            Some(true) => {}
            Some(false) => return Waited::Differs,
            None => return Self::poll(word, expected, deadline),
        }
        P::count(Event::FutexSleep, 1);
        let waited = self.sleep(me, key, deadline);
        me.waiter.leave();
        waited
    }

    /// Without a record nobody can wake us: looks at the word, sleeps ever longer in between, and
    /// comes back now and then, as any wait may.
    #[cold]
    fn poll(word: &P::U32, expected: u32, deadline: Option<u64>) -> Waited {
        for round in 0..POLLS {
            if word.load(Relaxed) != expected {
                return if round == 0 { Waited::Differs } else { Waited::Woken };
            }
            if deadline.is_some_and(|deadline| P::now() >= deadline) {
                return Waited::TimedOut;
            }
            P::nap(round);
        }
        Waited::Woken
    }

    /// Wakes up to `most` threads that sleep on `word`. Returns how many.
    pub fn wake(&self, word: &P::U32, most: usize) -> usize {
        let key = P::key(word);
        P::fence();
        let mut table = self.current.load(Acquire) as usize;
        let mut woken = 0;
        while woken < most {
            let bucket = self.bucket(table, key);
            let waiters = bucket.waiters.load(Acquire);
            if waiters == 0 {
                break;
            }
            let found = if waiters & MOVED == 0 { Self::wake_some(bucket, key, most - woken) } else { Found::Moved };
            match found {
                Found::Moved => {
                    let Some(next) = self.after(table) else { break };
                    table = next;
                }
                Found::Here(some) => {
                    woken += some;
                    if some < WAKES {
                        break;
                    }
                }
            }
        }
        P::count(Event::FutexWake, woken as i64);
        woken
    }

    /// Goes over to a larger table. `false`: there have been too many tables, or this one is not
    /// larger, or has buckets of an earlier one.
    ///
    /// The buckets of both tables are of this hash alone from now on.
    /// Takes the locks of all buckets, one after the other. Waiters and wakers may be about.
    ///
    /// # Panics
    /// If the number of buckets is not a power of two.
    pub fn grow(&self, table: &'t [Bucket<P, L>]) -> bool {
        assert!(table.len().is_power_of_two(), "the number of buckets is a power of two");
        self.growing.with(|| {
            let old = self.current.load(Relaxed) as usize;
            let new = table.as_ptr_range();
            let overlaps = |old: &[_]| old.as_ptr_range().start < new.end && new.start < old.as_ptr_range().end;
            let larger = old + 1 < TABLES && table.len() > self.table(old).len();
            if !larger || (0..=old).any(|old| overlaps(self.table(old))) {
                return false;
            }
            // SAFETY: no thread has been told of this cell, and the one that writes it holds
            // `growing`.
            unsafe { *self.tables[old + 1].get() = table };
            self.announced.store(old as u32 + 1, Release);
            for bucket in self.table(old) {
                bucket.lock.with(|| self.move_bucket(bucket, old + 1));
            }
            self.current.store(old as u32 + 1, Release);
            true
        })
    }

    /// Under the lock of `from`: its sleepers go to table `to`.
    fn move_bucket(&self, from: &Bucket<P, L>, to: usize) {
        let mut moved = 0;
        while let Some(thread) = from.queue.0.first() {
            let bucket = self.bucket(to, thread.waiter.key.load(Relaxed));
            bucket.waiters.fetch_add(1, Relaxed);
            from.queue.0.remove(thread);
            bucket.lock.with(|| bucket.queue.0.push(thread));
            moved += 1;
        }
        // The sleepers' leaving and the mark in one step: a waker that saw neither would look
        // nowhere else.
        match moved {
            // The mark may be there: another hash's, which has taken the sleepers along.
            0 => from.waiters.fetch_or(MOVED, Release),
            _ => from.waiters.fetch_add(MOVED.wrapping_sub(moved), Release),
        };
    }

    /// Queues `me` if `expected`: whether it has. `None`: there is nowhere to queue.
    fn queue(&self, me: &Thread<P>, key: u64, expected: impl Fn() -> bool) -> Option<bool> {
        let mut table = self.current.load(Acquire) as usize;
        loop {
            let bucket = self.bucket(table, key);
            bucket.waiters.fetch_add(1, Relaxed);
            P::fence();
            let found = bucket.lock.with(|| {
                if bucket.is_moved() {
                    return Found::Moved;
                }
                let queued = expected();
                if queued {
                    // Not before: until here the bucket's lock may have used the thread's place to
                    // wait itself.
                    me.waiter.enter();
                    me.waiter.granted.store(0, Relaxed);
                    me.waiter.key.store(key, Relaxed);
                    bucket.queue.0.push(me);
                }
                Found::Here(queued)
            });
            if let Found::Here(true) = found {
                return Some(true);
            }
            bucket.waiters.fetch_sub(1, Relaxed);
            match found {
                Found::Here(_) => return Some(false),
                Found::Moved => table = self.after(table)?,
            }
        }
    }

    fn sleep(&self, me: &Thread<P>, key: u64, deadline: Option<u64>) -> Waited {
        loop {
            if me.waiter.granted.load(Acquire) != 0 {
                return Waited::Woken;
            }
            if deadline.is_some_and(|deadline| P::now() >= deadline) {
                return self.give_up(me, key);
            }
            me.park(deadline);
        }
    }

    /// Late: takes `me` out, unless a waker has.
    fn give_up(&self, me: &Thread<P>, key: u64) -> Waited {
        let mut table = self.current.load(Acquire) as usize;
        loop {
            let bucket = self.bucket(table, key);
            let found = bucket.lock.with(|| {
                if bucket.is_moved() {
                    return Found::Moved;
                }
                if me.waiter.granted.load(Acquire) != 0 {
                    return Found::Here(Waited::Woken);
                }
                bucket.take_out(me);
                Found::Here(Waited::TimedOut)
            });
            match found {
                Found::Here(waited) => return waited,
                Found::Moved => match self.after(table) {
                    Some(next) => table = next,
                    None => return Self::moved_along(me),
                },
            }
        }
    }

    /// Another hash has moved `me` into a table that is not ours: its place is not to be found, and
    /// to return would leave it linked.
    #[cold]
    fn moved_along(me: &Thread<P>) -> Waited {
        while me.waiter.granted.load(Acquire) == 0 {
            me.park(None);
        }
        Waited::Woken
    }

    /// The table after `table`, one of whose buckets is moved. `None`: there is none, and another
    /// hash has moved it.
    fn after(&self, table: usize) -> Option<usize> {
        (table < self.announced.load(Acquire) as usize).then_some(table + 1)
    }

    /// Wakes up to `most`, and up to [`WAKES`], of the bucket's sleepers with `key`.
    fn wake_some(bucket: &Bucket<P, L>, key: u64, most: usize) -> Found<usize> {
        let mut list = WakeList::<WAKES>::new();
        let mut taken = 0;
        let moved = bucket.lock.with(|| {
            if bucket.is_moved() {
                return true;
            }
            let mut next = bucket.queue.0.first();
            while let Some(thread) = next.filter(|_| taken < most.min(WAKES)) {
                next = bucket.queue.0.after(thread);
                if thread.waiter.key.load(Relaxed) == key {
                    bucket.take_out(thread);
                    list.push(thread.id());
                    thread.waiter.granted.store(1, Release);
                    taken += 1;
                }
            }
            false
        });
        list.wake::<P>();
        if moved { Found::Moved } else { Found::Here(taken) }
    }

    fn table(&self, number: usize) -> &'t [Bucket<P, L>] {
        // SAFETY: the caller has the number from `current` or from `announced`, with Acquire or
        // under `growing`: the cell was written before, for the only time. (Invariant 4)
        unsafe { *self.tables[number].get() }
    }

    fn bucket(&self, table: usize, key: u64) -> &'t Bucket<P, L> {
        let table = self.table(table);
        let hash = (key >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &table[hash as usize & (table.len() - 1)]
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
