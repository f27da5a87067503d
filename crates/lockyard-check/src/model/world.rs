//! What the checking machine knows of one execution: its threads and why they wait, the clock,
//! which words are shared.
//!
//! All threads of an execution run on one thread of the host, one at a time, so this is plain data
//! of that thread. Nothing in it orders the accesses of the lock under test: a thread that waits is
//! not woken by whom it waits for, it finds that it can go on.
//!
//! # Waiting
//!
//! A wait is one operation: the thread polls its condition, and not again before a word that it
//! read has changed. When nobody can go on, time passes: a spinner with limited patience gives up,
//! or the clock is turned to the next deadline. If there is neither, the execution hangs, and the
//! check says so at once.
//!
//! Which words are modelled is [learned](super::learned).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;

use lockyard::event::Event;

use super::history::{self, Deed};
use super::keys::Keys;
use super::learned::Learned;
#[cfg(feature = "shuttle")]
use super::notes::Step;
use super::notes::{FIXED, Fixed, HOST, Poll, Read, Role, State, Track, Waited};
use super::setting::{Clock, Machine, RING};

/// The most threads of one run.
pub const MOST_THREADS: usize = 32;

/// The shortest nap, in nanoseconds.
pub(super) const NAP: u64 = 1_000;
/// After so many operations it is looked whose time has come.
#[cfg(feature = "shuttle")]
const LOOK_EVERY: u32 = 64;
/// How many operations a thread performs before others run, whatever the priorities.
#[cfg(feature = "shuttle")]
const SLICE: u32 = 2_000;
/// A thread that polls the clock looks again after so long.
const LOOK: u64 = 10_000;
pub(super) const TURN: u64 = lockyard::wait::turn::TURN_NS;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Outside,
    Setting,
    Running,
}

/// One execution, and what is kept between executions.
pub(super) struct World {
    machine: Cell<Machine>,
    phase: Cell<Phase>,
    pub(super) active: Cell<usize>,
    roles: RefCell<Vec<Role>>,
    now: Cell<u64>,
    #[cfg(feature = "shuttle")]
    steps: Cell<u32>,
    learned: Learned,
    pub(super) epoch: Cell<u32>,
    pub(super) idle: Cell<u64>,
    pub(super) polls: Cell<u32>,
    /// The deepest number of failed polls in any execution.
    pub(super) most_polls: Cell<u32>,
    /// Executions cut short for want of budget.
    pub(super) cut: Cell<u64>,
    pub(super) events: RefCell<BTreeSet<Event>>,
    place: Cell<Option<&'static Location<'static>>>,
    history: RefCell<Vec<Deed>>,
    pub(super) keys: Keys,
    /// Threads of earlier runs of this execution. They may have left their names in a lock, so
    /// nobody else gets those.
    gone: Cell<usize>,
    threads: Cell<usize>,
    /// What the machine has beside the lock under test.
    pub(super) surroundings: Cell<*const ()>,
}

thread_local! {
    static WORLD: &'static World = Box::leak(Box::new(World {
        machine: Cell::new(Machine::SLEEPS),
        phase: Cell::new(Phase::Outside),
        active: Cell::new(0),
        roles: RefCell::new(Vec::new()),
        now: Cell::new(0),
        #[cfg(feature = "shuttle")]
        steps: Cell::new(0),
        learned: Learned::default(),
        epoch: Cell::new(0),
        idle: Cell::new(0),
        polls: Cell::new(0),
        most_polls: Cell::new(0),
        cut: Cell::new(0),
        events: RefCell::new(BTreeSet::new()),
        place: Cell::new(None),
        history: RefCell::new(Vec::new()),
        keys: Keys::default(),
        gone: Cell::new(0),
        threads: Cell::new(0),
        surroundings: Cell::new(std::ptr::null()),
    }));
}

/// The world of this host thread.
pub(super) fn world() -> &'static World {
    WORLD.with(|world| *world)
}

impl World {
    pub(super) fn machine(&self) -> Machine {
        self.machine.get()
    }

    /// Whether something was learned in this exploration, which therefore does not count.
    pub(super) fn is_learning(&self) -> bool {
        self.learned.is_fresh()
    }

    /// A new scenario: nothing is learned yet.
    pub(super) fn forget(&self) {
        self.learned.forget();
        self.events.take();
        self.most_polls.set(0);
        self.cut.set(0);
    }

    /// An exploration begins, with what was learned in earlier ones.
    pub(super) fn set_out(&self) {
        self.learned.set_out();
        self.idle.set(0);
        self.cut.set(0);
        self.most_polls.set(0);
    }

    /// An execution begins: words may be made.
    pub(super) fn begin(&self, machine: Machine) {
        self.machine.set(machine);
        self.phase.set(Phase::Setting);
        self.active.set(0);
        self.now.set(machine.start);
        #[cfg(feature = "shuttle")]
        self.steps.set(0);
        self.keys.begin();
        self.history.borrow_mut().clear();
        self.gone.set(0);
        self.polls.set(0);
        self.roles.take();
        self.epoch.set(self.epoch.get().wrapping_add(1));
        self.learned.begin();
    }

    /// Threads run from now on.
    pub(super) fn run(&self, threads: usize) {
        assert!(threads <= MOST_THREADS, "at most {MOST_THREADS} threads");
        let role = || Role {
            state: State::Running,
            released: false,
            poll: Poll::default(),
            looks: 0,
            yields: 0,
            #[cfg(feature = "shuttle")]
            slice: 0,
        };
        self.roles.replace((0..threads).map(|_| role()).collect());
        self.threads.set(threads);
        self.phase.set(Phase::Running);
    }

    /// The number of the record of thread `number` of this run: never that of another run's, or of
    /// whoever sets the scene.
    pub(super) fn record(&self, number: usize) -> usize {
        if self.is_running() { self.gone.get() + number + 2 } else { HOST }
    }

    /// All threads have ended.
    pub(super) fn settle(&self) {
        self.gone.set(self.gone.get() + self.threads.get());
        self.phase.set(Phase::Setting);
        self.active.set(0);
    }

    pub(super) fn end(&self) {
        self.phase.set(Phase::Outside);
    }

    pub(super) fn is_running(&self) -> bool {
        self.phase.get() == Phase::Running
    }

    /// The number of a new word, and whether it is known to be shared. One that is made outside an
    /// execution is there for all of them.
    pub(super) fn make(&self) -> (u32, bool) {
        if self.phase.get() == Phase::Outside { (FIXED, false) } else { self.learned.make() }
    }

    /// The active thread touches a word that is not modelled: `fixed`, should it be there for all
    /// executions.
    pub(super) fn touch(&self, track: &Track, fixed: impl FnOnce() -> Fixed) {
        if self.phase.get() != Phase::Running {
            return;
        }
        let me = self.active.get() as u8 + 1;
        match track.toucher.get() {
            0 => track.toucher.set(me),
            toucher if toucher != me => self.learned.learn(track, fixed),
            _ => {}
        }
    }

    /// The active thread is at this place of the source.
    pub(super) fn is_at(&self, place: &'static Location<'static>) {
        self.place.set(Some(place));
    }

    fn note(&self, track: &Track, value: u64, written: bool) {
        if let Some(place) = self.place.get() {
            let (thread, word) = (self.active.get(), std::ptr::from_ref(track).addr());
            let old = !written && value != track.latest.get();
            self.history.borrow_mut().push(Deed { thread, place, word, value, written, old });
        }
    }

    /// What the threads of this execution have done.
    pub(super) fn history(&self) -> String {
        history::tell(&self.history.borrow())
    }

    /// The active thread has read `value`.
    pub(super) fn has_read(&self, track: &Track, value: u64) {
        if self.phase.get() != Phase::Running {
            return;
        }
        self.note(track, value, false);
        let role = &mut self.roles.borrow_mut()[self.active.get()];
        if role.poll.reading {
            role.poll.stale |= value != track.latest.get();
            role.poll.reads.push(Read { word: track, version: track.version.get() });
        }
    }

    /// The active thread has written `value`.
    pub(super) fn has_written(&self, track: &Track, value: u64) {
        if self.phase.get() == Phase::Running {
            self.note(track, value, true);
        }
        track.latest.set(value);
        track.version.set(track.version.get().wrapping_add(1));
    }

    /// A poll of the active thread begins: what it reads is noted. Returns what was noted of a poll
    /// around it.
    pub(super) fn begin_poll(&self) -> Poll {
        let role = &mut self.roles.borrow_mut()[self.active.get()];
        std::mem::replace(&mut role.poll, Poll { reading: true, ..Poll::default() })
    }

    /// It has ended, and the one around it goes on.
    pub(super) fn end_poll(&self, outer: Poll) -> Poll {
        let role = &mut self.roles.borrow_mut()[self.active.get()];
        std::mem::replace(&mut role.poll, outer)
    }

    /// A poll has failed. `true`: too many have in this execution.
    pub(super) fn spend(&self) -> bool {
        let polls = self.polls.get() + 1;
        self.polls.set(polls);
        self.most_polls.set(self.most_polls.get().max(polls));
        let spent = self.machine.get().budget == Some(polls);
        self.cut.set(self.cut.get() + u64::from(spent));
        spent
    }

    /// The active thread stops for `state`.
    pub(super) fn stop(&self, state: State) {
        let role = &mut self.roles.borrow_mut()[self.active.get()];
        role.state = state;
        role.released = false;
    }

    /// Whether the active thread can go on.
    pub(super) fn goes_on(&self) -> Option<Waited> {
        let me = self.active.get();
        let ready = self.can_go_on(&self.roles.borrow(), me);
        let role = &mut self.roles.borrow_mut()[me];
        if !ready && !role.released {
            return None;
        }
        role.state = State::Running;
        role.released = false;
        Some(if ready { Waited::Ready } else { Waited::GaveUp })
    }

    /// Whether the active thread, which has stopped, could go on.
    pub(super) fn is_ready(&self) -> bool {
        self.can_go_on(&self.roles.borrow(), self.active.get())
    }

    fn can_go_on(&self, roles: &[Role], number: usize) -> bool {
        match &roles[number].state {
            State::Running => true,
            State::Polling { reads, until, .. } => {
                // SAFETY: the words of an execution live as long as its threads.
                let changed = reads.iter().any(|read| unsafe { (*read.word).version.get() } != read.version);
                changed || until.is_some_and(|until| until <= self.now.get())
            }
            State::Parked { deadline, .. } => {
                self.machine.get().clock != Clock::Stopped
                    && deadline.is_some_and(|deadline| deadline <= self.now.get())
            }
            State::Napping { until } => *until <= self.now.get(),
            State::Joining => {
                roles.iter().enumerate().all(|(other, role)| other == number || matches!(role.state, State::Done))
            }
            State::Done => false,
        }
    }

    /// Threads other than the active one that wait and could go on.
    #[cfg(feature = "shuttle")]
    pub(super) fn waking(&self) -> Vec<usize> {
        let roles = self.roles.borrow();
        (0..roles.len())
            .filter(|&number| number != self.active.get())
            .filter(|&number| !matches!(roles[number].state, State::Running | State::Done))
            .filter(|&number| roles[number].released || self.can_go_on(&roles, number))
            .collect()
    }

    /// The active thread cannot go on. If nobody else can, time passes; says whom it releases.
    ///
    /// # Panics
    /// If nobody will ever go on.
    pub(super) fn pass_time(&self) -> Option<usize> {
        let mut roles = self.roles.borrow_mut();
        let anybody = (0..roles.len()).any(|number| roles[number].released || self.can_go_on(&roles, number));
        if anybody {
            return None;
        }
        let turns = self.machine.get().clock != Clock::Stopped;
        let spinner = roles.iter().position(|role| matches!(role.state, State::Polling { patient: false, .. }));
        let released = spinner.or_else(|| {
            let sleeper = roles
                .iter()
                .enumerate()
                .filter_map(|(number, role)| match role.state {
                    State::Parked { deadline: Some(deadline), .. } if turns => Some((deadline, number)),
                    State::Napping { until } | State::Polling { until: Some(until), .. } => Some((until, number)),
                    _ => None,
                })
                .min()?;
            self.now.set(self.now.get().max(sleeper.0));
            Some(sleeper.1)
        });
        let Some(released) = released else {
            let states: Vec<String> = roles.iter().map(|role| format!("{:?}", role.state)).collect();
            drop(roles);
            panic!("nobody can go on: a lost wake-up or a deadlock: {states:?}");
        };
        roles[released].released = true;
        Some(released)
    }

    /// The active thread, which waits in vain, has been chosen to run though somebody else, who can
    /// go on, would have been next: the same state is explored elsewhere. (Asked only of those that
    /// ran, not of those that had not been told yet that they can, explorations did not end: those
    /// who wait gave way to each other, over and over.)
    pub(super) fn is_idle_turn(&self) -> bool {
        let roles = self.roles.borrow();
        let mine = roles[self.active.get()].yields;
        let goes_on = |number: usize| roles[number].released || self.can_go_on(&roles, number);
        (0..roles.len()).any(|number| roles[number].yields < mine && goes_on(number))
    }

    pub(super) fn count_yield(&self) {
        self.roles.borrow_mut()[self.active.get()].yields += 1;
    }

    /// Wakes the thread that sleeps on `word`.
    pub(super) fn unpark(&self, word: usize) {
        let mut roles = self.roles.borrow_mut();
        let sleeper = roles.iter_mut().find(|role| matches!(role.state, State::Parked { word: at, .. } if at == word));
        if let Some(role) = sleeper {
            role.released = true;
        }
    }

    /// An operation has taken `ns`.
    #[cfg(feature = "shuttle")]
    pub(super) fn step(&self, ns: u64) -> Step {
        let ns = if self.machine.get().clock == Clock::Hurried { 100 * ns } else { ns };
        self.now.set(self.now.get() + ns);
        self.steps.set(self.steps.get().wrapping_add(1));
        let role = &mut self.roles.borrow_mut()[self.active.get()];
        role.slice += 1;
        if role.slice == SLICE {
            role.slice = 0;
            return Step::GiveWay;
        }
        if self.steps.get().is_multiple_of(LOOK_EVERY) { Step::Look } else { Step::On }
    }

    /// The time in `ns` from now.
    pub(super) fn later(&self, ns: u64) -> u64 {
        self.now.get() + ns
    }

    /// The clock is rung: deadlines up to [`RING`] have passed.
    pub(super) fn ring(&self) {
        self.now.set(self.now.get().max(RING));
    }

    /// What time it is. `rung`: whether the bell is heard, asked only where there is one.
    pub(super) fn time(&self, rung: impl FnOnce() -> bool) -> u64 {
        if self.is_running() {
            let poll = &mut self.roles.borrow_mut()[self.active.get()].poll;
            poll.until = Some(self.now.get() + LOOK);
        }
        match self.machine.get().clock {
            Clock::Rung if self.is_running() => {
                if rung() {
                    self.now.get()
                } else {
                    0
                }
            }
            Clock::Hurried if self.is_running() => {
                let role = &mut self.roles.borrow_mut()[self.active.get()];
                role.looks += 1;
                self.now.get() + role.looks * (TURN + 1)
            }
            _ => self.now.get(),
        }
    }

    pub(super) fn count(&self, event: Event) {
        if self.is_running() {
            self.events.borrow_mut().insert(event);
        }
    }
}
