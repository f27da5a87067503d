//! The words of the kernel's policies, state by state. What needs several threads is in the
//! conformance suite and in `tests/history`.

use std::boxed::Box;

use super::policy::{ByteCas, FetchAdd, TodayKernel, WordCas};
use super::wait::BLIND_NS;
use super::*;
use crate::event::Event;
use crate::platform::linux::Linux;
use crate::rtmutex::tests::machine::{Call, Machine, between_looks, calls, events, is_over, next_wait, with};
use crate::wait::heads::SETTLE_NS;

// The layouts that no test can change.
const _: () = {
    type L<Y> = KernelQRwLock<Linux, Y>;
    assert!(size_of::<L<TodayKernel>>() == 8 && FULL == 0x8000_0000 && BLIND_NS == 1_000_000);
    assert!(Layout::MODERN.waiting == 0x100 && Layout::MODERN.reader == 0x200);
    assert!(Layout::Y2014.waiting == 1 && Layout::Y2014.reader == 0x100);
    assert!(L::<TodayKernel>::WRITERS == 0x1ff && L::<TodayKernel>::BARRED == 0x8000_01ff);
    assert!(L::<ByteCas>::WRITERS == 0xff && L::<ByteCas>::BARRED == 0x8000_00ff);
};

fn word<Y: Policy>(lock: &KernelQRwLock<Linux, Y>) -> u32 {
    lock.word.load(Relaxed)
}

fn states<Y: Policy>() {
    let (reader, waiting) = (Y::KNOBS.layout().reader, Y::KNOBS.layout().waiting);
    let lock = KernelQRwLock::<Linux, Y>::new();
    assert!(!lock.is_contended());
    lock.read_acquire();
    assert!(lock.is_locked() && !lock.is_write_locked() && !lock.is_contended());
    assert!(lock.try_read_acquire() && !lock.try_write_acquire());
    lock.read_acquire_urgent();
    assert_eq!(word(&lock), 3 * reader);
    // SAFETY: acquired three times above.
    (0..3).for_each(|_| unsafe { lock.read_release() });
    assert!(!lock.is_locked());

    lock.write_acquire();
    assert_eq!(word(&lock), LOCKED);
    assert!(lock.is_locked() && lock.is_write_locked() && !lock.try_read_acquire() && !lock.try_write_acquire());
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
    states::<TodayKernel>();
    states::<FetchAdd>();
    states::<ByteCas>();
    states::<WordCas>();
}

#[test]
fn a_writer_may_say_that_it_waits_while_another_is_inside() {
    let lock = KernelQRwLock::<Linux, TodayKernel>::new();
    lock.write_acquire();
    lock.set_waiting();
    assert_eq!(word(&lock), 0x1ff);
    // SAFETY: acquired above.
    unsafe { lock.write_release() };
    assert_eq!(word(&lock), 0x100);
    assert!(!lock.try_write_acquire(), "nobody passes a waiting writer");
}

/// Forgotten read guards must not make the count of readers begin anew: a writer would come in
/// beside the guard that is left.
#[test]
#[allow(clippy::disallowed_methods)] // the tests' threads are the machine's
fn forgotten_readers_do_not_let_a_writer_in() {
    fn fills<Y: Policy>() {
        let lock = KernelQRwLock::<Linux, Y>::new();
        let readers = super::FULL / KernelQRwLock::<Linux, Y>::READER;
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
    fills::<TodayKernel>();
    fills::<ByteCas>();
}

fn on_machine<Y: Policy>() -> &'static KernelQRwLock<Machine, Y> {
    Box::leak(Box::default())
}

/// Lets the writer out while somebody spins.
fn writer_leaves_meanwhile<Y: Policy>(lock: &'static KernelQRwLock<Machine, Y>) {
    between_looks(|| ());
    // SAFETY: each test holds it for writing.
    between_looks(|| unsafe { lock.write_release() });
}

#[test]
fn an_urgent_reader_waits_for_nobody_but_a_writer_inside() {
    fn comes<Y: Policy>() {
        let (reader, waiting) = (Y::KNOBS.layout().reader, Y::KNOBS.layout().waiting);
        let lock = on_machine::<Y>();
        let before = events(Event::QrwReadSlowpath);
        for word in [0, reader, waiting, 2 * reader + waiting] {
            lock.word.store(word, Relaxed);
            lock.read_acquire_urgent();
            assert_eq!(lock.word.load(Relaxed), word + reader, "{}", Y::NAME);
        }
        assert_eq!((events(Event::QrwReadSlowpath), calls().len()), (before, 0), "{}: it did not wait", Y::NAME);
        lock.word.store(LOCKED, Relaxed);
        writer_leaves_meanwhile(lock);
        lock.read_acquire_urgent();
        assert!(is_over(), "{}: it did", Y::NAME);
        assert_eq!((lock.word.load(Relaxed), calls().len()), (reader, 1));
        assert_eq!(events(Event::QrwReadSlowpath), before + 1);
    }
    comes::<TodayKernel>();
    comes::<WordCas>();
}

#[test]
fn a_reader_that_finds_the_lock_full_waits_until_others_have_left() {
    fn waits<Y: Policy>() {
        let lock = on_machine::<Y>();
        let reader = Y::KNOBS.layout().reader;
        for word in [FULL, FULL + reader] {
            lock.word.store(word, Relaxed);
            between_looks(|| ());
            between_looks(move || lock.word.store(FULL - reader, Relaxed));
            lock.read_acquire();
            assert!(is_over(), "{}: {word:#x}", Y::NAME);
            assert_eq!(lock.word.load(Relaxed), FULL, "{}: one more fits", Y::NAME);
        }
    }
    waits::<TodayKernel>();
    waits::<ByteCas>();
}

/// Recurring readers pass everybody, but not the end of the count: behind it a writer would come in
/// beside them.
#[test]
fn an_urgent_reader_is_not_counted_past_full() {
    fn comes<Y: Policy>() {
        let lock = on_machine::<Y>();
        let (reader, waiting) = (Y::KNOBS.layout().reader, Y::KNOBS.layout().waiting);
        for word in [FULL, FULL | waiting, FULL + reader, !(reader - 1)] {
            lock.word.store(word, Relaxed);
            assert!(!lock.read_acquire_urgent_unless_full() && lock.is_full());
            assert!(!lock.try_write_acquire());
            assert_eq!(lock.word.load(Relaxed), word, "{}: {word:#x}", Y::NAME);
        }
        lock.word.store(FULL, Relaxed);
        between_looks(|| ());
        between_looks(move || lock.word.store(FULL - reader, Relaxed));
        lock.read_acquire_urgent();
        assert!(is_over(), "{}: it waited", Y::NAME);
        assert_eq!(lock.word.load(Relaxed), FULL, "{}: one more fits", Y::NAME);
        lock.word.store(FULL - reader, Relaxed);
        assert!(!lock.is_full() && lock.read_acquire_urgent_unless_full());
        assert_eq!(lock.word.load(Relaxed), FULL, "{}", Y::NAME);
    }
    comes::<TodayKernel>();
    comes::<FetchAdd>();
    comes::<ByteCas>();
    comes::<WordCas>();
}

/// Nobody wakes who waits for room until the last reader has left, and forgotten guards never
/// leave.
#[test]
fn who_waits_for_room_looks_by_itself() {
    let lock = on_machine::<TodayKernel>();
    let reader = TodayKernel::KNOBS.layout().reader;
    for urgent in [true, false] {
        lock.word.store(FULL, Relaxed);
        calls();
        let now = Machine::now();
        next_wait(move || {
            lock.word.store(FULL - reader, Relaxed);
            Ok(())
        });
        if urgent {
            lock.read_acquire_urgent()
        } else {
            lock.read_acquire()
        }
        let slept = calls().into_iter().find(|call| matches!(call, Call::Park(_)));
        assert_eq!(slept, Some(Call::Park(Some(now + BLIND_NS))));
        assert_eq!(lock.word.load(Relaxed), FULL);
    }
}

#[test]
fn attempts_that_succeed_are_not_counted_as_failed() {
    fn counts<Y: Policy>() {
        let lock = on_machine::<Y>();
        lock.write_acquire();
        writer_leaves_meanwhile(lock);
        lock.write_acquire();
        assert!(is_over());
        assert_eq!(lock.word.load(Relaxed), LOCKED);
        assert_eq!([Event::QrwWlockFail, Event::QrwWaitingFail].map(events), [0, 0], "{}", Y::NAME);
    }
    counts::<TodayKernel>();
    counts::<FetchAdd>();
    counts::<ByteCas>();
    counts::<WordCas>();
    assert_eq!(events(Event::QrwWriteSlowpath), 4);
}

#[test]
fn who_may_not_be_woken_sleeps_for_a_moment_only() {
    let lock = on_machine::<TodayKernel>();
    for fences in [true, false] {
        with(|state| state.fences = fences);
        lock.write_acquire();
        calls();
        let now = Machine::now();
        next_wait(|| {
            // SAFETY: acquired above.
            unsafe { lock.write_release() };
            Ok(())
        });
        lock.read_acquire();
        let slept = calls().into_iter().find(|call| matches!(call, Call::Park(_)));
        assert_eq!(slept, Some(Call::Park(if fences { None } else { Some(now + SETTLE_NS) })));
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
    }
    assert!(!lock.is_locked() && !lock.is_contended());
}
