//! Records: who has which.

use super::*;

/// Records are the process's: one test at a time makes many.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// All asked the kernel at once, which serves one after the other: seconds for a thousand.
#[test]
fn threads_that_start_at_once_ask_for_room_once() {
    use super::super::futex::ASKED;
    const THREADS: usize = 300;
    let _alone = ALONE.lock();
    let (before, begin) = (ASKED.load(Relaxed), std::sync::Barrier::new(THREADS));
    let end = std::sync::Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                begin.wait();
                assert!(current().is_some());
                end.wait();
            });
        }
    });
    let (asked, chunks) = (ASKED.load(Relaxed) - before, last_name().div_ceil(64) + 1);
    assert!(asked <= chunks, "asked {asked} times for {chunks} chunks");
}

#[test]
fn two_threads_have_two_names_and_one_thread_keeps_its_own() {
    let mine = current().unwrap().id();
    let other = std::thread::spawn(|| current().unwrap().id()).join().unwrap();
    assert_ne!(mine, other);
    assert_eq!(mine, current().unwrap().id());
    assert_eq!(Some(mine), id());
}

#[test]
fn names_of_exited_threads_are_used_again() {
    let _alone = ALONE.lock();
    let before = records_used();
    for _ in 0..2_000 {
        std::thread::spawn(|| assert!(current().is_some())).join().unwrap();
    }
    let more = records_used() - before;
    assert!(more < 1_000, "{more} records for 2,000 threads that never met");
}

/// A new thread gets the record of one that has ended, and was taken for it.
#[test]
fn a_thread_is_not_taken_for_an_earlier_one_with_its_name() {
    let mut seen = std::collections::HashMap::new();
    let again = (0..1_000).any(|_| {
        let (name, identity) = std::thread::spawn(|| (current().unwrap().id(), identity().unwrap())).join().unwrap();
        assert_eq!(identity as u32, name.raw());
        seen.insert(name, identity).is_some_and(|before| before != identity)
    });
    assert!(again, "no record was used twice");
}

/// The value of a key of POSIX's, whose destructor locks in the last round, after ours.
#[test]
fn a_thread_that_locks_after_it_has_given_its_record_back() {
    use crate::mutex::RawMutex;

    static MUTEX: RawMutex<Linux> = RawMutex::new();
    static LATE: AtomicU32 = AtomicU32::new(0);

    extern "C" fn late(round: *mut core::ffi::c_void) {
        // SAFETY: the key of the value that this is called with.
        let again =
            |round| unsafe { libc::pthread_setspecific(LATE.load(Relaxed), core::ptr::without_provenance(round)) };
        if round.addr() < 4 {
            again(round.addr() + 1);
            return;
        }
        assert_eq!(id(), Some(ThreadId::ANONYMOUS), "the record is the next one's");
        MUTEX.acquire();
        assert!(current().is_none() && identity().is_none());
        // SAFETY: acquired above.
        unsafe { MUTEX.release() };
        LATE.store(u32::MAX, Relaxed);
    }

    let mut key = 0;
    // SAFETY: a place for the key; the destructor lasts as long as the program.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(late)) }, 0);
    LATE.store(key, Relaxed);
    let id = std::thread::spawn(move || {
        // SAFETY: the key from above.
        unsafe { libc::pthread_setspecific(key, core::ptr::without_provenance(1)) };
        current().unwrap().id()
    });
    let id = id.join().unwrap();
    assert_eq!(LATE.load(Relaxed), u32::MAX);
    // Another test's thread may have it by now.
    let claim = slot(id).claim.load(Relaxed);
    assert!(claim as u32 == 0 || claim >> 32 > 1, "{claim:#x}");
}

/// Their records were free again only when there were no others: 65,000, of 1.6 KiB each.
#[test]
fn records_of_threads_that_lock_only_in_a_destructor_are_used_again() {
    extern "C" fn lock(_: *mut core::ffi::c_void) {
        assert!(current().is_some());
    }
    let _alone = ALONE.lock();
    let mut key = 0;
    // SAFETY: a place for the key; the destructor lasts as long as the program.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(lock)) }, 0);
    // SAFETY: the key from above.
    let start = move || unsafe { libc::pthread_setspecific(key, core::ptr::without_provenance(1)) };
    // Where many are about to start, none has registered when room is made for the last one.
    for together in [1, 16, 64] {
        let before = records_used();
        for _ in 0..6_400 / together {
            (0..together).for_each(|_| make_room());
            let threads: std::vec::Vec<_> = (0..together).map(|_| std::thread::spawn(start)).collect();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 0));
        }
        let more = records_used() - before;
        assert!(more < 2_500, "{more} records for 6,400 threads, of which {together} met");
    }
}

#[test]
fn a_thread_tells_of_its_end() {
    assert!(exit::is_told());
    let told = (0..100).any(|_| {
        let id = std::thread::spawn(|| current().unwrap().id()).join().unwrap();
        slot(id).claim.load(Relaxed) as u32 == 0
    });
    assert!(told, "the records of a hundred threads in turn all went to others at once");
}

/// Its name must stay the dead thread's: a mutex that inherits priorities knows the owner by it.
#[test]
fn a_thread_that_holds_an_rt_mutex_takes_its_record_with_it() {
    use crate::rtmutex_tree::{RawTreeRtMutex, policy};

    static MUTEX: RawTreeRtMutex<Linux, policy::Today> = RawTreeRtMutex::new();
    let id = std::thread::spawn(|| {
        assert!(MUTEX.try_acquire());
        current().unwrap().id()
    });
    let id = id.join().unwrap();
    assert!(slot(id).claim.load(Relaxed) as u32 != 0 && !record(id).is_unused());
    assert_eq!(MUTEX.owner(), Some(id));
    // SAFETY: its owner has ended.
    unsafe { MUTEX.release_for_owner() };
}

/// In a child that a signal handler makes while the thread waits.
#[test]
fn what_a_thread_has_borrowed_is_its_own_in_a_child() {
    use crate::platform::StandIn;

    let borrowed = || match strangers::enter(0) {
        StandIn::Record(record) => record.id(),
        _ => panic!("there are some"),
    };
    let forget = |name: ThreadId| slot(name).epoch.store(epoch::NEVER, Relaxed);
    let (outer, inner) = (borrowed(), borrowed());
    forget(outer);
    forget(inner);
    assert!(!is_here(outer) && !is_here(inner));
    strangers::keep();
    assert!(is_here(outer) && is_here(inner));
    strangers::leave(inner);
    forget(outer);
    strangers::keep();
    assert!(is_here(outer));
    strangers::leave(outer);
    forget(outer);
    strangers::keep();
    assert!(!is_here(outer), "given back");
}

/// What was kept of its record belonged to the thread that got it next, while destructors of the
/// first one still ran.
#[test]
fn a_thread_that_ends_is_told_before_its_record_is_another_s() {
    static LEFT: AtomicU32 = AtomicU32::new(0);
    fn left() {
        assert!(id().is_some_and(|id| id.is_anonymous()));
        LEFT.store(LEFT.load(Relaxed) + 1, Relaxed);
    }
    let _alone = ALONE.lock();
    when_left(left);
    std::thread::spawn(|| assert!(current().is_some())).join().unwrap();
    assert!(exit::is_told() == (LEFT.load(Relaxed) > 0));
    when_left(|| ());
}
