//! The ticket spinlock: draw a number, wait until it is called.
//!
//! A baseline to measure against: fair to the last thread, and every release invalidates the copies
//! of all waiters, so a hand-over costs the more the more of them there are; and the next in line
//! may be the one thread that has no CPU. It was Linux's spinlock from 2.6.25 to 4.1.
//!
//! # The word
//!
//! | bits | name | meaning | written by |
//! |---|---|---|---|
//! | 0–15 | serving | the number that may enter | the owner, by a half-word store of one more |
//! | 16–31 | next | the number that the next comer draws | every comer, by adding one (the carry falls off the word) |
//!
//! Free: both are equal, not necessarily zero. At most 65,535 numbers may be drawn for one
//! lock at a time: one for each thread that has a record (65,022), and 513 more by signal handlers
//! that interrupt a waiter and wait themselves. A thread without a record draws no number.
//!
//! # Waiting
//!
//! Spins until `serving` is its number, a *bout* at a time. Between bouts it gives its CPU away: it
//! yields as long as the numbers move, and sleeps, for longer each time, while they do not. No
//! wake-up: when the thread whose turn it is sleeps or has been preempted, everybody waits for it.
//! **Bound on bypass:** none pass; first come, first served. A thread without a record tries now
//! and then, and only gets a lock that nobody waits for.
//!
//! **Memory ordering.** `serving`: the owner's half-word store is Release; the draw that is served
//! at once and a waiter's load of its number are Acquire. Draws in between are read-modify-writes
//! of the same word and keep the release sequence. `next` alone orders nothing.
//!
//! **Destruction.** `release` reads `serving`, which only its caller may change, before it stores
//! it, and does not touch the lock afterwards: the next owner may free it.
//!
//! # A waiter that is stopped
//!
//! Numbers are called in their order, so the lock stops when one waiter stops: its number is called
//! and nobody comes. That is the nature of it; the lock that does without is
//! [`qspinlock`](super::qspinlock).
//!
//! # fork
//!
//! In the child nobody comes for the numbers that other threads of the parent had drawn, and the
//! lock does not say whose a number is. So a waiter notes in its thread's record for which lock it
//! waits, and in the child, before anything else happens there, the machine has all of them called
//! back ([`Platform::in_children`]): `next` becomes one more than `serving`, which its owner
//! returns if the child has it. Later it could not be done: a lock may have been made anew at the
//! same address. Where the handler is passed by (`_Fork`, a raw `clone`), or the fork fell between
//! the draw and the note, a few instructions apart, such a lock stays locked in the child. So does
//! one for which the forking thread waits itself (it forks in a signal handler).
//!
//! Sources: Mellor-Crummey and Scott 1991, section 2.2; Boyd-Wickizer et al., "Non-scalable locks
//! are dangerous" (2012).

use crate::event::Event;
use crate::platform::thread::{Thread, while_waiting};
use crate::platform::{ConstPlatform, ConstZero, Lanes, Ordering::*, Platform, Word};
use crate::spin::bout;

const SERVING_LANE: u32 = 0;
const NEXT_SHIFT: u32 = 16;
const DRAW: u32 = 1 << NEXT_SHIFT;

fn serving(word: u32) -> u16 {
    word as u16
}

fn next(word: u32) -> u16 {
    (word >> NEXT_SHIFT) as u16
}

/// The ticket spinlock: 4 bytes. See the [module text](self).
#[derive(Debug)]
#[repr(transparent)]
pub struct RawTicketLock<P: Platform> {
    word: P::Lanes,
}

impl<P: Platform> Default for RawTicketLock<P> {
    fn default() -> Self {
        Self { word: P::Lanes::default() }
    }
}

impl<P: ConstPlatform> RawTicketLock<P> {
    /// An unlocked lock, in constants.
    pub const fn new() -> Self {
        Self { word: P::Lanes::ZERO }
    }
}

impl<P: Platform> RawTicketLock<P> {
    /// Takes the lock. One atomic addition if it is free.
    #[inline]
    pub fn acquire(&self) {
        if P::id().is_some_and(|id| !id.is_anonymous()) {
            let word = self.word.fetch_add(DRAW, Acquire);
            if next(word) != serving(word) {
                self.wait_for(next(word));
            }
        } else {
            self.acquire_unregistered();
        }
    }

    /// Takes the lock if it is free and nobody waits: never overtakes.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        let word = self.word.load(Relaxed);
        Self::is_free(word) && self.word.compare_exchange(word, word.wrapping_add(DRAW), Acquire, Relaxed).is_ok()
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    #[inline]
    pub unsafe fn release(&self) {
        let word = self.word.load(Relaxed);
        self.word.store_half(SERVING_LANE, serving(word).wrapping_add(1), Release);
    }

    /// Whether somebody holds the lock or waits for it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        !Self::is_free(self.word.load(Relaxed))
    }

    /// Whether somebody waits for the lock.
    #[inline]
    pub fn is_contended(&self) -> bool {
        let word = self.word.load(Relaxed);
        next(word).wrapping_sub(serving(word)) > 1
    }

    /// Whether a lock with this word is free.
    #[inline]
    pub(crate) const fn is_free(word: u32) -> bool {
        word as u16 == (word >> NEXT_SHIFT) as u16
    }

    /// The first acquisition of a thread, and every one of an anonymous thread.
    #[cold]
    fn acquire_unregistered(&self) {
        if P::current().is_some() {
            return self.acquire();
        }
        P::count(Event::LockNoNode, 1);
        let mut round = 0;
        while !self.try_acquire() {
            P::nap(round);
            round = round.saturating_add(1);
        }
    }

    #[cold]
    fn wait_for(&self, number: u16) {
        // No child begins with one that waits, as far as others can tell, and has not noted for
        // what.
        P::begin_window();
        while_waiting::<P, _>(|place| {
            // A machine without processes has no use for the note.
            let note = place.filter(|_| P::epoch() != 0).map(|(me, level)| &me.tickets[level]);
            if let Some(note) = note {
                P::in_children(Self::call_back);
                // Relaxed: read in a child, which has a copy.
                note.store(core::ptr::from_ref(self).expose_provenance() as u64, Relaxed);
            }
            P::end_window();
            let mut called = serving(self.word.load(Relaxed));
            let mut round = 0u32;
            while P::spin(bout::<P>(), || (serving(self.word.load(Acquire)) == number).then_some(())).is_none() {
                let now = serving(self.word.load(Relaxed));
                round = if now == called { round.saturating_add(1) } else { 0 };
                called = now;
                P::nap(round);
            }
            if let Some(note) = note {
                note.store(0, Relaxed);
            }
        });
        P::count(Event::LockSlowpath, 1);
    }

    /// In a child, before anything else happens there: calls the numbers back that `ghost`, a copy
    /// of a thread of the parent, waited for, and those of all others for the same locks. But for
    /// locks for which `me`, the forking thread, waits.
    fn call_back(ghost: &Thread<P>, me: Option<&Thread<P>>) {
        let mine = |lock: u64| me.is_some_and(|me| me.tickets.iter().any(|note| note.load(Relaxed) == lock));
        for note in &ghost.tickets {
            let lock = note.load(Relaxed);
            if lock == 0 || mine(lock) {
                continue;
            }
            // SAFETY: at the moment of the fork the ghost was in `wait_for`, which borrows the
            // lock, and the child's memory is as it was then.
            let lock = unsafe { &*core::ptr::with_exposed_provenance::<Self>(lock as usize) };
            let word = lock.word.load(Relaxed);
            if next(word).wrapping_sub(serving(word)) > 1 {
                let held = u32::from(serving(word).wrapping_add(1)) << NEXT_SHIFT | u32::from(serving(word));
                lock.word.store(held, Relaxed);
            }
            note.store(0, Relaxed);
        }
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawTicketLock<crate::platform::linux::Linux>>() == 4);

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn numbers_go_round() {
        let lock = RawTicketLock::<Linux>::new();
        for _ in 0..70_000 {
            lock.acquire();
            assert!(lock.is_locked() && !lock.is_contended() && !lock.try_acquire());
            // SAFETY: acquired above.
            unsafe { lock.release() };
            assert!(!lock.is_locked());
        }
    }

    #[test]
    fn contended_once_a_number_is_drawn_behind_the_owners() {
        let lock = RawTicketLock::<Linux>::new();
        lock.word.store(0xffff_ffff, Relaxed);
        lock.acquire();
        assert_eq!(lock.word.load(Relaxed), 0x0000_ffff);
        lock.word.fetch_add(DRAW, Relaxed);
        assert!(lock.is_contended() && lock.is_locked());
    }
}
