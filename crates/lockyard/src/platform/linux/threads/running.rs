//! Which thread runs where: a mirror of what threads were last seen doing.
//!
//! `slot.cpu` = CPU where the thread was last seen; `ON_CPU[cpu]` = thread last seen there. Both
//! are refreshed at slow-path entry and while spinning. A thread is taken to be off its CPU when
//! another thread was seen there later, or when its CPU is the asking thread's own. All relaxed: a
//! hint.

use core::sync::atomic::{AtomicU32, Ordering::*};

use super::super::rseq;
use super::super::table::{CHUNK, Place, Table};
use super::slot;
use crate::platform::thread::ThreadId;

#[repr(align(64))]
struct OnCpu(AtomicU32);

// SAFETY: a zero word.
unsafe impl Place for OnCpu {
    const NEW: Self = Self(AtomicU32::new(0));
}

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

/// Whether `id` is thought to run: nobody was seen later on its CPU, which is not ours.
#[inline]
pub(in super::super) fn is_running(id: ThreadId) -> bool {
    if id.is_anonymous() {
        return false;
    }
    match slot(id).cpu.load(Relaxed) {
        0 => true,
        cpu => cpu - 1 != rseq::cpu() && ON_CPU.get(cpu - 1).is_some_and(|seen| seen.0.load(Relaxed) == id.raw()),
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
}
