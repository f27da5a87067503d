//! The system calls that rustix does not have in the form needed here: the instruction itself, so
//! that errno stays as it is and an address need not be a reference.

use core::ffi::c_int;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod machine {
    pub(in super::super) const KNOWN: bool = true;
    pub(super) const FUTEX: usize = 202;
    pub(super) const PRCTL: usize = 157;
    pub(super) const SCHED_SETSCHEDULER: usize = 144;
    pub(super) const SCHED_GETSCHEDULER: usize = 145;
    pub(super) const SCHED_GETATTR: usize = 315;

    /// # Safety
    /// As the call itself asks.
    pub(super) unsafe fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
        let result: isize;
        // SAFETY: the kernel's calling convention: it keeps all registers but rax, rcx and r11.
        // Memory is the caller's promise.
        unsafe {
            core::arch::asm!("syscall", inlateout("rax") number as isize => result,
                in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
                lateout("rcx") _, lateout("r11") _, options(nostack));
        }
        result
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod machine {
    pub(in super::super) const KNOWN: bool = true;
    pub(super) const FUTEX: usize = 98;
    pub(super) const PRCTL: usize = 167;
    pub(super) const SCHED_SETSCHEDULER: usize = 119;
    pub(super) const SCHED_GETSCHEDULER: usize = 120;
    pub(super) const SCHED_GETATTR: usize = 275;

    /// # Safety
    /// As the call itself asks.
    pub(super) unsafe fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
        let result: isize;
        // SAFETY: the kernel's calling convention: it keeps all registers but x0. Memory is the
        // caller's promise.
        unsafe {
            core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result,
                in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f, options(nostack));
        }
        result
    }
}

/// Elsewhere each is refused.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod machine {
    pub(in super::super) const KNOWN: bool = false;
    pub(super) const FUTEX: usize = 0;
    pub(super) const PRCTL: usize = 0;
    pub(super) const SCHED_SETSCHEDULER: usize = 0;
    pub(super) const SCHED_GETSCHEDULER: usize = 0;
    pub(super) const SCHED_GETATTR: usize = 0;

    /// # Safety
    /// None is needed.
    pub(super) unsafe fn call(_number: usize, _arguments: [usize; 6]) -> isize {
        -38 // ENOSYS
    }
}

/// Whether this architecture's calls are known here.
pub(super) use machine::KNOWN;
use machine::call;

/// The calling thread's scheduling policy, by number; negative if it cannot be had.
pub(super) fn scheduler() -> isize {
    // SAFETY: reads the calling thread's policy and touches no memory.
    unsafe { call(machine::SCHED_GETSCHEDULER, [0; 6]) }
}

/// `sched_setscheduler`: whether the thread runs with `class` and `priority` now.
pub(super) fn set_scheduler(tid: u32, class: u32, priority: u32) -> bool {
    let priority = priority as c_int;
    // SAFETY: the kernel reads one int.
    unsafe {
        call(machine::SCHED_SETSCHEDULER, [tid as usize, class as usize, (&raw const priority).addr(), 0, 0, 0]) == 0
    }
}

/// `sched_getattr`, first version, as 32-bit words: size, class; flags (two); nice, priority;
/// runtime, deadline, period (two each). `None`: refused.
pub(super) fn scheduling(tid: u32) -> Option<[u32; 12]> {
    let mut words = [0u32; 12];
    // SAFETY: the kernel writes at most as many bytes as it is told that there are.
    let result = unsafe {
        call(machine::SCHED_GETATTR, [tid as usize, words.as_mut_ptr().addr(), size_of_val(&words), 0, 0, 0])
    };
    (result == 0).then_some(words)
}

/// `prctl(PR_FUTEX_HASH, operation, slots)`: what the kernel answers, negative if it does not know
/// it.
pub(super) fn futex_hash(operation: usize, slots: u32) -> isize {
    const FUTEX_HASH: usize = 78;
    // SAFETY: the call touches no memory of the program.
    unsafe { call(machine::PRCTL, [FUTEX_HASH, operation, slots as usize, 0, 0, 0]) }
}

/// `futex(word, CMP_REQUEUE_PI | PRIVATE, 1, more, pi, expected)`: how many were woken or moved, or
/// the negative error number.
///
/// # Safety
/// `word` is a live word of four bytes. `pi` may be any address: the kernel reads there if it can,
/// and writes only if somebody sleeps on `word` to go on to `pi`.
pub(super) unsafe fn cmp_requeue_pi(word: usize, expected: u32, more: u32, pi: usize) -> isize {
    const CMP_REQUEUE_PI_PRIVATE: usize = 12 | 128;
    // SAFETY: the caller's promise.
    unsafe { call(machine::FUTEX, [word, CMP_REQUEUE_PI_PRIVATE, 1, more as usize, pi, expected as usize]) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn policy_of_an_ordinary_thread_is_number_0() {
        assert!(if super::KNOWN { super::scheduler() == 0 } else { super::scheduler() < 0 });
    }
}
