//! On a machine where one thread plays all: the walk's rules, who spins, and that the audit finds
//! what is broken.

use std::boxed::Box;
use std::format;
use std::vec::Vec;

use super::audit::{Broken, check, check_at_rest, check_grant, check_scheduler, check_settled};
use super::condvar::RawTreeRtCondvar;
use super::plist::DONATING;
use super::policy::{Published2016, Today};
use super::*;
use crate::event::Event;
use crate::platform::Thread;
use crate::rtmutex::tests::machine::{
    Call, Machine, after_the_last_look, between_looks, calls, events, is_over, next_wait, playing, when, with,
};

type Mutex = RawTreeRtMutex<Machine>;

// The constants that no test can change.
const _: () = assert!(OWNER == 0xffff && WAITERS == 0x1_0000);

fn mutex() -> &'static Mutex {
    Box::leak(Box::default())
}

fn record(role: usize) -> &'static Thread<Machine> {
    playing(role, Machine::current).unwrap()
}

fn name(role: usize) -> ThreadId {
    record(role).id()
}

fn holds(role: usize, mutex: &Mutex) {
    playing(role, || {
        Machine::current();
        mutex.acquire().unwrap();
    });
}

/// Queues a thread for `mutex` and leaves it there. Whether it was refused.
fn queues(role: usize, mutex: &Mutex, priority: u32) -> Result<(), Cycle> {
    let thread = record(role);
    with(|state| state.roles[role].priority = priority);
    mutex.core.wait_lock.acquire();
    assert!(!mutex.core.take::<Today>(thread, false));
    let result = mutex.core.enqueue(thread);
    mutex.core.unlock_wait();
    result
}

/// Which invariant does not hold.
fn broken(result: Result<(), Broken>) -> Option<&'static str> {
    result.err().map(|broken| broken.invariant)
}

#[test]
fn a_free_mutex_is_taken_by_one_exchange() {
    let mutex = mutex();
    Machine::current();
    mutex.acquire().unwrap();
    assert!(!mutex.try_acquire() && mutex.is_locked());
    // SAFETY: acquired above.
    unsafe { mutex.release() }.unwrap();
    assert_eq!(events(Event::RtmutexSlowlock) + events(Event::RtmutexSlowunlock), 0);
}

#[test]
fn debug_output_shows_the_policy_and_the_state() {
    let mutex = mutex();
    let free = format!("{mutex:?}");
    assert!(free.contains("today") && free.contains("waiters"), "{free}");
    holds(0, mutex);
    assert_ne!(format!("{mutex:?}"), free);
}

#[test]
fn a_record_changes_hands_only_when_its_thread_holds_nothing() {
    let thread = Thread::<Machine>::new();
    assert!(thread.is_unused());
    thread.pi.held.store(1, Relaxed);
    assert!(!thread.is_unused());
}

#[test]
fn who_comes_back_from_a_condition_variable_holds_the_mutex() {
    let (mutex, condvar): (_, &'static RawTreeRtCondvar<Machine>) = (mutex(), Box::leak(Box::default()));
    // Signalled when the mutex is free, and when somebody has it.
    for taken in [false, true] {
        holds(0, mutex);
        next_wait(move || {
            playing(1, || {
                if taken {
                    holds(1, mutex);
                }
                condvar.notify_one(mutex);
                if taken {
                    // SAFETY: acquired above.
                    unsafe { mutex.release() }.unwrap();
                }
            });
            Ok(())
        });
        // SAFETY: acquired above.
        assert_eq!(unsafe { condvar.wait(mutex, Until::FOREVER) }, Ok(true));
        assert_eq!((mutex.owner(), record(0).pi.held.load(Relaxed)), (Some(name(0)), 1));
        // SAFETY: it holds the mutex.
        unsafe { mutex.release() }.unwrap();
        assert_eq!(broken(check_at_rest::<Machine>([name(0), name(1)].into_iter())), None);
    }
}

#[test]
fn the_first_waiter_spins_while_the_owner_runs_and_no_other() {
    let mutex = mutex();
    let end = || Until::deadline(Machine::now() + 10);
    let spun = || {
        assert_eq!(mutex.acquire_until(end()), Err(Refused::TimedOut));
        let counted =
            [Event::RtmutexSpin, Event::RtmutexSpinStop, Event::RtmutexSpinOffCpu, Event::RtmutexSpinDisplaced];
        (calls().iter().filter(|call| matches!(call, Call::Spin { .. })).count(), counted.map(events))
    };
    holds(1, mutex);
    assert_eq!(spun(), (1, [1, 1, 0, 0]), "until its patience was over");
    after_the_last_look(|| with(|state| state.roles[1].runs = false));
    assert_eq!(spun(), (1, [2, 1, 1, 0]), "until the owner lost its CPU");
    assert_eq!(spun(), (0, [2, 1, 2, 0]), "it has none");
    with(|state| (state.roles[1].runs, state.cpus) = (true, 1));
    assert_eq!(spun(), (0, [2, 1, 3, 0]), "it cannot have one while we have the only one");
    with(|state| state.cpus = 2);
    queues(2, mutex, 7).unwrap();
    assert_eq!(spun(), (0, [2, 1, 3, 0]), "another is first");
}

#[test]
fn a_spin_ends_with_the_owner_and_the_mutex_is_had() {
    fn takes<Y: Policy>() {
        let mutex: &'static RawTreeRtMutex<Machine, Y> = Box::leak(Box::default());
        Machine::current();
        playing(1, || {
            Machine::current();
            mutex.acquire().unwrap();
        });
        between_looks(|| ());
        // SAFETY: acquired above.
        between_looks(|| playing(1, || unsafe { mutex.release() }.unwrap()));
        let before = events(Event::RtmutexSpinOwner);
        mutex.acquire().unwrap();
        assert!(is_over());
        assert_eq!(events(Event::RtmutexSpinOwner), before + 1);
    }
    takes::<Today>();
    takes::<Published2016>();
}

/// `name(1)` to `name(last)` each own the mutex of their number, and wait for the next one's. We
/// own the last one, and want the first.
fn chain<const N: usize>() -> [&'static Mutex; N] {
    let mutexes: [&'static Mutex; N] = core::array::from_fn(|_| mutex());
    (1..N).for_each(|role| holds(role, mutexes[role - 1]));
    holds(0, mutexes[N - 1]);
    (1..N).for_each(|role| queues(role, mutexes[role], 0).unwrap());
    mutexes
}

#[test]
fn a_cycle_is_looked_at_twice_and_again_if_anybody_waits_anew() {
    for bit in 0..32 {
        for anew in [1, 2, 3] {
            let [first, ..] = chain::<4>();
            // Before the second look: one of them has begun another wait for the same mutex.
            let renew = move || {
                let waits = &record(anew).pi.waits;
                waits.store(waits.load(Relaxed) ^ 1 << bit, Relaxed);
            };
            (0..3).for_each(|_| when(Event::RtmutexWalk, || ()));
            when(Event::RtmutexWalk, renew);
            let before = events(Event::RtmutexWalk);
            let cycle = first.acquire().expect_err("a cycle");
            // And one step, of who leaves again.
            assert_eq!(events(Event::RtmutexWalk) - before, 10, "three looks at three links: {anew}, bit {bit}");
            assert_eq!((cycle.length(), cycle.is_unproven()), (4, false));
            let names: Vec<_> = cycle.links().map(|link| link.0).collect();
            assert_eq!(names, [0, 1, 2, 3].map(name));
            assert!(is_over());
            forget();
        }
    }
    let [first, ..] = chain::<4>();
    let before = events(Event::RtmutexWalk);
    first.acquire().expect_err("a cycle");
    assert_eq!(events(Event::RtmutexWalk) - before, 7, "nothing changed");
}

/// All threads leave what they were in: the next to play them find them new.
fn forget() {
    for role in 0..4 {
        let pi = &record(role).pi;
        for word in [&pi.held, &pi.waits, &pi.keeps, &pi.passed] {
            word.store(0, Relaxed);
        }
        pi.blocked_on.store(0, Relaxed);
        while let Some(donor) = pi.donors.first() {
            pi.donors.remove(donor);
        }
    }
}

#[test]
fn a_cycle_through_another_thread_is_another_cycle() {
    let [m1, m2, m3] = [mutex(), mutex(), mutex()];
    [(1, m1), (2, m2), (0, m3)].into_iter().for_each(|(role, mutex)| holds(role, mutex));
    [(1, m2), (2, m3), (3, m3)].into_iter().for_each(|(role, mutex)| queues(role, mutex, 0).unwrap());
    // Before the second look the second mutex has gone to one that has waited as often as the one
    // before.
    assert_eq!(record(2).pi.waits.load(Relaxed), record(3).pi.waits.load(Relaxed));
    (0..2).for_each(|_| when(Event::RtmutexWalk, || ()));
    when(Event::RtmutexWalk, || m2.core.word.store(name(3).raw() | WAITERS, Relaxed));
    let before = events(Event::RtmutexWalk);
    let cycle = m1.acquire().expect_err("a cycle");
    assert_eq!(events(Event::RtmutexWalk) - before, 7, "three looks at two links");
    assert_eq!(cycle.links().map(|link| link.0).collect::<Vec<_>>(), [0, 1, 3].map(name));
}

#[test]
fn a_walk_ends_where_the_chain_has_changed() {
    let [first, _, last] = chain::<3>();
    // The first owner does not wait for the second any more, but for us.
    when(Event::RtmutexWalk, || {
        let address = waiter::Inheritance::address(&last.core);
        record(1).pi.blocked_on.store(address, Relaxed);
    });
    assert_eq!(first.acquire_until(Until::after(10)), Err(Refused::TimedOut), "who changed it walks it");
}

#[test]
fn who_waits_for_a_cycle_without_being_in_it_is_not_refused() {
    let [outer, a, b] = [mutex(), mutex(), mutex()];
    holds(1, outer);
    holds(2, a);
    holds(3, b);
    queues(1, a, 0).unwrap();
    queues(2, b, 0).unwrap();
    assert!(queues(3, a, 0).is_err(), "it closes the circle, and stays in it");
    assert_eq!(outer.acquire_until(Until::after(10)), Err(Refused::TimedOut));
}

#[test]
fn who_wants_a_mutex_of_the_cycle_is_told_of_those_in_it() {
    let [a, b] = [mutex(), mutex()];
    holds(1, a);
    holds(2, b);
    queues(1, b, 0).unwrap();
    assert!(queues(2, a, 0).is_err(), "it closes the circle, and stays in it");
    Machine::current();
    let cycle = a.acquire().expect_err("for ever");
    assert_eq!((cycle.length(), cycle.is_unproven()), (2, false));
    let waits = |role, mutex: &Mutex| (name(role), waiter::Inheritance::address(&mutex.core));
    assert_eq!(cycle.links().collect::<Vec<_>>(), [waits(1, b), waits(2, a)]);
}

/// `name(0)` owns the mutex, and `name(1)`, of priority 9, and `name(2)`, of 5, wait for it.
fn scene() -> (&'static Mutex, [ThreadId; 3]) {
    let mutex = mutex();
    holds(0, mutex);
    queues(1, mutex, 9).unwrap();
    queues(2, mutex, 5).unwrap();
    (mutex, [0, 1, 2].map(name))
}

#[test]
fn the_audit_finds_a_broken_lock() {
    let (mutex, names) = scene();
    let found = || broken(check(&[mutex], names.into_iter()));
    assert_eq!(broken(check_settled(&[mutex], names.into_iter())), None);
    mutex.core.word.fetch_and(!WAITERS, Relaxed);
    assert_eq!(found(), Some("I3: waiters without the bit"));
    mutex.core.word.fetch_or(WAITERS, Relaxed);
    let blocked_on = &record(2).pi.blocked_on;
    let address = blocked_on.swap(0, Relaxed);
    assert_eq!(found(), Some("I4: waits where its record says"));
    blocked_on.store(address, Relaxed);
    record(2).pi.nodes[WAITING].priority.store(10, Relaxed);
    assert_eq!(found(), Some("I8: order of a list"));
    record(2).pi.nodes[WAITING].priority.store(5, Relaxed);
    record(1).pi.nodes[DONATING].priority.store(8, Relaxed);
    assert_eq!(found(), Some("I5: lends the priority it waits with"));
    record(1).pi.nodes[DONATING].priority.store(9, Relaxed);
    record(0).insert_donor(names[2]);
    assert_eq!(found(), Some("I5: the first waiter lends"));
    record(0).remove_donor(names[2]);
    assert_eq!(found(), None);
}

#[test]
fn the_audit_finds_a_priority_that_nothing_explains() {
    let (_, names) = scene();
    let found = || broken(check::<Machine, Today>(&[], names.into_iter()));
    let pi = &record(0).pi;
    assert_eq!(found(), None);
    record(0).remove_donor(names[1]);
    assert_eq!(found(), Some("I6: effective priority"), "higher than its donors explain");
    pi.keeps.store(1, Relaxed);
    assert_eq!(found(), None, "it has yet to wake somebody");
    record(1).pi.nodes[WAITING].priority.store(20, Relaxed);
    record(0).insert_donor(names[1]);
    assert_eq!(found(), Some("I6: effective priority"), "lower than its donor's");
    pi.keeps.store(0, Relaxed);
    assert_eq!(found(), Some("I6: effective priority"));
}

#[test]
fn the_audit_finds_what_was_not_carried_on() {
    let (mutex, names) = scene();
    let found = || broken(check_settled(&[mutex], names.into_iter()));
    assert!(waiter::lock(record(2)).set_base(6));
    assert_eq!(broken(check(&[mutex], names.into_iter())), None, "a walk may be on its way");
    assert_eq!(found(), Some("queued with its effective priority"));
    assert!(set_priority::<Machine>(names[2], 5));
    assert_eq!(found(), None);
    // Somebody that it does not own the mutex of lends to the owner, who keeps that.
    record(3).pi.nodes[WAITING].priority.store(30, Relaxed);
    record(0).insert_donor(name(3));
    waiter::lock(record(0)).settle();
    assert_eq!(found(), Some("effective is the maximum over all waiters"));
    mutex.core.word.fetch_and(!WAITERS, Relaxed);
    assert_eq!(found(), Some("I3: waiters without the bit"), "and all that check finds");
}

#[test]
fn the_audit_finds_a_thread_that_the_scheduler_runs_otherwise() {
    let (_, names) = scene();
    let found = || check_scheduler::<Machine>(names.into_iter());
    assert_eq!(found(), Ok(()));
    with(|state| state.roles[0].priority = 4);
    let broken = found().expect_err("boosted to 9");
    assert_eq!((broken.thread, broken.found, broken.expected), (Some(names[0]), 4, 9));
    let text = format!("the scheduler's priority: found 4, expected 9 (thread {})", names[0].raw());
    assert_eq!(format!("{broken}"), text);
    assert_eq!(format!("{}", Broken { thread: None, ..broken }), "the scheduler's priority: found 4, expected 9");
}

#[test]
fn the_audit_finds_a_grant_past_somebody_more_urgent() {
    let (mutex, names) = scene();
    let others = self::mutex();
    let found = || broken(check_grant(mutex, &[mutex, others]));
    assert_eq!(found(), Some("granted past somebody more urgent"));
    holds(3, others);
    let thread = record(3);
    others.core.waiters.insert(thread.id(), 9);
    assert_eq!(found(), Some("granted past somebody more urgent"), "what another owns lends the owner nothing");
    others.core.word.store(names[0].raw() | WAITERS, Relaxed);
    assert_eq!(found(), None, "it has that of another mutex's waiter");
    others.core.waiters.remove(thread.id());
    others.core.waiters.insert(thread.id(), 8);
    assert_eq!(found(), Some("granted past somebody more urgent"));
    assert!(waiter::lock(record(0)).set_base(9));
    assert_eq!(found(), None, "or of its own");
    assert_eq!(broken(check_grant(self::mutex(), &[])), None, "nobody owns it");
}

#[test]
fn the_audit_finds_what_is_left_over() {
    let (_, names) = scene();
    let found = |role: usize| broken(check_at_rest::<Machine>([names[role]].into_iter()));
    assert_eq!(found(0), Some("I10: its own priority again"));
    assert_eq!(found(1), Some("I10: waits for nothing"));
    assert!(waiter::lock(record(0)).set_base(9));
    assert_eq!(found(0), Some("I10: no donors"));
    record(0).remove_donor(names[1]);
    assert_eq!(found(0), Some("I10: holds nothing"));
    record(0).pi.held.store(0, Relaxed);
    assert_eq!(found(0), None);
    record(0).pi.keeps.store(1, Relaxed);
    assert_eq!(found(0), Some("I10: its own priority again"), "it has yet to give it back");
}

#[test]
fn a_loan_is_kept_until_its_giver_has_been_woken() {
    let (_, names) = scene();
    let settles = || {
        waiter::lock(record(0)).settle();
        (Machine::priority(names[0]), [Event::RtmutexBoost, Event::RtmutexDeboost].map(events))
    };
    assert_eq!(settles(), (9, [1, 0]), "nothing has changed, and nothing is counted");
    record(0).remove_donor(names[1]);
    record(0).pi.keeps.store(1, Relaxed);
    assert_eq!(settles(), (9, [1, 0]));
    record(1).pi.nodes[WAITING].priority.store(20, Relaxed);
    record(0).insert_donor(names[1]);
    assert_eq!(settles(), (20, [2, 0]), "it may rise");
    record(0).remove_donor(names[1]);
    assert_eq!(settles(), (20, [2, 0]));
    record(0).pi.keeps.store(0, Relaxed);
    assert_eq!(settles(), (0, [2, 1]));
}
