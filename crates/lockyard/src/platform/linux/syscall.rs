//! Three system calls that rustix does not have in the form needed here: the instruction itself, so
//! that errno stays as it is and an address need not be a reference.

/// Which system calls there are, by their numbers.
#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const FUTEX: usize = 202;
    pub(super) const PRCTL: usize = 157;
    pub(super) const SCHED_GETSCHEDULER: usize = 145;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const FUTEX: usize = 98;
    pub(super) const PRCTL: usize = 167;
    pub(super) const SCHED_GETSCHEDULER: usize = 120;
}

/// Whether this architecture's calls are known here.
pub(super) const KNOWN: bool = cfg!(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)));

/// The calling thread's scheduling policy, by number; negative if it cannot be had.
pub(super) fn scheduler() -> isize {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        // SAFETY: `sched_getscheduler(0)` reads the calling thread's policy and touches no memory.
        unsafe { call(number::SCHED_GETSCHEDULER, [0; 6]) }
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    {
        -1
    }
}

/// `prctl(PR_FUTEX_HASH, operation, slots)`: what the kernel answers, negative if it does not know
/// it.
pub(super) fn futex_hash(operation: usize, slots: u32) -> isize {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        const FUTEX_HASH: usize = 78;
        // SAFETY: the call touches no memory of the program.
        unsafe { call(number::PRCTL, [FUTEX_HASH, operation, slots as usize, 0, 0, 0]) }
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    {
        let _ = (operation, slots);
        -1
    }
}

/// `futex(word, CMP_REQUEUE_PI | PRIVATE, 1, more, pi, expected)`: how many were woken or moved, or
/// the negative error number.
///
/// # Safety
/// `word` is a live word of four bytes. `pi` may be any address: the kernel reads there if it can,
/// and writes only if somebody sleeps on `word` to go on to `pi`.
pub(super) unsafe fn cmp_requeue_pi(word: usize, expected: u32, more: u32, pi: usize) -> isize {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        const CMP_REQUEUE_PI_PRIVATE: usize = 12 | 128;
        // SAFETY: the caller's promise.
        unsafe { call(number::FUTEX, [word, CMP_REQUEUE_PI_PRIVATE, 1, more as usize, pi, expected as usize]) }
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    {
        const NOT_KNOWN: isize = -38; // ENOSYS
        let _ = (word, expected, more, pi);
        NOT_KNOWN
    }
}

/// # Safety
/// As the call itself asks.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention: it keeps all registers but rax, rcx and r11. Memory
    // is the caller's promise.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// # Safety
/// As the call itself asks.
#[cfg(all(target_arch = "aarch64", not(miri)))]
unsafe fn call(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention: it keeps all registers but x0. Memory is the
    // caller's promise.
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f, options(nostack));
    }
    result
}

#[cfg(test)]
mod tests {
    #[test]
    fn policy_of_an_ordinary_thread_is_number_0() {
        assert_eq!(super::scheduler(), if super::KNOWN { 0 } else { -1 });
    }
}
