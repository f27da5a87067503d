//! Sleeping and waking: private futexes, absolute deadlines, errno untouched (raw system calls through rustix).

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use rustix::thread::futex::{self, Flags, Timespec};

const ANYONE: NonZeroU32 = NonZeroU32::MAX;

/// The clock of a deadline.
pub(super) const MONOTONIC: Flags = Flags::PRIVATE;
/// See [`MONOTONIC`].
pub(super) const REALTIME: Flags = Flags::PRIVATE.union(Flags::CLOCK_REALTIME);

/// Sleeps while `*word == expected`, until woken, interrupted, or `deadline` (ns of `clock`).
pub(super) fn wait(word: &AtomicU32, expected: u32, deadline: Option<u64>, clock: Flags) {
    let deadline = deadline.map(timespec);
    // Every outcome (woken, value changed, interrupted, timed out) is the same to the caller: it looks at its condition.
    let _ = futex::wait_bitset(word, clock, expected, deadline.as_ref(), ANYONE);
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Wakes one sleeper.
pub(super) fn wake_one(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::PRIVATE, 1);
}

/// Wakes all sleepers.
pub(super) fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::PRIVATE, i32::MAX as u32);
}

/// Sleeps for `ns` nanoseconds, or less, on a word that is always 0.
pub(super) fn sleep(word: &AtomicU32, ns: u64) {
    let _ = futex::wait(word, Flags::PRIVATE, 0, Some(&timespec(ns)));
}
