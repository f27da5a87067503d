//! The real machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::rtmutex_tree;
use lockyard::{TreeRtMutex, can_lend_priorities};

/// `lock` has no way to return an error: relocking is a panic that says so, not a hang.
#[test]
fn relock_panics() {
    let mutex = TreeRtMutex::new(5);
    let guard = mutex.lock();
    let panic = catch_unwind(AssertUnwindSafe(|| drop(mutex.lock()))).expect_err("a deadlock");
    let said = panic.downcast_ref::<String>().expect("a message");
    assert!(said.contains("locked by the thread that asks for it"), "{said}");
    drop(guard);
    assert_eq!(*mutex.lock(), 5);
}

#[test]
fn timed() {
    let mutex = TreeRtMutex::new(());
    let guard = mutex.lock();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock_for(Duration::from_millis(2)).is_none()));
    });
    drop(guard);
    assert!(mutex.try_lock_for(Duration::ZERO).is_some());
}

/// The kernel sees what is lent: the owner's priority in the scheduler is the waiter's while it
/// waits, and its own afterwards.
#[test]
fn the_kernel_sees_the_boost() {
    if !can_lend_priorities() {
        eprintln!("SKIPPED the_kernel_sees_the_boost: no right to set priorities (CAP_SYS_NICE or RLIMIT_RTPRIO)");
        return;
    }
    let mutex = TreeRtMutex::new(());
    let (say, hear) = channel();
    std::thread::scope(|scope| {
        let guard = mutex.lock();
        let owner = Linux::current().expect("registered").id();
        let mutex = &mutex;
        scope.spawn(move || {
            let me = Linux::current().expect("registered").id();
            assert!(rtmutex_tree::set_priority::<Linux>(me, 7));
            say.send(Linux::priority(me)).expect("heard");
            drop(mutex.lock());
            assert_eq!(Linux::priority(me), 7);
            assert!(rtmutex_tree::set_priority::<Linux>(me, 0));
        });
        assert_eq!(hear.recv(), Ok(7));
        while Linux::priority(owner) == 0 {
            std::thread::yield_now();
        }
        assert_eq!((Linux::priority(owner), rtmutex_tree::effective_priority::<Linux>(owner)), (7, 7));
        drop(guard);
        assert_eq!((Linux::priority(owner), rtmutex_tree::effective_priority::<Linux>(owner)), (0, 0));
    });
}
