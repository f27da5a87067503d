//! Everything at once: exclusion, and the lock at rest afterwards.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread::{scope, yield_now};
use std::vec::Vec;

use super::subject::{End, Subject};
use super::{Make, US, eventually};

/// What the lock protects, and how its rules would be seen broken.
struct Protected<'a> {
    lock: &'a dyn Subject,
    readers: AtomicU32,
    writers: AtomicU32,
    value: UnsafeCell<[u64; 2]>,
}

// SAFETY: `value` is written only under the write lock, read only under the lock.
unsafe impl Sync for Protected<'_> {}

impl Protected<'_> {
    fn read(&self, linger: bool) {
        self.readers.fetch_add(1, SeqCst);
        if linger {
            yield_now();
        }
        assert_eq!(self.writers.load(SeqCst), 0, "{}: a writer beside a reader", self.lock.name());
        // SAFETY: the lock is held for reading.
        let [a, b] = unsafe { *self.value.get() };
        assert_eq!(a, b, "{}: torn", self.lock.name());
        self.readers.fetch_sub(1, SeqCst);
        self.lock.read_release();
    }

    fn write(&self, linger: bool, downgrade: bool) {
        assert_eq!(self.writers.fetch_add(1, SeqCst), 0, "{}: two writers", self.lock.name());
        // SAFETY: the lock is held for writing.
        let value = unsafe { &mut *self.value.get() };
        value[0] += 1;
        if linger {
            yield_now();
        }
        assert_eq!(self.readers.load(SeqCst), 0, "{}: a reader beside a writer", self.lock.name());
        value[1] += 1;
        self.writers.fetch_sub(1, SeqCst);
        if downgrade {
            self.lock.downgrade();
            self.read(linger);
        } else {
            self.lock.write_release();
        }
    }
}

/// Counts a thread's end, even by a panic.
struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Each thread does every kind of operation at random, and cancels its neighbour's waits.
pub(crate) fn torture(make: Make, threads: usize, rounds: usize, seed: u64) {
    let lock = &*make(threads * rounds);
    let shared =
        &Protected { lock, readers: AtomicU32::new(0), writers: AtomicU32::new(0), value: UnsafeCell::new([0; 2]) };
    // The token with which each thread waits just now.
    let tokens: &Vec<AtomicUsize> = &(0..threads).map(|who| AtomicUsize::new(who * rounds)).collect();
    let ended = &AtomicUsize::new(0);
    scope(|scope| {
        for who in 0..threads {
            scope.spawn(move || {
                let _end = Ended(ended);
                let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (who as u64 + 1) << 32;
                for round in 0..rounds {
                    let token = who * rounds + round;
                    tokens[who].store(token, SeqCst);
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    if random >> 50 & 3 == 0 {
                        lock.cancel(tokens[(who + 1) % threads].load(SeqCst));
                    }
                    one(shared, random, token);
                }
            });
        }
        eventually(lock.name(), || ended.load(SeqCst) == threads);
    });
    lock.assert_at_rest();
}

fn one(shared: &Protected<'_>, random: u64, token: usize) {
    let lock = shared.lock;
    let linger = random >> 40 & 7 == 0;
    let soon = End::After((random >> 44 & 63) * US);
    let read = |taken: bool| {
        if taken {
            shared.read(linger)
        }
    };
    let write = |taken: bool| {
        if taken {
            shared.write(linger, random >> 60 & 3 == 0)
        }
    };
    // Now and then as a thread that must not queue.
    lock.set_busy(random >> 54 & 15 == 0);
    match random >> 33 & 15 {
        0..5 => {
            lock.read();
            read(true);
        }
        5..8 => {
            lock.write();
            write(true);
        }
        8 => read(lock.try_read()),
        9 => write(lock.try_write()),
        10 | 11 => read(lock.read_until(soon).is_ok()),
        12 | 13 => write(lock.write_until(soon).is_ok()),
        14 => read(lock.read_until(End::Token(token)).is_ok()),
        _ => write(lock.write_until(End::Token(token)).is_ok()),
    }
    lock.set_busy(false);
}
