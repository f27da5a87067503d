//! The condition variable of the PI mutex: a waiter that is notified boosts the owner.
//!
//! A thread that is woken to take a mutex has, until it runs, lent nothing to its owner. So
//! the kernel moves the sleeper from the condition to the mutex (requeue-PI): from the notification
//! on it waits there, by its priority, and boosts the owner; or it owns the mutex at once. It
//! sleeps once, not twice.
//!
//! # The words
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `sequence` | number of notifications; what sleepers sleep on | the notifier |
//! | `state` | bits 0–18: waiters; above: the address of their mutex, without its three low bits that are 0. 0: the mutex's address does not fit, or nobody waits | waiters, before they release the mutex and after they have left |
//!
//! # Waiting
//!
//! A waiter counts itself, reads `sequence`, releases the mutex and sleeps if `sequence` is still
//! the same. It wakes as owner (moved and served); or because `sequence` has changed before it
//! slept, at its deadline, or for no reason: then it locks the mutex as anybody does. Waits may end
//! spuriously. Notified are the most urgent first, equals in the order of their arrival. Beyond 2¹⁹
//! − 1 waiters one more is not counted: its wait is a nap.
//!
//! **No notification is lost.** One that follows a change of what the waiter looked at, made under
//! the mutex, finds the waiter counted, since that came before it released the mutex; and finds it
//! asleep, or changes `sequence` before it sleeps.
//!
//! # Memory ordering
//!
//! The mutex orders everything that matters; `state` and `sequence` are SeqCst, because a
//! notification made without the mutex has nothing else to go by.
//!
//! **Destruction.** A notification touches nothing of the condition variable after its kernel call,
//! and passes the mutex's address without reading there: the mutex may be gone if its last waiter
//! has left meanwhile. **Owner died**: sleepers of a mutex whose owner exited cannot be moved to
//! it; they sleep on until their deadlines. **Without requeue-PI** (the kernel or the architecture
//! has none) sleepers are woken, and then lock the mutex.
//!
//! Sources: Documentation/locking/futex-requeue-pi, futex(2); Hart and Guniguntala, "Requeue-PI:
//! Making Glibc Condvars PI-Aware" (2009).

use core::marker::PhantomData;
use core::ptr::without_provenance;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::pi::{At, PiPlatform, Refused};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::rtmutex::{Lateral, PiError, Policy, RawRtMutex};

const COUNT_BITS: u32 = 19;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Low bits of an address that are zero, and are not kept.
const ALIGNED: u32 = 3;

/// The condition variable of [`RawRtMutex`]: 16 bytes. See the [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawRtCondvar<P: Platform, S: Policy = Lateral> {
    state: P::U64,
    sequence: P::U32,
    policy: PhantomData<S>,
}

impl<P: Platform, S: Policy> Default for RawRtCondvar<P, S> {
    fn default() -> Self {
        Self { state: P::U64::default(), sequence: P::U32::default(), policy: PhantomData }
    }
}

impl<P: Platform, S: Policy> RawRtCondvar<P, S> {
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

impl<P: PiPlatform, S: Policy> RawRtCondvar<P, S> {
    /// Releases `mutex`, waits for a notification or until `until`, and takes `mutex` again.
    /// `Ok(true)`: the deadline passed first.
    ///
    /// May return for no reason. Tokens of `until` are not looked at.
    ///
    /// # Errors
    /// [`PiError::NotOwner`]: the caller does not own the mutex; nothing has happened. Others: it
    /// was released and cannot be taken again.
    ///
    /// # Panics
    /// Another thread waits with another mutex. Then nothing has happened.
    ///
    /// # Safety
    /// The caller holds `mutex`, and touches nothing that it protects unless the result is `Ok`.
    pub unsafe fn wait(&self, mutex: &RawRtMutex<P, S>, until: Until<'_, P>) -> Result<bool, PiError> {
        let mine = kept(core::ptr::from_ref(mutex.word()).addr());
        let joined = self.state.load(Relaxed);
        if !self.join(joined, mine) {
            // SAFETY: the caller's promise.
            return unsafe { Self::wait_uncounted(mutex, until) };
        }
        let sequence = self.sequence.load(SeqCst);
        // SAFETY: the caller's promise.
        let outcome = unsafe { mutex.release() }.map(|()| self.sleep(mutex, mine, sequence, until));
        self.state.fetch_sub(1, SeqCst);
        let woken = outcome?;
        let timed_out = woken == Err(Refused::TimedOut) && until.over() == Some(GaveUp::TimedOut);
        match woken {
            Ok(()) => mutex.inherited()?,
            Err(_) => mutex.acquire()?,
        }
        Ok(timed_out)
    }

    fn sleep(&self, mutex: &RawRtMutex<P, S>, mine: u64, sequence: u32, until: Until<'_, P>) -> Result<(), Refused> {
        P::count(Event::PiCondvarWait, 1);
        let plain = || {
            match until.end() {
                Some(At::Realtime(end)) => P::park_realtime(&self.sequence, sequence, end),
                _ => P::park(&self.sequence, sequence, until.wake_time()),
            }
            // Late or not is asked afterwards.
            Err(Refused::TimedOut)
        };
        if mine == 0 {
            return plain();
        }
        match P::wait_requeue_pi(&self.sequence, sequence, until.end(), mutex.word()) {
            Err(Refused::Unsupported) => plain(),
            Ok(()) => {
                P::count(Event::PiCondvarMoved, 1);
                Ok(())
            }
            refused => refused,
        }
    }

    /// There are more waiters than can be counted: gives the mutex up for a moment, and returns for
    /// no reason.
    ///
    /// # Safety
    /// As [`RawRtCondvar::wait`].
    #[cold]
    unsafe fn wait_uncounted(mutex: &RawRtMutex<P, S>, until: Until<'_, P>) -> Result<bool, PiError> {
        // SAFETY: the caller's promise.
        unsafe { mutex.release() }?;
        P::nap(8);
        mutex.acquire()?;
        Ok(until.over() == Some(GaveUp::TimedOut))
    }

    /// One waiter more, whose mutex is `mine`. `false`: there are as many as can be counted.
    fn join(&self, mut state: u64, mine: u64) -> bool {
        loop {
            assert!(
                state & COUNT == 0 || state & !COUNT == mine,
                "a PI condition variable is waited for with two mutexes at the same time; use one for each"
            );
            if state & COUNT == COUNT {
                return false;
            }
            match self.state.compare_exchange_weak(state, mine | ((state & COUNT) + 1), SeqCst, Relaxed) {
                Ok(_) => return true,
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
                // Another notification came in between: a sleeper sleeps on its number now.
                Err(Refused::Changed) => sequence = self.sequence.load(SeqCst),
                Err(Refused::NoMemory) => {
                    P::nap(round);
                    round = round.saturating_add(1);
                }
                Err(Refused::Unsupported) if all => return P::unpark_all(&self.sequence),
                Err(Refused::Unsupported) => return P::unpark(&self.sequence),
                // The mutex has no owner to be boosted, or has been overwritten: nobody can be
                // moved to it.
                _ => return,
            }
        }
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use std::boxed::Box;
    use std::vec::Vec;

    use super::*;
    use crate::rtmutex::policy::Off;
    use crate::rtmutex::tests::machine::{Call, Machine, calls, events, is_over, next_wait, with};

    type Mutex = RawRtMutex<Machine, Off>;
    type Condvar = RawRtCondvar<Machine, Off>;

    // The constant that no test can change: what the address does not take, as the text says.
    const _: () = assert!(COUNT == 0x7_ffff && ALIGNED == 3);

    fn both() -> (&'static Mutex, &'static Condvar) {
        (Box::leak(Box::default()), Box::leak(Box::default()))
    }

    fn wait(condvar: &Condvar, mutex: &Mutex, until: Until<'_, Machine>) -> Result<bool, PiError> {
        mutex.acquire().unwrap();
        let others = condvar.state.load(SeqCst) & COUNT;
        // SAFETY: acquired above.
        let result = unsafe { condvar.wait(mutex, until) };
        assert_eq!(condvar.state.load(SeqCst) & COUNT, others, "it waits no more");
        if result.is_ok() {
            assert_eq!((mutex.owner(), Machine::holds()), (101, 1));
            // SAFETY: held, as the result says.
            unsafe { mutex.release() }.unwrap();
        }
        result
    }

    fn address(mutex: &Mutex) -> usize {
        core::ptr::from_ref(mutex.word()).addr()
    }

    #[test]
    fn an_address_of_48_bits_is_kept_beside_the_count() {
        assert_eq!(kept(0x1000), 0x200 << COUNT_BITS);
        assert_eq!(kept((1 << 48) - 8), !COUNT);
        assert_eq!((kept(1 << 48), kept(usize::MAX & !7)), (0, 0), "does not fit");
    }

    #[test]
    fn nobody_waits_and_nothing_happens() {
        let (mutex, condvar) = both();
        condvar.notify_one();
        condvar.notify_all();
        // Nor after somebody did.
        next_wait(|| Err(Refused::Changed));
        assert_eq!(wait(condvar, mutex, Until::FOREVER), Ok(false));
        calls();
        condvar.notify_one();
        condvar.notify_all();
        assert_eq!((calls(), condvar.sequence.load(SeqCst)), (Vec::new(), 0));
    }

    /// Runs `notify` while a thread waits for `condvar`, which then ends with `answer`.
    fn notified(notify: fn(&Condvar), answers: &[Result<(), Refused>]) -> (Vec<Call>, usize) {
        let (mutex, condvar) = both();
        let answers = answers.to_vec();
        next_wait(move || {
            assert_eq!(condvar.state.load(SeqCst), kept(address(mutex)) | 1);
            calls();
            for answer in answers {
                next_wait(move || {
                    if answer == Err(Refused::Changed) {
                        condvar.sequence.fetch_add(4, SeqCst); // others notify as well
                    }
                    answer
                });
            }
            notify(condvar);
            Err(Refused::Changed)
        });
        assert_eq!(wait(condvar, mutex, Until::FOREVER), Ok(false));
        assert!(is_over());
        (calls(), address(mutex))
    }

    #[test]
    fn a_notification_moves_sleepers_to_their_mutex() {
        for (all, notify) in [(false, Condvar::notify_one as fn(&Condvar)), (true, Condvar::notify_all)] {
            let (calls, pi) = notified(notify, &[Ok(())]);
            assert_eq!(calls, [Call::RequeuePi { expected: 1, all, pi }]);
        }
    }

    #[test]
    fn a_notification_that_another_overtook_goes_by_the_new_number() {
        let (calls, pi) = notified(Condvar::notify_one, &[Err(Refused::Changed), Ok(())]);
        assert_eq!(calls, [1, 5].map(|expected| Call::RequeuePi { expected, all: false, pi }));
    }

    #[test]
    fn a_notification_waits_for_the_kernels_memory() {
        let (calls, pi) = notified(Condvar::notify_one, &[Err(Refused::NoMemory), Ok(()), Ok(())]);
        let asked = Call::RequeuePi { expected: 1, all: false, pi };
        assert_eq!(calls, [asked, Call::Nap, asked]);
    }

    #[test]
    fn sleepers_that_cannot_be_moved_are_woken() {
        for (all, notify) in [(false, Condvar::notify_one as fn(&Condvar)), (true, Condvar::notify_all)] {
            let (calls, pi) = notified(notify, &[Err(Refused::Unsupported)]);
            let woken = if all { Call::UnparkAll } else { Call::Unpark };
            assert_eq!(calls, [Call::RequeuePi { expected: 1, all, pi }, woken]);
        }
        // No sleeper can be moved to an owner that is gone, and none is woken to learn it.
        let (calls, pi) = notified(Condvar::notify_all, &[Err(Refused::NoOwner)]);
        assert_eq!(calls, [Call::RequeuePi { expected: 1, all: true, pi }]);
    }

    #[test]
    fn sleepers_whose_mutex_is_not_kept_are_woken() {
        let (_, condvar) = both();
        condvar.join(0, 0);
        condvar.notify_one();
        condvar.notify_all();
        assert_eq!((calls(), condvar.sequence.load(SeqCst)), ([Call::Unpark, Call::UnparkAll].into(), 2));
    }

    #[test]
    fn one_more_waiter_than_can_be_counted_takes_a_nap() {
        let (mutex, condvar) = both();
        let full = kept(address(mutex)) | COUNT;
        condvar.state.store(full, SeqCst);
        for (until, late) in [(Until::FOREVER, false), (Until::deadline(0), true)] {
            assert_eq!(wait(condvar, mutex, until), Ok(late));
            assert_eq!(condvar.state.load(SeqCst), full, "neither the count nor the address has changed");
            assert_eq!(calls(), [Call::Nap]);
        }
    }

    #[test]
    fn waiters_are_counted() {
        let (mutex, condvar) = both();
        let mine = kept(address(mutex));
        for count in 1..=3 {
            condvar.join(condvar.state.load(SeqCst), mine);
            assert_eq!(condvar.state.load(SeqCst), mine | count);
        }
    }

    #[test]
    fn who_was_moved_and_served_owns_the_mutex() {
        let (mutex, condvar) = both();
        next_wait(|| {
            assert_eq!((mutex.owner(), Machine::holds()), (0, 0));
            mutex.word().store(101, SeqCst);
            Ok(())
        });
        assert_eq!(wait(condvar, mutex, Until::deadline(0)), Ok(false), "whatever the time");
        assert_eq!(calls(), [Call::WaitRequeuePi { expected: 0, deadline: Some(At::Monotonic(0)) }]);
        assert_eq!([Event::PiCondvarWait, Event::PiCondvarMoved].map(events), [1, 1]);
    }

    #[test]
    fn a_wait_tells_whether_its_time_was_up() {
        let (mutex, condvar) = both();
        let end = || Until::deadline(Machine::now() + 10);
        assert_eq!(wait(condvar, mutex, end()), Ok(true));
        next_wait(|| Err(Refused::Changed));
        assert_eq!(wait(condvar, mutex, end()), Ok(false));
        assert_eq!(events(Event::PiCondvarMoved), 0);
        calls();
        // Where nobody can be moved it sleeps on the number itself.
        next_wait(|| Err(Refused::Unsupported));
        let deadline = Machine::now() + 10;
        assert_eq!(wait(condvar, mutex, end()), Ok(true));
        let asked = Call::WaitRequeuePi { expected: 0, deadline: Some(At::Monotonic(deadline)) };
        assert_eq!(calls(), [asked, Call::Park(Some(deadline))]);
        for early in [true, false] {
            next_wait(|| Err(Refused::Unsupported));
            next_wait(move || {
                with(|state| state.now += if early { 9 } else { 10 });
                Ok(())
            });
            assert_eq!(wait(condvar, mutex, end()), Ok(!early));
        }
        assert_eq!(events(Event::PiCondvarWait), 5);
    }

    /// Converted when the wait began it ended late if that clock was set forward.
    #[test]
    fn a_time_of_the_real_time_clock_is_kept_as_it_is() {
        let (mutex, condvar) = both();
        let end = Machine::realtime() + 10;
        assert_eq!(wait(condvar, mutex, Until::realtime(end)), Ok(true));
        assert_eq!(calls(), [Call::WaitRequeuePi { expected: 0, deadline: Some(At::Realtime(end)) }]);
    }

    #[test]
    fn a_mutex_whose_address_is_not_kept_is_waited_for_on_the_number() {
        let (mutex, condvar) = both();
        assert_eq!(condvar.sleep(mutex, 0, 0, Until::deadline(Machine::now() + 5)), Err(Refused::TimedOut));
        assert!(matches!(calls()[..], [Call::Park(Some(_))]));
    }
}
