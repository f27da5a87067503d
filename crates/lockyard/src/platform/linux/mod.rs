//! The real machine.
//!
//! | file | what |
//! |---|---|
//! | `threads` | the registry of thread records |
//! | `threads::counts` | events |
//! | `threads::running` | which thread runs where |
//! | `threads::exit` | the end of a thread |
//! | `threads::strangers` | records lent for a wait |
//! | `table` | a table by names that grows |
//! | `rseq` | the current CPU |
//! | `futex` | sleeping and waking |
//! | `pi` | PI futexes, kernel thread ids |
//! | `epoch` | what tells a process from its parent, kernel thread ids |
//! | `fork` | windows that no fork falls into, children |
//! | `syscall` | what rustix has not |
//! | `clock` | time |
//! | `scheduling` | priorities of threads: read and lent |
//! | `topology` | CPUs, NUMA nodes and caches from sysfs |
//!
//! Errno is never touched: system calls are raw. Nothing here allocates, except where `topology`
//! reads a description for people.
//!
//! # Which system calls
//!
//! A program may shut itself in a sandbox that kills for a call it does not know of, and it does
//! not know of ours. So threads register, wait and wake by `futex` alone, as the C library's locks
//! do: naps are futex waits that nobody ends, a thread's id is the C library's note, its end is
//! told by a destructor, and no `membarrier` is asked for ([`Platform::fence_heavy`]). What else
//! has to be known, `fork` asks at the start. Exceptions:
//!
//! | who | asks | when |
//! |---|---|---|
//! | locks that queue by NUMA node or cache | files of sysfs | when the first of them is contended; [`topology::read_ahead`] does it before |
//! | rt-mutexes, PI mutexes | priorities, scheduling classes, PI futexes | as they must |
//! | one thread in 64, while there were never as many before | `mmap`, and from the 129th on `prctl(PR_FUTEX_HASH)` | at its first contended lock; [`threads::make_room`] does it before |
//! | [`threads::make_room`], from the 1,024th thread on | whether owners of records live | there |
//! | a thread that borrows a record of 64 that were never lent; one that runs on a CPU above 63 that the program could not use when it started | `mmap` | at a contended lock |
//! | a child of a fork that releases an rwsem that it holds for writing and that shows readers, until it has had two threads then; a thread that starts when there is no record left | `stat` of `/proc/self/task`; whether the owners of records live | there |
//! | a child made behind the C library's back; a C library that keeps no ids | `gettid` | at the first lock |
//! | where the C library registers no rseq area and the kernel's page of calls has no `getcpu` | `getcpu` | in slow paths |

// This is where the seam ends: the one place that may name the machine.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub(crate) mod clock;
mod epoch;
pub mod file;
mod fork;
mod futex;
mod pi;
mod quota;
mod rseq;
mod scheduling;
mod syscall;
pub mod table;
pub mod threads;
pub mod topology;

use core::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};

use crate::event::Event;
use crate::platform::atomics;
use crate::platform::{
    Commons, ConstPlatform, Glance, ParkedHeads, Patience, Platform, Pool, StandIn, Thread, ThreadId,
};

pub use crate::platform::atomics::{LaneWord, U32, U64};
pub use scheduling::can_lend_priorities;
pub use threads::{number, snapshot};

/// The real machine: Linux, this process. See the [module text](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Linux;

/// See [`platform::read_ahead`](crate::platform::read_ahead).
pub fn read_ahead() {
    topology::read_ahead();
    threads::make_room();
}

static HEADS: ParkedHeads<Linux> = ParkedHeads::new();
static POOL: Pool<Linux> = Pool::new();

/// Sleeps for a time that grows with `round`: some tens of microseconds at first (the kernel lets
/// timers be late by that much), about a millisecond later.
fn doze(round: u32) {
    static NOBODY_WAKES: AtomicU32 = AtomicU32::new(0);
    futex::sleep(&NOBODY_WAKES, nap_ns(round));
}

/// Runs `wait`, in which the calling thread sleeps until it is woken.
#[inline(always)]
fn asleep(wait: impl FnOnce()) {
    threads::note_sleep(|| threads::off_cpu(|| fork::aside(wait)));
}

const fn nap_ns(round: u32) -> u64 {
    if round < 4 { 1_000 } else { 20_000 << if round < 10 { round - 4 } else { 6 } }
}

/// How many threads without a record sleep in a nap.
static STRANGERS: AtomicU32 = AtomicU32::new(0);

/// How many naps all of those may end in a second, together: each is a look at a lock, and
/// thousands that looked every millisecond would leave no time for the owner.
const LOOKS: u64 = 20_000;

/// On which they sleep: one that has got what it waited for wakes one more. Always 0.
static BELL: AtomicU32 = AtomicU32::new(0);

/// The same for a thread without a record, which no owner wakes: the longer the more there are of
/// them, after a few that it spends in the hope that the owner just runs.
#[cold]
fn doze_as_stranger(round: u32) {
    let others = STRANGERS.fetch_add(1, Ordering::Relaxed);
    futex::sleep(&BELL, strangers_nap_ns(round, others));
    STRANGERS.fetch_sub(1, Ordering::Relaxed);
}

/// How many naps are short.
const SHORT: u32 = 4;

fn strangers_nap_ns(round: u32, others: u32) -> u64 {
    let share = if round < SHORT { 0 } else { u64::from(others) * (1_000_000_000 / LOOKS) };
    nap_ns(round).max(share.min(1_000_000_000))
}

/// Spin polls between two looks at things that are not free (who runs, the clock).
const LOOK: u32 = 16;

/// A look that is to come soon comes in this part of the first distance.
const NEARER: u32 = 4;

// SAFETY: words are the machine's atomics; `threads` gives each live thread its own slot of a
// static table; futex waits compare the word in the kernel, so a wake after a change cannot be
// missed; for the fences see `fence_light`.
unsafe impl Platform for Linux {
    type U32 = U32;
    type U64 = U64;
    type Lanes = LaneWord;

    const PAIRS: bool = atomics::PAIRS;
    const PACES: bool = true;

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

    #[inline(always)]
    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        Self::spin_paced(patience, || ready().map_or(Glance::Changed, Glance::Done))
    }

    #[inline(always)]
    fn spin_paced<T>(patience: Patience, mut look: impl FnMut() -> Glance<T>) -> Option<T> {
        if let Glance::Done(value) = look() {
            return Some(value);
        }
        if Self::cpus() == 1 {
            return None;
        }
        let relax_ps = u64::from(clock::relax_ps());
        let relaxes = |ns: u32| (u64::from(ns) * 1000 / relax_ps) as u32;
        let polls = relaxes(patience.ns);
        let [near, first, longest] =
            [patience.stride_ns.0 / NEARER, patience.stride_ns.0, patience.stride_ns.1].map(|ns| relaxes(ns).max(1));
        let (mut relaxed, mut distance, mut stride, mut check) = (0u32, first, first, LOOK);
        while relaxed < polls {
            for _ in 0..distance {
                core::hint::spin_loop();
            }
            relaxed += distance;
            match look() {
                Glance::Done(value) => return Some(value),
                Glance::Same => distance = near,
                Glance::Changed => {
                    stride = (stride * 2).min(longest);
                    distance = stride;
                }
            }
            if relaxed >= check {
                check = relaxed + LOOK;
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
        let stranger = threads::id().is_some_and(ThreadId::is_anonymous);
        threads::off_cpu(|| fork::aside(|| if stranger { doze_as_stranger(round) } else { doze(round) }));
    }

    #[cold]
    fn after_naps() {
        if STRANGERS.load(Ordering::Relaxed) != 0 {
            futex::wake_one(&BELL);
        }
    }

    #[inline(never)]
    fn park(word: &U32, expected: u32, deadline: Option<u64>) {
        asleep(|| futex::wait(&word.0, expected, deadline, futex::MONOTONIC));
    }

    #[inline(never)]
    fn park_realtime(word: &U32, expected: u32, deadline: u64) {
        asleep(|| futex::wait(&word.0, expected, Some(deadline), futex::REALTIME));
    }

    #[inline(never)]
    fn unpark(word: &U32) {
        futex::wake_one(&word.0);
    }

    #[inline(always)]
    fn notify(thread: &Thread<Self>, exchange: impl FnOnce() -> u32) -> u32 {
        threads::note_wake(thread);
        exchange()
    }

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    /// On x86 an exchange is a full fence.
    #[inline(always)]
    fn fence_after_exchange() {
        if cfg!(all(any(target_arch = "x86_64", target_arch = "x86"), not(miri))) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// A compiler fence. The store becomes visible by itself, soon; the other side, which sleeps
    /// with a timer, need not be sure when.
    #[inline(always)]
    fn fence_light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// Only our own half: `membarrier` is a call that the C library's locks do not make, and it
    /// interrupts every CPU that runs a thread of ours.
    #[cold]
    fn fence_heavy() -> bool {
        fence(Ordering::SeqCst);
        false
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

    #[cold]
    fn stand_in(key: u64) -> StandIn<Self> {
        if threads::id().is_some_and(|id| !id.has_nodes()) { threads::strangers::enter(key) } else { StandIn::Nobody }
    }

    #[cold]
    fn stood_in(thread: &'static Thread<Self>) {
        threads::strangers::leave(thread.id());
    }

    #[cold]
    fn sleep_beside(place: u32, ended: u32, deadline: Option<u64>) {
        fork::aside(|| threads::strangers::sleep(place, ended, deadline));
    }

    #[inline(always)]
    fn thread(id: ThreadId) -> &'static Thread<Self> {
        threads::record(id)
    }

    fn in_children(call: fn(&Thread<Self>, Option<&Thread<Self>>)) {
        fork::in_children(call);
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
    fn epoch() -> u32 {
        epoch::epoch()
    }

    fn is_alone_in_child() -> bool {
        epoch::is_alone_in_child()
    }

    #[inline]
    fn begin_window() {
        fork::begin_window();
    }

    #[inline]
    fn end_window() {
        fork::end_window();
    }

    #[inline]
    fn is_running(id: ThreadId) -> bool {
        threads::is_running(id)
    }

    #[inline(always)]
    fn should_yield() -> bool {
        false
    }

    /// A few context switches: a spin that succeeds within this was worth it, one that does not
    /// costs little more than sleeping at once would have.
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

    /// Counted at the start, and by [`topology::read_ahead`].
    #[inline]
    fn cpus() -> u32 {
        topology::cpus()
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

    #[inline]
    fn cpu() -> u32 {
        rseq::cpu()
    }

    fn cpu_end() -> u32 {
        topology::cpu_end()
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
unsafe impl ConstPlatform for Linux {}

#[cfg(test)]
mod tests;
