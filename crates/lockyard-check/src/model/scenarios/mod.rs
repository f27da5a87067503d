//! What loom explores: for each lock its fast path, contention, sleeping and waking, timeout,
//! cancellation, handoff, downgrade.
//!
//! A scenario is a machine, a few threads and what each of them does once. Bounds are those of the
//! project's bar: two threads without bound, three with three preemptions and four failed polls,
//! four with two preemptions and four failed polls; what differs is listed where it is made.

mod catalog;
mod counting;
mod embedding;
mod exclusive;
mod inheriting;
mod parking;
mod queueing;
mod scripts;
mod signalling;

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ::loom::cell::UnsafeCell;
use lockyard::event::Event;

use super::setting::{Clock, Machine};
use super::weak::{Bounds, Explored, Loom, explore};
use super::world::world;
use crate::lock::Way;
use crate::stage::{Scale, Stage};

pub use catalog::all;

/// One exploration.
#[derive(Clone)]
pub struct Scenario {
    /// `LOCK/WHAT`.
    pub name: String,
    /// The machine.
    pub machine: Machine,
    /// Threads, the one that rings the clock included.
    pub threads: usize,
    /// Preemptions; `None`: without bound.
    pub preemptions: Option<usize>,
    /// Events that at least one execution must count: the path for whose sake the scenario exists.
    pub reaches: Vec<Event>,
    /// One execution.
    pub execution: Arc<dyn Fn(Machine) + Send + Sync>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.machine)
    }
}

impl Scenario {
    /// Explores it. Ends the process if a check fails.
    pub fn explore(&self, seconds: u64) -> Explored {
        let (machine, execution) = (self.machine, self.execution.clone());
        explore(Bounds { preemptions: self.preemptions, seconds }, move || execution(machine))
    }

    /// Those of its events that were not counted since [`Scenario::explore`] began.
    pub fn missed(&self) -> Vec<Event> {
        let seen = world().events.borrow();
        self.reaches.iter().copied().filter(|event| !seen.contains(event)).collect()
    }

    /// With these bounds instead.
    #[must_use]
    pub fn within(mut self, bounds: Limits) -> Self {
        self.preemptions = bounds.preemptions;
        self.machine.budget = bounds.budget;
        self
    }

    /// Its bounds.
    pub fn limits(&self) -> Limits {
        Limits { preemptions: self.preemptions, budget: self.machine.budget }
    }
}

/// How far the search for a scenario goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Preemptions; `None`: without bound.
    pub preemptions: Option<usize>,
    /// Failed polls; `None`: without bound.
    pub budget: Option<u32>,
}

impl Limits {
    /// Lower ones, the next lower first.
    pub fn lower(self) -> impl Iterator<Item = Self> {
        let all = [(3, 4), (2, 4), (2, 2), (1, 4), (1, 2), (1, 1)];
        let all = all.map(|(preemptions, budget)| Self { preemptions: Some(preemptions), budget: Some(budget) });
        let rest = all.into_iter().skip_while(move |limits| {
            self.preemptions.is_some_and(|bound| limits.preemptions >= Some(bound) && limits.budget >= self.budget)
        });
        // A script may hang where a thread is stopped that it does not expect to be.
        rest.filter(move |limits| self.preemptions.is_none_or(|bound| limits.preemptions <= Some(bound)))
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |bound: Option<u64>| bound.map_or("none".to_owned(), |bound| bound.to_string());
        write!(f, "{}/{}", word(self.preemptions.map(|bound| bound as u64)), word(self.budget.map(u64::from)))
    }
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("not PREEMPTIONS/BUDGET: {text}");
        let (preemptions, budget) = text.split_once('/').ok_or_else(wrong)?;
        let bound = |word: &str| match word {
            "none" => Ok(None),
            word => word.parse::<u32>().map(Some).map_err(|_| wrong()),
        };
        Ok(Self { preemptions: bound(preemptions)?.map(|bound| bound as usize), budget: bound(budget)? })
    }
}

/// Data under a lock. Loom knows every pair of accesses that nothing orders, whatever values they
/// had.
#[derive(Debug)]
pub struct Protected {
    data: UnsafeCell<u64>,
    turns: Cell<u64>,
}

// SAFETY: loom checks each access; all threads of an execution run on one thread of the host.
unsafe impl Sync for Protected {}

impl Default for Protected {
    fn default() -> Self {
        Self { data: UnsafeCell::new(0), turns: Cell::new(0) }
    }
}

impl Protected {
    /// A section. (While it is being learned which words are shared, nothing orders what their
    /// accesses would.)
    pub fn section(&self, way: Way) {
        self.turns.set(self.turns.get() + u64::from(way == Way::Write));
        match way {
            _ if world().is_learning() => {}
            // SAFETY: loom says so if it is not exclusive.
            Way::Write => self.data.with_mut(|data| unsafe { *data += 1 }),
            // SAFETY: loom says so if it is not shared.
            Way::Read => assert!(self.data.with(|data| unsafe { *data }) <= self.turns.get()),
        }
    }

    /// How many write sections there were.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }
}

impl Stage for Loom {
    const SCALE: Scale = Scale { rounds: 1, sleeps: 1, threads: 2, crowd: 3, short_lived: 2, queue: 2, timeout_ns: 1 };

    fn perform(_name: &'static str, case: fn()) {
        explore(Bounds { preemptions: Some(2), seconds: 600 }, move || {
            super::machine::surrounded::<super::weak::Weak, _>(Machine { budget: Some(4), ..Machine::SPINS }, case);
        });
    }

    fn run(threads: usize, act: impl Fn(usize) + Sync) {
        super::machine::run::<super::weak::Weak>(threads, &act);
    }
}

/// The project's bar for so many threads: preemptions and budget.
fn bar(threads: usize) -> (Option<usize>, Option<u32>) {
    match threads {
        0..=2 => (None, None),
        3 => (Some(3), Some(4)),
        _ => (Some(2), Some(4)),
    }
}

/// `machine` with the bar's budget.
fn barred(machine: Machine, threads: usize) -> Machine {
    Machine { budget: bar(threads).1, ..machine }
}

/// With a clock that a thread rings.
fn rung(machine: Machine) -> Machine {
    Machine { clock: Clock::Rung, ..machine }
}
