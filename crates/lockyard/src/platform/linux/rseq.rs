//! Which CPU runs this thread: one load from the restartable-sequences area that glibc (2.35 and
//! later) registers for every thread, and `getcpu` where there is none.
//!
//! The area's place is told by two symbols of the C library, `__rseq_offset` and `__rseq_size`.
//! They are referenced weakly, through the global offset table, so that a program linked against an
//! older or another C library still starts.

/// The current CPU's number. Stale as soon as it is returned.
#[inline]
pub(super) fn cpu() -> u32 {
    match registered() {
        Some(cpu) => cpu,
        None => rustix::thread::sched_getcpu() as u32,
    }
}

/// The CPU number out of the rseq area, if the C library registered one.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    target_env = "gnu",
    not(miri)
))]
#[inline(always)]
fn registered() -> Option<u32> {
    let offset: *const isize;
    let size: *const u32;
    // The symbols are weak in each object that has this code: one strong reference would make them
    // needed.
    // SAFETY: loads two entries of the global offset table: the addresses of the symbols, or null.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {}, qword ptr [rip + __rseq_size@GOTPCREL]",
            out(reg) offset, out(reg) size,
            options(nostack, preserves_flags, pure, readonly)
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "adrp {0}, :got:__rseq_offset",
            "ldr {0}, [{0}, :got_lo12:__rseq_offset]",
            "adrp {1}, :got:__rseq_size",
            "ldr {1}, [{1}, :got_lo12:__rseq_size]",
            out(reg) offset, out(reg) size,
            options(nostack, preserves_flags, pure, readonly)
        );
    }
    // SAFETY: if not null they are the C library's own constants, written before any code of ours
    // runs.
    if offset.is_null() || size.is_null() || unsafe { *size } < 8 {
        return None;
    }
    let cpu: u32;
    // SAFETY: the C library says that the calling thread's area lies at this offset from its thread
    // pointer; `cpu_id` is its second 32-bit word. The kernel writes it, hence a fresh load each
    // time (not `pure`).
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("mov {0:e}, dword ptr fs:[{1} + 4]", out(reg) cpu, in(reg) *offset, options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "mrs {1}, tpidr_el0",
            "add {1}, {1}, {2}",
            "ldr {0:w}, [{1}, #4]",
            out(reg) cpu, out(reg) _, in(reg) *offset,
            options(nostack, preserves_flags, readonly)
        );
    }
    // Not (yet) registered for this thread: the kernel's two negative codes.
    (cpu < 1 << 31).then_some(cpu)
}

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    target_env = "gnu",
    not(miri)
)))]
#[inline(always)]
fn registered() -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_getcpu() {
        // The thread may migrate between the two readings, so look for agreement, not for every
        // reading to agree.
        assert!((0..1000).any(|_| super::cpu() as usize == rustix::thread::sched_getcpu()));
    }
}
