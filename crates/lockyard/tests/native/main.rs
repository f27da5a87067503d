//! What only the real machine can show, one theme per file. Tests that need a process of their own
//! are beside this folder: `allocation`, `exhaustion`, `fork`.

// These tests are about threads, clocks and signals of the system.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod apart;
mod around;
mod embedding;
mod errno;
mod guards;
mod layout;
mod messages;
mod permits;
mod signals;
mod thread_exit;
mod traits;

/// Whether `act` panics, quietly.
fn panics(act: impl FnOnce()) -> bool {
    // The hook is the process's: one at a time.
    static HOOK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = HOOK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    std::panic::set_hook(hook);
    outcome.is_err()
}
