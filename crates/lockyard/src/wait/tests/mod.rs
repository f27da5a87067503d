//! Taking turns, with a lock that does what a test says: who spins and for how long, how long a
//! turn lasts, what is left for those behind.

pub(crate) mod clockwork;

use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::vec::Vec;

use super::osq::Osq;
use super::queue::WaitQueue;
use super::turn::{self, COMPETE_NS, Contended, Events, Left, Look, OPENED, Request, TURN_NS};
use crate::cancel::{GaveUp, LOOK_NS as CLOCK_NS, Until};
use crate::condvar::RawCondvar;
use crate::event::Event::{MutexFail, MutexLock, MutexOptFail, MutexOptLock, MutexSleep, OsqCancel};
use crate::mutex::RawMutex;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::SeqCst, Patience, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use clockwork::*;

/// A lock without a word.
#[derive(Default)]
struct Subject {
    is_free: Cell<bool>,
    owner: Cell<u32>,
    /// Who asks this finds it free.
    yields_to: Cell<Option<Request>>,
    /// Looks of those who have not queued.
    newcomers_looks: Cell<u32>,
    queued_at: Cell<u64>,
    requests: RefCell<Vec<Request>>,
    wait_lock: RawQSpinLock<Clockwork>,
    queue: WaitQueue<Clockwork>,
    osq: Osq<Clockwork>,
}

impl Contended<Clockwork> for Subject {
    const EVENTS: Events = Events {
        spun: MutexOptLock,
        spin_failed: MutexOptFail,
        queued: MutexLock,
        gave_up: MutexFail,
        slept: MutexSleep,
    };

    const SHARED: bool = true;

    fn wait_lock(&self) -> &RawQSpinLock<Clockwork> {
        &self.wait_lock
    }

    fn waiters(&self) -> &WaitQueue<Clockwork> {
        &self.queue
    }

    fn osq(&self) -> &Osq<Clockwork> {
        &self.osq
    }

    fn owner(&self) -> Option<ThreadId> {
        ThreadId::from_raw(self.owner.get())
    }

    fn look(&self, _first: bool) -> Look {
        if self.queue.is_empty() {
            self.newcomers_looks.set(self.newcomers_looks.get() + 1);
        }
        if self.is_free.get() { Look::Open } else { Look::Closed }
    }

    fn try_take(&self, _first: bool) -> bool {
        self.is_free.take()
    }

    fn try_or_ask(&self, request: Request) -> bool {
        self.requests.borrow_mut().push(request);
        self.yields_to.get() == Some(request) || self.try_take(true)
    }

    fn ask_for_first(&self) {}

    fn joined(&self, _first: bool) {
        self.queued_at.set(Clockwork::now());
    }

    fn unreserve(&self) {}

    fn left(&self, _left: Left) {}
}

/// The owner at first.
const OWNER: u32 = 20;

/// A lock that is held.
fn held() -> &'static Subject {
    let lock = Box::leak(Box::new(Subject::default()));
    lock.owner.set(OWNER);
    events();
    lock
}

fn due(who: u32) -> u64 {
    record(who).waiter.due.load(SeqCst)
}

/// Puts `who` into the queue, not woken, with the end of its turn.
fn queues(lock: &Subject, who: u32, due: u64) -> &'static Thread<Clockwork> {
    if record(who).is_notified() {
        record(who).park(Some(0));
    }
    turn::push_asleep(&lock.queue, record(who));
    record(who).waiter.due.store(due, SeqCst);
    record(who)
}

/// Thread 1 takes the lock.
fn takes(lock: &'static Subject) {
    assert_eq!(turn::acquire(lock, Until::FOREVER), Ok(()));
    assert_eq!(cues_left(), 0);
}

fn was_counted(event: crate::event::Event) -> i64 {
    events().iter().find(|(seen, _)| *seen == event).map_or(0, |(_, number)| *number)
}

#[test]
fn a_newcomer_spins_unless_that_is_in_vain() {
    fn spins() -> bool {
        let lock = held();
        at_sleep(|| lock.is_free.set(true));
        takes(lock);
        lock.newcomers_looks.get() > 0
    }
    budget(10_000);
    assert!(spins());
    // The thread that could release it needs this CPU.
    cpus(1);
    assert!(!spins());
    cpus(4);
    // Somebody else needs it.
    should_yield(true);
    assert!(!spins());
    should_yield(false);
    is_preempted(OWNER);
    assert!(!spins());
    is_preempted(OWNER + 1);
    assert!(spins());
}

#[test]
fn a_spinner_gives_each_new_owner_half_the_time() {
    const BUDGET_NS: u32 = 2_000;
    budget(BUDGET_NS);
    // It spins twice, and half for the second owner the first time; for a third one it would be a
    // quarter, which is not worth it.
    for (owners, spun) in [(1, 4_000), (2, 3_000), (3, 2_000)] {
        let lock = held();
        is_preempted(0);
        for last in OWNER..OWNER + owners - 1 {
            at_poll(move || {
                is_preempted(last);
                lock.owner.set(last + 1);
            });
        }
        at_sleep(|| lock.is_free.set(true));
        let start = Clockwork::now();
        takes(lock);
        assert_eq!(lock.queued_at.get() - start, spun, "{owners} owners");
    }
    // With time enough it gets the lock that a second owner releases.
    budget(1_000_000);
    is_preempted(0);
    let lock = held();
    at_poll(|| {
        is_preempted(OWNER);
        lock.owner.set(OWNER + 1);
    });
    at_poll(|| lock.is_free.set(true));
    takes(lock);
    assert_eq!(was_counted(MutexOptLock), 1);
}

#[test]
fn a_waiter_lends_its_cpu_once_and_to_nobody_who_has_one() {
    cpus(1); // nobody spins
    for (runs, awake) in [(true, u64::from(COMPETE_NS)), (false, LOOK_NS)] {
        is_preempted(if runs { 0 } else { OWNER });
        let lock = held();
        let start = Clockwork::now();
        at_sleep(move || {
            assert_eq!(Clockwork::now() - start, awake, "the owner runs: {runs}");
            lock.is_free.set(true);
        });
        takes(lock);
        assert_eq!(was_counted(MutexSleep), 1);
    }
    let lock = held();
    at_poll(|| lock.is_free.set(true));
    takes(lock);
    assert_eq!(was_counted(MutexSleep), 0, "the owner has used it");
}

#[test]
fn one_that_was_moved_here_has_a_turn_after_those_before_it() {
    for before in 0..3 {
        let lock = held();
        for who in 0..before {
            queues(lock, 2 + who, 0);
        }
        record(1).waiter.enter();
        queues(lock, 1, 0);
        let start = Clockwork::now();
        at_sleep(move || {
            assert_eq!(due(1) - start, TURN_NS * (u64::from(before) + 1));
            lock.is_free.set(true);
        });
        turn::resume(lock, record(1));
    }
}

#[test]
fn who_becomes_first_early_has_one_turn_from_then() {
    cpus(1); // nobody spins
    let lock = held();
    for who in [2, 3] {
        queues(lock, who, Clockwork::now());
    }
    at_sleep(move || {
        for who in [2, 3] {
            lock.queue.remove(record(who));
        }
        advance(1_000);
        let now = Clockwork::now();
        at_sleep(move || {
            assert_eq!(due(1), now + TURN_NS);
            lock.is_free.set(true);
        });
    });
    takes(lock);
}

#[test]
fn a_waiter_that_gives_up_wakes_the_next_if_it_was_first_or_that_one_has_no_timer() {
    cpus(1); // nobody spins
    const NO_TIMER: u64 = u64::MAX / 2;
    const TIMER: u64 = NO_TIMER - 1;
    for (first, due) in [(true, TIMER), (true, NO_TIMER), (false, TIMER), (false, NO_TIMER)] {
        let lock = held();
        if !first {
            queues(lock, 2, NO_TIMER);
        }
        let deadline = Clockwork::now() + 100_000;
        at_sleep(move || {
            queues(lock, 3, due);
            advance(deadline - Clockwork::now());
        });
        assert_eq!(turn::acquire(lock, Until::deadline(deadline)), Err(GaveUp::TimedOut));
        let woken: Vec<_> = [2, 3].into_iter().filter(|who| record(*who).is_notified()).collect();
        assert_eq!(woken, if first || due == NO_TIMER { std::vec![3] } else { std::vec![] }, "{first} {due}");
    }
}

/// Thread 1 gets the lock without being passed; behind it wait a next one and ten more, of whom
/// those in these places sleep for long. Which of them are woken?
fn opens(long: &'static [u32]) -> Vec<u32> {
    const NEXT: u32 = 2;
    cpus(1); // nobody spins
    let lock = held();
    at_sleep(move || {
        for place in 0..=10 {
            let soon = Clockwork::now() + TURN_NS;
            let sleeps_long = place > 0 && long.contains(&(place - 1));
            queues(lock, NEXT + place, if sleeps_long { u64::MAX / 2 } else { soon });
        }
        lock.is_free.set(true);
    });
    takes(lock);
    (0..10).filter(|place| record(NEXT + 1 + place).is_notified()).collect()
}

#[test]
fn an_undisturbed_owner_of_a_lock_for_several_wakes_two_of_the_next_eight_who_sleep_long() {
    assert_eq!(OPENED, 2);
    assert_eq!(opens(&[]), []);
    assert_eq!(opens(&[0, 1, 2]), [0, 1]);
    assert_eq!(opens(&[1, 5, 7]), [1, 5]);
    assert_eq!(opens(&[6, 7, 8]), [6, 7]);
    assert_eq!(opens(&[7, 8]), [7]);
    assert_eq!(opens(&[8, 9]), []);
}

#[test]
fn whoever_was_passed_tells_the_next_that_the_lock_is_fought_over() {
    const FOUGHT_OVER: u32 = 1;
    fn waits_behind(lock: &Subject) {
        queues(lock, 2, Clockwork::now() + TURN_NS).waiter.note.store(7, SeqCst);
    }
    fn told(lock: &'static Subject) -> u32 {
        takes(lock);
        record(2).waiter.note.load(SeqCst)
    }
    cpus(1); // nobody spins
    let lock = held();
    at_sleep(|| {
        waits_behind(lock);
        lock.is_free.set(true);
    });
    assert_eq!(told(lock), 0);

    // It was awake, and another was quicker.
    let lock = held();
    at_sleep(|| waits_behind(lock));
    at_sleep(|| at_poll(|| lock.is_free.set(true)));
    assert_eq!(told(lock), FOUGHT_OVER);
    assert_eq!(*lock.requests.borrow(), [Request::Listen]);

    // Its turn was over.
    let lock = held();
    at_sleep(|| {
        waits_behind(lock);
        advance(TURN_NS);
        lock.yields_to.set(Some(Request::Handoff));
    });
    assert_eq!(told(lock), FOUGHT_OVER);

    // It was over when the thread came back to its CPU, which it had lent.
    is_preempted(OWNER);
    let lock = held();
    at_poll(|| {
        waits_behind(lock);
        advance(TURN_NS);
        lock.yields_to.set(Some(Request::Listen));
    });
    assert_eq!(told(lock), FOUGHT_OVER);
    assert_eq!(*lock.requests.borrow(), [Request::Handoff, Request::Listen]);
}

#[test]
fn a_spinner_that_gives_up_is_out_of_the_queue() {
    let osq = Box::leak(Box::new(Osq::<Clockwork>::default()));
    let at_once = Patience::ns(0);
    assert!(osq.join(record(5), at_once));
    events();
    assert!(!osq.join(record(1), at_once), "somebody is before it");
    assert_eq!(was_counted(OsqCancel), 1);
    osq.leave(record(5));
    assert!(!osq.is_locked());
    assert!(osq.join(record(1), at_once));
    osq.leave(record(1));
    assert!(!osq.is_locked());
}

const HOUR: u64 = 3_600_000_000_000;

#[test]
fn a_time_of_the_clock_that_is_set_is_converted_anew() {
    let (now, at) = (Clockwork::now(), Clockwork::realtime());
    let until = Until::<Clockwork>::realtime(at + HOUR);
    assert_eq!((until.wake_time(), until.over()), (Some(now + HOUR), None));
    // A wait that looks again does so soon.
    assert_eq!([1, 2 * CLOCK_NS].map(|ns| until.wake_time_or(now + ns)), [Some(now + 1), Some(now + CLOCK_NS)]);
    assert_eq!(until.slice(now + 7).wake_time(), Some(now + 7));
    set_clock(at + HOUR - 5);
    assert_eq!((until.wake_time(), until.wake_time_or(now + 7)), (Some(now + 5), Some(now + 5)));
    set_clock(at + 3 * HOUR);
    assert_eq!((until.wake_time(), until.over()), (Some(now), Some(GaveUp::TimedOut)));
    set_clock(at);
    assert_eq!((until.wake_time(), until.over()), (Some(now + HOUR), None));
    assert_eq!(Until::<Clockwork>::deadline(now + HOUR).wake_time_or(u64::MAX), Some(now + HOUR));
}

/// It ends a wait of each kind, and does not end it before. Set back it makes the wait longer.
#[test]
fn a_clock_that_is_set_is_noticed() {
    cpus(1); // nobody spins
    let mutex = || {
        let lock = held();
        let waited = turn::acquire(lock, Until::realtime(Clockwork::realtime() + HOUR));
        assert!(lock.queue.is_empty());
        waited
    };
    let condvar = || {
        let (condvar, mutex) = (RawCondvar::<Clockwork>::default(), RawMutex::default());
        mutex.acquire();
        // SAFETY: acquired above.
        let waited = unsafe { condvar.wait(&mutex, Until::realtime(Clockwork::realtime() + HOUR)) };
        // SAFETY: the wait has taken it again.
        unsafe { mutex.release() };
        waited
    };
    fn notices(late: u64, wait: impl Fn() -> Result<(), GaveUp>) {
        let begin = Clockwork::now();
        at_sleep(|| set_clock(Clockwork::realtime() + 2 * HOUR));
        assert_eq!((wait(), cues_left()), (Err(GaveUp::TimedOut), 0));
        assert!(Clockwork::now() - begin <= late);

        let begin = Clockwork::now();
        at_sleep(|| set_clock(Clockwork::realtime() - HOUR));
        assert_eq!((wait(), cues_left()), (Err(GaveUp::TimedOut), 0));
        assert!((2 * HOUR..=2 * HOUR + late).contains(&(Clockwork::now() - begin)));
    }
    notices(CLOCK_NS, mutex);
    notices(0, condvar);
}
