//! Waiting among equals: time-sharing threads that hold no other PI mutex.
//!
//! The kernel counts all time-sharing threads as equally urgent. One that waits for another lends
//! nothing, so it need not be known to the kernel; and since there is no lower class, a thread that
//! passes it while it waits in user space is its equal. So these threads wait as those of
//! [`mutex`](crate::mutex) do, by [`wait::turn`](crate::wait::turn), with three differences:
//!
//! * **Handoff is the kernel.** The first waiter whose turn is over waits in the kernel, behind
//!   those that wait there already: the next release names it, or one before it, and nobody passes
//!   it any more.
//! * **Nobody gives way** to a first waiter that has been woken and waits for its CPU: until it
//!   runs the mutex is anybody's, and if its turn is over by then it asks the kernel. (Who queues
//!   still wakes one that is late. A flag that kept the mutex for it changed neither the rate nor
//!   the longest wait of 2 and 16 threads on 2 CPUs.)
//! * **Threads of a higher class come first.** While the word has `WAITERS`, or the top waiter
//!   spins, the mutex is not there for the taking, and nobody spins for it.
//!
//! # Invariants
//!
//! 1. Those of `wait::turn`.
//! 2. A lateral waiter holds no PI mutex: it is in nobody's chain, and can close no cycle of such
//!    mutexes.
//! 3. If the first waiter listens and finds the word 0 but the top waiter spinning, that one takes
//!    the mutex, and its release obeys; or it leaves, and obeys itself. If it is stopped, its mark
//!    ends, and a thread that comes, or the first waiter at the end of its turn, takes the mutex.

use core::cell::Cell;

use super::policy::Policy;
use super::{DEAD, LISTENING, PiError, RawRtMutex, TOP_SPINS};
use crate::cancel::Until;
use crate::event::Event;
use crate::platform::pi::{PiPlatform, WAITERS};
use crate::platform::thread::ThreadId;
use crate::platform::{Ordering::*, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::turn::{self, Contended, Events, Left, Look, Request};

/// Takes `mutex` for the calling thread `me`, unless `until` comes first.
pub(super) fn acquire<P: PiPlatform, S: Policy>(
    mutex: &RawRtMutex<P, S>,
    me: u32,
    until: Until<'_, P>,
) -> Result<(), PiError> {
    let want = Want { mutex, me, until, refused: Cell::new(None) };
    turn::acquire(&want, until)?;
    want.refused.get().map_or(Ok(()), Err)
}

/// A thread that wants the mutex.
struct Want<'a, P: PiPlatform, S: Policy> {
    mutex: &'a RawRtMutex<P, S>,
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
        let (word, flags) = (self.mutex.word().load(Relaxed), self.mutex.present_flags());
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

    /// Nothing is kept for it.
    fn unreserve(&self) {}

    fn left(&self, Left { empty, listen, .. }: Left) {
        if empty {
            self.mutex.flags().fetch_and(!LISTENING, Relaxed);
        }
        // Nobody releases it for one that was refused: the next is to look as well.
        let refused = self.mutex.is_dead() || self.refused.get().is_some();
        if (listen || refused) && !empty {
            self.mutex.flags().fetch_or(LISTENING, SeqCst);
        }
        if refused && let Some(next) = self.mutex.queue.first() {
            next.unpark();
        }
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use std::boxed::Box;

    use super::super::kernel::CYCLE_LOOKS;
    use super::super::tests::SPINS;
    use super::super::tests::machine::{Machine, before_a_mark, next_cycles, next_wait, playing, with};
    use super::super::{Lateral, OWNER};
    use super::*;
    use crate::platform::Platform;
    use crate::platform::pi::Refused;

    const ME: u32 = 101;
    const OTHER: u32 = 102;

    type Wanted = Want<'static, Machine, Lateral>;

    fn want(word: u32, flags: u32) -> Wanted {
        let mutex: &'static RawRtMutex<Machine, Lateral> = Box::leak(Box::default());
        mutex.word().store(word, SeqCst);
        mutex.flags().store(flags, SeqCst);
        Want { mutex, me: ME, until: Until::FOREVER, refused: Cell::new(None) }
    }

    fn state(want: &Wanted) -> (u32, u32) {
        (want.mutex.word().load(SeqCst), want.mutex.flags().load(SeqCst))
    }

    /// It has nothing, so that its release wakes nobody.
    #[test]
    fn one_that_was_refused_asks_for_the_next() {
        let want = want(0, 0);
        let left = Left { served: true, gave_up: false, empty: false, listen: false, handoff: false };
        want.left(left);
        assert_eq!(state(&want), (0, 0));
        want.refused.set(Some(PiError::OwnerDied));
        want.left(left);
        assert_eq!(state(&want), (0, LISTENING));
    }

    #[test]
    fn equals_look_at_word_and_flags_and_see_who_comes_first() {
        use Look::{Closed, Kept, Open};
        // For who spins, and for the first waiter.
        for (word, flags, spins, first) in [
            (0, 0, Open, Open),
            (0, LISTENING, Open, Open),
            (0, SPINS, Kept, Closed),
            (0, SPINS | LISTENING, Kept, Closed),
            (OTHER, 0, Closed, Closed),
            (OTHER, LISTENING, Closed, Closed),
            (OTHER, SPINS, Kept, Closed),
            (OTHER | WAITERS, 0, Kept, Closed),
            (OTHER | WAITERS, SPINS, Kept, Closed),
            // Open to be told so.
            (0, DEAD, Open, Open),
            (OTHER, DEAD, Open, Open),
            (OTHER | WAITERS, DEAD | SPINS, Open, Open),
        ] {
            let want = want(word, flags);
            assert_eq!((want.look(false), want.look(true)), (spins, first), "{word:#x} {flags:#x}");
        }
    }

    #[test]
    fn the_owners_record_is_found_by_its_id() {
        let record = playing(1, Machine::current).map(|thread| thread.id());
        assert!(record.is_some());
        assert_eq!(want(OTHER | WAITERS, 0).owner(), record);
        assert_eq!((want(0, 0).owner(), want(OWNER, 0).owner()), (None, None));
    }

    #[test]
    fn the_first_waiter_takes_its_flag_along_and_others_leave_it() {
        for (first, flags, left) in [(true, LISTENING, 0), (true, 0, 0), (false, LISTENING, LISTENING)] {
            let want = want(0, flags);
            assert!(want.try_take(first));
            assert_eq!((state(&want), want.refused.get()), ((ME, left), None));
        }
        let want = want(OTHER, LISTENING);
        assert!(!want.try_take(true));
        assert_eq!(state(&want), (OTHER, LISTENING));
    }

    #[test]
    fn a_dead_mutex_ends_the_wait_with_an_error() {
        for (word, flags) in [(0, DEAD), (OTHER, DEAD)] {
            let want = want(word, flags);
            assert!(want.try_take(false));
            assert_eq!((state(&want), want.refused.get()), ((word, flags), Some(PiError::OwnerDied)));
        }
    }

    #[test]
    fn who_listens_leaves_the_flag_only_where_it_did_not_get_the_mutex() {
        for (word, flags, got, after) in [
            (0, 0, true, (ME, 0)),
            (OTHER, 0, false, (OTHER, LISTENING)),
            // Free, and kept for the top waiter.
            (0, SPINS, false, (0, SPINS | LISTENING)),
        ] {
            let want = want(word, flags);
            assert_eq!((want.try_or_ask(Request::Listen), state(&want)), (got, after));
        }
        // Released in the moment before the flag was there: the releaser did not see it.
        let want = want(OTHER, 0);
        let mutex = want.mutex;
        before_a_mark(|| mutex.word().store(0, SeqCst));
        assert!(want.try_or_ask(Request::Listen));
        assert_eq!(state(&want), (ME, 0));
    }

    #[test]
    fn the_kernels_answer_ends_the_wait_unless_time_is_up() {
        let asks = |answer: Result<(), Refused>, end| {
            let want = Want { until: Until::deadline(end), ..want(OTHER, LISTENING | SPINS) };
            let mutex = want.mutex;
            match answer {
                Err(Refused::Deadlock) => next_cycles(CYCLE_LOOKS),
                answer => next_wait(move || {
                    if answer.is_ok() {
                        mutex.word().store(ME | WAITERS, SeqCst);
                    }
                    answer
                }),
            }
            let over = want.try_or_ask(Request::Handoff);
            (over, want.refused.get(), state(&want))
        };
        let kept = (OTHER, LISTENING | SPINS);
        assert_eq!(asks(Ok(()), u64::MAX), (true, None, (ME | WAITERS, SPINS)), "nobody listens any more");
        with(|state| state.roles[0].holds = 0);
        assert_eq!(asks(Err(Refused::TimedOut), 0), (false, None, kept));
        assert_eq!(asks(Err(Refused::Deadlock), u64::MAX), (true, Some(PiError::Deadlock), kept));
    }

    #[test]
    fn who_leaves_takes_the_flag_along_or_leaves_it_for_the_next() {
        for (empty, listen, after) in
            [(true, false, SPINS), (false, false, SPINS | LISTENING), (false, true, SPINS | LISTENING)]
        {
            let want = want(OTHER, LISTENING | SPINS);
            want.left(Left { served: false, gave_up: false, empty, listen, handoff: false });
            assert_eq!(state(&want), (OTHER, after));
        }
        let want = want(OTHER, 0);
        want.left(Left { served: true, gave_up: false, empty: false, listen: true, handoff: false });
        assert_eq!(state(&want), (OTHER, LISTENING), "for the next");
    }
}
