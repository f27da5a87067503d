//! A machine with one thread that plays them all. Its clock stands still unless somebody polls or
//! sleeps; whatever else happens meanwhile is a cue of the test's. So every turn of a slow path can
//! be had on purpose, and what it counted be read.

use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::collections::VecDeque;
use std::thread_local;
use std::vec::Vec;

use crate::event::Event;
use crate::platform::linux::{LaneWord, U32, U64};
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Commons, ConstPlatform, ParkedHeads, Patience, Platform, Pool};

/// The machine: each thread of the test program has one of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clockwork;

/// How long a look in vain takes.
pub(crate) const LOOK_NS: u64 = 100;

type Cue = Box<dyn FnOnce()>;

struct World {
    now: Cell<u64>,
    /// How far the clock that people set is ahead.
    ahead: Cell<u64>,
    /// Who acts; 0: a thread for which there was no record left.
    me: Cell<u32>,
    records: RefCell<Vec<&'static Thread<Clockwork>>>,
    realtime: Cell<u32>,
    preempted: Cell<u32>,
    yields: Cell<bool>,
    alone: Cell<bool>,
    budget: Cell<u32>,
    cpus: Cell<u32>,
    fences: Cell<bool>,
    /// What happens during the next polls and sleeps; none: time passes.
    polls: RefCell<VecDeque<Cue>>,
    sleeps: RefCell<VecDeque<Cue>>,
    events: RefCell<Vec<i64>>,
}

thread_local! {
    static WORLD: World = World {
        now: Cell::new(1_000_000_000),
        ahead: Cell::new(5_000_000_000),
        me: Cell::new(1),
        records: RefCell::default(),
        realtime: Cell::new(0),
        preempted: Cell::new(0),
        yields: Cell::new(false),
        alone: Cell::new(false),
        budget: Cell::new(u32::MAX),
        cpus: Cell::new(4),
        fences: Cell::new(true),
        polls: RefCell::default(),
        sleeps: RefCell::default(),
        events: RefCell::new(std::vec![0; Event::ALL.len()]),
    };
}

/// Lets `act` happen as thread number `who`.
pub(crate) fn as_thread<R>(who: u32, act: impl FnOnce() -> R) -> R {
    let before = WORLD.with(|world| world.me.replace(who));
    let result = act();
    WORLD.with(|world| world.me.set(before));
    result
}

pub(crate) fn record(who: u32) -> &'static Thread<Clockwork> {
    Clockwork::thread(ThreadId::from_raw(who).unwrap())
}

pub(crate) fn advance(ns: u64) {
    WORLD.with(|world| world.now.set(world.now.get() + ns));
}

/// Somebody sets the real-time clock.
pub(crate) fn set_clock(at: u64) {
    WORLD.with(|world| world.ahead.set(at.wrapping_sub(world.now.get())));
}

pub(crate) fn is_realtime(who: u32) {
    WORLD.with(|world| world.realtime.set(who));
}

/// Of all threads only this one does not run.
pub(crate) fn is_preempted(who: u32) {
    WORLD.with(|world| world.preempted.set(who));
}

pub(crate) fn should_yield(yields: bool) {
    WORLD.with(|world| world.yields.set(yields));
}

/// As in the child of a fork, whose only thread the test is.
pub(crate) fn alone_in_child() {
    WORLD.with(|world| world.alone.set(true));
}

pub(crate) fn budget(ns: u32) {
    WORLD.with(|world| world.budget.set(ns));
}

pub(crate) fn cpus(number: u32) {
    WORLD.with(|world| world.cpus.set(number));
}

/// Whether there is a heavy fence.
pub(crate) fn fences(fences: bool) {
    WORLD.with(|world| world.fences.set(fences));
}

/// The next look in vain finds this done afterwards.
pub(crate) fn at_poll(cue: impl FnOnce() + 'static) {
    WORLD.with(|world| world.polls.borrow_mut().push_back(Box::new(cue)));
}

/// The next sleep ends with this.
pub(crate) fn at_sleep(cue: impl FnOnce() + 'static) {
    WORLD.with(|world| world.sleeps.borrow_mut().push_back(Box::new(cue)));
}

/// No more cues: those that nobody has come to.
pub(crate) fn drop_cues() -> usize {
    let left = cues_left();
    WORLD.with(|world| world.polls.borrow_mut().clear());
    WORLD.with(|world| world.sleeps.borrow_mut().clear());
    left
}

/// How many cues nobody has come to.
pub(crate) fn cues_left() -> usize {
    WORLD.with(|world| world.polls.borrow().len() + world.sleeps.borrow().len())
}

/// How often each event was counted, of those that were, since the last look.
pub(crate) fn events() -> Vec<(Event, i64)> {
    WORLD.with(|world| {
        let mut counts = world.events.borrow_mut();
        let seen = Event::ALL.iter().zip(counts.iter()).filter(|(_, count)| **count != 0);
        let seen = seen.map(|(event, count)| (*event, *count)).collect();
        counts.fill(0);
        seen
    })
}

fn look_in_vain() {
    match WORLD.with(|world| world.polls.borrow_mut().pop_front()) {
        Some(cue) => cue(),
        None => advance(LOOK_NS),
    }
}

// SAFETY: words are Linux's; each thread number has a record of its own, for ever; there is one
// real thread, so nobody is woken who sleeps.
unsafe impl Platform for Clockwork {
    type U32 = U32;
    type U64 = U64;
    type Lanes = LaneWord;

    fn relax() {
        look_in_vain();
    }

    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let start = Self::now();
        loop {
            if let Some(value) = ready() {
                return Some(value);
            }
            let now = Self::now();
            assert!(now < start + 1_000_000_000, "a spin without end");
            let spent = patience.ns != u32::MAX && now >= start + u64::from(patience.ns);
            if spent
                || patience.deadline.is_some_and(|end| now >= end)
                || patience.running.is_some_and(|id| !Self::is_running(id))
                || patience.courteous && Self::should_yield()
            {
                return None;
            }
            look_in_vain();
        }
    }

    fn nap(_round: u32) {
        look_in_vain();
    }

    fn park(_word: &U32, _expected: u32, deadline: Option<u64>) {
        let cue = WORLD.with(|world| world.sleeps.borrow_mut().pop_front());
        match (cue, deadline) {
            (Some(cue), _) => cue(),
            (None, Some(end)) => WORLD.with(|world| world.now.set(end.max(world.now.get()))),
            (None, None) => panic!("a sleep without end"),
        }
    }

    fn park_realtime(word: &U32, expected: u32, deadline: u64) {
        Self::park(word, expected, Some(deadline.wrapping_sub(WORLD.with(|world| world.ahead.get()))));
    }

    fn unpark(_word: &U32) {}

    fn fence() {}

    fn fence_light() {}

    fn fence_heavy() -> bool {
        WORLD.with(|world| world.fences.get())
    }

    fn now() -> u64 {
        WORLD.with(|world| world.now.get())
    }

    fn realtime() -> u64 {
        WORLD.with(|world| world.now.get().wrapping_add(world.ahead.get()))
    }

    fn tick() -> u64 {
        Self::now()
    }

    fn id() -> Option<ThreadId> {
        ThreadId::from_raw(WORLD.with(|world| world.me.get()))
    }

    fn current() -> Option<&'static Thread<Self>> {
        Self::id().map(Self::thread)
    }

    fn thread(id: ThreadId) -> &'static Thread<Self> {
        WORLD.with(|world| {
            let mut records = world.records.borrow_mut();
            while records.len() < id.raw() as usize {
                let record = Box::leak(Box::new(Thread::new()));
                record.set_id(ThreadId::from_raw(records.len() as u32 + 1).unwrap());
                records.push(record);
            }
            records[id.raw() as usize - 1]
        })
    }

    fn is_running(id: ThreadId) -> bool {
        !id.is_anonymous() && WORLD.with(|world| world.preempted.get()) != id.raw()
    }

    fn should_yield() -> bool {
        WORLD.with(|world| world.yields.get())
    }

    fn is_alone_in_child() -> bool {
        WORLD.with(|world| world.alone.get())
    }

    fn spin_budget() -> u32 {
        WORLD.with(|world| world.budget.get())
    }

    fn is_realtime(id: ThreadId) -> bool {
        WORLD.with(|world| world.realtime.get()) == id.raw()
    }

    fn cpus() -> u32 {
        WORLD.with(|world| world.cpus.get())
    }

    fn node() -> u32 {
        0
    }

    fn nodes() -> u32 {
        1
    }

    fn commons() -> Commons<Self> {
        static HEADS: ParkedHeads<Clockwork> = ParkedHeads::new();
        static POOL: Pool<Clockwork> = Pool::new();
        Commons { heads: &HEADS, pool: &POOL }
    }

    fn key<T>(lock: *const T) -> u64 {
        lock.addr() as u64
    }

    fn count(event: Event, amount: i64) {
        WORLD.with(|world| world.events.borrow_mut()[event as usize] += amount);
    }
}

// SAFETY: its lanes are Linux's.
unsafe impl ConstPlatform for Clockwork {}
