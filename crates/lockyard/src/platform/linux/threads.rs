//! The thread registry: type-stable records without allocation, reuse at thread exit without destructors, a process
//! that forks, and the mirror of who runs where.
//!
//! # Records
//!
//! A static array, one slot per name. Untouched slots are untouched zero pages: a program pays for the threads it has.
//! Slot 0 belongs to no thread; unregistered and anonymous threads count their events there.
//!
//! # Claiming and reuse
//!
//! `claim` = sequence number (32 bits) and kernel thread id of the owner. A new thread first looks at a few slots for one
//! whose owner is gone (the kernel no longer knows the thread id), else takes the next fresh one. There is no exit hook:
//! thread-local destructors allocate and run in an order that breaks locks used by other destructors. The sequence number makes two claimers that see the same dead
//! owner exclude each other even if thread ids are recycled. A recycled id (the kernel knows it again, as another thread) only delays reuse.
//!
//! # fork
//!
//! The child keeps the forking thread's record: thread-locals are copied. Its `claim` still names the parent's thread id, which the
//! child's kernel would call dead; so a slot also remembers the process that claimed it, and a process only reuses its own. A
//! child therefore loses the slots its ancestors used (at most [`ThreadId::MAX_INDEX`] over a chain of forks), never its identity.
//!
//! # Exhaustion
//!
//! Beyond 16,383 live threads a thread becomes anonymous for its lifetime: its locks poll instead of queueing.
//!
//! # The running mirror
//!
//! `slot.cpu` = CPU where the thread was last seen; `ON_CPU[cpu]` = thread last seen there. Both are refreshed at slow-path entry and
//! while spinning. A thread is taken to be off its CPU when another thread was seen there later, or when its CPU is the
//! asking thread's own. All relaxed: a hint.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::thread_local;

use rustix::process::{Pid, getpgid, getpid};
use rustix::thread::gettid;

use crate::event::{COUNT, Event, Snapshot};
use crate::platform::linux::scheduling::Lent;
use crate::platform::linux::{Linux, rseq};
use crate::wait::thread::{Thread, ThreadId};

const SLOTS: usize = ThreadId::MAX_INDEX as usize + 1;
const CPUS: usize = 4096;
const EVENTS: usize = if cfg!(feature = "events") { COUNT } else { 0 };

#[repr(C, align(128))]
struct Slot {
    claim: AtomicU64,
    process: AtomicU32,
    /// CPU + 1 where the thread was last seen; 0: never seen.
    cpu: AtomicU32,
    lent: Lent,
    thread: Thread<Linux>,
    events: [AtomicU64; EVENTS],
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        claim: AtomicU64::new(0),
        process: AtomicU32::new(0),
        cpu: AtomicU32::new(0),
        lent: Lent::new(),
        thread: Thread::new(),
        events: [const { AtomicU64::new(0) }; EVENTS],
    }
}; SLOTS];

/// The highest slot ever claimed.
static HIGH: AtomicU32 = AtomicU32::new(0);

/// Where the next search for a dead owner's slot begins.
static CURSOR: AtomicU32 = AtomicU32::new(0);

#[repr(align(64))]
struct OnCpu(AtomicU32);

static ON_CPU: [OnCpu; CPUS] = [const { OnCpu(AtomicU32::new(0)) }; CPUS];

thread_local! {
    // Const-initialised and without a destructor: an access is one load, at any time of the thread's life.
    static SELF: Cell<u32> = const { Cell::new(0) };
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
    refresh(id);
    Some(record(id))
}

/// The record of `id`.
#[inline(always)]
pub(super) fn record(id: ThreadId) -> &'static Thread<Linux> {
    // The mask keeps the index in bounds for every id, so there is no check and no panic on lock paths.
    &TABLE[id.raw() as usize & (SLOTS - 1)].thread
}

/// Notes where the caller, `id`, runs.
#[inline]
pub(super) fn refresh(id: ThreadId) {
    let cpu = rseq::cpu();
    let slot = &TABLE[id.raw() as usize & (SLOTS - 1)];
    if slot.cpu.load(Relaxed) != cpu + 1 {
        slot.cpu.store(cpu + 1, Relaxed);
    }
    let on_cpu = &ON_CPU[cpu as usize % CPUS].0;
    if on_cpu.load(Relaxed) != id.raw() {
        on_cpu.store(id.raw(), Relaxed);
    }
}

/// Whether `id` is thought to run: nobody was seen later on its CPU, which is not ours.
#[inline]
pub(super) fn is_running(id: ThreadId) -> bool {
    if id.is_anonymous() {
        return false;
    }
    match TABLE[id.raw() as usize & (SLOTS - 1)].cpu.load(Relaxed) {
        0 => true,
        seen => seen - 1 != rseq::cpu() && ON_CPU[(seen - 1) as usize % CPUS].0.load(Relaxed) == id.raw(),
    }
}

/// The kernel's name of `id`, zero for the caller, and what was lent to it. None if it belongs to another process (a parent before `fork`).
pub(super) fn kernel_thread(id: ThreadId) -> Option<(u32, &'static Lent)> {
    let slot = &TABLE[id.raw() as usize & (SLOTS - 1)];
    if self::id() == Some(id) {
        return Some((0, &slot.lent));
    }
    let ours = !id.is_anonymous() && slot.process.load(Relaxed) == getpid().as_raw_pid() as u32;
    ours.then(|| (slot.claim.load(Relaxed) as u32, &slot.lent)).filter(|&(tid, _)| tid != 0)
}

/// Counts an event for the calling thread.
#[inline]
pub(super) fn count(event: Event, amount: i64) {
    let slot = SELF.get() as usize & (SLOTS - 1);
    if let Some(word) = TABLE[slot].events.get(event as usize) {
        if slot == 0 {
            word.fetch_add(amount as u64, Relaxed);
        } else {
            word.store(word.load(Relaxed).wrapping_add(amount as u64), Relaxed);
        }
    }
}

/// The sums over all slots ever claimed.
pub(crate) fn event_sums() -> Snapshot {
    let mut counts = [0u64; COUNT];
    for slot in &TABLE[..=HIGH.load(Acquire) as usize] {
        for (sum, word) in counts.iter_mut().zip(&slot.events) {
            *sum = sum.wrapping_add(word.load(Relaxed));
        }
    }
    Snapshot::from_counts(counts)
}

/// How many slots were ever claimed: the registry's memory is this many records.
pub fn records_used() -> u32 {
    HIGH.load(Relaxed)
}

#[cold]
fn register() -> ThreadId {
    let owner = Owner { process: getpid().as_raw_pid() as u32, tid: gettid().as_raw_pid() as u32 };
    let id = search(&owner, 8).or_else(|| fresh(&owner)).or_else(|| search(&owner, 256)).unwrap_or(ThreadId::ANONYMOUS);
    SELF.set(id.raw());
    id
}

struct Owner {
    process: u32,
    tid: u32,
}

/// Looks at up to `tries` claimed slots for one whose owner is gone.
fn search(owner: &Owner, tries: u32) -> Option<ThreadId> {
    let high = HIGH.load(Acquire);
    (0..tries.min(high)).find_map(|_| {
        let index = CURSOR.fetch_add(1, Relaxed) % high + 1;
        let slot = &TABLE[index as usize];
        let claim = slot.claim.load(Acquire);
        // A slot between `fresh` and its first claim has no owner yet, and is its finder's.
        let reusable = claim != 0
            && slot.process.load(Relaxed) == owner.process
            && slot.thread.is_unused()
            && !alive(claim as u32);
        (reusable && take(slot, claim, owner)).then(|| name(slot, index))
    })
}

/// Takes the next slot that nobody has ever claimed.
fn fresh(owner: &Owner) -> Option<ThreadId> {
    let index = HIGH.fetch_update(AcqRel, Relaxed, |high| (high < ThreadId::MAX_INDEX).then_some(high + 1)).ok()? + 1;
    let slot = &TABLE[index as usize];
    take(slot, 0, owner).then(|| name(slot, index))
}

fn take(slot: &Slot, claim: u64, owner: &Owner) -> bool {
    let next = (claim >> 32).wrapping_add(1) << 32 | u64::from(owner.tid);
    let won = slot.claim.compare_exchange(claim, next, AcqRel, Relaxed).is_ok();
    if won {
        slot.process.store(owner.process, Relaxed);
    }
    won
}

fn name(slot: &Slot, index: u32) -> ThreadId {
    let id = ThreadId::from_raw(index).unwrap_or(ThreadId::ANONYMOUS);
    slot.thread.set_id(id);
    slot.cpu.store(0, Relaxed);
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
mod tests {
    use super::*;

    #[test]
    fn two_threads_have_two_names_and_one_thread_keeps_its_own() {
        let mine = current().unwrap().id();
        let other = std::thread::spawn(|| current().unwrap().id()).join().unwrap();
        assert_ne!(mine, other);
        assert_eq!(mine, current().unwrap().id());
        assert_eq!(Some(mine), id());
    }

    #[test]
    fn names_of_exited_threads_are_used_again() {
        for _ in 0..2_000 {
            std::thread::spawn(|| assert!(current().is_some())).join().unwrap();
        }
        assert!(records_used() < 1_000, "{} records for 2,000 threads that never met", records_used());
    }

    #[test]
    fn events_of_exited_threads_are_kept() {
        if !cfg!(feature = "events") {
            return;
        }
        let before = event_sums();
        std::thread::spawn(|| {
            current();
            count(Event::PvWaitAgain, 7);
        })
        .join()
        .unwrap();
        assert!(event_sums().since(&before).get(Event::PvWaitAgain) >= 7);
    }
}
