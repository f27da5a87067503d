//! A platform whose schedule is a script: the test decides who runs, where somebody stops, and what
//! time it is.
//!
//! Loom and shuttle explore what *may* happen. Here a test says what *does* happen, one step after
//! the other, against the very source of the locks, natively and in milliseconds:
//!
//! * [`Actor::starts`] lets an actor run until it is done or waits; [`Actor::waits`] is then a
//!   fact.
//! * [`Actor::starts_until`] stops it before its n-th atomic operation. Stopped before every one in
//!   turn, with everybody else running meanwhile ([`every_stop`]), that is the exhaustive
//!   single-preemption test.
//! * [`Actor::interrupted`] stops it likewise, and then runs a closure on its own thread, as a
//!   signal handler would.
//! * [`Scene::forks`] makes ghosts of actors: the scene goes on as the child of a fork.
//! * [`Actor::freeze`] keeps an actor from waking up in time.
//! * [`Scene::advance`] turns the clock; nothing else does.
//! * [`Scene::finish`] runs to the end; if somebody can never wake again it says so at once: a lost
//!   wake-up is not a timeout here.
//!
//! ```
//! use lockyard::mutex::RawMutex;
//! use lockyard_check::scripted::{Scene, Scripted};
//!
//! let mutex = RawMutex::<Scripted>::default();
//! Scene::play(|scene, [holder, waiter]| {
//!     holder.does(|| mutex.acquire());
//!     let got = waiter.starts(|| mutex.acquire());
//!     assert!(waiter.waits());
//!     holder.does(|| unsafe { mutex.release() });
//!     scene.finish();
//!     got.expect("woken");
//! });
//! ```
//!
//! With `LOCKYARD_SHAKE=1` in the environment (or another seed), actors that run at the same time
//! do so at uneven speeds: what a script shows must not hang on that.
//!
//! What it does not show: weak memory (operations take effect in the order in which they are made),
//! and what depends on spinning: an actor polls once and goes to sleep, unless the script declares
//! somebody to be on a CPU.

// A stage: the theatre is built of the host's threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod actor;
mod play;
pub mod rivals;
mod scene;
pub mod sweeps;
mod words;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use lockyard::event::Event;
use lockyard::platform::thread::{Thread, ThreadId};
use lockyard::platform::{Commons, ConstPlatform, Native, Pair, Patience, Platform, Pool};

pub use actor::{Actor, Outcome};
pub use play::{Scene, every_stop};
pub use scene::SHAKE;
pub use words::{LaneWord, U32, U64};

use crate::stage::{Scale, Stage};

/// The scripted machine. See the [module text](self).
#[derive(Debug, Clone, Copy)]
pub struct Scripted;

/// Tests of the functions named, each under the watchdog, in case the theatre itself hangs.
///
/// ```
/// lockyard_check::scripts! {
///     /// What it shows.
///     fn a_lock_does_this() {
///         // Scene::play(…)
///     }
/// }
/// ```
#[macro_export]
macro_rules! scripts {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$attribute])*
        #[test]
        fn $name() {
            fn script() $body
            let name = concat!(module_path!(), "::", stringify!($name));
            <$crate::scripted::Scripted as $crate::stage::Stage>::perform(name, script);
        })*
    };
}

/// NUMA nodes. Actors are dealt out over them by number; see [`Actor::is_on_node`].
pub const NODES: u32 = 3;

const RECORDS: usize = ThreadId::MAX_QUEUED as usize + 1;

static TABLE: [Thread<Scripted>; RECORDS] = [const { Thread::new() }; RECORDS];
static USED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SELF: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

fn change_mine(change: impl FnOnce(&mut scene::Role)) {
    if let Some(me) = SELF.get() {
        let _ = scene::change(me, change);
    }
}

// SAFETY: the words are the real machine's atomics; each thread that asks gets a record of its own,
// for ever; a park looks at its word under the lock that an unpark takes afterwards; both halves of
// the asymmetric fence are full fences.
unsafe impl Platform for Scripted {
    type U32 = U32;
    type U64 = U64;
    type Lanes = LaneWord;

    const PAIRS: bool = Native::PAIRS;

    fn pair_load(pair: &Pair<Self>) -> u64 {
        words::pair_load(pair)
    }

    fn pair_exchange(pair: &Pair<Self>, current: u64, new: u64, success: Ordering) -> Result<u64, u64> {
        words::pair_exchange(pair, current, new, success)
    }

    fn relax() {
        scene::relax();
    }

    fn spin<T>(_patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        ready()
    }

    fn nap(round: u32) {
        scene::nap(round);
    }

    fn park(word: &U32, expected: u32, deadline: Option<u64>) {
        scene::park(word.inner(), expected, deadline);
    }

    fn unpark(_word: &U32) {
        scene::unpark();
    }

    fn fence() {
        fence(Ordering::SeqCst);
    }

    fn fence_light() {
        fence(Ordering::SeqCst);
    }

    fn fence_heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    fn now() -> u64 {
        scene::now()
    }

    fn tick() -> u64 {
        scene::now()
    }

    fn id() -> Option<ThreadId> {
        SELF.get()
    }

    fn current() -> Option<&'static Thread<Self>> {
        let id = SELF.get().unwrap_or_else(|| {
            let index = USED.fetch_add(1, Ordering::Relaxed) + 1;
            assert!(index <= ThreadId::MAX_QUEUED, "the theatre has no more records");
            let id = ThreadId::from_raw(index).expect("not zero");
            TABLE[index as usize].set_id(id);
            SELF.set(Some(id));
            id
        });
        Some(Self::thread(id))
    }

    fn thread(id: ThreadId) -> &'static Thread<Self> {
        &TABLE[id.raw() as usize % RECORDS]
    }

    fn is_running(id: ThreadId) -> bool {
        scene::about(id, |role| role.on_cpu)
    }

    fn should_yield() -> bool {
        false
    }

    fn spin_budget() -> u32 {
        20_000
    }

    fn is_realtime(id: ThreadId) -> bool {
        scene::about(id, |role| role.realtime)
    }

    fn priority(id: ThreadId) -> u32 {
        scene::change(id, |role| role.priority.1).unwrap_or(0)
    }

    fn rank(id: ThreadId) -> u32 {
        Self::priority(id)
    }

    fn is_here(id: ThreadId) -> bool {
        !scene::about(id, |role| role.ghost)
    }

    fn epoch() -> u32 {
        scene::epoch()
    }

    fn begin_window() {
        change_mine(|role| role.windows += 1);
    }

    fn end_window() {
        change_mine(|role| role.windows -= 1);
    }

    fn set_priority(id: ThreadId, base: u32, effective: u32) -> bool {
        scene::change(id, |role| role.priority = (base, effective)).is_some()
    }

    fn cpus() -> u32 {
        2
    }

    fn node() -> u32 {
        scene::node()
    }

    fn nodes() -> u32 {
        NODES
    }

    fn commons() -> Commons<Self> {
        static POOL: Pool<Scripted> = Pool::new();
        Commons { heads: scene::heads(), pool: &POOL }
    }

    fn key<T>(lock: *const T) -> u64 {
        lock.addr() as u64
    }

    fn count(event: Event, amount: i64) {
        scene::count(event, amount);
    }
}

// SAFETY: its lanes are the real machine's, in a transparent wrapper.
unsafe impl ConstPlatform for Scripted {}

/// The suite runs here, too: small, in virtual time, with hangs that are noticed at once.
impl Stage for Scripted {
    const SCALE: Scale =
        Scale { rounds: 24, sleeps: 40, threads: 3, crowd: 5, short_lived: 16, queue: 6, timeout_ns: 20_000_000 };

    fn perform(name: &'static str, case: fn()) {
        crate::native::guarded(name, case);
    }

    fn run(threads: usize, act: impl Fn(usize) + Sync) {
        play::run(threads, act);
    }

    fn failed() -> bool {
        scene::me().is_some_and(|me| me.core.world().roles.iter().any(|role| role.failed))
    }
}
