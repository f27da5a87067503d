//! Readers that wait behind a waiting writer for a time only: where one reader waits for another.
//!
//! A reader that holds the lock may wait for a second reader, of another thread. If a writer waits
//! as well, and the lock keeps the second reader out for it, none of the three goes on. POSIX's
//! default rwlocks admit the second reader. A lock that admits every reader starves writers. So the
//! embedder says when the writer's time is over.
//!
//! A reader of [`RawRwSem::read_acquire_beside`] queues like any other. Whenever it looks, it takes
//! the lock in its turn, or *beside* its holders:
//!
//! | sees | `may()` | what the reader does |
//! |---|---|---|
//! | no writer holds, nothing forbids it | not asked | takes it, as ever |
//! | readers hold, a request forbids it | yes | + `BIAS`: it is in, past all waiters; their requests stay |
//! | readers hold, a request forbids it | no | waits |
//! | a writer holds | not asked | waits |
//!
//! **`turns`.** A waiting reader looks at the end of its turn, and once a turn from then on. After
//! eight looks it looks when it has waited half as long again. It keeps its place. A reader that
//! went in beside others wakes [`OPENED`] more readers that may do the same, and each of them does
//! so, too. All are in after a number of steps that grows with the logarithm of their number.
//! [`BESIDE`] in `waiter.kind` marks such readers; it is set under the wait lock.
//!
//! **The kernel's policies.** A reader is granted the lock in its sleep, and does not look. It
//! leaves the queue after [`LOOK_NS`], looks, and queues again for twice as long, up to
//! [`LAST_LOOK_NS`]. It loses its place by that, a logarithmic number of times.
//!
//! **Bound.** A reader goes in a look after `may` says so. A writer has the bound it had, plus the
//! readers that `may` lets past it. If `may` keeps readers out for longer than they hold the lock,
//! the writer gets it in that time.
//!
//! **Ordering.** Entering is the Acquire addition of [`RawRwSem::try_read_again`].

use core::cell::Cell;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::thread::{Thread, ThreadId};
use crate::wait::turn::{self, Contended, Events, Left, Look, Request};

use super::policy::{CountScheme, Policy};
use super::turns::Want;
use super::{READERS, RawRwSem, WRITER};

/// How long a reader stays in the kernel's queue before it looks whether it may go in beside
/// others.
const LOOK_NS: u64 = 2_000_000;
/// What that grows to.
const LAST_LOOK_NS: u64 = 32_000_000;
/// How many that may go in as well a reader wakes that went in.
const OPENED: usize = 2;
/// How many waiters it looks at for that.
const LOOKED_AT: usize = 64;
/// `waiter.kind`: a reader that may go in beside others. (The kernel's policies have 1 and 2.)
const BESIDE: u32 = 4;

impl<P: Platform, Y: Policy> RawRwSem<P, Y> {
    /// Takes the lock for reading unless `until` comes first.
    /// While readers hold it, a waiting caller goes in beside them as soon as it sees that `may()`
    /// says so. See the module text. (Biased policies: as [`RawRwSem::read_acquire_until`].)
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn read_acquire_beside(&self, until: Until<'_, P>, may: impl Fn() -> bool) -> Result<(), GaveUp> {
        if Y::COUNT == CountScheme::Biased {
            return self.read_acquire_until(until);
        }
        if Y::TURNS {
            return self.read_fast().or_else(|_| {
                self.turns_take_back();
                turn::acquire(&Beside { want: Want(self), may, went_in: Cell::new(false) }, until)
            });
        }
        let mut patience = LOOK_NS;
        loop {
            let look = P::now().saturating_add(patience);
            if self.read_acquire_until(until.slice(look)).is_ok() || self.go_in_beside(&may) {
                return Ok(());
            }
            if let Some(end) = until.over() {
                return Err(end);
            }
            patience = (2 * patience).min(LAST_LOOK_NS);
        }
    }

    fn go_in_beside(&self, may: &impl Fn() -> bool) -> bool {
        let count = self.count.load(Relaxed);
        let went_in = count & WRITER == 0 && count & READERS != 0 && may() && self.try_read_again();
        if went_in {
            P::count(Event::RwsemRlockSteal, 1);
        }
        went_in
    }
}

/// A reader that wants the lock in its turn or beside others.
struct Beside<'a, P: Platform, Y: Policy, F> {
    want: Want<'a, P, Y, false>,
    may: F,
    /// It took the lock beside others.
    went_in: Cell<bool>,
}

impl<P: Platform, Y: Policy, F: Fn() -> bool> Contended<P> for Beside<'_, P, Y, F> {
    const EVENTS: Events = <Want<'static, P, Y, false> as Contended<P>>::EVENTS;
    const KIND: u32 = BESIDE;
    const STRIDE_NS: (u32, u32) = <Want<'static, P, Y, false> as Contended<P>>::STRIDE_NS;

    fn wait_lock(&self) -> &RawQSpinLock<P> {
        self.want.wait_lock()
    }

    fn waiters(&self) -> &WaitQueue<P> {
        self.want.waiters()
    }

    fn osq(&self) -> &Osq<P> {
        self.want.osq()
    }

    fn owner(&self) -> Option<ThreadId> {
        self.want.owner()
    }

    fn look(&self, first: bool) -> Look {
        self.want.look(first)
    }

    fn try_take(&self, first: bool) -> bool {
        if self.want.try_take(first) {
            return true;
        }
        self.went_in.set(self.want.0.go_in_beside(&self.may));
        self.went_in.get()
    }

    fn try_or_ask(&self, request: Request) -> bool {
        self.want.try_or_ask(request)
    }

    fn ask_for_first(&self) {
        self.want.ask_for_first();
    }

    fn is_open_to(&self, first: &Thread<P>) -> bool {
        self.want.is_open_to(first)
    }

    fn unreserve(&self) {
        self.want.unreserve();
    }

    fn left(&self, left: Left) {
        self.want.left(left);
        if self.went_in.get() {
            let waiters = self.waiters();
            let all = core::iter::successors(waiters.first(), |waiter| waiters.after(waiter)).take(LOOKED_AT);
            let may = |waiter: &&Thread<P>| waiter.waiter.kind.load(Relaxed) == BESIDE && !waiter.is_notified();
            all.filter(may).take(OPENED).for_each(Thread::unpark);
        }
    }
}
