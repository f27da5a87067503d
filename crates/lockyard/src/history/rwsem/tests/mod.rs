//! Every policy: the state table, exclusion, giving up, handoff, grants.
//!
//! Schedules are driven by what the lock's words say, never by sleeping; nothing is asserted about
//! time.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // the tests' threads are the machine's

mod ends;
mod hints;
mod queued;
mod slow;
mod spins;
mod subject;
mod words;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::boxed::Box;
use std::thread::scope;

use super::owner::{RD_NONSPINNABLE, READER_OWNED, WR_NONSPINNABLE};
use super::policy::*;
use super::*;
use crate::platform::linux::Linux;
use crate::rwsem::tests::machine::Tireless;
use crate::rwsem::tests::subject::End;
use crate::rwsem::tests::{self as common, OthersWait, US, assert_waiters, eventually};
use subject::{KernelSubject, kernel, subject};

/// Makes unlocked locks of one policy, with so many tokens.
type Make = fn(usize) -> Box<dyn KernelSubject>;

/// The rows of the state table that one thread can see.
fn table(make: Make) {
    let lock = &*make(1);
    let (unit, writer) = (lock.unit(), lock.writer());

    lock.read();
    assert_eq!(lock.count(), unit);
    assert_ne!(lock.owner() & READER_OWNED, 0);
    assert_eq!(lock.owner() >> 8, lock.me());
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
    assert_eq!(lock.owner(), lock.me() << 8);
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
    assert_ne!(lock.owner() & READER_OWNED, 0);
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
    marks(lock);
}

/// What a try, or a spinner's try, makes of each value, whether or not it can be reached by one
/// thread.
fn tries_on_every_state(make: Make) {
    let lock = &*make(0);
    let (unit, wait, writer) = (lock.unit(), lock.waiters(), lock.writer());
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
        let check = |what: &str, expected: bool, add: u64, act: &dyn Fn(&dyn KernelSubject) -> bool| {
            let lock = &*make(0);
            lock.set_count(value);
            assert_eq!(act(lock), expected, "{}: {what} on {value:#x}", lock.name());
            let after = if expected { value.wrapping_add(add) } else { value };
            assert_eq!(lock.count(), after, "{}: {what} on {value:#x}", lock.name());
            assert_eq!(lock.owner() != 0, expected, "{}: {what} on {value:#x}", lock.name());
        };
        check("read", read, unit, &|lock| lock.try_read());
        check("write", write, writer, &|lock| lock.try_write());
        check("spinning write", spin_write, writer, &|lock| lock.spinner_write());
        if lock.is_bits() {
            check("spinning read", spin_read, unit, &|lock| lock.spinner_read());
        }
    }
    if lock.is_bits() {
        // WAITERS, but nobody is there: the slow path stays, by stealing, spinning, or finding the
        // queue empty.
        lock.set_count(WAITERS);
        lock.read();
        assert_eq!(lock.count(), WAITERS + BIAS, "{}", lock.name());
    }
}

/// The life of the marks in the owner word.
fn marks(lock: &dyn KernelSubject) {
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

/// A reader past its deadline that is passed by a writer once more asks for handoff.
fn handoff_to_reader(make: Make) {
    let lock = &*make(0);
    if !lock.hands_off() {
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

macro_rules! every_policy {
    ($($module:ident: $policy:ident),* $(,)?) => {
        $(mod $module {
            use crate::platform::linux::Linux;
            use crate::history::rwsem::policy::{$policy as Y, Policy};
            use crate::history::rwsem::tests::{self, common, subject::{kernel, subject}};

            #[test]
            fn table() {
                tests::table(subject::<Linux, Y>);
            }
            #[test]
            fn aborts() {
                common::aborts(kernel::<Linux, Y>);
            }
            #[test]
            fn first_abort_wakes_next() {
                common::first_abort_wakes_next(kernel::<Linux, Y>);
            }
            #[test]
            fn handoff_to_writer() {
                common::handoff_to_writer(kernel::<Linux, Y>);
            }
            #[test]
            fn handoff_to_reader() {
                tests::handoff_to_reader(subject::<Linux, Y>);
            }
            #[test]
            fn no_place_in_the_queue() {
                common::no_place_in_the_queue(kernel::<Linux, Y>);
            }
            #[test]
            fn torture() {
                // The others are broken on purpose.
                if Y::TWO_PHASE_GRANT {
                    common::torture::torture(kernel::<Linux, Y>, 4, 3_000, 1);
                }
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
}

/// One policy of each family, where the CPU may be lost anywhere and spins know no time.
#[test]
fn torture_on_another_machine() {
    let families: &[common::Make] = &[
        kernel::<Tireless, XaddBaseline>,
        kernel::<Tireless, HandoffNone>,
        kernel::<Tireless, Handoff4ms>,
        kernel::<Tireless, ReaderSpinOnWriter>,
        kernel::<Tireless, V5_10>,
        kernel::<Tireless, LimitRspin>,
        kernel::<Tireless, V5_16>,
        kernel::<Tireless, TodayKernel>,
    ];
    for make in families {
        common::torture::torture(*make, 3, 500, 2);
        common::torture::torture(*make, 7, 200, 3);
    }
}

/// More readers than one pass serves, or than one list of wake-ups holds.
#[test]
fn one_pass_serves_no_more_than_its_list() {
    many_readers(&*subject::<Linux, TodayKernel>(0), MAX_GRANTS + 40);
    many_readers(&*subject::<Linux, HandoffNone>(0), MAX_GRANTS + 40);
    many_readers(&*subject::<Linux, XaddBaseline>(0), MAX_GRANTS + 40);
}

fn many_readers(lock: &dyn KernelSubject, readers: usize) {
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
        assert_waiters(lock, (served as u64 + 1) * lock.unit(), served < readers);
        lock.read_release();
        go.store(true, SeqCst);
    });
    assert_eq!(inside.load(SeqCst), readers);
    lock.assert_at_rest();
}

#[test]
fn readers_behind_a_writer_are_let_in_by_a_reader_if_the_policy_says_so() {
    fn waiting_after_downgrade(lock: &dyn KernelSubject) -> usize {
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
    let limited = KernelRwSem::<Linux, LimitRspin>::new();
    assert!(limited.spin_slot() && !limited.spin_slot());
    limited.leave_spin_slot();
    assert!(limited.spin_slot());
    let free = KernelRwSem::<Linux, ReaderSteal>::new();
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
