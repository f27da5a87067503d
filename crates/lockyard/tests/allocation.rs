//! No lock operation allocates: counted by the process's allocator, on every path, a thread's first
//! lock included.

// These tests are about the system's allocator and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::scope;

use lockyard::CancelToken;
use lockyard::cancel::Until;
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::rtmutex::{RawRtMutex, policy as pi};
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::Binary;
use lockyard_check::lock::{Lock, Shared, Timed, Way};
use lockyard_check::native::guarded;

/// Counts the allocations of threads that are watched.
struct Counting;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

static ALLOCATIONS: AtomicU32 = AtomicU32::new(0);

fn count() {
    if WATCHED.get() {
        ALLOCATIONS.fetch_add(1, SeqCst);
    }
}

// SAFETY: all is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `operations` on the calling thread and returns how many times it allocated.
fn watched(operations: impl FnOnce()) {
    WATCHED.set(true);
    operations();
    WATCHED.set(false);
}

/// `operations` on four threads at once.
fn on_threads(name: &str, operations: impl Fn(usize) + Sync) {
    guarded(name, || {
        let before = ALLOCATIONS.load(SeqCst);
        let start = Barrier::new(4);
        scope(|threads| {
            for number in 0..4 {
                let (operations, start) = (&operations, &start);
                threads.spawn(move || {
                    start.wait();
                    watched(|| operations(number));
                });
            }
        });
        assert_eq!(ALLOCATIONS.load(SeqCst) - before, 0, "{name} allocated");
    });
}

fn contended<L: Lock<P = Linux>>(name: &str) {
    let lock = L::default();
    on_threads(name, |number| {
        for round in 0..400 {
            let way = L::WAYS[(round + number) % L::WAYS.len()];
            lock.lock(way);
            Linux::nap(if round % 16 == 0 { 4 } else { 0 });
            // SAFETY: locked above.
            unsafe { lock.unlock(way) };
            if lock.try_lock(way) {
                // SAFETY: just taken.
                unsafe { lock.unlock(way) };
            }
        }
    });
}

fn ending<L: Timed<P = Linux>>(name: &str) {
    let lock = L::default();
    let token = CancelToken::new();
    on_threads(name, |number| {
        for round in 0..200 {
            let way = L::WAYS[(round + number) % L::WAYS.len()];
            let until = match round % 3 {
                0 => Until::deadline(0),
                1 => Until::after(50_000),
                _ => Until::cancelled(&token),
            };
            if lock.lock_until(way, until).is_ok() {
                Linux::nap(if round % 4 == 0 { 4 } else { 0 });
                // SAFETY: just taken.
                unsafe { lock.unlock(way) };
            }
        }
        token.cancel();
    });
}

fn downgrading<L: Shared<P = Linux>>(name: &str) {
    let lock = L::default();
    on_threads(name, |_| {
        for _ in 0..200 {
            lock.lock(Way::Write);
            // SAFETY: locked above; then for reading.
            unsafe {
                lock.downgrade();
                lock.unlock(Way::Read);
            }
        }
    });
}

/// One test, not several: the count is the process's.
#[test]
fn no_lock_allocates() {
    let before = ALLOCATIONS.load(SeqCst);
    watched(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(ALLOCATIONS.load(SeqCst) - before, 2, "the count itself does not work");

    contended::<RawQSpinLock<Linux>>("a spinlock");
    contended::<RawMutex<Linux>>("a mutex");
    contended::<RawRtMutex<Linux>>("a PI mutex");
    contended::<RawRtMutex<Linux, pi::Merged>>("a PI mutex whose waiters are in the kernel");
    contended::<RawRwSem<Linux>>("an rwsem");
    contended::<KernelRwSem<Linux, policy::TodayKernel>>("the kernel's rwsem");
    contended::<KernelRwSem<Linux, policy::XaddBaseline>>("the rwsem of 2019");
    contended::<Binary<RawSemaphore<Linux>>>("a semaphore");
    contended::<Binary<KernelSemaphore<Linux, DirectHandoff>>>("a semaphore with direct handoff");
    contended::<RawTreeRtMutex<Linux>>("an rt-mutex");
    ending::<RawTreeRtMutex<Linux>>("an rt-mutex with an end");
    ending::<RawMutex<Linux>>("a mutex with an end");
    ending::<RawRtMutex<Linux>>("a PI mutex with an end");
    ending::<RawRtMutex<Linux, pi::Merged>>("a PI mutex whose waiters are in the kernel, with an end");
    ending::<RawRwSem<Linux>>("an rwsem with an end");
    ending::<KernelRwSem<Linux, policy::TodayKernel>>("the kernel's rwsem with an end");
    ending::<Binary<RawSemaphore<Linux>>>("a semaphore with an end");
    ending::<Binary<KernelSemaphore<Linux, DirectHandoff>>>("a semaphore with direct handoff and an end");
    downgrading::<RawRwSem<Linux>>("a downgrade");
    let semaphore = RawSemaphore::<Linux>::with_units(0);
    on_threads("ups and downs", |number| {
        for _ in 0..400 {
            if number % 2 == 0 {
                semaphore.down();
            } else {
                semaphore.up();
            }
        }
    });
}
