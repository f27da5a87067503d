//! The owner word: who has, or last had, the lock, and whether spinning for it is thought to pay. A
//! hint in every bit: it never decides who may enter (invariant 8).
//!
//! # The word
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0 | `READER_OWNED` | the thread named is a reader, perhaps one that left long ago: never look at whether it runs |
//! | 1 | `RD_NONSPINNABLE` | do not spin (`Single`, `WithReader`); readers, do not spin (`Split`) |
//! | 2 | `WR_NONSPINNABLE` | writers, do not spin (`Split` only) |
//! | 8–23 | identity | thread id; 0 = nobody is known |
//!
//! | event | the word becomes |
//! |---|---|
//! | a writer takes the lock | its identity, no flags |
//! | a writer releases | 0, before the count |
//! | a reader takes the lock | its identity, `READER_OWNED`, and the marks that the policy keeps |
//! | a reader releases | unchanged; the last one clears the mark against writers if it has somebody to wake |
//! | readers are granted | as taken by the first of them, by the thread that grants |
//! | a writer's spin on readers runs out of time | marks against everybody are set |
//!
//! # Memory ordering
//!
//! All accesses are Relaxed. Between the count and this word there is a gap in which the lock is
//! held and the word is zero or stale; in userspace a holder may be descheduled there, so nobody
//! may wait in it without bound (see [`spin`](super::spin)). A reader's store is a plain load and
//! store: a mark set in between is lost, which costs one more spin. A reader stores only while it
//! holds the lock (invariant 9), so a later writer's word is never overwritten.
//!
//! The kernel's word for "a writer nobody knows" is here any anonymous thread's: it never runs, so
//! nobody spins on it.

use crate::platform::thread::ThreadId;
use crate::platform::{Ordering::*, Platform, Word};

use super::KernelRwSem;
use super::policy::{Keep, Nonspin, Policy};

pub(super) const READER_OWNED: u32 = 1;
pub(super) const RD_NONSPINNABLE: u32 = 2;
pub(super) const WR_NONSPINNABLE: u32 = 4;
const OWNER_SHIFT: u32 = 8;

/// How a thread wants the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

/// What the owner word says to a spinner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerState {
    Null,
    Writer(ThreadId),
    Reader,
    Nonspinnable,
}

impl OwnerState {
    pub(super) fn is_writer(self) -> bool {
        matches!(self, Self::Writer(_))
    }
}

/// The thread that `word` names.
pub(super) fn identity(word: u32) -> Option<ThreadId> {
    ThreadId::from_raw(word >> OWNER_SHIFT)
}

/// The marks that tell a spinner of `kind` not to.
pub(super) const fn nonspinnable<Y: Policy>(kind: Kind) -> u32 {
    match (Y::NONSPIN, kind) {
        (Nonspin::Split, Kind::Write) => WR_NONSPINNABLE,
        _ => RD_NONSPINNABLE,
    }
}

/// All marks the policy uses.
const fn marks<Y: Policy>() -> u32 {
    nonspinnable::<Y>(Kind::Read) | nonspinnable::<Y>(Kind::Write)
}

/// The marks that a reader's store preserves.
const fn kept<Y: Policy>() -> u32 {
    match Y::NONSPIN_KEEP {
        Keep::Nothing => 0,
        Keep::Reader => RD_NONSPINNABLE,
        Keep::All => marks::<Y>(),
    }
}

/// What `word` says to a spinner of `kind`.
pub(super) fn state<Y: Policy>(word: u32, kind: Kind) -> OwnerState {
    if word & nonspinnable::<Y>(kind) != 0 {
        return OwnerState::Nonspinnable;
    }
    if word & READER_OWNED != 0 {
        let useless = kind == Kind::Write && !Y::WRITER_SPIN_ON_READERS;
        return if useless { OwnerState::Nonspinnable } else { OwnerState::Reader };
    }
    identity(word).map_or(OwnerState::Null, OwnerState::Writer)
}

/// The calling thread's name for the owner word.
#[inline(always)]
pub(super) fn me<P: Platform>() -> ThreadId {
    P::id().unwrap_or_else(register::<P>)
}

/// A thread's first lock gives it its name, or makes it anonymous.
#[cold]
fn register<P: Platform>() -> ThreadId {
    P::current().map_or(ThreadId::ANONYMOUS, |thread| thread.id())
}

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    /// The writer that holds the lock, if one is known.
    #[inline]
    pub(super) fn write_owner(&self) -> Option<ThreadId> {
        let word = self.owner.load(Relaxed);
        if word & READER_OWNED == 0 { identity(word) } else { None }
    }

    /// The caller has taken the lock for writing.
    #[inline(always)]
    pub(super) fn own_as_writer(&self) {
        self.owned_by_writer(me::<P>());
    }

    /// The caller has taken the lock for reading.
    #[inline(always)]
    pub(super) fn own_as_reader(&self) {
        self.owned_by_reader(me::<P>(), 0);
    }

    #[inline(always)]
    pub(super) fn owned_by_writer(&self, id: ThreadId) {
        self.owner.store(id.raw() << OWNER_SHIFT, Relaxed);
    }

    /// `id` has the lock for reading; `extra`: marks to set besides those kept.
    #[inline(always)]
    pub(super) fn owned_by_reader(&self, id: ThreadId, extra: u32) {
        let word = id.raw() << OWNER_SHIFT | READER_OWNED | extra;
        let more = match (Y::NONSPIN, Y::NONSPIN_KEEP) {
            (Nonspin::WithReader, _) => RD_NONSPINNABLE,
            (_, Keep::Nothing) => 0,
            _ => self.owner.load(Relaxed) & kept::<Y>(),
        };
        self.owner.store(word | more, Relaxed);
    }

    /// Spinning on these readers did not pay: nobody shall, until they are gone.
    pub(super) fn set_nonspinnable(&self) {
        let mut word = self.owner.load(Relaxed);
        while word & READER_OWNED != 0 && word & marks::<Y>() == 0 {
            match self.owner.compare_exchange_weak(word, word | marks::<Y>(), Relaxed, Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
    }

    /// Nobody holds the lock: writers may spin again. (The word may by now be a new writer's; that
    /// one has no marks.)
    pub(super) fn clear_nonspinnable(&self) {
        if Y::NONSPIN == Nonspin::WithReader {
            return;
        }
        let mark = nonspinnable::<Y>(Kind::Write);
        if self.owner.load(Relaxed) & mark != 0 {
            self.owner.fetch_and(!mark, Relaxed);
        }
    }

    /// Whether spinning is marked as useless for anybody.
    pub(super) fn has_marks(&self) -> bool {
        self.owner.load(Relaxed) & marks::<Y>() != 0
    }

    /// What a reader remembers of the word it found: all of it if readers owned the lock, of a
    /// writer's word the mark against readers.
    pub(super) fn owner_note(&self) -> u32 {
        if !Y::ADAPTIVE_RSPIN {
            return 0;
        }
        let word = self.owner.load(Relaxed);
        if word & READER_OWNED != 0 { word } else { word & RD_NONSPINNABLE }
    }
}
