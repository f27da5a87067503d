//! The rwsem whose readers share nothing while writers are rare. A reader counts itself near its
//! CPU; a writer closes the gate, and waits until the sum of the counters is 0.
//!
//! *Apart*: readers are in counters that the lock has borrowed; else they are in `sem`. *Inside*: a
//! reader that holds the lock apart. *To test*: a reader adds itself before it knows whether it may
//! enter; if it may not, it takes itself out.
//!
//! # Words
//!
//! * `gate`: 0: readers are in `sem`; else they are apart: which counters, and whether it is
//!   closed. Between 0, by cache and by CPU: a writer that holds `sem` changes it, no reader
//!   inside. Closed: such a writer sets it, before it waits for readers. Open: the same, when it
//!   leaves or gives up; a reader that holds `sem`. Legal not to: open it, when it leaves: the next
//!   thread that holds `sem` does.
//! * A counter: low half: readers that came by it, less those that left by it; high half: how many
//!   came. A reader adds itself when it comes, and takes itself out when it leaves, not always of
//!   the same counter.
//! * `lent`: which counters are borrowed. The thread that would have readers apart sets the bit,
//!   and clears it if it fails; the writer after which readers come together clears it, and the
//!   drop of the lock. Legal not to: clear it: a lock that is forgotten keeps its counters.
//! * `waiter`: the writer that sleeps until readers have left. That writer sets it; a reader that
//!   has left exchanges it for 0, and wakes. Legal not to: wake: the writer looks again after 0.4
//!   ms.
//! * `sem`: a writer holds, or waits for readers; readers hold, if not apart. As on its own page.
//! * `writers`: how many writers wait for `sem`. `writer`: which one took it last, a hint.
//! * `shifting`, bit 0: a reader presses for `sem`, to go apart; it sets and clears it. Above: how
//!   many of them failed since readers were apart.
//! * `seen`, `enough`: reads in `sem` beside others, or after a wait, since a write; how many of
//!   them are enough to go apart. Readers and writers store them. Hints.
//! * `came`, `reads`, `poor`: how many readers had come at the last closing or change of the place,
//!   and between the last two; how much more often these were too few than enough. Hints.
//!
//! # States
//!
//! | `gate` | event | next |
//! |---|---|---|
//! | 0 | *share*: a writer leaves, or a reader has taken `sem` to write | apart, open |
//! | open, by cache | *share*, after very many reads | by CPU, open |
//! | open | a reader adds itself, and finds it unchanged | open: it is inside |
//! | open | a writer has taken `sem` | closed |
//! | closed | the sum is 0 | closed: the writer holds the lock |
//! | closed | the writer's wait ends before that | open; it releases `sem` |
//! | closed | a reader has added itself | closed: it takes itself out |
//! | closed | a reader has taken `sem` | open; it adds itself, and releases `sem` |
//! | closed | the writer leaves, others wait, `sem` is not kept | closed: no reader is inside |
//! | closed | the writer leaves, else; many reads, or few caches | open, by CPU |
//! | | the same, a quarter as many | open, by cache |
//! | | the same, few, eight times more often than not | 0 |
//! | | a writer leaves that gives the counters back | 0 |
//!
//! *Share.* A writer that leaves, or downgrades, after 64 reads (`seen`) changes the place. If none
//! does, a reader after 256 presses: it keeps readers out of `sem` that come, and spins for 20 µs
//! at most until those inside have left. It then holds `sem` to write, changes the place, and is
//! inside. If it fails it takes `sem` to read, and the next one presses after twice as many, up to
//! 16,384.
//! By CPU, a reader that is inside leaves, and takes the lock to write, in 20 µs or not.
//!
//! A reader that finds the gate closed spins while the writer runs. Then it queues for `sem`, and
//! enters by the gate if it looks and finds it open.
//!
//! # Invariants
//!
//! 1. All readers that hold are in one place: in `sem` while `gate` is 0, else in the counters.
//!    (One that has taken `sem`, and adds itself, is in both until it releases `sem`.) The place
//!    changes only while a writer holds `sem` and no reader holds. So a release finds out by
//!    `gate`, and any thread may release for another, from any CPU.
//! 2. While no writer holds `sem` and `gate` is closed, no reader is inside. A thread that then has
//!    `sem` keeps writers out: it may open.
//! 3. A counter may be below zero. A sum that is read while `gate` is closed is 0 only if each
//!    reader that was inside has left: all came before it is read, and only leave. (While it is
//!    open, one may come behind the sum and leave before it.)
//! 4. Counters are borrowed only if their sum is 0: a reader that tests there, late, for another
//!    lock is in no sum when it has taken itself out, and one that never will keeps them unused.
//! 5. All counters of a place are summed that any lock ever had there: their number does not fall.
//!
//! # Ordering
//!
//! * *Come against close.* A reader adds itself, passes a full fence, and reads `gate`; a writer
//!   closes `gate`, passes a full fence, and reads the counters. One sees the other.
//! * *Leave against sleep.* The same with a counter and `waiter`.
//! * `gate` is written with Release and read with Acquire: a reader sees what the writers before it
//!   did. (A reader that opens holds `sem`, and has seen that.)
//! * A reader leaves a counter with Release; the sum is Acquire. Each change is a
//!   read-modify-write, so the sum synchronises with all readers that have left.
//! * `lent`: borrowed with Acquire, given back with Release.
//!
//! **Bound on bypass.** A writer that has `sem` waits for the readers inside, and those that test.
//! A reader waits at the gate for 0.1 ms at most (20 µs where a spin has a budget), then in the
//! queue of `sem`, with its bound. A writer that waits for readers counts as the owner: if it is
//! stopped it keeps all out; so does a reader that is stopped while it changes the place (some
//! instructions; by CPU, 20 µs). A reader that is stopped while it tests, at counters that this
//! lock has borrowed, keeps writers out.
//!
//! **Tries** and timed reads may fail, though no writer is there, while a reader changes the place.
//! A try to write that fails keeps others out for some microseconds. A reader that tries is not in
//! `seen`, and only `read_acquire` changes the place without a writer.
//!
//! **Destruction.** A reader that leaves a counter touches the lock before that only. A writer that
//! leaves opens the gate before it releases `sem`, and readers may come and go in between: counters
//! are given back after that release, or, if it takes 10 ms, not. All else as in `sem`.
//!
//! **fork.** In the child, readers of other threads stay counted; one that tests as well, unless
//! the forking thread holds the lock to write, and releases it as the only thread. A writer of
//! another thread that waited for readers holds, and a reader that changed the place. If one had
//! set `shifting`, only writers go apart there; counters between two steps stay borrowed.
//!
//! **Signal handlers.** One that writes waits for ever if its own thread is inside, as in `sem`; or
//! tests at the lock's counters, perhaps late, in a read of another lock. One that reads does, if
//! its thread changes the place: some instructions of a read.
//!
//! **Recursion**: none, as in `sem`.
//!
//! Sources: Dice and Kogan, *BRAVO: Biased Locking for Reader-Writer Locks*, 2019 (readers in a
//! table, a writer that revokes, what that may cost); Documentation/locking of Linux,
//! percpu-rw-semaphore (counters of which only the sum counts).

mod embed;
mod place;
mod policy;
mod shift;
#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
mod wait;

use core::marker::PhantomData;

use super::{BIAS, READ_BLOCK, READERS, RawRwSem};
use crate::cancel::{GaveUp, Until};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};

use place::Place;
pub use policy::{Always, Embedded, Learned, Policy};

/// A word on a line that is hardly ever written.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Gate<W>(W);

/// The rwsem whose readers share nothing while writers are rare: 128 bytes. See the [module
/// text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawApartRwSem<P: Platform, Y: Policy = Learned> {
    gate: Gate<P::U64>,
    sem: RawRwSem<P>,
    writers: P::U32,
    writer: P::U32,
    shifting: P::U32,
    seen: P::U32,
    enough: P::U32,
    came: P::U32,
    reads: P::U32,
    poor: P::U32,
    policy: PhantomData<Y>,
}

impl<P: Platform, Y: Policy> Default for RawApartRwSem<P, Y> {
    fn default() -> Self {
        Self {
            gate: Gate::default(),
            sem: RawRwSem::default(),
            writers: P::U32::default(),
            writer: P::U32::default(),
            shifting: P::U32::default(),
            seen: P::U32::default(),
            enough: P::U32::default(),
            came: P::U32::default(),
            reads: P::U32::default(),
            poor: P::U32::default(),
            policy: PhantomData,
        }
    }
}

impl<P: ConstPlatform, Y: Policy> RawApartRwSem<P, Y> {
    /// An unlocked rwsem, in constants.
    pub const fn new() -> Self {
        Self {
            gate: Gate(P::U64::ZERO),
            sem: RawRwSem::new(),
            writers: P::U32::ZERO,
            writer: P::U32::ZERO,
            shifting: P::U32::ZERO,
            seen: P::U32::ZERO,
            enough: P::U32::ZERO,
            came: P::U32::ZERO,
            reads: P::U32::ZERO,
            poor: P::U32::ZERO,
            policy: PhantomData,
        }
    }
}

impl<P: Platform, Y: Policy> Drop for RawApartRwSem<P, Y> {
    fn drop(&mut self) {
        if self.place().is_apart() {
            // With readers inside whose guards were forgotten nobody borrows them.
            self.place().give_back::<P>();
        }
    }
}

/// How a first look of a reader has ended.
enum First {
    /// It is in.
    In,
    /// The same, and so many have come before that it should look how many they are.
    Many(Place),
    /// It holds `sem`, beside other readers, or the lock is not as it was.
    Beside,
    /// It is counted in `sem`, and may not enter.
    Blocked,
    /// The gate was closed.
    Shut,
}

/// What the look of a reader that has counted itself comes to.
enum Entry {
    /// It is in; so many came before it by the same counter.
    In(u32),
    /// The gate was closed; it has taken itself out.
    Shut,
    /// The same, and there is a writer to be woken.
    Owes,
}

impl<P: Platform, Y: Policy> RawApartRwSem<P, Y> {
    /// Takes the lock for reading.
    #[inline]
    pub fn read_acquire(&self) {
        match self.first_look() {
            First::Many(place) if !self.look_round(place) => self.read_acquire(),
            First::In | First::Many(_) => {}
            First::Beside => self.beside(),
            First::Blocked => self.read_forever(true),
            First::Shut => self.read_forever(false),
        }
    }

    /// Takes the lock for reading unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn read_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        match self.first_look() {
            First::In => Ok(()),
            First::Many(place) => {
                self.end_counting(place);
                Ok(())
            }
            First::Beside => {
                self.seen();
                Ok(())
            }
            First::Blocked => self.read_blocked(until),
            First::Shut => self.read_shut(until),
        }
    }

    #[inline(always)]
    fn first_look(&self) -> First {
        let place = self.place();
        if place.is_open() {
            return match self.try_enter(place) {
                Entry::In(before) if before % policy::LOOK_EVERY == 0 => First::Many(place),
                Entry::In(_) => First::In,
                Entry::Shut => First::Shut,
                Entry::Owes => {
                    place.wake::<P>();
                    First::Shut
                }
            };
        }
        if place.is_apart() {
            return First::Shut;
        }
        let count = self.sem.count.fetch_add(BIAS, Acquire);
        if count & READ_BLOCK != 0 {
            First::Blocked
        } else if count & READERS == 0 && !Y::AT_ONCE && !self.place().is_apart() {
            First::In
        } else {
            First::Beside
        }
    }

    /// A reader that has found the gate open at `place`: whether it is in.
    #[inline(always)]
    fn enter(&self, place: Place) -> bool {
        match self.try_enter(place) {
            Entry::In(before) => {
                if before % policy::LOOK_EVERY == 0 {
                    self.end_counting(place);
                }
                true
            }
            Entry::Shut => false,
            Entry::Owes => {
                place.wake::<P>();
                false
            }
        }
    }

    #[inline(always)]
    fn try_enter(&self, place: Place) -> Entry {
        let (counter, before) = place.enter::<P>();
        P::fence_after_exchange();
        if self.place() == place {
            Entry::In(before)
        } else if place.take_out::<P>(counter) {
            Entry::Owes
        } else {
            Entry::Shut
        }
    }

    /// Takes the lock for reading if that needs no wait.
    #[inline]
    pub fn try_read_acquire(&self) -> bool {
        let place = self.place();
        if place.is_open() && self.enter(place) {
            return true;
        }
        // A reader that would go apart is no writer: it keeps no reader out that only tries.
        let taken = self.sem.try_read_acquire()
            || self.shifting.load(Relaxed) & 1 != 0 && self.sem.try_read_pressed()
            || self.sem.try_read_acquire();
        if taken && self.place().is_apart() {
            self.settle();
        }
        taken
    }

    /// Releases a read lock.
    ///
    /// # Safety
    /// The caller holds it for reading, or acts for a thread that does.
    #[inline]
    pub unsafe fn read_release(&self) {
        // Where readers are counted does not change while one holds.
        let place = Place(self.gate.0.load(Relaxed));
        if place.is_apart() {
            place.leave::<P>(place.near::<P>());
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.sem.read_release() };
        }
    }

    /// Takes the lock for writing.
    #[inline]
    pub fn write_acquire(&self) {
        let taken = self.sem.write_fast();
        if !taken || self.place().is_apart() {
            self.write_forever(taken);
        }
    }

    /// Takes the lock for writing unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn write_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if !self.sem.write_fast() {
            self.write_slow(until)
        } else if self.place().is_apart() {
            self.shut(until)
        } else {
            Ok(())
        }
    }

    /// Takes the lock for writing if nobody holds it and it is not kept for a waiter.
    #[inline]
    pub fn try_write_acquire(&self) -> bool {
        self.sem.try_write_acquire() && (!self.place().is_apart() || self.shut_at_once())
    }

    /// Releases the write lock.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release(&self) {
        self.before_write_release();
        // SAFETY: the caller's promise.
        unsafe { self.sem.write_release() };
    }

    #[inline(always)]
    fn before_write_release(&self) {
        if self.place().is_apart() {
            self.reopen();
        } else if self.seen.load(Relaxed) != 0 {
            self.reads_seen();
        }
    }

    /// Makes the write lock a read lock, in one step.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does. It then holds it for
    /// reading.
    #[inline]
    pub unsafe fn downgrade(&self) {
        self.before_write_release();
        // SAFETY: the caller's promise.
        unsafe { self.join() };
    }

    /// Whether the lock is held, or waited for.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.sem.is_locked() || self.readers_apart() != 0
    }

    /// Whether a writer holds the lock, or waits for readers to leave.
    #[inline]
    pub fn is_write_locked(&self) -> bool {
        self.sem.is_write_locked()
    }

    /// Whether somebody waits in the queue.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.sem.is_contended()
    }

    /// The rwsem, for tests.
    pub fn inner(&self) -> &RawRwSem<P> {
        &self.sem
    }

    #[inline(always)]
    fn place(&self) -> Place {
        Place(self.gate.0.load(Acquire))
    }

    /// For the thread that holds `sem` for writing.
    fn set_place(&self, place: Place) {
        self.gate.0.store(place.0, Release);
    }
}
