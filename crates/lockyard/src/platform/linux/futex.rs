//! Sleeping and waking: private futexes, absolute deadlines, errno untouched (raw system calls
//! through rustix).
//!
//! Each sleeper has a word of its own, and a waker names one. The kernel finds the sleeper by
//! walking a bucket of a hash table, which Linux 6.16 gives each process: four buckets a CPU,
//! however many threads there are. So a process with many threads asks for more ([`make_room`]).

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use rustix::thread::futex::{self, Flags, Timespec};

use super::syscall;

const ANYONE: NonZeroU32 = NonZeroU32::MAX;

/// The clock of a deadline.
pub(super) const MONOTONIC: Flags = Flags::PRIVATE;
/// See [`MONOTONIC`].
pub(super) const REALTIME: Flags = Flags::PRIVATE.union(Flags::CLOCK_REALTIME);

/// Sleeps while `*word == expected`, until woken, interrupted, or `deadline` (ns of `clock`).
pub(super) fn wait(word: &AtomicU32, expected: u32, deadline: Option<u64>, clock: Flags) {
    let deadline = deadline.map(timespec);
    // Every outcome (woken, value changed, interrupted, timed out) is the same to the caller: it
    // looks at its condition.
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

/// There may be `sleepers` threads by now: a process whose table has fewer buckets gets several for
/// each, so that it need not ask again soon. Source: `PR_FUTEX_HASH` in prctl(2).
pub(super) fn make_room(sleepers: u32) {
    #[cfg(test)]
    ASKED.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    const SET_SLOTS: usize = 1;
    const GET_SLOTS: usize = 2;
    /// The walk past so many, in whatever buckets there are, is short.
    const FEW: u32 = 128;
    const MOST: u32 = 1 << 14;
    // 0: the process uses the table of all processes, which has hundreds of buckets for each CPU.
    if sleepers > FEW && (1..sleepers.min(MOST) as isize).contains(&syscall::futex_hash(GET_SLOTS, 0)) {
        syscall::futex_hash(SET_SLOTS, (4 * sleepers).next_power_of_two().min(MOST));
    }
}

/// How often [`make_room`] was called.
#[cfg(test)]
pub(super) static ASKED: AtomicU32 = AtomicU32::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_many_threads_has_a_bucket_for_each() {
        // From its second thread on a process has a table of its own.
        std::thread::spawn(|| make_room(1_000)).join().unwrap();
        let slots = syscall::futex_hash(2, 0);
        assert!(slots <= 0 || slots >= 1_000, "{slots} buckets");
    }
}
