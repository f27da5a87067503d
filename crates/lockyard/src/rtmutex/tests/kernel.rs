//! On a machine that does what the test says: who spins and who does not, who goes to the kernel,
//! and what becomes of each of its answers.

use std::boxed::Box;
use std::vec::Vec;

use super::super::kernel::{CANCEL_NS, CYCLE_LOOKS, DOUBT_NS};
use super::super::*;
use super::SPINS;
use super::machine::{
    self, Call, Machine, after_the_last_look, between_looks, calls, events, is_over, meanwhile, next_cycles, next_wait,
    playing, with,
};
use crate::platform::Patience;
use crate::platform::pi::{At, OWNER_DIED, Refused};

type Raw<S = Lateral> = RawRtMutex<Machine, S>;

// The constants that no test can change.
const _: () =
    assert!(LISTENING == 1 && TOP_SPINS == 2 && DEAD == 4 && CANCEL_NS == 1_000_000 && DOUBT_NS == 2_000_000_000);

/// The kernel ids of the threads that the tests play: the first is the one that asks.
const ME: u32 = 101;
const OTHER: u32 = 102;
const THIRD: u32 = 103;

fn mutex<S: Policy>() -> &'static Raw<S> {
    Box::leak(Box::default())
}

/// A mutex that [`OTHER`] holds, whose record is known.
fn held<S: Policy>() -> &'static Raw<S> {
    let mutex = mutex::<S>();
    playing(1, || {
        Machine::current();
        mutex.acquire().unwrap();
    });
    calls();
    mutex
}

fn release<S: Policy>(mutex: &Raw<S>) {
    // SAFETY: the tests hold what they release.
    unsafe { mutex.release() }.unwrap();
}

fn state<S: Policy>(mutex: &Raw<S>) -> (u32, u32) {
    (mutex.word().load(SeqCst), mutex.flags().load(SeqCst))
}

/// Sets the word, as if others had.
fn set<S: Policy>(mutex: &'static Raw<S>, word: u32) -> impl FnOnce() + 'static {
    move || mutex.word().store(word, SeqCst)
}

fn is_urgent(class: Class, holds: u32) {
    with(|state| (state.roles[0].class, state.roles[0].holds) = (class, holds));
}

/// What of `calls` were spins: how long each might be.
fn spins(calls: &[Call]) -> Vec<u32> {
    calls.iter().filter_map(|call| if let Call::Spin { ns, .. } = call { Some(*ns) } else { None }).collect()
}

#[test]
fn a_free_mutex_is_taken_by_one_exchange_and_nobody_is_asked() {
    let mutex = mutex::<Lateral>();
    // The first time the thread is made known.
    mutex.acquire().unwrap();
    release(mutex);
    with(|state| state.records = 0);
    for take in [|mutex: &Raw| mutex.acquire().is_ok(), |mutex: &Raw| mutex.try_acquire()] {
        assert!(take(mutex));
        assert_eq!((state(mutex), Machine::holds()), ((ME, 0), 1));
        assert!(!mutex.try_acquire());
        release(mutex);
        assert_eq!((state(mutex), Machine::holds()), ((0, 0), 0));
    }
    assert_eq!((with(|state| state.records), calls()), (0, Vec::new()));
    assert_eq!(events(Event::PiMutexSlowpath), 0);
}

#[test]
fn where_a_thread_waits_depends_on_what_its_waiting_can_do() {
    /// A waiter until its time is up: the time that it spun before it went to the kernel; `None`:
    /// among its equals.
    fn waits<S: Policy>(class: Class, holds: u32, busy: bool) -> Option<Vec<u32>> {
        let mutex = held::<S>();
        is_urgent(class, holds);
        let record = Machine::current().unwrap();
        (0..u32::from(busy)).for_each(|_| record.waiter.enter());
        let before = [Event::PiMutexOptFail, Event::PiMutexBlock].map(events);
        assert_eq!(mutex.acquire_until(Until::after(1_000)), Err(PiError::TimedOut));
        let after = [Event::PiMutexOptFail, Event::PiMutexBlock].map(events);
        (0..u32::from(busy)).for_each(|_| record.waiter.leave());
        let calls = calls();
        let kernel = calls.iter().any(|call| matches!(call, Call::LockPi(_)));
        assert_eq!([i64::from(!kernel), i64::from(kernel)], [after[0] - before[0], after[1] - before[1]]);
        assert_eq!(mutex.word().load(SeqCst), OTHER | if kernel { WAITERS } else { 0 });
        kernel.then(|| spins(&calls))
    }
    assert_eq!(waits::<Lateral>(Class::TimeSharing, 0, false), None);
    assert_eq!(waits::<Lateral>(Class::TimeSharing, 1, false), Some([NESTED_SPIN_NS].into()));
    assert_eq!(waits::<Lateral>(Class::TimeSharing, 0, true), Some([NESTED_SPIN_NS].into()), "already waits");
    assert_eq!(waits::<Lateral>(Class::RealTime, 0, false), Some([SPIN_NS].into()));
    assert_eq!(waits::<Lateral>(Class::Deadline, 0, false), Some([].into()));
    assert_eq!(waits::<policy::Merged>(Class::TimeSharing, 0, false), Some([NESTED_SPIN_NS].into()));
    let failed = events(Event::PiMutexSpinFail);
    assert_eq!(waits::<policy::Off>(Class::RealTime, 0, false), Some([].into()));
    assert_eq!(events(Event::PiMutexSpinFail), failed, "who sleeps at once has not spun in vain");
}

#[test]
fn a_top_waiter_spins_only_where_the_owner_may_release_soon() {
    let mutex = held::<Lateral>();
    let spins = |ns| {
        assert!(!mutex.spin(ME, ns, Until::FOREVER));
        calls()
    };
    let owner = with(|state| state.roles[1].tid);
    let spun = [Call::Spin { ns: 700, running: Machine::thread_of(owner) }];
    assert_eq!(spins(700), spun, "nothing speaks against it");
    assert_eq!(spins(0), []);
    with(|state| state.roles[1].runs = false);
    assert_eq!(spins(700), [], "the owner does not run");
    with(|state| (state.roles[1].runs, state.cpus) = (true, 1));
    assert_eq!(spins(700), [], "nor can it, on our only CPU");
    with(|state| (state.cpus, state.yields) = (2, true));
    assert_eq!(spins(700), [], "somebody else needs this CPU");
    with(|state| state.yields = false);
    set(mutex, OTHER | WAITERS)();
    assert_eq!(spins(700), [], "the kernel decides who is next");
    set(mutex, OTHER)();
    assert_eq!(state(mutex), (OTHER, 0), "the slot is free again");
    mutex.flags().store(SPINS, SeqCst);
    assert_eq!(spins(700), [], "another spins");
    assert_eq!(state(mutex), (OTHER, SPINS), "and keeps its slot");
    mutex.flags().store(LISTENING, SeqCst);
    assert_eq!(spins(700), spun, "a listener is no spinner");
    assert_eq!(state(mutex), (OTHER, LISTENING));
}

#[test]
fn a_top_waiter_takes_what_is_released_before_its_eyes() {
    let mutex = held::<Lateral>();
    is_urgent(Class::RealTime, 0);
    between_looks(|| ());
    between_looks(|| playing(1, || release(mutex)));
    assert_eq!(mutex.acquire(), Ok(()));
    assert_eq!((state(mutex), Machine::holds()), ((ME, 0), 1));
    assert_eq!([Event::PiMutexSpin, Event::PiMutexSpinFail, Event::PiMutexBlock].map(events), [1, 0, 0]);
    assert!(is_over());
}

#[test]
fn a_top_waiter_leaves_when_somebody_waits_in_the_kernel_or_another_took_the_mutex() {
    fn spins<S: Policy>(before: &[u32]) -> bool {
        let mutex = held::<S>();
        before.iter().for_each(|&word| between_looks(set(mutex, word)));
        between_looks(set(mutex, 0));
        let taken = mutex.spin(ME, SPIN_NS, Until::FOREVER);
        assert_eq!(taken, is_over(), "who has left does not look again");
        assert_eq!(state(mutex), if taken { (ME, 0) } else { (before[0], 0) });
        while !is_over() {
            Machine::spin(Patience::ns(0), || None::<()>);
        }
        taken
    }
    assert!(spins::<Lateral>(&[OTHER]));
    assert!(!spins::<Lateral>(&[OTHER | WAITERS]));
    assert!(!spins::<policy::Published>(&[OTHER | WAITERS]));
    assert!(!spins::<Lateral>(&[THIRD]) && !spins::<policy::Merged>(&[THIRD]));
    assert!(spins::<policy::Published>(&[THIRD]), "on whoever owns the mutex");
}

#[test]
fn a_top_waiter_that_met_no_owner_spins_on_the_first_that_it_sees() {
    let mutex = mutex::<Lateral>();
    meanwhile(set(mutex, OTHER));
    between_looks(set(mutex, 0));
    assert!(mutex.spin(ME, SPIN_NS, Until::FOREVER));
    assert_eq!(state(mutex), (ME, 0));
}

/// Puts a lateral waiter into the queue, and gives its record.
fn listener(mutex: &'static Raw) -> &'static crate::platform::Thread<Machine> {
    let record = playing(2, Machine::current).unwrap();
    mutex.queue.push(record);
    mutex.flags().fetch_or(LISTENING, SeqCst);
    record
}

#[test]
fn a_top_waiter_that_leaves_a_free_mutex_wakes_the_listener() {
    let mutex = held::<Lateral>();
    let first = listener(mutex);
    after_the_last_look(set(mutex, 0));
    assert!(!mutex.spin(ME, SPIN_NS, Until::FOREVER));
    assert!(first.is_notified());
    assert_eq!((state(mutex), events(Event::PiMutexWake)), ((0, 0), 1));
}

#[test]
fn a_listener_is_woken_once_and_only_for_a_free_mutex() {
    let mutex = held::<Lateral>();
    let first = listener(mutex);
    mutex.released();
    assert!(!first.is_notified(), "another has it: its release will see the flag");
    assert_eq!(state(mutex), (OTHER, LISTENING));
    mutex.flags().store(0, SeqCst);
    playing(1, || release(mutex));
    mutex.released();
    assert!(!first.is_notified(), "it does not listen");
    mutex.flags().store(LISTENING | SPINS, SeqCst);
    mutex.released();
    assert!(first.is_notified());
    assert_eq!((state(mutex), events(Event::PiMutexWake)), ((0, SPINS), 1));
}

#[test]
fn who_owns_a_mutex_is_refused_without_asking_the_kernel() {
    for mark in [0, WAITERS] {
        let mutex = mutex::<Lateral>();
        mutex.acquire().unwrap();
        set(mutex, ME | mark)();
        let before = events(Event::PiMutexDeadlock);
        assert_eq!(mutex.acquire_until(Until::deadline(0)), Err(PiError::Deadlock), "before any look at the clock");
        assert_eq!((state(mutex), calls()), ((ME | mark, 0), Vec::new()));
        assert_eq!(events(Event::PiMutexDeadlock), before + 1);
    }
}

#[test]
fn a_cycle_that_the_kernel_finds_is_counted_and_nothing_else() {
    let mutex = held::<policy::Off>();
    next_cycles(CYCLE_LOOKS);
    assert_eq!(mutex.acquire(), Err(PiError::Deadlock));
    assert_eq!(events(Event::PiMutexDeadlock), 1);
    assert_eq!(mutex.acquire_until(Until::after(5)), Err(PiError::TimedOut));
    assert_eq!(events(Event::PiMutexDeadlock), 1);
    assert_eq!(Machine::holds(), 0);
}

#[test]
fn looks_that_find_a_cycle_follow_one_another_and_end_with_the_time() {
    let mutex = held::<policy::Off>();
    let token: &'static crate::cancel::CancelToken<Machine> = Box::leak(Box::default());
    next_cycles(CYCLE_LOOKS - 1);
    next_wait(|| Err(Refused::TimedOut));
    next_cycles(CYCLE_LOOKS - 1);
    next_wait(|| {
        set(mutex, ME | WAITERS)();
        Ok(())
    });
    assert_eq!(mutex.acquire_until(Until::cancelled(token)), Ok(()));
    assert!(is_over());
    let mutex = held::<policy::Off>();
    let end = Machine::now() + 7;
    next_wait(move || {
        with(|state| state.now = end);
        Err(Refused::Deadlock)
    });
    assert_eq!(mutex.acquire_until(Until::deadline(end)), Err(PiError::Deadlock));
}

#[test]
fn a_cycle_that_is_gone_at_the_next_look_was_none() {
    let mutex = held::<policy::Off>();
    next_cycles(CYCLE_LOOKS - 1);
    next_wait(|| {
        set(mutex, ME | WAITERS)();
        Ok(())
    });
    assert_eq!((mutex.acquire(), events(Event::PiMutexDeadlock)), (Ok(()), 0));
    assert!(is_over());
}

#[test]
fn the_kernel_is_told_the_deadline_and_a_token_is_looked_at_every_millisecond() {
    let mutex = held::<policy::Off>();
    let now = Machine::now();
    assert_eq!(mutex.acquire_until(Until::deadline(now + 7)), Err(PiError::TimedOut));
    assert_eq!(calls(), [Call::LockPi(Some(At::Monotonic(now + 7)))]);
    let token: &'static crate::cancel::CancelToken<Machine> = Box::leak(Box::default());
    let now = Machine::now();
    assert_eq!(mutex.acquire_until(Until::deadline(now + 7).or_cancelled(token)), Err(PiError::TimedOut));
    assert_eq!(calls(), [Call::LockPi(Some(At::Monotonic(now + 7)))]);
    let now = Machine::now();
    next_wait(|| Err(Refused::TimedOut));
    next_wait(|| {
        token.cancel();
        Err(Refused::TimedOut)
    });
    assert_eq!(mutex.acquire_until(Until::cancelled(token)), Err(PiError::Cancelled));
    assert_eq!(calls(), [Call::LockPi(Some(At::Monotonic(now + CANCEL_NS))); 2]);
    next_wait(|| {
        set(mutex, ME | WAITERS)();
        Ok(())
    });
    assert_eq!(mutex.acquire(), Ok(()));
    assert_eq!(calls(), [Call::LockPi(None)]);
}

/// Converted when the wait began it ended late if that clock was set forward.
#[test]
fn the_kernel_is_told_a_time_of_the_real_time_clock_as_it_is() {
    let mutex = held::<policy::Off>();
    let end = Machine::realtime() + 7;
    assert_eq!(mutex.acquire_until(Until::realtime(end)), Err(PiError::TimedOut));
    assert_eq!(calls(), [Call::LockPi(Some(At::Realtime(end)))]);
}

/// Without PI futexes, or without memory for a wait, the word is polled.
#[test]
fn a_kernel_that_cannot_wait_is_replaced_by_polling() {
    for refused in [Refused::NoMemory, Refused::Unsupported] {
        let mutex = held::<policy::Off>();
        next_wait(move || Err(refused));
        next_wait(|| {
            playing(1, || release(mutex)); // while it naps
            Ok(())
        });
        next_wait(move || Err(refused));
        assert_eq!(mutex.acquire(), Ok(()));
        assert_eq!((state(mutex), Machine::holds()), ((ME, 0), 1));
        assert_eq!(calls(), [Call::LockPi(None), Call::Nap, Call::LockPi(None)]);
        release(mutex);
        // Its time is up.
        let mutex = held::<policy::Off>();
        let end = Machine::now() + 10;
        next_wait(move || {
            with(|state| state.now = end);
            Err(refused)
        });
        assert_eq!(mutex.acquire_until(Until::deadline(end)), Err(PiError::TimedOut));
        assert_eq!(state(mutex), (OTHER, 0));
        calls();
    }
}

#[test]
fn a_word_that_the_kernel_does_not_recognise_is_called_corrupt_after_two_seconds() {
    let mutex = held::<policy::Off>();
    let start = 10_000_000_000;
    let passes = |now| {
        next_wait(|| Err(Refused::Corrupt));
        next_wait(move || {
            with(|state| state.now = now); // while it naps
            Ok(())
        });
    };
    with(|state| state.now = start);
    passes(start + 1);
    passes(start + DOUBT_NS);
    passes(start + DOUBT_NS + 1);
    next_wait(|| Err(Refused::Corrupt));
    assert_eq!(mutex.acquire(), Err(PiError::Corrupt));
    assert!(is_over());
    assert_eq!(state(mutex), (OTHER, 0), "nothing is written to it");
    // Not if what is wrong with it is known, or its time is up.
    next_wait(|| Err(Refused::Corrupt));
    assert_eq!(mutex.wait_in_kernel(Until::after(0)), Err(PiError::TimedOut));
    next_wait(|| {
        mutex.flags().store(DEAD, SeqCst);
        Err(Refused::Corrupt)
    });
    assert_eq!(mutex.wait_in_kernel(Until::FOREVER), Err(PiError::OwnerDied));
}

#[test]
fn what_a_dead_owner_leaves_is_given_back_and_stays_locked() {
    let mutex = held::<policy::Off>();
    next_wait(|| {
        set(mutex, ME | OWNER_DIED | WAITERS)();
        Ok(())
    });
    assert_eq!(mutex.acquire(), Err(PiError::OwnerDied));
    assert_eq!(calls(), [Call::LockPi(None), Call::UnlockPi], "the next in line is told, too");
    assert_eq!((state(mutex), Machine::holds()), ((0, DEAD), 0));
    assert!(mutex.is_locked() && !mutex.try_acquire());
    let mutex = held::<policy::Off>();
    next_wait(|| Err(Refused::NoOwner));
    assert_eq!(mutex.acquire(), Err(PiError::OwnerDied));
    assert_eq!(state(mutex), (OTHER, DEAD));
}

#[test]
fn a_release_that_the_kernel_refuses_releases_nothing() {
    for (refused, error) in [(Refused::NotOwner, PiError::NotOwner), (Refused::Corrupt, PiError::Corrupt)] {
        let mutex = mutex::<Lateral>();
        mutex.acquire().unwrap();
        set(mutex, ME | WAITERS)();
        next_wait(move || Err(refused));
        // SAFETY: refused, so nothing relies on it.
        assert_eq!(unsafe { mutex.release() }, Err(error));
        assert_eq!((state(mutex), Machine::holds()), ((ME | WAITERS, 0), 1));
        release(mutex);
        assert_eq!((state(mutex), Machine::holds()), ((0, 0), 0));
        assert_eq!(calls(), [Call::UnlockPi; 2]);
    }
    // The word is another's, with and without waiters.
    for word in [OTHER, OTHER | WAITERS, 0] {
        let mutex = mutex::<Lateral>();
        set(mutex, word)();
        // SAFETY: as above.
        assert_eq!(unsafe { mutex.release() }, Err(PiError::NotOwner));
        assert_eq!((state(mutex), calls()), ((word, 0), Vec::new()), "the kernel is not asked");
    }
}

#[test]
fn who_looks_at_a_mutex_sees_owner_and_waiters() {
    let mutex = mutex::<Lateral>();
    let seen = |word, flags| {
        set(mutex, word)();
        mutex.flags().store(flags, SeqCst);
        (mutex.is_locked(), mutex.is_contended(), mutex.owner())
    };
    assert_eq!(seen(0, 0), (false, false, 0));
    assert_eq!(seen(0, LISTENING | SPINS), (false, false, 0));
    assert_eq!(seen(0, DEAD), (true, false, 0));
    assert_eq!(seen(OTHER, 0), (true, false, OTHER));
    assert_eq!(seen(OTHER | WAITERS, 0), (true, true, OTHER));
    assert_eq!(seen(OTHER | OWNER_DIED, DEAD), (true, false, OTHER));
    listener(mutex);
    assert_eq!(seen(OTHER, 0), (true, true, OTHER), "among its equals");
    machine::calls();
}
