//! The condition variable of the PI mutex: who is notified inherits on.
//!
//! A thread that is woken to take a mutex has, until it runs, lent nothing to whoever holds it. So the kernel moves the sleeper from the condition to the mutex
//! (requeue-PI): from the notification on it waits there, by its priority, and boosts the owner; or it owns the mutex at once. It sleeps once, not twice.
//!
//! # The words
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `sequence` | number of notifications; what sleepers sleep on | whoever notifies |
//! | `state` | bits 0–18: waiters; above: the address of their mutex, without its three low bits that are 0. 0: the mutex's address does not fit, or nobody waits | waiters, before they release the mutex and after they have left |
//!
//! # Waiting
//!
//! A waiter counts itself, reads `sequence`, releases the mutex and sleeps if `sequence` is still the same. It wakes as owner (moved and served); or because
//! `sequence` has changed before it slept, at its deadline, or for no reason: then it locks the mutex as anybody does. Waits may end spuriously. Notified are the most urgent
//! first, equals in the order of their arrival.
//!
//! **No notification is lost.** One that follows a change of what the waiter looked at, made under the mutex, finds the waiter counted, since that came before it released
//! the mutex; and finds it asleep, or changes `sequence` before it sleeps.
//!
//! # Memory ordering
//!
//! The mutex orders everything that matters; `state` and `sequence` are SeqCst, because a notification made without the mutex has nothing else to go by.
//!
//! **Destruction.** A notification touches nothing of the condition variable after its kernel call, and passes the mutex's address without reading there: the
//! mutex may be gone if its last waiter has left meanwhile. **Owner died**: sleepers of a mutex whose owner exited cannot be moved to it; they sleep on until their deadlines.
//! **Without requeue-PI** (the kernel or the architecture has none) sleepers are woken, and then lock the mutex.
//!
//! Sources: Documentation/locking/futex-requeue-pi, futex(2); Hart and Guniguntala, "Requeue-PI: Making Glibc Condvars PI-Aware" (2009).

use core::marker::PhantomData;
use core::ptr::without_provenance;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::pi_mutex::{Lateral, PiError, Policy, RawPiMutex};
use crate::platform::pi::{PiPlatform, Refused};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};

const COUNT_BITS: u32 = 19;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Low bits of an address that are zero, and are not kept.
const ALIGNED: u32 = 3;

/// The condition variable of [`RawPiMutex`]: 16 bytes. See the [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawPiCondvar<P: Platform, S: Policy = Lateral> {
    state: P::U64,
    sequence: P::U32,
    policy: PhantomData<S>,
}

impl<P: Platform, S: Policy> Default for RawPiCondvar<P, S> {
    fn default() -> Self {
        Self { state: P::U64::default(), sequence: P::U32::default(), policy: PhantomData }
    }
}

impl<P: Platform, S: Policy> RawPiCondvar<P, S> {
    /// A condition variable that nobody waits for, in constants.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { state: P::U64::ZERO, sequence: P::U32::ZERO, policy: PhantomData }
    }
}

/// The kept form of a mutex's address, 0 if it does not fit.
fn kept(address: usize) -> u64 {
    let short = (address as u64) >> ALIGNED;
    if short >> (64 - COUNT_BITS) == 0 { short << COUNT_BITS } else { 0 }
}

impl<P: PiPlatform, S: Policy> RawPiCondvar<P, S> {
    /// Releases `mutex`, waits for a notification or until `until`, and takes `mutex` again. `Ok(true)`: the deadline passed first.
    ///
    /// May return for no reason. Tokens of `until` are not looked at.
    ///
    /// # Errors
    /// [`PiError::NotOwner`]: the caller does not own the mutex; nothing has happened. Others: it was released and cannot be taken again.
    ///
    /// # Panics
    /// Another thread waits with another mutex. Then nothing has happened.
    ///
    /// # Safety
    /// The caller holds `mutex`, and touches nothing that it protects unless the result is `Ok`.
    pub unsafe fn wait(&self, mutex: &RawPiMutex<P, S>, until: Until<'_, P>) -> Result<bool, PiError> {
        let mine = kept(core::ptr::from_ref(mutex.word()).addr());
        let joined = self.state.load(Relaxed);
        self.join(joined, mine);
        let sequence = self.sequence.load(SeqCst);
        // SAFETY: the caller's promise.
        let outcome = unsafe { mutex.release() }.map(|()| self.sleep(mutex, mine, sequence, until.wake_time()));
        self.state.fetch_sub(1, SeqCst);
        let woken = outcome?;
        let timed_out = woken == Err(Refused::TimedOut) && until.over() == Some(GaveUp::TimedOut);
        match woken {
            Ok(()) => mutex.inherited()?,
            Err(_) => mutex.acquire()?,
        }
        Ok(timed_out)
    }

    fn sleep(&self, mutex: &RawPiMutex<P, S>, mine: u64, sequence: u32, deadline: Option<u64>) -> Result<(), Refused> {
        P::count(Event::PiCondvarWait, 1);
        let plain = || {
            P::park(&self.sequence, sequence, deadline);
            Err(if deadline.is_some_and(|end| P::now() >= end) { Refused::TimedOut } else { Refused::Changed })
        };
        if mine == 0 {
            return plain();
        }
        match P::wait_requeue_pi(&self.sequence, sequence, deadline, mutex.word()) {
            Err(Refused::Unsupported) => plain(),
            Ok(()) => {
                P::count(Event::PiCondvarMoved, 1);
                Ok(())
            }
            refused => refused,
        }
    }

    /// One waiter more, whose mutex is `mine`.
    fn join(&self, mut state: u64, mine: u64) {
        loop {
            assert!(
                state & COUNT == 0 || state & !COUNT == mine,
                "a PI condition variable is waited for with two mutexes at the same time; use one for each"
            );
            match self.state.compare_exchange_weak(state, mine | ((state & COUNT) + 1), SeqCst, Relaxed) {
                Ok(_) => return,
                Err(found) => state = found,
            }
        }
    }

    /// Notifies the most urgent waiter, if there is one.
    #[inline]
    pub fn notify_one(&self) {
        self.notify(false);
    }

    /// Notifies all waiters.
    #[inline]
    pub fn notify_all(&self) {
        self.notify(true);
    }

    #[inline]
    fn notify(&self, all: bool) {
        let state = self.state.load(SeqCst);
        if state & COUNT != 0 {
            self.notify_waiters(state, all);
        }
    }

    #[cold]
    fn notify_waiters(&self, state: u64, all: bool) {
        let mutex = without_provenance((((state & !COUNT) >> COUNT_BITS) << ALIGNED) as usize);
        let mut sequence = self.sequence.fetch_add(1, SeqCst).wrapping_add(1);
        let mut round = 0;
        loop {
            let moved = match state & !COUNT {
                0 => Err(Refused::Unsupported),
                _ => P::requeue_pi(&self.sequence, sequence, all, mutex),
            };
            match moved {
                // Another notification came in between: whoever sleeps now does so on its number.
                Err(Refused::Changed) => sequence = self.sequence.load(SeqCst),
                Err(Refused::NoMemory) => {
                    P::nap(round);
                    round = round.saturating_add(1);
                }
                Err(Refused::Unsupported) if all => return P::unpark_all(&self.sequence),
                Err(Refused::Unsupported) => return P::unpark(&self.sequence),
                // The mutex has no owner to be boosted, or has been overwritten: nobody can be moved to it.
                _ => return,
            }
        }
    }
}
