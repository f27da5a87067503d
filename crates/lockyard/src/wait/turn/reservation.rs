//! The end of a reservation: a lock is not refused for the sake of a waiter that does not come.
//!
//! | `reserved` of the first waiter | a thread that is refused |
//! |---|---|
//! | 0 | stores the time, wakes the first waiter |
//! | a time | [`RESERVED_NS`] later: ends the reservation |
//! | `LAPSED` | ends the reservation at once: the waiter has not run since it lost the last one |
//! | no first waiter in this process | ends the reservation at once |
//!
//! The thread that ends a reservation holds the wait lock: it sees which waiter is first, clears
//! `HANDOFF`, moves that waiter to the end, and wakes the new first. It tries for the wait lock
//! once: the thread that has it is about to change the queue, and a try must not wait. The moved
//! waiter need not be told. When it runs it finds itself behind others, as if it had queued later;
//! a try that it had begun as first waiter passes the new one once.
//!
//! Without the rule one stopped thread would shut a lock that it does not hold. (Collectors stop
//! threads in signal handlers, and then use the same locks.)

use super::{Contended, Look, RESERVED_NS};
use crate::event::Event;
use crate::platform::thread::Thread;
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::queue::WaitQueue;
use crate::wait::section::try_locked;

/// A waiter's `reserved`: it did not come while a lock was reserved for it, and has not run since.
pub(crate) const LAPSED: u64 = u64::MAX;

/// A try that is not refused for the sake of a waiter that does not come.
pub(crate) fn try_take<P: Platform, L: Contended<P>>(lock: &L) -> bool {
    lock.try_take(false) || (is_reserved(lock) && lapse(lock, P::now()) && lock.try_take(false))
}

/// Whether the lock is refused although the first waiter could have it. A hint without the wait
/// lock.
pub(super) fn is_reserved<P: Platform, L: Contended<P>>(lock: &L) -> bool {
    lock.look(false) == Look::Kept && lock.waiters().first().is_none_or(|first| lock.is_open_to(first))
}

/// Whether `waiter` has not run since it lost a reservation.
pub(super) fn has_lapsed<P: Platform>(waiter: &Thread<P>) -> bool {
    waiter.waiter.reserved.load(Relaxed) == LAPSED
}

/// The calling thread, `me`, waits, and runs.
#[inline]
pub(super) fn came<P: Platform>(me: &Thread<P>) {
    if me.waiter.reserved.load(Relaxed) != 0 {
        me.waiter.reserved.store(0, Relaxed);
    }
}

/// After a release, or just before: the lock, which has `HANDOFF`, is free from now on, and `first`
/// may be the waiter that it is reserved for.
#[cold]
pub(crate) fn released_reserved<P: Platform>(first: &Thread<P>) {
    if first.waiter.reserved.load(Relaxed) == 0 {
        first.waiter.reserved.store(P::now(), Relaxed);
    }
}

/// The caller is refused the lock, which [is reserved](is_reserved): ends the reservation if its
/// time is up.
#[cold]
pub(super) fn lapse<P: Platform, L: Contended<P>>(lock: &L, now: u64) -> bool {
    let first = lock.waiters().first();
    let mut seen = 0;
    if let Some(first) = first {
        seen = first.waiter.reserved.load(Relaxed);
        match seen {
            0 => {
                first.waiter.reserved.store(now, Relaxed);
                first.unpark();
                return false;
            }
            LAPSED => {}
            since if now < since.saturating_add(RESERVED_NS) => return false,
            _ => {}
        }
    }
    let end = || {
        let same = match (first, lock.waiters().first()) {
            // One that has run meanwhile comes.
            (Some(first), Some(now)) => now.is_same(first) && first.waiter.reserved.load(Relaxed) == seen,
            (None, None) => true,
            _ => false,
        };
        if !same || !is_reserved(lock) {
            return false;
        }
        P::count(Event::WaitLapsed, 1);
        lock.unreserve();
        if let Some(first) = first {
            first.waiter.reserved.store(LAPSED, Relaxed);
            if !lock.waiters().is_only(first) {
                move_back(lock.waiters(), first);
            }
        }
        true
    };
    let ended = try_locked(lock.wait_lock(), || end().then(|| lock.waiters().first())).flatten();
    // The new first waiter may sleep long, or without a timer.
    if let Some(Some(next)) = ended {
        next.unpark();
    }
    ended.is_some()
}

/// Under the wait lock: moves `waiter` behind all others, whatever its rank: it has not run.
pub(super) fn move_back<P: Platform>(queue: &WaitQueue<P>, waiter: &Thread<P>) {
    let place = queue.last().map_or(0, |last| last.waiter.place.load(Relaxed).wrapping_add(1));
    queue.remove(waiter);
    waiter.waiter.place.store(place, Relaxed);
    waiter.waiter.note.store(0, Relaxed);
    queue.append(waiter);
}
