//! Threads of fixed priority on one CPU, and gates by which they wait for each other without running.

use std::io::Write;

use lockyard::platform::linux::{Linux, U32};
use lockyard::platform::{Ordering::*, Platform, Word};

/// What a thread sleeps at until another opens it. Opened once for each passage.
#[derive(Debug, Default)]
pub(crate) struct Gate(U32);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.fetch_add(1, Release);
        Linux::unpark(&self.0);
    }

    pub(crate) fn pass(&self) {
        loop {
            match self.0.load(Acquire) {
                0 => Linux::park(&self.0, 0, None),
                open => {
                    if self.0.compare_exchange(open, open - 1, Acquire, Relaxed).is_ok() {
                        return;
                    }
                }
            }
        }
    }
}

/// Binds the calling thread to the first CPU it may use, with priority `priority` of `SCHED_FIFO`.
pub(crate) fn fixed(priority: i32) {
    // SAFETY: sets are plain bits, filled by the call and asked within their bounds; the others read what they are given.
    unsafe {
        let mut allowed: libc::cpu_set_t = core::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed), 0);
        let first = (0..8 * size_of::<libc::cpu_set_t>()).find(|&cpu| libc::CPU_ISSET(cpu, &allowed)).expect("a CPU");
        let mut one: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(first, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one), 0);
    }
    assert!(become_fixed(priority), "permission for SCHED_FIFO was there a moment ago");
}

fn become_fixed(priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: reads the parameters. (Of the calling thread, whatever its name says.)
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// Whether this process may use fixed priorities. If not, says which test is skipped, and why, where nobody swallows it.
pub(crate) fn permitted(test: &str) -> bool {
    let permitted = std::thread::spawn(|| become_fixed(1)).join().expect("a thread");
    if !permitted {
        let text = format!(
            "SKIPPED: {test}: SCHED_FIFO is not permitted here; run as root, with CAP_SYS_NICE, or with `ulimit -r 99`\n"
        );
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    permitted
}

/// The priority at which the calling thread runs now, lent ones included: 1 to 99, or 0 for a time-sharing thread.
pub(crate) fn lent() -> i32 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("proc is mounted");
    // Field 18; the second, the thread's name, may contain anything but ends in the last parenthesis. A real-time thread has −1 − priority there.
    let after = stat.rsplit_once(')').expect("a name").1;
    let value: i32 = after.split_whitespace().nth(15).and_then(|field| field.parse().ok()).expect("a priority");
    (-1 - value).max(0)
}

/// The name by which others ask the kernel about the calling thread.
pub(crate) fn thread_name() -> i32 {
    // SAFETY: has no preconditions.
    unsafe { libc::gettid() }
}

/// Whether a thread of this process sleeps and will until somebody wakes it.
pub(crate) fn asleep(name: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{name}/stat")).expect("a thread that has not ended");
    stat.rsplit_once(')').expect("a name").1.trim_start().starts_with('S')
}
