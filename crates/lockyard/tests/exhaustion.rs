//! Threads with names too long for a spinlock's word, and threads without a record: every lock
//! still works for everybody.

// This test is about the system's threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::event::{Event, Snapshot};
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads::{give_names, records_used};
use lockyard::platform::thread::ThreadId;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard::{CancelToken, GaveUp};
use lockyard_check::adapters::hashed::HashedMutex;
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::data::Data;
use lockyard_check::lock::{Held, Lock, Timed, Way};
use lockyard_check::native::guarded;
use lockyard_check::stage::{Stage, Steps};

/// Whether a thread of the present part of the test has the name that it should.
fn is_as_it_should_be(named: bool) -> bool {
    match Linux::current().map(|me| me.id()) {
        Some(name) => named && name.raw() > ThreadId::MAX_QUEUED,
        None => !named && Linux::id() == Some(ThreadId::ANONYMOUS),
    }
}

/// Threads with long names, or none, and one that has a record use a lock in every way it has.
fn everybody<L: Timed<P = Linux>>(named: bool) {
    let (lock, data, writes) = (L::default(), Data::<Linux>::default(), Steps::<Linux>::default());
    let token = CancelToken::new();
    Linux::run(6, |me| {
        assert!(is_as_it_should_be(named));
        for round in 0..300 {
            let way = L::WAYS[(round + me) % L::WAYS.len()];
            let until = match round % 4 {
                0 => Until::after(30_000),
                1 => Until::cancelled(&token),
                _ => Until::FOREVER,
            };
            let Ok(_held) = Held::until(&lock, way, until) else { continue };
            match way {
                Way::Write => {
                    data.write(me);
                    writes.advance();
                }
                Way::Read => data.read(),
            }
            if round % 32 == 0 {
                Linux::nap(4);
            }
        }
    });
    token.cancel();
    data.finish(u64::from(writes.count()));
    assert!(lock.at_rest());
    // What they cannot do, they say.
    let held = Held::new(&lock, Way::Write);
    Linux::run(1, |_| {
        for &way in L::WAYS {
            assert!(!lock.try_lock(way));
            assert_eq!(lock.lock_until(way, Until::after(100_000)), Err(GaveUp::TimedOut));
            assert_eq!(lock.lock_until(way, Until::cancelled(&token)), Err(GaveUp::Cancelled));
        }
    });
    drop(held);
    assert!(lock.at_rest());
}

/// The same for a lock without timed forms: named and anonymous waiters behind each other.
fn a_mixed_queue<L: Lock<P = Linux>>() {
    let (lock, data) = (L::default(), Data::<Linux>::default());
    Linux::run(8, |me| {
        for _ in 0..300 {
            let _held = Held::new(&lock, Way::Write);
            data.write(me);
        }
    });
    data.finish(2_400);
    assert!(lock.at_rest());
}

/// A wait of anonymous threads for a condition: it may end for no reason, and does with the lock.
fn a_condition() {
    let (mutex, condvar, turn) = (RawMutex::<Linux>::default(), RawCondvar::<Linux>::default(), AtomicU32::new(0));
    Linux::run(4, |me| {
        mutex.acquire();
        while turn.load(SeqCst) as usize != me {
            // SAFETY: acquired above, and after each wait.
            let waited = unsafe { condvar.wait(&mutex, Until::FOREVER) };
            assert_eq!(waited, Ok(()));
        }
        turn.fetch_add(1, SeqCst);
        condvar.broadcast();
        // SAFETY: as above.
        unsafe { mutex.release() };
    });
    assert!(mutex.at_rest() && !condvar.has_waiters());
}

fn every_lock(named: bool) {
    everybody::<RawMutex<Linux>>(named);
    everybody::<RawRwSem<Linux>>(named);
    everybody::<KernelRwSem<Linux, policy::TodayKernel>>(named);
    everybody::<KernelRwSem<Linux, policy::XaddBaseline>>(named);
    everybody::<Binary<RawSemaphore<Linux>>>(named);
    a_mixed_queue::<RawQSpinLock<Linux>>();
    a_mixed_queue::<RawCnaSpinLock<Linux>>();
    a_mixed_queue::<EagerHq<Linux>>();
    a_mixed_queue::<RawMutex<Linux>>();
    a_mixed_queue::<RawMcsLock<Linux>>();
    a_mixed_queue::<RawTicketLock<Linux>>();
    a_mixed_queue::<RawTtasLock<Linux>>();
    a_mixed_queue::<RawQRwLock<Linux>>();
    a_mixed_queue::<HashedMutex<Linux, RawQSpinLock<Linux>>>();
    a_condition();
}

#[test]
fn every_lock_works_for_threads_with_long_names_and_for_those_without() {
    guarded("exhaustion", || {
        let first = Linux::current().map(|thread| thread.id());
        let name = first.unwrap().raw();
        assert!(name < 64 && records_used() == name);
        give_names(name + 1, name);
        every_lock(false);
        assert_eq!(records_used(), name);
        give_names(ThreadId::MAX_QUEUED + 1, ThreadId::MAX_INDEX);
        let naps = || Snapshot::now().get(Event::LockNoNode);
        let before = naps();
        every_lock(true);
        assert_eq!(naps(), before, "a thread with a long name borrows a record, and does not poll");
        assert!(records_used() > ThreadId::MAX_QUEUED / 2);
        assert_eq!(Linux::current().map(|thread| thread.id()), first);
    });
}
