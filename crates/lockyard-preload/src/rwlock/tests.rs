//! What a call answers at the end of a count, which is set directly.

use libc::timespec;
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::RawRwSem;

use super::*;

/// Every reading call on a lock with one reader less than can be counted: the first gets it, the
/// others are told.
fn answers<L: Lock>(one_left: u64) {
    // SAFETY: all-zero is an unlocked rwlock.
    let object: RwlockObject = unsafe { core::mem::zeroed() };
    let lock = object.under::<L>();
    object.lock[0].store(one_left as u32, Relaxed);
    object.lock[1].store((one_left >> 32) as u32, Relaxed);
    let at = timespec { tv_sec: i64::MAX, tv_nsec: 0 };
    // SAFETY: a time.
    let deadline = unsafe { Deadline::new(libc::CLOCK_MONOTONIC, &at) }.expect("a time");
    let every = || {
        [Patience::Forever, Patience::None, Patience::Until(deadline)].map(|how| object.read(lock, how, Call::UNKNOWN))
    };
    assert_eq!(object.read(lock, Patience::Forever, Call::UNKNOWN), 0);
    assert_eq!(every(), [EAGAIN; 3], "a thread that reads already");
    thread::block().holds.remove(object.address());
    assert_eq!(every(), [EAGAIN; 3], "one that does not");
    assert_eq!(object.write(lock, Patience::None, Call::UNKNOWN), EBUSY);
    assert_eq!(object.unlock(lock), 0);
    assert_eq!(object.read(lock, Patience::Forever, Call::UNKNOWN), 0, "there is room for one again");
    thread::block().holds.remove(object.address());
}

#[test]
fn a_reader_too_many_is_told_so_and_does_not_wait() {
    answers::<RawRwSem<Linux>>((1 << 63) - 256);
    answers::<KernelRwSem<Linux, policy::TodayKernel>>((1 << 63) - 256);
    answers::<KernelRwSem<Linux, policy::Handoff4ms>>((1 << 63) - 256);
    answers::<RawQRwLock<Linux>>((1 << 31) - 512);
}

type L = moving::PerCpu;

/// The table is the process's: one test at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// With the first read the lock moves; the destroyed object gives its place back. Beyond the table
/// objects stay where they are.
#[test]
fn a_lock_moves_and_its_place_is_used_again() {
    let _alone = ALONE.lock();
    // SAFETY: all-zero is an unlocked rwlock.
    let objects: Vec<RwlockObject> = (0..=moving::PLACES).map(|_| unsafe { core::mem::zeroed() }).collect();
    for _ in 0..2 {
        for (number, object) in objects.iter().enumerate() {
            let lock = object.under::<L>();
            assert_eq!(object.read(lock, Patience::Forever, Call::UNKNOWN), 0);
            assert_eq!(object.moved() != 0, number < moving::PLACES, "{number}");
            assert_eq!(object.read(lock, Patience::Forever, Call::UNKNOWN), 0, "once more");
            assert_eq!((object.write(lock, Patience::None, Call::UNKNOWN), object.unlock(lock)), (EBUSY, 0));
            assert_eq!((object.write(lock, Patience::None, Call::UNKNOWN), object.unlock(lock)), (EBUSY, 0));
            assert_eq!((object.write(lock, Patience::None, Call::UNKNOWN), lock.is_write_locked()), (0, true));
            assert_eq!((object.unlock(lock), object.unlock(lock)), (0, EPERM));
        }
        for object in &objects {
            // SAFETY: nobody uses it.
            unsafe { object.under::<L>().retire() };
            assert_eq!(object.moved(), 0);
        }
    }
}

/// A reader that holds goes in past a gate that a writer has closed, until the writer holds the
/// lock.
#[test]
fn a_reader_goes_in_past_a_writer_that_waits_for_readers() {
    let _alone = ALONE.lock();
    // SAFETY: all-zero is an unlocked rwlock.
    let object: RwlockObject = unsafe { core::mem::zeroed() };
    let lock = object.under::<L>();
    assert_eq!(object.read(lock, Patience::Forever, Call::UNKNOWN), 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (object.write(lock, Patience::Forever, Call::UNKNOWN), object.unlock(lock)));
        while lock.try_read() {
            assert_eq!(object.unlock(lock), 0);
            std::thread::yield_now();
        }
        assert_eq!(object.read(lock, Patience::Forever, Call::UNKNOWN), 0, "a thread that reads already");
        assert!(!writer.is_finished());
        assert_eq!((object.unlock(lock), object.unlock(lock)), (0, 0));
        assert_eq!(writer.join().unwrap(), (0, 0));
    });
    // SAFETY: nobody uses it.
    unsafe { lock.retire() };
}
