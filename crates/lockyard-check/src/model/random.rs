//! Shuttle: random schedules, many threads, long runs; sequentially consistent, so that it finds
//! what goes wrong in the logic of a lock and nothing of its orderings.
//!
//! Half of the schedules are drawn at each step, half with priorities and a few changes of them
//! (PCT: Burckhardt et al. 2010), on machines on which everybody sleeps, wakes up for no reason,
//! spins, or knows when its CPU is needed, and one whose turns are over at once.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::task::{Poll, Waker};

use lockyard::platform::Ordering;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::AtomicBool;
use shuttle::thread::yield_now;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use super::engine::{Atom, Engine};
use super::machine::{Modelled, prepare, run, surrounded};
use super::notes::Step;
use super::setting::{Clock, Machine, Patience};
use super::world::world;
use crate::stage::{Scale, Stage};

/// The engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Random;

/// The platform that shuttle schedules.
pub type Shuttle = Modelled<Random>;

/// There are no atomics here: each word is a cell, each operation a place to switch.
#[derive(Debug)]
pub enum NoAtom {}

impl<V> Atom<V> for NoAtom {
    fn new(_value: V) -> Self {
        unreachable!("words are cells")
    }
    fn load(&self, _order: Ordering) -> V {
        match *self {}
    }
    fn store(&self, _value: V, _order: Ordering) {
        match *self {}
    }
    fn swap(&self, _value: V, _order: Ordering) -> V {
        match *self {}
    }
    fn compare_exchange(&self, _current: V, _new: V, _success: Ordering, _failure: Ordering) -> Result<V, V> {
        match *self {}
    }
    fn fetch_add(&self, _value: V, _order: Ordering) -> V {
        match *self {}
    }
    fn fetch_sub(&self, _value: V, _order: Ordering) -> V {
        match *self {}
    }
    fn fetch_or(&self, _value: V, _order: Ordering) -> V {
        match *self {}
    }
    fn fetch_and(&self, _value: V, _order: Ordering) -> V {
        match *self {}
    }
}

thread_local! {
    /// The threads of the present run that have begun, and what they touch to let others run.
    static THREADS: RefCell<Vec<Option<Waker>>> = const { RefCell::new(Vec::new()) };
    static POINT: RefCell<Option<std::rc::Rc<AtomicBool>>> = const { RefCell::new(None) };
    /// Whether the present case has ever run two threads at a time.
    static CONCURRENT: Cell<bool> = const { Cell::new(false) };
}

/// How long an operation takes; on a machine in a hurry a hundred times that.
const STEP_NS: u64 = 20;

/// On a restless machine one sleep in so many ends for no reason.
const STIRS_ONE_IN: u32 = 4;

/// Performs an operation of shuttle that lets others run.
fn switching(act: impl FnOnce()) {
    let me = world().active.get();
    act();
    world().active.set(me);
}

impl Engine for Random {
    const MODELS_WORDS: bool = false;
    const RECORDS: usize = 4096;
    type A32 = NoAtom;
    type A64 = NoAtom;

    fn step() {
        if world().is_running() {
            // Time passes also while everybody runs: what waits for a turn to end must not wait for
            // ever.
            match world().step(STEP_NS) {
                Step::On => {}
                Step::Look => Self::changed(),
                // Priorities are without mercy: a thread that polls something in a loop of its own
                // would keep everybody else from running.
                Step::GiveWay => switching(yield_now),
            }
            if let Some(point) = POINT.with_borrow(Clone::clone) {
                switching(|| _ = point.load(Ordering::SeqCst));
            }
        }
    }

    fn changed() {
        if world().is_running() {
            world().waking().into_iter().for_each(Self::wake);
        }
    }

    fn wake(number: usize) {
        // Sticky: one that is not in `wait` does not sleep the next time.
        if let Some(Some(thread)) = THREADS.with_borrow(|threads| threads.get(number).cloned()) {
            thread.wake();
        }
    }

    /// As a task, not by shuttle's own park: that ends for no reason again and again, gives its
    /// priority away each time, and its unpark is one more place to switch.
    fn wait() {
        let mut slept = false;
        let once = poll_fn(|_| if std::mem::replace(&mut slept, true) { Poll::Ready(()) } else { Poll::Pending });
        switching(|| block_on(once));
    }

    fn stirs() -> bool {
        thread_rng().gen_range(0..STIRS_ONE_IN) == 0
    }

    fn skip() {}

    fn fence() {}

    fn fence_light() {}

    fn fence_heavy() {}

    fn set(_word: usize) {}

    fn link(_word: usize) {}

    fn see(_word: usize) {}

    fn run(threads: usize, act: &(dyn Fn(usize) + Sync)) {
        CONCURRENT.set(CONCURRENT.get() || threads > 1);
        THREADS.replace(vec![None; threads]);
        POINT.replace(Some(std::rc::Rc::new(AtomicBool::new(false))));
        let act = |number: usize| {
            let waker = block_on(poll_fn(|context| Poll::Ready(context.waker().clone())));
            THREADS.with_borrow_mut(|all| all[number] = Some(waker));
            act(number);
        };
        shuttle::thread::scope(|scope| {
            for number in 1..threads {
                let act = &act;
                scope.spawn(move || act(number));
            }
            act(0);
        });
        POINT.take();
    }
}

const SLEEPS: Machine = Machine { nodes: 3, ..Machine::SLEEPS };

/// The machines on which each case is performed.
const MACHINES: [Machine; 5] = [
    SLEEPS,
    Machine { restless: true, parted: true, ..SLEEPS },
    Machine { patience: Patience::Long, ..SLEEPS },
    Machine { patience: Patience::Exact, ..SLEEPS },
    Machine { clock: Clock::Hurried, ..SLEEPS },
];

/// Performs `case` under so many random schedules, and as many of PCT with depths 2, 3 and 5.
///
/// # Errors
/// What failed; shuttle has printed the schedule.
pub fn perform(case: fn(), schedules: usize, seed: u64) -> Result<(), String> {
    perform_with(case, schedules, seed, FailurePersistence::Print)
}

/// What fails in `case`, which must fail: likewise, without a word to those who watch.
pub fn fault_of(case: fn(), schedules: usize, seed: u64) -> Option<String> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let outcome = perform_with(case, schedules, seed, FailurePersistence::None);
    set_hook(hook);
    outcome.err()
}

fn perform_with(case: fn(), schedules: usize, seed: u64, persistence: FailurePersistence) -> Result<(), String> {
    prepare::<Random>();
    let mut config = Config::new();
    config.stack_size = 0x4_0000;
    config.max_steps = MaxSteps::FailAfter(2_000_000);
    config.failure_persistence = persistence;
    config.silence_warnings = true;
    let each = schedules.div_ceil(MACHINES.len());
    for (number, machine) in MACHINES.into_iter().enumerate() {
        let seed = seed.wrapping_mul(64).wrapping_add(number as u64);
        let execution = move || surrounded::<Random, _>(machine, case);
        CONCURRENT.set(false);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let random = RandomScheduler::new_from_seed(seed, each);
            Runner::new(random, config.clone()).run(execution);
            if !CONCURRENT.get() {
                return; // one schedule is all there is, and PCT wants two threads
            }
            let depth = [2, 3, 5][(seed % 3) as usize];
            let pct = PctScheduler::new_from_seed(seed, depth, each);
            Runner::new(pct, config.clone()).run(execution);
        }));
        world().end();
        if let Err(panic) = outcome {
            let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            return Err(format!("on {machine:?} with seed {seed}: {}", said.unwrap_or("panicked")));
        }
    }
    Ok(())
}

/// Schedules of each kind and case in tests; `LOCKYARD_SCHEDULES` overrides it.
const SCHEDULES: usize = 24;

impl Stage for Shuttle {
    const SCALE: Scale =
        Scale { rounds: 8, sleeps: 10, threads: 4, crowd: 6, short_lived: 6, queue: 4, timeout_ns: 20_000_000 };

    fn perform(name: &'static str, case: fn()) {
        let schedules =
            std::env::var("LOCKYARD_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(SCHEDULES);
        if let Err(why) = perform(case, schedules, 1) {
            panic!("{name} {why}");
        }
    }

    fn run(threads: usize, act: impl Fn(usize) + Sync) {
        run::<Random>(threads, &act);
    }
}
