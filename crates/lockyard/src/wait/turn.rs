//! Taking turns: the one waiting discipline of Lockyard's sleeping locks.
//!
//! A userspace lock pays for every sleep and wake-up with a system call and a context switch, and a hand-over to a sleeper leaves the lock idle until
//! the sleeper runs. So running threads may pass the lock around while others sleep, but not for long: bounded unfairness.
//!
//! ```text
//! newcomer ──▶ spins behind other spinners, while the owner runs ──▶ took it
//!     │ gave up
//!     ▼
//! queues (FIFO) ──▶ sleeps until it is first
//!     ▼
//! first: competes ──▶ listens: sleeps until a release ──▶ competes ──▶ dozes by its own timer until its turn ends
//!     ▼                                                                      │
//! asks for handoff, spins for it, sleeps until given ◀───────────────────────┘
//! ```
//!
//! * **Listening** answers a lock that is held long: the release wakes the first waiter at once (or the end of its turn does).
//! * **Dozing** answers a lock that has been taken again whenever a woken waiter runs: being woken again would be in vain, so nobody is asked to.
//! * **Handoff** answers both when the turn is over: the lock lets nobody but the first waiter in.
//!
//! # Bound on bypass
//!
//! A queued waiter is passed only by threads that run, and only during the turn of each waiter ahead of it and its own. With n threads waiting it gets the lock after at most
//! n × ([`TURN_NS`] + one hold + one wake-up), a little over 7 ms for 16 threads.
//!
//! # Invariants
//!
//! 1. `waiter.busy` is set while its thread is in the queue, or about to leave it.
//! 2. Every first waiter runs, or has left a request (`Listen`, `Handoff`) on a lock that was held at that moment, or sleeps with a timer.
//! 3. Whoever leaves the head of the queue, for whatever reason, wakes the next.
//! 4. A waiter tries before it looks at its deadline, and once more before it leaves.
//!
//! From 2: the release of the hold on which the request was left sees it, and wakes (or grants to) the thread that is first by then;
//! if the requester has left meanwhile, 3 has woken that one anyway. The name of the first waiter may thus be read without the wait lock.
//!
//! Sources: mutex and rwsem handoff (Linux, 2016 and 2019); woken first waiter spins (Linux 2016); culling: Dice, "Malthusian Locks" (EuroSys 2017).

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Patience, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::thread::{Thread, ThreadId};

/// How long the first waiter is passed by running threads before it asks for handoff.
pub const TURN_NS: u64 = 400_000;
/// How long the first waiter competes before it sleeps, and how long it spins for a lock it has asked for. About one context switch.
pub const COMPETE_NS: u32 = 5_000;
/// The longest distance between two looks of a spinner: a rival that looks less disturbs the owner less.
pub const STRIDE_NS: u32 = 2_000;

/// What the first waiter asks of a held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// Wake me at the next release.
    Listen,
    /// Let nobody in but me.
    Handoff,
}

/// Under which names a lock counts how its waits ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Events {
    pub(crate) spun: Event,
    pub(crate) spin_failed: Event,
    pub(crate) queued: Event,
    pub(crate) gave_up: Event,
    pub(crate) slept: Event,
}

/// A lock, and one way of wanting it, as this discipline sees them.
pub(crate) trait Contended<P: Platform> {
    /// Names to count under.
    const EVENTS: Events;

    /// The lock's parts.
    fn wait_lock(&self) -> &RawQSpinLock<P>;
    fn waiters(&self) -> &WaitQueue<P>;
    fn osq(&self) -> &Osq<P>;

    /// The thread that must run for the lock to become free, if one is known.
    fn owner(&self) -> Option<ThreadId>;

    /// Whether a try would probably succeed. Loads only.
    fn open(&self, first: bool) -> bool;

    /// Takes the lock, or collects it if it was given to the caller. `first`: the caller is the first waiter, so a handoff
    /// that forbids everybody else does not forbid it.
    fn try_take(&self, first: bool) -> bool;

    /// As `try_take` for the first waiter; a failed try leaves `request` on the held lock, in the same atomic step.
    fn try_or_ask(&self, request: Request) -> bool;

    /// Under the wait lock: a waiter has queued; `first`: the queue was empty.
    fn joined(&self, first: bool);

    /// Under the wait lock: a waiter has left the queue; `empty`: it was the last.
    fn left(&self, empty: bool);
}

/// Takes the lock unless `until` comes first.
pub(crate) fn acquire<P: Platform, L: Contended<P>>(lock: &L, until: Until<'_, P>) -> Result<(), GaveUp> {
    match P::current() {
        Some(me) if me.waiter.busy.load(Relaxed) == 0 => {
            if spin(lock, me, until) {
                P::count(L::EVENTS.spun, 1);
                return Ok(());
            }
            P::count(L::EVENTS.spin_failed, 1);
            until.watching(me, || queue(lock, me, until))
        }
        // No record to queue with, or already waiting (a signal handler): try, and give the CPU away in between.
        _ => until.poll(|| lock.try_take(false)),
    }
}

/// Spins without queueing, one spinner at a time.
fn spin<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, until: Until<'_, P>) -> bool {
    if P::cpus() == 1 || P::should_yield() || lock.owner().is_some_and(|owner| !P::is_running(owner)) {
        return false;
    }
    let patience = Patience::ns(P::spin_budget()).until(until.wake_time()).courteous();
    if !lock.osq().join(me, patience) {
        return false;
    }
    let taken = compete(lock, false, patience.stride(STRIDE_NS));
    lock.osq().leave(me);
    taken
}

/// Tries whenever the lock looks open.
fn compete<P: Platform, L: Contended<P>>(lock: &L, first: bool, mut patience: Patience) -> bool {
    loop {
        let owner = lock.owner();
        patience.running = owner;
        if P::spin(patience, || (lock.open(first) && lock.try_take(first)).then_some(())).is_some() {
            return true;
        }
        // Out of patience, or the owner stopped running. If it is another owner by now, give that one half the time.
        patience.ns /= 2;
        let now = lock.owner();
        if patience.ns < 1_000 || now == owner || now.is_some_and(|owner| !P::is_running(owner)) {
            return false;
        }
    }
}

fn queue<P: Platform, L: Contended<P>>(lock: &L, me: &'static Thread<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
    lock.wait_lock().acquire();
    if lock.try_take(false) {
        // SAFETY: acquired above.
        unsafe { lock.wait_lock().release() };
        return Ok(());
    }
    me.waiter.busy.store(1, Relaxed);
    let first = lock.waiters().push(me);
    lock.joined(first);
    // SAFETY: acquired above.
    unsafe { lock.wait_lock().release() };

    let result = wait(lock, me, until);

    lock.wait_lock().acquire();
    // Last look: what was given to us is ours, whatever the deadline says.
    let first = lock.waiters().is_first(me);
    let result = result.or_else(|end| if lock.try_take(first) { Ok(()) } else { Err(end) });
    let empty = lock.waiters().remove(me);
    lock.left(empty);
    let next = if first { lock.waiters().first() } else { None };
    // SAFETY: acquired above.
    unsafe { lock.wait_lock().release() };
    me.waiter.busy.store(0, Relaxed);
    if let Some(next) = next {
        next.unpark();
    }
    P::count(if result.is_ok() { L::EVENTS.queued } else { L::EVENTS.gave_up }, 1);
    result
}

/// Queued: waits until the lock is ours or `until` comes.
fn wait<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
    let mut turn_end = None;
    let mut listened = false;
    loop {
        let first = lock.waiters().is_first(me);
        if lock.try_take(first) {
            return Ok(());
        }
        if let Some(end) = until.over() {
            return Err(end);
        }
        if !first {
            me.park(until.wake_time());
            P::count(L::EVENTS.slept, 1);
            continue;
        }
        let turn_end = *turn_end.get_or_insert_with(|| P::now() + TURN_NS);
        let patience = Patience::ns(COMPETE_NS).until(until.wake_time());
        if compete(lock, true, patience) {
            return Ok(());
        }
        if P::now() >= turn_end {
            // Nobody else gets in from here on. We are awake, so the lock will not lie idle.
            if lock.try_or_ask(Request::Handoff) || compete(lock, true, patience) || lock.try_or_ask(Request::Listen) {
                return Ok(());
            }
            me.park(until.wake_time());
        } else {
            // The timer also ends listening: nobody may ever release (overlapping readers), or those who do may not see us.
            if !listened && lock.try_or_ask(Request::Listen) {
                return Ok(());
            }
            listened = true;
            me.park(until.wake_time_or(turn_end));
        }
        P::count(L::EVENTS.slept, 1);
    }
}
