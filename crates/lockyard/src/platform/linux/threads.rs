//! The thread registry: type-stable records without allocation, reuse at thread exit without
//! destructors, a process that forks, and the mirror of who runs where.
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
//! next thread after it. A comparison of names therefore asks who *runs*, or *waits*, now; who must
//! know who *holds*, after the holder's death too, asks for more:
//!
//! | who compares | with what | after the owner's death |
//! |---|---|---|
//! | mutex, rwsem: owner bits of the word | the name | a hint: spin or not, and which release is quick |
//! | queues, spinlock nodes, sleeping heads | the name | a thread that waits does not die |
//! | rt-mutex: owner | the name | a record that holds one is not [unused](Thread::is_unused), so its name stays the dead one's |
//! | PI mutex: the kernel's word | the kernel's thread id | as the kernel says |
//! | pthread and C objects that refuse by owner | [`identity`] | never another's: name and claim |
//!
//! All threads without a record share one name, and none of the comparisons above tells them apart.
//!
//! # fork
//!
//! A slot notes the epoch (see `process`) in which it was claimed. The child's only thread keeps
//! its record (thread-locals are copied) and claims it again, in the child's epoch and under its
//! new kernel thread id. All other slots are of another epoch: copies of threads that the child
//! does not have. `is_here` says so; such a slot is never claimed again, since lock words may name
//! it. A child loses the slots of its ancestors' other threads, never its identity.
//!
//! # Exhaustion
//!
//! Beyond [`RECORDS`] live threads, or where the kernel has no memory for a chunk, a thread becomes
//! anonymous for its lifetime: at sleeping locks it polls instead of queueing. How often all of
//! those look is bounded, however many there are (`Linux::nap`). For a spinlock or a signal it
//! borrows a record (`strangers`). A thread that has given its record back (`leave`) waits like
//! that.
//!
//! # Event words
//!
//! A thread counts in words of its own slot, or in words that somebody has [lent](lend) for that
//! slot, where another process can read them. Each slot knows which: counting asks nobody else.
//! What was counted moves along when words are lent, so that sums go on.
//!
//! # The running mirror
//!
//! `slot.cpu` = CPU where the thread was last seen; `ON_CPU[cpu]` = thread last seen there. Both
//! are refreshed at slow-path entry and while spinning. A thread is taken to be off its CPU when
//! another thread was seen there later, or when its CPU is the asking thread's own. All relaxed: a
//! hint.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::thread_local;

use rustix::process::{Pid, getpgid};

use crate::event::{COUNT, Event, Snapshot};
use crate::platform::linux::scheduling::Lent;
use crate::platform::linux::table::{CHUNK, Place, Table};
use crate::platform::linux::{Linux, exit, futex, process, rseq, strangers};
use crate::spin::ticket::RawTicketLock;
use crate::wait::thread::{Thread, ThreadId};

/// How many threads can have a record: the last short names are lent (see `strangers`).
pub const RECORDS: u32 = ThreadId::MAX_INDEX - strangers::PLACES;
const EVENTS: usize = if cfg!(feature = "events") { COUNT } else { 0 };

#[repr(C, align(128))]
struct Slot {
    claim: AtomicU64,
    epoch: AtomicU32,
    /// Windows that the thread is in: see `process`.
    window: AtomicU32,
    /// The thread's fixed priority, as far as somebody has told.
    rank: AtomicU32,
    /// CPU + 1 where the thread was last seen; 0: never seen.
    cpu: AtomicU32,
    lent: Lent,
    /// Words elsewhere in which this thread counts; null: `events` are in use.
    counts: AtomicPtr<EventWords>,
    thread: Thread<Linux>,
    events: [AtomicU64; EVENTS],
}

/// A word per event, by event number: what one thread has counted.
pub type EventWords = [AtomicU64; COUNT];

/// Lends words for a slot (0 to [`ThreadId::MAX_INDEX`]), or has none to lend for it.
pub type Lender = fn(slot: u32) -> Option<&'static EventWords>;

// SAFETY: zero words, and a record, which is made to be looked at by all.
unsafe impl Place for Slot {
    const NEW: Self = Self {
        claim: AtomicU64::new(0),
        epoch: AtomicU32::new(0),
        window: AtomicU32::new(0),
        rank: AtomicU32::new(0),
        cpu: AtomicU32::new(0),
        lent: Lent::new(),
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

/// A [`Lender`], or null.
static LENDER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Where the next search for a dead owner's slot begins.
static CURSOR: AtomicU32 = AtomicU32::new(0);

#[repr(align(64))]
struct OnCpu(AtomicU32);

// SAFETY: a zero word.
unsafe impl Place for OnCpu {
    const NEW: Self = Self(AtomicU32::new(0));
}

static ON_CPU: Table<OnCpu> = Table::new();

thread_local! {
    // Const-initialised and without a destructor: an access is one load, at any time of the
    // thread's life.
    static SELF: Cell<u32> = const { Cell::new(0) };
    static FORKING: Cell<bool> = const { Cell::new(false) };
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
    if slot(id).epoch.load(Relaxed) != process::known_epoch() {
        claim_again();
    }
    refresh(id);
    Some(record(id))
}

/// Whether `id` is the record of a thread of this process.
#[inline]
pub(super) fn is_here(id: ThreadId) -> bool {
    id.is_anonymous() || slot(id).epoch.load(Relaxed) == process::known_epoch() || self::id() == Some(id)
}

/// In a child process: claims the caller's record once more. Once: others of this process may look
/// at it.
#[cold]
pub(super) fn claim_again() {
    let Some(id) = id().filter(|id| !id.is_anonymous()) else { return };
    let (slot, epoch) = (slot(id), process::epoch());
    if slot.epoch.load(Relaxed) != epoch {
        FORKING.set(false);
        let claim = slot.claim.load(Relaxed);
        slot.claim.store((claim >> 32).wrapping_add(1) << 32 | u64::from(process::thread_id()), Relaxed);
        slot.window.store(0, Relaxed);
        slot.epoch.store(epoch, Release);
        strangers::keep();
    }
}

/// In a child process, before anything else happens there: what copies of threads of the parent
/// waited for is told that nobody comes.
pub(super) fn forget_ghosts() {
    let me = id().filter(|id| !id.is_anonymous()).map(record);
    let ours = |slot: &Slot| me.is_some_and(|me| core::ptr::eq(me, &raw const slot.thread));
    slots().filter(|(_, slot)| !ours(slot)).for_each(|(_, slot)| RawTicketLock::call_back(&slot.thread, me));
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

/// The calling thread begins a window: see `process`. An anonymous thread has none.
#[inline]
pub(super) fn begin_window() {
    let id = id().unwrap_or_else(register);
    if !id.is_anonymous() {
        process::begin_window(&slot(id).window);
    }
}

/// The calling thread ends the window that it began last.
#[inline]
pub(super) fn end_window() {
    if let Some(id) = id().filter(|id| !id.is_anonymous()) {
        process::end_window(&slot(id).window);
    }
}

/// Whether a thread of this process other than the caller is in a window.
pub(super) fn any_window_elsewhere() -> bool {
    let (me, epoch) = (SELF.get(), process::known_epoch());
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
    process::thread_id()
}

/// The kernel thread id under which `id` was claimed.
pub(super) fn kernel_id(id: ThreadId) -> u32 {
    slot(id).claim.load(Relaxed) as u32
}

/// Notes where the caller, `id`, runs.
#[inline]
pub(super) fn refresh(id: ThreadId) {
    let cpu = rseq::cpu();
    let slot = slot(id);
    if slot.cpu.load(Relaxed) != cpu + 1 {
        slot.cpu.store(cpu + 1, Relaxed);
    }
    if let Some(OnCpu(seen)) = ON_CPU.claim(cpu)
        && seen.load(Relaxed) != id.raw()
    {
        seen.store(id.raw(), Relaxed);
    }
}

/// Maps what the mirror needs for the CPUs up to `last`: a thread that comes to one of them later
/// asks for no memory.
#[cfg(not(miri))]
pub(super) fn mirror_cpus(last: u32) {
    (0..=last).step_by(CHUNK).for_each(|cpu| _ = ON_CPU.claim(cpu));
}

/// Whether `id` is thought to run: nobody was seen later on its CPU, which is not ours.
#[inline]
pub(super) fn is_running(id: ThreadId) -> bool {
    if id.is_anonymous() {
        return false;
    }
    match slot(id).cpu.load(Relaxed) {
        0 => true,
        cpu => cpu - 1 != rseq::cpu() && ON_CPU.get(cpu - 1).is_some_and(|seen| seen.0.load(Relaxed) == id.raw()),
    }
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

impl Slot {
    /// Where the slot's thread counts.
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: null, or from a reference that a lender gave for as long as the slot names it.
        match unsafe { self.counts.load(Acquire).as_ref() } {
            Some(lent) => lent,
            None => &self.events,
        }
    }

    /// Makes the thread count in `to` from now on, what it has counted included. Sums never dip:
    /// whoever adds up sees the one or the other.
    fn lend(&self, to: &'static EventWords) {
        for (own, lent) in self.events.iter().zip(to) {
            lent.store(own.load(Relaxed), Relaxed);
        }
        self.counts.store(core::ptr::from_ref(to).cast_mut(), Release);
        self.events.iter().for_each(|own| own.store(0, Relaxed));
    }

    /// Makes the thread count in its own words again, from zero. The lender's keep what they have.
    fn begin_anew(&self) {
        self.counts.store(core::ptr::null_mut(), Release);
        self.events.iter().for_each(|own| own.store(0, Relaxed));
    }
}

/// The slot in which the calling thread counts.
#[inline]
fn own() -> &'static Slot {
    at(SELF.get())
}

/// Counts an event for the calling thread.
#[inline]
pub(super) fn count(event: Event, amount: i64) {
    let slot = own();
    if let Some(word) = slot.words().get(event as usize) {
        if core::ptr::eq(slot, TABLE.first()) {
            word.fetch_add(amount as u64, Relaxed);
        } else {
            word.store(word.load(Relaxed).wrapping_add(amount as u64), Relaxed);
        }
    }
}

/// What the calling thread has counted of `event` so far; for a thread without a record, what all
/// such have.
#[inline]
pub fn counted(event: Event) -> u64 {
    own().words().get(event as usize).map_or(0, |word| word.load(Relaxed))
}

/// From now on threads count in words of `lender`: those that have a record at once, others when
/// they get one. Meant for the start of a program: what a running thread counts in the moment of
/// its move may be lost.
///
/// # Safety
/// The words stay until [`take_back`] has returned, and belong to their slot alone.
pub unsafe fn lend(lender: Lender) {
    if EVENTS == 0 {
        return;
    }
    LENDER.store(lender as *mut (), Release);
    slots().for_each(|(index, slot)| lend_to(index, slot));
}

/// Threads count in words of their own again, from zero, and no reference to the lender's is left:
/// they may be another process's, and are not written. For a process with one thread: a child after
/// `fork`. (What its parent had counted is the parent's: a snapshot from before is nothing to
/// subtract.)
pub fn take_back() {
    LENDER.store(core::ptr::null_mut(), Release);
    slots().for_each(|(_, slot)| slot.begin_anew());
}

fn lend_to(index: u32, slot: &Slot) {
    let lender = LENDER.load(Acquire);
    if lender.is_null() || !slot.counts.load(Relaxed).is_null() {
        return;
    }
    // SAFETY: not null: `lend` stored a `Lender`.
    let lender = unsafe { core::mem::transmute::<*mut (), Lender>(lender) };
    if let Some(words) = lender(index) {
        slot.lend(words);
    }
}

/// The sums over all slots ever claimed.
pub(crate) fn event_sums() -> Snapshot {
    let mut counts = [0u64; COUNT];
    for (_, slot) in slots() {
        for (sum, word) in counts.iter_mut().zip(slot.words()) {
            *sum = sum.wrapping_add(word.load(Relaxed));
        }
    }
    Snapshot::from_counts(counts)
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

/// Maps what the next threads need when they register. For programs that are about to shut
/// themselves in a sandbox, and for those that hook the start of threads. It may be called as often
/// as one likes.
pub fn make_room() {
    grow(after(last_name() + CHUNK as u32 - 1).min(ThreadId::MAX_INDEX));
}

/// Maps the place of `name`, and tells the kernel that there will be so many sleepers.
fn grow(name: u32) -> Option<&'static Slot> {
    TABLE.get(name).or_else(|| {
        futex::make_room(name);
        TABLE.claim(name)
    })
}

/// The name after `name`, of those that threads get.
fn after(name: u32) -> u32 {
    let next = name + 1;
    if next > ThreadId::MAX_QUEUED - strangers::PLACES && next <= ThreadId::MAX_QUEUED {
        next + strangers::PLACES
    } else {
        next
    }
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
    let owner = Owner { epoch: process::epoch(), tid: process::thread_id() };
    let ask = !exit::is_told();
    let found = search(&owner, 8, ask).or_else(|| fresh(&owner)).or_else(|| search(&owner, 256, true));
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
    if slot.thread.is_unused() && slot.epoch.load(Relaxed) == process::known_epoch() {
        // From here on it has none, should it lock once more.
        SELF.set(ThreadId::ANONYMOUS.raw());
        // Release: the next owner finds the record as it is now.
        slot.claim.fetch_and(!u64::from(u32::MAX), Release);
    }
}

struct Owner {
    epoch: u32,
    tid: u32,
}

/// Looks at up to `tries` claimed slots for one whose owner is gone. `ask`: the kernel, if the
/// owner has not told.
fn search(owner: &Owner, tries: u32, ask: bool) -> Option<ThreadId> {
    let high = HIGH.load(Acquire);
    (0..tries.min(high)).find_map(|_| {
        let index = CURSOR.fetch_add(1, Relaxed) % high + 1;
        let slot = TABLE.get(index)?;
        let claim = slot.claim.load(Acquire);
        // A lent one has no claim. A slot between `fresh` and its first claim has no owner yet, and
        // is its finder's.
        let gone = || claim as u32 == 0 || ask && !alive(claim as u32);
        let reusable = claim != 0 && slot.epoch.load(Relaxed) == owner.epoch && slot.thread.is_unused() && gone();
        (reusable && take(slot, claim, owner)).then(|| name(slot, index))
    })
}

/// Takes the next slot that nobody has ever claimed.
fn fresh(owner: &Owner) -> Option<ThreadId> {
    let mut high = HIGH.load(Acquire);
    let index = loop {
        let next = after(high);
        if next > LAST.load(Relaxed) {
            return None;
        }
        // Before others can come by its name.
        grow(next)?;
        match HIGH.compare_exchange(high, next, AcqRel, Acquire) {
            Ok(_) => break next,
            Err(found) => high = found,
        }
    };
    let slot = at(index);
    take(slot, 0, owner).then(|| name(slot, index))
}

fn take(slot: &Slot, claim: u64, owner: &Owner) -> bool {
    let next = (claim >> 32).wrapping_add(1) << 32 | u64::from(owner.tid);
    let won = slot.claim.compare_exchange(claim, next, AcqRel, Relaxed).is_ok();
    if won {
        slot.epoch.store(owner.epoch, Release);
    }
    won
}

/// The record called `id`, of those that no thread gets, is a thread's of this process for a while.
/// `None`: the kernel has no memory for it.
pub(crate) fn borrow(id: ThreadId) -> Option<&'static Thread<Linux>> {
    let slot = TABLE.claim(id.raw())?;
    slot.thread.set_id(id);
    slot.rank.store(own().rank.load(Relaxed), Relaxed);
    slot.epoch.store(process::epoch(), Release);
    Some(&slot.thread)
}

fn name(slot: &Slot, index: u32) -> ThreadId {
    let id = ThreadId::from_raw(index).unwrap_or(ThreadId::ANONYMOUS);
    slot.thread.set_id(id);
    slot.cpu.store(0, Relaxed);
    slot.rank.store(0, Relaxed);
    slot.window.store(0, Relaxed);
    slot.lent.clear();
    id
}

/// Whether the kernel knows a thread `tid`. (`getpgid` answers for any thread and has no effect.)
fn alive(tid: u32) -> bool {
    match Pid::from_raw(tid as i32) {
        Some(pid) => getpgid(Some(pid)) != Err(rustix::io::Errno::SRCH),
        None => false,
    }
}

#[cfg(test)]
mod tests;
