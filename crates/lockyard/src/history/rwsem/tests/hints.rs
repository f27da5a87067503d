//! What the policies make of hints that Linux does not give, on [`Tireless`]; and spins that must
//! end although nothing ends them from outside.

use std::thread::scope;
use std::vec::Vec;

use super::subject::assert_at_rest;
use super::{OthersWait, eventually};
use crate::cancel::Until;
use crate::history::rwsem::grant::{HANDOFF_SET, WRITES};
use crate::history::rwsem::owner::{Kind, RD_NONSPINNABLE, WR_NONSPINNABLE, me};
use crate::history::rwsem::policy::*;
use crate::history::rwsem::{BIAS, HANDOFF, KernelRwSem, WAITERS, WRITER, biased};
use crate::platform::{Ordering::SeqCst, Platform, Word};
use crate::rwsem::tests::machine::{Tireless, become_realtime};
use crate::rwsem::tests::subject::waiting;

type Tried<Y> = KernelRwSem<Tireless, Y>;

fn count<Y: Policy>(lock: &Tried<Y>) -> u64 {
    lock.count.load(SeqCst)
}

/// A lock that the caller holds for reading, and for which nobody spins.
fn held_unspinnable<Y: Policy>() -> Tried<Y> {
    let lock = Tried::<Y>::new();
    lock.read_acquire();
    lock.set_nonspinnable();
    lock
}

/// Writers queue one after the other, the last with real-time priority; `look` sees the queue
/// before it is woken. Then all get the lock.
fn queue_of_writers<Y: Policy>(writers: usize, look: impl FnOnce(&Tried<Y>)) {
    let lock = &held_unspinnable::<Y>();
    scope(|scope| {
        let _watch = OthersWait(Y::NAME);
        for who in 1..=writers {
            scope.spawn(move || {
                if who == writers {
                    become_realtime();
                }
                lock.write_acquire();
                // SAFETY: acquired above.
                unsafe { lock.write_release() };
            });
            // Counting them takes the queue's lock, for which a waiter may have to park, and so
            // wake once more than it would: the first shows in the word.
            eventually("a writer queues", || {
                if who == 1 { count(lock) & WAITERS != 0 } else { waiting(&lock.wait_lock, &lock.queue) == who }
            });
        }
        look(lock);
        // SAFETY: held since the start.
        unsafe { lock.read_release() };
    });
    assert_at_rest(lock);
}

fn wake_last<Y: Policy>(lock: &Tried<Y>) {
    lock.locked(|| {
        let mut last = lock.queue.first();
        while let Some(next) = last.and_then(|thread| lock.queue.after(thread)) {
            last = Some(next);
        }
        last.unwrap().unpark();
    });
}

/// Who in the queue is entitled to the handoff.
fn entitled<Y: Policy>(lock: &Tried<Y>) -> Vec<bool> {
    lock.locked(|| {
        let mut list = Vec::new();
        let mut next = lock.queue.first();
        while let Some(thread) = next {
            list.push(thread.waiter.kind.load(SeqCst) & HANDOFF_SET != 0);
            next = lock.queue.after(thread);
        }
        list
    })
}

#[test]
fn a_real_time_writer_asks_at_once_or_after_its_first_wake_up() {
    queue_of_writers::<TodayKernel>(1, |lock| {
        eventually("it asks at once", || count(lock) & HANDOFF != 0);
        assert_eq!(entitled(lock), [true]);
    });
    queue_of_writers::<V5_10>(1, |lock| {
        assert_eq!(count(lock) & HANDOFF, 0);
        eventually("it asks when woken", || {
            wake_last(lock);
            count(lock) & HANDOFF != 0
        });
    });
    queue_of_writers::<HandoffNone>(1, |lock| {
        (0..20).for_each(|_| wake_last(lock));
        assert_eq!(count(lock) & HANDOFF, 0);
    });
}

/// Historical bug B13: the one that asks must not spin for it if it is not first.
#[test]
fn the_first_waiter_is_entitled_whoever_asks() {
    queue_of_writers::<TodayKernel>(2, |lock| {
        eventually("the second asks", || count(lock) & HANDOFF != 0);
        assert_eq!(entitled(lock), [true, false]);
    });
    // Unless the first wakes by itself, late, and asks before: then once more.
    let second_asked = || {
        let mut asked = Vec::new();
        queue_of_writers::<V5_16>(2, |lock| {
            eventually("one of the two asks", || count(lock) & HANDOFF != 0);
            asked = entitled(lock);
        });
        assert!(asked == [false, true] || asked == [true, false], "{asked:?}");
        asked == [false, true]
    };
    assert!((0..100).any(|_| second_asked()));
}

#[test]
fn a_real_time_spinner_does_not_wait_for_an_owner_to_appear() {
    fn leaves<Y: Policy>() {
        std::thread::spawn(|| {
            become_realtime();
            let lock = Tried::<Y>::new();
            lock.count.store(WAITERS | HANDOFF, SeqCst);
            assert!(!lock.spin(Tireless::current().unwrap(), Kind::Write, Until::FOREVER), "{}", Y::NAME);
            assert_eq!(count(&lock), WAITERS | HANDOFF);
        })
        .join()
        .unwrap();
    }
    leaves::<Handoff4ms>();
    leaves::<V5_10>();
    leaves::<TodayKernel>();
}

/// The holder lost its CPU between the count and the owner word.
#[test]
fn nobody_spins_for_ever_in_the_owner_gap() {
    fn leaves<Y: Policy>(held: u64) {
        let lock = Tried::<Y>::new();
        lock.count.store(held, SeqCst);
        assert!(!lock.spin(Tireless::current().unwrap(), Kind::Write, Until::FOREVER), "{}", Y::NAME);
        assert_eq!(count(&lock), held);
    }
    leaves::<XaddBaseline>(biased::W);
    leaves::<HandoffNone>(WRITER);
    leaves::<V5_10>(WRITER);
    leaves::<TodayKernel>(WRITER);
    leaves::<TodayKernel>(BIAS);
}

#[test]
fn a_writer_s_spin_on_readers_ends_with_a_mark() {
    fn marks<Y: Policy>() -> (u32, bool, bool) {
        let lock = Tried::<Y>::new();
        lock.read_acquire();
        assert!(!lock.spin(Tireless::current().unwrap(), Kind::Write, Until::FOREVER));
        let marks = lock.owner.load(SeqCst) & (RD_NONSPINNABLE | WR_NONSPINNABLE);
        let may = (marks, lock.can_spin(Kind::Read), lock.can_spin(Kind::Write));
        lock.clear_nonspinnable();
        assert_eq!(lock.can_spin(Kind::Write), Y::NONSPIN != Nonspin::WithReader);
        may
    }
    assert_eq!(marks::<WakeAllReaders>(), (RD_NONSPINNABLE, false, false));
    assert_eq!(marks::<TimedWriterSpin>(), (RD_NONSPINNABLE | WR_NONSPINNABLE, false, false));
    assert_eq!(marks::<V5_10>(), (RD_NONSPINNABLE | WR_NONSPINNABLE, false, false));
    assert_eq!(marks::<TodayKernel>(), (RD_NONSPINNABLE, false, false));
}

/// The last holder took a testing reader for a holder and woke nobody; the reader's tries are all
/// in vain.
#[test]
fn a_reader_that_swallowed_the_heir_s_wake_up_passes_it_on() {
    fn passes_on<Y: Policy>() {
        let lock = Tried::<Y>::new();
        let heir = Tireless::current().unwrap();
        lock.prepare(heir, WRITES, 0);
        lock.locked(|| lock.queue.push(heir));
        heir.park(Some(Tireless::now())); // uses up an earlier wake-up, if any
        lock.count.store((2 * BIAS) | WAITERS | HANDOFF, SeqCst);
        // SAFETY: as one of the two counted.
        unsafe { lock.read_release() };
        lock.take_bias_back();
        assert_eq!(count(&lock), WAITERS | HANDOFF);
        let deadline = Tireless::now() + 60_000_000_000;
        heir.park(Some(deadline));
        assert!(Tireless::now() < deadline, "{}: nobody woke the heir", Y::NAME);
    }
    passes_on::<ReaderSpinOnWriter>();
    passes_on::<V5_10>();
    passes_on::<LimitRspin>();
}

#[test]
fn the_phase_trylock_needs_other_readers() {
    let lock = Tried::<V5_10>::new();
    let me = me::<Tireless>();
    lock.read_acquire();
    let note = lock.owner_note();
    assert!(!lock.phase_try(me, note), "the same readers as before");
    let stranger = std::thread::spawn(|| Tireless::current().unwrap().id()).join().unwrap();
    lock.owned_by_reader(stranger, 0);
    assert!(lock.phase_try(me, note), "a new phase");
    assert_eq!(count(&lock), 2 * BIAS);
}
