//! In the queue: joining it, waiting in it.

use super::leaving::{FOUGHT_OVER, NO_TIMER, Tried, Wait, conclude, first_that_comes, has_no_timer, take_open};
use super::reservation::{came, has_lapsed, is_reserved, lapse};
use super::spin::compete;
use super::{
    COMPETE_NS, Contended, GRACE_NS, Look, PATIENT_AFTER, PATIENT_SHIFT, RESERVED_NS, Request, TURN_NS, TURNS_NS,
};
use crate::cancel::{GaveUp, Until};
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Patience, Platform, Word};
use crate::wait::queue::WaitQueue;
use crate::wait::section::locked;

/// The waiter's note: it was put into the queue asleep behind others, and woken so that it has a
/// timer.
const GUARD: u32 = 2;

/// The ticket that a waiter drew when it queued: the difference of two is at least how many stand
/// between them.
fn place_of<P: Platform>(thread: &Thread<P>) -> u32 {
    thread.waiter.place.load(Relaxed)
}

/// Under the wait lock: tickets do not fall along the queue. So a thread that has queued before
/// others, by its rank, has the ticket of the one behind it.
pub(super) fn share_place<P: Platform>(queue: &WaitQueue<P>, thread: &Thread<P>) {
    if P::rank(thread.id()) != 0
        && let Some(next) = queue.after(thread)
    {
        thread.waiter.place.store(place_of(next), Relaxed);
    }
}

/// When a turn that begins now ends for a waiter behind `ahead` others. A waiter with a rank is not
/// passed at all.
fn turn_end<P: Platform>(me: &Thread<P>, now: u64, ahead: u32) -> u64 {
    if P::rank(me.id()) != 0 { now } else { now + (TURN_NS * (u64::from(ahead) + 1)).min(TURNS_NS) }
}

/// What a thread found when it was about to queue.
enum Joined<P: Platform> {
    /// It has the lock, and has not queued.
    Taken,
    /// It queued behind at most so many. The first waiter is late, and to be woken.
    Behind(u32, Option<&'static Thread<P>>),
}

pub(super) fn queue<P: Platform, L: Contended<P>>(
    lock: &L,
    me: &'static Thread<P>,
    until: Until<'_, P>,
) -> Result<(), GaveUp> {
    let now = P::now();
    let joined = locked(lock.wait_lock(), || if lock.try_take(false) { Joined::Taken } else { join(lock, me, now) });
    let Joined::Behind(ahead, late) = joined else { return Ok(()) };
    if let Some(first) = late {
        first.unpark();
    }
    wait(lock, me, ahead, until)
}

/// Under the wait lock: `me`, the calling thread, joins the queue.
fn join<P: Platform, L: Contended<P>>(lock: &L, me: &'static Thread<P>, now: u64) -> Joined<P> {
    me.waiter.enter();
    // The first's turn ends in a turn at the latest, and each one behind it has one more. (A gap
    // left by one that gave up makes the estimate longer.)
    let (place, ahead) = match (lock.waiters().first(), lock.waiters().last()) {
        (Some(first), Some(last)) => {
            (place_of(last).wrapping_add(1), place_of(last).wrapping_sub(place_of(first)).wrapping_add(1))
        }
        _ => (0, 0),
    };
    me.waiter.kind.store(lock.wants(), Relaxed);
    me.waiter.place.store(place, Relaxed);
    me.waiter.due.store(turn_end(me, now, ahead), Relaxed);
    me.waiter.reserved.store(0, Relaxed);
    me.waiter.note.store(0, Relaxed);
    let first = lock.waiters().push(me);
    share_place(lock.waiters(), me);
    lock.joined(first);
    let late = lock.waiters().first().filter(|first| {
        !first.is_same(me)
            && first.waiter.note.load(Relaxed) == FOUGHT_OVER
            && (first.is_notified() || now > first.waiter.due.load(Relaxed) + GRACE_NS)
            && !has_lapsed(first)
    });
    if late.is_some() {
        lock.ask_for_first();
    }
    Joined::Behind(ahead, late)
}

/// Takes the lock for `me`, the calling thread, which another has put into the queue with
/// [`push_asleep`].
pub(crate) fn resume<P: Platform, L: Contended<P>>(lock: &L, me: &'static Thread<P>) {
    let first = lock.waiters().first().map_or(0, place_of);
    // A hint: without the wait lock the first may be anybody's by now.
    let ahead = place_of(me).wrapping_sub(first).min(ThreadId::MAX_INDEX);
    me.waiter.due.store(turn_end(me, P::now(), ahead), Relaxed);
    // Forever: the result cannot be an error.
    let _ = wait(lock, me, ahead, Until::FOREVER);
}

/// How a thread that sleeps without a timer was put into a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It is the first: the caller asks the owner to wake it.
    First,
    /// It is the only one behind others that are awake or have timers: the caller wakes it, so that
    /// it has one too.
    Guard,
    /// It sleeps on.
    Asleep,
}

/// Under the wait lock: puts `thread`, which sleeps without a timer, into the queue.
///
/// Its turn ends far in the future: the waiter before it sets `LISTENING` for it when it leaves
/// (see [`leave`](super::leaving)).
pub(crate) fn push_asleep<P: Platform>(queue: &WaitQueue<P>, thread: &Thread<P>) -> Pushed {
    let last = queue.last();
    let place = last.map_or(0, |last| place_of(last).wrapping_add(1));
    let now = P::now();
    let guarded = last.is_some_and(|last| last.waiter.note.load(Relaxed) == GUARD && guards(last, now));
    thread.waiter.kind.store(0, Relaxed);
    thread.waiter.place.store(place, Relaxed);
    thread.waiter.due.store(NO_TIMER.saturating_add(now), Relaxed);
    thread.waiter.reserved.store(0, Relaxed);
    thread.waiter.note.store(if last.is_some() { GUARD } else { 0 }, Relaxed);
    let first = queue.push(thread);
    share_place(queue, thread);
    match (first, guarded) {
        (true, _) => Pushed::First,
        (false, false) => Pushed::Guard,
        (false, true) => Pushed::Asleep,
    }
}

/// When `thread`, which has not run since, was [put into the queue](push_asleep).
pub(crate) fn pushed_at<P: Platform>(thread: &Thread<P>) -> u64 {
    thread.waiter.due.load(Relaxed).saturating_sub(NO_TIMER)
}

/// Whether `guard` was put there and woken a moment ago, or has run since, is not late, waits for
/// no CPU, and has lost no reservation: a guard that is stopped guards nobody.
fn guards<P: Platform>(guard: &Thread<P>, now: u64) -> bool {
    let due = guard.waiter.due.load(Relaxed);
    let last_seen = if has_no_timer(guard) { due - NO_TIMER } else { due };
    now <= last_seen.saturating_add(GRACE_NS) && !has_lapsed(guard) && (has_no_timer(guard) || !guard.is_notified())
}

/// Queued behind at most `ahead` others: waits until the lock is ours or `until` comes.
fn wait<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, ahead: u32, until: Until<'_, P>) -> Result<(), GaveUp> {
    let patience = Patience::ns(COMPETE_NS).until(until.wake_time());
    let mut turn_end = me.waiter.due.load(Relaxed);
    let mut passed = false;
    let mut listened = false;
    let mut late = 0u32;
    let mut lent = false;
    let wait = loop {
        came(me);
        let mut first = lock.waiters().is_first(me);
        // Nobody is to pass us any more, or nobody can.
        let at_once = first && (P::now() >= turn_end || lock.look(false) == Look::Kept);
        let open = lock.look(first) == Look::Open;
        let mut busy = false;
        if open {
            match take_open(lock, me, (passed, first), if at_once { 0 } else { COMPETE_NS }) {
                Tried::Taken => return Ok(()),
                Tried::Busy => busy = !at_once,
                Tried::Shut => {}
            }
            // That may have taken long: who is first now?
            came(me);
            first = lock.waiters().is_first(me);
        }
        if !busy && lock.try_take(first) {
            break Wait { passed, first, result: Ok(()) };
        }
        if let Some(why) = until.over() {
            break Wait { passed, first, result: Err(why) };
        }
        if busy && first {
            // The owner of the wait lock is off its CPU, likely: the lock is the others' meanwhile.
            // A wake-up for this look is used up.
            listened = false;
            let now = P::now();
            turn_end = turn_end.min(now + TURN_NS);
            me.waiter.due.store(turn_end, Relaxed);
            me.park(until.wake_time_or(turn_end.min(now + GRACE_NS)));
            P::count(L::EVENTS.slept, 1);
            continue;
        }
        if !lent && lock.owner().is_some_and(|owner| !P::is_running(owner)) {
            // The owner waits for a CPU, likely for this one, and needs it for a moment. After the
            // turn has begun: before, the longest waits grow by half.
            lent = true;
            P::nap(0);
            continue;
        }
        let now = P::now();
        let over = now >= turn_end;
        // With a rank the turn is over at once, and that tells nothing of others.
        let late_turn = over && P::rank(me.id()) == 0;
        let mut look_again = u64::MAX;
        if first {
            turn_end = turn_end.min(now + TURN_NS);
            me.waiter.due.store(turn_end, Relaxed);
            // A turn that is over: nobody else gets in from here on, and we are awake, so the lock
            // will not lie idle.
            let asked = over && {
                // A reservation that ended during this look has left a mark on its only waiter.
                came(me);
                lock.try_or_ask(Request::Handoff)
            };
            if asked || compete(lock, true, patience) {
                break Wait { passed: passed || late_turn, first, result: Ok(()) };
            }
            passed |= listened;
            // Once a turn; and where `HANDOFF` keeps the others out, which another thread may have
            // set: a release that wakes nobody would leave the lock idle. Or it is free by now.
            // Once more if it has lain open in vain: that wake-up is used up.
            let asks = over || !listened || open || lock.look(false) != Look::Closed;
            if asks && lock.try_or_ask(Request::Listen) {
                break Wait { passed: passed || late_turn, first, result: Ok(()) };
            }
            listened = true;
        } else if is_reserved(lock) {
            if lapse(lock, now) {
                continue;
            }
            look_again = now + RESERVED_NS;
        }
        if busy {
            // Its wake-up may have been for this look.
            look_again = look_again.min(now + TURN_NS);
        }
        if over && !first {
            hurry(lock, me, now);
        }
        if over {
            // Those before us are late, or the owner is: look again when their turns will be over.
            // (Hundreds that looked again every turn would leave no time for anybody else.) Without
            // the wait lock the first may be anybody's by now.
            let still = lock.waiters().first().map_or(0, |first| place_of(me).wrapping_sub(place_of(first))).min(ahead);
            let nap = (TURN_NS * u64::from(still).max(1)) << late.saturating_sub(PATIENT_AFTER).min(PATIENT_SHIFT);
            late = late.saturating_add(1);
            turn_end = now + nap.min(TURNS_NS);
            passed |= late_turn;
            let long = nap > 2 * TURN_NS;
            // The first waiter does without the wait lock: it has asked for `HANDOFF`, and stopped
            // in a section it would keep a free lock shut.
            if first || !long {
                me.waiter.due.store(turn_end, Relaxed);
            }
            // One that was served before us at this moment has cleared what we have asked for.
            if first && long && lock.try_or_ask(Request::Listen) {
                break Wait { passed, first, result: Ok(()) };
            }
            let still_first = first && lock.waiters().is_first(me);
            if long && !still_first && postpone(lock, me, turn_end) {
                continue;
            }
        }
        me.park(until.wake_time_or(turn_end.min(look_again)));
        P::count(L::EVENTS.slept, 1);
    };
    conclude(lock, me, wait)
}

/// `me`, which is not first, will not look before `due`, more than two turns ahead. `true`: it has
/// become first meanwhile, and looks now.
///
/// Under the wait lock: the waiter that leaves before us either finds the new time, and asks to
/// have us woken, or has made us first already.
#[cold]
fn postpone<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, due: u64) -> bool {
    locked(lock.wait_lock(), || {
        me.waiter.due.store(due, Relaxed);
        lock.waiters().is_first(me)
    })
}

/// When `first`, the first waiter, was to look at the latest. One without a timer that has been
/// woken has a turn from when it was put there; the next release wakes one that has not been.
fn expected<P: Platform>(first: &Thread<P>) -> u64 {
    match first.waiter.due.load(Relaxed) {
        due if due >= NO_TIMER && first.is_notified() => due - NO_TIMER + TURN_NS,
        due => due,
    }
}

/// The turn of `me`, not the first waiter, is over: the first waiter is late, perhaps. One that has
/// lapsed is moved back, and the new first woken; for another handoff is asked, so that it comes or
/// lapses.
#[cold]
fn hurry<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, now: u64) {
    let is_late = |first: &&'static Thread<P>| {
        !first.is_same(me) && (has_lapsed(*first) || now > expected(*first).saturating_add(GRACE_NS))
    };
    if lock.waiters().first().filter(is_late).is_none() {
        return;
    }
    let woken = locked(lock.wait_lock(), || {
        let before = lock.waiters().first()?;
        let first = first_that_comes(lock.waiters())?;
        let late = is_late(&first);
        if late && !has_lapsed(first) {
            lock.ask_for_first();
        }
        // One that has become first may sleep long, or without a timer.
        (late || !first.is_same(before)).then_some(first)
    });
    if let Some(first) = woken {
        first.unpark();
    }
}
