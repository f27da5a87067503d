//! Writers that claim the lock before they look for others.

use super::*;

#[test]
fn a_claim_beside_a_reader_goes_and_those_that_it_kept_out_are_woken() {
    // Whether the waiter writes, whether the last reader leaves beside the claim.
    for (writes, leaves) in [(false, false), (false, true), (true, true)] {
        let lock = made(CLAIMED + READER, false);
        at_sleep(move || {
            assert_eq!((word(lock), registered(lock, 1)), (CLAIMED + READER, true));
            assert!(!lock.is_write_locked(), "the reader may ask, to know how it holds the lock");
            if leaves {
                // SAFETY: the word says that a reader is inside: we.
                unsafe { lock.read_release() };
                assert!(!record(1).is_notified(), "it would find the claim");
            }
            assert!(!lock.step_back() && record(1).is_notified() && !registered(lock, 1));
        });
        assert_eq!(comes(lock, writes, Until::FOREVER), Ok(()));
        let held = if writes { LOCKED } else { READER };
        assert_eq!(word(lock), if leaves { held } else { READER + held });
    }
}

/// The reader leaves the wake-up to the writer, which is alone or not.
#[test]
fn a_reader_that_comes_beside_a_claim_takes_itself_out_and_waits() {
    for settled in [true, false] {
        let lock = made(CLAIMED, false);
        assert!(!lock.try_read_acquire() && !lock.try_read_again() && !lock.try_write_acquire());
        at_sleep(move || {
            assert_eq!((word(lock), registered(lock, 1)), (CLAIMED, true));
            if settled {
                lock.word.store(LOCKED, SeqCst);
                // SAFETY: the word says that a writer is inside: we.
                unsafe { lock.write_release() };
            } else {
                lock.step_back();
            }
        });
        lock.read_acquire();
        assert_eq!((word(lock), cues_left()), (READER, 0), "{settled}");
    }
    let lock = made(CLAIMED + READER, false);
    at_poll(move || assert!(word(lock) == CLAIMED + READER && !lock.step_back()));
    lock.read_acquire_urgent();
    assert_eq!((word(lock), cues_left()), (2 * READER, 0));
}

/// A claim of the parent's, when it forked: the writer is not in the child.
#[test]
fn a_thread_alone_in_a_child_takes_back_a_claim_that_is_in_its_way() {
    type Takes = fn(&Made) -> bool;
    let ways: [(u32, u32, Takes); 6] = [
        (CLAIMED, LOCKED, |lock| lock.try_write_acquire()),
        (CLAIMED, LOCKED, |lock| lock.write_acquire_until(AT_ONCE).is_ok()),
        (CLAIMED + READER, 2 * READER, |lock| lock.try_read_acquire()),
        (CLAIMED + READER, 2 * READER, |lock| lock.read_acquire_until(AT_ONCE).is_ok()),
        (CLAIMED | WAITING, READER, |lock| lock.read_acquire_queued(AT_ONCE).is_ok()),
        (CLAIMED | WAITING, READER | WAITING, |lock| {
            lock.read_acquire_urgent();
            true
        }),
    ];
    for (before, _, takes) in &ways[..5] {
        assert!(!takes(made(*before, false)), "{before:#x}: there may be that writer");
    }
    alone_in_child();
    for (before, after, takes) in ways {
        let lock = made(before, false);
        assert_eq!((takes(lock), word(lock)), (true, after), "{before:#x}");
    }
}

/// With one reader more or less each half of the count is zero now and then, and both never are.
#[test]
#[allow(clippy::disallowed_methods)] // the tests' threads are the machine's
fn a_writer_is_not_taken_in_by_a_count_that_carries() {
    let (lock, mut taken) = (RawQRwLock::<Linux>::new(), 0);
    for _ in 0..127 {
        lock.read_acquire();
    }
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..1_000_000 {
                lock.read_acquire_urgent();
                // SAFETY: acquired above.
                unsafe { lock.read_release() };
            }
        });
        while !reader.is_finished() {
            if lock.take_bare() {
                lock.clear_byte();
                taken += 1;
            }
        }
    });
    assert_eq!(taken, 0, "127 readers are inside");
    assert_eq!(lock.word.load(SeqCst), 127 * READER);
}
