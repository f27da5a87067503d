//! What is done to the queue under the wait lock, on queues made by hand: whom a grant pass serves,
//! what it leaves in the count, and who is looked after by those who come and go.

use std::boxed::Box;
use std::vec::Vec;

use crate::event::Event;
use crate::history::rwsem::grant::{HANDOFF_SET, Mode, WRITES, Wakes};
use crate::history::rwsem::owner::{RD_NONSPINNABLE, READER_OWNED, WR_NONSPINNABLE};
use crate::history::rwsem::policy::*;
use crate::history::rwsem::{BIAS, HANDOFF, KernelRwSem, MAX_GRANTS, READFAIL, WAITERS, WRITER};
use crate::platform::thread::Thread;
use crate::platform::{Ordering::SeqCst, Platform, Word};
use crate::wait::tests::clockwork::{Clockwork, advance, events, record};

type Made<Y> = KernelRwSem<Clockwork, Y>;

const NEVER: &[u32] = &[];

/// A lock with this count and queue: `r` a reader, `w` a writer, from thread 2 on.
pub(super) fn queued<Y: Policy>(count: u64, kinds: &str) -> &'static Made<Y> {
    let lock = Box::leak(Box::new(Made::<Y>::new()));
    lock.count.store(count, SeqCst);
    for (kind, who) in kinds.chars().zip(2..) {
        was_woken(who);
        record(who).waiter.reserved.store(0, SeqCst);
        lock.prepare(record(who), if kind == 'w' { WRITES } else { 0 }, 0);
        lock.queue.push(record(who));
    }
    lock
}

/// Uses the wake-up up.
pub(super) fn was_woken(who: u32) -> bool {
    let woken = record(who).is_notified();
    if woken {
        record(who).park(Some(0));
    }
    woken
}

pub(super) fn was_granted(who: u32) -> bool {
    record(who).waiter.granted.load(SeqCst) != 0
}

pub(super) fn still_queued<Y: Policy>(lock: &Made<Y>) -> Vec<u32> {
    let first = lock.queue.first();
    core::iter::successors(first, |thread: &&'static Thread<Clockwork>| lock.queue.after(thread))
        .map(|thread| thread.id().raw())
        .collect()
}

/// After something was done to a lock: its count, who is left in the queue, who was let in, and who
/// of those left was woken.
#[track_caller]
fn assert_left<Y: Policy>(lock: &Made<Y>, count: u64, left: &[u32], granted: &[u32], woken: &[u32]) {
    assert_eq!(lock.count.load(SeqCst), count, "{}: {:#x}", Y::NAME, lock.count.load(SeqCst));
    assert_eq!(still_queued(lock), left, "{}", Y::NAME);
    for who in 2..10 {
        assert_eq!(was_granted(who), granted.contains(&who), "{}: thread {who} granted", Y::NAME);
        assert_eq!(was_woken(who), granted.contains(&who) || woken.contains(&who), "{}: thread {who} woken", Y::NAME);
        record(who).waiter.granted.store(0, SeqCst);
    }
    assert!(!lock.wait_lock.is_locked());
}

/// A pass over a queue.
#[track_caller]
fn pass<Y: Policy>(mode: Mode, (count, kinds): (u64, &str), after: u64, left: &[u32], granted: &[u32], woken: &[u32]) {
    let lock = queued::<Y>(count, kinds);
    events();
    lock.wake(mode);
    assert_left(lock, after, left, granted, woken);
    let mut expected = Vec::new();
    if !granted.is_empty() {
        expected.push((Event::RwsemWakeReader, 1));
        let owner = lock.owner.load(SeqCst);
        let first = if mode == Mode::ReadOwned { 0 } else { granted[0] << 8 | READER_OWNED };
        assert_eq!(owner & !(RD_NONSPINNABLE | WR_NONSPINNABLE), first, "{}: the first reader is noted", Y::NAME);
    }
    if !woken.is_empty() {
        expected.push((Event::RwsemWakeWriter, 1));
    }
    assert_eq!(events(), expected, "{}", Y::NAME);
}

#[test]
fn a_pass_serves_whom_its_mode_and_its_policy_say() {
    use Mode::{Any, ReadOwned, Readers};
    fn every<Y: Policy>() {
        pass::<Y>(Any, (WAITERS, "wr"), WAITERS, &[2, 3], NEVER, &[2]);
        pass::<Y>(Readers, (BIAS | WAITERS, "w"), BIAS | WAITERS, &[2], NEVER, NEVER);
        pass::<Y>(ReadOwned, (BIAS | WAITERS, "w"), BIAS | WAITERS, &[2], NEVER, NEVER);
        pass::<Y>(Any, (WAITERS, "rr"), 2 * BIAS, &[], &[2, 3], NEVER);
        pass::<Y>(Readers, (BIAS | WAITERS, "rr"), 3 * BIAS, &[], &[2, 3], NEVER);
        pass::<Y>(ReadOwned, (BIAS | WAITERS, "rr"), 3 * BIAS, &[], &[2, 3], NEVER);
        pass::<Y>(Any, (WAITERS | HANDOFF, "rw"), BIAS | WAITERS, &[3], &[2], NEVER);
        pass::<Y>(ReadOwned, (BIAS | WAITERS | HANDOFF, "r"), 2 * BIAS, &[], &[2], NEVER);
        pass::<Y>(Any, (0, ""), 0, &[], NEVER, NEVER);
    }
    every::<Handoff4ms>();
    every::<V5_10>();
    every::<TodayKernel>();
    pass::<Handoff4ms>(Any, (WAITERS, "rwr"), BIAS | WAITERS, &[3, 4], &[2], NEVER);
    pass::<WakeAllReaders>(Any, (WAITERS, "rwr"), (2 * BIAS) | WAITERS, &[3], &[2, 4], NEVER);
    // Only a reader that holds the lock lets in who is behind a writer, and the request of that one
    // stays.
    let promised = BIAS | WAITERS | HANDOFF;
    pass::<ReaderSteal>(ReadOwned, (promised, "wrr"), promised, &[2, 3, 4], NEVER, NEVER);
    pass::<ReaderStealV2>(ReadOwned, (promised, "wrr"), promised + 2 * BIAS, &[2], &[3, 4], NEVER);
    pass::<ReaderStealV2>(ReadOwned, (promised, "ww"), promised, &[2, 3], NEVER, NEVER);
    pass::<ReaderStealV2>(Readers, (promised, "wr"), promised, &[2, 3], NEVER, NEVER);
    // Overflown readers let no more in where the policy looks.
    pass::<TodayKernel>(Any, (READFAIL | WAITERS, "r"), READFAIL | WAITERS, &[2], NEVER, NEVER);
    pass::<WakeAllReaders>(Any, (READFAIL | WAITERS, "r"), READFAIL | BIAS, &[], &[2], NEVER);
}

#[test]
fn a_probe_that_meets_a_writer_takes_itself_back() {
    fn probed<Y: Policy>(asks: bool, entitles: bool) {
        let held = WRITER | WAITERS;
        let Handoff::After(ns) = Y::HANDOFF else {
            let lock = queued::<Y>(held, "r");
            advance(1_000_000_000);
            lock.wake(Mode::Any);
            return assert_left(lock, held, &[2], NEVER, NEVER);
        };
        let lock = queued::<Y>(held, "r");
        events();
        advance(ns);
        lock.wake(Mode::Any);
        assert_left(lock, held, &[2], NEVER, NEVER);
        assert_eq!(events(), [], "{}: its time is not over yet", Y::NAME);
        advance(1);
        for expected in [&[(Event::RwsemRlockHandoff, 1)][..], &[]] {
            lock.wake(Mode::Any);
            assert!(asks);
            assert_left(lock, held | HANDOFF, &[2], NEVER, NEVER);
            assert_eq!(events(), expected, "{}", Y::NAME);
            assert_eq!(record(2).waiter.kind.load(SeqCst), if entitles { HANDOFF_SET } else { 0 }, "{}", Y::NAME);
        }
    }
    probed::<HandoffNone>(false, false);
    probed::<Handoff4ms>(true, false);
    probed::<HandoffImmediate>(true, false);
    probed::<V5_10>(true, false);
    probed::<TodayKernel>(true, true);
}

#[test]
fn a_pass_ends_where_its_list_does_and_knows_whether_that_was_all() {
    fn crowd<Y: Policy>(readers: usize, writers: usize, served: usize) {
        let kinds: Vec<u8> = (0..readers + writers).map(|who| if who < readers { b'r' } else { b'w' }).collect();
        let lock = queued::<Y>(WAITERS, core::str::from_utf8(&kinds).unwrap());
        lock.wake(Mode::Any);
        let waiters = if served < kinds.len() { WAITERS } else { 0 };
        assert_eq!(lock.count.load(SeqCst), (served as u64 * BIAS) | waiters, "{}: {readers}", Y::NAME);
        assert_eq!(still_queued(lock).len(), kinds.len() - served);
        for who in 2..2 + kinds.len() as u32 {
            let expected = who < 2 + served as u32;
            assert_eq!((was_granted(who), was_woken(who)), (expected, expected), "{}: thread {who}", Y::NAME);
        }
    }
    crowd::<TodayKernel>(MAX_GRANTS, 0, MAX_GRANTS);
    crowd::<TodayKernel>(MAX_GRANTS, 1, MAX_GRANTS);
    crowd::<TodayKernel>(MAX_GRANTS + 1, 0, MAX_GRANTS);
    crowd::<Handoff4ms>(MAX_GRANTS + 44, 0, MAX_GRANTS + 44);
    crowd::<Handoff4ms>(2 * MAX_GRANTS, 1, 2 * MAX_GRANTS);
}

/// What the three rules make of a lock that `count` says is held so, for a queue that begins with
/// `first`.
#[test]
fn who_queues_looks_after_the_others_as_its_policy_says() {
    const FREE: u64 = WAITERS;
    const READ: u64 = WAITERS | BIAS;
    const WRITTEN: u64 = WAITERS | WRITER;
    fn reader<Y: Policy>(count: u64, first: bool, looks: bool, clears: bool) {
        after::<Y>(count, looks, clears, |lock, wakes| lock.grant_after_reader(count, first, wakes));
    }
    fn writer<Y: Policy>(count: u64, looks: bool, clears: bool) {
        after::<Y>(count, looks, clears, |lock, wakes| lock.grant_after_writer(count, wakes));
    }
    fn after<Y: Policy>(count: u64, looks: bool, clears: bool, act: impl Fn(&Made<Y>, &mut Wakes)) {
        let lock = queued::<Y>(count, "r");
        lock.owned_by_reader(record(9).id(), 0);
        lock.set_nonspinnable();
        let marked = lock.owner.load(SeqCst);
        lock.locked_waking(|wakes| act(lock, wakes));
        let added = if looks { BIAS.wrapping_sub(WAITERS) } else { 0 };
        let (left, granted): (&[u32], &[u32]) = if looks { (&[], &[2]) } else { (&[2], &[]) };
        assert_left(lock, count.wrapping_add(added), left, granted, NEVER);
        // Who was let in has kept the marks that were left.
        let mark = if Y::NONSPIN == Nonspin::Split { WR_NONSPINNABLE } else { RD_NONSPINNABLE };
        let kept = Y::NONSPIN == Nonspin::WithReader || !looks && !clears || Y::NONSPIN == Nonspin::Single && !clears;
        assert_eq!(lock.owner.load(SeqCst) & mark, if kept { marked & mark } else { 0 }, "{}: {count:#x}", Y::NAME);
    }
    // Rule A, and B, which also clears.
    reader::<HandoffNone>(FREE, false, true, false);
    reader::<HandoffNone>(READ, true, true, false);
    reader::<HandoffNone>(READ, false, false, false);
    reader::<HandoffNone>(WRITTEN, true, false, false);
    writer::<HandoffNone>(FREE, false, false);
    writer::<HandoffNone>(READ, true, false);
    writer::<HandoffNone>(WRITTEN, false, false);
    reader::<NoRspin>(FREE, false, true, true);
    reader::<NoRspin>(READ, true, true, false);
    reader::<NoRspin>(READ, false, false, false);
    reader::<NoRspin>(WRITTEN, true, false, false);
    writer::<NoRspin>(FREE, true, false);
    writer::<NoRspin>(READ, true, false);
    writer::<NoRspin>(WRITTEN, false, false);
    // Rule C.
    for first in [false, true] {
        reader::<TodayKernel>(FREE, first, true, true);
        reader::<TodayKernel>(READ, first, true, false);
        reader::<TodayKernel>(WRITTEN, first, false, false);
    }
    writer::<TodayKernel>(FREE, true, true);
    writer::<TodayKernel>(READ, true, false);
    writer::<TodayKernel>(WRITTEN, false, false);
}

/// Only rules B and C wake a first writer on a free lock, and nobody does where somebody holds it.
#[test]
fn a_writer_that_queues_behind_a_writer_wakes_it_on_a_free_lock() {
    fn woken<Y: Policy>(count: u64) -> bool {
        let lock = queued::<Y>(count, "w");
        lock.locked_waking(|wakes| lock.grant_after_writer(count, wakes));
        was_woken(2)
    }
    for (held, expected) in [(WAITERS, true), (WAITERS | BIAS, false), (WAITERS | WRITER, false)] {
        assert!(!woken::<HandoffNone>(held));
        assert_eq!(woken::<NoRspin>(held), expected);
        assert_eq!(woken::<TodayKernel>(held), expected);
    }
}

#[test]
fn who_gives_up_takes_its_marks_along_and_wakes_the_next_if_that_was_its_turn() {
    fn leaves<Y: Policy>((count, kinds): (u64, &str), who: u32, promised: bool, after: u64, woken: &[u32]) {
        let lock = queued::<Y>(count, kinds);
        lock.locked_waking(|wakes| lock.abort(record(who), promised, wakes));
        let left: Vec<_> = (2..2 + kinds.len() as u32).filter(|other| *other != who).collect();
        assert_left(lock, after, &left, NEVER, woken);
    }
    let promised = WRITER | WAITERS | HANDOFF;
    // Alone: nothing is left. (A writer that leaves the lock to others keeps the request where it
    // is the lock's.)
    leaves::<V5_10>((promised, "w"), 2, true, WRITER, NEVER);
    leaves::<V5_10>((promised, "w"), 2, false, WRITER, NEVER);
    leaves::<TodayKernel>((promised, "w"), 2, false, WRITER, NEVER);
    leaves::<V5_10>((promised, "ww"), 2, true, WRITER | WAITERS, &[3]);
    leaves::<V5_10>((promised, "ww"), 2, false, promised, &[3]);
    leaves::<TodayKernel>((promised, "ww"), 2, false, promised, &[3]);
    // Before 2022 a reader woke nobody, and a writer always did; since, whoever was first.
    leaves::<V5_10>((promised, "rw"), 2, false, promised, NEVER);
    leaves::<V5_10>((promised, "ww"), 3, false, promised, &[2]);
    leaves::<TodayKernel>((promised, "rw"), 2, false, promised, &[3]);
    leaves::<TodayKernel>((promised, "ww"), 3, false, promised, NEVER);
}

#[test]
fn readers_are_told_only_what_the_policy_keeps() {
    // The mark against readers that a queued reader has seen goes on to those who spin.
    fn note<Y: Policy>(note: u32) -> (u32, Vec<(Event, i64)>) {
        let lock = queued::<Y>(WAITERS, "r");
        record(2).waiter.note.store(note, SeqCst);
        events();
        lock.wake(Mode::Any);
        (lock.owner.load(SeqCst), events())
    }
    let (owner, pass) = (2 << 8 | READER_OWNED, (Event::RwsemWakeReader, 1));
    let mut both = std::vec![pass, (Event::RwsemOptNorspin, 1)];
    both.sort();
    let sorted = |(owner, mut events): (u32, Vec<(Event, i64)>)| {
        events.sort();
        (owner, events)
    };
    assert_eq!(sorted(note::<V5_10>(RD_NONSPINNABLE | READER_OWNED | 7 << 8)), (owner | RD_NONSPINNABLE, both));
    assert_eq!(sorted(note::<V5_10>(READER_OWNED | WR_NONSPINNABLE | 7 << 8)), (owner, std::vec![pass]));
    assert_eq!(sorted(note::<TimedWriterSpin>(RD_NONSPINNABLE)), (owner, std::vec![pass]));
    // One that is there already stays.
    let lock = queued::<V5_10>(WAITERS, "r");
    lock.owner.store(RD_NONSPINNABLE | WR_NONSPINNABLE | READER_OWNED, SeqCst);
    record(2).waiter.note.store(RD_NONSPINNABLE, SeqCst);
    lock.wake(Mode::Any);
    assert_eq!(lock.owner.load(SeqCst), owner | RD_NONSPINNABLE);
}

#[test]
fn nobody_is_woken_before_the_queue_is_free() {
    let lock = queued::<TodayKernel>(WAITERS, "rrw");
    let mut wakes = Wakes::new();
    lock.locked(|| {
        lock.grant(Mode::Any, &mut wakes);
        for who in [2, 3] {
            assert!(was_granted(who) && !was_woken(who));
        }
    });
    wakes.wake::<Clockwork>();
    assert!(was_woken(2) && was_woken(3) && !was_woken(4));
}

#[test]
fn the_clock_of_a_waiter_starts_when_it_queues() {
    let lock = queued::<TodayKernel>(WAITERS, "r");
    let due = record(2).waiter.due.load(SeqCst);
    assert_eq!(due, Clockwork::now() + 4_000_000);
    advance(1);
    lock.prepare(record(2), WRITES, 5);
    assert_eq!(record(2).waiter.due.load(SeqCst), due + 1);
    assert_eq!((record(2).waiter.kind.load(SeqCst), record(2).waiter.note.load(SeqCst)), (WRITES, 5));
}
