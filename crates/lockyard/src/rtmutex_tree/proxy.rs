//! Proxy locking: one thread queues another for a mutex.
//!
//! A condition variable moves a sleeper to the mutex instead of waking it to a mutex that is held:
//! it becomes a waiter, lends its priority at once, and is woken when the mutex is promised to it.
//!
//! | thread | call | then |
//! |---|---|---|
//! | the signaller | `start_proxy` | [`Started::Taken`]: the sleeper owns the mutex, wake it. [`Started::Queued`]: it waits, do not, unless that says so. An error: wake it, it has nothing |
//! | the sleeper, queued | `wait_proxy` | owns it, or has left |
//!
//! **Whose record.** Everything is done to the sleeper's record, never to the caller's: a kernel
//! that cleaned up the caller's left a pointer to a dead stack (CVE-2026-43499). What was never
//! queued is not removed, and what is owned is not removed either.
//!
//! **A last try.** A sleeper whose time is up tries once more under the wait lock before it leaves:
//! if the mutex was promised to it in the meantime it has it, and the wait has not failed.

use super::chain::Cycle;
use super::policy::Policy;
use super::{RawTreeRtMutex, Refused};
use crate::cancel::Until;
use crate::platform::Platform;
use crate::platform::thread::Thread;
use crate::wait::section::enter;

/// What became of a thread that was queued by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Started {
    /// It owns the mutex.
    Taken,
    /// It waits for it; `true`: it is to be woken, so that it has a timer.
    Queued(bool),
}

impl<P: Platform, Y: Policy> RawTreeRtMutex<P, Y> {
    /// Takes the mutex for `sleeper`, or queues it.
    ///
    /// # Errors
    /// The sleeper would wait for itself. It is not queued.
    ///
    /// # Safety
    /// `sleeper` is not the caller, waits for no lock, does not run on before it has been told the
    /// outcome, and then acts on it: after [`Started::Queued`] it calls `wait_proxy`, after
    /// [`Started::Taken`] it owns the mutex.
    pub(crate) unsafe fn start_proxy(&self, sleeper: &'static Thread<P>) -> Result<Started, Cycle> {
        let core = &self.core;
        enter(&core.wait_lock);
        let started = if core.take::<Y>(sleeper, false) {
            Ok(Started::Taken)
        } else {
            let queued = core.enqueue(sleeper).map(|()| Started::Queued(core.needs_timer(sleeper)));
            queued.inspect_err(|_| core.leave(sleeper))
        };
        core.settle_bit();
        core.unlock_wait();
        started
    }

    /// The calling thread, which another has queued here, waits until it owns the mutex or until
    /// `until` comes.
    ///
    /// # Errors
    /// Why the wait ended. It has left the queue.
    pub(crate) fn wait_proxy(&self, me: &'static Thread<P>, until: Until<'_, P>) -> Result<(), Refused> {
        let core = &self.core;
        enter(&core.wait_lock);
        let result = core.wait::<Y>(me, until).map_err(Refused::from);
        if result.is_err() {
            core.leave(me);
        }
        core.settle_bit();
        core.unlock_wait();
        result
    }

    /// The calling thread owns the mutex by another's doing.
    pub(crate) fn hold_proxy() {
        Self::hold(1);
    }
}
