//! A real fork, by a thread that holds a lock: the child uses the lock, says how that went, and
//! ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::quiet::quietly;

/// Prefix of what the forking thread says of a child that did not end.
pub(super) const HANGS: &str = "hang in the child of a fork: ";

/// Opportunities until somebody forks; 0: nobody does.
static LEFT: AtomicU32 = AtomicU32::new(0);
/// Seconds that a child has.
static PATIENCE: AtomicU32 = AtomicU32::new(1);

/// From here on the `number`th opportunity is taken. A child has so many seconds.
pub(super) fn arm(number: u32, seconds: u32) {
    PATIENCE.store(seconds.max(1), Relaxed);
    LEFT.store(number, Relaxed);
}

/// An opportunity: perhaps a child does what `child` says.
pub(crate) fn fork(child: &mut dyn FnMut()) {
    if LEFT.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)) != Ok(1) {
        return;
    }
    // SAFETY: the child uses locks, threads and memory, which the C library keeps usable, and
    // leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork");
    if pid == 0 {
        // SAFETY: kills this process when its time is up.
        unsafe { libc::alarm(PATIENCE.load(Relaxed)) };
        let outcome = quietly(|| catch_unwind(AssertUnwindSafe(child)));
        if let Err(panic) = &outcome {
            let text = panic.downcast_ref::<String>().map_or("a check failed", |text| text);
            let text = format!("in the child: {text}\n");
            // SAFETY: a buffer and its length.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        }
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: our own child, which ends: by itself, or by its alarm.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {}
    if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM {
        panic!("{HANGS}it could not use the lock that its only thread held");
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child of a fork ended with {status:#x}");
}
