//! The real machine.
//!
//! | file | what |
//! |---|---|
//! | `words` | atomics, sub-word lanes |
//! | `threads` | the registry of thread records, events, who runs where |
//! | `rseq` | the current CPU |
//! | `futex` | sleeping and waking |
//! | `pi` | PI futexes, kernel thread ids |
//! | `process` | what tells a process from its parent, windows that no fork falls into |
//! | `syscall` | what rustix has not |
//! | `clock` | time |
//! | `scheduling` | priorities of threads: read and lent |
//! | `topology` | CPUs, NUMA nodes and caches from sysfs |
//!
//! Errno is never touched: system calls are raw. Nothing here allocates, except where `topology` reads a description for people.

// This is where the seam ends: the one place that may name the machine.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub(crate) mod clock;
mod futex;
mod pi;
mod process;
mod rseq;
mod scheduling;
mod syscall;
pub mod threads;
pub mod topology;
mod words;

use core::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, NanosleepRelativeResult, Timespec, membarrier, nanosleep, sched_yield};

use crate::event::Event;
use crate::platform::{ConstPlatform, Pair, Patience, Platform};
use crate::spin::hq::Pool;
use crate::wait::heads::ParkedHeads;
use crate::wait::thread::{Thread, ThreadId};

pub use scheduling::can_lend_priorities;
pub use words::{LaneWord, U32, U64};

/// The real machine: Linux, this process. See the [module text](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Linux;

static HEADS: ParkedHeads<Linux> = ParkedHeads::new();
static HQ: Pool<Linux> = Pool::new();

/// Spin polls between two looks at things that are not free (who runs, the clock).
const LOOK: u32 = 16;

// SAFETY: words are the machine's atomics; `threads` gives each live thread its own slot of a static table; futex waits
// compare the word in the kernel, so a wake after a change cannot be missed; for the fences see `fence_light`.
unsafe impl Platform for Linux {
    type U32 = U32;
    type U64 = U64;
    type Lanes = LaneWord;

    const PAIRS: bool = words::PAIRS;

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    fn pair_load(pair: &Pair<Self>) -> u64 {
        words::pair_load(pair)
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    fn pair_exchange(pair: &Pair<Self>, current: u64, new: u64, _success: Ordering) -> Result<u64, u64> {
        words::pair_exchange(pair, current, new)
    }

    #[inline(always)]
    fn relax() {
        core::hint::spin_loop();
    }

    #[inline(always)]
    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        if let Some(value) = ready() {
            return Some(value);
        }
        if Self::cpus() == 1 {
            return None;
        }
        let relax_ps = u64::from(clock::relax_ps());
        let relaxes = |ns: u32| (u64::from(ns) * 1000 / relax_ps) as u32;
        let polls = relaxes(patience.ns);
        let longest = relaxes(patience.stride_ns.1).max(1);
        let (mut relaxed, mut stride, mut look) = (0u32, relaxes(patience.stride_ns.0).max(1), LOOK);
        while relaxed < polls {
            for _ in 0..stride {
                core::hint::spin_loop();
            }
            relaxed += stride;
            stride = (stride * 2).min(longest);
            if let Some(value) = ready() {
                return Some(value);
            }
            if relaxed >= look {
                look = relaxed + LOOK;
                if let Some(id) = threads::id() {
                    threads::refresh(id);
                }
                if patience.running.is_some_and(|owner| !threads::is_running(owner))
                    || patience.deadline.is_some_and(|deadline| clock::now() >= deadline)
                {
                    return None;
                }
            }
        }
        None
    }

    #[inline(never)]
    fn nap(round: u32) {
        if round < 4 {
            sched_yield();
            return;
        }
        let ns = 20_000i64 << (round - 4).min(6);
        match nanosleep(&Timespec { tv_sec: 0, tv_nsec: ns as _ }) {
            NanosleepRelativeResult::Ok | NanosleepRelativeResult::Interrupted(_) | NanosleepRelativeResult::Err(_) => {
            }
        }
    }

    #[inline(never)]
    fn park(word: &U32, expected: u32, deadline: Option<u64>) {
        futex::wait(&word.0, expected, deadline, futex::MONOTONIC);
    }

    #[inline(never)]
    fn park_realtime(word: &U32, expected: u32, deadline: u64) {
        futex::wait(&word.0, expected, Some(deadline), futex::REALTIME);
    }

    #[inline(never)]
    fn unpark(word: &U32) {
        futex::wake_one(&word.0);
    }

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    /// A compiler fence: the other side's `membarrier` makes every running thread of this process execute a full fence, and a thread that is
    /// not running executed one when it was switched out.
    #[inline(always)]
    fn fence_light() {
        compiler_fence(Ordering::SeqCst);
    }

    #[cold]
    fn fence_heavy() -> bool {
        fence(Ordering::SeqCst); // our own half, needed when membarrier is refused as well
        if membarrier(MembarrierCommand::PrivateExpedited).is_ok() {
            return true;
        }
        // Not yet registered in this process image (registration is once, and is lost by exec), or not available.
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
            && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }

    #[inline]
    fn now() -> u64 {
        clock::now()
    }

    fn realtime() -> u64 {
        clock::realtime()
    }

    #[inline]
    fn tick() -> u64 {
        clock::tick()
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

    #[inline]
    fn is_here(id: ThreadId) -> bool {
        threads::is_here(id)
    }

    #[inline]
    fn rank(id: ThreadId) -> u32 {
        threads::rank(id)
    }

    #[inline]
    fn begin_window() {
        threads::begin_window();
    }

    #[inline]
    fn end_window() {
        threads::end_window();
    }

    #[inline]
    fn is_running(id: ThreadId) -> bool {
        threads::is_running(id)
    }

    #[inline(always)]
    fn should_yield() -> bool {
        false
    }

    /// A few context switches: a spin that succeeds within this was worth it, one that does not costs little more than
    /// sleeping at once would have.
    #[inline(always)]
    fn spin_budget() -> u32 {
        20_000
    }

    fn priority(id: ThreadId) -> u32 {
        scheduling::priority(id)
    }

    fn set_priority(id: ThreadId, base: u32, effective: u32) -> bool {
        scheduling::set_priority(id, base, effective)
    }

    #[inline]
    fn cpus() -> u32 {
        static CPUS: AtomicU32 = AtomicU32::new(0);
        match CPUS.load(Ordering::Relaxed) {
            0 => {
                let cpus = topology::usable_cpus();
                CPUS.store(cpus, Ordering::Relaxed);
                cpus
            }
            cpus => cpus,
        }
    }

    #[inline]
    fn node() -> u32 {
        topology::node_of(rseq::cpu())
    }

    fn nodes() -> u32 {
        topology::nodes()
    }

    #[inline]
    fn cache() -> u32 {
        topology::cache_of(rseq::cpu())
    }

    fn caches() -> u32 {
        topology::caches()
    }

    #[inline(always)]
    fn hq() -> &'static Pool<Self> {
        &HQ
    }

    #[inline(always)]
    fn heads() -> &'static ParkedHeads<Self> {
        &HEADS
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
unsafe impl ConstPlatform for Linux {}
