//! An rw-semaphore for data that is read much more often than written: while its readers crowd and
//! writers are rare, a reader writes to its own cache line alone.
//!
//! It is a [`RawRwSem`] and a word beside it. Readers that meet others *open a stint*: from then on
//! a reader shows in its *seat*, a line of a table of the machine, and does not touch the rwsem. A
//! writer takes the rwsem, *closes* the stint, and counts the readers that it finds in seats into
//! the rwsem: from then on they are readers like any other, and the writer a waiter like any other.
//!
//! # Words
//!
//! | word or bits | meaning | set by | cleared by | legal not to |
//! |---|---|---|---|---|
//! | `stint`, 0 [`OPEN`] | readers may take a place | a reader that is counted in `sem`, and found others there; a try that did not get in | the writer that holds `sem`, before it looks at the seats | set it |
//! | `stint`, 1–4 | places are in the first 2ⁿ seats | the opener; a reader with a seat beyond, while `OPEN` | the closer: as many as were used stay, for the next opener | – |
//! | `stint`, 16–63 [`TOKEN`] | a number that no other stint of any lock has; 0: no hold of this lock is in a seat | the opener | the writer, when no seat has the token any more | – |
//! | `reluctance` | how rarely a crowd opens a stint | the writer that closes one | – | – |
//! | `place`, four in each seat | the token of the stint in which its reader holds **or tests**; 0: free | that reader, from 0 | that reader; another reader of the same seat and stint; the writer that has counted the reader in | – |
//! | `reads`, in the seat | token of the stint last used there, and the reads in it (16 bits) | its readers | – | count |
//! | `stints`, in the seat | stints opened from there | openers | – | – |
//! | `met`, in the seat | reads that found others in `sem` | its readers | – | count |
//!
//! # States
//!
//! | operation | finds | does |
//! |---|---|---|
//! | read | `OPEN` | 0 → token in a free place of its seat, full fence, reads `stint` again. The same stint, `OPEN`: holds. Else takes the token back, and reads by `sem`; it is gone: holds, counted |
//! | read | not `OPEN`, or no free place | reads by `sem`. If it met others, one time in 2ˣ, and nobody waits: opens a stint |
//! | a reader releases | a place of its seat with the token of `stint` | token → 0 |
//! | a reader releases | none | releases `sem` |
//! | write | no token behind `sem` | holds |
//! | write | a stint behind `sem` | closes it. No reader was counted in: holds. Else leaves `sem` to them, and writes once more |
//! | try to write | a token in a seat | fails |
//!
//! # Invariants
//!
//! 1. A stint is opened and closed by a thread that holds `sem`: the opener for reading, the closer
//!    for writing.
//! 2. A place has the token of its lock's `stint`, or its reader tests, or its lock is gone. So a
//!    holder that finds no token, or another, is counted in `sem`.
//! 3. Holds are as many as readers counted in `sem`, without those that test there, and places with
//!    the token. A reader may release any of its seat's, or one that is counted: the sum is what
//!    keeps writers out.
//! 4. A writer counts a reader in *before* it takes the token from the place: the reader releases
//!    what is there.
//!
//! # Ordering
//!
//! * Reader against writer, the pair that must not fail: {place := token; full fence; read `stint`}
//!   against {clear `OPEN`; full fence; read places}. One of the two sees the other. Both changes
//!   are read-modify-writes, behind which a fence is free on x86-64
//!   ([`Platform::fence_after_update`]). (An asymmetric fence would take that from other machines'
//!   readers, and needs `membarrier`, which a sandbox may forbid.)
//! * `stint`: opened with Release, by a thread that has acquired `sem`; read with Acquire by
//!   readers: they see what the last writer wrote. Widening and reopening are read-modify-writes
//!   and continue the release sequence. The token is cleared with Release, and `stint` read with
//!   Acquire by a release: a reader that finds no token finds itself in the count.
//! * `place`: left with Release, read with Acquire by the writer: it sees what readers did there. A
//!   place is only changed by read-modify-writes, so a later use of it continues the release
//!   sequence. Taken by the writer with Release, and found changed with Acquire: behind that, the
//!   reader finds itself in the count.
//! * `reads`, `met`, `reluctance`: hints; threads that share a seat may lose one.
//!
//! **Bound on bypass.** Writers: that of [`rwsem`](crate::rwsem), once more if readers were in
//! seats when the writer closed the stint. That one looks at [`SEATS`] seats at most. Readers in
//! seats pass writers only until one has `sem`. Readers that come when the stint is closed have the
//! bound of `rwsem`.
//!
//! **A writer that is stopped** while it closes a stint holds `sem`, as one that is stopped behind
//! its acquisition does. The steps in between are counted: it waits for no reader with `sem` for
//! more than [`GAPS`] × [`GAP_NS`].
//!
//! **Destruction.** A reader's release from a place does not touch the lock afterwards. All else is
//! as with [`rwsem`](crate::rwsem). A lock may go while a stint is open: its token matches nothing
//! any more. A forgotten guard's token then keeps its place for ever; a thread with all four taken
//! reads by `sem`.
//!
//! **Thread exit.** A hold in a seat stays; the thread keeps its record while one shows there
//! ([`is_unused`](crate::platform::Thread::is_unused)). **fork**: what other threads held or tested
//! stays held in the child.
//!
//! **Whose release.** The thread that took the lock for reading releases it: nobody else finds its
//! seat. **Recursion**: none, as with [`rwsem`](crate::rwsem).
//!
//! **Memory**: [`SEATS`] seats of 128 bytes in a process; each is touched when a thread with its
//! number first reads in a stint, or meets others.
//!
//! *Not for* locks that are written as often as read, or hardly contended: [`rwsem`](crate::rwsem)
//! is the same there, and smaller. Nor for a write in a thousand reads of hundreds of threads: each
//! write reads a line of each of them, and all of them then meet at `sem`.
//!
//! Sources: Dice and Kogan, "BRAVO: Biased Locking for Reader-Writer Locks" (USENIX ATC 2019):
//! table, bias, revocation. Documentation/locking/percpu-rw-semaphore of Linux: the form that is
//! always open to readers. Ours: seats by thread, stints paid for by the reads in them, and
//! readers counted in, so that nobody waits for a seat.

mod policy;
mod seats;

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;

pub use policy::{Adaptive, Always, Policy};

use core::marker::PhantomData;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
#[cfg(doc)]
use crate::platform::SEATS;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::rwsem::RawRwSem;
#[cfg(doc)]
use seats::{GAP_NS, GAPS};

/// In `stint`: readers may take a place.
const OPEN: u64 = 1;
/// In `stint`: which it is.
const TOKEN: u64 = !0xffff;
/// The least `stint` with a token.
const FIRST: u64 = 1 << TOKEN.trailing_zeros();

/// The read-mostly rw-semaphore: 48 bytes, of which the word at 28 belongs to the embedder. See the
/// [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawReadMostlyRwSem<P: Platform, Y: Policy = Adaptive> {
    sem: RawRwSem<P>,
    stint: P::U64,
    reluctance: P::U32,
    /// Keeps the size where words have 4 bytes only.
    unused: P::U32,
    policy: PhantomData<Y>,
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawReadMostlyRwSem<crate::platform::linux::Linux>>() == 48);

impl<P: Platform, Y: Policy> Default for RawReadMostlyRwSem<P, Y> {
    fn default() -> Self {
        Self {
            sem: RawRwSem::default(),
            stint: P::U64::default(),
            reluctance: P::U32::default(),
            unused: P::U32::default(),
            policy: PhantomData,
        }
    }
}

impl<P: ConstPlatform, Y: Policy> RawReadMostlyRwSem<P, Y> {
    /// An unlocked read-mostly rwsem, in constants.
    pub const fn new() -> Self {
        Self {
            sem: RawRwSem::new(),
            stint: P::U64::ZERO,
            reluctance: P::U32::ZERO,
            unused: P::U32::ZERO,
            policy: PhantomData,
        }
    }
}

impl<P: Platform, Y: Policy> RawReadMostlyRwSem<P, Y> {
    /// Takes the lock for reading. Without a stint it waits as [`RawRwSem::read_acquire`] does.
    #[inline]
    pub fn read_acquire(&self) {
        // Forever: the result cannot be an error.
        let _ = self.read_acquire_until(Until::FOREVER);
    }

    /// Takes the lock for reading unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn read_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        let stint = self.stint.load(Relaxed);
        if stint & OPEN != 0 && self.sit_down(stint) {
            return Ok(());
        }
        if self.sem.read_acquire_among(until)? || !Y::ADAPTS {
            self.met_others();
        }
        Ok(())
    }

    /// Takes the lock for reading if no writer holds it, it is not kept for a waiter, and there are
    /// not as many readers as can be counted.
    #[inline]
    pub fn try_read_acquire(&self) -> bool {
        let stint = self.stint.load(Relaxed);
        stint & OPEN != 0 && self.sit_down(stint) || self.sem.try_read_acquire()
    }

    /// Releases a read lock.
    ///
    /// # Safety
    /// The calling thread has taken it for reading, or downgraded it.
    #[inline]
    pub unsafe fn read_release(&self) {
        // Acquire: see the module text.
        let stint = self.stint.load(Acquire);
        if stint >= FIRST && self.stand_up(stint) {
            return;
        }
        // SAFETY: not from a place, so the caller is counted.
        unsafe { self.sem.read_release() };
    }

    /// Takes the lock for writing.
    #[inline]
    pub fn write_acquire(&self) {
        // Forever: the result cannot be an error.
        let _ = self.write_acquire_until(Until::FOREVER);
    }

    /// Takes the lock for writing unless `until` comes first. An acquisition that need not wait
    /// succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn write_acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.sem.write_acquire_until(until)?;
        if self.stint.load(Relaxed) < FIRST { Ok(()) } else { self.close(until) }
    }

    /// Takes the lock for writing if nobody holds it and it is not kept for a waiter.
    #[inline]
    pub fn try_write_acquire(&self) -> bool {
        // Readers in seats are looked for first: to close a stint for nothing would cost them.
        let stint = self.stint.load(Relaxed);
        (stint < FIRST || !seats::holds::<P>(stint))
            && self.sem.try_write_acquire()
            && (self.stint.load(Relaxed) < FIRST || self.try_close())
    }

    /// Releases the write lock.
    ///
    /// # Safety
    /// The caller holds it for writing, or acts for the thread that does.
    #[inline]
    pub unsafe fn write_release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.sem.write_release() };
    }

    /// Makes the write lock a read lock, in one step.
    ///
    /// # Safety
    /// The caller holds it for writing. It then holds it for reading.
    #[inline]
    pub unsafe fn downgrade(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.sem.downgrade() };
    }

    /// Whether the lock is held, or waited for. While a stint lasts it looks at every seat.
    pub fn is_locked(&self) -> bool {
        let stint = self.stint.load(Relaxed);
        self.sem.is_locked() || stint >= FIRST && seats::holds::<P>(stint)
    }

    /// Whether a writer holds the lock. One that closes a stint does not yet.
    pub fn is_write_locked(&self) -> bool {
        self.sem.is_write_locked() && self.stint.load(Relaxed) < FIRST
    }

    /// Whether somebody waits in the queue.
    pub fn is_contended(&self) -> bool {
        self.sem.is_contended()
    }

    /// Whether readers take places: they share no line then.
    pub fn is_open_to_seats(&self) -> bool {
        self.stint.load(Relaxed) & OPEN != 0
    }

    /// The caller, a writer, has found a stint behind `sem`.
    #[cold]
    fn close(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        loop {
            P::count(Event::ReadMostlyClose, 1);
            let stint = self.shut();
            let moved = self.count_in(stint);
            self.end(stint);
            if moved == 0 {
                return Ok(());
            }
            P::count(Event::ReadMostlyMoved, moved);
            // SAFETY: held for writing, and then for reading.
            unsafe {
                self.sem.downgrade();
                self.sem.read_release();
            }
            self.sem.write_acquire_until(until)?;
            if self.stint.load(Relaxed) < FIRST {
                return Ok(());
            }
        }
    }

    /// As [`Self::close`], for a try: `false` if readers are in seats.
    #[cold]
    fn try_close(&self) -> bool {
        let stint = self.shut();
        if seats::holds::<P>(stint) {
            // Release, as at the opening. Nobody was counted in: the stint goes on.
            self.stint.fetch_or(OPEN, Release);
            // SAFETY: acquired by the caller.
            unsafe { self.sem.write_release() };
            return false;
        }
        P::count(Event::ReadMostlyClose, 1);
        self.end(stint);
        true
    }

    /// From here on no reader that takes a place holds by it. The stint as it was.
    fn shut(&self) -> u64 {
        // Relaxed: what matters is the fence.
        let stint = self.stint.fetch_and(!OPEN, Relaxed);
        P::fence_after_update();
        stint
    }
}
