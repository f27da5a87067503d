//! The checking machine: the seam, on top of a model checker.

use core::fmt::Debug;
use core::marker::PhantomData;
use core::ptr::from_ref;
use std::panic::Location;

use lockyard::event::Event;
use lockyard::platform::thread::{Thread, ThreadId};
use lockyard::platform::{Commons, Ordering, Ordering::Relaxed, ParkedHeads, Patience, Platform, Pool, Word};
use lockyard::rtmutex_tree::MAX_PRIORITY;

use super::engine::Engine;
use super::notes::{HOST, Poll, State, Waited};
use super::setting::{self, Clock, Machine};
use super::sites::{Part, order};
use super::words::{U32, U64};
use super::world::{NAP, TURN, world};

/// The platform that the model checker `E` explores. See the [module text](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modelled<E>(PhantomData<E>);

/// What the machine has beside the lock under test. Made once: its words are new ones in each
/// execution.
#[derive(Debug)]
struct Surroundings<E: Engine> {
    records: Vec<Thread<Modelled<E>>>,
    heads: ParkedHeads<Modelled<E>>,
    pool: Pool<Modelled<E>>,
    bell: U32<E>,
}

impl<E: Engine> Surroundings<E> {
    fn get() -> &'static Self {
        // SAFETY: `prepare` has made it, for this engine (a host thread has one), and it is never
        // given back.
        unsafe { &*world().surroundings.get().cast() }
    }
}

/// Makes the machine's surroundings. For the host, before the first execution.
pub fn prepare<E: Engine>() {
    if world().surroundings.get().is_null() {
        let made = Box::new(Surroundings::<E> {
            records: (0..E::RECORDS).map(|_| Thread::default()).collect(),
            heads: ParkedHeads::default(),
            pool: Pool::default(),
            bell: U32::default(),
        });
        for (number, record) in made.records.iter().enumerate() {
            record.links().for_each(|word| word.belong(number));
            record.grants().for_each(|word| word.belong(number));
        }
        world().surroundings.set(core::ptr::from_ref(Box::leak(made)).cast());
    }
}

/// One execution: `make` makes what the threads share, each of `threads` threads acts on it,
/// `finish` looks at what is left.
pub fn execute<E: Engine, S: Sync>(
    machine: Machine,
    threads: usize,
    make: impl FnOnce() -> S,
    act: impl Fn(&S, usize) + Sync,
    finish: impl FnOnce(&S),
) {
    execute_from::<E, S>(machine, threads, make, |_| {}, act, finish);
}

/// As [`execute`]; before the threads begin, `set_up` acts on what they share, where it will stay.
pub fn execute_from<E: Engine, S: Sync>(
    machine: Machine,
    threads: usize,
    make: impl FnOnce() -> S,
    set_up: impl FnOnce(&S),
    act: impl Fn(&S, usize) + Sync,
    finish: impl FnOnce(&S),
) {
    surrounded::<E, _>(machine, || {
        let shared = Box::new(make());
        world().keys.set_base(from_ref(&*shared).addr(), size_of::<S>());
        set_up(&shared);
        run::<E>(threads, &|number| act(&shared, number));
        finish(&shared);
    });
}

/// Runs `threads` threads inside an execution.
pub(super) fn run<E: Engine>(threads: usize, act: &(dyn Fn(usize) + Sync)) {
    world().run(threads);
    (0..threads).for_each(|number| name::<E>(world().record(number)));
    E::run(threads, &|number| {
        world().active.set(number);
        act(number);
        if number == 0 {
            block::<E>(State::Joining);
        }
        world().stop(State::Done);
        E::changed();
        // The first thread is still there, and may be one of many that wait for nothing but time.
        if number != 0 {
            pass_time::<E>();
        }
    });
    world().settle();
}

/// Gives the record with this number its name.
fn name<E: Engine>(record: usize) {
    Surroundings::<E>::get().records[record].set_id(ThreadId::from_raw(record as u32).expect("not zero"));
}

/// Runs `inside` in an execution of its own.
pub(super) fn surrounded<E: Engine, R>(machine: Machine, inside: impl FnOnce() -> R) -> R {
    world().begin(machine);
    name::<E>(HOST);
    let result = inside();
    world().end();
    result
}

/// The active thread stops or ends. If that leaves nobody who can go on, time passes, for whoever
/// waits for it.
fn pass_time<E: Engine>() {
    if let Some(released) = world().pass_time() {
        E::wake(released);
    }
    // Deadlines have been reached: by this, or since somebody looked.
    E::changed();
}

/// The active thread waits. Others run at least once meanwhile, so that no old value is seen for
/// ever.
fn block<E: Engine>(state: State) -> Waited {
    let stirs = world().machine().restless && matches!(state, State::Parked { .. }) && E::stirs();
    world().stop(state);
    loop {
        pass_time::<E>();
        if stirs || world().is_ready() {
            E::wake(world().active.get());
        }
        world().count_yield();
        E::wait();
        if let Some(waited) = world().goes_on() {
            return waited;
        }
        if stirs {
            world().stop(State::Running);
            return Waited::GaveUp;
        }
        if world().is_idle_turn() {
            world().idle.set(world().idle.get() + 1);
            E::skip();
        }
    }
}

/// Polls until `ready` yields. A failed poll is repeated when something that it read has changed.
fn poll<E: Engine, T>(patient: bool, deadline: Option<u64>, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        let outer = world().begin_poll();
        let found = ready();
        let over = found.is_none() && deadline.is_some_and(|deadline| Modelled::<E>::now() >= deadline);
        let Poll { reads, stale, until, .. } = world().end_poll(outer);
        if found.is_some() || over {
            return found;
        }
        // A poll that fails because it sees an old value is no better than one that comes later.
        if world().spend() || stale {
            E::skip();
        }
        if stale {
            world().count_yield();
            E::wait();
        } else if block::<E>(State::Polling { reads, patient, until: until.filter(|_| patient) }) == Waited::GaveUp
            && !patient
        {
            return None;
        }
    }
}

/// Rings the bell of an execution whose clock waits for it.
pub fn ring<E: Engine>() {
    Surroundings::<E>::get().bell.swap(1, Relaxed);
    world().ring();
    E::changed();
}

// SAFETY: words are the engine's atomics, or touched by one thread; each thread has its own record;
// records, heads and pool live for ever; a park looks at its word, and an unpark at who is parked,
// without a switch in between; the engine has both halves of the asymmetric fence.
unsafe impl<E: Engine> Platform for Modelled<E> {
    type U32 = U32<E>;
    type U64 = U64<E>;
    type Lanes = U32<E>;

    fn relax() {}

    // So that marks of spinners are among what is explored.
    const PACES: bool = true;

    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let machine = world().machine();
        let hasty = machine.patience == setting::Patience::None || machine.hasty == Some(world().active.get());
        if hasty || !world().is_running() {
            return ready();
        }
        poll::<E, T>(false, patience.deadline, ready)
    }

    fn wait_window<T>(mut ready: impl FnMut() -> Option<T>) -> T {
        if !world().is_running() {
            return ready().expect("nobody else runs");
        }
        poll::<E, T>(true, None, ready).expect("does not give up")
    }

    fn try_window<T>(mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        if !world().is_running() {
            return ready();
        }
        poll::<E, T>(false, None, ready)
    }

    fn nap(round: u32) {
        if world().is_running() {
            let until = world().later(match world().machine().clock {
                Clock::Hurried => TURN,
                _ => NAP << round.min(10),
            });
            block::<E>(State::Napping { until });
        }
    }

    fn park(word: &U32<E>, expected: u32, deadline: Option<u64>) {
        if word.peek() == expected {
            block::<E>(State::Parked { word: word.address(), deadline });
        }
    }

    fn unpark(word: &U32<E>) {
        world().unpark(word.address());
        E::changed();
    }

    #[track_caller]
    fn fence() {
        unless_weakened(Location::caller(), E::fence);
    }

    #[track_caller]
    fn fence_light() {
        unless_weakened(Location::caller(), E::fence_light);
    }

    #[track_caller]
    fn fence_heavy() -> bool {
        unless_weakened(Location::caller(), E::fence_heavy);
        true
    }

    fn now() -> u64 {
        world().time(|| Surroundings::<E>::get().bell.load(Relaxed) != 0)
    }

    fn tick() -> u64 {
        Self::now()
    }

    fn id() -> Option<ThreadId> {
        let number = world().active.get();
        let registered = !world().is_running() || number < world().machine().registered;
        registered.then(|| ThreadId::from_raw(world().record(number) as u32)).flatten()
    }

    fn current() -> Option<&'static Thread<Self>> {
        Self::id().map(Self::thread)
    }

    fn thread(id: ThreadId) -> &'static Thread<Self> {
        &Surroundings::get().records[id.raw() as usize]
    }

    fn is_running(_id: ThreadId) -> bool {
        world().machine().patience != setting::Patience::None
    }

    fn should_yield() -> bool {
        false
    }

    fn spin_budget() -> u32 {
        if world().machine().patience == setting::Patience::Exact { u32::MAX } else { 20_000 }
    }

    fn is_realtime(id: ThreadId) -> bool {
        Self::priority(id) > 0
    }

    fn priority(id: ThreadId) -> u32 {
        if world().machine().ranked { id.raw().min(MAX_PRIORITY) } else { 0 }
    }

    /// The first thread of a scenario, whose name is 2, has none.
    fn rank(id: ThreadId) -> u32 {
        Self::priority(id).saturating_sub(2)
    }

    fn set_priority(_id: ThreadId, _base: u32, _effective: u32) -> bool {
        world().machine().ranked
    }

    fn cpus() -> u32 {
        if world().machine().patience == setting::Patience::None { 1 } else { 8 }
    }

    fn node() -> u32 {
        world().active.get() as u32 % world().machine().nodes
    }

    fn nodes() -> u32 {
        world().machine().nodes
    }

    fn commons() -> Commons<Self> {
        let surroundings = Surroundings::get();
        Commons { heads: &surroundings.heads, pool: &surroundings.pool }
    }

    fn key<T>(lock: *const T) -> u64 {
        world().keys.of(lock.addr())
    }

    fn count(event: Event, amount: i64) {
        if amount != 0 {
            world().count(event);
        }
    }
}

fn unless_weakened(place: &'static Location<'static>, fence: fn()) {
    if order(place, Part::Fence, Ordering::SeqCst) == Ordering::SeqCst {
        fence();
    }
}
