//! Panics of tortured threads are findings, not crashes: they are reported once, in the verdict,
//! and not also by the panic hook.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; panics in it, on this thread, print nothing.
pub(crate) fn quietly<R>(work: impl FnOnce() -> R) -> R {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // The flag may be gone while the thread ends.
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                loud(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let result = work();
    QUIET.set(before);
    result
}
