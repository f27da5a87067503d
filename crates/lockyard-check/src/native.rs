//! The real machines as stages: threads of the system, and a watchdog that ends a case that hangs.

// A stage is where the suite's questions to the machine are answered.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::abort;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::stage::{Scale, Stage};

/// How long a case may take, in seconds, before the watchdog calls it hung. `LOCKYARD_WATCHDOG`
/// overrides it.
pub const PATIENCE: u64 = 120;

macro_rules! stage {
    ($machine:ty) => {
        impl Stage for $machine {
            const SCALE: Scale = Scale {
                rounds: 4_000,
                sleeps: 2_000,
                threads: 4,
                crowd: 16,
                short_lived: 10_000,
                queue: 40,
                timeout_ns: 20_000_000,
            };

            fn perform(name: &'static str, case: fn()) {
                guarded(name, case);
            }

            fn run(threads: usize, act: impl Fn(usize) + Sync) {
                run(threads, act);
            }

            fn failed() -> bool {
                failed()
            }
        }
    };
}

#[cfg(target_os = "linux")]
stage!(lockyard::platform::linux::Linux);
stage!(lockyard::platform::portable::Portable);

fn run(threads: usize, act: impl Fn(usize) + Sync) {
    let failed = AtomicBool::new(false);
    let outer = FAILED.get();
    let first = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let (act, failed) = (&act, &failed);
                scope.spawn(move || {
                    FAILED.set(failed);
                    let outcome = catch_unwind(AssertUnwindSafe(|| act(number)));
                    FAILED.set(std::ptr::null());
                    if outcome.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    outcome
                })
            })
            .collect();
        running.into_iter().filter_map(|thread| thread.join().and_then(|outcome| outcome).err()).next()
    });
    if let Some(panic) = first {
        // SAFETY: the flag of the run that we are in; that run does not end before we do.
        if let Some(outer) = unsafe { outer.as_ref() } {
            outer.store(true, Ordering::Relaxed);
        }
        resume_unwind(panic);
    }
}

fn failed() -> bool {
    // SAFETY: set by `run` for as long as this thread acts in it, to a flag that outlives its
    // threads.
    unsafe { FAILED.get().as_ref() }.is_some_and(|failed| failed.load(Ordering::Relaxed))
}

thread_local! {
    /// The flag of the run in which this thread acts.
    static FAILED: Cell<*const AtomicBool> = const { Cell::new(std::ptr::null()) };
}

/// Runs `case`. If it has not ended after [`PATIENCE`], says which it was and aborts: a hang must
/// name itself.
pub fn guarded<R>(name: &str, case: impl FnOnce() -> R) -> R {
    let seconds = std::env::var("LOCKYARD_WATCHDOG").ok().and_then(|text| text.parse().ok()).unwrap_or(PATIENCE);
    let before = lockyard::event::Snapshot::now();
    let watched = name.to_owned();
    let (alive, watch) = channel::<()>();
    let watchdog = thread::spawn(move || {
        // Counted second by second: a machine that was suspended meanwhile has not been hung for
        // that long.
        let mut left = seconds;
        while watch.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            left = left.saturating_sub(1);
            if left > 0 {
                continue;
            }
            let mut text = format!(
                "\nWATCHDOG: {watched} has not ended after {seconds} s: a lost wake-up, starvation, or a deadlock\n"
            );
            text.push_str("lock events of the process meanwhile:\n");
            for (event, count) in lockyard::event::Snapshot::now().since(&before).iter().filter(|&(_, count)| count > 0)
            {
                text.push_str(&format!("    {event:<24} {count}\n"));
            }
            die(&text);
        }
    });
    let result = catch_unwind(AssertUnwindSafe(case));
    drop(alive);
    let _ = watchdog.join();
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Ends the process with a message that the test harness does not swallow.
pub(crate) fn die(text: &str) -> ! {
    let _ = std::io::stderr().write_all(text.as_bytes());
    abort();
}
