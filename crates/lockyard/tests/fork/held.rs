//! Locks that are held when their process forks.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::scope;

use lockyard::cancel::Until;
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads::set_rank;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::lock::{Held, Lock, Way};
use lockyard_check::stage::Seats;

use crate::child::{crew, in_child};
use crate::{Stops, check, contend, test};

/// What the forking thread holds is the child's as well as the parent's: both release it, and use
/// it on.
fn held_across<L: Lock<P = Linux>>(name: &str) {
    test(name, || {
        for &way in L::WAYS {
            let lock = L::default();
            let held = Held::new(&lock, way);
            in_child(|| {
                check(!lock.try_lock(Way::Write), "a lock that was held is free in the child")?;
                // SAFETY: held by this thread, in the child as in the parent.
                unsafe { lock.unlock(way) };
                check(lock.at_rest(), "a released lock is not at rest in the child")?;
                drop(Held::new(&lock, way));
                contend(&lock)
            });
            assert!(!lock.try_lock(Way::Write), "released by the child's unlock");
            drop(held);
            assert!(lock.at_rest());
            assert_eq!(contend(&lock), Ok(()));
        }
    });
}

#[test]
fn locks_held_by_the_forking_thread() {
    held_across::<RawQSpinLock<Linux>>("fork with a spinlock held");
    held_across::<RawMutex<Linux>>("fork with a mutex held");
    held_across::<RawRwSem<Linux>>("fork with an rwsem held");
    held_across::<KernelRwSem<Linux, policy::TodayKernel>>("fork with the kernel's rwsem held");
    held_across::<RawQRwLock<Linux>>("fork with a qrwlock held");
    held_across::<Binary<RawSemaphore<Linux>>>("fork with a semaphore held");
    held_across::<Binary<KernelSemaphore<Linux, DirectHandoff>>>("fork with a direct-handoff semaphore held");
}

/// The same while threads of the parent are queued. They do not exist in the child: its release
/// wakes nobody, and must return.
fn held_with_waiters<L: Lock<P = Linux>>(name: &str, patience: u64, child: impl Fn(&L) -> Result<(), &'static str>) {
    held_with(name, [0; 3], patience, child);
}

/// The same; the waiters count as of these priorities.
fn held_with<L: Lock<P = Linux>>(
    name: &str,
    ranks: [u32; 3],
    patience: u64,
    child: impl Fn(&L) -> Result<(), &'static str>,
) {
    test(name, || {
        let lock = L::default();
        let seats = Seats::<Linux>::new(3);
        let held = Held::new(&lock, Way::Write);
        scope(|threads| {
            for (seat, rank) in ranks.into_iter().enumerate() {
                let (lock, seats) = (&lock, &seats);
                let way = L::WAYS[seat % L::WAYS.len()];
                threads.spawn(move || {
                    seats.sit(seat);
                    set_rank(Linux::id().expect("it sits"), rank);
                    drop(Held::new(lock, way));
                });
            }
            (0..3).for_each(|seat| seats.wait_queued(seat));
            let later = Linux::now() + patience;
            while Linux::now() < later {
                Linux::nap(8);
            }
            in_child(|| {
                // SAFETY: held by this thread, in the child as in the parent.
                unsafe { lock.unlock(Way::Write) };
                child(&lock)
            });
            drop(held);
        });
        assert!(lock.at_rest());
    });
}

/// The child releases what it holds, takes it again, by waiting and by trying, uses it with threads
/// of its own, and has a child in turn, with waiters of its own.
fn uses_it_on<L: Lock<P = Linux>>(lock: &L) -> Result<(), &'static str> {
    for _ in 0..5 {
        drop(Held::new(lock, Way::Write));
    }
    let mut round = 0;
    while !lock.try_lock(Way::Write) {
        Linux::nap(round);
        round += 1;
    }
    // SAFETY: acquired above.
    unsafe { lock.unlock(Way::Write) };
    contend(lock)?;
    check(lock.at_rest(), "not at rest in the child")?;
    let held = Held::new(lock, Way::Write);
    let seats = Seats::<Linux>::new(2);
    crew(|threads| {
        for seat in 0..2 {
            let seats = &seats;
            threads.spawn(move || {
                seats.sit(seat);
                drop(Held::new(lock, Way::Write));
            });
            seats.wait_queued(seat);
        }
        in_child(|| {
            // SAFETY: held by this thread, in the grandchild as in the child.
            unsafe { lock.unlock(Way::Write) };
            for _ in 0..5 {
                drop(Held::new(lock, Way::Write));
            }
            contend(lock)?;
            check(lock.at_rest(), "not at rest in the grandchild")
        });
        drop(held);
    });
    check(lock.at_rest(), "not at rest in the child after all")
}

/// Waiters of fixed priority, beside the queue, keep it from the child as little as the others.
#[test]
fn spinlocks_with_urgent_waiters_are_used_on_in_the_child() {
    for ranks in [[1, 5, 9], [0, 5, 0], [0, 0, 1]] {
        for patience in [0, 2_000_000] {
            held_with::<RawQSpinLock<Linux>>("fork: spinlock, urgent waiters", ranks, patience, uses_it_on);
            held_with::<RawHqSpinLock<Linux>>("fork: hq, urgent waiters", ranks, patience, uses_it_on);
        }
    }
}

/// Waiters that the parent has, and the child has not, keep no lock from the child.
#[test]
fn locks_are_used_on_in_the_child() {
    for patience in [0, 2_000_000, 50_000_000] {
        held_with_waiters::<RawQSpinLock<Linux>>("fork: spinlock, used on", patience, uses_it_on);
        held_with_waiters::<RawCnaSpinLock<Linux>>("fork: cna, used on", patience, uses_it_on);
        held_with_waiters::<RawHqSpinLock<Linux>>("fork: hq, used on", patience, uses_it_on);
        held_with_waiters::<EagerHq<Linux, 3>>("fork: hq by node, used on", patience, uses_it_on);
        held_with_waiters::<RawMcsLock<Linux>>("fork: mcs, used on", patience, uses_it_on);
        held_with_waiters::<RawTicketLock<Linux>>("fork: ticket, used on", patience, uses_it_on);
        held_with_waiters::<RawTtasLock<Linux>>("fork: ttas, used on", patience, uses_it_on);
        held_with_waiters::<RawQRwLock<Linux>>("fork: qrwlock, used on", patience, uses_it_on);
        held_with_waiters::<RawMutex<Linux>>("fork: mutex, used on", patience, uses_it_on);
        held_with_waiters::<RawRwSem<Linux>>("fork: rwsem, used on", patience, uses_it_on);
        held_with_waiters::<Binary<RawSemaphore<Linux>>>("fork: semaphore, used on", patience, uses_it_on);
    }
}

/// Forks in the middle of a fight, by a thread that holds the lock for writing.
fn held_in_a_fight<L: Lock<P = Linux>>(name: &str) {
    in_a_fight_of::<L>(name, &[Way::Write]);
}

/// The same; the others fight in these ways.
fn in_a_fight_of<L: Lock<P = Linux>>(name: &str, ways: &[Way]) {
    test(name, || {
        let lock = L::default();
        let stop = AtomicBool::new(false);
        scope(|threads| {
            let _stops = Stops(&stop);
            for fighter in 0..6 {
                let (lock, stop) = (&lock, &stop);
                let way = ways[fighter % ways.len()];
                threads.spawn(move || {
                    while !stop.load(SeqCst) {
                        drop(Held::new(lock, way));
                    }
                });
            }
            for _ in 0..20 {
                let held = Held::new(&lock, Way::Write);
                in_child(|| {
                    // SAFETY: held by this thread, in the child as in the parent.
                    unsafe { lock.unlock(Way::Write) };
                    for _ in 0..100 {
                        drop(Held::new(&lock, Way::Write));
                    }
                    contend(&lock)?;
                    check(lock.at_rest(), "not at rest in the child")
                });
                drop(held);
            }
        });
        assert!(lock.at_rest());
    });
}

#[test]
fn locks_are_used_on_in_the_child_of_a_fight() {
    held_in_a_fight::<RawQSpinLock<Linux>>("fork: spinlock fought over");
    held_in_a_fight::<RawCnaSpinLock<Linux>>("fork: cna fought over");
    held_in_a_fight::<RawHqSpinLock<Linux>>("fork: hq fought over");
    held_in_a_fight::<EagerHq<Linux, 3>>("fork: hq by node fought over");
    held_in_a_fight::<RawMcsLock<Linux>>("fork: mcs fought over");
    held_in_a_fight::<RawTtasLock<Linux>>("fork: ttas fought over");
    in_a_fight_of::<RawQRwLock<Linux>>("fork: qrwlock fought over", &[Way::Read, Way::Write, Way::Read]);
    held_in_a_fight::<RawMutex<Linux>>("fork: mutex fought over");
    in_a_fight_of::<RawRwSem<Linux>>("fork: rwsem fought over", &[Way::Read, Way::Write, Way::Read]);
    held_in_a_fight::<Binary<RawSemaphore<Linux>>>("fork: semaphore fought over");
}

#[test]
fn release_in_the_child_with_the_parents_waiters() {
    fn nothing<L: Lock<P = Linux>>(_: &L) -> Result<(), &'static str> {
        Ok(())
    }
    for patience in [0, 5_000_000] {
        held_with_waiters::<RawQSpinLock<Linux>>("fork: spinlock with waiters", patience, nothing);
        held_with_waiters::<KernelRwSem<Linux, policy::TodayKernel>>(
            "fork: kernel's rwsem with waiters",
            patience,
            nothing,
        );
        held_with_waiters::<Binary<KernelSemaphore<Linux, DirectHandoff>>>(
            "fork: direct semaphore with waiters",
            patience,
            nothing,
        );
    }
}

/// A timed wait works in the child on a lock that a thread of the parent holds: it times out, since
/// nobody will release it.
#[test]
fn a_lock_held_by_another_thread_stays_held_in_the_child() {
    test("held by another", || {
        let mutex = RawMutex::<Linux>::default();
        let ready = AtomicBool::new(false);
        let stop = AtomicBool::new(false);
        scope(|threads| {
            let _stops = Stops(&stop);
            threads.spawn(|| {
                let _held = Held::new(&mutex, Way::Write);
                ready.store(true, SeqCst);
                while !stop.load(SeqCst) {
                    Linux::nap(6);
                }
            });
            while !ready.load(SeqCst) {
                Linux::nap(6);
            }
            in_child(|| {
                check(mutex.is_locked() && !mutex.try_acquire(), "free in the child")?;
                check(mutex.acquire_until(Until::after(1_000_000)).is_err(), "taken in the child")
            });
        });
        assert!(mutex.at_rest());
    });
}
