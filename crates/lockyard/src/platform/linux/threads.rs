//! The thread registry: type-stable records without allocation, reuse at thread exit without
//! destructors, a process that forks.
//!
//! # Records
//!
//! One slot per name, in a [`Table`] that grows with the threads there are. Slot 0 belongs to no
//! thread; unregistered and anonymous threads count their events there.
//!
//! Names up to [`ThreadId::MAX_QUEUED`] come first. A thread with a longer name waits for sleeping
//! locks like any other; to queue for a spinlock it borrows a record with a short name
//! (`strangers`).
//!
//! # Claiming and reuse
//!
//! `claim` = sequence number (32 bits) and kernel thread id of the owner, 0 once that has told of
//! its end (see `exit`). A new thread first looks at a few slots for one whose owner is gone, else
//! takes the next fresh one. The sequence number makes two claimers that see the same dead owner
//! exclude each other. Where threads do not tell, and where no slot is left, the kernel is asked
//! for the id; one that it knows again, as another thread, only delays reuse.
//!
//! # What a name means, and for how long
//!
//! A [`ThreadId`] is a place, not a person: it names one thread while that thread lives, and the
//! next thread after it. A comparison of names therefore tells which thread *runs*, or *waits*,
//! now. To tell which thread *holds*, after the holder's death too, takes more:
//!
//! | who compares | with what | after the owner's death |
//! |---|---|---|
//! | mutex, rwsem: owner bits of the word | the name | a hint: spin or not, and which release is quick |
//! | queues, spinlock nodes, sleeping heads | the name | a thread that waits does not die |
//! | rt-mutex: owner | the name | a record that holds one is not [unused](Thread::is_unused), so its name stays the dead one's |
//! | PI mutex: the kernel's word | the kernel's thread id | as the kernel says |
//! | pthread and C objects that refuse by owner | [`identity`] | never another's, but that of the 32,768th later owner of the record: name and claim |
//!
//! All threads without a record share one name, and none of the comparisons above tells them apart.
//!
//! # fork
//!
//! A slot notes the epoch (see `epoch`) in which it was claimed. The child's only thread keeps its
//! record (thread-locals are copied) and claims it again, in the child's epoch and under its new
//! kernel thread id. All other slots are of another epoch: copies of threads that the child does
//! not have. `is_here` says so; such a slot is never claimed again, since lock words may name
//! it. A child loses the slots of its ancestors' other threads, never its identity.
//!
//! # Exhaustion
//!
//! Beyond [`RECORDS`] live threads, or where the kernel has no memory for a chunk, a thread becomes
//! anonymous for its lifetime: at sleeping locks it polls instead of queueing. How often all of
//! those look is bounded, however many there are (`Linux::nap`). For a spinlock or a signal it
//! borrows a record (`strangers`). A thread that has given its record back (`leave`) waits like
//! that.

mod claims;
mod counts;
pub(super) mod exit;
mod running;
pub(super) mod strangers;

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use std::thread_local;

use super::table::{Place, Table};
use super::{Linux, epoch};
use crate::platform::atomics::AtomicU64;
use crate::platform::thread::{Thread, ThreadId};

pub use claims::make_room;
use claims::{Owner, TRIES, fresh, search};
use counts::{EVENTS, lend_to};
pub use counts::{EventWords, Lender, WAKING, WOKEN, counted, lend, snapshot, take_back};
pub(super) use counts::{count, note_sleep, note_wake};
pub use exit::when_left;
pub(super) use running::{is_running, mirror_cpus, off_cpu, refresh};

/// How many threads can have a record: the last short names are lent (see `strangers`).
pub const RECORDS: u32 = ThreadId::MAX_INDEX - strangers::PLACES;
/// The class that a thread had before something was lent to it, plus one; zero: nothing is lent.
/// Changed by one lender at a time. See `scheduling`.
#[derive(Debug)]
pub(super) struct Lent(pub(super) AtomicU32);

#[repr(C, align(128))]
struct Slot {
    claim: AtomicU64,
    epoch: AtomicU32,
    /// Windows that the thread is in: see `fork`.
    window: AtomicU32,
    /// The thread's fixed priority, as far as somebody has told.
    rank: AtomicU32,
    /// CPU + 1 where the thread was last seen; 0: never seen. See `running`.
    cpu: AtomicU32,
    lent: Lent,
    /// Words elsewhere in which this thread counts; null: `events` are in use.
    counts: AtomicPtr<EventWords>,
    thread: Thread<Linux>,
    events: [AtomicU64; EVENTS],
}

// SAFETY: zero words, and a record, which is made to be looked at by all.
unsafe impl Place for Slot {
    const NEW: Self = Self {
        claim: AtomicU64::new(0),
        epoch: AtomicU32::new(0),
        window: AtomicU32::new(0),
        rank: AtomicU32::new(0),
        cpu: AtomicU32::new(0),
        lent: Lent(AtomicU32::new(0)),
        counts: AtomicPtr::new(core::ptr::null_mut()),
        thread: Thread::new(),
        events: [const { AtomicU64::new(0) }; EVENTS],
    };
}

static TABLE: Table<Slot> = Table::new();

/// The highest name ever claimed.
static HIGH: AtomicU32 = AtomicU32::new(0);

/// The highest name that may be claimed. Less in tests of what happens then.
static LAST: AtomicU32 = AtomicU32::new(ThreadId::MAX_INDEX);

thread_local! {
    // Const-initialised and without a destructor: an access is one load, at any time of the
    // thread's life.
    static SELF: Cell<u32> = const { Cell::new(0) };
    static FORKING: Cell<bool> = const { Cell::new(false) };
}

/// A number that no other live thread has: the place of the caller's identity. Unlike a name, every
/// thread has one.
#[inline]
pub fn number() -> core::num::NonZeroUsize {
    SELF.with(|own| core::ptr::NonNull::from(own).addr())
}

/// The caller's identity, if registered.
#[inline(always)]
pub(super) fn id() -> Option<ThreadId> {
    ThreadId::from_raw(SELF.get())
}

/// The caller's record, registering it on first use; refreshes the running mirror.
#[inline]
pub(super) fn current() -> Option<&'static Thread<Linux>> {
    let id = match id() {
        Some(id) => id,
        None => register(),
    };
    if id.is_anonymous() {
        return None;
    }
    if slot(id).epoch.load(Relaxed) != epoch::known_epoch() {
        claim_again();
    }
    refresh(id);
    Some(record(id))
}

/// Whether `id` is the record of a thread of this process.
#[inline]
pub(super) fn is_here(id: ThreadId) -> bool {
    id.is_anonymous() || slot(id).epoch.load(Relaxed) == epoch::known_epoch() || self::id() == Some(id)
}

/// In a child process: claims the caller's record once more. Once: others of this process may look
/// at it.
#[cold]
pub(super) fn claim_again() {
    let Some(id) = id().filter(|id| !id.is_anonymous()) else { return };
    let (slot, epoch) = (slot(id), epoch::epoch());
    if slot.epoch.load(Relaxed) != epoch {
        FORKING.set(false);
        let claim = slot.claim.load(Relaxed);
        slot.claim.store((claim >> 32).wrapping_add(1) << 32 | u64::from(epoch::thread_id()), Relaxed);
        slot.window.store(0, Relaxed);
        // A signal handler may have forked while it slept.
        slot.cpu.store(0, Relaxed);
        slot.epoch.store(epoch, Release);
        strangers::keep();
    }
}

/// In a child process: `call` with every record that only the parent has, and the caller's.
pub(super) fn for_ghosts(call: fn(&Thread<Linux>, Option<&Thread<Linux>>)) {
    let me = id().filter(|id| !id.is_anonymous()).map(record);
    let ours = |slot: &Slot| me.is_some_and(|me| core::ptr::eq(me, &raw const slot.thread));
    slots().filter(|(_, slot)| !ours(slot)).for_each(|(_, slot)| call(&slot.thread, me));
}

/// Where `id` queues.
#[inline]
pub(super) fn rank(id: ThreadId) -> u32 {
    slot(id).rank.load(Relaxed)
}

/// Tells with which fixed priority `id` runs: 1 to 99 (`SCHED_FIFO`, `SCHED_RR`), or 0 for a
/// time-sharing class. Locks queue its thread accordingly from its next wait on: the kernel is not
/// asked, since a question for each wait would cost every thread. Forgotten when the thread ends.
pub fn set_rank(id: ThreadId, priority: u32) {
    if !id.is_anonymous() {
        slot(id).rank.store(priority.min(99), Relaxed);
    }
}

/// How many windows the calling thread is in (see `fork`). An anonymous thread has no such word.
#[inline]
pub(super) fn window() -> Option<&'static AtomicU32> {
    let id = id().unwrap_or_else(register);
    (!id.is_anonymous()).then(|| &slot(id).window)
}

/// The same, if the calling thread has been in one: it has a record then.
#[inline]
pub(super) fn known_window() -> Option<&'static AtomicU32> {
    id().filter(|id| !id.is_anonymous()).map(|id| &slot(id).window)
}

/// Whether the calling thread is in a window: stopped there, it keeps others out. For tests that
/// stop threads.
#[doc(hidden)]
pub fn is_in_window() -> bool {
    known_window().is_some_and(|window| window.load(Relaxed) != 0)
}

/// Whether a thread of this process other than the caller is in a window.
pub(super) fn any_window_elsewhere() -> bool {
    let (me, epoch) = (SELF.get(), epoch::known_epoch());
    let mut others = slots().filter(|&(index, _)| index != me);
    others.any(|(_, slot)| slot.window.load(Acquire) != 0 && slot.epoch.load(Relaxed) == epoch)
}

/// Notes whether the calling thread is about to fork.
pub(super) fn set_forking(forking: bool) {
    FORKING.set(forking);
}

/// Whether the calling thread is about to fork.
pub(super) fn is_forking() -> bool {
    FORKING.get()
}

/// The slot of `id`, or slot 0 where `id` is no name that was ever given: there is no panic on lock
/// paths.
#[inline(always)]
fn slot(id: ThreadId) -> &'static Slot {
    at(id.raw())
}

#[inline(always)]
fn at(index: u32) -> &'static Slot {
    TABLE.get(index).unwrap_or_else(|| TABLE.first())
}

/// The slots that were claimed so far, and those that are lent, with their names; and slot 0.
fn slots() -> impl Iterator<Item = (u32, &'static Slot)> {
    TABLE.mapped(HIGH.load(Acquire))
}

/// The record of `id`.
#[inline(always)]
pub(super) fn record(id: ThreadId) -> &'static Thread<Linux> {
    &slot(id).thread
}

/// What tells the calling thread from all others, dead ones too: its name, and above it (from bit
/// 32) which claim of that record is its own. `None`: it has no record.
///
/// The child of a fork claims its record once more: what it asked for before still tells it from
/// every thread of its own.
pub fn identity() -> Option<u64> {
    let id = current()?.id();
    Some(slot(id).claim.load(Relaxed) >> 32 << 32 | u64::from(id.raw()))
}

/// The calling thread's kernel id: as a rule without a system call.
pub fn kernel_id_of_caller() -> u32 {
    epoch::thread_id()
}

/// The kernel thread id under which `id` was claimed.
pub(super) fn kernel_id(id: ThreadId) -> u32 {
    slot(id).claim.load(Relaxed) as u32
}

/// The kernel's name of `id`, zero for the caller, and what was lent to it. None if it belongs to
/// another process (a parent before `fork`).
pub(super) fn kernel_thread(id: ThreadId) -> Option<(u32, &'static Lent)> {
    let slot = slot(id);
    if self::id() == Some(id) {
        return Some((0, &slot.lent));
    }
    let ours = !id.is_anonymous() && is_here(id);
    ours.then(|| (slot.claim.load(Relaxed) as u32, &slot.lent)).filter(|&(tid, _)| tid != 0)
}

/// How many records were ever claimed.
pub fn records_used() -> u32 {
    let high = last_name();
    if high > ThreadId::MAX_QUEUED { high - strangers::PLACES } else { high }
}

/// The highest name that a record was ever claimed under.
pub fn last_name() -> u32 {
    HIGH.load(Acquire)
}

/// New records have names from `first` to `last` from now on. For tests of what happens when there
/// are many threads.
#[doc(hidden)]
pub fn give_names(first: u32, last: u32) {
    HIGH.store(first - 1, Release);
    LAST.store(last, Release);
}

#[cold]
fn register() -> ThreadId {
    let owner = Owner { epoch: epoch::epoch(), tid: epoch::thread_id() };
    let ask = !exit::is_told();
    let found = search(&owner, TRIES, ask).or_else(|| fresh(&owner)).or_else(|| search(&owner, 256, true));
    let id = found.unwrap_or(ThreadId::ANONYMOUS);
    if !id.is_anonymous() {
        lend_to(id.raw(), slot(id));
    }
    SELF.set(id.raw());
    if !id.is_anonymous() {
        exit::expect();
    }
    id
}

/// The calling thread is about to end: its record is the next one's. If a lock still knows the
/// record it stays the dead thread's.
pub(super) fn leave() {
    let Some(id) = id().filter(|&id| !id.is_anonymous()) else { return };
    let slot = slot(id);
    if slot.thread.is_unused() && slot.epoch.load(Relaxed) == epoch::known_epoch() {
        // From here on it has none, should it lock once more.
        SELF.set(ThreadId::ANONYMOUS.raw());
        exit::tell();
        running::is_off_cpu(slot);
        // Release: the next owner finds the record as it is now.
        slot.claim.fetch_and(!u64::from(u32::MAX), Release);
    }
}

/// The record called `id`, of those that no thread gets, is a thread's of this process for a while.
/// `None`: the kernel has no memory for it.
pub(crate) fn borrow(id: ThreadId) -> Option<&'static Thread<Linux>> {
    let slot = TABLE.claim(id.raw())?;
    slot.thread.set_id(id);
    slot.rank.store(at(SELF.get()).rank.load(Relaxed), Relaxed);
    slot.epoch.store(epoch::epoch(), Release);
    Some(&slot.thread)
}

fn name(slot: &Slot, index: u32) -> ThreadId {
    let id = ThreadId::from_raw(index).unwrap_or(ThreadId::ANONYMOUS);
    slot.thread.set_id(id);
    slot.cpu.store(0, Relaxed);
    slot.rank.store(0, Relaxed);
    slot.window.store(0, Relaxed);
    slot.lent.0.store(0, Relaxed);
    id
}

#[cfg(test)]
mod tests;
