//! Every policy: the state table, exclusion, giving up, handoff, grants.
//!
//! Schedules are driven by what the lock's words say, never by sleeping; nothing is asserted about
//! time.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // the tests' threads are the machine's

mod ends;
mod hints;
mod machine;
mod queued;
mod slow;
mod spins;
mod subject;
mod torture;
mod turns;
mod words;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::boxed::Box;
use std::io::Write;
use std::thread::{scope, yield_now};
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::owner::{RD_NONSPINNABLE, READER_OWNED, WR_NONSPINNABLE};
use super::policy::*;
use super::*;
use crate::platform::linux::Linux;
use machine::Tireless;
use subject::{End, Subject, subject};

const US: u64 = 1_000;

/// Makes unlocked locks of one policy, with so many tokens.
type Make = fn(usize) -> Box<dyn Subject>;

fn waiting<P: Platform, Y: Policy>(lock: &RawRwSem<P, Y>) -> usize {
    lock.locked(|| {
        let mut number = 0;
        let mut next = lock.queue.first();
        while let Some(thread) = next {
            number += 1;
            next = lock.queue.after(thread);
        }
        number
    })
}

fn assert_at_rest<P: Platform, Y: Policy>(lock: &RawRwSem<P, Y>) {
    assert_eq!(lock.count.load(SeqCst), 0, "{}: count at rest", Y::NAME);
    assert!(lock.queue.is_empty() && !lock.osq.is_locked() && !lock.wait_lock.is_locked(), "{}", Y::NAME);
    assert_eq!(lock.reader_spinners.load(SeqCst), 0, "{}", Y::NAME);
    assert_eq!(lock.embedder.load(SeqCst), 0, "{}", Y::NAME);
}

/// Ends the test program: threads that hang cannot be joined. Written past the test harness, which
/// would keep it to itself.
fn give_up(what: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "{what} (run the test alone, with --nocapture)");
    std::process::abort()
}

/// Lets others run until `condition`, but not for ever.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > Duration::from_secs(60) {
            give_up(what);
        }
        yield_now();
    }
}

/// While it lives, a panic would leave others waiting.
struct OthersWait(&'static str);

impl Drop for OthersWait {
    fn drop(&mut self) {
        if std::thread::panicking() {
            give_up(self.0);
        }
    }
}

fn writer(lock: &dyn Subject) -> u64 {
    if lock.is_bits() { WRITER } else { biased::W }
}

/// Invariants 2 and 3, for a lock nobody is operating on: `held` is what its holders contribute.
fn assert_waiters(lock: &dyn Subject, held: u64, some: bool) {
    // Who takes turns does not say that somebody waits.
    let waiters = if some && !lock.knobs().turns { lock.knobs().count.waiters() } else { 0 };
    let flags = if lock.is_bits() { HANDOFF | LISTENING | crate::rwsem::ASKS } else { 0 };
    let count = lock.count();
    assert_eq!(count & !flags, held.wrapping_add(waiters), "{}: {count:#x}", lock.name());
    assert!(some || count & flags == 0, "{}: {count:#x}", lock.name());
}

/// The rows of the state table that one thread can see.
fn table(make: Make) {
    let lock = &*make(1);
    let (unit, writer) = (lock.knobs().count.unit(), writer(lock));

    lock.read();
    assert_eq!(lock.count(), unit);
    let noted = !lock.knobs().turns;
    assert_eq!(lock.owner() & READER_OWNED != 0, noted);
    assert_eq!(lock.owner() >> 8, if noted { lock.me() } else { 0 });
    assert!(lock.is_locked() && !lock.is_write_locked() && !lock.is_contended());
    assert!(lock.try_read() && !lock.try_write());
    assert!(lock.read_until(End::After(0)).is_ok());
    assert_eq!(lock.count(), 3 * unit);
    assert_eq!(lock.write_until(End::After(200 * US)), Err(GaveUp::TimedOut));
    assert_eq!(lock.count(), 3 * unit);
    (0..3).for_each(|_| lock.read_release());
    lock.assert_at_rest();

    lock.write();
    assert_eq!(lock.count(), writer);
    assert_eq!(lock.owner(), if noted { lock.me() << 8 } else { 0 });
    assert!(lock.is_write_locked());
    assert!(!lock.try_read() && !lock.try_write());
    assert_eq!(lock.read_until(End::After(200 * US)), Err(GaveUp::TimedOut));
    assert_eq!(lock.write_until(End::After(200 * US)), Err(GaveUp::TimedOut));
    lock.cancel(0);
    assert_eq!(lock.read_until(End::Token(0)), Err(GaveUp::Cancelled));
    assert_eq!(lock.write_until(End::Token(0)), Err(GaveUp::Cancelled));
    assert_eq!(lock.count(), writer);
    lock.downgrade();
    assert_eq!(lock.count(), unit);
    assert_eq!(lock.owner() & READER_OWNED != 0, noted);
    assert!(!lock.is_write_locked());
    assert!(lock.try_read());
    (0..2).for_each(|_| lock.read_release());
    assert!(lock.write_until(End::Token(0)).is_ok(), "need not wait");
    lock.write_release();
    assert_eq!(lock.owner(), 0);
    lock.assert_at_rest();
    assert!(lock.try_write());
    lock.write_release();
    lock.assert_at_rest();

    tries_on_every_state(make);
    if noted {
        marks(lock);
    }
}

/// What a try, or a spinner's try, makes of each value, whether or not it can be reached by one
/// thread.
fn tries_on_every_state(make: Make) {
    let lock = &*make(0);
    let (unit, wait, writer) = (lock.knobs().count.unit(), lock.knobs().count.waiters(), writer(lock));
    // value, a reader's try, a writer's try, a spinning writer's try, a spinning reader's try
    let mut rows = std::vec![
        (0, true, true, true, true),
        (unit, true, false, false, true),
        (5 * unit, true, false, false, true),
        (writer, false, false, false, false),
        (wait, false, false, true, true),
        (wait.wrapping_add(2 * unit), false, false, false, true),
        (wait.wrapping_add(writer), false, false, false, false),
    ];
    if lock.is_bits() {
        rows.push((WAITERS | HANDOFF, false, false, false, false));
        rows.push((WAITERS | HANDOFF | BIAS, false, false, false, false));
        rows.push((READFAIL - BIAS, true, false, false, true));
        rows.push((READFAIL, false, false, false, false));
        rows.push((READERS, false, false, false, false));
    } else {
        rows.push((biased::FULL - 1, true, false, false, false));
        rows.push((biased::FULL, false, false, false, false));
        rows.push((biased::FULL + 1, false, false, false, false));
        rows.push((wait.wrapping_add(biased::FULL), false, false, false, false));
    }
    for (value, read, write, spin_write, spin_read) in rows {
        let check = |what: &str, expected: bool, add: u64, act: &dyn Fn(&dyn Subject) -> bool| {
            let lock = &*make(0);
            lock.set_count(value);
            assert_eq!(act(lock), expected, "{}: {what} on {value:#x}", lock.name());
            let after = if expected { value.wrapping_add(add) } else { value };
            assert_eq!(lock.count(), after, "{}: {what} on {value:#x}", lock.name());
            let noted = expected && !lock.knobs().turns;
            assert_eq!(lock.owner() != 0, noted, "{}: {what} on {value:#x}", lock.name());
        };
        check("read", read, unit, &|lock| lock.try_read());
        check("write", write, writer, &|lock| lock.try_write());
        check("spinning write", spin_write, writer, &|lock| lock.spinner_write());
        if lock.is_bits() {
            check("spinning read", spin_read, unit, &|lock| lock.spinner_read());
        }
    }
    if lock.is_bits() && !lock.knobs().turns {
        // WAITERS, but nobody is there: the slow path stays, by stealing, spinning, or finding the
        // queue empty.
        lock.set_count(WAITERS);
        lock.read();
        assert_eq!(lock.count(), WAITERS + BIAS, "{}", lock.name());
    }
}

/// The life of the marks in the owner word.
fn marks(lock: &dyn Subject) {
    let marks = || lock.owner() & (RD_NONSPINNABLE | WR_NONSPINNABLE);
    let (fresh, set, kept) = match (lock.knobs().nonspin, lock.knobs().nonspin_keep) {
        (Nonspin::WithReader, _) => (RD_NONSPINNABLE, RD_NONSPINNABLE, RD_NONSPINNABLE),
        (Nonspin::Split, Keep::Nothing) => (0, RD_NONSPINNABLE | WR_NONSPINNABLE, 0),
        (Nonspin::Split, _) => (0, RD_NONSPINNABLE | WR_NONSPINNABLE, RD_NONSPINNABLE),
        (Nonspin::Single, _) => (0, RD_NONSPINNABLE, RD_NONSPINNABLE),
    };
    lock.set_nonspinnable();
    assert_eq!(marks(), 0, "only readers are marked");
    lock.own_as_reader();
    assert_eq!(marks(), fresh, "{}", lock.name());
    lock.set_nonspinnable();
    assert_eq!(marks(), set, "{}", lock.name());
    lock.own_as_reader();
    assert_eq!(marks(), kept, "{}", lock.name());
    lock.own_as_writer();
    assert_eq!(marks(), 0, "{}", lock.name());
}

/// Waiters give up, whichever is first: flags follow the queue (historical bugs B9, B17).
fn aborts(make: Make) {
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
        assert_waiters(lock, writer(lock), true);
        lock.cancel(victim);
        let gone = waiters.remove(victim);
        eventually("a wait ends", || gone.is_finished());
        assert_eq!(gone.join().unwrap(), Err(GaveUp::Cancelled));
        assert_eq!(lock.waiting(), number - 1);
        assert_waiters(lock, writer(lock), number > 1);
        lock.write_release();
        for waiter in waiters {
            eventually("those who stayed get it", || waiter.is_finished());
            assert_eq!(waiter.join().unwrap(), Ok(()));
        }
    });
    lock.assert_at_rest();
}

/// A first waiter that gives up wakes those it kept waiting (historical bug B10).
fn first_abort_wakes_next(make: Make) {
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
    assert_eq!(lock.count(), 2 * lock.knobs().count.unit(), "{}", lock.name());
    (0..2).for_each(|_| lock.read_release());
    lock.assert_at_rest();
}

/// A writer past its deadline gets the lock, whoever else tries.
fn handoff_to_writer(make: Make) {
    let lock = &*make(0);
    if !lock.knobs().handoff.exists() {
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

/// A reader past its deadline that is passed by a writer once more asks for handoff.
fn handoff_to_reader(make: Make) {
    let lock = &*make(0);
    if !lock.knobs().handoff.exists() || lock.knobs().turns {
        return;
    }
    let (got, go) = (&AtomicBool::new(false), &AtomicBool::new(false));
    lock.write();
    scope(|scope| {
        let _watch = OthersWait(lock.name());
        scope.spawn(|| {
            lock.read();
            got.store(true, SeqCst);
            eventually("go", || go.load(SeqCst));
            lock.read_release();
        });
        eventually("the reader queues", || lock.waiting() == 1);
        eventually("handoff is requested", || {
            lock.grant_pass(); // as after a release and a steal: it finds a writer
            assert_eq!(lock.count() & READERS, 0, "{}: a probe was left behind", lock.name());
            lock.count() & HANDOFF != 0
        });
        lock.write_release();
        eventually("the heir", || {
            assert!(!lock.try_write() && !lock.spinner_write(), "{}: the heir was passed", lock.name());
            got.load(SeqCst)
        });
        assert_eq!(lock.count(), BIAS, "{}", lock.name());
        go.store(true, SeqCst);
    });
    lock.assert_at_rest();
}

/// A thread that is already waiting (a signal handler in it) gets in past waiters, and leaves
/// nothing behind when it fails.
fn no_place_in_the_queue(make: Make) {
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
            Err(_) => assert!(lock.knobs().turns || lock.count() & HANDOFF != 0, "{}: not let in", lock.name()),
        }
        assert_eq!(lock.write_until(End::After(200 * US)), Err(GaveUp::TimedOut));
        lock.set_busy(false);
        assert_waiters(lock, lock.knobs().count.unit(), true);
        lock.read_release();
    });
    lock.assert_at_rest();
}

macro_rules! every_policy {
    ($($module:ident: $policy:ident),* $(,)?) => {
        $(mod $module {
            use crate::platform::linux::Linux;
            use crate::rwsem::policy::$policy as Y;
            use crate::rwsem::tests::{self, subject::subject};

            #[test]
            fn table() {
                tests::table(subject::<Linux, Y>);
            }
            #[test]
            fn aborts() {
                tests::aborts(subject::<Linux, Y>);
            }
            #[test]
            fn first_abort_wakes_next() {
                tests::first_abort_wakes_next(subject::<Linux, Y>);
            }
            #[test]
            fn handoff_to_writer() {
                tests::handoff_to_writer(subject::<Linux, Y>);
            }
            #[test]
            fn handoff_to_reader() {
                tests::handoff_to_reader(subject::<Linux, Y>);
            }
            #[test]
            fn no_place_in_the_queue() {
                tests::no_place_in_the_queue(subject::<Linux, Y>);
            }
            #[test]
            fn torture() {
                tests::torture::torture(subject::<Linux, Y>, 4, 3_000, 1);
            }
        })*

        #[test]
        fn every_policy_is_tested_and_named() {
            assert_eq!([$($policy::NAME),*], NAMES);
        }
    };
}

every_policy! {
    xadd_baseline: XaddBaseline,
    xadd_baseline_literal: XaddBaselineLiteral,
    handoff_none: HandoffNone,
    handoff_4ms: Handoff4ms,
    handoff_immediate: HandoffImmediate,
    wake_all_readers: WakeAllReaders,
    reader_spin_on_writer: ReaderSpinOnWriter,
    timed_writer_spin: TimedWriterSpin,
    timed_writer_spin_literal: TimedWriterSpinLiteral,
    adaptive_rspin: AdaptiveRspin,
    v5_10: V5_10,
    starvation_guard: StarvationGuard,
    reader_steal: ReaderSteal,
    reader_steal_v2: ReaderStealV2,
    limit_rspin: LimitRspin,
    no_rspin: NoRspin,
    v5_16: V5_16,
    today_kernel: TodayKernel,
    today: Today,
}

/// One policy of each family, where the CPU may be lost anywhere and spins know no time.
#[test]
fn torture_on_another_machine() {
    let families: &[Make] = &[
        subject::<Tireless, XaddBaseline>,
        subject::<Tireless, HandoffNone>,
        subject::<Tireless, Handoff4ms>,
        subject::<Tireless, ReaderSpinOnWriter>,
        subject::<Tireless, V5_10>,
        subject::<Tireless, LimitRspin>,
        subject::<Tireless, V5_16>,
        subject::<Tireless, TodayKernel>,
        subject::<Tireless, Today>,
    ];
    for make in families {
        torture::torture(*make, 3, 500, 2);
        torture::torture(*make, 7, 200, 3);
    }
}

/// More readers than one pass serves, or than one list of wake-ups holds.
#[test]
fn one_pass_serves_no_more_than_its_list() {
    many_readers(&*subject::<Linux, TodayKernel>(0), MAX_GRANTS + 40);
    many_readers(&*subject::<Linux, HandoffNone>(0), MAX_GRANTS + 40);
    many_readers(&*subject::<Linux, XaddBaseline>(0), MAX_GRANTS + 40);
}

fn many_readers(lock: &dyn Subject, readers: usize) {
    let (inside, go) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    lock.write();
    scope(|scope| {
        let _watch = OthersWait(lock.name());
        for _ in 0..readers {
            let small = std::thread::Builder::new().stack_size(64 << 10);
            let read = || {
                lock.read();
                inside.fetch_add(1, SeqCst);
                eventually("go", || go.load(SeqCst));
                lock.read_release();
            };
            small.spawn_scoped(scope, read).unwrap();
        }
        eventually("all queue", || lock.waiting() == readers);
        lock.downgrade();
        let limited = lock.knobs().wake_readers == WakeReaders::All;
        let served = if limited { readers.min(MAX_GRANTS) } else { readers };
        eventually("one pass is served", || inside.load(SeqCst) == served);
        assert_eq!(lock.waiting(), readers - served);
        assert_waiters(lock, (served as u64 + 1) * lock.knobs().count.unit(), served < readers);
        lock.read_release();
        go.store(true, SeqCst);
    });
    assert_eq!(inside.load(SeqCst), readers);
    lock.assert_at_rest();
}

#[test]
fn readers_behind_a_writer_are_let_in_by_a_reader_if_the_policy_says_so() {
    fn waiting_after_downgrade(lock: &dyn Subject) -> usize {
        lock.write();
        scope(|scope| {
            let _watch = OthersWait(lock.name());
            scope.spawn(|| {
                lock.write();
                lock.write_release();
            });
            eventually("the writer queues", || lock.waiting() == 1);
            let reader = scope.spawn(|| {
                lock.read();
                lock.read_release();
            });
            eventually("the reader queues", || lock.waiting() == 2);
            lock.downgrade();
            let left = lock.waiting();
            if left == 1 {
                reader.join().unwrap();
            }
            lock.read_release();
            left
        })
    }
    assert_eq!(waiting_after_downgrade(&*subject::<Linux, ReaderSteal>(0)), 2);
    assert_eq!(waiting_after_downgrade(&*subject::<Linux, ReaderStealV2>(0)), 1);
    assert_eq!(waiting_after_downgrade(&*subject::<Linux, TodayKernel>(0)), 2);
}

#[test]
fn only_so_many_readers_spin() {
    let limited = RawRwSem::<Linux, LimitRspin>::new();
    assert!(limited.spin_slot() && !limited.spin_slot());
    limited.leave_spin_slot();
    assert!(limited.spin_slot());
    let free = RawRwSem::<Linux, ReaderSteal>::new();
    assert!((0..9).all(|_| free.spin_slot()));
}

#[test]
fn policies_are_found_by_name() {
    struct Name;
    impl Visitor for Name {
        type Output = &'static str;
        fn policy<Y: Policy>(self) -> &'static str {
            Y::NAME
        }
    }
    for &name in NAMES {
        assert_eq!(visit(name, Name), Some(name));
        assert_eq!(NAMES.iter().filter(|other| **other == name).count(), 1);
    }
    assert_eq!(visit("tomorrow", Name), None);
}
