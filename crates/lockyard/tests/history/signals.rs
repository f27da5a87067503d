//! Signal handlers that use locks while the thread they interrupt is anywhere on its way through
//! another: each handler runs before each step in turn, when the wake-up for the interrupted wait
//! may already have been given.

use lockyard::cancel::{CancelToken, Until};
use lockyard::event::Event;
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard::mutex::RawMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::wait::turn::TURN_NS;
use lockyard_check::lock::{Count, Held, Lock, Timed, Way};
use lockyard_check::scripted::{Actor, Scene, Scripted, every_stop};

use super::scripts;

type SpinLock = RawQSpinLock<Scripted>;
type Mutex = RawMutex<Scripted>;
type RwSem = RawRwSem<Scripted>;
type RwSemKernel = KernelRwSem<Scripted, policy::TodayKernel>;

/// A waiter for `L` is interrupted before each step by a handler that takes a held `H`. Meanwhile
/// `L` is released, so that its wake-up falls before, into or after the handler.
fn interrupted<L: Lock<P = Scripted>, H: Lock<P = Scripted>>() {
    for &way in L::WAYS {
        let mut lost = Vec::new();
        every_stop(|at| {
            let (lock, other) = (L::default(), H::default());
            let mut stopped = false;
            Scene::play(|scene, [holder, waiter, busy]| {
                holder.does(|| lock.lock(Way::Write));
                busy.does(|| other.lock(Way::Write));
                let handler = || drop(Held::new(&other, Way::Write));
                let task = || drop(Held::new(&lock, way));
                waiter.interrupted(at, handler, task);
                stopped = waiter.is_stopped();
                // SAFETY: locked above.
                holder.starts(|| unsafe { lock.unlock(Way::Write) });
                waiter.resumes();
                // SAFETY: locked above.
                busy.starts(|| unsafe { other.unlock(Way::Write) });
                rescued(scene, &[waiter], at, &mut lost);
            });
            assert!(lock.at_rest() && other.at_rest());
            stopped
        });
        assert!(lost.is_empty(), "the wake-up is lost if a handler comes before steps {lost:?} of a waiter ({way:?})");
    }
}

/// Runs to the end; if somebody would never wake, notes that and wakes `sleepers`.
fn rescued(scene: &Scene, sleepers: &[&Actor<'_>], at: u64, lost: &mut Vec<u64>) {
    if !scene.can_finish() {
        lost.push(at);
        sleepers.iter().for_each(|sleeper| sleeper.wakes_spuriously());
        scene.finish();
    }
}

/// The same for a semaphore's waiter.
fn interrupted_down<S: Count<P = Scripted>, H: Lock<P = Scripted>>() {
    let mut lost = Vec::new();
    every_stop(|at| {
        let (semaphore, other) = (S::with_units(0), H::default());
        let mut stopped = false;
        Scene::play(|scene, [upper, waiter, busy]| {
            busy.does(|| other.lock(Way::Write));
            waiter.interrupted(at, || drop(Held::new(&other, Way::Write)), || semaphore.down());
            stopped = waiter.is_stopped();
            upper.starts(|| semaphore.up());
            waiter.resumes();
            // SAFETY: locked above.
            busy.starts(|| unsafe { other.unlock(Way::Write) });
            rescued(scene, &[waiter], at, &mut lost);
        });
        assert_eq!(semaphore.units(), 0);
        assert!(other.at_rest());
        stopped
    });
    assert!(lost.is_empty(), "the wake-up is lost if a handler comes before steps {lost:?} of a down");
}

/// Thread and handler both wait with a token of their own; another thread waits with the first
/// token, too.
fn interrupted_with_tokens<L: Timed<P = Scripted>>() {
    let mut lost = Vec::new();
    every_stop(|at| {
        let (lock, other) = (L::default(), L::default());
        let (token, others_token) = (CancelToken::default(), CancelToken::default());
        let mut stopped = false;
        Scene::play(|scene, [holder, waiter, companion, busy]| {
            holder.does(|| lock.lock(Way::Write));
            busy.does(|| other.lock(Way::Write));
            let shared = companion.starts(|| lock.lock_until(Way::Write, Until::cancelled(&token)));
            let handler = || {
                assert!(Held::until(&other, Way::Write, Until::cancelled(&others_token)).is_ok());
            };
            let waited = waiter.interrupted(at, handler, || lock.lock_until(Way::Write, Until::cancelled(&token)));
            stopped = waiter.is_stopped();
            waiter.resumes();
            // SAFETY: locked above.
            busy.starts(|| unsafe { other.unlock(Way::Write) });
            scene.advance(10_000_000);
            busy.starts(|| token.cancel());
            rescued(scene, &[waiter, companion], at, &mut lost);
            assert!(shared.expect("cancelled").is_err() && waited.expect("cancelled").is_err());
            // SAFETY: locked above.
            holder.does(|| unsafe { lock.unlock(Way::Write) });
        });
        assert!(lock.at_rest() && other.at_rest());
        stopped
    });
    assert!(lost.is_empty(), "a cancelled token wakes not all if a handler comes before steps {lost:?} of a wait");
}

scripts! {
    /// A wake-up that the handler finds in the thread's parking token belongs to the interrupted
    /// wait.
    fn a_spinlock_in_a_handler_does_not_eat_the_wakeup() {
        interrupted::<Mutex, SpinLock>();
        interrupted::<RwSem, SpinLock>();
        interrupted::<RwSemKernel, SpinLock>();
        interrupted::<SpinLock, SpinLock>();
        interrupted_down::<KernelSemaphore<Scripted, DirectHandoff>, SpinLock>();
        interrupted_down::<RawSemaphore<Scripted>, SpinLock>();
    }

    /// A spinlock's waiter whose turn is over has no timer: nothing but the unlock wakes it. The
    /// handler queues with the thread's second node meanwhile.
    fn a_spinlock_in_a_handler_leaves_the_last_wakeup_of_another() {
        let (mut lost, mut nodes) = (Vec::new(), [0; 3]);
        every_stop(|at| {
            let (lock, other) = (SpinLock::default(), SpinLock::default());
            let mut stopped = false;
            Scene::play(|scene, [holder, waiter, busy]| {
                holder.does(|| lock.lock(Way::Write));
                busy.does(|| other.lock(Way::Write));
                waiter.interrupted(at, || drop(Held::new(&other, Way::Write)), || drop(Held::new(&lock, Way::Write)));
                if !waiter.is_stopped() {
                    // It sleeps for the rest of its turn, and then for ever.
                    scene.advance(TURN_NS);
                }
                stopped = waiter.is_stopped();
                assert!(stopped || waiter.sleeps_for_ever());
                // SAFETY: locked above.
                holder.starts(|| unsafe { lock.unlock(Way::Write) });
                waiter.resumes();
                // SAFETY: locked above.
                busy.starts(|| unsafe { other.unlock(Way::Write) });
                rescued(scene, &[waiter], at, &mut lost);
                let used = [Event::LockUseNode2, Event::LockUseNode3, Event::LockUseNode4].map(|event| scene.events(event));
                nodes = std::array::from_fn(|level| nodes[level] + used[level]);
            });
            assert!(lock.at_rest() && other.at_rest());
            stopped
        });
        assert!(lost.is_empty(), "the wake-up is lost if a handler comes before steps {lost:?} of a waiter");
        assert!(nodes[0] > 10 && nodes[1..] == [0, 0], "{nodes:?}");
    }

    fn a_mutex_in_a_handler_does_not_eat_the_wakeup() {
        interrupted::<Mutex, Mutex>();
        interrupted::<RwSem, Mutex>();
        interrupted::<RwSemKernel, Mutex>();
        interrupted::<SpinLock, Mutex>();
        interrupted_down::<KernelSemaphore<Scripted, DirectHandoff>, Mutex>();
    }

    fn an_rwsem_in_a_handler_does_not_eat_the_wakeup() {
        interrupted::<Mutex, RwSem>();
        interrupted::<RwSem, RwSemKernel>();
        interrupted::<RwSemKernel, RwSem>();
        interrupted_down::<KernelSemaphore<Scripted, DirectHandoff>, RwSem>();
    }

    /// A thread is in the list of one token at a time, also when a handler comes between joining
    /// the list and queueing.
    fn a_token_in_a_handler_leaves_the_threads_own_alone() {
        interrupted_with_tokens::<Mutex>();
        interrupted_with_tokens::<RwSem>();
        interrupted_with_tokens::<RwSemKernel>();
    }
}
