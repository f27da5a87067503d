//! A machine whose answers are the test's: one thread plays all threads, and whatever would wait
//! does what the test has put down for it.
//!
//! So what the real machine does once in a million times, or on other hardware only, is one line
//! here: a call that is refused, an owner that changes between two looks. It has no pairs of words:
//! locks go the way of the architectures without them.

mod watched;

use std::boxed::Box;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::vec::Vec;

pub(crate) use watched::Watched;

use super::super::kernel::CYCLE_LOOKS;
use crate::event::Event;
use crate::platform::linux::{LaneWord, Linux, U32, U64};
use crate::platform::pi::{At, Class, Known, NOBODY, OWNER, PiPlatform, Refused, WAITERS};
use crate::platform::{
    Commons, ConstPlatform, ConstZero, Ordering::*, ParkedHeads, Patience, Platform, Pool, Thread, ThreadId, Word,
};

/// See the [module text](self).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine;

/// What was asked of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    LockPi(Option<At>),
    UnlockPi,
    WaitRequeuePi { expected: u32, deadline: Option<At> },
    RequeuePi { expected: u32, all: bool, pi: usize },
    Park(Option<u64>),
    Unpark,
    UnparkAll,
    Spin { ns: u32, running: Option<ThreadId> },
    Nap,
}

/// One of the threads that the test plays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Role {
    pub(crate) tid: u32,
    pub(crate) holds: u32,
    pub(crate) class: Class,
    pub(crate) runs: bool,
    /// With which the scheduler runs it.
    pub(crate) priority: u32,
    known: bool,
    id: Option<ThreadId>,
}

/// What happens in a call that waits; of calls that can fail also what comes of it.
type Answer = Box<dyn FnOnce() -> Result<(), Refused>>;

/// What its clock shows at first.
pub(crate) const NOW: u64 = 1_000_000_000;

/// The machine's state: each test has its own.
pub(crate) struct State {
    pub(crate) me: usize,
    pub(crate) roles: [Role; 4],
    pub(crate) now: u64,
    pub(crate) cpus: u32,
    pub(crate) yields: bool,
    /// Whether other threads' CPUs can be made to execute a fence.
    pub(crate) fences: bool,
    pub(crate) calls: Vec<Call>,
    /// How often a record was asked for.
    pub(crate) records: u32,
    events: Vec<(Event, i64)>,
    asides: VecDeque<Answer>,
    marks: VecDeque<Answer>,
    counts: VecDeque<(Event, Answer)>,
    looks: VecDeque<Answer>,
    waits: VecDeque<Answer>,
}

const fn role(tid: u32) -> Role {
    Role { tid, holds: 0, class: Class::TimeSharing, runs: true, priority: 0, known: false, id: None }
}

std::thread_local! {
    static STATE: RefCell<State> = RefCell::new(State {
        me: 0,
        roles: [101, 102, 103, 104].map(role),
        now: NOW,
        cpus: 2,
        yields: false,
        fences: true,
        calls: Vec::new(),
        records: 0,
        events: Vec::new(),
        asides: VecDeque::new(),
        marks: VecDeque::new(),
        counts: VecDeque::new(),
        looks: VecDeque::new(),
        waits: VecDeque::new(),
    });
}

/// Looks at the machine, or changes it.
pub(crate) fn with<R>(act: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(act)
}

/// The thread that is played now.
fn me<R>(act: impl FnOnce(&mut Role) -> R) -> R {
    with(|state| act(&mut state.roles[state.me]))
}

/// Plays thread `number` in `act`.
pub(crate) fn playing<R>(number: usize, act: impl FnOnce() -> R) -> R {
    let before = with(|state| core::mem::replace(&mut state.me, number));
    let result = act();
    with(|state| state.me = before);
    result
}

/// What was asked since the last time.
pub(crate) fn calls() -> Vec<Call> {
    with(|state| core::mem::take(&mut state.calls))
}

/// How often `event` was counted.
pub(crate) fn events(event: Event) -> i64 {
    with(|state| state.events.iter().filter(|one| one.0 == event).map(|one| one.1).sum())
}

/// Between two looks of a spinning thread.
pub(crate) fn between_looks(act: impl FnOnce() + 'static) {
    let look = || {
        act();
        Ok(())
    };
    with(|state| state.looks.push_back(Box::new(look)));
}

/// Instead of a further look: the spinning thread's patience is over.
pub(crate) fn after_the_last_look(act: impl FnOnce() + 'static) {
    let look = || {
        act();
        Err(Refused::TimedOut)
    };
    with(|state| state.looks.push_back(Box::new(look)));
}

/// What happens when the machine is next asked whether to give way.
pub(crate) fn meanwhile(act: impl FnOnce() + 'static) {
    let answer = || {
        act();
        Ok(())
    };
    with(|state| state.asides.push_back(Box::new(answer)));
}

/// What happens before bits are next set in a word.
pub(crate) fn before_a_mark(act: impl FnOnce() + 'static) {
    let answer = || {
        act();
        Ok(())
    };
    with(|state| state.marks.push_back(Box::new(answer)));
}

/// What happens when `event` is next counted.
pub(crate) fn when(event: Event, act: impl FnOnce() + 'static) {
    let answer = || {
        act();
        Ok(())
    };
    with(|state| state.counts.push_back((event, Box::new(answer))));
}

/// What the next call that waits comes to.
pub(crate) fn next_wait(act: impl FnOnce() -> Result<(), Refused> + 'static) {
    with(|state| state.waits.push_back(Box::new(act)));
}

/// The next looks of the kernel find a cycle, so many, each but the last before a nap.
pub(crate) fn next_cycles(looks: u32) {
    (0..looks).for_each(|look| {
        next_wait(|| Err(Refused::Deadlock));
        if look + 1 < CYCLE_LOOKS {
            next_wait(|| Ok(()));
        }
    });
}

/// All that was put down has happened.
pub(crate) fn is_over() -> bool {
    with(|state| {
        state.marks.is_empty()
            && state.counts.is_empty()
            && state.asides.is_empty()
            && state.looks.is_empty()
            && state.waits.is_empty()
    })
}

/// Notes `call`, and does what is put down for it. `None`: nothing is.
fn waits(call: Call) -> Option<Result<(), Refused>> {
    let next = with(|state| {
        state.calls.push(call);
        assert!(state.calls.len() < 10_000, "waits for ever");
        state.waits.pop_front()
    });
    next.map(|answer| answer())
}

/// Sleeps until `deadline`: nobody wakes who has nothing put down.
fn sleep_until(deadline: Option<u64>) {
    let end = deadline.expect("sleeps for ever");
    with(|state| state.now = state.now.max(end));
}

/// Its clocks are one.
fn time(at: At) -> u64 {
    match at {
        At::Monotonic(at) | At::Realtime(at) => at,
    }
}

const RECORDS: usize = 512;
static TABLE: [Thread<Machine>; RECORDS] = [const { Thread::new() }; RECORDS];
static USED: U32 = U32::ZERO;

// SAFETY: one thread of the machine below plays all the others, so nothing happens at the same
// time, and a wait ends with what the test does meanwhile. Records are named once.
unsafe impl Platform for Machine {
    type U32 = Watched;
    type U64 = U64;
    type Lanes = LaneWord;

    fn relax() {}

    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        with(|state| state.calls.push(Call::Spin { ns: patience.ns, running: patience.running }));
        loop {
            if let Some(value) = ready() {
                return Some(value);
            }
            let look = with(|state| state.looks.pop_front())?;
            look().ok()?;
        }
    }

    fn nap(_round: u32) {
        waits(Call::Nap);
    }

    fn park(_word: &Watched, _expected: u32, deadline: Option<u64>) {
        if waits(Call::Park(deadline)).is_none() {
            sleep_until(deadline);
        }
    }

    fn unpark(_word: &Watched) {
        with(|state| state.calls.push(Call::Unpark));
    }

    fn fence() {}

    fn fence_light() {}

    fn fence_heavy() -> bool {
        with(|state| state.fences)
    }

    fn now() -> u64 {
        with(|state| state.now)
    }

    fn tick() -> u64 {
        Self::now()
    }

    fn id() -> Option<ThreadId> {
        me(|me| me.id)
    }

    fn current() -> Option<&'static Thread<Self>> {
        with(|state| state.records += 1);
        let id = me(|me| {
            *me.id.get_or_insert_with(|| {
                let id = ThreadId::from_raw(USED.fetch_add(1, Relaxed) + 1).expect("not zero");
                TABLE[id.raw() as usize].set_id(id);
                id
            })
        });
        Some(Self::thread(id))
    }

    fn thread(id: ThreadId) -> &'static Thread<Self> {
        &TABLE[id.raw() as usize]
    }

    fn is_running(id: ThreadId) -> bool {
        with(|state| state.roles.iter().any(|role| role.id == Some(id) && role.runs))
    }

    fn should_yield() -> bool {
        if let Some(aside) = with(|state| state.asides.pop_front()) {
            let _ = aside();
        }
        with(|state| state.yields)
    }

    fn priority(id: ThreadId) -> u32 {
        with(|state| state.roles.iter().find(|role| role.id == Some(id)).map_or(0, |role| role.priority))
    }

    fn set_priority(id: ThreadId, _base: u32, effective: u32) -> bool {
        let set = |role: &mut Role| role.priority = effective;
        with(|state| state.roles.iter_mut().find(|role| role.id == Some(id)).map(set).is_some())
    }

    fn spin_budget() -> u32 {
        20_000
    }

    fn cpus() -> u32 {
        with(|state| state.cpus)
    }

    fn node() -> u32 {
        0
    }

    fn nodes() -> u32 {
        1
    }

    fn commons() -> Commons<Self> {
        static HEADS: ParkedHeads<Machine> = ParkedHeads::new();
        static POOL: Pool<Machine> = Pool::new();
        Commons { heads: &HEADS, pool: &POOL }
    }

    fn key<T>(lock: *const T) -> u64 {
        Linux::key(lock)
    }

    fn count(event: Event, amount: i64) {
        let due = with(|state| {
            state.events.push((event, amount));
            state.counts.pop_front_if(|next| next.0 == event)
        });
        if let Some((_, answer)) = due {
            let _ = answer();
        }
    }
}

// SAFETY: its lanes are Linux's.
unsafe impl ConstPlatform for Machine {}

// SAFETY: ids are the test's, one for each thread that it plays; the rest is as the platform's.
unsafe impl PiPlatform for Machine {
    fn known() -> Option<Known> {
        me(|me| me.known.then_some(Known { tid: me.tid, holds: me.holds }))
    }

    fn last_known() -> Known {
        Self::known().unwrap_or(Known { tid: NOBODY, holds: 0 })
    }

    fn register() -> u32 {
        me(|me| {
            me.known = true;
            me.tid
        })
    }

    fn thread_of(tid: u32) -> Option<ThreadId> {
        with(|state| state.roles.iter().find(|role| role.tid == tid).and_then(|role| role.id))
    }

    fn set_holds(holds: u32) {
        me(|me| me.holds = holds);
    }

    fn holds() -> u32 {
        me(|me| me.holds)
    }

    fn class() -> Class {
        me(|me| me.class)
    }

    /// If nothing is put down for it: what the kernel does where nobody else waits.
    fn lock_pi(word: &LaneWord, deadline: Option<At>) -> Result<(), Refused> {
        if let Some(answer) = waits(Call::LockPi(deadline)) {
            return answer;
        }
        let tid = me(|me| me.tid);
        match word.load(Relaxed) & OWNER {
            0 => word.store(tid, Relaxed),
            owner if owner == tid => return Err(Refused::Deadlock),
            owner => {
                word.store(owner | WAITERS, Relaxed);
                sleep_until(deadline.map(time));
                return Err(Refused::TimedOut);
            }
        }
        Ok(())
    }

    fn unlock_pi(word: &LaneWord) -> Result<(), Refused> {
        if let Some(answer) = waits(Call::UnlockPi) {
            return answer;
        }
        if word.load(Relaxed) & OWNER != me(|me| me.tid) {
            return Err(Refused::NotOwner);
        }
        word.store(0, Relaxed);
        Ok(())
    }

    fn wait_requeue_pi(_word: &Watched, expected: u32, deadline: Option<At>, _pi: &LaneWord) -> Result<(), Refused> {
        waits(Call::WaitRequeuePi { expected, deadline }).unwrap_or_else(|| {
            sleep_until(deadline.map(time));
            Err(Refused::TimedOut)
        })
    }

    fn requeue_pi(_word: &Watched, expected: u32, all: bool, pi: *const LaneWord) -> Result<(), Refused> {
        waits(Call::RequeuePi { expected, all, pi: pi.addr() }).unwrap_or(Ok(()))
    }

    fn unpark_all(_word: &Watched) {
        with(|state| state.calls.push(Call::UnparkAll));
    }
}
