//! Priority inheritance as a property: random priorities, lock graphs, timeouts and changes of
//! priority, on simulated machines, with every invariant looked at before every step of every
//! thread and after every change of a word.
//!
//! One seed is one case: a machine, up to eight threads with priorities, pinned to few CPUs or let
//! loose, up to five mutexes, and for each thread a list of what it does. Two kinds:
//!
//! * *wild*: locks in any order (so that cycles close), timeouts, tries, changes of any thread's
//!   priority at any time;
//! * *calm*: locks in ascending order and nothing else, so that nobody ever leaves a queue but by
//!   getting the mutex. Then every grant must go to the most urgent.
//!
//! What is checked ([`audit`] has the numbers):
//!
//! | when | what |
//! |---|---|
//! | before each step | I1 to I6, I8; the simulated scheduler runs every thread with its effective priority |
//! | whenever all who are inside a call sleep | an owner's effective priority is the maximum over all that wait for it, through any chain; no mutex is free with waiters (a lost wake-up); no cycle of waiting threads (a deadlock that nobody was told of) |
//! | at each grant in calm cases | nobody more urgent was waiting |
//! | when a deadlock is reported | every link of it is true, unless a thread of it has been told meanwhile |
//! | in the end | mutexes all-zero, every priority its own again |
//!
//! A case that fails names its seed: `cargo xtask explore priorities --from SEED --cases 1`.

use std::cell::RefCell;

use lockyard::cancel::Until;
use lockyard::platform::Platform;
use lockyard::platform::thread::ThreadId;
use lockyard::rtmutex_tree::policy::{NoSpin, Policy, Published2016, Strict, Today};
use lockyard::rtmutex_tree::{self, Cycle, RawTreeRtMutex, Refused, audit};
use lockyard_sim::faults::Faults;
use lockyard_sim::machine::catalog;
use lockyard_sim::{Config, Sim, Simulation, changes, compute, is_parked};

use crate::simulated::Events;
use crate::stage::Dice;

/// 8 CPUs, 80 CPUs in two sockets, 96 with weak stores.
const MACHINES: [&str; 3] = ["quad2008", "skx_2s_40c", "kunpeng920_2s_96c"];
/// What a case may cost before it is called hung; it takes a hundredth of that.
const EVENT_LIMIT: u64 = 50_000_000;

/// How big a case is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Two to eight threads.
    Small,
    /// 33 to 64 threads on a machine with more CPUs than that, each on its own to begin with.
    Crowd,
}

/// What a thread does next.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Takes a mutex, for so long at most if a number is given, ns.
    Lock(usize, Option<u64>),
    Try(usize),
    /// Releases what it took last, or the one before that.
    Unlock(bool),
    Compute(u64),
    /// Sets the priority of a thread.
    Prioritise(usize, u32),
}

/// A case.
#[derive(Debug)]
struct Plan {
    calm: bool,
    mutexes: usize,
    /// CPUs that the threads are pinned to; zero: none.
    cpus: usize,
    /// For each thread: priority, acts.
    threads: Vec<(u32, Vec<Act>)>,
}

impl Plan {
    fn draw(dice: &mut Dice, size: Size) -> Self {
        let calm = dice.roll(3) == 0;
        let (threads, mutexes) = match size {
            Size::Small => (2 + dice.roll(7) as usize, 1 + dice.roll(5) as usize),
            Size::Crowd => (33 + dice.roll(32) as usize, 3 + dice.roll(8) as usize),
        };
        let levels = 1 + dice.roll(6);
        let priority = |dice: &mut Dice| dice.roll(levels) * 7;
        let lock = |dice: &mut Dice| dice.roll(mutexes as u32) as usize;
        let act = |dice: &mut Dice| match dice.roll(if calm { 8 } else { 12 }) {
            0..=3 if calm => Act::Lock(lock(dice), None),
            0..=2 => Act::Lock(lock(dice), None),
            3 => Act::Lock(lock(dice), Some(u64::from(dice.roll(40_000)))),
            4 | 5 => Act::Unlock(dice.roll(4) == 0),
            6 | 7 => Act::Compute(u64::from(dice.roll(6_000))),
            8 => Act::Try(lock(dice)),
            9 => Act::Lock(lock(dice), Some(0)),
            _ => Act::Prioritise(dice.roll(threads as u32) as usize, dice.roll(levels) * 7),
        };
        let life = |dice: &mut Dice| (priority(dice), (0..4 + dice.roll(8)).map(|_| act(dice)).collect());
        let cpus = if size == Size::Small { dice.roll(4) as usize } else { 0 };
        Self { calm, mutexes, cpus, threads: (0..threads).map(|_| life(dice)).collect() }
    }
}

/// What the threads say of themselves: ordinary memory, without any part in the simulation.
#[derive(Debug, Default)]
struct Truth {
    inside: Vec<bool>,
    wants: Vec<Option<usize>>,
    refused: Vec<u32>,
    owner: Vec<Option<usize>>,
    done: usize,
    found: Found,
}

/// What a case has come across.
#[derive(Debug, Default, Clone)]
pub struct Found {
    /// Steps before which everything was checked.
    pub steps: u64,
    /// Of those: with everybody who was inside a call asleep, and somebody was.
    pub settled: u64,
    /// Deadlocks reported, by length; the last stands for all that are longer.
    pub deadlocks: [u64; 9],
    /// Waits that timed out.
    pub timeouts: u64,
    /// Grants of mutexes that others waited for.
    pub grants: u64,
    /// Lock events.
    pub events: Events,
}

impl Found {
    /// Adds another case's.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.settled += other.settled;
        self.timeouts += other.timeouts;
        self.grants += other.grants;
        self.deadlocks.iter_mut().zip(other.deadlocks).for_each(|(sum, more)| *sum += more);
        other.events.iter().for_each(|(event, count)| *self.events.entry(event).or_default() += count);
    }
}

thread_local! {
    static TRUTH: RefCell<Truth> = RefCell::default();
}

fn truth<R>(look: impl FnOnce(&mut Truth) -> R) -> R {
    TRUTH.with_borrow_mut(look)
}

/// Performs the case called `seed`.
///
/// # Errors
/// What went wrong, with machine and policy.
pub fn perform(seed: u64, size: Size) -> Result<Found, String> {
    let mut dice = Dice::new(seed);
    let plan = Plan::draw(&mut dice, size);
    let machines = if size == Size::Small { &MACHINES[..] } else { &MACHINES[1..] };
    let machine = machines[dice.roll(machines.len() as u32) as usize];
    let faults = match dice.roll(3) {
        0 => Faults::default(),
        1 => Faults::ROUGH,
        _ => Faults { preempt_one_in: 16 << dice.roll(5), preempt_ns: 20_000, ..Faults::ROUGH },
    };
    let model = catalog::machine(machine).map_err(|error| error.to_string())?;
    let config = Config { seed, faults, event_limit: EVENT_LIMIT, ..Config::new(model) };
    let case = match dice.roll(4) {
        0 => perform_with::<Today>,
        1 => perform_with::<Published2016>,
        2 => perform_with::<NoSpin>,
        _ => perform_with::<Strict>,
    };
    case(&config, &plan).map_err(|error| format!("on {machine}: {error}"))
}

fn perform_with<Y: Policy>(config: &Config, plan: &Plan) -> Result<Found, String> {
    let threads = plan.threads.len();
    let failed = |error: lockyard_sim::Error| format!("{}: {error}", Y::NAME);
    let simulation = Simulation::new(config, threads).map_err(failed)?;
    let mut mutexes: Vec<&RawTreeRtMutex<Sim, Y>> = Vec::new();
    for _ in 0..plan.mutexes {
        mutexes.push(simulation.place("mutex", RawTreeRtMutex::default()).map_err(failed)?);
    }
    for thread in (0..threads).filter(|_| plan.cpus > 0) {
        simulation.assign(thread, thread % plan.cpus, true);
    }
    truth(|truth| {
        *truth = Truth {
            inside: vec![false; threads],
            wants: vec![None; threads],
            refused: vec![0; threads],
            owner: vec![None; plan.mutexes],
            ..Truth::default()
        }
    });
    let mut observer = observer(plan, &mutexes);
    let life = |me| Life { me, plan, mutexes: &mutexes, held: Vec::new() }.live();
    let report = simulation.run_observed(life, &mut observer).map_err(failed)?;
    let mut found = truth(|truth| std::mem::take(&mut truth.found));
    for (event, count) in report.events {
        *found.events.entry(event).or_default() += count;
    }
    Ok(found)
}

fn name(thread: usize) -> ThreadId {
    ThreadId::from_raw(thread as u32 + 1).expect("not zero")
}

/// The check before each step.
fn observer<'a, Y: Policy>(plan: &'a Plan, mutexes: &'a [&'a RawTreeRtMutex<Sim, Y>]) -> impl FnMut() + 'a {
    let threads = plan.threads.len();
    let names = (0..threads).map(name);
    let mut owners: Vec<Option<ThreadId>> = vec![None; mutexes.len()];
    let mut seen = (u64::MAX, false);
    move || {
        // Nobody is where he could matter, most of the time, before the first call.
        let settled = truth(|truth| {
            truth.found.steps += 1;
            let still = (0..threads).all(|thread| !truth.inside[thread] || is_parked(thread));
            let settled = still && truth.inside.iter().any(|inside| *inside);
            truth.found.settled += u64::from(settled);
            settled
        });
        let look = (changes(), settled);
        if look == seen {
            return;
        }
        seen = look;
        let check = if settled { audit::check_settled } else { audit::check };
        if let Err(broken) = check(mutexes, names.clone()).and_then(|()| audit::check_scheduler::<Sim>(names.clone())) {
            panic!("{broken}");
        }
        for (mutex, before) in mutexes.iter().zip(&mut owners) {
            let now = mutex.owner();
            if now == *before {
                continue;
            }
            assert!(now.is_none() || before.is_none(), "a mutex went from owner to owner");
            *before = now;
            if plan.calm && now.is_some() && mutex.is_contended() {
                truth(|truth| truth.found.grants += 1);
                if let Err(broken) = audit::check_grant(mutex, mutexes) {
                    panic!("{broken}");
                }
            }
        }
        if settled {
            let lost = mutexes.iter().any(|mutex| mutex.owner().is_none() && mutex.is_contended());
            assert!(!lost, "a free mutex, waiters, and nobody awake: a lost wake-up");
            assert!(!waits_in_a_circle(mutexes), "threads wait in a circle and nobody was told");
        }
    }
}

/// Whether threads wait for each other: as they say themselves, while all of them sleep.
fn waits_in_a_circle<Y: Policy>(mutexes: &[&RawTreeRtMutex<Sim, Y>]) -> bool {
    truth(|truth| {
        let next = |thread: usize| {
            let wanted = truth.wants[thread].filter(|_| truth.inside[thread])?;
            mutexes[wanted].owner().map(|owner| owner.raw() as usize - 1)
        };
        (0..truth.wants.len()).any(|start| {
            let mut at = next(start);
            for _ in 0..truth.wants.len() {
                at = match at {
                    Some(thread) if thread == start => return true,
                    Some(thread) => next(thread),
                    None => return false,
                };
            }
            false
        })
    })
}

/// A thread of a case.
struct Life<'a, Y: Policy> {
    me: usize,
    plan: &'a Plan,
    mutexes: &'a [&'a RawTreeRtMutex<Sim, Y>],
    held: Vec<usize>,
}

impl<Y: Policy> Life<'_, Y> {
    fn live(mut self) {
        let (priority, acts) = &self.plan.threads[self.me];
        self.prioritise(self.me, *priority);
        for act in acts {
            self.act(*act);
        }
        while !self.held.is_empty() {
            self.unlock(self.held.len() - 1);
        }
        // The release of a wait lock may still be in this CPU's store buffer.
        Sim::fence();
        truth(|truth| truth.done += 1);
        if self.me == 0 {
            self.last_look();
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Lock(mutex, _) if self.plan.calm && self.held.iter().any(|&held| held >= mutex) => {}
            Act::Lock(mutex, timeout) => self.lock(mutex, timeout),
            Act::Try(mutex) => {
                let taken = self.inside(|life| life.mutexes[mutex].try_acquire());
                assert!(!(taken && self.held.contains(&mutex)), "a mutex was taken twice");
                if taken {
                    self.took(mutex);
                }
            }
            Act::Unlock(older) if !self.held.is_empty() => {
                let last = self.held.len() - 1;
                self.unlock(if older { last.saturating_sub(1) } else { last });
            }
            Act::Unlock(_) => {}
            Act::Compute(ns) => compute(ns),
            Act::Prioritise(thread, priority) => self.prioritise(thread, priority),
        }
    }

    /// Does something with mutexes.
    fn inside<R>(&self, call: impl FnOnce(&Self) -> R) -> R {
        truth(|truth| truth.inside[self.me] = true);
        let result = call(self);
        truth(|truth| truth.inside[self.me] = false);
        result
    }

    fn prioritise(&self, thread: usize, priority: u32) {
        assert!(self.inside(|_| rtmutex_tree::set_priority::<Sim>(name(thread), priority)), "the scheduler refused");
    }

    fn lock(&mut self, mutex: usize, timeout: Option<u64>) {
        let mine = self.held.contains(&mutex);
        let before = truth(|truth| {
            truth.wants[self.me] = Some(mutex);
            truth.refused.clone()
        });
        let until = timeout.map_or(Until::FOREVER, Until::after);
        let result = self.inside(|life| life.mutexes[mutex].acquire_until(until));
        if let Err(Refused::Deadlock(cycle)) = result {
            self.verify(&cycle, &before);
            truth(|truth| {
                truth.refused[self.me] += 1;
                truth.found.deadlocks[(cycle.length() as usize).min(8)] += 1;
            });
        }
        truth(|truth| truth.wants[self.me] = None);
        match result {
            Ok(()) => {
                assert!(!mine, "a mutex was taken twice");
                self.took(mutex);
            }
            Err(Refused::Deadlock(_)) => {
                assert!(!self.plan.calm, "locks taken in order, and a deadlock");
                // Whoever is told gives way.
                while !self.held.is_empty() {
                    self.unlock(self.held.len() - 1);
                }
            }
            Err(Refused::TimedOut) => {
                assert!(timeout.is_some(), "timed out without a deadline");
                truth(|truth| truth.found.timeouts += 1);
            }
            Err(Refused::Cancelled) => panic!("cancelled without a token"),
        }
    }

    /// Every link of the cycle is true: a thread that waits for a mutex that the next one holds.
    /// Threads that wait with a timeout, or have been told of a deadlock, may have left since it
    /// was found.
    fn verify(&self, cycle: &Cycle, before: &[u32]) {
        assert!(!cycle.is_unproven(), "{cycle}");
        let leaves =
            self.plan.threads.iter().any(|(_, acts)| acts.iter().any(|act| matches!(act, Act::Lock(_, Some(_)))));
        let told = truth(|truth| truth.refused != before);
        if leaves || told {
            return;
        }
        let links: Vec<(ThreadId, u64)> = cycle.links().collect();
        for (place, (thread, lock)) in links.iter().enumerate() {
            let holder = links[(place + 1) % links.len()].0;
            let mutex = self.mutexes.iter().position(|mutex| std::ptr::from_ref(*mutex).addr() as u64 == *lock);
            let mutex = mutex.expect("a mutex of this case");
            let (wants, owner) = truth(|truth| (truth.wants[thread.raw() as usize - 1], truth.owner[mutex]));
            assert_eq!(wants, Some(mutex), "thread {} does not wait there: {cycle}", thread.raw());
            assert_eq!(owner.map(name), Some(holder), "not held by thread {}: {cycle}", holder.raw());
        }
    }

    fn took(&mut self, mutex: usize) {
        truth(|truth| assert_eq!(truth.owner[mutex].replace(self.me), None, "I1: two owners"));
        self.held.push(mutex);
    }

    fn unlock(&mut self, place: usize) {
        let mutex = self.held.remove(place);
        truth(|truth| assert_eq!(truth.owner[mutex].take(), Some(self.me), "I1: not the owner"));
        // SAFETY: it is in `held`.
        let released = self.inside(|life| unsafe { life.mutexes[mutex].release() });
        assert!(released.is_ok(), "the owner was refused");
    }

    /// I10: when all are done, nothing is left.
    fn last_look(&self) {
        let threads = self.plan.threads.len();
        let mut round = 4;
        while truth(|truth| truth.done) < threads {
            Sim::nap(round);
            round += 1;
        }
        for mutex in self.mutexes {
            assert_eq!(format!("{mutex:?}"), format!("{:?}", RawTreeRtMutex::<Sim, Y>::default()), "I10: at rest");
        }
        let names = (0..threads).map(name);
        if let Err(broken) = audit::check_at_rest::<Sim>(names) {
            panic!("{broken}");
        }
    }
}
