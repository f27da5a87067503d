//! Which thread runs where: a mirror of what threads were last seen doing.
//!
//! `slot.cpu` = CPU where the thread was last seen, `ASLEEP` while it sleeps for a lock;
//! `ON_CPU[cpu]` = thread last seen there. Both are refreshed at slow-path entry, after a sleep and
//! while spinning. A thread is taken to be off its CPU when it sleeps for a lock, when the CPU is
//! the asking thread's own, or when another thread was seen there later, and neither sleeps for a
//! lock, nor has ended, nor was seen on another CPU since. All relaxed: a hint.
//!
//! If the thread seen later always counted, a waiter that looks at a lock and sleeps on would pass
//! for the thread that runs there: the owner, whose fast paths refresh nothing.

use core::sync::atomic::{AtomicU32, Ordering::*};

use super::super::rseq;
use super::super::table::{CHUNK, Place, Table};
use super::{Slot, slot};
use crate::platform::thread::ThreadId;

#[repr(align(64))]
struct OnCpu(AtomicU32);

// SAFETY: a zero word.
unsafe impl Place for OnCpu {
    const NEW: Self = Self(AtomicU32::new(0));
}

/// In `slot.cpu`: no CPU.
const ASLEEP: u32 = u32::MAX;

static ON_CPU: Table<OnCpu> = Table::new();

/// Notes where the caller, `id`, runs.
#[inline]
pub(in super::super) fn refresh(id: ThreadId) {
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
pub(in super::super) fn mirror_cpus(last: u32) {
    (0..=last).step_by(CHUNK).for_each(|cpu| _ = ON_CPU.claim(cpu));
}

/// Runs `sleep`, in which the calling thread gives its CPU away.
#[inline(always)]
pub(in super::super) fn off_cpu<R>(sleep: impl FnOnce() -> R) -> R {
    if let Some(id) = super::id() {
        is_off_cpu(slot(id));
    }
    let result = sleep();
    // Asked for again: a signal handler may have got a record.
    if let Some(id) = super::id() {
        refresh(id);
    }
    result
}

/// The thread of `slot` is about to sleep, or to end.
#[inline]
pub(super) fn is_off_cpu(slot: &Slot) {
    slot.cpu.store(ASLEEP, Relaxed);
}

/// Whether `id` is thought to run: it does not sleep, and no other thread was seen later on its
/// CPU, which is not ours, and is still there.
#[inline]
pub(in super::super) fn is_running(id: ThreadId) -> bool {
    if id.is_anonymous() {
        return false;
    }
    match slot(id).cpu.load(Relaxed) {
        0 => true,
        ASLEEP => false,
        cpu if cpu - 1 == rseq::cpu() => false,
        cpu => {
            let later = ON_CPU.get(cpu - 1).map_or(id.raw(), |seen| seen.0.load(Relaxed));
            later == id.raw() || ThreadId::from_raw(later).is_none_or(|later| slot(later).cpu.load(Relaxed) != cpu)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that comes to a CPU with a high number maps nothing in the middle of a lock.
    #[test]
    #[cfg(not(miri))]
    fn the_mirror_is_there_for_all_cpus_that_the_program_may_use() {
        use crate::platform::linux::topology::last_usable_cpu;
        use rustix::thread::sched_getaffinity;

        let set = sched_getaffinity(None).unwrap();
        let last = last_usable_cpu();
        assert!(set.is_set(last as usize) && !set.is_set(last as usize + 1));
        assert!((0..=last).all(|cpu| ON_CPU.get(cpu).is_some()));
        // More than any machine that runs this.
        assert!(ON_CPU.get(4_150).is_none());
        mirror_cpus(4_160);
        assert!([64, 4_150, 4_223].iter().all(|&cpu| ON_CPU.get(cpu).is_some()) && ON_CPU.get(4_224).is_none());
    }

    /// A waiter looked at a lock on the owner's CPU, and slept on. From then on spinners took the
    /// owner to be off its CPU, and slept, too.
    #[test]
    #[cfg(not(miri))]
    fn a_waiter_that_sleeps_on_is_not_taken_for_the_one_that_runs() {
        use crate::platform::Platform;
        use crate::platform::linux::Linux;
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        use std::sync::mpsc::{Receiver, channel};
        use std::thread;

        let set = sched_getaffinity(None).unwrap();
        let mut usable = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
        let (Some(theirs), Some(own)) = (usable.next(), usable.next()) else { return };
        let moves_to = |cpu: usize| {
            let mut one = CpuSet::new();
            one.set(cpu);
            sched_setaffinity(None, &one).unwrap();
        };
        thread::scope(|scope| {
            let (names, [owner, waiter]) = (channel(), [channel::<()>(), channel()]);
            let name = |stays: Receiver<()>| {
                let told = names.0.clone();
                scope.spawn(move || {
                    told.send(Linux::current().unwrap().id()).unwrap();
                    let _ = stays.recv();
                });
                names.1.recv().unwrap()
            };
            let (owner, waiter, _stay) = (name(owner.1), name(waiter.1), (owner.0, waiter.0));
            let asks = scope.spawn(move || {
                let after = |does: fn(ThreadId), id| {
                    moves_to(theirs);
                    does(id);
                    moves_to(own);
                    is_running(owner)
                };
                let sleeps = |id| is_off_cpu(slot(id));
                let seen = || {
                    let waiters_come_and_go = [after(refresh, owner), after(refresh, waiter), after(sleeps, waiter)];
                    (waiters_come_and_go, after(sleeps, owner))
                };
                // Other threads of this program come to the CPU as well, but not always.
                assert!((0..1_000).any(|_| seen() == ([true, false, true], false)));
            });
            asks.join().unwrap();
        });
    }
}
