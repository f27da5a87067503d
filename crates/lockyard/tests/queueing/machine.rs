//! The scripted machine as one that says when a CPU is needed: an actor spins until the script
//! takes it off its CPU, or its patience ends by the script's clock.

// The scripted machine's hints are set by tests.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::AtomicU32;

use lockyard::event::Event;
use lockyard::platform::thread::{Thread, ThreadId};
use lockyard::platform::{Commons, ConstPlatform, Ordering, ParkedHeads, Patience, Platform, Pool};
use lockyard_check::scripted::{LaneWord, NODES, Scene, Scripted, U32, U64};

/// An exact machine. A thread that is not on a CPU
/// ([`Actor::is_on_cpu`](lockyard_check::scripted::Actor::is_on_cpu)) should give way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exact;

const RECORDS: usize = ThreadId::MAX_QUEUED as usize + 1;

static TABLE: [Thread<Exact>; RECORDS] = [const { Thread::new() }; RECORDS];

/// Last-level caches. An actor's is so many after the first of its node as its priority says; nodes
/// have as many each, unless the script gives one those of the next.
pub(crate) static CACHES: AtomicU32 = AtomicU32::new(NODES);
/// CPUs.
pub(crate) static CPUS: AtomicU32 = AtomicU32::new(2);

// SAFETY: threads have their names, and words their meaning, from the scripted machine, which is
// one; records are this machine's own, one for each name.
unsafe impl Platform for Exact {
    type U32 = U32;
    type U64 = U64;
    type Lanes = LaneWord;

    fn relax() {
        Scripted::relax();
    }

    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let begin = Self::now();
        let mut round = 1;
        loop {
            if let Some(value) = ready() {
                return Some(value);
            }
            let now = Self::now();
            let spent = patience.ns != u32::MAX && now >= begin + u64::from(patience.ns);
            let late = patience.deadline.is_some_and(|deadline| deadline <= now);
            let in_vain = patience.running.is_some_and(|owner| !Self::is_running(owner));
            if spent || late || in_vain || patience.courteous && Self::should_yield() {
                return None;
            }
            Self::nap(round);
            round += 1;
        }
    }

    fn nap(round: u32) {
        Scripted::nap(round);
    }

    fn park(word: &U32, expected: u32, deadline: Option<u64>) {
        Scripted::park(word, expected, deadline);
    }

    fn unpark(word: &U32) {
        Scripted::unpark(word);
    }

    fn fence() {
        Scripted::fence();
    }

    fn fence_light() {
        Scripted::fence_light();
    }

    fn fence_heavy() -> bool {
        Scripted::fence_heavy()
    }

    fn now() -> u64 {
        Scripted::now()
    }

    fn tick() -> u64 {
        Scripted::tick()
    }

    fn id() -> Option<ThreadId> {
        Scripted::id()
    }

    fn current() -> Option<&'static Thread<Self>> {
        let id = Scripted::current()?.id();
        let me = Self::thread(id);
        me.set_id(id);
        Some(me)
    }

    fn thread(id: ThreadId) -> &'static Thread<Self> {
        &TABLE[id.raw() as usize % RECORDS]
    }

    fn is_running(id: ThreadId) -> bool {
        Scripted::is_running(id)
    }

    fn should_yield() -> bool {
        Self::id().is_some_and(|id| !Self::is_running(id))
    }

    fn spin_budget() -> u32 {
        u32::MAX
    }

    fn cpus() -> u32 {
        CPUS.load(Ordering::Relaxed)
    }

    fn node() -> u32 {
        Scripted::node()
    }

    fn nodes() -> u32 {
        NODES
    }

    fn cache() -> u32 {
        let each = (Self::caches() / NODES).max(1);
        Self::node() * each + Self::id().map_or(0, Scripted::priority)
    }

    fn caches() -> u32 {
        CACHES.load(Ordering::Relaxed)
    }

    fn commons() -> Commons<Self> {
        static HEADS: ParkedHeads<Exact> = ParkedHeads::new();
        static POOL: Pool<Exact> = Pool::new();
        Commons { heads: &HEADS, pool: &POOL }
    }

    fn key<T>(lock: *const T) -> u64 {
        Scripted::key(lock)
    }

    fn count(event: Event, amount: i64) {
        Scripted::count(event, amount);
    }
}

// SAFETY: its lanes are those of the scripted machine.
unsafe impl ConstPlatform for Exact {}

/// Waits until something is so that must be so. A settled scene is not enough where one that spins
/// waits for another that spins: each may have looked for the last time before the other went on.
pub(crate) fn soon(scene: &Scene, is_so: impl Fn() -> bool) {
    while !is_so() {
        scene.settle();
    }
}
