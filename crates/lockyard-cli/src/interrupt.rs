//! Ctrl-C (and SIGTERM, as `timeout` sends it, and SIGHUP, when the terminal is closed): the first
//! one asks the run to end cleanly, the second ends it at once.
//!
//! A thread sleeps until a signal comes, so that the answer is seen at once although a measurement
//! goes on. Ending at once leaves nothing half-written either: files appear by rename only, and
//! what has no name yet is removed ([`crate::output`]).

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, INTERRUPTED, plain};
use crate::{output, progress};

static STOP: AtomicBool = AtomicBool::new(false);
/// Whether one of them was SIGTERM.
static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Begins to listen for the signals.
///
/// # Errors
/// The system refused the handlers or the thread.
pub(crate) fn listen() -> Result<(), Failure> {
    listen_and_say(Some("lockyard: ending after this measurement; interrupt again to quit without a report"))
}

/// The same, without a word: whoever asks looks often.
///
/// # Errors
/// As [`listen`].
pub(crate) fn listen_quietly() -> Result<(), Failure> {
    listen_and_say(None)
}

fn listen_and_say(line: Option<&'static str>) -> Result<(), Failure> {
    let refuse = |error: io::Error| Failure::run(format!("cannot listen for Ctrl-C: {}", plain(&error)));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(refuse)?;
    if !survives_its_terminal() {
        signals.add_signal(SIGHUP).map_err(refuse)?;
    }
    let wait = move || {
        for signal in signals.forever() {
            if signal == SIGTERM {
                TERMINATED.store(true, Ordering::Relaxed);
            }
            if STOP.swap(true, Ordering::Relaxed) {
                output::abandon();
                process::exit(i32::from(INTERRUPTED));
            }
            if let Some(line) = line {
                progress::say(line);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop).map_err(refuse)
}

/// Whether this command was started to ignore SIGHUP, as by `nohup`.
fn survives_its_terminal() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

/// The flag that a signal raises.
pub(crate) fn flag() -> &'static AtomicBool {
    &STOP
}

/// Whether SIGTERM was among the signals: nobody but this process has got it.
pub(crate) fn terminated() -> bool {
    TERMINATED.load(Ordering::Relaxed)
}

/// Whether a signal asked us to stop.
pub(crate) fn asked() -> bool {
    STOP.load(Ordering::Relaxed)
}
