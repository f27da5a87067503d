//! Locks, what they protect, and the threads' seats.
//!
//! Instrumentation is ordinary memory: it costs no simulated time, and natively as little as can
//! be.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use lockyard_catalog::lock::Way;

use crate::catalog::Entry;
use crate::ground::Ground;
use crate::places::{Inherited, Seat, Slot};

/// How a world is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Seed of the operations.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// Locks that are used again and again.
    pub locks: usize,
    /// Locks that every thread uses once, and the last frees.
    pub mortals: usize,
    /// Operations of a thread; none: until [`World::end`].
    pub operations: Option<u32>,
    /// How many more operations those make who stay while others wait.
    pub hogged: u32,
    /// Threads make different numbers of operations, so that some exit while others wait.
    pub exits: bool,
    /// Waits are cancelled just before and just after releases.
    pub cancels: bool,
    /// The longest sleep with a lock held, ns, and how rare.
    pub nap: u64,
    /// One section in so many is slept.
    pub naps_one_in: u32,
    /// A holder that sleeps looks how much CPU time its waiters use.
    pub watch_spinning: bool,
    /// A wait whose token was cancelled ends within this time, ns.
    pub late_ns: u64,
    /// A blocking wait that lasts longer than this, ns, ...
    pub starved_ns: u64,
    /// ... while the lock was granted so often, is starvation; if the lock has a bound.
    pub starved_grants: u64,
    /// Threads that hold nothing may be stopped.
    pub stops: bool,
    /// A lock that is free for longer than this, ns, while a thread that runs waits for it, is kept
    /// for one that does not.
    pub kept_ns: u64,
    /// Threads that begin in the child of a fork; none: nobody forks.
    pub heirs: usize,
}

/// Prefixes of what a failed thread says, by which the finding is told.
pub(crate) const STARVATION: &str = "starvation: ";
pub(crate) const SPINNING: &str = "spinning: ";
pub(crate) const KEPT: &str = "kept: ";

/// Everything there is.
#[derive(Debug)]
pub struct World<P: Ground> {
    pub(crate) setup: Setup,
    pub(crate) bounded: bool,
    passes: u64,
    pub(crate) frees: bool,
    pub(crate) slots: Vec<Slot<P>>,
    pub(crate) seats: Vec<Seat<P>>,
    pub(crate) ended: AtomicBool,
    /// When a lock was granted last.
    pub(crate) last_grant: AtomicU64,
    /// In the child of a fork: what its threads may use.
    pub(crate) inherited: Inherited,
}

impl<P: Ground> World<P> {
    /// A world with locks of `entry`.
    pub fn new(entry: &Entry<P>, setup: &Setup) -> Self {
        let slots = (0..setup.locks + setup.mortals).map(|_| Slot::new(entry, setup.threads)).collect();
        Self {
            setup: setup.clone(),
            bounded: entry.bounded,
            passes: entry.passes,
            frees: entry.frees,
            slots,
            seats: (0..setup.threads + setup.heirs).map(|_| Seat::new()).collect(),
            ended: AtomicBool::new(false),
            last_grant: AtomicU64::new(0),
            inherited: Inherited::default(),
        }
    }

    /// Asks everybody to finish.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// The names of the locks, `name` and a number.
    pub fn names(&self, name: &str) -> Vec<String> {
        let mortal = |number| if number < self.setup.locks { "" } else { "mortal " };
        (0..self.slots.len()).map(|number| format!("{}{name} {number}", mortal(number))).collect()
    }

    /// After everybody has gone.
    ///
    /// # Panics
    /// If anything is not as it should be.
    pub fn finish(&self) {
        if let Some((number, way)) = self.inherited.get() {
            // What ghosts have of it nobody gives back, and the names of those that waited may
            // stay.
            let slot = &self.slots[number];
            if way == Way::Write && slot.subject.units() == 1 {
                slot.data.finish(slot.writes.load(Relaxed));
            }
            return;
        }
        for (number, slot) in self.slots.iter().take(self.setup.locks).enumerate() {
            slot.finish(number);
        }
    }

    /// Acquisitions of each thread.
    pub fn taken(&self) -> Vec<u64> {
        self.seats.iter().map(|seat| seat.taken.load(Relaxed)).collect()
    }

    /// The longest blocking wait, ns.
    pub fn longest(&self) -> u64 {
        self.seats.iter().map(|seat| seat.longest.load(Relaxed)).max().unwrap_or(0)
    }

    /// The threads that are there from the beginning.
    pub(crate) fn parents(&self) -> &[Seat<P>] {
        &self.seats[..self.setup.threads]
    }

    pub(crate) fn everybody_is_done(&self) -> bool {
        self.parents().iter().all(|seat| seat.done.load(Relaxed))
    }

    /// Whether somebody starves, as far as `now` tells.
    ///
    /// # Panics
    /// If so.
    pub fn look_for_starvation(&self, now: u64) {
        if !self.bounded {
            return;
        }
        for (thread, seat) in self.seats.iter().enumerate() {
            let Some(lock) = seat.waits_for.load(Relaxed).checked_sub(1) else { continue };
            let waited = now.saturating_sub(seat.since.load(Relaxed));
            let passed = self.slots[lock].grants.load(Relaxed).saturating_sub(seat.grants_then.load(Relaxed));
            if waited > self.setup.starved_ns && passed > self.setup.starved_grants + self.passes {
                panic!(
                    "{STARVATION}thread {thread} has waited {} us for lock {lock}, which was granted {passed} times meanwhile",
                    waited / 1000
                );
            }
        }
    }
}
