//! Sizes, zero bytes, statics: what embedders rely on.

use std::mem::{MaybeUninit, size_of};

use lockyard::futex_hash::{Bucket, FutexHash, Waited};
use lockyard::history::qrwlock::{KernelQRwLock, policy as qrw};
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::platform::ParkedHeads;
use lockyard::platform::linux::Linux;
use lockyard::platform::thread::Thread;
use lockyard::platform::{Ordering, Platform, Word};
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtcondvar::RawRtCondvar;
use lockyard::rtmutex::RawRtMutex;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rtmutex_tree::condvar::RawTreeRtCondvar;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::{Pool, RawHqSpinLock};
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard::{CancelToken, Mutex, RwSem, Semaphore, SpinLock};
use lockyard_check::lock::{Lock, Way};

#[test]
fn sizes_fit_into_the_c_librarys_objects() {
    assert_eq!(size_of::<RawQSpinLock<Linux>>(), 4);
    assert_eq!(size_of::<RawMutex<Linux>>(), 32);
    assert_eq!((size_of::<RawRtMutex<Linux>>(), size_of::<RawRtCondvar<Linux>>()), (24, 16));
    assert!(size_of::<RawRwSem<Linux>>() <= 40);
    assert!(size_of::<RawSemaphore<Linux>>() <= 32);
    assert!(size_of::<RawQSpinLock<Linux>>() <= size_of::<libc::pthread_spinlock_t>());
    assert!(size_of::<RawMutex<Linux>>() <= size_of::<libc::pthread_mutex_t>());
    assert!(size_of::<RawRwSem<Linux>>() <= size_of::<libc::pthread_rwlock_t>());
    assert!(size_of::<RawSemaphore<Linux>>() <= size_of::<libc::sem_t>());
}

#[test]
fn the_data_costs_nothing_more() {
    assert_eq!(size_of::<SpinLock<u32>>(), 8);
    assert_eq!(size_of::<Mutex<u64>>(), 40);
    assert_eq!(size_of::<RwSem<()>>(), size_of::<RawRwSem<Linux>>());
    assert_eq!(size_of::<Semaphore>(), size_of::<RawSemaphore<Linux>>());
    assert_eq!(size_of::<Option<lockyard::MutexGuard<'_, u8>>>(), size_of::<usize>());
}

/// Goes through every way of holding an unlocked lock, and leaves it as it was.
fn is_unlocked<L: Lock>(lock: &L) {
    assert!(lock.at_rest(), "{lock:?}");
    for &way in L::WAYS {
        assert!(lock.try_lock(way), "{way:?}");
        // SAFETY: acquired above.
        unsafe { lock.unlock(way) };
    }
    lock.lock(Way::Write);
    assert!(L::WAYS.iter().all(|way| !lock.try_lock(*way)));
    // SAFETY: acquired above.
    unsafe { lock.unlock(Way::Write) };
    assert!(lock.at_rest(), "{lock:?}");
}

/// A lock made of zero bytes, and one made by its constructor (at run time here), is unlocked.
macro_rules! unlocked {
    ($($lock:ty),* $(,)?) => {$(
        // SAFETY: all-zero bytes are an unlocked lock: that is the promise under test.
        let zero: $lock = unsafe { MaybeUninit::zeroed().assume_init() };
        is_unlocked(&zero);
        is_unlocked(&<$lock>::new());
        is_unlocked(&<$lock>::default());
    )*};
}

#[test]
fn zero_bytes_are_an_unlocked_lock() {
    unlocked!(
        RawQSpinLock<Linux>,
        RawHqSpinLock<Linux>,
        RawCnaSpinLock<Linux>,
        RawMcsLock<Linux>,
        RawTicketLock<Linux>,
        RawTtasLock<Linux>,
        LockRef<Linux>,
        LockRef<Linux, RawMcsLock<Linux>>,
        LockRef<Linux, RawTicketLock<Linux>>,
        LockRef<Linux, RawTtasLock<Linux>>,
        RawMutex<Linux>,
        RawRtMutex<Linux>,
        RawTreeRtMutex<Linux>,
        RawQRwLock<Linux>,
        KernelQRwLock<Linux, qrw::TodayKernel>,
        KernelQRwLock<Linux, qrw::FetchAdd>,
        KernelQRwLock<Linux, qrw::ByteCas>,
        KernelQRwLock<Linux, qrw::WordCas>,
    );
}

#[test]
fn zero_bytes_are_an_unlocked_rwsem_of_every_policy() {
    struct Zero;
    impl policy::Visitor for Zero {
        type Output = ();
        fn policy<Y: policy::Policy>(self) {
            unlocked!(KernelRwSem<Linux, Y>);
        }
    }
    unlocked!(RawRwSem<Linux>);
    for name in policy::NAMES {
        policy::visit(name, Zero).expect("a name of the list");
    }
}

#[test]
fn zero_bytes_are_a_condition_variable_without_waiters() {
    let mutex = RawTreeRtMutex::<Linux>::new();
    // SAFETY: as above.
    let zero: RawTreeRtCondvar<Linux> = unsafe { MaybeUninit::zeroed().assume_init() };
    for condvar in [zero, RawTreeRtCondvar::new(), RawTreeRtCondvar::default()] {
        condvar.notify_one(&mutex);
        condvar.notify_all(&mutex);
    }
    // SAFETY: as above.
    let zero: RawRtCondvar<Linux> = unsafe { MaybeUninit::zeroed().assume_init() };
    for condvar in [zero, RawRtCondvar::new(), RawRtCondvar::default()] {
        condvar.notify_one();
        condvar.notify_all();
    }
}

#[test]
fn zero_bytes_are_a_semaphore_without_units() {
    macro_rules! empty {
        ($($semaphore:ty),*) => {$(
            // SAFETY: as above.
            let zero: $semaphore = unsafe { MaybeUninit::zeroed().assume_init() };
            for semaphore in [zero, <$semaphore>::with_units(0), <$semaphore>::default()] {
                assert_eq!(semaphore.units(), 0);
                assert!(!semaphore.try_down());
                assert!(semaphore.up() && semaphore.try_down());
                assert_eq!(semaphore.units(), 0);
            }
        )*};
    }
    empty!(
        RawSemaphore<Linux>,
        KernelSemaphore<Linux, DirectHandoff>,
        KernelSemaphore<Linux, Opportunistic2008>
    );
    assert_eq!(RawSemaphore::<Linux>::new().units(), 0);
}

/// What platforms keep for all locks, made of zero bytes, by its constructor at run time, or by
/// default: the same.
macro_rules! the_same {
    ($($kept:ty),* $(,)?) => {$(
        // SAFETY: as above.
        let zero: Box<$kept> = unsafe { Box::new_zeroed().assume_init() };
        let zero = format!("{zero:?}");
        assert_eq!(format!("{:?}", Box::new(<$kept>::new())), zero);
        assert_eq!(format!("{:?}", Box::new(<$kept>::default())), zero);
    )*};
}

#[test]
fn zero_bytes_are_records_that_nobody_has() {
    the_same!(Thread<Linux>, ParkedHeads<Linux>, Bucket<Linux>);
    static TABLE: [Bucket<Linux>; 4] = [const { Bucket::new() }; 4];
    let (hash, word) = (FutexHash::<Linux>::new(&TABLE), <Linux as Platform>::U32::default());
    assert_eq!(hash.buckets(), 4);
    word.store(1, Ordering::Relaxed);
    assert_eq!(hash.wait(&word, 2, None), Waited::Differs);
    assert_eq!(hash.wait(&word, 1, Some(Linux::now())), Waited::TimedOut);
    assert_eq!(hash.wake(&word, 1), 0);
    let pool = Box::new(Pool::<Linux>::new());
    assert_eq!((pool.in_use(), pool.most_in_use()), (0, 0));
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
