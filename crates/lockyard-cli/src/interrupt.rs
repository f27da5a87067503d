//! Ctrl-C (and SIGTERM, as `timeout` sends it, and SIGHUP, when the terminal is closed): the first
//! one asks the run to end cleanly, the second ends it at once.
//!
//! The handler raises the flag itself: a program under this command that dies of the same signal
//! is never seen dead before the flag is seen raised. A thread sleeps until a signal comes, so that
//! the answer is seen at once although a measurement goes on. Ending at once leaves nothing
//! half-written either: files appear by rename only, and what has no name yet is removed
//! ([`crate::output`]).

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::failure::{Failure, INTERRUPTED, TERMINATED as BY_TERM, plain};
use crate::{output, progress, terminal};

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Whether one of them was SIGTERM.
static TERMINATED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

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
    flag::register(SIGTERM, Arc::clone(&TERMINATED)).map_err(refuse)?;
    let hangup = (!survives_its_terminal()).then_some(SIGHUP);
    let wanted: Vec<_> = [SIGINT, SIGTERM].into_iter().chain(hangup).collect();
    for &signal in &wanted {
        flag::register(signal, Arc::clone(&STOP)).map_err(refuse)?;
    }
    let mut signals = Signals::new(wanted).map_err(refuse)?;
    let wait = move || {
        for (before, _) in signals.forever().enumerate() {
            if before > 0 {
                output::abandon();
                terminal::leave_screen();
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

/// The exit code of a run that they ended, as a shell has it.
pub(crate) fn code() -> u8 {
    if terminated() { BY_TERM } else { INTERRUPTED }
}

/// Whether a signal asked us to stop.
pub(crate) fn asked() -> bool {
    STOP.load(Ordering::Relaxed)
}
