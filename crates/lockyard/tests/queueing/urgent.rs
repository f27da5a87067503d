//! Threads of fixed priority at a queued spinlock: whom an unlock wakes, who is refused meanwhile,
//! and that nobody sleeps beside a free lock.

// What the actors note for the script.
#![allow(clippy::disallowed_types)]

use std::sync::Mutex;

use lockyard::event::Event;
use lockyard::platform::Platform;
use lockyard::spin::cna::Cna;
use lockyard::spin::hq::Hq;
use lockyard::spin::lapse::LAPSE_NS;
use lockyard::spin::qspinlock::{Marked, Plain};
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};
use lockyard::wait::turn::{TURN_NS, TURNS_NS};
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::scripts;
use super::word::{LOCKED, URGENT, state};

/// A note of how long the lock lies free.
const NOTE: u32 = 0xf000;

/// A lock, and who had it: priority and time.
struct Stand<K> {
    lock: RawQueuedSpinLock<Scripted, K>,
    served: Mutex<Vec<(u32, u64)>>,
}

impl<K: Kind<Scripted>> Stand<K> {
    fn new() -> Self {
        Self { lock: RawQueuedSpinLock::default(), served: Mutex::default() }
    }

    fn release(&self) {
        // SAFETY: each script releases what one of its actors holds.
        unsafe { self.lock.release() };
    }

    fn cycle(&self, priority: u32) {
        self.lock.acquire();
        self.served.lock().unwrap().push((priority, Scripted::now()));
        self.release();
    }

    /// Threads of fixed priority are served at the time `now`, those without a turn later, `all` of
    /// them.
    fn is_well_served(&self, now: u64, all: usize, stop: u64) {
        let served = self.served.lock().unwrap();
        assert_eq!(served.len(), all);
        for &(priority, at) in &*served {
            let bound = if priority == 0 { 2 * TURN_NS } else { 0 };
            assert!(at <= now + bound, "stop {stop}: a wake-up was lost, {served:?} at {now}");
        }
        assert_eq!(self.lock.raw(), u32::from(K::REST), "stop {stop}");
    }
}

/// Actors of these priorities, in this order, come to a lock that is held, and are served in that
/// order.
fn come<K: Kind<Scripted>>(priorities: &[u32], order: &[u32]) {
    let stand = Stand::<K>::new();
    Scene::play_with(priorities.len() + 1, |scene, actors| {
        let (holder, waiters) = actors.split_first().unwrap();
        holder.does(|| stand.lock.acquire());
        for (waiter, &number) in waiters.iter().zip(priorities) {
            // Equals are told by tens.
            waiter.has_priority(number % 10);
            let stand = &stand;
            waiter.starts(move || stand.cycle(number));
            scene.advance(1);
        }
        holder.does(|| stand.release());
        assert_eq!(scene.finish(), 0, "somebody was late");
    });
    let served: Vec<_> = stand.served.into_inner().unwrap().into_iter().map(|(number, _)| number).collect();
    assert_eq!((served.as_slice(), stand.lock.raw()), (order, K::REST.into()));
}

/// An urgent waiter comes and is stopped before its `stop`-th step; then the lock is released, and
/// everybody goes on. Others of these priorities have come before.
fn the_last_is_stopped<K: Kind<Scripted>>(others: &[u32]) {
    every_stop(|stop| {
        let stand = Stand::<K>::new();
        let (mut stopped, mut begin) = (false, 0);
        Scene::play_with(others.len() + 2, |scene, actors| {
            let [holder, victim, waiters @ ..] = actors else { panic!("no actors") };
            holder.does(|| stand.lock.acquire());
            for (waiter, &priority) in waiters.iter().zip(others) {
                waiter.has_priority(priority);
                let stand = &stand;
                waiter.starts(move || stand.cycle(priority));
            }
            victim.has_priority(5);
            victim.starts_until(stop, || stand.cycle(5));
            stopped = victim.is_stopped();
            begin = scene.now();
            holder.does(|| stand.release());
            scene.finish_all();
        });
        stand.is_well_served(begin, others.len() + 1, stop);
        stopped
    });
}

/// A release is stopped before its `stop`-th step, when so many of the waiters have come; the
/// others come, and everybody goes on.
fn the_owner_is_stopped<K: Kind<Scripted>>(before: usize) {
    every_stop(|stop| {
        let stand = Stand::<K>::new();
        let (mut stopped, mut begin) = (false, 0);
        Scene::play_with(4, |scene, actors| {
            let (holder, waiters) = actors.split_first().unwrap();
            holder.does(|| stand.lock.acquire());
            let come = |waiters: core::ops::Range<usize>| {
                for number in waiters {
                    let (priority, stand) = ([0, 1, 9][number], &stand);
                    actors[number + 1].has_priority(priority);
                    actors[number + 1].starts(move || stand.cycle(priority));
                }
            };
            come(0..before);
            holder.starts_until(stop, || stand.release());
            stopped = holder.is_stopped();
            begin = scene.now();
            come(before..waiters.len());
            scene.finish_all();
        });
        stand.is_well_served(begin, 3, stop);
        stopped
    });
}

/// One that an unlock has chosen does not come. The lock is free, kept for it for a while, and then
/// for nobody.
fn a_chosen_one_does_not_come<K: Kind<Scripted>>() {
    let stand = Stand::<K>::new();
    let lock = &stand.lock;
    Scene::play(|scene, [holder, chosen, next, newcomer]| {
        holder.does(|| lock.acquire());
        chosen.has_priority(9);
        next.has_priority(1);
        let first = chosen.starts(|| lock.acquire());
        let second = next.starts(|| lock.acquire());
        chosen.freeze();
        holder.does(|| stand.release());
        assert_eq!((state(lock), first.is_done(), second.is_done()), (URGENT, false, false));
        // A try notes since when; a thread that comes to wait does so until the note is old.
        assert!(!newcomer.does(|| lock.try_acquire()));
        scene.advance(LAPSE_NS);
        newcomer.does(|| lock.acquire());
        assert_eq!((state(lock), scene.events(Event::PvLapsed)), (LOCKED, 1));
        newcomer.does(|| stand.release());
        scene.settle();
        second.expect("chosen by the next unlock");
        next.does(|| stand.release());
        chosen.thaw();
        scene.settle();
        first.expect("it comes");
        chosen.does(|| stand.release());
    });
    assert_eq!(lock.raw(), u32::from(K::REST));
}

scripts! {
    /// `rt_order.c`: served in the order of arrival, 0 1 5 9.
    fn threads_of_fixed_priority_are_served_by_it() {
        come::<Plain>(&[0, 1, 5, 9], &[9, 5, 1, 0]);
        come::<Marked>(&[0, 1, 5, 9], &[9, 5, 1, 0]);
        come::<Cna>(&[1, 0, 9, 5], &[9, 5, 1, 0]);
        come::<Hq>(&[5, 9, 1, 0], &[9, 5, 1, 0]);
    }

    /// The first to take the lock takes *urgent* away, for all: it is put back, so that no newcomer
    /// comes between.
    fn the_lock_stays_urgent_until_the_last_urgent_waiter_has_it() {
        let stand = Stand::<Hq>::new();
        let lock = &stand.lock;
        Scene::play(|scene, [holder, low, high, newcomer]| {
            holder.does(|| lock.acquire());
            low.has_priority(1);
            high.has_priority(2);
            let got = [low, high].map(|waiter| waiter.starts(|| lock.acquire()));
            holder.does(|| stand.release());
            scene.settle();
            assert_eq!((got[1].is_done(), state(lock)), (true, LOCKED | URGENT));
            low.freeze();
            high.does(|| stand.release());
            assert!(!newcomer.does(|| lock.try_unseen()) && !newcomer.does(|| lock.try_acquire()));
            low.thaw();
            scene.settle();
            assert_eq!((got[0].is_done(), state(lock)), (true, LOCKED));
            low.does(|| stand.release());
        });
    }

    /// A newcomer looks at an open lock. Then the lock is kept for an urgent waiter that does not
    /// come, and a try notes that. The newcomer takes the byte, and no note stays in a held lock.
    fn a_newcomer_that_has_looked_before_passes_once_and_leaves_no_note() {
        let stand = Stand::<Plain>::new();
        let lock = &stand.lock;
        Scene::play(|scene, [holder, urgent, newcomer]| {
            let passed = newcomer.starts_until(1, || lock.acquire());
            assert!(newcomer.is_stopped());
            holder.does(|| lock.acquire());
            urgent.has_priority(1);
            let got = urgent.starts(|| lock.acquire());
            scene.settle();
            urgent.freeze();
            holder.does(|| stand.release());
            assert!(!holder.does(|| lock.try_acquire()));
            assert_eq!((state(lock) & !NOTE, lock.raw() & NOTE != 0), (URGENT, true));
            newcomer.resumes();
            passed.expect("it has looked before");
            assert_eq!(lock.raw(), LOCKED | URGENT);
            newcomer.does(|| stand.release());
            urgent.thaw();
            scene.settle();
            got.expect("chosen");
            urgent.does(|| stand.release());
            assert_eq!(lock.raw(), 0);
        });
    }

    /// The table's slots tell nothing: of equals the first is served first.
    fn equals_are_served_as_they_came() {
        come::<Plain>(&[25, 15, 9, 35], &[9, 25, 15, 35]);
        come::<Hq>(&[15, 25, 35], &[15, 25, 35]);
    }

    /// Before it registers, and after: nobody sleeps beside a free lock.
    fn an_urgent_waiter_may_be_stopped_anywhere_while_the_lock_is_released() {
        for others in [&[][..], &[0], &[1], &[9], &[0, 9], &[1, 9]] {
            the_last_is_stopped::<Plain>(others);
            the_last_is_stopped::<Cna>(others);
            the_last_is_stopped::<Hq>(others);
        }
    }

    /// Between its store and its look at the table, and while it chooses.
    fn an_owner_may_be_stopped_anywhere_while_urgent_waiters_come() {
        for before in 0..=3 {
            the_owner_is_stopped::<Plain>(before);
            the_owner_is_stopped::<Hq>(before);
        }
    }

    /// No reservation without an end.
    fn an_urgent_waiter_that_does_not_come_keeps_nobody_out() {
        a_chosen_one_does_not_come::<Plain>();
        a_chosen_one_does_not_come::<Cna>();
        a_chosen_one_does_not_come::<Hq>();
    }

    /// Nobody else comes to note since when the lock lies free: the others look by themselves.
    fn those_who_sleep_behind_an_urgent_waiter_that_does_not_come_look_by_themselves() {
        for priority in [0, 1] {
            let stand = Stand::<Plain>::new();
            let lock = &stand.lock;
            Scene::play(|scene, [holder, chosen, next]| {
                holder.does(|| lock.acquire());
                chosen.has_priority(9);
                next.has_priority(priority);
                let got = next.starts(|| lock.acquire());
                let first = chosen.starts(|| lock.acquire());
                chosen.freeze();
                holder.does(|| stand.release());
                let mut waited = 0;
                while !got.is_done() && waited <= TURNS_NS + 2 * LAPSE_NS {
                    waited += TURN_NS;
                    scene.advance(TURN_NS);
                }
                got.expect("kept out");
                next.does(|| stand.release());
                chosen.thaw();
                scene.settle();
                first.expect("it comes");
                chosen.does(|| stand.release());
            });
        }
    }

    /// A head that changes its own bit beside it leaves *urgent* as it is.
    fn a_pending_head_does_not_take_what_is_kept_for_an_urgent_waiter() {
        let stand = Stand::<Plain>::new();
        let lock = &stand.lock;
        Scene::play(|scene, [holder, head, urgent]| {
            holder.does(|| lock.acquire());
            let other = head.starts(|| lock.acquire());
            urgent.has_priority(1);
            let got = urgent.starts(|| lock.acquire());
            // Its turn is over: pending, asleep, pending again.
            scene.advance(2 * TURN_NS);
            head.wakes_spuriously();
            head.wakes_spuriously();
            assert_eq!(state(lock) & (LOCKED | URGENT), LOCKED | URGENT);
            urgent.freeze();
            holder.does(|| stand.release());
            head.wakes_spuriously();
            assert!(!other.is_done());
            urgent.thaw();
            scene.settle();
            got.expect("woken");
            urgent.does(|| stand.release());
            scene.settle();
            other.expect("woken");
            head.does(|| stand.release());
        });
    }
}
