//! A machine of which nothing is known but Rust's standard library: macOS, Windows, the BSDs,
//! Android, WebAssembly.
//!
//! | file | what |
//! |---|---|
//! | `threads` | records of threads, and what they have counted |
//! | `sleep` | sleeping on a word and waking |
//! | `clock` | time |
//!
//! Locks keep their order, their bounds and their promises about memory. What the standard library
//! does not tell degrades as [`Platform`] allows:
//!
//! | what | here |
//! |---|---|
//! | [`is_running`](Platform::is_running) | every thread is taken to run: a waiter spins for its whole budget, then sleeps |
//! | NUMA nodes, caches | one: `CnaSpinLock` and `HqSpinLock` queue like `SpinLock` |
//! | fixed priorities | unknown: all threads are equals, and none is lent a priority |
//! | PI futexes | none: `RtMutex` is `TreeRtMutex`; `RtCondvar`, `CheckedMutex` and policies of `RtMutex` are absent |
//! | [`fence_light`](Platform::fence_light) | a full fence: no sleeper depends on a timer, whose length other systems round up |
//! | `fork` | the child's only thread goes on with its record; records of the parent's other threads stay taken |
//! | the clock that people set | is the monotonic clock |
//!
//! # What differs from Linux for programs
//!
//! * A thread's first lock may allocate, contended or not: a chunk of records, what the standard
//!   library needs for thread-locals and their destructors, on some systems the lock and condition
//!   variable of a bucket. So a global allocator cannot use these locks here.
//! * A signal handler must not use a lock, not even try one.
//! * A thread that is stopped inside the standard library's lock of a bucket (a few instructions,
//!   before it sleeps or as it wakes another) keeps all locks whose waiters share that bucket from
//!   waking them. A child of `fork` may find a bucket locked so.
//! * A thread that ends with a `TreeRtMutex` held keeps its record for ever.
//! * WebAssembly without threads: a lock call that would wait never returns. Timed lock calls end;
//!   without a clock (`wasm32-unknown-unknown`) those for a length of time end too, but those until
//!   an `Instant`, and `Condvar::wait_for`, panic in the standard library. Tried by compiling only.

// This is where the seam ends: here the standard library is the machine.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod clock;
mod sleep;
mod threads;

use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::event::Event;
use crate::platform::atomics::{self, LaneWord, U32, U64};
use crate::platform::{Commons, ConstPlatform, ParkedHeads, Patience, Platform, Pool, Thread, ThreadId};

pub use threads::{number, snapshot};

/// The machine as the standard library knows it. See the [module text](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Portable;

/// Whether this program may give other threads a priority: it may not.
pub fn can_lend_priorities() -> bool {
    false
}

/// Nothing can be asked for before it is needed.
pub fn read_ahead() {}

static HEADS: ParkedHeads<Portable> = ParkedHeads::new();
static POOL: Pool<Portable> = Pool::new();

// SAFETY: words are the machine's atomics; `threads` gives each live thread its own slot of chunks
// that are never freed; a sleeper compares the word under the lock of its bucket, and a waker takes
// that lock after it has changed the word, so a wake-up cannot be missed; both halves of the
// asymmetric fence are full fences.
unsafe impl Platform for Portable {
    type U32 = U32;
    type U64 = U64;
    type Lanes = LaneWord;

    const PAIRS: bool = atomics::PAIRS;

    #[inline(always)]
    fn pair_load(pair: &crate::platform::Pair<Self>) -> u64 {
        atomics::pair_load(pair)
    }

    #[inline(always)]
    fn pair_exchange(
        pair: &crate::platform::Pair<Self>,
        current: u64,
        new: u64,
        success: Ordering,
    ) -> Result<u64, u64> {
        atomics::pair_exchange(pair, current, new, success)
    }

    #[inline(always)]
    fn relax() {
        core::hint::spin_loop();
    }

    /// The clock is read after each hint: the two take about as long.
    #[inline]
    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        if let Some(value) = ready() {
            return Some(value);
        }
        if Self::cpus() == 1 || patience.running.is_some_and(|owner| !Self::is_running(owner)) {
            return None;
        }
        let begun = clock::now();
        let end = begun.saturating_add(u64::from(patience.ns)).min(patience.deadline.unwrap_or(u64::MAX));
        let (mut stride, longest) = patience.stride_ns;
        let mut next = begun + u64::from(stride);
        loop {
            core::hint::spin_loop();
            let now = clock::now();
            if now >= next.min(end) {
                if let Some(value) = ready() {
                    return Some(value);
                }
                if now >= end {
                    return None;
                }
                stride = stride.saturating_mul(2).min(longest);
                next = now + u64::from(stride);
            }
        }
    }

    #[inline(never)]
    fn nap(round: u32) {
        sleep::nap(round);
    }

    #[inline(never)]
    fn park(word: &U32, expected: u32, deadline: Option<u64>) {
        sleep::park(word, expected, deadline);
    }

    #[inline(never)]
    fn unpark(word: &U32) {
        sleep::unpark(word);
    }

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn fence_light() {
        fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn fence_heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    #[inline]
    fn now() -> u64 {
        clock::now()
    }

    #[inline]
    fn tick() -> u64 {
        clock::now()
    }

    #[inline(always)]
    fn id() -> Option<ThreadId> {
        threads::id()
    }

    #[inline]
    fn current() -> Option<&'static Thread<Self>> {
        threads::current()
    }

    #[inline(always)]
    fn thread(id: ThreadId) -> &'static Thread<Self> {
        threads::record(id)
    }

    #[inline(always)]
    fn is_running(id: ThreadId) -> bool {
        !id.is_anonymous()
    }

    #[inline(always)]
    fn should_yield() -> bool {
        false
    }

    /// A few context switches, as on Linux.
    #[inline(always)]
    fn spin_budget() -> u32 {
        20_000
    }

    /// Asked once: a program that chooses its CPUs later is not noticed.
    #[inline]
    fn cpus() -> u32 {
        static CPUS: AtomicU32 = AtomicU32::new(0);
        match CPUS.load(Ordering::Relaxed) {
            0 => {
                let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
                CPUS.store(cpus, Ordering::Relaxed);
                cpus
            }
            cpus => cpus,
        }
    }

    #[inline(always)]
    fn node() -> u32 {
        0
    }

    #[inline(always)]
    fn nodes() -> u32 {
        1
    }

    #[inline(always)]
    fn commons() -> Commons<Self> {
        Commons { heads: &HEADS, pool: &POOL }
    }

    #[inline(always)]
    fn key<T>(lock: *const T) -> u64 {
        lock.addr() as u64
    }

    #[inline(always)]
    fn count(event: Event, amount: i64) {
        if cfg!(feature = "events") {
            threads::count(event, amount);
        }
    }
}

// SAFETY: its lanes are an `AtomicU32`, transparent.
unsafe impl ConstPlatform for Portable {}
