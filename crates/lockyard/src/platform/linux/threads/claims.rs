//! Which record a new thread gets: that of one that has ended, or one that nobody has had.

use core::sync::atomic::{AtomicU32, Ordering::*};

use rustix::process::{Pid, getpgid};

use super::super::{epoch, futex};
use super::strangers;
use super::{HIGH, LAST, Slot, TABLE, at, last_name, name};
use crate::platform::linux::table::CHUNK;
use crate::platform::thread::ThreadId;

/// With fewer names given nobody asks the kernel whether owners live: a sandbox may forbid it.
const MANY: u32 = 1_024;

/// How many slots a new thread looks at for one of a dead owner, and a [`reap`].
pub(super) const TRIES: u32 = 8;

/// Where the next search for a dead owner's slot begins.
static CURSOR: AtomicU32 = AtomicU32::new(0);

/// Maps what the next threads need when they register. For programs that are about to shut
/// themselves in a sandbox, and for those that hook the start of threads. It may be called as often
/// as one likes.
pub fn make_room() {
    if last_name() >= MANY {
        reap();
    }
    grow(after(last_name() + CHUNK as u32 - 1).min(ThreadId::MAX_INDEX));
}

/// Maps the place of `name`. The first thread that needs its chunk tells the kernel that there will
/// be so many sleepers: all that come at once would wait for each other there.
fn grow(name: u32) -> Option<&'static Slot> {
    static GROWN: AtomicU32 = AtomicU32::new(0);
    TABLE.get(name).or_else(|| {
        let chunk = name / CHUNK as u32;
        if GROWN.fetch_max(chunk, Relaxed) < chunk {
            futex::make_room(name);
        }
        TABLE.claim(name)
    })
}

/// Frees the slots of owners that have ended and have not told: that have got them in a destructor
/// (see `exit`), or have ended by a bare system call. Each call looks at the next few slots of all,
/// so that calls made before the first of the new threads registers free some for each of them.
fn reap() {
    static CURSOR: AtomicU32 = AtomicU32::new(0);
    let (epoch, high) = (epoch::epoch(), HIGH.load(Acquire));
    let begin = CURSOR.fetch_add(TRIES, Relaxed);
    for ahead in 0..TRIES.min(high) {
        let slot = at(begin.wrapping_add(ahead) % high + 1);
        let claim = slot.claim.load(Acquire);
        let told = claim as u32 == 0;
        // Last whether a lock knows it: a dead one's record does not change.
        if !told && slot.epoch.load(Relaxed) == epoch && !alive(claim as u32) && slot.thread.is_unused() {
            // The claim of the next owner is another one.
            let free = claim & !u64::from(u32::MAX);
            let _ = slot.claim.compare_exchange(claim, free, AcqRel, Relaxed);
        }
    }
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

/// A thread that is about to get a record.
pub(super) struct Owner {
    pub(super) epoch: u32,
    pub(super) tid: u32,
}

/// Looks at up to `tries` claimed slots for one whose owner is gone. `ask`: the kernel, if the
/// owner has not told.
pub(super) fn search(owner: &Owner, tries: u32, ask: bool) -> Option<ThreadId> {
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
pub(super) fn fresh(owner: &Owner) -> Option<ThreadId> {
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

/// Whether the kernel knows a thread `tid`. (`getpgid` answers for any thread and has no effect.)
fn alive(tid: u32) -> bool {
    match Pid::from_raw(tid as i32) {
        Some(pid) => getpgid(Some(pid)) != Err(rustix::io::Errno::SRCH),
        None => false,
    }
}
