//! The three-thread inversion on one CPU. *low* holds the lock; *high* wants it; *medium*, ready to
//! run, has nothing to do with it. Without inheritance medium runs before low, and so before high:
//! an inversion. With it low runs at high's priority. Chains: low owns the first lock, the next
//! owner holds the second one and waits for the first, and so on; high wants the last.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::thread::scope;

use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard::rtmutex::{Lateral, Policy, RawRtMutex, policy};
use lockyard_check::lock::{Held, Lock, Way};

use crate::scene::{Gate, alone, fixed, lent, permitted, state, thread_name};

const MEDIUM: i32 = 20;
const HIGH: i32 = 30;

/// What one run saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// Medium ran while high waited.
    inverted: bool,
    /// The priority of the owner of the first lock while high waited, and after its release.
    owner: (i32, i32),
    /// When medium ran, the kernel kept high or somebody it waits for: in a page fault, in its
    /// table of futexes. The run then tells nothing of the lock.
    kept: bool,
}

/// `runs` inversions on a chain of `depth` locks of kind `L`.
fn inversions<L: Lock<P = Linux>>(depth: usize, runs: usize) -> Vec<Seen> {
    let locks: Vec<L> = (0..depth).map(|_| L::default()).collect();
    let gates: Vec<Gate> = (0..depth + 2).map(|_| Gate::default()).collect();
    let (medium, high) = (depth, depth + 1);
    let (ready, ended) = (Gate::default(), Gate::default());
    // Counts what happens, so that the order can be told.
    let clock = AtomicU32::new(0);
    let tick = || clock.fetch_add(1, SeqCst);
    let (medium_ran, kept) = (AtomicU32::new(0), AtomicBool::new(false));
    let names: Vec<AtomicI32> = (0..depth + 2).map(|_| AtomicI32::new(0)).collect();
    let high_inside = AtomicU32::new(0);
    let owner = (AtomicI32::new(0), AtomicI32::new(0));
    let mut seen = Vec::new();
    scope(|threads| {
        let (locks, gates, ready, ended, tick) = (&locks, &gates, &ready, &ended, &tick);
        let (medium_ran, high_inside, owner, kept, names) = (&medium_ran, &high_inside, &owner, &kept, &names);
        let arrive = move |place: usize, priority: i32| {
            fixed(priority);
            names[place].store(thread_name(), SeqCst);
            ready.open();
        };
        threads.spawn(move || {
            arrive(0, 1);
            for _ in 0..runs {
                gates[0].pass();
                let first = Held::new(&locks[0], Way::Write);
                // Each of them outranks us: it runs until it waits for the lock before its own.
                gates[1..depth].iter().for_each(Gate::open);
                gates[high].open();
                // Here high waits for the last lock, and medium is ready.
                owner.0.store(lent(), SeqCst);
                drop(first);
                owner.1.store(lent(), SeqCst);
                ended.open();
            }
        });
        for place in 1..depth {
            threads.spawn(move || {
                arrive(place, 1 + place as i32);
                for _ in 0..runs {
                    gates[place].pass();
                    let mine = Held::new(&locks[place], Way::Write);
                    drop(Held::new(&locks[place - 1], Way::Write));
                    drop(mine);
                    ended.open();
                }
            });
        }
        threads.spawn(move || {
            arrive(medium, MEDIUM);
            for _ in 0..runs {
                gates[medium].pass();
                medium_ran.store(tick(), SeqCst);
                kept.store(names.iter().any(|name| state(name.load(SeqCst)) == Some('D')), SeqCst);
                ended.open();
            }
        });
        threads.spawn(move || {
            arrive(high, HIGH);
            for _ in 0..runs {
                gates[high].pass();
                gates[medium].open();
                let last = Held::new(&locks[depth - 1], Way::Write);
                high_inside.store(tick(), SeqCst);
                drop(last);
                ended.open();
            }
        });
        // Who has said so sleeps at its gate before low can run.
        (0..depth + 2).for_each(|_| ready.pass());
        for _ in 0..runs {
            gates[0].open();
            (0..depth + 2).for_each(|_| ended.pass());
            let inverted = medium_ran.load(SeqCst) < high_inside.load(SeqCst);
            let owner = (owner.0.load(SeqCst), owner.1.load(SeqCst));
            seen.push(Seen { inverted, owner, kept: kept.load(SeqCst) });
        }
    });
    assert!(locks.iter().all(Lock::at_rest));
    seen
}

const RUNS: usize = 1_000;

/// In all of a thousand runs the owner at the end of the chain has high's priority while high
/// waits, its own again once it has released, and medium does not run before high.
fn never_inverted<S: Policy>() {
    for depth in 1..=4 {
        let name = format!("inversion, pi-mutex:{}, chain of {depth}", S::NAME);
        if !permitted(&name) {
            return;
        }
        alone(&name, || {
            let seen = inversions::<RawRtMutex<Linux, S>>(depth, RUNS);
            let expected = Seen { inverted: false, owner: (HIGH, 1), kept: false };
            for (run, seen) in seen.iter().enumerate().filter(|(_, seen)| !seen.kept) {
                assert_eq!(*seen, expected, "run {run} of {RUNS}, chain of {depth}");
            }
            let kept = seen.iter().filter(|seen| seen.kept).count();
            assert!(kept <= RUNS / 100, "{kept} of {RUNS} runs tell nothing: the kernel kept their threads");
        });
    }
}

#[test]
fn no_inversion_with_the_default_policy() {
    never_inverted::<Lateral>();
}

#[test]
fn no_inversion_with_the_published_policy() {
    never_inverted::<policy::Published>();
}

#[test]
fn no_inversion_without_user_space_waiting() {
    never_inverted::<policy::Off>();
}

/// The check can fail: on a mutex that inherits nothing, medium runs before high every time, and
/// the owner stays where it was.
#[test]
fn an_ordinary_mutex_is_inverted() {
    if !permitted("inversion of an ordinary mutex") {
        return;
    }
    alone("inversion of an ordinary mutex", || {
        for depth in 1..=2 {
            for seen in inversions::<RawMutex<Linux>>(depth, 50) {
                assert_eq!(seen, Seen { inverted: true, owner: (1, 1), kept: false });
            }
        }
    });
}

/// A time-sharing thread in the middle of a chain passes the boost on: it holds a mutex, so it does
/// not wait among equals, where the kernel would not see it.
#[test]
fn a_time_sharing_link_passes_the_boost_on() {
    if !permitted("a time-sharing link") {
        return;
    }
    alone("a time-sharing link", || {
        let (first, second) = (RawRtMutex::<Linux>::default(), RawRtMutex::<Linux>::default());
        let (linked, wanted, told) = (Gate::default(), Gate::default(), Gate::default());
        scope(|threads| {
            threads.spawn(|| {
                let held = Held::new(&first, Way::Write);
                linked.open();
                told.pass();
                // High is blocked, or about to be: look until it is.
                while lent() != HIGH {
                    std::thread::yield_now();
                }
                drop(held);
                assert_eq!(lent(), 0);
            });
            threads.spawn(|| {
                linked.pass();
                let held = Held::new(&second, Way::Write);
                wanted.open();
                drop(Held::new(&first, Way::Write));
                assert_eq!(lent(), HIGH);
                drop(held);
                assert_eq!(lent(), 0);
            });
            threads.spawn(|| {
                fixed(HIGH);
                wanted.pass();
                told.open();
                drop(Held::new(&second, Way::Write));
            });
        });
        assert!(first.at_rest() && second.at_rest());
    });
}

/// A timed wait that ends takes the boost with it.
#[test]
fn a_wait_that_times_out_takes_the_boost_back() {
    if !permitted("boost and timeout") {
        return;
    }
    alone("boost and timeout", || {
        let lock = RawRtMutex::<Linux>::default();
        let (held, gone) = (Gate::default(), Gate::default());
        scope(|threads| {
            threads.spawn(|| {
                fixed(1);
                let _held = Held::new(&lock, Way::Write);
                held.open();
                gone.pass();
                assert_eq!(lent(), 1);
            });
            threads.spawn(|| {
                fixed(HIGH);
                held.pass();
                let until = lockyard::cancel::Until::after(2_000_000);
                assert_eq!(lock.acquire_until(until), Err(lockyard::PiError::TimedOut));
                gone.open();
            });
        });
        assert!(lock.at_rest());
    });
}

/// Waiters of three priorities are served in their order, whatever order they came in.
#[test]
fn waiters_are_served_by_priority() {
    if !permitted("order of service") {
        return;
    }
    alone("order of service", || {
        for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1], [3, 2, 1]] {
            let lock = RawRtMutex::<Linux>::default();
            let gates: Vec<Gate> = (0..3).map(|_| Gate::default()).collect();
            let ready = Gate::default();
            let served = std::sync::Mutex::new(Vec::new());
            scope(|threads| {
                let (lock, gates, ready, served) = (&lock, &gates, &ready, &served);
                threads.spawn(move || {
                    fixed(1);
                    (0..3).for_each(|_| ready.pass());
                    let held = Held::new(lock, Way::Write);
                    gates.iter().for_each(Gate::open); // each runs at once, until it waits
                    drop(held);
                });
                for (gate, rank) in gates.iter().zip(order) {
                    threads.spawn(move || {
                        fixed(10 + rank);
                        ready.open();
                        gate.pass();
                        let _held = Held::new(lock, Way::Write);
                        served.lock().expect("no panic inside").push(rank);
                    });
                }
            });
            assert_eq!(*served.lock().expect("no panic inside"), [3, 2, 1], "arrived as {order:?}");
            assert!(lock.at_rest());
        }
    });
}
