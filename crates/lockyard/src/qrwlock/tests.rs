//! The words of every policy, state by state. What needs several threads is in the conformance suite and in `tests/history`.

use super::policy::{ByteCas, FetchAdd, WordCas};
use super::*;
use crate::platform::linux::Linux;

fn word<Y: Policy>(lock: &RawQRwLock<Linux, Y>) -> u32 {
    lock.word.load(Relaxed)
}

fn states<Y: Policy>() {
    let (reader, waiting) = (Y::KNOBS.layout().reader, Y::KNOBS.layout().waiting);
    let lock = RawQRwLock::<Linux, Y>::new();
    lock.read_acquire();
    assert!(lock.try_read_acquire() && !lock.try_write_acquire());
    lock.read_acquire_urgent();
    assert_eq!(word(&lock), 3 * reader);
    // SAFETY: acquired three times above.
    (0..3).for_each(|_| unsafe { lock.read_release() });
    assert!(!lock.is_locked());

    lock.write_acquire();
    assert_eq!(word(&lock), LOCKED);
    assert!(lock.is_write_locked() && !lock.try_read_acquire() && !lock.try_write_acquire());
    assert_eq!(word(&lock), LOCKED, "{}: a try left a trace", Y::NAME);
    // SAFETY: acquired above; then held for reading.
    unsafe {
        lock.downgrade();
        assert_eq!(word(&lock), reader);
        lock.read_release();
    }
    assert!(!lock.is_locked());

    // A writer waits, whoever it is: only urgent readers come in.
    lock.wait_lock.acquire();
    lock.read_acquire();
    lock.set_waiting();
    assert_eq!(word(&lock), reader | waiting);
    assert!(!lock.try_read_acquire() && !lock.try_write_acquire() && lock.is_contended());
    lock.read_acquire_urgent();
    // SAFETY: acquired twice above.
    (0..2).for_each(|_| unsafe { lock.read_release() });
    assert_eq!(word(&lock), waiting);
    assert!(!lock.is_write_locked());
}

#[test]
fn every_state_of_every_policy() {
    states::<Today>();
    states::<FetchAdd>();
    states::<ByteCas>();
    states::<WordCas>();
}

#[test]
fn a_writer_may_say_that_it_waits_while_another_is_inside() {
    let lock = RawQRwLock::<Linux>::new();
    lock.write_acquire();
    lock.set_waiting();
    assert_eq!(word(&lock), 0x1ff);
    // SAFETY: acquired above.
    unsafe { lock.write_release() };
    assert_eq!(word(&lock), 0x100);
    assert!(!lock.try_write_acquire(), "nobody passes a waiting writer");
}

/// Forgotten read guards must not make the count of readers begin anew: a writer would come in beside the guard that is left.
#[test]
fn forgotten_readers_do_not_let_a_writer_in() {
    fn fills<Y: Policy>() {
        let lock = RawQRwLock::<Linux, Y>::new();
        let readers = super::FULL / RawQRwLock::<Linux, Y>::READER;
        for _ in 0..readers {
            lock.read_acquire();
        }
        assert!(!lock.try_read_acquire(), "{}: it is full", Y::NAME);
        assert!(!lock.try_write_acquire(), "{}", Y::NAME);
        assert_eq!(word(&lock), super::FULL, "{}: a failed attempt leaves nothing", Y::NAME);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                lock.read_acquire();
                // SAFETY: acquired above.
                unsafe { lock.read_release() };
            });
            while !lock.is_contended() {
                Linux::nap(0);
            }
            for _ in 0..readers {
                // SAFETY: acquired above.
                unsafe { lock.read_release() };
            }
            waiter.join().unwrap();
        });
        assert_eq!(word(&lock), 0);
    }
    fills::<Today>();
    fills::<ByteCas>();
}
