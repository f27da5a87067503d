//! What the child of a fork does first.
//!
//! Handlers of the child run in the order in which they were registered. Constructors of a
//! program's libraries run before ours: a handler that one of them registers, and that uses locks,
//! would find the parent's statistics, and write there. So ours is registered with the first that
//! anybody registers, or when the library is loaded.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::real::real;
use crate::{cancel, fork, rank, thread};

type Handler = Option<unsafe extern "C" fn()>;

/// Has the handler run in each child of a fork.
pub(crate) fn register() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Relaxed) {
        register_with_libc(None, None, Some(on_fork), core::ptr::null());
    }
}

/// What `pthread_atfork(3p)` calls.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    prepare: Handler,
    parent: Handler,
    child: Handler,
    library: *const c_void,
) -> c_int {
    register();
    register_with_libc(prepare, parent, child, library)
}

fn register_with_libc(prepare: Handler, parent: Handler, child: Handler, library: *const c_void) -> c_int {
    real!(__register_atfork(prepare: Handler, parent: Handler, child: Handler, library: *const c_void) -> c_int)
}

unsafe extern "C" fn on_fork() {
    fork::begin_generation();
    lockyard_segment::after_fork_in_child();
    thread::block().rename();
    rank::renew();
    cancel::forget();
}
