//! Leaving the queue: with the lock, or without it.

use super::reservation::{has_lapsed, move_back};
use super::{Contended, Left, OPENED, TURN_NS};
use crate::cancel::GaveUp;
use crate::platform::thread::Thread;
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::queue::{WaitQueue, WakeList};
use crate::wait::section::{locked, locked_within, try_locked};

/// The first waiter's note: the one before it was passed.
pub(super) const FOUGHT_OVER: u32 = 1;

/// The end of the turn of a waiter without a timer, which was put into the queue at time 0: later
/// ones have that time added.
pub(super) const NO_TIMER: u64 = u64::MAX / 2;

/// Whether `waiter` was put into the queue asleep, and has not run since.
pub(super) fn has_no_timer<P: Platform>(waiter: &Thread<P>) -> bool {
    waiter.waiter.due.load(Relaxed) >= NO_TIMER
}

/// How a queued wait went.
pub(super) struct Wait {
    /// The lock was taken by others while this waiter was awake for it.
    pub(super) passed: bool,
    /// Its last look was one as first waiter.
    pub(super) first: bool,
    /// Whether it has the lock.
    pub(super) result: Result<(), GaveUp>,
}

/// How many a leaving waiter wakes at most.
const WOKEN: usize = OPENED + 1;

/// What became of a try for a lock that looked open.
pub(super) enum Tried {
    /// The waiter has the lock, and has left the queue.
    Taken,
    /// The lock was open no longer.
    Shut,
    /// The wait lock was not free in time.
    Busy,
}

/// Takes the lock, which looks open, in the section in which `me` leaves the queue, if that begins
/// within `ns`: a waiter that has the lock, and waits for the wait lock, keeps it from the others.
pub(super) fn take_open<P: Platform, L: Contended<P>>(
    lock: &L,
    me: &Thread<P>,
    (passed, first): (bool, bool),
    ns: u32,
) -> Tried {
    let mut wakes = WakeList::<WOKEN>::new();
    let take = || {
        let taken = lock.try_take(lock.waiters().is_first(me));
        if taken {
            leave(lock, me, &Wait { passed, first, result: Ok(()) }, &mut wakes);
        }
        taken
    };
    let taken = match ns {
        0 => try_locked(lock.wait_lock(), take),
        ns => locked_within(ns, lock.wait_lock(), take),
    };
    match taken {
        None => return Tried::Busy,
        Some(false) => return Tried::Shut,
        Some(true) => {}
    }
    left::<P, L>(me, wakes, true);
    Tried::Taken
}

/// Leaves the queue after `wait`.
pub(super) fn conclude<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, mut wait: Wait) -> Result<(), GaveUp> {
    let mut wakes = WakeList::<WOKEN>::new();
    locked(lock.wait_lock(), || {
        // Last look: what came at the last moment is ours, whatever the deadline says.
        if wait.result.is_err() && lock.try_take(lock.waiters().is_first(me)) {
            wait.result = Ok(());
        }
        leave(lock, me, &wait, &mut wakes);
    });
    left::<P, L>(me, wakes, wait.result.is_ok());
    wait.result
}

/// `me` has left the queue, and wakes those that it has named.
fn left<P: Platform, L: Contended<P>>(me: &Thread<P>, mut wakes: WakeList<WOKEN>, taken: bool) {
    me.waiter.leave();
    wakes.wake::<P>();
    P::count(if taken { L::EVENTS.queued } else { L::EVENTS.gave_up }, 1);
}

/// Under the wait lock: `me` leaves the queue, and asks for those who stay, or names them to be
/// woken.
fn leave<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, wait: &Wait, wakes: &mut WakeList<WOKEN>) {
    let waiters = lock.waiters();
    let first = waiters.is_first(me);
    // It was moved during its last look: what it asked then it asked for another.
    let moved = wait.first && !first;
    // The one behind may sleep without a timer because we have one.
    let ward = waiters.after(me).filter(|behind| !first && has_no_timer(*behind) && !behind.is_notified());
    let empty = waiters.remove(me);
    let taken = wait.result.is_ok();
    // One that is not first, and has nothing, wakes nobody: it moves nobody either.
    let next = if first || taken { first_that_comes(waiters) } else { waiters.first() };
    // The next has its time from when all before it were expected to use up theirs; that may be
    // long.
    let soon = P::now() + 2 * TURN_NS;
    let sleeps_long = |waiter: &Thread<P>| waiter.waiter.due.load(Relaxed) > soon;
    let ranked = next.is_some_and(|next| P::rank(next.id()) != 0);
    lock.left(Left {
        served: first && taken,
        gave_up: first && !taken,
        empty,
        listen: taken && (!wait.passed || moved || ranked || next.is_some_and(sleeps_long)),
        handoff: taken && ranked && !next.is_some_and(has_lapsed),
    });
    let Some(next) = next else { return };
    if moved && !has_lapsed(next) {
        // Nobody has woken it for the time that is stored there.
        next.waiter.reserved.store(0, Relaxed);
    }
    let behind = core::iter::successors(waiters.after(next), |waiter| waiters.after(waiter));
    let is_ward = |waiter: &Thread<P>| ward.is_some_and(|ward| ward.is_same(waiter));
    let asleep =
        behind.take(4 * OPENED).filter(|waiter| sleeps_long(waiter) && !waiter.is_notified() && !is_ward(waiter));
    if !taken {
        if first {
            wakes.push(next.id());
            // That one may be stopped, and be the guard of those behind.
            asleep.filter(|waiter| has_no_timer(waiter)).take(1).for_each(|waiter| wakes.push(waiter.id()));
        }
    } else if !wait.passed {
        next.waiter.note.store(0, Relaxed);
        // Of a lock for one at a time they would find nothing, and their wake-ups would be part of
        // our section. One of those without a timer is to have one all the same: see below.
        let woken = asleep.filter(|waiter| L::SHARED || has_no_timer(waiter));
        woken.take(if L::SHARED { OPENED } else { 1 }).for_each(|waiter| wakes.push(waiter.id()));
    } else {
        next.waiter.note.store(FOUGHT_OVER, Relaxed);
        // The first waiter may be stopped: one of those without a timer is to have one.
        asleep.filter(|waiter| has_no_timer(waiter)).take(1).for_each(|waiter| wakes.push(waiter.id()));
    }
    ward.into_iter().for_each(|ward| wakes.push(ward.id()));
}

/// Under the wait lock: the first waiter, after those that have lapsed were moved back.
pub(super) fn first_that_comes<P: Platform>(waiters: &WaitQueue<P>) -> Option<&'static Thread<P>> {
    for _ in 0..4 * OPENED {
        match waiters.first() {
            Some(first) if has_lapsed(first) && !waiters.is_only(first) => move_back(waiters, first),
            first => return first,
        }
    }
    waiters.first()
}
