//! The seam, implemented: [`Sim`] is a [`Platform`] on which every lock of the library runs as it
//! is.
//!
//! | ask | answer |
//! |---|---|
//! | words | [`words`]: an access costs what its cache line's state says |
//! | `relax` | one PAUSE and the loop around it |
//! | `spin` | asleep until a watched line changes, see `engine::spin` |
//! | `park`, `unpark` | a simulated futex, see `scheduler::futex` |
//! | `fence` | waits for the CPU's own store buffer |
//! | `fence_light` | nothing; `fence_heavy`: an interrupt round that drains every store buffer |
//! | `now`, `tick` | the simulated clock (plus the jumps of [`faults`](crate::faults)); coarse: the last scheduler tick |
//! | `current`, `thread` | records in the arena; thread i has id i + 1 |
//! | `is_running`, `should_yield` | exact; with [`Config::as_linux`](crate::Config) nobody is asked to yield, and spins have Linux's budget |
//! | `priority`, `set_priority` | the simulated scheduler's, see `scheduler::priority` |
//! | `commons` | a table and a pool in the arena; the pool's settings as outside, at first as on the real machine |
//! | `is_here`, `epoch`, `begin_window`, `end_window` | exact: see `engine::fork` |
//! | `key` | arena offset; outside objects by order of first touch |
//! | `count` | a host-side table |
//!
//! **'static.** Records and the table of heads live in the simulation's arena. They are handed out
//! as `'static`, which holds for everything that runs inside: simulated threads cannot outlive
//! their simulation. Keep none outside.

pub mod words;

use std::cell::Cell;

use lockyard::event::Event;
use lockyard::platform::linux::Linux;
use lockyard::platform::{
    Commons, ConstPlatform, Ordering, Pair, ParkedHeads, Patience, Platform, Pool, Thread, ThreadId, Word,
};

use crate::engine::heap::Ps;
use crate::engine::host::Host;
use crate::engine::watch::Call;
use words::{LaneWord, U32, U64};

/// The simulated machine: whichever simulation runs on this host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sim;

/// Heads of locks that are used outside simulated threads: none ever sleeps there.
static OUTSIDE: ParkedHeads<Sim> = ParkedHeads::new();

thread_local! {
    /// The pool of locks outside simulated threads, which are never contended. What is set here
    /// holds in simulations.
    static SETTINGS: &'static Pool<Sim> = {
        let pool = Box::leak(Box::<Pool<Sim>>::default());
        pool.tunables().copy_from(Linux::commons().pool.tunables());
        pool
    };
}

thread_local! {
    static CPUS: Cell<u32> = const { Cell::new(1) };
}

/// Outside of simulated threads, [`Platform::cpus`] is `cpus` from now on, on this host thread; 1
/// at first. Returns what it was.
pub fn stands_for(cpus: u32) -> u32 {
    CPUS.replace(cpus)
}

/// Distance between two thread records.
pub(crate) const RECORD: usize = size_of::<Thread<Sim>>();

// SAFETY: one task runs at a time and acts on a word without interruption, so words are atomic,
// with orderings no weaker than x86-64's or, for weak stores, release/acquire (stores wait for
// earlier ones if they release, loads are in order). Task i has record i for its life; records and
// heads are in the arena, which outlives all tasks. Park compares the word under the bucket's lock,
// which unpark takes: a wake after a change is not missed. The heavy fence returns when every store
// that was buffered anywhere is visible.
unsafe impl Platform for Sim {
    type U32 = U32;
    type U64 = U64;
    type Lanes = LaneWord;

    const PAIRS: bool = true;

    fn pair_load(pair: &Pair<Self>) -> u64 {
        words::pair_load(pair)
    }

    fn pair_exchange(pair: &Pair<Self>, current: u64, new: u64, success: Ordering) -> Result<u64, u64> {
        words::pair_exchange(pair, current, new, success)
    }

    fn relax() {
        if let Some(host) = Host::here() {
            host.fault_point(Call::Relax);
            let poll = host.engine().model.poll;
            host.pass(poll);
        }
    }

    #[inline]
    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        match Host::here() {
            Some(host) => {
                host.outside_spins("spins");
                host.spin(patience, ready)
            }
            None => ready(),
        }
    }

    fn nap(round: u32) {
        const YIELDS: u32 = 4;
        let Some(host) = Host::here() else { return };
        host.outside_spins("naps");
        if round < YIELDS {
            host.yield_cpu();
        } else {
            host.sleep(20_000_000 << (round - YIELDS).min(6));
        }
    }

    #[track_caller]
    fn park(word: &U32, expected: u32, deadline: Option<u64>) {
        if let Some(host) = Host::here() {
            host.outside_spins("sleeps");
            host.fault_point(Call::Park(word.place()));
            host.park(word.place(), expected, deadline, || word.load(Ordering::Relaxed));
        }
    }

    #[track_caller]
    fn unpark(word: &U32) {
        if let Some(host) = Host::here() {
            host.outside_spins("wakes another");
            host.fault_point(Call::Unpark(word.place()));
            host.unpark(word.place());
        }
    }

    fn notify(thread: &Thread<Self>, exchange: impl FnOnce() -> u32) -> u32 {
        match Host::here() {
            Some(host) => host.notify(thread.token(), exchange),
            None => exchange(),
        }
    }

    fn fence() {
        if let Some(host) = Host::here() {
            host.fault_point(Call::Fence);
            host.observe_fence();
            host.drain_stores();
        }
    }

    #[inline]
    fn fence_light() {
        if let Some(host) = Host::here() {
            host.fault_point(Call::Fence);
            host.observe_fence();
        }
    }

    fn fence_heavy() -> bool {
        if let Some(host) = Host::here() {
            host.fault_point(Call::Fence);
            host.observe_fence();
            host.fence_everywhere();
        }
        true
    }

    fn now() -> u64 {
        let Some(host) = Host::here() else { return 0 };
        let cost = host.engine().model.os.clock_read;
        host.pass(cost);
        host.engine().clock() / 1000
    }

    fn tick() -> u64 {
        let Some(host) = Host::here() else { return 0 };
        let cost = host.engine().model.os.tick_read;
        host.pass(cost);
        let engine = host.engine();
        let tick: Ps = engine.model.os.tick;
        engine.clock() / tick * tick / 1000
    }

    #[inline]
    fn id() -> Option<ThreadId> {
        let host = Host::here()?;
        if host.engine().faults.active && host.engine().is_anonymous() {
            return None;
        }
        ThreadId::from_raw(host.task() + 1)
    }

    #[inline]
    fn current() -> Option<&'static Thread<Self>> {
        Self::id().map(Self::thread)
    }

    #[inline]
    fn thread(id: ThreadId) -> &'static Thread<Self> {
        let host = Host::here().or_else(Host::observed).expect("thread records belong to a running simulation");
        let engine = host.engine();
        let index = (id.raw() as usize - 1).min(engine.tasks.len() - 1);
        // SAFETY: the arena holds a record for each task from `records` on, initialised before any
        // task ran.
        unsafe { &*((engine.records + index * RECORD) as *const Thread<Self>) }
    }

    fn is_here(id: ThreadId) -> bool {
        let Some(host) = Host::here().or_else(Host::observed) else { return true };
        let engine = host.engine();
        engine.believes_in_ghosts || !engine.tasks.get(id.raw() as usize - 1).is_some_and(|task| task.ghost)
    }

    fn epoch() -> u32 {
        Host::here().or_else(Host::observed).map_or(1, |host| host.engine().epoch)
    }

    fn begin_window() {
        if let Some(host) = Host::here() {
            host.engine().tasks[host.task() as usize].windows += 1;
        }
    }

    fn end_window() {
        if let Some(host) = Host::here() {
            host.engine().tasks[host.task() as usize].windows -= 1;
        }
    }

    #[inline]
    fn is_running(id: ThreadId) -> bool {
        let Some(host) = Host::here() else { return false };
        host.fault_point(Call::IsRunning);
        host.fetch_state(id);
        let cost = host.engine().model.l1;
        host.pass(cost);
        !id.is_anonymous() && host.engine().runs(id.raw() - 1)
    }

    #[inline]
    fn should_yield() -> bool {
        let Some(host) = Host::here() else { return false };
        let engine = host.engine();
        !engine.as_linux && engine.cpus[engine.here as usize].need_resched
    }

    fn spin_budget() -> u32 {
        match Host::here() {
            Some(host) if host.engine().as_linux => Linux::spin_budget(),
            _ => u32::MAX,
        }
    }

    fn is_realtime(id: ThreadId) -> bool {
        let Some(host) = Host::here() else { return false };
        host.engine().tasks.get(id.raw() as usize - 1).is_some_and(|task| task.class.is_realtime())
    }

    fn priority(id: ThreadId) -> u32 {
        let found =
            |host: Host| host.engine().tasks.get(id.raw() as usize - 1).map_or(0, |task| task.class.priority().into());
        let Some(host) = Host::here() else { return Host::observed().map_or(0, found) };
        let cost = host.engine().model.l1;
        host.pass(cost);
        found(host)
    }

    fn set_priority(id: ThreadId, base: u32, effective: u32) -> bool {
        let Some(host) = Host::here() else { return false };
        host.fault_point(Call::SetPriority);
        host.set_priority(id.raw() - 1, base, effective)
    }

    fn cpus() -> u32 {
        Host::here().map_or_else(|| CPUS.get(), |host| host.engine().cpus.len() as u32)
    }

    fn node() -> u32 {
        let Some(host) = Host::here() else { return 0 };
        let engine = host.engine();
        if engine.faults.active
            && let Some(node) = engine.wrong_node()
        {
            return node;
        }
        u32::from(engine.model.node_of[usize::from(engine.core)])
    }

    fn nodes() -> u32 {
        Host::here().map_or(1, |host| host.engine().model.topology().nodes as u32)
    }

    fn cache() -> u32 {
        Host::here().map_or(0, |host| u32::from(host.engine().model.llc_of[usize::from(host.engine().core)]))
    }

    fn caches() -> u32 {
        Host::here().map_or(1, |host| host.engine().model.llc_of.last().map_or(1, |&last| u32::from(last) + 1))
    }

    fn cpu() -> u32 {
        Host::here().map_or(0, |host| host.engine().here)
    }

    fn cpu_end() -> u32 {
        Self::cpus()
    }

    /// Outside a simulation: where settings are made for the simulations that this host thread
    /// creates afterwards.
    #[inline]
    fn commons() -> Commons<Self> {
        let Some(host) = Host::here() else {
            return Commons { heads: &OUTSIDE, pool: SETTINGS.with(|settings| *settings) };
        };
        let engine = host.engine();
        // SAFETY: the arena holds the table and the pool, initialised before any task ran.
        unsafe {
            Commons { heads: &*(engine.heads as *const ParkedHeads<Self>), pool: &*(engine.pool as *const Pool<Self>) }
        }
    }

    #[inline]
    fn key<T>(lock: *const T) -> u64 {
        match Host::here() {
            Some(host) => host.engine().key(lock.addr()),
            None => lock.addr() as u64,
        }
    }

    #[inline]
    fn count(event: Event, amount: i64) {
        if let Some(host) = Host::here() {
            let count = &mut host.engine().counts[event as usize];
            *count = count.wrapping_add(amount as u64);
        }
    }
}

// SAFETY: its lanes are a cell of a `u32`, transparent.
unsafe impl ConstPlatform for Sim {}
