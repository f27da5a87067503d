//! Actors: what a script tells them to do, and what they say of themselves.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use lockyard::platform::thread::ThreadId;
use lockyard::platform::{Ordering, Platform, Word, atomics};

use super::Scripted;
use super::scene::{self, Core, Me, State};

/// A thread of the theatre, which takes parts in many scenes.
#[derive(Debug)]
pub(super) struct Player {
    tasks: Sender<Box<dyn FnOnce() + Send>>,
    id: ThreadId,
}

/// Those who have no part now.
static FREE: Mutex<Vec<Player>> = Mutex::new(Vec::new());

impl Player {
    pub(super) fn hire() -> Self {
        // As on the real machine, nobody gets the name of one who has gone and left a lock that
        // knows its owner by name.
        let mut players = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = players.iter().rposition(|player| Scripted::thread(player.id).is_unused());
        let free = place.map(|place| players.remove(place));
        drop(players);
        if let Some(player) = &free {
            // Late, for an earlier part.
            Scripted::thread(player.id).forget_wake_up();
        }
        free.unwrap_or_else(|| {
            let (tasks, todo) = channel::<Box<dyn FnOnce() + Send>>();
            let (name, named) = channel();
            thread::spawn(move || {
                let me = Scripted::current().expect("the theatre has records for everybody");
                // Nobody listens any more if the test has failed meanwhile.
                let _ = name.send(me.id());
                todo.into_iter().for_each(|task| task());
            });
            Self { tasks, id: named.recv().expect("a player says its name first") }
        })
    }

    pub(super) fn id(&self) -> ThreadId {
        self.id
    }

    fn dismiss(self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

/// A thread that does what the script says. Each has one task at a time. (`'e` may only be what it
/// is: tasks borrow for so long.)
pub struct Actor<'e> {
    core: Arc<Core>,
    number: usize,
    player: Player,
    scope: PhantomData<&'e mut &'e ()>,
}

impl Debug for Actor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "actor {}: {:?}", self.number, self.core.world().roles[self.number])
    }
}

/// What a task came to, once it has ended.
#[derive(Debug)]
pub struct Outcome<R>(Arc<Mutex<Option<R>>>);

impl<R> Outcome<R> {
    /// Whether the task has ended.
    pub fn is_done(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The task's result. Panics with `why` if it has not ended.
    pub fn expect(self, why: &str) -> R {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_else(|| panic!("not ended: {why}"))
    }
}

impl<'e> Actor<'e> {
    pub(super) fn new(core: &Arc<Core>, number: usize, player: Player) -> Self {
        Self { core: core.clone(), number, player, scope: PhantomData }
    }

    /// Its thread may take parts in other scenes.
    pub(super) fn leaves(self) {
        self.player.dismiss();
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Gives the actor a task: see [`Actor::starts_until`] and [`Actor::interrupted`].
    pub(super) fn send<R: Send + 'e>(
        &self,
        stop: Option<u64>,
        signal: Option<(u64, Box<dyn FnOnce() + Send + 'e>)>,
        task: impl FnOnce() -> R + Send + 'e,
    ) -> Outcome<R> {
        assert!(self.is_idle(), "{self:?} has a task already");
        let result = Arc::new(Mutex::new(None));
        let outcome = Outcome(result.clone());
        self.core.change(|world| {
            world.roles[self.number].state = State::Running;
            world.roles[self.number].stops = stop.is_some();
        });
        let me = Me { core: self.core.clone(), number: self.number };
        let task: Box<dyn FnOnce() + Send + 'e> = Box::new(move || {
            let core = me.core.clone();
            let number = me.number;
            scene::enter(Some(me));
            // SAFETY: the handler is dropped, run or not, before this task ends (`begin` below), so
            // it does not outlive `'e`.
            let signal = signal.map(|(at, handler)| unsafe {
                (at, std::mem::transmute::<Box<dyn FnOnce() + Send>, Box<dyn FnOnce()>>(handler))
            });
            scene::begin(stop, signal);
            let ended = catch_unwind(AssertUnwindSafe(task));
            let steps = scene::steps();
            scene::begin(None, None);
            scene::enter(None);
            // In one step: an actor whose task is done has no task.
            core.change(|world| {
                let role = &mut world.roles[number];
                role.failed |= ended.is_err() && !role.ghost;
                *result.lock().unwrap_or_else(PoisonError::into_inner) = ended.ok();
                drop(result);
                role.steps = steps;
                role.state = State::Idle;
            });
        });
        // SAFETY: `play_with` does not return, nor unwind, before this actor is idle, which it
        // becomes after the task has been consumed.
        let task = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'e>, Box<dyn FnOnce() + Send>>(task) };
        let Ok(()) = self.player.tasks.send(task) else { panic!("an actor has left") };
        outcome
    }

    /// Starts a task and returns when the scene has settled: the task is done, or waits.
    pub fn starts<R: Send + 'e>(&self, task: impl FnOnce() -> R + Send + 'e) -> Outcome<R> {
        let outcome = self.send(None, None, task);
        self.core.settle();
        outcome
    }

    /// Starts a task if the last one has ended.
    pub fn starts_if_idle<R: Send + 'e>(&self, task: impl FnOnce() -> R + Send + 'e) -> Option<Outcome<R>> {
        self.is_idle().then(|| self.starts(task))
    }

    /// Does a task that must not wait.
    pub fn does<R: Send + 'e>(&self, task: impl FnOnce() -> R + Send + 'e) -> R {
        self.starts(task).expect("a task that should not have had to wait")
    }

    /// Starts a task that stops before its `stop`-th step, if it gets so far. See
    /// [`Actor::is_stopped`].
    pub fn starts_until<R: Send + 'e>(&self, stop: u64, task: impl FnOnce() -> R + Send + 'e) -> Outcome<R> {
        let outcome = self.send(Some(stop), None, task);
        self.core.settle();
        outcome
    }

    /// As [`Actor::starts_until`]; when the actor resumes, `handler` runs first, on its thread, as
    /// the handler of a signal would that came there.
    pub fn interrupted<R: Send + 'e>(
        &self,
        at: u64,
        handler: impl FnOnce() + Send + 'e,
        task: impl FnOnce() -> R + Send + 'e,
    ) -> Outcome<R> {
        let outcome = self.send(Some(at), Some((at, Box::new(handler))), task);
        self.core.settle();
        outcome
    }

    /// Whether the actor was stopped, and has not been resumed.
    pub fn is_stopped(&self) -> bool {
        self.core.world().roles[self.number].state == State::Stopped
    }

    /// Whether the actor has no task.
    pub fn is_idle(&self) -> bool {
        self.core.world().roles[self.number].state == State::Idle
    }

    pub(super) fn is_ghost(&self) -> bool {
        self.core.world().roles[self.number].ghost
    }

    /// A ghost's task ends.
    pub(super) fn vanishes(&self) {
        self.core.change(|world| world.roles[self.number].vanishes = true);
        while !self.is_idle() {
            thread::yield_now();
        }
    }

    /// Whether the actor waits: asleep, or polling in vain.
    pub fn waits(&self) -> bool {
        matches!(self.core.world().roles[self.number].state, State::Parked { .. } | State::Napping(_))
    }

    /// Whether the actor sleeps with no timer to wake it.
    pub fn sleeps_for_ever(&self) -> bool {
        matches!(self.core.world().roles[self.number].state, State::Parked { deadline: None, .. })
    }

    /// How many steps its last task made.
    pub fn steps(&self) -> u64 {
        self.core.world().roles[self.number].steps
    }

    /// A stopped actor goes on; one that has not come to its stop yet will not stop there.
    pub fn resumes(&self) {
        self.core.change(|world| {
            world.roles[self.number].stops = false;
            if world.roles[self.number].state == State::Stopped {
                world.roles[self.number].state = State::Running;
            }
        });
        self.core.settle();
    }

    /// A stopped actor goes on, and stops again before its `steps`-th step from here, if it gets so
    /// far.
    pub fn resumes_until(&self, steps: u64) {
        self.core.change(|world| {
            let role = &mut world.roles[self.number];
            if role.state == State::Stopped {
                role.stops_again = Some(steps);
                role.state = State::Running;
            }
        });
        self.core.settle();
    }

    /// Wake-ups do not reach the actor until [`Actor::thaw`].
    pub fn freeze(&self) {
        self.core.change(|world| world.roles[self.number].frozen = true);
    }

    /// Wake-ups reach the actor again, those that came meanwhile first.
    pub fn thaw(&self) {
        self.core.change(|world| world.roles[self.number].frozen = false);
        self.core.settle();
    }

    /// Whether others believe that the actor is on a CPU. In the beginning they do not.
    pub fn is_on_cpu(&self, on_cpu: bool) {
        self.core.change(|world| world.roles[self.number].on_cpu = on_cpu);
    }

    /// Whether the actor has real-time priority.
    pub fn is_realtime(&self, realtime: bool) {
        self.core.change(|world| world.roles[self.number].realtime = realtime);
    }

    /// Gives the actor a priority of its own, as a program does that asks the scheduler. Not while
    /// something is lent to it.
    pub fn has_priority(&self, priority: u32) {
        self.core.change(|world| world.roles[self.number].priority = (priority, priority));
    }

    /// The priority with which the actor runs now: its own, or what is lent to it.
    pub fn priority(&self) -> u32 {
        self.core.world().roles[self.number].priority.1
    }

    /// Whether the actor is in a window: it holds a lock's internal lock for a few steps. An actor
    /// that is stopped there for ever keeps all out.
    pub fn is_in_window(&self) -> bool {
        self.core.world().roles[self.number].windows != 0
    }

    /// The name of the actor's thread.
    pub fn id(&self) -> ThreadId {
        self.player.id
    }

    /// Moves the actor to a NUMA node, one of [`NODES`](super::NODES).
    pub fn is_on_node(&self, node: u32) {
        self.core.change(|world| world.roles[self.number].node = node % super::NODES);
    }

    /// Wakes the actor for no reason.
    pub fn wakes_spuriously(&self) {
        let word = match self.core.world().roles[self.number].state {
            State::Parked { word, .. } => word,
            _ => return,
        };
        // SAFETY: the actor is parked and settled; the script decides when it goes on.
        Scripted::nudge(unsafe { &*word });
        self.core.change(|_| {});
        self.core.settle();
    }
}

impl Scripted {
    /// Changes a parking token as any wake-up does.
    fn nudge(word: &atomics::U32) {
        word.swap(1, Ordering::Release);
    }
}
