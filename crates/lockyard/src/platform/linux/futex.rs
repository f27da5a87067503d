//! Sleeping and waking: private futexes, absolute deadlines, errno untouched (raw system calls through rustix).

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use rustix::thread::futex::{self, Flags, Timespec};

const ANYONE: NonZeroU32 = NonZeroU32::MAX;

/// Sleeps while `*word == expected`, until woken, interrupted, or `deadline` (monotonic ns).
pub(super) fn wait(word: &AtomicU32, expected: u32, deadline: Option<u64>) {
    let deadline = deadline.map(timespec);
    // Every outcome (woken, value changed, interrupted, timed out) is the same to the caller: it looks at its condition.
    let _ = futex::wait_bitset(word, Flags::PRIVATE, expected, deadline.as_ref(), ANYONE);
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Wakes one sleeper.
pub(super) fn wake_one(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::PRIVATE, 1);
}

/// Sleeps for `ns` nanoseconds, or less.
pub(super) fn sleep(ns: u64) {
    static NOBODY_WAKES: AtomicU32 = AtomicU32::new(0);
    let _ = futex::wait(&NOBODY_WAKES, Flags::PRIVATE, 0, Some(&timespec(ns)));
}
