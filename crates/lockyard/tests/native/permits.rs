//! Permits of a semaphore: many in one step, divided, put together, forgotten, with an `Arc`; and
//! the calls that end, of every lock under the same names.

use std::thread::scope;
use std::time::{Duration, Instant};

use lockyard::{
    CancelToken, CancellableMutex, CancellableRwLock, CancellableSemaphore, FairMutex, GaveUp, Mutex, QRwLock,
    RecursiveRwLock, RtMutex, RwLock, RwSem, Semaphore, TreeRtMutex,
};
use lockyard_check::native::guarded;

use crate::panics;

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn many_permits_come_and_go_together() {
    let slots = Semaphore::new(5);
    let three = slots.acquire_many(3);
    assert_eq!((three.permits(), slots.available()), (3, 2));
    assert!(slots.try_acquire_many(3).is_none() && slots.try_acquire_many_for(3, SHORT).is_none());
    let nothing = slots.try_acquire_many(0).expect("nothing can be had at any time");
    assert!(slots.try_acquire_many_until(2, Instant::now()).is_some(), "what need not wait is not stopped");
    drop((three, nothing));
    assert_eq!(slots.available(), 5);
    assert!(slots.release(2) && !slots.release(u32::MAX));
    assert_eq!(slots.available(), 7);
}

#[test]
fn permits_are_divided_and_put_together() {
    let (slots, others) = (Semaphore::new(4), Semaphore::new(1));
    let mut all = slots.acquire_many(4);
    assert!(all.split(5).is_none() && all.permits() == 4);
    let mut two = all.split(2).expect("it has two");
    let none = all.split(0).expect("it has none to spare, but none");
    drop(none);
    assert_eq!((all.permits(), two.permits(), slots.available()), (2, 2, 0));
    drop(all);
    assert_eq!(slots.available(), 2);
    two.merge(slots.acquire());
    assert_eq!((two.permits(), slots.available()), (3, 1));
    assert!(panics(|| two.merge(others.acquire())), "of another semaphore");
    assert_eq!((two.permits(), others.available()), (3, 1));
    two.split(1).expect("one").forget();
    drop(two);
    assert_eq!(slots.available(), 3);
}

#[test]
fn more_than_there_can_be_is_a_panic() {
    let slots = Semaphore::new(1);
    let most = lockyard::raw::MAX_UNITS;
    assert!(slots.try_acquire_many(most).is_none());
    assert!(panics(|| drop(slots.try_acquire_many(most + 1))) && panics(|| drop(slots.acquire_many(u32::MAX))));
    assert_eq!(slots.available(), 1);
}

/// An owned permit outlives the thread, and the last `Arc` of the one that made it.
#[cfg(feature = "arc_lock")]
#[test]
fn owned_permits_keep_their_semaphore() {
    use std::sync::Arc;
    use std::thread::spawn;

    guarded("owned permits", || {
        let slots = Arc::new(Semaphore::new(3));
        let mut permit = slots.acquire_owned();
        permit.merge(slots.acquire_many(1).into_owned(&slots));
        permit.merge(slots.try_acquire_owned().expect("there is one"));
        assert!(slots.try_acquire_owned().is_none());
        let other = Semaphore::new(1);
        assert!(panics(|| drop(other.acquire().into_owned(&slots))) && other.available() == 1);
        let weak = Arc::downgrade(&slots);
        drop(slots);
        let mut permit = spawn(move || permit).join().expect("it comes back");
        assert_eq!(permit.permits(), 3);
        permit.split(1).expect("one").forget();
        drop(permit.split(1));
        assert_eq!((permit.permits(), weak.upgrade().map(|slots| slots.available())), (1, Some(1)));
        permit.forget();
        assert!(weak.upgrade().is_none(), "a forgotten permit keeps nothing");
    });
}

/// Every lock: a wait ends by a duration, by a time, and by a token; what need not wait does not.
#[test]
fn calls_that_end_have_the_same_names_everywhere() {
    macro_rules! mutexes {
        ($($lock:ident)*) => {$({
            let (lock, token) = ($lock::new(()), CancelToken::new());
            token.cancel();
            assert!(lock.lock_cancellable(&token).is_ok());
            let held = lock.lock();
            scope(|threads| {
                threads.spawn(|| {
                    assert!(lock.try_lock_for(SHORT).is_none() && lock.try_lock_until(Instant::now()).is_none());
                    assert_eq!(lock.lock_cancellable(&token).err(), Some(GaveUp::Cancelled));
                });
            });
            drop(held);
            assert!(lock.try_lock_for(SHORT).is_some(), stringify!($lock));
        })*};
    }
    macro_rules! rwlocks {
        ($($lock:ident)*) => {$({
            let (lock, token) = ($lock::new(()), CancelToken::new());
            token.cancel();
            assert!(lock.read_cancellable(&token).is_ok() && lock.write_cancellable(&token).is_ok());
            let held = lock.write();
            scope(|threads| {
                threads.spawn(|| {
                    assert!(lock.try_read_for(SHORT).is_none() && lock.try_read_until(Instant::now()).is_none());
                    assert!(lock.try_write_for(SHORT).is_none() && lock.try_write_until(Instant::now()).is_none());
                    assert_eq!(lock.read_cancellable(&token).err(), Some(GaveUp::Cancelled));
                    assert_eq!(lock.write_cancellable(&token).err(), Some(GaveUp::Cancelled));
                });
            });
            drop(held);
            assert!(lock.try_write_for(SHORT).is_some() && lock.try_read_for(SHORT).is_some(), stringify!($lock));
        })*};
    }
    guarded("calls that end", || {
        mutexes!(Mutex FairMutex RtMutex TreeRtMutex);
        rwlocks!(RwSem RwLock RecursiveRwLock QRwLock);
        let (slots, token) = (Semaphore::new(1), CancelToken::new());
        token.cancel();
        assert!(slots.acquire_cancellable(&token).is_ok());
        let _held = slots.acquire();
        assert!(slots.try_acquire_for(SHORT).is_none() && slots.try_acquire_until(Instant::now()).is_none());
        assert_eq!(slots.acquire_cancellable(&token).err(), Some(GaveUp::Cancelled));
        assert_eq!(slots.acquire_many_cancellable(2, &token).err(), Some(GaveUp::Cancelled));
    });
}
