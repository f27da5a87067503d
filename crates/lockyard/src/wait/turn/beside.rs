//! A reader that wants a lock in its turn, or *beside* its holders: where one reader waits for
//! another.
//!
//! A reader that holds the lock may wait for a second reader, of another thread. If a writer waits
//! as well, and the lock keeps the second reader out for it, none of the three goes on. POSIX's
//! default rwlocks admit the second reader. A lock that admits every reader starves writers. So the
//! embedder says when the writer's time is over: `may()`.
//!
//! | the reader sees | `may()` | what it does |
//! |---|---|---|
//! | no writer holds, nothing forbids it | not asked | takes the lock, as ever |
//! | readers hold, a request forbids it | yes | is counted: it is in, past all waiters; their requests stay |
//! | readers hold, a request forbids it | no | waits |
//! | a writer holds | not asked | waits |
//!
//! A waiting reader looks at the end of its turn, and once a turn from then on. After eight looks
//! it looks when it has waited half as long again. It keeps its place. A reader that went in beside
//! others wakes [`OPENED`] more readers that may do the same, and each of them does so, too. All
//! are in after a number of steps that grows with the logarithm of their number. [`BESIDE`] in
//! `waiter.kind` marks such readers; it is set under the wait lock.
//!
//! **Bound.** A reader goes in a look after `may` says so. A writer has the bound it had, plus the
//! readers that `may` lets past it. If `may` keeps readers out for longer than they hold the lock,
//! the writer gets it in that time.

use core::cell::Cell;

use super::{Contended, Events, Left, Look, Request, parts_of};
use crate::platform::thread::Thread;
use crate::platform::{Ordering::*, Platform, Word};

/// How many that may go in as well a reader wakes that went in.
const OPENED: usize = 2;
/// How many waiters it looks at for that.
const LOOKED_AT: usize = 64;
/// `waiter.kind`: a reader that may go in beside others. (Locks have 1 and 2.)
const BESIDE: u32 = 4;

/// A reader of a lock that readers share.
pub(crate) trait Shares {
    /// Takes the lock past all waiters, if readers hold it and `may` says so.
    fn go_in_beside(&self, may: &impl Fn() -> bool) -> bool;
}

/// A reader that wants the lock in its turn or beside others.
pub(crate) struct Beside<W, F> {
    want: W,
    may: F,
    /// It took the lock beside others.
    went_in: Cell<bool>,
}

impl<W, F> Beside<W, F> {
    pub(crate) fn new(want: W, may: F) -> Self {
        Self { want, may, went_in: Cell::new(false) }
    }
}

impl<P: Platform, W: Contended<P> + Shares, F: Fn() -> bool> Contended<P> for Beside<W, F> {
    const EVENTS: Events = W::EVENTS;
    const KIND: u32 = BESIDE;
    const SHARED: bool = W::SHARED;
    const STRIDE_NS: (u32, u32) = W::STRIDE_NS;

    parts_of!(want);

    fn look(&self, first: bool) -> Look {
        self.want.look(first)
    }

    fn try_take(&self, first: bool) -> bool {
        if self.want.try_take(first) {
            return true;
        }
        self.went_in.set(self.want.go_in_beside(&self.may));
        self.went_in.get()
    }

    fn try_or_ask(&self, request: Request) -> bool {
        self.want.try_or_ask(request)
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
