//! Locks at the end of a thread's life: in destructors of thread-locals, and in the hands of a
//! thread that is gone.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::scope;

use lock_api::GuardNoSend;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::{Mutex, RwSem, Semaphore, SpinLock};
use lockyard_check::native::guarded;

static SPIN: SpinLock<u32> = SpinLock::new(0);
static MUTEX: Mutex<u32> = Mutex::new(0);
static RWSEM: RwSem<u32> = RwSem::new(0);
static SEMAPHORE: Semaphore = Semaphore::new(1);
static DESTROYED: AtomicU32 = AtomicU32::new(0);

/// Uses every lock when it is destroyed.
struct AtExit;

impl Drop for AtExit {
    fn drop(&mut self) {
        let before = Linux::id();
        *SPIN.lock() += 1;
        {
            let mut value = MUTEX.lock();
            *value += 1;
            Linux::nap(4); // so that others wait, in their destructors
        }
        *RWSEM.write() += 1;
        std::hint::black_box(*RWSEM.read());
        drop(SEMAPHORE.acquire());
        assert!(before.is_none() || before == Linux::id(), "a thread keeps its name to the end");
        DESTROYED.fetch_add(1, SeqCst);
    }
}

thread_local! {
    static EARLY: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

/// parking_lot issue 203: locks in destructors of thread-locals, contended, whether the thread's
/// first lock came before the thread-local, after it, or in the destructor itself.
#[test]
fn parking_lot_203_locks_in_thread_local_destructors() {
    guarded("thread-local destructors", || {
        const THREADS: u32 = 24;
        scope(|threads| {
            for number in 0..THREADS {
                threads.spawn(move || {
                    if number % 3 == 0 {
                        *SPIN.lock() += 0;
                    }
                    EARLY.set(Some(AtExit));
                    if number % 3 == 1 {
                        *MUTEX.lock() += 0;
                    }
                    LATE.set(Some(AtExit));
                });
            }
        });
        // A scope ends with its threads' functions, not with their destructors.
        let mut round = 0;
        while DESTROYED.load(SeqCst) < 2 * THREADS {
            Linux::nap(round);
            round += 1;
        }
        assert_eq!((*SPIN.lock(), *MUTEX.lock(), *RWSEM.read()), (2 * THREADS, 2 * THREADS, 2 * THREADS));
    });
}

/// A thread exits with locks held; its record goes to other threads, which must not take themselves
/// for the holder.
#[test]
fn a_new_thread_with_the_holders_record_is_not_the_holder() {
    guarded("reused records", || {
        let (mutex, rwsem) = (Mutex::new(0), RwSem::new(0));
        let holder = scope(|threads| {
            threads
                .spawn(|| {
                    std::mem::forget(mutex.lock());
                    std::mem::forget(rwsem.write());
                    Linux::id()
                })
                .join()
                .unwrap()
        });
        let mut reused = false;
        for _ in 0..2_000 {
            let same = scope(|threads| {
                threads
                    .spawn(|| {
                        assert!(
                            mutex.try_lock().is_none() && rwsem.try_read().is_none() && rwsem.try_write().is_none()
                        );
                        Linux::current();
                        Linux::id() == holder
                    })
                    .join()
                    .unwrap()
            });
            reused |= same;
        }
        println!("the holder's record was reused: {reused}");
        // SAFETY: on behalf of the thread that is gone.
        unsafe {
            mutex.force_unlock(GuardNoSend::new());
            rwsem.force_unlock_write(GuardNoSend::new());
        }
        assert_eq!((*mutex.lock(), *rwsem.write()), (0, 0));
    });
}

/// The process-wide tables grow with the threads that live at the same time, not with all that ever
/// lived.
#[test]
fn ten_thousand_threads_use_few_records() {
    guarded("10,000 threads", || {
        for _ in 0..1_250 {
            scope(|threads| {
                for _ in 0..8 {
                    threads.spawn(|| *MUTEX_OF_MANY.lock() += 1);
                }
            });
        }
        assert_eq!(*MUTEX_OF_MANY.lock(), 10_000);
        let used = lockyard::platform::linux::threads::records_used();
        assert!(used < 1_000, "{used} records");
    });
}

static MUTEX_OF_MANY: Mutex<u32> = Mutex::new(0);
