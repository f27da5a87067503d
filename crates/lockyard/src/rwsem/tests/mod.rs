//! The rwsem: the state table, exclusion, giving up, handoff, turns. (`history::rwsem` passes those
//! of these tests that are about both.)
//!
//! Schedules are driven by what the lock's words say, never by sleeping; nothing is asserted about
//! time.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // the tests' threads are the machine's
#![cfg_attr(not(feature = "history"), allow(dead_code))] // which uses the rest

pub(crate) mod machine;
pub(crate) mod subject;
pub(crate) mod torture;
mod turns;
mod words;

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::boxed::Box;
use std::io::Write;
use std::thread::{scope, yield_now};
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::*;
use crate::platform::linux::Linux;
use machine::Tireless;
use subject::{End, Subject, subject};

pub(crate) const US: u64 = 1_000;

/// Makes unlocked locks of one form, with so many tokens.
pub(crate) type Make = fn(usize) -> Box<dyn Subject>;

/// Ends the test program: threads that hang cannot be joined. Written past the test harness, which
/// would keep it to itself.
fn give_up(what: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "{what} (run the test alone, with --nocapture)");
    std::process::abort()
}

/// Lets others run until `condition`, but not for ever.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > Duration::from_secs(60) {
            give_up(what);
        }
        yield_now();
    }
}

/// While it lives, a panic would leave others waiting.
pub(crate) struct OthersWait(pub(crate) &'static str);

impl Drop for OthersWait {
    fn drop(&mut self) {
        if std::thread::panicking() {
            give_up(self.0);
        }
    }
}

/// For a lock nobody is operating on: what its holders contribute to the count is `held`, and what
/// waiters ask for is there only if there are `some`.
pub(crate) fn assert_waiters(lock: &(impl Subject + ?Sized), held: u64, some: bool) {
    let waiters = if some { lock.waiters() } else { 0 };
    let count = lock.count();
    assert_eq!(count & !lock.requests(), held.wrapping_add(waiters), "{}: {count:#x}", lock.name());
    assert!(some || count & lock.requests() == 0, "{}: {count:#x}", lock.name());
}

/// Waiters give up, whichever is first: flags follow the queue (historical bugs B9, B17).
pub(crate) fn aborts(make: Make) {
    for number in 1..=3 {
        for kinds in 0..1usize << number {
            for victim in 0..number {
                abort(&*make(number), number, |who| kinds >> who & 1 != 0, victim);
            }
        }
    }
}

fn abort(lock: &dyn Subject, number: usize, writes: impl Fn(usize) -> bool, victim: usize) {
    lock.write();
    scope(|scope| {
        let _watch = OthersWait(lock.name());
        let mut waiters = Vec::new();
        for who in 0..number {
            let writes = writes(who);
            waiters.push(scope.spawn(move || {
                let end = End::Token(who);
                let result = if writes { lock.write_until(end) } else { lock.read_until(end) };
                match (result, writes) {
                    (Ok(()), true) => lock.write_release(),
                    (Ok(()), false) => lock.read_release(),
                    (Err(_), _) => {}
                }
                result
            }));
            eventually("a waiter queues", || lock.waiting() == who + 1);
        }
        assert_waiters(lock, lock.writer(), true);
        lock.cancel(victim);
        let gone = waiters.remove(victim);
        eventually("a wait ends", || gone.is_finished());
        assert_eq!(gone.join().unwrap(), Err(GaveUp::Cancelled));
        assert_eq!(lock.waiting(), number - 1);
        assert_waiters(lock, lock.writer(), number > 1);
        lock.write_release();
        for waiter in waiters {
            eventually("those who stayed get it", || waiter.is_finished());
            assert_eq!(waiter.join().unwrap(), Ok(()));
        }
    });
    lock.assert_at_rest();
}

/// A first waiter that gives up wakes those it kept waiting (historical bug B10).
pub(crate) fn first_abort_wakes_next(make: Make) {
    let lock = &*make(1);
    lock.read();
    scope(|scope| {
        let _watch = OthersWait(lock.name());
        let writing = scope.spawn(|| lock.write_until(End::Token(0)));
        eventually("the writer queues", || lock.waiting() == 1);
        let reading = scope.spawn(|| lock.read());
        eventually("the reader queues or is let in", || lock.waiting() == 2 || reading.is_finished());
        lock.cancel(0);
        assert_eq!(writing.join().unwrap(), Err(GaveUp::Cancelled));
        // We still hold it for reading: the only reason to wait is gone.
        eventually("the reader gets in", || reading.is_finished());
    });
    assert_eq!(lock.count(), 2 * lock.unit(), "{}", lock.name());
    (0..2).for_each(|_| lock.read_release());
    lock.assert_at_rest();
}

/// A writer past its deadline gets the lock, whoever else tries.
pub(crate) fn handoff_to_writer(make: Make) {
    let lock = &*make(0);
    if !lock.hands_off() {
        return;
    }
    let (got, go) = (&AtomicBool::new(false), &AtomicBool::new(false));
    lock.write();
    scope(|scope| {
        let _watch = OthersWait(lock.name());
        scope.spawn(|| {
            lock.write();
            got.store(true, SeqCst);
            eventually("go", || go.load(SeqCst));
            lock.write_release();
        });
        eventually("handoff is requested", || {
            lock.unpark_first(); // when it looks at its deadline
            lock.count() & HANDOFF != 0
        });
        lock.write_release();
        eventually("the heir", || {
            assert!(!lock.try_write() && !lock.try_read(), "{}: the heir was passed", lock.name());
            assert!(!lock.spinner_write(), "{}: a spinner passed the heir", lock.name());
            got.load(SeqCst)
        });
        go.store(true, SeqCst);
    });
    lock.assert_at_rest();
}

/// A thread that is already waiting (a signal handler in it) gets in past waiters, and leaves
/// nothing behind when it fails.
pub(crate) fn no_place_in_the_queue(make: Make) {
    let lock = &*make(0);
    lock.read();
    scope(|scope| {
        let _watch = OthersWait(lock.name());
        scope.spawn(|| {
            lock.write();
            lock.write_release();
        });
        eventually("the writer queues", || lock.waiting() == 1);
        lock.set_busy(true);
        // The writer may be woken at any time (`waiting` contends for the queue's lock), and then
        // ask for the lock to be kept.
        match lock.read_until(End::After(200 * US)) {
            Ok(()) => lock.read_release(),
            Err(_) => assert!(lock.turns() || lock.count() & HANDOFF != 0, "{}: not let in", lock.name()),
        }
        assert_eq!(lock.write_until(End::After(200 * US)), Err(GaveUp::TimedOut));
        lock.set_busy(false);
        assert_waiters(lock, lock.unit(), true);
        lock.read_release();
    });
    lock.assert_at_rest();
}

/// The rows of the state table that one thread can see.
#[test]
fn table() {
    let lock = &*subject::<Linux>(1);
    lock.read();
    assert_eq!(lock.count(), BIAS);
    assert!(lock.is_locked() && !lock.is_write_locked() && !lock.is_contended());
    assert!(lock.try_read() && !lock.try_write());
    assert!(lock.read_until(End::After(0)).is_ok());
    assert_eq!(lock.write_until(End::After(200 * US)), Err(GaveUp::TimedOut));
    assert_eq!(lock.count(), 3 * BIAS);
    (0..3).for_each(|_| lock.read_release());
    lock.assert_at_rest();

    lock.write();
    assert_eq!(lock.count(), WRITER);
    assert!(lock.is_write_locked());
    assert!(!lock.try_read() && !lock.try_write());
    assert_eq!(lock.read_until(End::After(200 * US)), Err(GaveUp::TimedOut));
    assert_eq!(lock.write_until(End::After(200 * US)), Err(GaveUp::TimedOut));
    lock.cancel(0);
    assert_eq!(lock.read_until(End::Token(0)), Err(GaveUp::Cancelled));
    assert_eq!(lock.write_until(End::Token(0)), Err(GaveUp::Cancelled));
    assert_eq!(lock.count(), WRITER);
    lock.downgrade();
    assert_eq!(lock.count(), BIAS);
    assert!(!lock.is_write_locked() && lock.try_read());
    (0..2).for_each(|_| lock.read_release());
    assert!(lock.write_until(End::Token(0)).is_ok(), "need not wait");
    lock.write_release();
    lock.assert_at_rest();
    assert!(lock.try_write());
    lock.write_release();
    lock.assert_at_rest();
}

/// What a try, or a spinner's try, makes of each value, whether or not it can be reached by one
/// thread. (Of a lock that is kept for a waiter: see `turns`.)
#[test]
fn tries_on_every_state() {
    // value, a reader's try, a writer's try, a spinning writer's try, a spinning reader's try
    let rows = [
        (0, true, true, true, true),
        (BIAS, true, false, false, true),
        (5 * BIAS, true, false, false, true),
        (WRITER, false, false, false, false),
        (LISTENING, true, true, true, true),
        (READFAIL - BIAS, true, false, false, true),
        (READFAIL, false, false, false, false),
        (READERS, false, false, false, false),
    ];
    for (value, read, write, spin_write, spin_read) in rows {
        let check = |what: &str, expected: bool, add: u64, act: &dyn Fn(&dyn Subject) -> bool| {
            let lock = &*subject::<Linux>(0);
            lock.set_count(value);
            assert_eq!(act(lock), expected, "{what} on {value:#x}");
            assert_eq!(lock.count(), if expected { value + add } else { value }, "{what} on {value:#x}");
        };
        check("read", read, BIAS, &|lock| lock.try_read());
        check("write", write, WRITER, &|lock| lock.try_write());
        check("spinning write", spin_write, WRITER, &|lock| lock.spinner_write());
        check("spinning read", spin_read, BIAS, &|lock| lock.spinner_read());
    }
}

mod threads {
    use super::{Linux, subject::subject};

    #[test]
    fn aborts() {
        super::aborts(subject::<Linux>);
    }
    #[test]
    fn first_abort_wakes_next() {
        super::first_abort_wakes_next(subject::<Linux>);
    }
    #[test]
    fn handoff_to_writer() {
        super::handoff_to_writer(subject::<Linux>);
    }
    #[test]
    fn no_place_in_the_queue() {
        super::no_place_in_the_queue(subject::<Linux>);
    }
    #[test]
    fn torture() {
        super::torture::torture(subject::<Linux>, 4, 3_000, 1);
    }
}

/// Where the CPU may be lost anywhere and spins know no time.
#[test]
fn torture_on_another_machine() {
    torture::torture(subject::<Tireless>, 3, 500, 2);
    torture::torture(subject::<Tireless>, 7, 200, 3);
}
