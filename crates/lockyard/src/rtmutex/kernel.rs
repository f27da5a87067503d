//! The top waiter: spins, then waits in the kernel; and what is released through the kernel.

use super::policy::{Policy, TopWaiter};
use super::{DEAD, LISTENING, MARK, PiError, RawRtMutex, TOP_SPINS};
use crate::cancel::Until;
use crate::event::Event;
use crate::platform::pi::{At, Class, OWNER, OWNER_DIED, PiPlatform, Refused};
use crate::platform::{Ordering::*, Patience, Word};

/// How long a thread of fixed priority spins before it waits in the kernel. While it does, the
/// owner is not boosted: it is part of the longest wait.
pub const SPIN_NS: u32 = 2_000;
/// The same for a time-sharing thread that holds another mutex. Less than a blocked hand-over
/// costs.
pub const NESTED_SPIN_NS: u32 = 5_000;
/// The kernel cannot be told that a wait was cancelled: a waiter with a token looks at it
/// this often.
pub(super) const CANCEL_NS: u64 = 1_000_000;
/// How long a word that the kernel does not recognise is asked for again. Between the death of an
/// owner and the next look of the waiter that inherits from it, which may have to wait for a CPU,
/// the word names a thread that the kernel has forgotten.
pub(super) const DOUBT_NS: u64 = 2_000_000_000;

/// How often the kernel is asked before a cycle of waits is one. The kernel follows the chain while
/// its threads go on: a ring of threads that took each other's mutexes in turn was once called a
/// cycle. A true one is still there at each look, at the last most of a millisecond later.
pub(super) const CYCLE_LOOKS: u32 = 6;

impl<P: PiPlatform, S: Policy> RawRtMutex<P, S> {
    /// For those whose waiting matters to others: spins as top waiter, then waits in the kernel.
    pub(super) fn acquire_urgent(&self, me: u32, class: Class, until: Until<'_, P>) -> Result<(), PiError> {
        if let Some(end) = until.over() {
            // Not for a moment: the mark would stay, and make the owner's release a system call.
            return Err(end.into());
        }
        if S::TOP_WAITER != TopWaiter::Sleeps {
            let patience = match class {
                Class::TimeSharing => NESTED_SPIN_NS,
                Class::RealTime => SPIN_NS,
                Class::Deadline => 0,
            };
            if self.spin(me, patience, until) {
                P::count(Event::PiMutexSpin, 1);
                return Ok(());
            }
            P::count(Event::PiMutexSpinFail, 1);
        }
        self.wait_in_kernel(until)
    }

    /// Spins as the top waiter: there is one at a time, and only while nobody waits in the kernel
    /// and the owner runs.
    pub(super) fn spin(&self, me: u32, ns: u32, until: Until<'_, P>) -> bool {
        let met = self.word().load(Relaxed);
        let owner = P::thread_of(met & OWNER);
        let hopeless = met & !OWNER != 0 || owner.is_some_and(|owner| !P::is_running(owner));
        if ns == 0 || hopeless || P::cpus() == 1 || P::should_yield() {
            return false;
        }
        let Some(mark) = self.mark() else { return false };
        let mut patience = Patience::ns(ns).until(until.wake_time()).courteous();
        patience.running = owner;
        let taken = P::spin(patience, || {
            let word = self.word().load(Relaxed);
            if word == 0 {
                return self.word().compare_exchange(0, me, Acquire, Relaxed).is_ok().then_some(true);
            }
            // Somebody waits in the kernel: it decides who is next. Or another took the mutex, and
            // the spinner was sure of that one owner only.
            let over = word & !OWNER != 0 || S::TOP_WAITER == TopWaiter::SpinsOnOneOwner && word != met && met != 0;
            over.then_some(false)
        });
        let taken = taken == Some(true);
        let flags = self.unmark(mark);
        if taken {
            return self.taken(me);
        }
        if flags & LISTENING != 0 {
            self.released(); // it may have been released, and the listener kept off
        }
        false
    }

    /// Makes the caller the top waiter, if there is none.
    pub(super) fn mark(&self) -> Option<u32> {
        let mark = TOP_SPINS | Self::mark_now();
        let mut flags = self.present_flags();
        while flags & TOP_SPINS == 0 {
            match self.flags().compare_exchange_weak(flags, flags | mark, Relaxed, Relaxed) {
                Ok(_) => return Some(mark),
                Err(found) => flags = found,
            }
        }
        None
    }

    /// The caller, which made `mark`, is top waiter no more. Returns the flags.
    pub(super) fn unmark(&self, mark: u32) -> u32 {
        let mut flags = self.flags().load(SeqCst);
        while flags & MARK == mark {
            match self.flags().compare_exchange_weak(flags, flags & !MARK, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(found) => flags = found,
            }
        }
        flags
    }

    /// Waits in the kernel, which boosts the owner.
    pub(super) fn wait_in_kernel(&self, until: Until<'_, P>) -> Result<(), PiError> {
        P::count(Event::PiMutexBlock, 1);
        let record = P::current();
        if let Some(me) = record {
            me.waiter.enter();
        }
        let result = self.lock_pi(until);
        if let Some(me) = record {
            me.waiter.leave();
        }
        match result {
            Ok(()) => self.inherited(),
            Err(error) => {
                if error == PiError::Deadlock {
                    P::count(Event::PiMutexDeadlock, 1);
                }
                Err(error)
            }
        }
    }

    fn lock_pi(&self, until: Until<'_, P>) -> Result<(), PiError> {
        let mut round = 0;
        let mut cycles = 0;
        let mut doubted = None;
        loop {
            let deadline = match until.is_cancellable() {
                true => until.wake_time_or(P::now() + CANCEL_NS).map(At::Monotonic),
                false => until.end(),
            };
            match P::lock_pi(self.word(), deadline) {
                Ok(()) => return Ok(()),
                Err(Refused::TimedOut) => {
                    if let Some(end) = until.over() {
                        return Err(end.into());
                    }
                    // It has let the caller wait.
                    cycles = 0;
                }
                Err(Refused::Deadlock) => {
                    cycles += 1;
                    if cycles == CYCLE_LOOKS || until.over().is_some() {
                        return Err(PiError::Deadlock);
                    }
                    // From the first that is longer than a few microseconds.
                    P::nap(3 + cycles);
                }
                Err(Refused::NoOwner) => {
                    self.flags().fetch_or(DEAD, Relaxed);
                    return Err(PiError::OwnerDied);
                }
                Err(Refused::NoMemory | Refused::Unsupported) => {
                    let me = Self::me();
                    if self.word().load(Relaxed) == 0 && self.word().compare_exchange(0, me, Acquire, Relaxed).is_ok() {
                        return Ok(());
                    }
                    if let Some(end) = until.over() {
                        return Err(end.into());
                    }
                    P::nap(round);
                    round = round.saturating_add(1);
                }
                Err(Refused::Changed) => P::relax(),
                Err(Refused::Corrupt) => {
                    if self.is_dead() {
                        return Err(PiError::OwnerDied);
                    }
                    if let Some(end) = until.over() {
                        return Err(end.into());
                    }
                    let now = P::now();
                    if now - *doubted.get_or_insert(now) > DOUBT_NS {
                        return Err(PiError::Corrupt);
                    }
                    P::nap(round);
                    round = round.saturating_add(1);
                }
                Err(Refused::NotOwner) => return Err(PiError::Corrupt),
            }
        }
    }

    /// The kernel has made the caller the owner. Refuses what a dead thread left.
    pub(crate) fn inherited(&self) -> Result<(), PiError> {
        if self.word().load(Acquire) & OWNER_DIED != 0 {
            self.flags().fetch_or(DEAD, Relaxed);
        }
        if self.is_dead() {
            self.give_back(Self::me());
            return Err(PiError::OwnerDied);
        }
        P::set_holds(P::holds().wrapping_add(1));
        Ok(())
    }

    /// Others wait in the kernel, or did; or the caller, `me`, does not own the mutex.
    #[cold]
    pub(super) fn release_in_kernel(&self, me: u32) -> Result<(), PiError> {
        if self.word().load(Relaxed) & OWNER != me {
            return Err(PiError::NotOwner);
        }
        P::count(Event::PiMutexUnlock, 1);
        let done = P::unlock_pi(self.word()).map_err(|refused| match refused {
            Refused::NotOwner => PiError::NotOwner,
            _ => PiError::Corrupt,
        });
        P::fence(); // between the word, which the kernel wrote, and the flags
        done
    }
}
