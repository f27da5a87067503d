//! Loom: every order in which threads may run, up to a bound of preemptions, and every value that a
//! load may return.
//!
//! The asymmetric fence orders here what it orders on a machine, and no more: the heavy half is a
//! fence in every thread at that moment, so each thread has a word that its own light halves and
//! everybody's heavy ones touch, with acquire and release. As a fence, the light half (which is no
//! instruction) would hide every release that a lock forgets behind it.
//!
//! Stores of several threads to one word take effect here in the order of the execution, also where
//! nothing orders them and a machine might have it the other way round. For the words of a queue
//! node it is therefore looked whether whoever writes one (links itself to the node, or grants it
//! something) knows of the last store to it, by which its owner has cleared it, or a head has
//! changed a queue: or that store could come last, and the link be lost.
//!
//! What it does not show: accesses of several sizes to one word; load buffering; `SeqCst` accesses,
//! which it treats as weaker (the locks have none); a sequentially consistent fence orders more
//! here than the language says.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Host};
use std::time::{Duration, Instant};

use ::loom::cell::UnsafeCell;
use lockyard::platform::Ordering;

use super::engine::{Atom, Engine};
use super::machine::{Modelled, prepare};
use super::world::world;

/// The engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weak;

/// The platform that loom explores.
pub type Loom = Modelled<Weak>;

macro_rules! atom {
    ($atom:ty, $value:ty) => {
        impl Atom<$value> for $atom {
            fn new(value: $value) -> Self {
                <$atom>::new(value)
            }
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.swap(value, order)
            }
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.fetch_add(value, order)
            }
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.fetch_sub(value, order)
            }
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.fetch_or(value, order)
            }
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.fetch_and(value, order)
            }
        }
    };
}

atom!(::loom::sync::atomic::AtomicU32, u32);
atom!(::loom::sync::atomic::AtomicU64, u64);

impl Engine for Weak {
    const MODELS_WORDS: bool = true;
    const RECORDS: usize = 64;
    type A32 = ::loom::sync::atomic::AtomicU32;
    type A64 = ::loom::sync::atomic::AtomicU64;

    fn step() {}

    fn changed() {}

    fn wake(_number: usize) {}

    fn wait() {
        let me = world().active.get();
        ::loom::thread::yield_now();
        world().active.set(me);
    }

    fn stirs() -> bool {
        false
    }

    fn skip() {
        // Before the beginning nothing is explored, and all of it still is to be.
        if !SETTLING.get() {
            ::loom::skip_branch();
        }
    }

    fn fence() {
        let me = world().active.get();
        ::loom::sync::atomic::fence(Ordering::SeqCst);
        world().active.set(me);
    }

    fn fence_light() {
        let me = world().active.get();
        if let Some(own) = BARRIERS.with_borrow(|all| all.get(me).cloned()) {
            meet(&own);
        }
    }

    fn fence_heavy() {
        Self::fence();
        BARRIERS.with_borrow(Clone::clone).iter().for_each(|thread| meet(thread));
    }

    fn set(word: usize) {
        let cell = UnsafeCell::new(());
        cell.with_mut(|_| ());
        STORED.with_borrow_mut(|all| all.insert(word, Stored { cell, by: world().active.get() }));
    }

    fn link(word: usize) {
        if let Some(stored) = STORED.with_borrow_mut(|all| all.remove(&word)) {
            stored.cell.with(|_| ());
        }
    }

    fn see(word: usize) {
        let me = world().active.get();
        STORED.with_borrow_mut(|all| all.retain(|at, stored| *at != word || stored.by == me));
    }

    fn run(threads: usize, act: &(dyn Fn(usize) + Sync)) {
        BARRIERS.set((0..threads).map(|_| Rc::new(::loom::sync::atomic::AtomicU32::new(0))).collect());
        // SAFETY: all threads are joined below, and a panic does not get past `or_die`.
        let act: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(act) };
        let spawned: Vec<_> =
            (1..threads).map(|number| ::loom::thread::spawn(move || or_die(|| act(number)))).collect();
        or_die(|| act(0));
        for thread in spawned {
            thread.join().expect("a thread that panics ends the process");
        }
        BARRIERS.take();
        STORED.take();
    }
}

/// The last store to a word.
struct Stored {
    /// An access that loom compares with the next.
    cell: UnsafeCell<()>,
    /// Which thread's.
    by: usize,
}

thread_local! {
    /// Words of queue nodes that were stored to, and that nobody else has touched since.
    static STORED: RefCell<HashMap<usize, Stored>> = RefCell::default();
    /// For each thread of the present run, what orders its light fences and everybody's heavy ones.
    static BARRIERS: RefCell<Vec<Rc<::loom::sync::atomic::AtomicU32>>> = const { RefCell::new(Vec::new()) };
    /// Threads take their places.
    static SETTLING: Cell<bool> = const { Cell::new(false) };
}

/// What follows in this execution is done in one order only: the threads take their places. For
/// whoever sets the scene.
pub fn settle_first() {
    ::loom::stop_exploring();
    SETTLING.set(true);
}

/// The threads have [taken their places](settle_first): from here on every order is explored.
/// Failed polls so far do not count.
pub fn explore_from_here() {
    if SETTLING.replace(false) {
        world().polls.set(0);
        ::loom::explore();
    }
}

fn meet(thread: &::loom::sync::atomic::AtomicU32) {
    let me = world().active.get();
    thread.fetch_add(1, Ordering::AcqRel);
    world().active.set(me);
}

/// What follows in this execution is done in one order only: what matters has happened, and only
/// shows later.
pub fn explore_no_further() {
    ::loom::skip_branch();
}

/// A failed check ends the process: the other threads of the execution stand in the middle of a
/// lock, and cannot be unwound.
fn or_die(act: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(act)).is_err() {
        die();
    }
}

fn die() -> ! {
    print!("{}", world().history());
    println!("\nfailed after {} executions", EXECUTIONS.load(Host::Relaxed));
    std::process::exit(1);
}

static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

/// How far an exploration goes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Preemptions; `None`: without bound.
    pub preemptions: Option<usize>,
    /// After so long it is given up.
    pub seconds: u64,
}

/// What an exploration came to.
#[derive(Debug, Clone, Copy)]
pub struct Explored {
    /// Executions.
    pub executions: u64,
    /// Whether that was all there are, within the bounds.
    pub complete: bool,
    /// Executions in which the budget of polls was spent.
    pub cut: u64,
    /// Executions that another one covers.
    pub idle: u64,
    /// The most failed polls in one execution.
    pub most_polls: u32,
    /// How long it took.
    pub took: Duration,
}

/// Why an exploration begins anew.
struct Learned;

/// An exploration that only serves to learn goes so far.
const REHEARSAL: usize = 2_000;

/// Explores `execution`, again and again until no word is found to be shared that was thought not
/// to be. Ends the process if a check fails.
pub fn explore(bounds: Bounds, execution: impl Fn() + Send + Sync + 'static) -> Explored {
    let execution: Arc<dyn Fn() + Send + Sync> = Arc::new(execution);
    let begun = Instant::now();
    prepare::<Weak>();
    world().forget();
    // What is learned late makes a long exploration begin anew. Most is learned with few
    // preemptions.
    for few in 1..=2 {
        if bounds.preemptions.is_none_or(|most| few < most) {
            until_learned(Some(few), REHEARSAL, bounds.seconds, begun, &execution);
        }
    }
    let mut limit = 200;
    loop {
        until_learned(bounds.preemptions, limit, bounds.seconds, begun, &execution);
        let executions = EXECUTIONS.load(Host::Relaxed);
        let late = begun.elapsed().as_secs() >= bounds.seconds;
        let complete = !late && executions + 1 < limit as u64;
        if complete || late {
            let (cut, most_polls) = (world().cut.get(), world().most_polls.get());
            return Explored { executions, complete, cut, idle: world().idle.get(), most_polls, took: begun.elapsed() };
        }
        limit = limit.saturating_mul(16);
    }
}

/// Explores at most `limit` executions, again and again until nothing is learned in them, or it is
/// late.
fn until_learned(
    preemptions: Option<usize>,
    limit: usize,
    seconds: u64,
    begun: Instant,
    execution: &Arc<dyn Fn() + Send + Sync>,
) {
    loop {
        world().set_out();
        EXECUTIONS.store(0, Host::Relaxed);
        let mut builder = ::loom::model::Builder::new();
        builder.max_threads = 5;
        builder.max_branches = 20_000;
        builder.preemption_bound = preemptions;
        builder.max_permutations = Some(limit);
        builder.checkpoint_interval = 200;
        builder.max_duration = Some(Duration::from_secs(seconds).saturating_sub(begun.elapsed()));
        let inner = execution.clone();
        let outcome = catch_unwind(AssertUnwindSafe(move || {
            builder.check(move || {
                EXECUTIONS.fetch_add(1, Host::Relaxed);
                or_die(|| inner());
                if world().is_learning() {
                    resume_unwind(Box::new(Learned));
                }
            });
        }));
        match outcome {
            Err(why) if why.is::<Learned>() => {}
            Err(_) => die(),
            Ok(()) => return,
        }
    }
}
