//! What those call who embed the locks in a C library's objects: taking by name, condition
//! variables over any lock, a child's forgetting.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::scope;

use lockyard::GaveUp;
use lockyard::cancel::{CancelToken, Until};
use lockyard::condvar::{Companion, RawCondvar};
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::{RawRwSem, policy};
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::lock::{Lock, Way};
use lockyard_check::native::guarded;

#[test]
fn a_mutex_is_taken_and_released_by_name() {
    let mutex = RawMutex::<Linux>::default();
    let me = Linux::current().expect("a record").id();
    // SAFETY: no other thread knows the mutex.
    let (take, give) = (|| unsafe { mutex.try_acquire_alone(me) }, || unsafe { mutex.try_release_alone(me) });
    assert!(!mutex.try_release_as(me) && !give());
    assert!(mutex.try_acquire_as(me) && mutex.is_locked());
    assert!(!mutex.try_acquire_as(me) && !take());
    assert!(mutex.try_release_as(me) && !mutex.is_locked());
    assert!(take() && mutex.is_locked());
    assert!(give() && mutex.at_rest());
}

/// A spinlock with a condition: nobody can be moved into its queue.
#[derive(Default)]
struct Spinning(RawQSpinLock<Linux>);

impl Companion<Linux> for Spinning {
    fn acquire(&self) {
        self.0.acquire();
    }

    unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.release() };
    }
}

/// Threads that wait for a number to become nought, and what a signaller does about it.
fn wait_for_nought<C: Companion<Linux> + Default + Sync>(waiters: u32, tell: impl Fn(&RawCondvar<Linux>)) {
    let (lock, condvar, number) = (C::default(), RawCondvar::<Linux>::new(), AtomicU32::new(1));
    let (waiting, left) = (AtomicU32::new(0), AtomicU32::new(waiters));
    guarded("condition", || {
        scope(|scope| {
            for _ in 0..waiters {
                scope.spawn(|| {
                    lock.acquire();
                    waiting.fetch_add(1, SeqCst);
                    while number.load(SeqCst) != 0 {
                        // SAFETY: acquired above, and after each wait.
                        let waited = unsafe { condvar.wait(&lock, Until::FOREVER) };
                        assert_eq!(waited, Ok(()));
                    }
                    left.fetch_sub(1, SeqCst);
                    // SAFETY: as above.
                    unsafe { lock.release() };
                });
            }
            // Who has counted itself has the lock until it is in the queue.
            while waiting.load(SeqCst) < waiters {
                std::thread::yield_now();
            }
            lock.acquire();
            assert!(condvar.has_waiters());
            number.store(0, SeqCst);
            // SAFETY: acquired above.
            unsafe { lock.release() };
            while left.load(SeqCst) > 0 {
                tell(&condvar);
                std::thread::yield_now();
            }
        });
        assert!(!condvar.has_waiters());
        condvar.drain();
    });
}

#[test]
fn a_condition_goes_with_any_lock() {
    wait_for_nought::<Spinning>(1, |condvar| {
        condvar.signal();
    });
    wait_for_nought::<Spinning>(3, |condvar| {
        condvar.signal();
    });
    wait_for_nought::<Spinning>(3, |condvar| {
        condvar.broadcast();
    });
    wait_for_nought::<RawMutex<Linux>>(3, |condvar| {
        condvar.signal();
    });
    wait_for_nought::<RawMutex<Linux>>(3, |condvar| {
        condvar.broadcast();
    });
}

#[test]
fn a_wait_for_a_condition_that_ends_early_has_the_lock() {
    let (lock, condvar, token) = (Spinning::default(), RawCondvar::<Linux>::default(), CancelToken::new());
    token.cancel();
    for (until, end) in [
        (Until::after(1_000), GaveUp::TimedOut),
        (Until::after(0), GaveUp::TimedOut),
        (Until::cancelled(&token), GaveUp::Cancelled),
    ] {
        lock.acquire();
        // SAFETY: acquired above.
        assert_eq!(unsafe { condvar.wait(&lock, until) }, Err(end));
        assert!(lock.0.is_locked() && !condvar.has_waiters());
        // SAFETY: the wait has taken it again.
        unsafe { lock.release() };
    }
    condvar.drain();
}

#[test]
fn a_child_forgets_who_waited_and_not_who_holds() {
    let (mutex, condvar) = (RawMutex::<Linux>::default(), RawCondvar::<Linux>::default());
    let (spin, hq) = (RawQSpinLock::<Linux>::default(), RawHqSpinLock::<Linux>::default());
    let (rwlock, token) = (RawQRwLock::<Linux>::default(), CancelToken::<Linux>::new());
    mutex.acquire();
    spin.acquire();
    hq.acquire();
    rwlock.lock(Way::Write);
    token.cancel();
    // SAFETY: nobody but this thread knows them.
    unsafe {
        mutex.forget_waiters();
        rwlock.forget_waiters();
        token.forget_waiters();
        condvar.forget_waiters();
        spin.forget_waiters();
        hq.forget_waiters();
    }
    assert!(mutex.is_locked() && !mutex.is_contended() && spin.is_locked() && hq.is_locked());
    assert!(!rwlock.at_rest() && !rwlock.try_lock(Way::Read));
    assert!(!condvar.has_waiters() && !token.is_cancelled());
    // SAFETY: the same, and all but the second are held.
    unsafe {
        mutex.release();
        spin.forget();
        hq.release();
        rwlock.unlock(Way::Write);
    }
    assert!(rwlock.at_rest() && mutex.at_rest() && spin.at_rest() && hq.at_rest());
}

struct Embedded;

impl policy::Visitor for Embedded {
    type Output = ();

    fn policy<Y: policy::Policy>(self) {
        let lock = RawRwSem::<Linux, Y>::default();
        let biased = Y::COUNT == policy::CountScheme::Biased;
        // SAFETY: no reader holds it but this thread.
        let unasked = || unsafe { lock.try_read_release_unasked() };
        // SAFETY: no other thread knows it.
        let forget = || unsafe { lock.forget_waiters() };
        assert!(!lock.try_read_again() && !unasked());
        lock.lock(Way::Read);
        let again = lock.try_read_again();
        assert_ne!(again, biased);
        assert_eq!(again, again && unasked());
        forget();
        assert!(!lock.try_lock(Way::Write), "a reader holds it still");
        // SAFETY: this thread does.
        unsafe { lock.read_release_detached() };
        lock.lock(Way::Write);
        assert!(!lock.try_read_again() && !unasked());
        forget();
        assert!(!lock.try_lock(Way::Read), "a writer holds it still");
        // SAFETY: this thread does.
        unsafe { lock.write_release_detached() };
        assert!(lock.at_rest());
    }
}

#[test]
fn an_rwsem_of_every_policy_can_be_embedded() {
    for name in policy::NAMES {
        policy::visit(name, Embedded).expect("a name of the list");
    }
}
