//! Spins, look by look: what begins one, what ends it, and how long it lasts.

use std::vec::Vec;

use super::queued::{queued, was_granted};
use crate::cancel::{GaveUp, Until};
use crate::event::Event::{self, *};
use crate::history::rwsem::owner::{Kind, OwnerState, RD_NONSPINNABLE, READER_OWNED, WR_NONSPINNABLE};
use crate::history::rwsem::policy::*;
use crate::history::rwsem::{BIAS, HANDOFF, KernelRwSem, WAITERS, WRITER, biased};
use crate::platform::{Ordering::SeqCst, Patience, Platform, Word};
use crate::wait::tests::clockwork::*;

type Made<Y> = KernelRwSem<Clockwork, Y>;

/// Thread 7 owns it, or has read it last.
const WRITES: u32 = 7 << 8;
const READS: u32 = 7 << 8 | READER_OWNED;
const FOREVER: Until<'static, Clockwork> = Until::FOREVER;

fn made<Y: Policy>(count: u64, owner: u32) -> &'static Made<Y> {
    let lock = queued::<Y>(count, "");
    lock.owner.store(owner, SeqCst);
    is_preempted(0);
    is_realtime(0);
    should_yield(false);
    budget(u32::MAX);
    events();
    lock
}

fn state<Y: Policy>(lock: &Made<Y>) -> (u64, u32) {
    (lock.count.load(SeqCst), lock.owner.load(SeqCst))
}

fn set<Y: Policy>(lock: &Made<Y>, count: u64, owner: u32) {
    lock.count.store(count, SeqCst);
    lock.owner.store(owner, SeqCst);
}

/// Thread 1 spins: whether it got the lock, after how many nanoseconds, and what it counted.
#[track_caller]
fn spins<Y: Policy>(lock: &Made<Y>, kind: Kind, until: Until<'_, Clockwork>) -> (bool, u64, Vec<(Event, i64)>) {
    let start = Clockwork::now();
    let taken = lock.spin(record(1), kind, until);
    assert!(!lock.osq.is_locked(), "{}: it has left the spin queue", Y::NAME);
    assert_eq!(cues_left(), 0, "{}: it left early", Y::NAME);
    (taken, Clockwork::now() - start, events())
}

fn failed(after: u64) -> (bool, u64, Vec<(Event, i64)>) {
    (false, after, std::vec![(RwsemOptFail, 1)])
}

fn took(after: u64, event: Event) -> (bool, u64, Vec<(Event, i64)>) {
    (true, after, std::vec![(event, 1)])
}

#[test]
fn whether_spinning_is_worth_beginning() {
    fn may<Y: Policy>(kind: Kind, owner: u32) -> bool {
        let lock = made::<Y>(WRITER, owner);
        let yes = lock.can_spin(kind);
        assert_eq!(events(), if yes { std::vec![] } else { std::vec![(RwsemOptFail, 1)] }, "{}", Y::NAME);
        is_preempted(7);
        let preempted = lock.can_spin(kind);
        let looked_at = owner == WRITES || owner == READS && Y::ONCPU_CHECK_ON_READERS;
        assert_eq!(preempted, yes && !looked_at, "{}: its owner does not run", Y::NAME);
        should_yield(true);
        assert!(!lock.can_spin(kind));
        yes
    }
    for kind in [Kind::Read, Kind::Write] {
        assert!(may::<V5_10>(kind, 0) && may::<V5_10>(kind, WRITES) && may::<V5_10>(kind, READS));
        assert!(may::<TimedWriterSpinLiteral>(kind, READS) && may::<TimedWriterSpinLiteral>(kind, WRITES));
    }
    assert!(!may::<V5_10>(Kind::Read, READS | RD_NONSPINNABLE) && may::<V5_10>(Kind::Write, READS | RD_NONSPINNABLE));
    assert!(may::<V5_10>(Kind::Read, READS | WR_NONSPINNABLE) && !may::<V5_10>(Kind::Write, READS | WR_NONSPINNABLE));
    assert!(!may::<TodayKernel>(Kind::Write, READS | RD_NONSPINNABLE) && may::<TodayKernel>(Kind::Write, READS));
    assert!(!may::<HandoffNone>(Kind::Write, READS) && may::<HandoffNone>(Kind::Write, WRITES));
}

#[test]
fn a_spinner_takes_the_lock_when_its_writer_has_gone() {
    fn takes<Y: Policy>(kind: Kind, held: u64, free: u64, taken: u64, event: Event) {
        // It is free, though somebody waits.
        let lock = made::<Y>(free, 0);
        assert_eq!(spins(lock, kind, FOREVER), took(0, event), "{}", Y::NAME);
        assert_eq!(state(lock).0, taken, "{}", Y::NAME);
        // The writer that is watched goes.
        let lock = made::<Y>(held, WRITES);
        (0..3).for_each(|_| at_poll(|| advance(1_000)));
        at_poll(move || set(lock, free, 0));
        assert_eq!(spins(lock, kind, FOREVER), took(3_000, event), "{}", Y::NAME);
        assert_eq!(state(lock), (taken, 1 << 8 | u32::from(kind == Kind::Read)), "{}", Y::NAME);
        // It has not said yet who it is, and goes.
        let lock = made::<Y>(held, 0);
        at_poll(|| advance(1_000));
        at_poll(move || set(lock, free, 0));
        if kind == Kind::Read {
            at_poll(|| {}); // it tries outside its poll
        }
        assert_eq!(spins(lock, kind, FOREVER), took(1_000, event), "{}", Y::NAME);
        // Another writer comes; that one stops running.
        let lock = made::<Y>(held, WRITES);
        at_poll(move || set(lock, held, 8 << 8));
        at_poll(|| {});
        at_poll(|| is_preempted(8));
        assert_eq!(spins(lock, kind, FOREVER), failed(0), "{}", Y::NAME);
        assert_eq!(state(lock), (held, 8 << 8), "{}", Y::NAME);
        // A writer owns it from now on: it is watched.
        let lock = made::<Y>(held, 0);
        at_poll(move || set(lock, held, WRITES));
        at_poll(|| {});
        at_poll(|| is_preempted(7));
        assert_eq!(spins(lock, kind, FOREVER), failed(0), "{}", Y::NAME);
    }
    takes::<HandoffNone>(Kind::Write, WRITER | WAITERS, WAITERS, WRITER | WAITERS, RwsemOptLock);
    takes::<TodayKernel>(Kind::Write, WRITER | WAITERS, WAITERS, WRITER | WAITERS, RwsemOptLock);
    takes::<V5_10>(Kind::Write, WRITER, 0, WRITER, RwsemOptLock);
    takes::<V5_10>(Kind::Read, WRITER | WAITERS, WAITERS, BIAS | WAITERS, RwsemOptRlock);
    let held = biased::W.wrapping_add(biased::WAIT);
    takes::<XaddBaseline>(Kind::Write, held, biased::WAIT, held, RwsemOptLock);
}

/// The gap between the count and the owner word, readers that stay, and what the caller allows.
#[test]
fn a_spin_lasts_as_long_as_the_table_says() {
    // Held by nobody known.
    let lock = made::<TodayKernel>(WRITER, 0);
    assert_eq!(spins(lock, Kind::Write, FOREVER), failed(50_000));
    let lock = made::<V5_10>(WRITER, 0);
    assert_eq!(spins(lock, Kind::Read, FOREVER), failed(50_000));
    // Free but promised: its heir is on its way, so that is no reason to leave.
    for kind in [Kind::Read, Kind::Write] {
        let lock = made::<V5_10>(WAITERS | HANDOFF, 0);
        let (taken, after, counted) = spins(lock, kind, Until::after(120_000));
        assert_eq!((taken, counted, state(lock)), (false, std::vec![(RwsemOptFail, 1)], (WAITERS | HANDOFF, 0)));
        assert!((120_000..121_000).contains(&after), "{after}");
    }
    // Readers: 10 µs, and half a microsecond for each up to thirty.
    for (readers, ns) in [(1, 10_500), (4, 12_000), (30, 25_000), (31, 25_000), (100, 25_000)] {
        let lock = made::<TodayKernel>(readers * BIAS, READS);
        let (taken, after, counted) = spins(lock, Kind::Write, FOREVER);
        assert_eq!((taken, after), (false, ns), "{readers} readers");
        assert_eq!(counted, [(RwsemOptFail, 1), (RwsemOptNospin, 1)]);
        assert_eq!(state(lock), (readers * BIAS, READS | RD_NONSPINNABLE));
    }
    // It marks them only if nothing else ended the spin at that moment.
    let lock = made::<TodayKernel>(BIAS, READS);
    assert_eq!(spins(lock, Kind::Write, Until::after(10_500)), failed(10_500));
    assert_eq!(state(lock), (BIAS, READS));
    let lock = made::<TodayKernel>(BIAS, READS);
    at_poll(|| {
        advance(10_500);
        should_yield(true);
    });
    assert_eq!(spins(lock, Kind::Write, FOREVER), failed(10_500));
    assert_eq!(state(lock), (BIAS, READS));
    // A reader that spins on readers (a writer is about to follow them) has no such limit, but its
    // caller's.
    let lock = made::<V5_10>(WRITER | BIAS, READS);
    assert_eq!(spins(lock, Kind::Read, Until::after(40_000)), failed(40_000));
    assert_eq!(state(lock), (WRITER | BIAS, READS));
    // The caller's deadline, and the machine's budget.
    for (count, owner) in [(WRITER, 0), (WRITER, WRITES), (BIAS, READS)] {
        let lock = made::<TodayKernel>(count, owner);
        assert_eq!(spins(lock, Kind::Write, Until::after(7_000)), failed(7_000), "{count:#x}");
        let lock = made::<TodayKernel>(count, owner);
        budget(6_000);
        assert_eq!(spins(lock, Kind::Write, FOREVER), failed(6_000), "{count:#x}");
        assert_eq!(state(lock), (count, owner), "no mark: it was not the readers' fault");
        let lock = made::<TodayKernel>(count, owner);
        at_poll(|| advance(500));
        at_poll(|| should_yield(true));
        assert_eq!(spins(lock, Kind::Write, FOREVER), failed(500), "{count:#x}");
        assert_eq!(state(lock), (count, owner));
    }
}

/// Each writer that it watches is another one at the next look.
#[test]
fn a_spin_ends_in_time_though_no_watch_does() {
    for (ns, until) in [(u32::MAX, Until::after(1_000)), (1_000, FOREVER)] {
        let lock = made::<TodayKernel>(WRITER, WRITES);
        budget(ns);
        for look in 0..60 {
            at_poll(move || {
                lock.owner.store((7 + look % 2) << 8, SeqCst);
                advance(LOOK_NS);
            });
        }
        let start = Clockwork::now();
        assert!(!lock.spin(record(1), Kind::Write, until));
        assert!((1_000..2_000).contains(&(Clockwork::now() - start)), "{}", Clockwork::now() - start);
        assert!(drop_cues() > 30);
    }
    // And not before.
    let lock = made::<TodayKernel>(WRITER, WRITES);
    at_poll(move || set(lock, WRITER, 8 << 8));
    at_poll(|| advance(LOOK_NS));
    at_poll(move || set(lock, 0, 0));
    assert_eq!(spins(lock, Kind::Write, Until::after(1_000)), took(LOOK_NS, RwsemOptLock));
}

#[test]
fn readers_that_seem_to_go_do_not_begin_a_new_budget() {
    let lock = made::<TodayKernel>(BIAS, READS);
    at_poll(|| advance(6_000));
    at_poll(move || set(lock, BIAS, 0));
    at_poll(move || set(lock, BIAS, READS));
    assert_eq!(spins(lock, Kind::Write, FOREVER).1, 10_500);
    // After a writer they do.
    let lock = made::<TodayKernel>(BIAS, READS);
    at_poll(|| advance(6_000));
    at_poll(move || set(lock, WRITER, WRITES));
    at_poll(|| {});
    at_poll(move || set(lock, WRITER, 8 << 8));
    at_poll(|| {});
    at_poll(move || set(lock, BIAS, READS));
    assert_eq!(spins(lock, Kind::Write, FOREVER).1, 16_500);
    // And the lock is taken as soon as they have gone.
    let lock = made::<TodayKernel>(BIAS | WAITERS, READS);
    at_poll(|| advance(6_000));
    at_poll(move || set(lock, WAITERS, READS));
    assert_eq!(spins(lock, Kind::Write, FOREVER), took(6_000, RwsemOptLock));
}

#[test]
fn a_real_time_spinner_tries_once_more_where_a_writer_has_gone() {
    fn tries<Y: Policy>(again: bool) {
        let lock = made::<Y>(WRITER, WRITES);
        is_realtime(1);
        // One writer after the other, then nobody, and free one look later.
        at_poll(move || set(lock, WRITER, 8 << 8));
        at_poll(|| {});
        at_poll(move || set(lock, WRITER, 0));
        if again {
            at_poll(move || set(lock, 0, 0));
            assert_eq!(spins(lock, Kind::Write, FOREVER), took(0, RwsemOptLock), "{}", Y::NAME);
        } else {
            assert_eq!(spins(lock, Kind::Write, FOREVER), failed(0), "{}", Y::NAME);
        }
        // Where nobody owned it before, it leaves at once.
        let lock = made::<Y>(WRITER, 0);
        is_realtime(1);
        assert_eq!(spins(lock, Kind::Write, FOREVER), failed(0), "{}", Y::NAME);
    }
    tries::<Handoff4ms>(false);
    tries::<WakeAllReaders>(true);
    tries::<TodayKernel>(true);
}

#[test]
fn a_watch_ends_with_a_request_for_handoff_where_that_is_the_rule() {
    fn watches<Y: Policy>() -> OwnerState {
        let lock = made::<Y>(WRITER | WAITERS, WRITES);
        at_poll(|| advance(100));
        at_poll(move || set(lock, WRITER | WAITERS | HANDOFF, WRITES));
        let end = Clockwork::now() + 10_000;
        let seen = lock.watch(Kind::Write, Patience::ns(u32::MAX).until(Some(end)));
        assert_eq!((Clockwork::now() < end, cues_left()), (Y::WATCH_STOPS_ON_HANDOFF, 0), "{}", Y::NAME);
        seen
    }
    assert_eq!(watches::<Handoff4ms>(), OwnerState::Nonspinnable);
    assert_eq!(watches::<V5_10>(), OwnerState::Nonspinnable);
    // It tells what has become of the word.
    let lock = made::<V5_10>(WRITER, WRITES);
    at_poll(move || set(lock, BIAS, READS | WR_NONSPINNABLE));
    assert_eq!(lock.watch(Kind::Read, Patience::ns(u32::MAX)), OwnerState::Reader);
    assert_eq!(lock.watch(Kind::Write, Patience::ns(u32::MAX)), OwnerState::Nonspinnable);
}

#[test]
fn a_reader_spins_before_it_queues_and_lets_others_in_when_it_has_the_lock() {
    // Its bias is out of the way meanwhile, and those who queue come in with it.
    let lock = queued::<V5_10>(WRITER | WAITERS, "rw");
    lock.owner.store(WRITES, SeqCst);
    should_yield(false);
    at_poll(move || {
        assert_eq!(lock.count.load(SeqCst), WRITER | WAITERS);
        set(lock, WAITERS, 0);
    });
    events();
    assert_eq!(lock.read_acquire_until(FOREVER), Ok(()));
    assert_eq!((state(lock), was_granted(2)), (((2 * BIAS) | WAITERS, 1 << 8 | READER_OWNED), true));
    assert_eq!(events(), [(RwsemWakeReader, 1), (RwsemOptRlock, 1)]);
    // The owner stops running, and leaves: nothing of ours is counted, so it must queue, and serves
    // itself.
    let lock = made::<V5_10>(WRITER, WRITES);
    at_poll(move || {
        is_preempted(7);
        set(lock, 0, WRITES);
    });
    assert_eq!(lock.read_acquire_until(FOREVER), Ok(()));
    assert_eq!((state(lock).0, cues_left()), (BIAS, 0));
    let counted = events();
    assert!(counted.contains(&(RwsemRlock, 1)) && !counted.contains(&(RwsemRlockFast, 1)));
    // Behind others: what it leaves is what it found.
    let lock = queued::<V5_10>(WRITER | WAITERS, "w");
    lock.owner.store(WRITES, SeqCst);
    is_preempted(0);
    at_poll(|| is_preempted(7));
    at_sleep(move || assert_eq!(lock.count.load(SeqCst), WRITER | WAITERS));
    at_sleep(|| advance(10_000));
    assert_eq!(lock.read_acquire_until(Until::after(10_000)), Err(GaveUp::TimedOut));
    assert_eq!((state(lock).0, cues_left()), (WRITER | WAITERS, 0));
}

#[test]
fn a_reader_finds_its_place_to_spin_taken() {
    let comes = |spinning| {
        let lock = made::<LimitRspin>(WRITER, WRITES);
        lock.reader_spinners.store(spinning, SeqCst);
        let result = lock.read_acquire_until(Until::after(3_000));
        assert_eq!((result, state(lock).0), (Err(GaveUp::TimedOut), WRITER));
        assert_eq!(lock.reader_spinners.load(SeqCst), spinning, "it gives its place back");
        events().contains(&(RwsemOptFail, 1))
    };
    assert!(comes(0) && !comes(1));
}

#[test]
fn a_new_phase_of_readers_is_worth_one_more_try() {
    fn tries<Y: Policy>(count: u64, owner: u32, before: u32) -> bool {
        let lock = made::<Y>(count, owner);
        let taken = lock.phase_try(record(1).id(), before);
        let counted = [(RwsemOptRlock, 1), (RwsemOptRlock2, 1), (RwsemOptFail, -1)];
        assert_eq!(events(), if taken { &counted[..] } else { &[] });
        assert_eq!(state(lock).0, if taken { count + BIAS } else { count });
        taken
    }
    assert!(tries::<V5_10>(BIAS, READS, 0) && tries::<V5_10>(BIAS, READS, 8 << 8 | READER_OWNED));
    assert!(!tries::<V5_10>(BIAS, READS, READS) && !tries::<V5_10>(0, WRITES, 8 << 8 | READER_OWNED));
    assert!(!tries::<V5_10>(WRITER, READS, 0) && !tries::<V5_10>(BIAS | WAITERS | HANDOFF, READS, 0));
    // In the slow path: readers have come by the time its spin ends.
    fn comes<Y: Policy>() -> (Result<(), GaveUp>, u64) {
        let lock = made::<Y>(WRITER, WRITES);
        at_poll(move || {
            should_yield(true);
            set(lock, BIAS, READS | RD_NONSPINNABLE);
        });
        let result = lock.read_acquire_until(FOREVER);
        assert_eq!(cues_left(), 0);
        (result, events().iter().filter(|counted| **counted == (RwsemOptRlock2, 1)).count() as u64)
    }
    assert_eq!(comes::<V5_10>(), (Ok(()), 1));
    assert_eq!(comes::<TimedWriterSpin>(), (Ok(()), 0));
}

/// Not even for a moment, which would have to be made good by a wake-up.
#[test]
fn a_spinning_reader_does_not_announce_itself_to_a_lock_that_is_promised() {
    for count in [WAITERS | HANDOFF, WRITER | WAITERS] {
        let lock = queued::<V5_10>(count, "w");
        assert!(!lock.spinner_read_try(record(1).id()));
        assert_eq!((lock.count.load(SeqCst), super::queued::was_woken(2)), (count, false));
    }
}

#[test]
fn only_the_last_of_what_a_promised_lock_holds_wakes_its_heir() {
    for (before, wakes) in [
        (BIAS | WAITERS | HANDOFF, true),
        ((2 * BIAS) | WAITERS | HANDOFF, false),
        (WRITER | BIAS | WAITERS | HANDOFF, false),
        (BIAS | WAITERS, false),
    ] {
        let lock = queued::<V5_10>(before, "w");
        lock.take_bias_back();
        assert_eq!((lock.count.load(SeqCst), super::queued::was_woken(2)), (before - BIAS, wakes), "{before:#x}");
    }
}
