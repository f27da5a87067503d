//! The word, and the limit.

use super::*;
use crate::platform::linux::Linux;

#[test]
fn the_word_says_what_its_table_says() {
    let semaphore = RawSemaphore::<Linux>::with_units(1);
    let says = || semaphore.word.load(Relaxed);
    let want = Want { semaphore: &semaphore, units: 1 };
    // To a newcomer, and to the first waiter.
    let looks = || [false, true].map(|first| want.look(first));
    assert_eq!((says(), looks()), (1, [Look::Open, Look::Open]));
    let waiter = Linux::current().unwrap();
    waiter.waiter.kind.store(1, Relaxed);
    semaphore.queue.push(waiter);
    want.joined(true);
    assert_eq!(says(), 0x1_0000_0001);
    want.ask_for_first();
    assert_eq!((says(), looks()), (0x5_0000_0001, [Look::Kept, Look::Open]));
    assert!(!semaphore.try_down(), "kept for the first waiter");
    assert!(want.try_or_ask(Request::Listen));
    assert_eq!((says(), looks()), (0x5_0000_0000, [Look::Kept, Look::Closed]));
    want.left(Left { served: true, gave_up: false, empty: false, listen: false, handoff: false });
    assert_eq!((says(), looks()), (0x1_0000_0000, [Look::Closed, Look::Closed]));
    // Asking twice is asking once.
    for _ in 0..2 {
        assert!(!want.try_or_ask(Request::Listen));
        assert_eq!(says(), 0x3_0000_0000);
    }
    assert!(!want.try_or_ask(Request::Handoff));
    assert_eq!((says(), looks()), (0x7_0000_0000, [Look::Kept, Look::Closed]));
    assert!(semaphore.up());
    assert_eq!(says(), 0x5_0000_0001, "an up obeys");
    semaphore.queue.remove(waiter);
    want.left(Left { served: false, gave_up: false, empty: true, listen: false, handoff: false });
    assert_eq!(says(), 1);
}

#[test]
fn there_are_so_many_units_and_no_more() {
    let made = |units| RawSemaphore::<Linux>::const_with_units(units).units();
    assert_eq!([3, MAX_UNITS, MAX_UNITS + 1, u32::MAX].map(made), [3, MAX_UNITS, MAX_UNITS, MAX_UNITS]);
    assert_eq!(MAX_UNITS, 0x7fff_ffff);
    let semaphore = RawSemaphore::<Linux>::with_units(u32::MAX);
    for _ in 0..2 {
        assert!(!semaphore.up());
        assert_eq!(semaphore.units(), MAX_UNITS);
    }
    assert!(semaphore.try_down() && semaphore.units() == MAX_UNITS - 1);
    assert!(semaphore.up() && semaphore.units() == MAX_UNITS);
}

#[test]
fn many_units_are_taken_together_or_not_at_all() {
    let semaphore = RawSemaphore::<Linux>::with_units(3);
    assert!(!semaphore.try_down_many(4) && semaphore.units() == 3);
    assert!(semaphore.try_down_many(0) && semaphore.try_down_many(2) && semaphore.units() == 1);
    assert!(semaphore.up_many(MAX_UNITS - 1) && semaphore.units() == MAX_UNITS);
    // Up to the limit, all or none.
    assert!(!semaphore.up_many(1) && semaphore.up_many(0) && semaphore.units() == MAX_UNITS);
    semaphore.down_many(2);
    assert!(!semaphore.up_many(3) && !semaphore.up_many(u32::MAX) && semaphore.units() == MAX_UNITS - 2);
    assert!(semaphore.up_many(2));
    assert!(!semaphore.try_down_many(MAX_UNITS + 1), "more than there can be");
    assert!(semaphore.try_down_many(MAX_UNITS) && semaphore.try_down_many(0) && semaphore.units() == 0);
}

#[test]
fn an_up_wakes_a_waiter_for_many_when_there_are_so_many() {
    let semaphore = RawSemaphore::<Linux>::with_units(0);
    let says = || semaphore.word.load(Relaxed);
    let waiter = Linux::current().unwrap();
    let want = Want { semaphore: &semaphore, units: 3 };
    waiter.waiter.kind.store(want.wants(), Relaxed);
    waiter.waiter.due.store(u64::MAX, Relaxed);
    semaphore.queue.push(waiter);
    want.joined(true);
    assert!(!want.try_or_ask(Request::Listen) && !want.try_or_ask(Request::Handoff));
    assert!(semaphore.up() && semaphore.up());
    assert_eq!(says(), 0x7_0000_0002, "not enough: the request stays");
    assert!(!want.is_open_to(waiter) && want.look(true) == Look::Closed);
    assert!(!semaphore.try_down(), "it collects");
    // Stopped while it collects: what is there is reserved for it, and no longer for ever.
    waiter.waiter.due.store(0, Relaxed);
    assert!(want.is_open_to(waiter));
    waiter.waiter.due.store(u64::MAX, Relaxed);
    assert!(semaphore.up_many(1));
    assert_eq!(says(), 0x5_0000_0003, "enough: obeyed");
    assert!(want.is_open_to(waiter) && want.look(true) == Look::Open);
    assert!(want.try_take(true));
    semaphore.queue.remove(waiter);
    want.left(Left { served: true, gave_up: false, empty: true, listen: false, handoff: false });
    assert_eq!(says() & !WAITERS, 0);
    waiter.waiter.due.store(0, Relaxed);
    // The wake-up is spent here, not in the next test.
    waiter.park(Some(0));
}

/// The first waiter collects, and stops: another thread has what is there once the reservation
/// ends.
#[test]
fn a_stopped_waiter_for_many_loses_what_it_collects() {
    let semaphore = RawSemaphore::<Linux>::with_units(3);
    let (give, get) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        let (semaphore, stays) = (&semaphore, give);
        let (over, until_over) = std::sync::mpsc::channel::<()>();
        threads.spawn(move || {
            // A thread that is in the queue, and does nothing there.
            let waiter = Linux::current().unwrap();
            let want = Want { semaphore, units: 5 };
            waiter.waiter.kind.store(want.wants(), Relaxed);
            waiter.waiter.due.store(Linux::now(), Relaxed);
            semaphore.queue.push(waiter);
            want.joined(true);
            assert!(!want.try_or_ask(Request::Handoff));
            stays.send(()).expect("it is awaited");
            until_over.recv().expect("it is told");
            semaphore.queue.remove(waiter);
            waiter.waiter.reserved.store(0, Relaxed);
            waiter.waiter.due.store(0, Relaxed);
            want.left(Left { served: false, gave_up: false, empty: true, listen: false, handoff: false });
        });
        get.recv().expect("it queues");
        assert!(!semaphore.try_down(), "reserved");
        semaphore.down();
        over.send(()).expect("it waits for that");
    });
    assert_eq!(semaphore.units(), 2);
}
