//! Sleeping on a word and waking: a table of buckets by the word's address, each a lock and a
//! condition variable of the standard library.
//!
//! | thread | does, in this order |
//! |---|---|
//! | sleeper | locks the bucket; while the word is as expected, waits in the bucket; unlocks |
//! | waker | changes the word; locks the bucket and unlocks it; notifies all of the bucket |
//!
//! **No wake-up is lost.** The two locked sections have an order. If the waker's is first, the
//! sleeper sees the changed word and does not wait. If the sleeper's is first, it waits when the
//! waker notifies.
//!
//! Where nobody can be waited for a sleep ends at once: its thread looks again and again.
//!
//! Words of two threads may share a bucket: a notification wakes the sleepers of both, and those
//! whose word is unchanged wait again. There are more buckets than threads that sleep at one time
//! in most programs.

use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::clock;
use crate::platform::atomics::U32;
use crate::platform::{Ordering::Relaxed, Word};

const BUCKETS: usize = 256;

/// Whether there are threads to wait for, and a clock to wait by.
const WAITS: bool = clock::TICKS && !cfg!(all(target_family = "wasm", not(target_feature = "atomics")));

/// On a line of its own.
#[repr(align(64))]
struct Bucket {
    lock: Mutex<()>,
    changed: Condvar,
}

static TABLE: [Bucket; BUCKETS] = [const { Bucket { lock: Mutex::new(()), changed: Condvar::new() } }; BUCKETS];

impl Bucket {
    fn of(word: &U32) -> &'static Self {
        // Fibonacci hashing: the high bits depend on all bits of the address.
        let hash = (core::ptr::from_ref(word).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &TABLE[(hash >> 56) as usize % BUCKETS]
    }

    /// Nothing panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sleeps while `*word == expected`, until woken or until `deadline` of [`clock::now`].
pub(super) fn park(word: &U32, expected: u32, deadline: Option<u64>) {
    let bucket = Bucket::of(word);
    let mut held = bucket.lock();
    // Relaxed: the lock orders the waker's store before this load.
    while word.load(Relaxed) == expected {
        held = match deadline {
            None if !WAITS => return,
            None => bucket.changed.wait(held).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let left = deadline.saturating_sub(clock::now());
                if left == 0 || !WAITS {
                    clock::passed(deadline);
                    return;
                }
                bucket.changed.wait_timeout(held, Duration::from_nanos(left)).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// Wakes the thread that sleeps on `word`. The word may be gone by now.
pub(super) fn unpark(word: &U32) {
    let bucket = Bucket::of(word);
    drop(bucket.lock());
    bucket.changed.notify_all();
}

/// Rounds in which a nap only gives the CPU away.
const YIELDS: u32 = 4;

/// Gives the CPU away, later for a while that grows to a millisecond.
pub(super) fn nap(round: u32) {
    match nap_ns(round) {
        ns if ns == 0 || !WAITS => thread::yield_now(),
        ns => thread::sleep(Duration::from_nanos(ns)),
    }
}

const fn nap_ns(round: u32) -> u64 {
    if round < YIELDS { 0 } else { 20_000 << if round < 10 { round - YIELDS } else { 6 } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Ordering::*;

    #[test]
    fn naps_grow_to_a_millisecond() {
        assert_eq!([0, 3, 4, 9, 10, u32::MAX].map(nap_ns), [0, 0, 20_000, 640_000, 1_280_000, 1_280_000]);
    }

    #[test]
    fn a_word_that_differs_or_a_time_that_is_over_ends_a_sleep() {
        let word = U32::default();
        park(&word, 1, None);
        park(&word, 0, Some(0));
        let deadline = clock::now() + 1_000_000;
        park(&word, 0, Some(deadline));
        assert!(clock::now() >= deadline);
    }

    /// More words than buckets: some share one, and a wake-up reaches its sleeper all the same.
    #[test]
    fn every_sleeper_is_woken_though_some_share_a_bucket() {
        let words: std::vec::Vec<U32> = (0..=BUCKETS).map(|_| U32::default()).collect();
        let twins = words.iter().enumerate().find_map(|(at, one)| {
            words[..at].iter().find(|other| core::ptr::eq(Bucket::of(one), Bucket::of(other))).map(|other| [one, other])
        });
        let twins = twins.unwrap();
        thread::scope(|threads| {
            for word in twins {
                threads.spawn(move || {
                    while word.load(Acquire) == 0 {
                        park(word, 0, None);
                    }
                });
            }
            for word in twins {
                word.store(1, Release);
                unpark(word);
            }
        });
    }
}
