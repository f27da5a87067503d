//! Sizes, zero bytes, statics: what embedders rely on.

use std::mem::{MaybeUninit, size_of};

use lockyard::mutex::RawMutex;
use lockyard::pi_condvar::RawPiCondvar;
use lockyard::pi_mutex::RawPiMutex;
use lockyard::platform::linux::Linux;
use lockyard::rwsem::{RawRwSem, policy};
use lockyard::semaphore::{DirectHandoff, Opportunistic2008, OpportunisticSafe, RawSemaphore};
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::{CancelToken, Mutex, RwSem, Semaphore, SpinLock};

#[test]
fn sizes_fit_into_the_c_librarys_objects() {
    assert_eq!(size_of::<RawQSpinLock<Linux>>(), 4);
    assert_eq!(size_of::<RawMutex<Linux>>(), 32);
    assert_eq!((size_of::<RawPiMutex<Linux>>(), size_of::<RawPiCondvar<Linux>>()), (24, 16));
    assert!(size_of::<RawRwSem<Linux, policy::Today>>() <= 40);
    assert!(size_of::<RawSemaphore<Linux>>() <= 32);
    assert!(size_of::<RawQSpinLock<Linux>>() <= size_of::<libc::pthread_spinlock_t>());
    assert!(size_of::<RawMutex<Linux>>() <= size_of::<libc::pthread_mutex_t>());
    assert!(size_of::<RawRwSem<Linux, policy::Today>>() <= size_of::<libc::pthread_rwlock_t>());
    assert!(size_of::<RawSemaphore<Linux>>() <= size_of::<libc::sem_t>());
}

#[test]
fn the_data_costs_nothing_more() {
    assert_eq!(size_of::<SpinLock<u32>>(), 8);
    assert_eq!(size_of::<Mutex<u64>>(), 40);
    assert_eq!(size_of::<RwSem<()>>(), size_of::<RawRwSem<Linux, policy::Today>>());
    assert_eq!(size_of::<Semaphore>(), size_of::<RawSemaphore<Linux>>());
    assert_eq!(size_of::<Option<lockyard::MutexGuard<'_, u8>>>(), size_of::<usize>());
}

/// A lock made of zero bytes works as one made by its constructor.
macro_rules! zeroed {
    ($lock:ty, |$zero:ident| $body:expr) => {{
        // SAFETY: all-zero bytes are an unlocked lock: that is the promise under test.
        let $zero: $lock = unsafe { MaybeUninit::zeroed().assume_init() };
        $body
    }};
}

#[test]
fn zero_bytes_are_an_unlocked_spinlock() {
    zeroed!(RawQSpinLock<Linux>, |lock| {
        assert!(!lock.is_locked());
        lock.acquire();
        assert!(!lock.try_acquire());
        // SAFETY: acquired above.
        unsafe { lock.release() };
        assert!(!lock.is_locked());
    });
}

#[test]
fn zero_bytes_are_an_unlocked_mutex() {
    zeroed!(RawMutex<Linux>, |lock| {
        assert!(!lock.is_locked());
        lock.acquire();
        assert!(!lock.try_acquire());
        // SAFETY: acquired above.
        unsafe { lock.release() };
        assert!(!lock.is_locked());
    });
}

#[test]
fn zero_bytes_are_an_unlocked_pi_mutex() {
    zeroed!(RawPiMutex<Linux>, |lock| {
        assert!(!lock.is_locked());
        lock.acquire().unwrap();
        assert!(!lock.try_acquire());
        // SAFETY: acquired above.
        unsafe { lock.release() }.unwrap();
        assert!(!lock.is_locked());
    });
    zeroed!(RawPiCondvar<Linux>, |condvar| condvar.notify_all());
}

#[test]
fn zero_bytes_are_an_unlocked_rwsem_of_every_policy() {
    struct Zero;
    impl policy::Visitor for Zero {
        type Output = ();
        fn policy<Y: policy::Policy>(self) {
            zeroed!(RawRwSem<Linux, Y>, |lock| {
                assert!(!lock.is_locked());
                lock.write_acquire();
                assert!(!lock.try_read_acquire() && !lock.try_write_acquire());
                // SAFETY: acquired above.
                unsafe { lock.write_release() };
                assert!(lock.try_read_acquire() && lock.try_read_acquire());
                // SAFETY: acquired twice above.
                unsafe {
                    lock.read_release();
                    lock.read_release();
                }
                assert!(!lock.is_locked());
            });
        }
    }
    for name in policy::NAMES {
        policy::visit(name, Zero).expect("a name of the list");
    }
}

#[test]
fn zero_bytes_are_a_semaphore_without_units() {
    macro_rules! semaphore {
        ($($policy:ty),*) => {$(
            zeroed!(RawSemaphore<Linux, $policy>, |semaphore| {
                assert_eq!(semaphore.units(), 0);
                assert!(!semaphore.try_down());
                assert!(semaphore.up() && semaphore.try_down());
                assert_eq!(semaphore.units(), 0);
            });
        )*};
    }
    semaphore!(OpportunisticSafe, DirectHandoff, Opportunistic2008);
}

static SPIN: SpinLock<u32> = SpinLock::new(1);
static MUTEX: Mutex<u32> = Mutex::new(2);
static RWSEM: RwSem<u32> = RwSem::new(3);
static SEMAPHORE: Semaphore = Semaphore::new(4);
static TOKEN: CancelToken = CancelToken::new();

#[test]
fn statics_need_no_initialisation() {
    assert_eq!(*SPIN.lock() + *MUTEX.lock() + *RWSEM.read() + SEMAPHORE.available(), 10);
    *SPIN.lock() += 1;
    *MUTEX.lock() += 1;
    *RWSEM.write() += 1;
    drop(SEMAPHORE.acquire());
    assert_eq!(*SPIN.lock() + *MUTEX.lock() + *RWSEM.read() + SEMAPHORE.available(), 13);
    assert!(!TOKEN.is_cancelled());
}

#[test]
fn a_box_of_zeroes_may_be_any_number_of_locks() {
    // SAFETY: as above, for each.
    let locks: Box<[RawMutex<Linux>; 1000]> = unsafe { Box::new_zeroed().assume_init() };
    locks.iter().for_each(RawMutex::acquire);
    assert!(locks.iter().all(RawMutex::is_locked));
}
