//! Waiting among equals: time-sharing threads that hold no other PI mutex.
//!
//! The kernel counts all time-sharing threads as equally urgent. One that waits for another lends nothing, so it need not be known to the kernel; and since there is no lower
//! class, whoever passes it while it waits in user space is its equal. So these threads wait as those of [`mutex`](crate::mutex) do, by
//! [`wait::turn`](crate::wait::turn), with three differences:
//!
//! * **Handoff is the kernel.** The first waiter whose turn is over waits in the kernel, behind those who wait there already: the next release names it, or one before it,
//!   and nobody passes it any more.
//! * **Nobody gives way** to a first waiter that has been woken and waits for its CPU: until it runs the mutex is anybody's, and if its turn is over by then it asks the kernel. (Who
//!   queues still wakes one that is late. A flag that kept the mutex for it changed neither the rate nor the longest wait of 2 and 16 threads on 2 CPUs.)
//! * **Threads of a higher class come first.** While the word has `WAITERS`, or the top waiter spins, the mutex is not there for the taking, and nobody spins for it.
//!
//! # Invariants
//!
//! 1. Those of `wait::turn`.
//! 2. A lateral waiter holds no PI mutex: it is in nobody's chain, and can close no cycle of such mutexes.
//! 3. If the first waiter listens and finds the word 0 but the top waiter spinning, that one takes the mutex, and its release obeys; or it leaves, and obeys itself.

use core::cell::Cell;

use super::policy::Policy;
use super::{DEAD, LISTENING, PiError, RawPiMutex, TOP_SPINS};
use crate::cancel::Until;
use crate::event::Event;
use crate::platform::pi::{PiPlatform, WAITERS};
use crate::platform::{Ordering::*, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::thread::ThreadId;
use crate::wait::turn::{self, Contended, Events, Look, Request};

/// Takes `mutex` for the calling thread `me`, unless `until` comes first.
pub(super) fn acquire<P: PiPlatform, S: Policy>(
    mutex: &RawPiMutex<P, S>,
    me: u32,
    until: Until<'_, P>,
) -> Result<(), PiError> {
    let want = Want { mutex, me, until, refused: Cell::new(None) };
    turn::acquire(&want, until)?;
    want.refused.get().map_or(Ok(()), Err)
}

/// A thread that wants the mutex.
struct Want<'a, P: PiPlatform, S: Policy> {
    mutex: &'a RawPiMutex<P, S>,
    /// Its kernel id.
    me: u32,
    until: Until<'a, P>,
    /// Why the wait is over although the mutex was not taken.
    refused: Cell<Option<PiError>>,
}

impl<P: PiPlatform, S: Policy> Want<'_, P, S> {
    /// Ends the wait with an error, as far as the discipline is concerned with success.
    fn refuse(&self, why: PiError) -> bool {
        self.refused.set(Some(why));
        true
    }
}

impl<P: PiPlatform, S: Policy> Contended<P> for Want<'_, P, S> {
    const EVENTS: Events = Events {
        spun: Event::PiMutexOptLock,
        spin_failed: Event::PiMutexOptFail,
        queued: Event::PiMutexLock,
        gave_up: Event::PiMutexFail,
        slept: Event::PiMutexSleep,
    };

    fn wait_lock(&self) -> &RawQSpinLock<P> {
        &self.mutex.wait_lock
    }

    fn waiters(&self) -> &WaitQueue<P> {
        &self.mutex.queue
    }

    fn osq(&self) -> &Osq<P> {
        &self.mutex.osq
    }

    fn owner(&self) -> Option<ThreadId> {
        match self.mutex.owner() {
            0 => None,
            tid => P::thread_of(tid),
        }
    }

    fn look(&self, first: bool) -> Look {
        let (word, flags) = (self.mutex.word().load(Relaxed), self.mutex.flags().load(Relaxed));
        if flags & DEAD != 0 || word == 0 && flags & TOP_SPINS == 0 {
            Look::Open
        } else if !first && (word & WAITERS != 0 || flags & TOP_SPINS != 0) {
            Look::Kept
        } else {
            Look::Closed
        }
    }

    fn try_take(&self, first: bool) -> bool {
        if self.mutex.take(self.me) {
            if first && self.mutex.flags().load(Relaxed) & LISTENING != 0 {
                self.mutex.flags().fetch_and(!LISTENING, Relaxed);
            }
            return true;
        }
        self.mutex.is_dead() && self.refuse(PiError::OwnerDied)
    }

    fn try_or_ask(&self, request: Request) -> bool {
        if self.try_take(true) {
            return true;
        }
        match request {
            Request::Listen => {
                self.mutex.flags().fetch_or(LISTENING, SeqCst);
                self.mutex.word().load(SeqCst) == 0 && self.try_take(true)
            }
            Request::Handoff => {
                P::count(Event::PiMutexHandoff, 1);
                match self.mutex.wait_in_kernel(self.until) {
                    Ok(()) => {
                        self.mutex.flags().fetch_and(!LISTENING, Relaxed);
                        true
                    }
                    Err(PiError::TimedOut | PiError::Cancelled) => false,
                    Err(why) => self.refuse(why),
                }
            }
        }
    }

    /// Its handoff is the kernel, where it must go itself.
    fn ask_for_first(&self) {}

    fn left(&self, empty: bool, listen: bool) {
        if empty {
            self.mutex.flags().fetch_and(!LISTENING, Relaxed);
        }
        if listen {
            self.mutex.flags().fetch_or(LISTENING, SeqCst);
        }
    }
}
