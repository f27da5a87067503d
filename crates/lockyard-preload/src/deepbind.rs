//! `dlopen` with `RTLD_DEEPBIND`: libraries that would bind glibc's locks past ours.
//!
//! Such a library looks symbols up in itself and in what it needs, the C library included, before
//! it looks where this library stands. Its `pthread_mutex_lock` is glibc's. If it shares a mutex
//! with the program, two implementations work on one object, and both believe that they hold it.
//!
//! So the flag is taken away, as sanitizers do, and one line on standard error says so, once in a
//! process. A library that has the flag for the sake of other symbols then gets the program's: with
//! `LOCKYARD_DEEPBIND=keep` the flag stays, for libraries that share no lock with anything.
//!
//! | way of loading | here |
//! |---|---|
//! | `dlopen` with the flag | without it |
//! | `dlopen` without it | untouched |
//! | `dlmopen`: a namespace of its own, with another C library | not seen; no lock may be shared with it |
//! | all kinds of locks are glibc's (`LOCKYARD_MUTEX=glibc` and so on) | untouched |
//!
//! The loader finds out which library calls from the return address, and looks where that one says
//! (`RUNPATH`, `$ORIGIN`). So this function leaves the stack as it was and jumps to the loader's.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use crate::{config, environment};

/// What [`dlopen`] goes on with: in two registers.
#[repr(C)]
struct Ready {
    /// The loader's function, or null.
    real: *mut c_void,
    flags: u64,
}

/// See `dlopen(3)`: without `RTLD_DEEPBIND`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov edi, esi",
        "call {prepare}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "mov esi, edx",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "ret",
        prepare = sym prepare,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x0, x30, [sp, #-16]!",
        "mov w0, w1",
        "bl {prepare}",
        "mov x16, x0",
        "ldp x0, x30, [sp], #16",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "mov x0, xzr",
        "ret",
        prepare = sym prepare,
    );
}

unsafe extern "C" fn prepare(flags: c_int) -> Ready {
    let flags = if flags & libc::RTLD_DEEPBIND != 0 && unwanted() { flags & !libc::RTLD_DEEPBIND } else { flags };
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    let mut real = REAL.load(Relaxed);
    if real.is_null() {
        // SAFETY: a C string, and a handle that the loader documents. (Null: an old C library
        // without its library for this, so the program could not have called it either.)
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
        REAL.store(real, Relaxed);
    }
    Ready { real, flags: flags as u32 as u64 }
}

/// Whether the flag is to go. Says so the first time.
#[cold]
fn unwanted() -> bool {
    if environment::variable(c"LOCKYARD_DEEPBIND") == Some(b"keep") || !config::anything_ours() {
        return false;
    }
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        let line = b"lockyard: dlopen without RTLD_DEEPBIND, past which a library would take glibc's locks \
(LOCKYARD_DEEPBIND=keep keeps it)\n";
        // SAFETY: memory of the given length.
        let _ = unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
    true
}
