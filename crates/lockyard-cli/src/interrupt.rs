//! Ctrl-C (and SIGTERM, SIGHUP): the first one asks the run to end cleanly, the second one ends it at once.
//!
//! Ending at once leaves nothing half-written either: files appear by rename only ([`crate::output`]).

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, INTERRUPTED};

static STOP: AtomicBool = AtomicBool::new(false);

/// Begins to listen for the signals.
///
/// # Errors
/// The system refused the handler.
pub(crate) fn listen() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            process::exit(i32::from(INTERRUPTED));
        }
    })
    .map_err(|error| Failure::run(format!("cannot listen for Ctrl-C: {error}")))
}

/// The flag that a signal raises.
pub(crate) fn flag() -> &'static AtomicBool {
    &STOP
}

/// Whether a signal asked us to stop.
pub(crate) fn asked() -> bool {
    STOP.load(Ordering::Relaxed)
}
