//! How a [queued spinlock](super::queued) that is free gets past waiters that do not come: no
//! reservation without an end.
//!
//! A waiter may be stopped anywhere, for ever (a signal handler that does not return, a debugger),
//! or be a *ghost*: the copy of a thread that only the parent of a fork has. A lock that nobody
//! holds is kept for it for [`LAPSE_NS`] at most, and for a ghost not at all. (On an exact machine,
//! a simulated kernel, there is neither.)
//!
//! # Since when
//!
//! A thread that is refused a free lock notes in its word since when it lies free. The taker of the
//! lock takes the note away, before its section; so a note that is old says that nobody has had the
//! lock for so long, the waiter for which it is kept included.
//!
//! | refused thread | when | what it does |
//! |---|---|---|
//! | a newcomer | pending or urgent is set | notes; if the note is old: takes the lock; else it queues |
//! | a queued waiter that is not head | its turn is over, or it is about to sleep, and the lock is free | notes, and looks again after [`LAPSE_NS`]; if the note is old: takes the lock and leaves its node behind |
//! | a `try_acquire` | anybody waits | notes; if the note is old: takes the lock |
//! | a head, or an [urgent waiter](super::urgent) that is not entitled | urgent is set | notes, and looks again after [`LAPSE_NS`]; if the note is old: takes the lock |
//! | a waiter without a node | pending or urgent is set | as a newcomer, at each of its looks |
//!
//! The time is in units of `BEAT_NS`, modulo 15: a look that meets one of the three of them in
//! which the note seems new finds it old at the next look.
//!
//! **Bound.** A free lock is open to everybody [`LAPSE_NS`] after a newcomer, a waiter or a try
//! first found it so. A queued waiter looks once a turn, or once in
//! [`TURNS_NS`](crate::wait::turn::TURNS_NS) at least, and every [`LAPSE_NS`] while it finds the
//! lock free. A head that comes after that finds pending taken away, and sets it again.
//!
//! # Nodes left behind
//!
//! A waiter that is not head and has the lock cannot unlink its node: the one before it may be
//! stopped. It leaves the node in the queue (`wait`: asleep → left behind), and does not use it
//! again until a promoter has come to it. The promoter acts as if the node were the head's that has
//! the lock: it makes the next waiter head, and takes the node out (`wait`: → waiting, Release). If
//! the waiter finds that it has been made head meanwhile, it leaves as a head does.
//!
//! A head that leaves waits for the waiter behind it to link itself, but not for ever
//! ([`Platform::try_window`]): then it makes its node vacant (`next`: 0 → `VACANT`, Release, with
//! what a head is told in `wait`). The waiter that links itself finds that (an exchange, Acquire),
//! is head, and takes the node out. Until then the lock has no head, and queued waiters get it as
//! above.
//!
//! A thread has four nodes. With none free it polls with growing naps, as one without a record. A
//! record with a node left behind is given to no other thread.
//!
//! # Ghosts
//!
//! A word whose tail is a ghost's says nothing of this process: a thread that comes to it in the
//! slow path clears it but for the locked byte, in one step. Since then none but threads of this
//! process are queued. A promoter that comes to a ghost stops there: behind it are ghosts. One
//! thread may be between them, that which forked, in a signal handler, while it waited: it finds
//! itself in another [epoch](Platform::epoch) when it wakes up, knows that nobody comes to it, and
//! is head. A node that the forking thread had left behind stays so in the child (`wait` tells the
//! epoch), unless it is the tail that is cleared: such a thread has a node less there.
//!
//! Sources: timeouts in queue locks: Scott and Scherer, "Scalable Queue-Based Spin Locks with
//! Timeout" (2001); Scott, "Non-Blocking Timeout in Scalable Queue-Based Spin Locks" (2002).

use crate::event::Event;
use crate::platform::thread::NodeName;
use crate::platform::{Ordering::*, Platform, Word};

use super::node::{ASLEEP, Ahead, HEAD, LEFT, Onward, Place, STATE, TOLD_SHIFT, VACANT, WAITING};
use super::queued::{Kind, LOCKED, LOCKED_MASK, RawQueuedSpinLock};

/// The unit of the note: 0.5 ms.
const BEAT_NS: u64 = 1 << 19;
/// A note is old when so many units have begun since it was made: 1.05 ms have passed at least.
const OLD: u32 = 3;
/// After so long a note is old: 1.6 ms.
pub const LAPSE_NS: u64 = OLD as u64 * BEAT_NS;
/// The note: bits 12 to 15 of the word, 0 for none.
const SINCE_SHIFT: u32 = 12;
const SINCE_MASK: u32 = 0xf000;
const BEATS: u64 = 15;

/// The present time as a note.
fn beat(now: u64) -> u32 {
    (now / BEAT_NS % BEATS) as u32 + 1
}

/// Whether the note in `word` is old at the time `beat`; `None` if there is none.
fn is_old(word: u32, beat: u32) -> Option<bool> {
    let since = (word & SINCE_MASK) >> SINCE_SHIFT;
    (since != 0).then(|| (beat + BEATS as u32 - since) % BEATS as u32 >= OLD)
}

impl<P: Platform, K: Kind<P>> RawQueuedSpinLock<P, K> {
    /// Whether nobody holds the lock.
    pub(super) fn is_free(&self) -> bool {
        self.word.load(Relaxed) & LOCKED_MASK == 0
    }

    /// The caller has the lock, which it found free before a thread was refused it and noted that.
    #[cold]
    #[inline(never)]
    pub(super) fn forget_note(&self) {
        self.word.fetch_and(!SINCE_MASK, Relaxed);
    }

    /// The caller is refused a lock that is perhaps free, in favour of a waiter: takes it if that
    /// one is a ghost or has not come for long (`true`); else notes since when.
    #[cold]
    #[inline(never)]
    pub(super) fn pass_waiters(&self) -> bool {
        if Self::is_exact() {
            return false;
        }
        let taken = u32::from(K::REST) | LOCKED;
        let mut word = self.word.load(Relaxed);
        loop {
            if word & LOCKED_MASK != 0 || !K::has_waiters(self, word) {
                return false;
            }
            let beat = beat(P::now());
            let ghosts = K::are_ghosts(self, word);
            let next = match is_old(word, beat) {
                _ if ghosts => taken,
                _ if self.is_urgent_for_ghosts(word) => word & !0xffff | taken,
                Some(true) => word & !0xffff | taken,
                Some(false) => return false,
                None => word | beat << SINCE_SHIFT,
            };
            // The whole word: the queue must be the same, or a note would stay in a lock that
            // nobody waits for.
            match self.word.compare_exchange_weak(word, next, Acquire, Relaxed) {
                Ok(_) if ghosts => {
                    K::bury(self, word);
                    return true;
                }
                Ok(_) => {
                    let got = next & LOCKED_MASK != 0;
                    P::count(Event::PvLapsed, got.into());
                    return got;
                }
                Err(found) => word = found,
            }
            P::relax();
        }
    }

    /// Takes ghosts out of the lock's word, which was `word` a moment ago. What it is then.
    #[inline(always)]
    pub(super) fn forget_ghosts(&self, word: u32) -> u32 {
        if K::are_ghosts(self, word) { self.forget_ghosts_in(word) } else { word }
    }

    #[cold]
    #[inline(never)]
    fn forget_ghosts_in(&self, mut word: u32) -> u32 {
        while K::are_ghosts(self, word) {
            let next = word & LOCKED_MASK | u32::from(K::REST);
            match self.word.compare_exchange_weak(word, next, Relaxed, Relaxed) {
                Ok(_) => {
                    K::bury(self, word);
                    return next;
                }
                Err(found) => word = found,
            }
            P::relax();
        }
        word
    }

    /// `place`, the head, has the lock: it leaves the queue, and so do the nodes left behind that
    /// are next.
    pub(super) fn leave(&self, place: &Place<P>, ahead: Ahead, passed: bool) {
        let mut onward = if P::epoch() == place.epoch {
            K::leave(self, place, ahead, passed)
        } else if self.replace_last(place.name, 0) {
            Onward::Settled
        } else {
            self.hand_on(place, 0, passed)
        };
        while let Onward::Absent(name, told) = onward {
            let Some(absent) = Place::of_absent(name, told) else { return };
            onward = K::leave(self, &absent, Ahead::Others, passed);
            if onward != Onward::Lies {
                absent.node.take_out();
            }
        }
    }

    /// `place`, queued, has taken the lock past a head that did not come: it leaves its node
    /// behind, or leaves as a head if it has become one.
    pub(super) fn leave_passing(&self, place: &mut Place<P>, ahead: Ahead) {
        // Release: the promoter that comes there reads what we have stored in the node.
        match place.node.wait.compare_exchange(ASLEEP, LEFT | u64::from(place.epoch) << TOLD_SHIFT, Release, Acquire) {
            Ok(_) => P::count(Event::PvLeftBehind, 1),
            Err(wait) => {
                debug_assert_eq!(wait & STATE, HEAD);
                place.past = wait >> TOLD_SHIFT;
                self.leave(place, ahead, true);
            }
        }
        P::count(Event::LockSlowpath, 1);
    }

    /// The waiter behind `place` becomes head, as soon as it has linked itself.
    pub(super) fn hand_on(&self, place: &Place<P>, told: u64, passed: bool) -> Onward {
        match place.successor() {
            Some(next) => self.promote(next, told, passed),
            None => self.leave_vacant(place, told, passed),
        }
    }

    /// The same, if that is late: it will find the node of `place` vacant, and be head.
    #[cold]
    #[inline(never)]
    pub(super) fn leave_vacant(&self, place: &Place<P>, told: u64, passed: bool) -> Onward {
        place.node.wait.store(LEFT | told << TOLD_SHIFT, Relaxed);
        match place.node.next.compare_exchange(0, VACANT, Release, Acquire) {
            Ok(_) => Onward::Lies,
            Err(next) => {
                // A node of another thread is taken out by `leave`, when nothing of it is needed
                // any more.
                if !place.absent {
                    place.node.wait.store(WAITING, Relaxed);
                }
                NodeName::from_raw(next).map_or(Onward::Settled, |next| self.promote(next, told, passed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_old_after_more_than_a_millisecond() {
        for begin in [0, 1, 5 * BEAT_NS - 1, 14 * BEAT_NS, 15 * BEAT_NS, 1 << 40] {
            let word = beat(begin) << SINCE_SHIFT | 0x0304_0700;
            let old = |later: u64| is_old(word, beat(begin + later));
            assert_eq!((old(0), old(2 * BEAT_NS), old(LAPSE_NS)), (Some(false), Some(false), Some(true)));
            assert_eq!(old(28 * BEAT_NS), Some(true));
            assert_eq!(word & !SINCE_MASK, 0x0304_0700);
        }
        assert_eq!((is_old(0xffff_07ff, 1), beat(0), beat(14 * BEAT_NS), beat(15 * BEAT_NS)), (None, 1, 15, 1));
        const { assert!(LAPSE_NS > 1_500_000 && 2 * BEAT_NS > 1_000_000) };
    }
}
