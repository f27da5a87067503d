//! Taking turns: the one waiting discipline of Lockyard's sleeping locks.
//!
//! A userspace lock pays for every sleep and wake-up with a system call and a context switch, and a hand-over to a sleeper leaves the lock idle until
//! the sleeper runs. So running threads may pass the lock around while others sleep, but not for long: bounded unfairness.
//!
//! ```text
//! newcomer ──▶ spins behind other spinners, while the owner runs ──▶ took it
//!     │ gave up
//!     ▼
//! queues (FIFO), is told when its turn ends ──▶ sleeps until then
//!     │ first                                         │ turn over, and first
//!     ▼                                               ▼
//! competes ──▶ listens: sleeps until a release,   asks for handoff, spins for it,
//!              or until its turn ends ──▶ competes    sleeps until a release
//! ```
//!
//! * Each waiter has a **turn** of [`TURN_NS`], which begins when the turn of the one before it ends, or when that one has got the lock. While it
//!   lasts, running threads may take the lock; when it is over the lock lets nobody in but this waiter, if it is first.
//! * **Listening** answers a lock that is held long: the release wakes the first waiter at once.
//! * **Dozing** answers a lock that has been taken again whenever a woken waiter runs: being woken again would be in vain, so nobody is asked to.
//!   A waiter that got the lock *listens on behalf of the next* if it was not passed itself; else the next dozes to the end of its turn, unless it has
//!   set its timer for a time when all before it should have used up their turns, and they have not.
//! * **Lending the CPU.** A waiter that has queued behind a holder that is not running gives its CPU away once before it sleeps: the holder waits for one, likely for this one, and needs it for a
//!   moment. Asleep at once, everybody else queued up behind one preemption inside a section, and the wake-ups that emptied the queue preempted the next holder: LevelDB with 16 threads on
//!   2 CPUs switched threads 70,000 times a second and did 0.72 of what it does on glibc's mutex (now 9,000 times, and 0.97). It lends after it has queued, so that its turn has begun: lending before, the
//!   longest waits of 16 threads at a saturated mutex grew from 14 to 25 ms (so, to 19). Once, since four times gained no more.
//! * **Opening up.** A waiter that was not passed has found a lock that nobody fights over: those behind it waited for a holder that slept, or were moved here by
//!   a signal. One after the other, each by the next, would take them a wait for a CPU each, while CPUs fall idle. So it also wakes [`OPENED`] of those behind the first whose timers are far
//!   away; each of them does the same if it is not passed, and the queue empties in a number of steps that grows with the logarithm of its length.
//! * **Giving way.** A thread that is woken while all CPUs are busy waits behind one of us for a scheduler tick, though another CPU may fall idle
//!   meanwhile. Whoever queues and sees that the first waiter has been woken and has not run, or is late, asks for handoff in its name; and nobody spins
//!   for a lock that is kept for somebody else, but queues and sleeps: then the CPU is free. Only at a lock that is fought over, which the first
//!   has been told by the one before it, if that one was passed: at another all threads that run would come by and queue up behind one that waits for its CPU.
//!
//! # Bound on bypass
//!
//! A queued waiter is passed only by threads that run, and only until its turn ends. With n threads waiting it gets the lock after at most
//! n × ([`TURN_NS`] + one hold + one wake-up).
//!
//! # Invariants
//!
//! 1. `waiter.busy` is set while its thread is in the queue, or about to leave it.
//! 2. Every waiter runs or sleeps with a timer no further than the end of its turn, or one turn on for each before it (longer once it has looked in vain
//!    for long: [`PATIENT_AFTER`]). So nothing below can be lost, only late. The exception is a waiter that another thread has put into the queue
//!    asleep (`push_asleep`): it has no timer, and everybody knows, since its turn ends in the far future.
//! 3. A first waiter that listens has left its request on a lock that was held at that moment, or the thread before it has when it took the lock.
//!    Handoff asked for in its name may fall on a free lock: it has been woken, and will come.
//! 4. Who leaves the head of the queue without the lock wakes the next.
//! 5. A waiter tries before it looks at its deadline, and once more before it leaves.
//! 6. Requests are made by the first waiter or under the wait lock while somebody is queued, and cleared by whoever empties the queue: none outlives it.
//!
//! The release of the hold on which a request was left sees it, and wakes the thread that is first by then. It reads that name without the
//! wait lock: if it is stale, its bearer has left the queue since, and 2 or 4 has taken care of the next.
//!
//! Sources: mutex and rwsem handoff (Linux, 2016 and 2019); woken first waiter spins (Linux 2016); culling: Dice, "Malthusian Locks" (EuroSys 2017).

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Patience, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::{WaitQueue, WakeList};
use crate::wait::thread::{Thread, ThreadId};

/// How long running threads may pass a waiter when everybody before it has been served.
pub const TURN_NS: u64 = 400_000;
/// The furthest that the ends of all turns together may lie ahead: what more waiters there are share this.
pub const TURNS_NS: u64 = 1_000_000_000;
/// A first waiter that has not moved so long after its turn ended is asleep, or waits for a CPU that we use.
pub const GRACE_NS: u64 = 100_000;
/// So many times in vain a waiter looks again a turn (for each one before it) later; from then on it doubles the time, up to [`PATIENT_SHIFT`] times:
/// a lock held for seconds, for example around a system call that waits, is not worth a look every turn.
pub const PATIENT_AFTER: u32 = 8;
/// See [`PATIENT_AFTER`]: a first waiter then looks about every 0.1 s.
pub const PATIENT_SHIFT: u32 = 8;
/// How long the first waiter competes before it sleeps, and how long it spins for a lock it has asked for. About one context switch.
pub const COMPETE_NS: u32 = 5_000;
/// How long a spinner goes on that has no holder to watch.
pub const BLIND_NS: u32 = 20_000;
/// How long a spinner leaves it to chance to meet a lock that is shared at a moment when it is free.
pub const PRESS_NS: u32 = 2_000;
/// The distance between its looks from then on.
pub const PRESSED_STRIDE_NS: (u32, u32) = (50, 200);
/// How many of those that sleep long a waiter wakes that was not passed, beside the first. With one the queue would not empty any faster than by one at a time.
pub const OPENED: usize = 2;
/// The distance between two looks of a spinner, at first and in the end: a rival that looks less disturbs the owner less.
pub const STRIDE_NS: (u32, u32) = (100, 4_000);

/// The first waiter's note: the one before it was passed.
const FOUGHT_OVER: u32 = 1;

/// What the first waiter asks of a held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// Wake me at the next release.
    Listen,
    /// Let nobody in but me.
    Handoff,
}

/// How a lock looks to somebody who wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Open,
    Closed,
    /// Kept for the first waiter, who perhaps waits for our CPU.
    Kept,
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

    /// The distance between a spinner's looks, at first and in the end. See [`Patience::stride`].
    const STRIDE_NS: (u32, u32) = STRIDE_NS;

    /// The one spinner has spun for [`PRESS_NS`] in vain: it may ask those who share the lock for a gap. `true`: it did.
    fn press(&self, me: &Thread<P>) -> bool {
        let _ = me;
        false
    }

    /// The spinner that has pressed has stopped spinning.
    fn relent(&self) {}

    /// What a try would probably come to. One load: a line that is fought over does not stay for a second.
    fn look(&self, first: bool) -> Look;

    /// Takes the lock, or collects it if it was given to the caller. `first`: the caller is the first waiter, so a handoff
    /// that forbids everybody else does not forbid it.
    fn try_take(&self, first: bool) -> bool;

    /// As `try_take` for the first waiter; a failed try leaves `request` on the held lock, in the same atomic step.
    fn try_or_ask(&self, request: Request) -> bool;

    /// Under the wait lock, somebody being queued: asks for handoff in the first waiter's name.
    fn ask_for_first(&self);

    /// Under the wait lock: a waiter has queued; `first`: the queue was empty.
    fn joined(&self, first: bool) {
        let _ = first;
    }

    /// Under the wait lock: a waiter has left the queue; `empty`: it was the last. `listen`: it holds the lock, and its
    /// release is to wake the next.
    fn left(&self, empty: bool, listen: bool);
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
    let budget = P::spin_budget();
    let patience = Patience::ns(budget).until(until.wake_time()).courteous();
    if !lock.osq().join(me, patience) {
        return false;
    }
    let waits = patience.stride(L::STRIDE_NS.0, L::STRIDE_NS.1);
    let taken = compete(lock, false, Patience { ns: PRESS_NS.min(budget), ..waits }) || {
        if lock.press(me) {
            // Those who are asked leave a gap soon: look often, it is ours.
            let taken = compete(lock, false, patience.stride(PRESSED_STRIDE_NS.0, PRESSED_STRIDE_NS.1));
            lock.relent();
            taken
        } else {
            compete(lock, false, waits)
        }
    };
    lock.osq().leave(me);
    taken
}

/// Tries whenever the lock looks open.
fn compete<P: Platform, L: Contended<P>>(lock: &L, first: bool, mut patience: Patience) -> bool {
    loop {
        let owner = lock.owner();
        patience.running = owner;
        if owner.is_none() {
            // Nothing would end the spin if whoever holds the lock sleeps, however long a machine lets us spin.
            patience.ns = patience.ns.min(BLIND_NS);
        }
        let ended = P::spin(patience, || match lock.look(first) {
            Look::Open => lock.try_take(first).then_some(true),
            Look::Closed => None,
            Look::Kept => Some(false),
        });
        if let Some(taken) = ended {
            return taken;
        }
        // Out of patience, or the owner stopped running. If it is another owner by now, give that one half the time.
        patience.ns /= 2;
        let now = lock.owner();
        if patience.ns < 1_000 || now == owner || now.is_some_and(|owner| !P::is_running(owner)) {
            return false;
        }
    }
}

/// The ticket that a waiter drew when it queued: the difference of two is at least how many stand between them.
fn place_of<P: Platform>(thread: &Thread<P>) -> u32 {
    thread.waiter.place.load(Relaxed)
}

/// How a queued wait went.
struct Wait {
    /// The lock was taken by others while this waiter was awake for it.
    passed: bool,
    result: Result<(), GaveUp>,
}

fn queue<P: Platform, L: Contended<P>>(lock: &L, me: &'static Thread<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
    let now = P::now();
    lock.wait_lock().acquire();
    if lock.try_take(false) {
        // SAFETY: acquired above.
        unsafe { lock.wait_lock().release() };
        return Ok(());
    }
    me.waiter.enter();
    // The first's turn ends in a turn at the latest, and each one behind it has one more. (A gap that one left who gave up does not matter.)
    let (place, ahead) = match (lock.waiters().first(), lock.waiters().last()) {
        (Some(first), Some(last)) => (place_of(last).wrapping_add(1), place_of(last).wrapping_sub(place_of(first)) + 1),
        _ => (0, 0),
    };
    me.waiter.place.store(place, Relaxed);
    me.waiter.due.store(now + (TURN_NS * (u64::from(ahead) + 1)).min(TURNS_NS), Relaxed);
    me.waiter.note.store(0, Relaxed);
    let first = lock.waiters().push(me);
    lock.joined(first);
    let late = lock.waiters().first().filter(|first| {
        !first.is_same(me)
            && first.waiter.note.load(Relaxed) == FOUGHT_OVER
            && (first.is_notified() || now > first.waiter.due.load(Relaxed) + GRACE_NS)
    });
    if late.is_some() {
        lock.ask_for_first();
    }
    // SAFETY: acquired above.
    unsafe { lock.wait_lock().release() };
    if let Some(first) = late {
        first.unpark();
    }

    let wait = wait(lock, me, ahead, until);
    conclude(lock, me, wait)
}

/// Takes the lock for `me`, the calling thread, which another has put into the queue with [`push_asleep`].
pub(crate) fn resume<P: Platform, L: Contended<P>>(lock: &L, me: &'static Thread<P>) {
    let first = lock.waiters().first().map_or(0, place_of);
    // A hint: without the wait lock the first may be anybody's by now.
    let ahead = place_of(me).wrapping_sub(first).min(ThreadId::MAX_INDEX);
    me.waiter.due.store(P::now() + (TURN_NS * (u64::from(ahead) + 1)).min(TURNS_NS), Relaxed);
    let wait = wait(lock, me, ahead, Until::FOREVER);
    // Forever: the result cannot be an error.
    let _ = conclude(lock, me, wait);
}

/// Under the wait lock: puts `thread`, which sleeps without a timer, into the queue. `true`: it is the first.
///
/// Its turn ends far in the future, so whoever is served before it listens on its behalf (see [`conclude`]); the first must be asked for by the caller.
pub(crate) fn push_asleep<P: Platform>(queue: &WaitQueue<P>, thread: &Thread<P>) -> bool {
    let place = queue.last().map_or(0, |last| place_of(last).wrapping_add(1));
    thread.waiter.place.store(place, Relaxed);
    thread.waiter.due.store(u64::MAX / 2, Relaxed);
    thread.waiter.note.store(0, Relaxed);
    queue.push(thread)
}

/// Leaves the queue after `wait`.
fn conclude<P: Platform, L: Contended<P>>(lock: &L, me: &'static Thread<P>, mut wait: Wait) -> Result<(), GaveUp> {
    lock.wait_lock().acquire();
    // Last look: what came at the last moment is ours, whatever the deadline says.
    let first = lock.waiters().is_first(me);
    if wait.result.is_err() && lock.try_take(first) {
        wait.result = Ok(());
    }
    let empty = lock.waiters().remove(me);
    // The next has its time from when all before it were expected to use up theirs; that may be long.
    let soon = P::now() + 2 * TURN_NS;
    let sleeps_long = |waiter: &Thread<P>| waiter.waiter.due.load(Relaxed) > soon;
    let next = lock.waiters().first();
    let early = next.is_some_and(sleeps_long);
    lock.left(empty, !empty && wait.result.is_ok() && (!wait.passed || early));
    let mut wakes = WakeList::<OPENED>::new();
    match (wait.result, next) {
        (Err(_), Some(next)) if first => wakes.push(next.id()),
        (Ok(()), Some(next)) if wait.passed => next.waiter.note.store(FOUGHT_OVER, Relaxed),
        (Ok(()), Some(next)) => {
            next.waiter.note.store(0, Relaxed);
            let behind = core::iter::successors(lock.waiters().after(next), |waiter| lock.waiters().after(waiter));
            let asleep = behind.take(4 * OPENED).filter(|waiter| sleeps_long(waiter) && !waiter.is_notified());
            asleep.take(OPENED).for_each(|waiter| wakes.push(waiter.id()));
        }
        _ => {}
    }
    // SAFETY: acquired above.
    unsafe { lock.wait_lock().release() };
    me.waiter.leave();
    wakes.wake::<P>();
    P::count(if wait.result.is_ok() { L::EVENTS.queued } else { L::EVENTS.gave_up }, 1);
    wait.result
}

/// Queued behind at most `ahead` others: waits until the lock is ours or `until` comes.
fn wait<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, ahead: u32, until: Until<'_, P>) -> Wait {
    let patience = Patience::ns(COMPETE_NS).until(until.wake_time());
    let mut turn_end = me.waiter.due.load(Relaxed);
    let mut passed = false;
    let mut listened = false;
    let mut late = 0u32;
    let mut lent = false;
    loop {
        let first = lock.waiters().is_first(me);
        if lock.try_take(first) {
            return Wait { passed, result: Ok(()) };
        }
        if let Some(end) = until.over() {
            return Wait { passed, result: Err(end) };
        }
        if !lent && lock.owner().is_some_and(|owner| !P::is_running(owner)) {
            lent = true;
            P::nap(0);
            continue;
        }
        let now = P::now();
        let over = now >= turn_end;
        if first {
            turn_end = turn_end.min(now + TURN_NS);
            me.waiter.due.store(turn_end, Relaxed);
            // A turn that is over: nobody else gets in from here on, and we are awake, so the lock will not lie idle.
            let asked = over && lock.try_or_ask(Request::Handoff);
            if asked || compete(lock, true, patience) {
                return Wait { passed: passed || over, result: Ok(()) };
            }
            passed |= listened;
            if (over || !listened) && lock.try_or_ask(Request::Listen) {
                return Wait { passed: passed || over, result: Ok(()) };
            }
            listened = true;
        }
        if over {
            // Those before us are late, or the owner is: look again when their turns will be over. (Hundreds that looked again every turn would
            // leave no time for anybody else.) Without the wait lock the first may be anybody's by now.
            let still = lock.waiters().first().map_or(0, |first| place_of(me).wrapping_sub(place_of(first))).min(ahead);
            let nap = (TURN_NS * u64::from(still).max(1)) << late.saturating_sub(PATIENT_AFTER).min(PATIENT_SHIFT);
            late = late.saturating_add(1);
            turn_end = P::now() + nap.min(TURNS_NS);
            me.waiter.due.store(turn_end, Relaxed);
            passed = true;
        }
        me.park(until.wake_time_or(turn_end));
        P::count(L::EVENTS.slept, 1);
    }
}
