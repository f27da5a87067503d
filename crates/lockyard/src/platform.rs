//! The seam: everything a lock algorithm may ask of the machine, and nothing else.
//!
//! A lock is written once, generic over [`Platform`]. [`Native`] is the real machine and inlines
//! away: Linux, or `portable` on other systems. A simulator gives every access a price by the state
//! of its cache line; a model checker explores interleavings. No algorithm file names a std atomic,
//! a thread, a clock or a system call.
//!
//! # What the seam is made of
//!
//! * **Words** ([`Word`], [`Lanes`]): atomics of 32 and 64 bits, and a 32-bit word whose bytes and
//!   half-words can be touched alone. Every operation carries its [`Ordering`].
//! * **Waiting** ([`Platform::spin`]): one call polls a closure until it yields or its [`Patience`]
//!   is spent. The closure may read any words; the machine may run it once per cache-line
//!   invalidation (simulator), or treat it as one blocking operation (checker). There is no
//!   hand-written spin loop in a lock.
//! * **Sleeping** ([`Platform::park`], [`Platform::unpark`]): on a 32-bit word, with a deadline.
//!   Spurious returns are legal. [`Platform::notify`] reaches a thread that may be awake.
//! * **Threads** ([`Thread`]): type-stable records named by a [`ThreadId`], never by pointer. A
//!   record may be reused after its thread has gone, never unmapped; a stale wake-up of a reused
//!   record is harmless.
//! * **Records** (`record`): what locks keep in a thread's record, and the tables that they share
//!   ([`Platform::commons`]). To the seam they are plain words at rest when zero; what they mean is
//!   the locks' affair, which stand above it.
//! * **Hints**: whether a thread runs ([`Platform::is_running`]), whether the caller should give
//!   way ([`Platform::should_yield`]), which CPU and node this is. A hint may be wrong at any time;
//!   wrong answers cost time, never correctness.
//!
//! # Zero
//!
//! All-zero bytes are an unlocked lock on every platform. Platforms whose words can be built in
//! constants implement [`ConstPlatform`], which is what gives users `const fn new`; the others
//! build locks through `Default`.

#[cfg(target_has_atomic = "ptr")]
pub mod atomics;
#[cfg(feature = "std")]
pub(crate) mod instants;
pub(crate) mod mode;
#[cfg(feature = "deadlock")]
pub(crate) mod notes;
mod patience;
pub mod pi;
#[cfg_attr(not(feature = "unstable-internals"), allow(unreachable_pub))]
pub(crate) mod record;
pub mod thread;
pub(crate) mod watch;
mod word;

/// The machines. Public with the feature `unstable-internals`, and never stable.
#[cfg(feature = "std")]
#[cfg_attr(not(feature = "unstable-internals"), allow(dead_code, unreachable_pub, unused_imports))]
#[path = "platform"]
mod machines {
    #[cfg(target_os = "linux")]
    pub mod linux;
    pub mod portable;
}

#[cfg(all(feature = "std", not(feature = "unstable-internals")))]
pub(crate) use machines::*;
#[cfg(all(feature = "std", feature = "unstable-internals"))]
pub use machines::*;

use core::fmt::Debug;

pub use core::sync::atomic::Ordering;

pub use crate::event::Event;
pub use patience::{Glance, Patience};
pub use record::{Commons, ParkedHeads, Pool};
pub use thread::{StandIn, Thread, ThreadId};
pub(crate) use word::lanes;
pub use word::{ConstZero, Lanes, Pair, Word};

#[cfg(all(feature = "std", target_os = "linux", not(feature = "portable")))]
pub(crate) use linux::{self as native, Linux as Machine};
#[cfg(all(feature = "std", any(not(target_os = "linux"), feature = "portable")))]
pub(crate) use portable::{self as native, Portable as Machine};

/// The machine under the types that users see: `linux` on Linux, `portable` elsewhere and with the
/// feature `portable`.
#[cfg(feature = "std")]
pub type Native = Machine;

/// Reads and maps now what locks may ask the machine for later. For a program that is about to give
/// up the right to open files or to map memory.
///
/// On Linux: the CPUs, as control groups limit them now; NUMA nodes and caches; the records of the
/// next threads. It may be called as often as one likes. Elsewhere it does nothing.
#[cfg(feature = "std")]
pub fn read_ahead() {
    native::read_ahead();
}

/// The machine a lock runs on.
///
/// All functions are associated: a lock carries no handle. A platform that has several instances
/// (simulations) finds the current one by the host thread that runs it.
///
/// # Safety
///
/// Locks build mutual exclusion and memory safety on an implementation, which must guarantee that
/// * words are atomic and honour their orderings;
/// * [`Platform::current`] gives two live threads different records, and a thread the same record
///   for as long as it lives;
/// * [`Platform::thread`] and [`Platform::commons`] return references that stay
///   valid as long as any lock of this platform exists;
/// * [`Platform::unpark`] after a change of the word wakes a thread that is in, or is about to
///   enter, [`Platform::park`] for the old value;
/// * [`Platform::notify`] makes the exchange;
/// * [`Platform::fence_light`] and [`Platform::fence_heavy`] pair as they document.
pub unsafe trait Platform: Copy + Debug + Send + Sync + 'static {
    /// The 32-bit atomic.
    type U32: Word<u32> + Debug;
    /// The 64-bit atomic.
    type U64: Word<u64> + Debug;
    /// The 32-bit atomic with byte and half-word lanes.
    type Lanes: Lanes + Debug;

    // ---- pairs of words
    // -------------------------------------------------------------------------------------

    /// Whether this machine can exchange both halves of a [`Pair`] in one step. If not,
    /// [`Platform::pair_exchange`] always fails.
    const PAIRS: bool = false;

    /// Reads both halves, as one value where there are pairs. Relaxed.
    fn pair_load(pair: &Pair<Self>) -> u64 {
        u64::from(pair.high.load(Ordering::Relaxed)) << 32 | u64::from(pair.low.load(Ordering::Relaxed))
    }

    /// Writes `new` to both halves if they are `current`, in one step. A failure is Relaxed.
    ///
    /// # Errors
    /// The value found.
    fn pair_exchange(pair: &Pair<Self>, current: u64, new: u64, success: Ordering) -> Result<u64, u64> {
        let _ = (current, new, success);
        Err(Self::pair_load(pair))
    }

    // ---- waiting
    // --------------------------------------------------------------------------------------------

    /// One spin-loop hint (x86 `PAUSE`). Every retry that is not a [`Platform::spin`] calls it.
    fn relax();

    /// Polls `ready` until it yields a value or `patience` is spent (`None`).
    ///
    /// `ready` may load any words and may try a read-modify-write when the loads look right; it
    /// must neither wait nor wake: no `spin`, `nap`, `park`, `unpark` or `notify` inside. It runs
    /// at least once. What its last unsuccessful run loaded is what a simulator watches.
    fn spin<T>(patience: Patience, ready: impl FnMut() -> Option<T>) -> Option<T>;

    /// Whether [`Platform::spin_paced`] heeds what its looks come to. A machine that runs them when
    /// a word has changed has no use for that.
    const PACES: bool = false;

    /// As [`Platform::spin`], with looks that set their own pace: after [`Glance::Same`] the next
    /// comes in a part of the first distance of [`Patience::stride_ns`], which does not double.
    fn spin_paced<T>(patience: Patience, mut look: impl FnMut() -> Glance<T>) -> Option<T> {
        Self::spin(patience, || match look() {
            Glance::Done(value) => Some(value),
            Glance::Same | Glance::Changed => None,
        })
    }

    /// Waits for another thread to finish a window of a few instructions, for example to link
    /// itself behind us.
    ///
    /// The other thread may have been descheduled inside the window, so after a short spin the
    /// caller gives its CPU away between polls, and sleeps in growing naps after that: never
    /// unbounded burning.
    fn wait_window<T>(mut ready: impl FnMut() -> Option<T>) -> T {
        if let Some(value) = Self::spin(Patience::ns(2_000), &mut ready) {
            return value;
        }
        let mut round = 0u32;
        loop {
            Self::nap(round);
            round = round.saturating_add(1);
            if let Some(value) = ready() {
                return value;
            }
        }
    }

    /// As [`Platform::wait_window`], but for a millisecond or two: the other thread may have been
    /// stopped inside the window, for ever perhaps.
    fn try_window<T>(mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        if let Some(value) = Self::spin(Patience::ns(2_000), &mut ready) {
            return Some(value);
        }
        (0..10).find_map(|round| {
            Self::nap(round);
            ready()
        })
    }

    /// Gives the CPU away for a while that grows with `round`: yields at first, sleeps up to about
    /// a millisecond later.
    fn nap(round: u32);

    /// Sleeps while `*word == expected`, until woken or until `deadline` (absolute, ns of
    /// [`Platform::now`]). May return spuriously.
    fn park(word: &Self::U32, expected: u32, deadline: Option<u64>);

    /// As [`Platform::park`], until `deadline` of [`Platform::realtime`]: a setting of that clock
    /// past it ends the sleep.
    fn park_realtime(word: &Self::U32, expected: u32, deadline: u64) {
        Self::park(word, expected, Some(deadline));
    }

    /// Wakes one thread sleeping on `word`.
    fn unpark(word: &Self::U32);

    /// Reaches `thread`, which may be awake, to leave it a wake-up in its parking token: that is
    /// what `exchange` does. Returns what it returns.
    ///
    /// For machines on which it takes more than the token to wake a thread that does not sleep (a
    /// kernel locks the thread before it looks), or that note when it is woken.
    #[inline(always)]
    fn notify(thread: &Thread<Self>, exchange: impl FnOnce() -> u32) -> u32 {
        let _ = thread;
        exchange()
    }

    /// The calling thread, which may not queue, has got what it waited for, after some naps: a
    /// machine with many such threads may let another one look now.
    fn after_naps() {}

    // ---- ordering
    // -------------------------------------------------------------------------------------------

    /// A full fence: orders the caller's earlier accesses before its later ones, against every
    /// thread that has one between its own.
    ///
    /// For two sides that both write one word and then read another, both often. Where one side is
    /// rare, see [`Platform::fence_heavy`].
    fn fence();

    /// The cheap half of an asymmetric fence: orders the caller's earlier store before its later
    /// load, against a [`Platform::fence_heavy`] that returns `true`. On Linux, where that returns
    /// `false`, it is free: a compiler fence.
    fn fence_light();

    /// [`Platform::fence`], right behind a read-modify-write of the caller's: free where that is a
    /// full fence.
    #[inline(always)]
    fn fence_after_exchange() {
        Self::fence();
    }

    /// The dear half: a full fence here and, in effect, in every running thread of the process. A
    /// microsecond or more.
    ///
    /// Returns `false` where the machine cannot do it; the caller must then poll with a bounded
    /// sleep instead of relying on being woken.
    fn fence_heavy() -> bool;

    // ---- time
    // -----------------------------------------------------------------------------------------------

    /// Monotonic nanoseconds since an arbitrary start.
    fn now() -> u64;

    /// Nanoseconds of the clock that people set: it may jump. A machine with one clock has
    /// [`Platform::now`], and parks alike by both.
    fn realtime() -> u64 {
        Self::now()
    }

    /// A cheaper, coarser [`Platform::now`] on the same scale; it lags by up to one tick (1 to 10
    /// ms).
    fn tick() -> u64;

    // ---- threads
    // --------------------------------------------------------------------------------------------

    /// The calling thread's identity if it is registered, without registering it: the fast path's
    /// question. One load.
    fn id() -> Option<ThreadId>;

    /// The calling thread's record, registering it on first use.
    ///
    /// `None` when the registry is exhausted: the thread is then [`ThreadId::ANONYMOUS`] and must
    /// not queue.
    fn current() -> Option<&'static Thread<Self>>;

    /// The calling thread, which has no record, is about to wait for a signal of what `key` names,
    /// not 0: it may borrow a record, or join one that has.
    ///
    /// A thread that joins may be woken without a reason. The borrower alone uses the record until
    /// [`Platform::stood_in`].
    fn stand_in(key: u64) -> StandIn<Self> {
        let _ = key;
        StandIn::Nobody
    }

    /// The calling thread has waited with a borrowed record: all that joined it wake.
    fn stood_in(thread: &'static Thread<Self>) {
        let _ = thread;
    }

    /// Sleeps until the wait that was [joined](StandIn::Joined) ends, or until `deadline`. May
    /// return spuriously.
    fn sleep_beside(place: u32, ended: u32, deadline: Option<u64>) {
        let _ = (place, ended, deadline);
    }

    /// The record of thread `id`, which must have come from this platform and must not be
    /// anonymous.
    fn thread(id: ThreadId) -> &'static Thread<Self>;

    /// Whether `id` names the record of a thread of this process. `false`: of a process that this
    /// one was forked from. Such a record is a copy that nobody runs with: what it waits for it
    /// will never take, and what it was about to do it never does. Exact. A thread without a record
    /// counts as here.
    fn is_here(id: ThreadId) -> bool {
        let _ = id;
        true
    }

    /// A number that tells this process from all that it was forked from; 0 or 1 only if it was
    /// forked from none.
    fn epoch() -> u32 {
        0
    }

    /// Whether the caller is the only thread of a child of a fork, and that is known. Dear.
    fn is_alone_in_child() -> bool {
        false
    }

    /// From here to [`Platform::end_window`] the caller takes a few steps between which a lock's
    /// words make sense to nobody else: no child process shall begin with them.
    ///
    /// A window is short, and does not wait for a thread that may itself be outside a window.
    /// Windows nest. A machine without processes does nothing.
    fn begin_window() {}

    /// The caller's last window is over.
    fn end_window() {}

    /// Whether `id` is thought to be on a CPU. Anonymous threads never are. A hint.
    fn is_running(id: ThreadId) -> bool;

    /// Whether the caller should stop spinning for the sake of others. A hint; Linux cannot tell
    /// and answers `false`, spins are bounded in time instead.
    fn should_yield() -> bool;

    /// How long, in nanoseconds, one thread may spin optimistically for one acquisition. Where
    /// nothing tells that the CPU is needed elsewhere (Linux) this bounds the waste; a machine
    /// whose [`Platform::should_yield`] is exact says `u32::MAX`.
    fn spin_budget() -> u32;

    /// Whether `id` has real-time priority (rwsem hands over to such waiters at once). A hint.
    fn is_realtime(id: ThreadId) -> bool {
        let _ = id;
        false
    }

    /// Where `id` queues: waiters of a higher rank come first. 0 for time-sharing threads, 1 to 99
    /// for those of a fixed priority, as far as this machine has been told. A hint.
    #[inline(always)]
    fn rank(id: ThreadId) -> u32 {
        let _ = id;
        0
    }

    /// The priority of `id` as its program set it, or as it is lent if [`Platform::set_priority`]
    /// lent it one: 0 for the time-sharing classes, 1 to 99 for fixed priorities, higher is more
    /// urgent. Where nothing is known: 0.
    fn priority(id: ThreadId) -> u32 {
        let _ = id;
        0
    }

    /// Lets `id` run with priority `effective`, of which `base` is its own and the rest is lent.
    /// Equal: nothing is lent. Calls for one thread do not overlap.
    ///
    /// `false`: this machine cannot, or the program may not. Locks then keep their order and
    /// inherit nothing.
    fn set_priority(id: ThreadId, base: u32, effective: u32) -> bool {
        let _ = (id, base, effective);
        false
    }

    /// The number of CPUs this program may use. A hint: with one, nobody spins.
    fn cpus() -> u32;

    /// The NUMA node the caller runs on, 0-based. A hint.
    fn node() -> u32;

    /// The number of NUMA nodes: more than any [`Platform::node`]. A hint.
    fn nodes() -> u32;

    /// The last-level cache of the CPU the caller runs on, 0-based, those of a node in a row: CPUs
    /// that share it are nearer than those that share the node. A hint; where nothing is known, the
    /// node.
    fn cache() -> u32 {
        Self::node()
    }

    /// The number of last-level caches: more than any [`Platform::cache`]. A hint.
    fn caches() -> u32 {
        Self::nodes()
    }

    /// The CPU that the caller runs on, 0-based. A hint; where nothing is known, the cache.
    fn cpu() -> u32 {
        Self::cache()
    }

    /// More than the number of any CPU that the program may run on. A hint that never falls.
    fn cpu_end() -> u32 {
        Self::caches()
    }

    // ---- process-wide state
    // ---------------------------------------------------------------------------------

    /// The tables that all locks of this machine share.
    fn commons() -> Commons<Self>;

    /// The machine shall run `call` in every child process, before anything else happens there:
    /// once for each record that is a copy of a thread that the child does not have, with the
    /// record of the thread that the child has. `call` is the same each time. A machine without
    /// processes does nothing.
    fn in_children(call: fn(&Thread<Self>, Option<&Thread<Self>>)) {
        let _ = call;
    }

    /// A key for a lock's address, stable while the lock lives and reproducible between runs where
    /// the platform promises that. Two locks may share a key: it only costs spurious wake-ups.
    fn key<T>(lock: *const T) -> u64;

    /// Counts `event`, adding `amount` (one place adds −1).
    fn count(event: Event, amount: i64);
}

/// A platform whose words can be built in constants: this is what `const fn new` needs.
///
/// # Safety
///
/// [`Platform::Lanes`] is in memory what a `u32` is: its value, and nothing else.
pub unsafe trait ConstPlatform: Platform<U32: ConstZero, U64: ConstZero, Lanes: ConstZero> {}
