//! A condition variable for [`RawTreeRtMutex`] that keeps priority inheritance.
//!
//! Sleepers wait by their own priority (what is lent to them goes with the mutex), first come first
//! served among equals. A signal does not wake one to a mutex that is held: it moves it there
//! ([proxy locking](super)), where it lends its priority until it is let in.
//!
//! # States of a sleeper
//!
//! | `requeue` | meaning | set by |
//! |---|---|---|
//! | `NONE` | in no condition variable | the sleeper |
//! | `SLEEPING` | in the list | the sleeper |
//! | `QUEUED` | waits for the mutex | the signaller |
//! | `HOLDER` | owns the mutex | the signaller |
//! | `REFUSED` | would have waited for itself: it locks, and fails, on its own | the signaller |
//!
//! All changes are made under the condition variable's lock, which is held for the whole of a move:
//! a sleeper whose time is up finds itself in the list, or moved, never in between. Order of locks:
//! this one, the mutex's wait lock, a thread's.
//!
//! **Ordering.** A sleeper is in the list before it releases the mutex, so a thread that
//! changes the condition under the mutex and signals afterwards finds it.
//!
//! **Spurious wake-ups**: none. A sleeper that times out has not consumed a signal.
//!
//! Sources: futex-requeue-pi (Linux documentation); `spec/rtmutex.md` 11 and 16.7.

use core::fmt::Debug;

use super::plist::{PriorityList, WAITING};
use super::policy::Policy;
use super::proxy::Started;
use super::{RawTreeRtMutex, Refused, waiter};
use crate::cancel::Until;
use crate::platform::thread::Thread;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::section::{enter, exit};

const NONE: u32 = 0;
const SLEEPING: u32 = 1;
const QUEUED: u32 = 2;
const HOLDER: u32 = 3;
const REFUSED: u32 = 4;

/// The condition variable: 8 bytes. All sleepers of one use the same mutex. See the [module
/// text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawTreeRtCondvar<P: Platform> {
    lock: RawQSpinLock<P>,
    sleepers: PriorityList<P, WAITING>,
}

impl<P: Platform> Default for RawTreeRtCondvar<P> {
    fn default() -> Self {
        Self { lock: RawQSpinLock::default(), sleepers: PriorityList::default() }
    }
}

impl<P: Platform> RawTreeRtCondvar<P> {
    /// A condition variable without sleepers, in constants.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { lock: RawQSpinLock::new(), sleepers: ConstZero::ZERO }
    }

    /// Releases `mutex`, sleeps until it is signalled or until `until` comes, and takes `mutex`
    /// again. `Ok(true)`: signalled; `Ok(false)`: its time was up. Either way the caller holds the
    /// mutex.
    ///
    /// # Errors
    /// Taking the mutex again would have been a deadlock. Then the caller does not hold it.
    ///
    /// # Safety
    /// The caller holds `mutex`, is registered (not
    /// [`ThreadId::ANONYMOUS`](crate::platform::thread::ThreadId::ANONYMOUS)) and waits for nothing
    /// else (it is no signal handler); all sleepers use the same mutex.
    pub unsafe fn wait<Y: Policy>(&self, mutex: &RawTreeRtMutex<P, Y>, until: Until<'_, P>) -> Result<bool, Refused> {
        let Some(me) = P::current() else { return Ok(false) };
        me.waiter.enter();
        let result = until.watching(me, || self.sleep(me, mutex, until));
        me.waiter.leave();
        match result {
            Ok(signalled) => Ok(signalled),
            // The wait was over, one way or the other; the mutex is not: it is waited for however
            // long it takes.
            Err(signalled) => mutex.acquire().map(|()| signalled).map_err(Refused::Deadlock),
        }
    }

    /// Sleeps. `Ok(true)`: holds the mutex. `Err`: does not; whether it was signalled.
    fn sleep<Y: Policy>(
        &self,
        me: &'static Thread<P>,
        mutex: &RawTreeRtMutex<P, Y>,
        until: Until<'_, P>,
    ) -> Result<bool, bool> {
        let state = &me.pi.requeue;
        enter(&self.lock);
        let priority = waiter::lock(me).own_priority();
        state.store(SLEEPING, Relaxed);
        self.sleepers.insert(me.id(), priority);
        self.unlock();
        // SAFETY: the caller's promise.
        let _ = unsafe { mutex.release() };
        loop {
            let over = state.load(Acquire) == SLEEPING && until.over().is_some();
            enter(&self.lock);
            let now = state.load(Relaxed);
            if now == SLEEPING && over {
                self.sleepers.remove(me.id());
            }
            self.unlock();
            match now {
                SLEEPING if over => {
                    state.store(NONE, Relaxed);
                    return Err(false);
                }
                SLEEPING => until.park(me),
                HOLDER => {
                    state.store(NONE, Relaxed);
                    RawTreeRtMutex::<P, Y>::hold_proxy();
                    return Ok(true);
                }
                QUEUED => {
                    state.store(NONE, Relaxed);
                    // Signalled in time: what is left is the mutex.
                    return match mutex.wait_proxy(me, Until::FOREVER) {
                        Ok(()) => {
                            RawTreeRtMutex::<P, Y>::hold_proxy();
                            Ok(true)
                        }
                        Err(_) => Err(true),
                    };
                }
                _ => {
                    state.store(NONE, Relaxed);
                    return Err(true);
                }
            }
        }
    }

    /// Signals the most urgent sleeper: moves it to `mutex`, the one that all of them use. Whether
    /// there was one.
    pub fn notify_one<Y: Policy>(&self, mutex: &RawTreeRtMutex<P, Y>) -> bool {
        enter(&self.lock);
        let (first, wake) = (self.sleepers.first(), self.move_first(mutex));
        self.unlock();
        if let Some(thread) = wake {
            thread.unpark();
        }
        first.is_some()
    }

    /// Signals all sleepers, most urgent first.
    pub fn notify_all<Y: Policy>(&self, mutex: &RawTreeRtMutex<P, Y>) {
        while self.notify_one(mutex) {}
    }

    /// Whether somebody sleeps.
    pub fn has_sleepers(&self) -> bool {
        self.sleepers.first().is_some()
    }

    /// Under the lock: moves the first sleeper. Returns it if it is to be woken.
    fn move_first<Y: Policy>(&self, mutex: &RawTreeRtMutex<P, Y>) -> Option<&'static Thread<P>> {
        let sleeper: &'static Thread<P> = P::thread(self.sleepers.first()?);
        self.sleepers.remove(sleeper.id());
        // SAFETY: it sleeps in `sleep` and looks at `requeue` under our lock before it does
        // anything else, then acts as that says.
        let started = unsafe { mutex.start_proxy(sleeper) };
        let state = match started {
            Ok(Started::Queued(_)) => QUEUED,
            Ok(Started::Taken) => HOLDER,
            Err(_) => REFUSED,
        };
        sleeper.pi.requeue.store(state, Release);
        // A waiter of the mutex is woken by its release, unless that has happened already: a
        // wake-up too many costs one round.
        let wakes = !matches!(started, Ok(Started::Queued(false)));
        wakes.then_some(sleeper)
    }

    fn unlock(&self) {
        // SAFETY: every caller has acquired it.
        unsafe { exit(&self.lock) };
    }
}
