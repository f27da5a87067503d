//! A scene: actors that run one at a time or together, a clock that the script turns, and the
//! certainty that nothing more will happen.
//!
//! Actors are real threads, but each of their waits is known to the scene: parked, stopped by the
//! script, napping between polls, or without a task. When all are in one of these states and no
//! sleeper's wake-up is due, the scene is *settled*: nothing changes any more unless the script
//! acts. So "still waits" and "will never wake" are facts here, not guesses by time.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lockyard::event::{COUNT, Event};
use lockyard::platform::ParkedHeads;
use lockyard::platform::thread::ThreadId;
use lockyard::platform::{Ordering, Platform, Word, atomics};

use super::{NODES, Scripted};

/// How long a napping actor sleeps between polls, in real time.
const NAP: Duration = Duration::from_micros(20);
/// How often the script looks for itself whether the scene has settled.
const LOOK: Duration = Duration::from_millis(1);

/// Names a seed with which actors give the CPU away before many of their steps. A script whose
/// outcome hangs on how quickly two actors run fails then, and not once a year on a busy machine.
pub const SHAKE: &str = "LOCKYARD_SHAKE";

/// What an actor does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Has no task.
    Idle,
    Running,
    /// Sleeps while the word at this address has this value, or until the deadline.
    Parked {
        word: *const atomics::U32,
        expected: u32,
        deadline: Option<u64>,
    },
    /// Before one of its steps, until the script lets it go on.
    Stopped,
    /// Between two polls of something that has not happened, so many in a row; or polling.
    Napping(u32),
}

// SAFETY: the pointer is only followed while the actor is parked there, and holds the borrow.
unsafe impl Send for State {}

/// One actor, as the scene sees it.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) id: ThreadId,
    pub(super) state: State,
    /// Whether its stop still counts: the script has not let it go on.
    pub(super) stops: bool,
    /// When it goes on: after how many steps it stops again.
    pub(super) stops_again: Option<u64>,
    /// Does not wake, though its wake-up may be due.
    pub(super) frozen: bool,
    pub(super) on_cpu: bool,
    pub(super) realtime: bool,
    /// Priority as the actor's program set it, and with what is lent to it.
    pub(super) priority: (u32, u32),
    pub(super) node: u32,
    /// Only the parent of a fork has it: it does nothing any more, and its task ends with the
    /// scene.
    pub(super) ghost: bool,
    /// A ghost's task ends now.
    pub(super) vanishes: bool,
    /// Windows that the actor is in: see `Platform::begin_window`.
    pub(super) windows: u32,
    /// Naps ever taken.
    naps: u64,
    /// Steps that the running task has made.
    pub(super) steps: u64,
    /// Panicked.
    pub(super) failed: bool,
}

impl Role {
    fn new(id: ThreadId, number: usize) -> Self {
        Self {
            id,
            node: number as u32 % NODES,
            state: State::Idle,
            stops: false,
            stops_again: None,
            frozen: false,
            on_cpu: false,
            realtime: false,
            priority: (0, 0),
            ghost: false,
            vanishes: false,
            windows: 0,
            naps: 0,
            steps: 0,
            failed: false,
        }
    }

    fn is_napper(&self) -> bool {
        !self.ghost && matches!(self.state, State::Napping(_))
    }

    /// Whether an actor that stays somewhere may go on.
    fn may_go_on(&self, now: u64) -> bool {
        match self.state {
            State::Running | State::Napping(_) => true,
            State::Idle => false,
            _ if self.ghost => self.vanishes,
            State::Stopped => false,
            State::Parked { word, expected, deadline } => {
                // SAFETY: the actor is in `park` and borrows the word until it leaves this state,
                // under the same lock.
                let due = unsafe { &*word }.load(Ordering::SeqCst) != expected
                    || deadline.is_some_and(|deadline| deadline <= now);
                due && !self.frozen
            }
        }
    }

    /// Whether nothing happens here until somebody else acts. (A napper must also poll in vain: see
    /// [`Core::settle`].)
    fn quiet(&self, now: u64) -> bool {
        match self.state {
            State::Napping(row) => row >= 3 || self.ghost,
            _ => !self.may_go_on(now),
        }
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) roles: Vec<Role>,
    events: [i64; COUNT],
}

/// What actors and script share.
#[derive(Debug)]
pub(super) struct Core {
    world: Mutex<World>,
    /// Where the script waits for the scene to settle.
    quiet: Condvar,
    /// Where each actor waits.
    seats: Vec<Condvar>,
    /// Spinlock heads that sleep in this scene. In a table for all scenes they would be in each
    /// other's way: locks at the same depth of two tests' stacks share a line of it.
    heads: ParkedHeads<Scripted>,
}

impl Core {
    /// A scene for threads with these names.
    pub(super) fn new(names: &[ThreadId]) -> Arc<Self> {
        let roles = names.iter().enumerate().map(|(number, &id)| Role::new(id, number)).collect();
        // Not zero: a time of 0 looks like "never" to careless code.
        let world = World { now: 1_000_000_000, roles, events: [0; COUNT] };
        let seats = names.iter().map(|_| Condvar::new()).collect();
        Arc::new(Self { world: Mutex::new(world), quiet: Condvar::new(), seats, heads: ParkedHeads::new() })
    }

    /// The world. (A panic of an actor is reported by the scene, so poison says nothing new.)
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the world and tells those whom it concerns.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        let mut world = self.world();
        let result = change(&mut world);
        for (role, seat) in world.roles.iter().zip(&self.seats) {
            if role.may_go_on(world.now) {
                seat.notify_one();
            }
        }
        if world.quiet() {
            self.quiet.notify_one();
        }
        result
    }

    /// The actor `number` gets into `state` and stays there until it may go on.
    fn stay(&self, number: usize, state: State) {
        self.change(|world| {
            world.roles[number].state = state;
            world.roles[number].steps = steps();
        });
        let mut world = self.world();
        while !world.roles[number].may_go_on(world.now) {
            world = self.seats[number].wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        world.roles[number].state = State::Running;
        if world.roles[number].vanishes {
            drop(world);
            // Through a lock's code, which nobody of the child runs.
            std::panic::resume_unwind(Box::new("a ghost vanishes"));
        }
    }

    /// Waits until the scene is settled.
    pub(super) fn settle(&self) {
        let mut world = self.world();
        // Nappers have the last word: each polls twice more while everybody else is quiet.
        let mut naps: Option<Vec<u64>> = None;
        loop {
            if !world.quiet() {
                if world.roles.iter().any(|role| !role.is_napper() && !role.quiet(world.now)) {
                    naps = None;
                }
            } else if !world.roles.iter().any(Role::is_napper) {
                return;
            } else {
                let now: Vec<u64> = world.roles.iter().map(|role| role.naps).collect();
                let patient = |(role, (now, before)): (&Role, (&u64, &u64))| !role.is_napper() || *now >= before + 2;
                match &naps {
                    Some(before) if world.roles.iter().zip(now.iter().zip(before)).all(patient) => return,
                    Some(_) => {}
                    None => naps = Some(now),
                }
            }
            world = self.quiet.wait_timeout(world, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What the calling thread is in a scene.
#[derive(Debug, Clone)]
pub(super) struct Me {
    pub(super) core: Arc<Core>,
    pub(super) number: usize,
}

type Handler = Box<dyn FnOnce()>;

thread_local! {
    static ME: RefCell<Option<Me>> = const { RefCell::new(None) };
    /// Steps until the next stop; negative: none.
    static UNTIL_STOP: Cell<i64> = const { Cell::new(-1) };
    /// Steps until the handler runs, and the handler.
    static UNTIL_SIGNAL: Cell<i64> = const { Cell::new(-1) };
    static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// Where the thread's delays come from, see [`SHAKE`]; zero: not seeded yet.
    static DELAYS: Cell<u64> = const { Cell::new(0) };
    /// Relaxes in a row: a loop that relaxes for ever is a napper.
    static RELAXED: Cell<u32> = const { Cell::new(0) };
}

pub(super) fn enter(me: Option<Me>) {
    ME.replace(me);
}

/// The calling actor, if it is one.
pub(super) fn me() -> Option<Me> {
    ME.with_borrow(Clone::clone)
}

/// A new task of the calling actor: stop before its step number `stop`, run `handler` before
/// another.
pub(super) fn begin(stop: Option<u64>, signal: Option<(u64, Handler)>) {
    STEPS.set(0);
    UNTIL_STOP.set(stop.map_or(-1, |stop| stop as i64));
    match signal {
        Some((at, handler)) => {
            UNTIL_SIGNAL.set(at as i64);
            HANDLER.replace(Some(handler));
        }
        None => {
            UNTIL_SIGNAL.set(-1);
            HANDLER.replace(None);
        }
    }
}

/// How many steps the task has made.
pub(super) fn steps() -> u64 {
    STEPS.get()
}

/// Gives the CPU away before one step in four, if that is asked for.
fn shake() {
    static SEED: OnceLock<Option<u64>> = OnceLock::new();
    let seed = SEED.get_or_init(|| {
        let text = std::env::var(SHAKE).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{SHAKE}={text}: a seed is a number")))
    });
    let Some(seed) = seed else { return };
    let mut state = DELAYS.get();
    if state == 0 {
        let name = Scripted::id().map_or(0, |id| id.raw());
        state = (seed << 16 | u64::from(name)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    DELAYS.set(state);
    match state >> 40 & 31 {
        0 => std::thread::sleep(Duration::from_micros(1)),
        1..8 => std::thread::yield_now(),
        _ => {}
    }
}

/// The calling thread is about to touch a word.
pub(super) fn step() {
    shake();
    let stop = UNTIL_STOP.get();
    if stop >= 0 {
        UNTIL_STOP.set(stop - 1);
        if stop == 0 {
            stopped();
        }
    }
    let signal = UNTIL_SIGNAL.get();
    if signal >= 0 {
        UNTIL_SIGNAL.set(signal - 1);
        if signal == 0
            && let Some(handler) = HANDLER.take()
        {
            handler();
        }
    }
    STEPS.set(STEPS.get() + 1);
}

fn stopped() {
    if let Some(me) = me()
        && me.core.world().roles[me.number].stops
    {
        me.core.stay(me.number, State::Stopped);
        if let Some(steps) = me.core.world().roles[me.number].stops_again.take() {
            UNTIL_STOP.set(steps as i64 - 1);
        }
    }
}

pub(super) fn relax() {
    RELAXED.set(RELAXED.get() + 1);
    if RELAXED.get() > 64 {
        nap(RELAXED.get());
    }
}

pub(super) fn nap(round: u32) {
    let Some(me) = me() else {
        std::thread::yield_now();
        return;
    };
    me.core.change(|world| {
        if let Some(role) = world.roles.get_mut(me.number) {
            role.naps += 1;
            role.state = if round == 0 { State::Running } else { State::Napping(round) };
        }
    });
    if me.core.world().roles.get(me.number).is_some_and(|role| role.ghost) {
        me.core.stay(me.number, State::Stopped);
    }
    if round > 2 {
        std::thread::sleep(NAP);
    } else {
        std::thread::yield_now();
    }
}

pub(super) fn park(word: &atomics::U32, expected: u32, deadline: Option<u64>) {
    RELAXED.set(0);
    let me = me().expect("only an actor may wait: the script itself has met a contended lock");
    me.core.stay(me.number, State::Parked { word, expected, deadline });
}

pub(super) fn unpark() {
    if let Some(me) = me() {
        me.core.change(|_| {});
    }
}

pub(super) fn now() -> u64 {
    me().map_or(0, |me| me.core.world().now)
}

/// The scene's table of sleeping spinlock heads. (Outside all scenes nobody sleeps, and one table
/// does.)
pub(super) fn heads() -> &'static ParkedHeads<Scripted> {
    static OUTSIDE: ParkedHeads<Scripted> = ParkedHeads::new();
    ME.with_borrow(|me| match me {
        // SAFETY: a lock asks anew in each of its functions and keeps nothing of it. The caller,
        // who is in such a function, belongs to the scene until its task or the script has ended
        // (`enter`), and the table is there as long as somebody does.
        Some(me) => unsafe { &*std::ptr::from_ref(&me.core.heads) },
        None => &OUTSIDE,
    })
}

/// The epoch of the caller's scene: see `Platform::epoch`.
pub(super) fn epoch() -> u32 {
    me().map_or(1, |me| 1 + u32::from(me.core.world().roles.iter().any(|role| role.ghost)))
}

/// The NUMA node of the calling actor.
pub(super) fn node() -> u32 {
    me().map_or(0, |me| me.core.world().roles.get(me.number).map_or(0, |role| role.node))
}

pub(super) fn count(event: Event, amount: i64) {
    if let Some(me) = me() {
        me.core.world().events[event as usize] += amount;
    }
}

/// Asks about the actor called `id` in the caller's scene.
pub(super) fn about(id: ThreadId, ask: impl FnOnce(&Role) -> bool) -> bool {
    me().is_some_and(|me| me.core.world().roles.iter().find(|role| role.id == id).is_some_and(ask))
}

/// Does something to the actor called `id` in the caller's scene, if there is one.
pub(super) fn change<R>(id: ThreadId, change: impl FnOnce(&mut Role) -> R) -> Option<R> {
    me().and_then(|me| me.core.world().roles.iter_mut().find(|role| role.id == id).map(change))
}

impl World {
    pub(super) fn quiet(&self) -> bool {
        self.roles.iter().all(|role| role.quiet(self.now))
    }

    pub(super) fn events(&self, event: Event) -> i64 {
        self.events[event as usize]
    }
}
