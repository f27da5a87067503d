//! `Send`, `Sync` and `Debug` as the ecosystem has them: the same as `parking_lot`'s types where it
//! has them, checked at compile time.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::MutexGuard as StdGuard;

use lockyard::futex_hash::{Bucket, FutexHash};
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard::rtmutex::RawRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::{
    CancelToken, GaveUp, Mutex, MutexGuard, PiError, RtCondvar, RtMutex, RtMutexGuard, RwSem, RwSemReadGuard,
    RwSemWriteGuard, Semaphore, SemaphorePermit, SpinLock, SpinLockGuard,
};

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_debug<T: Debug>() {}

/// Fails to compile if `$type` implements `$marker`: the call below would then be ambiguous.
macro_rules! not {
    ($type:ty: $marker:ident) => {{
        trait Unless<A> {
            fn it() {}
        }
        impl<T: ?Sized> Unless<()> for T {}
        struct Has;
        impl<T: ?Sized + $marker> Unless<Has> for T {}
        <$type as Unless<_>>::it();
    }};
}

#[test]
fn locks_are_send_and_sync_as_their_data() {
    is_send::<(RtMutex<u8>, RtCondvar, RawRtMutex<Linux>)>();
    is_sync::<(RtMutex<u8>, RtCondvar, RawRtMutex<Linux>)>();
    is_debug::<(RtMutex<u8>, RtCondvar, RtMutexGuard<'_, u8>, PiError)>();
    not!(RtMutex<Rc<u8>>: Send);
    not!(RtMutexGuard<'_, u8>: Send); // only the owner unlocks
    is_send::<(Mutex<u8>, RwSem<u8>, SpinLock<u8>, Semaphore, CancelToken)>();
    is_sync::<(Mutex<u8>, RwSem<u8>, SpinLock<u8>, Semaphore, CancelToken)>();
    is_send::<(RawMutex<Linux>, RawRwSem<Linux>, RawQSpinLock<Linux>, RawSemaphore<Linux>)>();
    is_sync::<(RawMutex<Linux>, RawRwSem<Linux>, RawQSpinLock<Linux>, RawSemaphore<Linux>)>();
    // A mutex makes data that may be sent shareable; a reader-writer lock needs data that may be
    // shared.
    is_sync::<(Mutex<Cell<u8>>, SpinLock<RefCell<u8>>)>();
    not!(Mutex<Rc<u8>>: Send);
    not!(Mutex<Rc<u8>>: Sync);
    not!(SpinLock<Rc<u8>>: Sync);
    not!(RwSem<Cell<u8>>: Sync);
    not!(RwSem<Rc<u8>>: Send);
}

#[test]
fn guards_stay_with_their_thread_unless_nobody_cares() {
    not!(MutexGuard<'static, u8>: Send);
    not!(RwSemReadGuard<'static, u8>: Send);
    not!(RwSemWriteGuard<'static, u8>: Send);
    not!(StdGuard<'static, u8>: Send);
    is_sync::<(MutexGuard<'_, u8>, RwSemReadGuard<'_, u8>, RwSemWriteGuard<'_, u8>)>();
    not!(MutexGuard<'static, Cell<u8>>: Sync);
    // No owner, so anybody may release.
    is_send::<(SpinLockGuard<'_, u8>, SemaphorePermit<'_>)>();
}

#[test]
fn everything_can_be_printed_without_waiting() {
    is_debug::<(GaveUp, CancelToken, SemaphorePermit<'_>)>();
    let mutex = Mutex::new(7);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: 7 }");
    let held = mutex.lock();
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
    drop(held);
    let rwsem = RwSem::new(7);
    assert_eq!(format!("{rwsem:?}"), "RwLock { data: 7 }");
    let held = rwsem.write();
    assert_eq!(format!("{rwsem:?}"), "RwLock { data: <locked> }");
    drop(held);
    assert!(format!("{:?}", Semaphore::new(3)).contains('3'));
    assert_eq!(format!("{:?}", SpinLock::new(7).lock()), "7");
    let table = [const { Bucket::<Linux>::new() }; 2];
    assert_eq!(format!("{:?}", FutexHash::with_table(&table)), "FutexHash { buckets: 2, .. }");
    assert_eq!(format!("{:?}", table[0]), "Bucket { waiters: U32(0), .. }");
    let object = LockRef::<Linux>::with_count(5);
    assert!(format!("{object:?}").starts_with("LockRef { lock: ") && format!("{object:?}").ends_with(", count: 5 }"));
}

#[test]
fn default_and_from_are_there() {
    assert_eq!(Mutex::<u8>::default().into_inner(), 0);
    assert_eq!(RwSem::from(5).into_inner(), 5);
    assert_eq!(*SpinLock::from(5).get_mut(), 5);
}
