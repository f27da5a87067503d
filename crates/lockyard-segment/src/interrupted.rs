//! For tests: a signal handler between two instructions.

use core::arch::asm;
use core::cell::Cell;
use core::ffi::c_int;

/// After each instruction.
pub(crate) const EACH: usize = usize::MAX;

fn nothing() {}

thread_local! {
    static ACT: Cell<fn()> = const { Cell::new(nothing) };
    static WHEN: Cell<usize> = const { Cell::new(0) };
    static PASSED: Cell<usize> = const { Cell::new(0) };
}

extern "C" fn on_trap(_: c_int) {
    let passed = PASSED.get();
    PASSED.set(passed + 1);
    if WHEN.get() == EACH || WHEN.get() == passed {
        ACT.get()();
    }
}

/// Runs `what`, and `act` in a signal handler after its instruction number `when`, or [`EACH`]. How
/// many there were.
#[inline(never)]
pub(crate) fn interrupted(when: usize, act: fn(), what: impl FnOnce()) -> usize {
    ACT.set(act);
    WHEN.set(when);
    PASSED.set(0);
    // SAFETY: a handler that uses cells; a flag of the thread, for whose signal it is.
    unsafe {
        libc::signal(libc::SIGTRAP, on_trap as extern "C" fn(c_int) as usize);
        asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq");
        what();
        asm!("pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq");
    }
    PASSED.get()
}
