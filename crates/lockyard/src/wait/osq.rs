//! The optimistic spin queue: of all the threads that spin for one sleeping lock, one looks at the
//! lock, the others at their own record.
//!
//! A cancellable MCS queue. It gives no fairness promise to the outer lock and protects no data; a
//! spinner that should stop leaves from wherever it stands.
//!
//! ```text
//! tail ──────────────────────────────┐        tail: id of the last spinner, 0 = nobody spins
//!                                    ▼
//! [head] ──next──▶ [spinner] ──next──▶ [spinner]      each node is a field of its thread's record
//!        ◀──prev──           ◀──prev──
//! ```
//!
//! | word | written by |
//! |---|---|
//! | `tail` | joining: swapped to self. leaving or cancelling last: compare-exchange self → 0 or → predecessor |
//! | `node.next` | the successor when it joins (0 → it); a cancelling successor (it → 0); a cancelling owner's predecessor link (step C); the owner takes it (it → 0) |
//! | `node.prev` | the owner when it joins; a cancelling predecessor corrects it |
//! | `node.locked` | the owner clears it before joining; the predecessor sets it: you are head |
//!
//! **Cancelling** has three steps. A: take oneself out of the predecessor's `next` (or find out
//! that one has become head after all). B: settle the own successor: put the tail back, or take
//! `next`. C: link the two neighbours. After A the predecessor cannot finish leaving: it has no
//! successor, yet is not the tail, and waits. After B the successor cannot finish its own A: our
//! `next` no longer names it. So neighbours may cancel at once; the one nearer the head goes first.
//!
//! **Ordering.** The queue protects no data, but threads write each other's nodes, and a thread
//! that has left may queue again: what others wrote for its last stay must come before what it
//! writes for the next.
//!
//! * `tail`: the swap publishes the node (Release) to whoever links itself to it (Acquire). Who
//!   cancels as last puts the predecessor back with Release, having written that one's `next`. All
//!   changes are read-modify-writes, so that every later swap acquires this; a head that leaves an
//!   empty queue need not.
//! * `next`: stored with Release, by a newcomer after its own `prev`, by one that cancels after its
//!   successor's; the owner takes it with Acquire. So a correction of `prev` comes after what it
//!   corrects (historical bug O2). Taking oneself out of it orders nothing: the tail's Release, or
//!   the new link's, comes after.
//! * `prev`: Relaxed. An old one leads to a node that does not name us.
//! * `locked`: Release/Acquire hands on what the head acquired with its link: corrections of our
//!   `prev` that we never read.
//!
//! **Bounds.** Steps A and B wait for a neighbour that is between two instructions, through
//! [`Platform::wait_window`]. **Lifetime.** Neighbours are touched after they may have left:
//! records are type-stable. A thread is in one OSQ at a time; a signal handler that interrupts it
//! there must not take a lock that spins here (it is refused: `join` is not re-entrant).
//!
//! **fork.** In a child process the tail may name a spinner of the parent. Behind that are none but
//! such: the next to join is head.
//!
//! Source: Documentation/locking/mutex-design; described in the Linux kernel since 3.15 as osq_lock
//! (an MCS queue with unqueue).

use crate::event::Event;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Patience, Platform, Word};
use crate::wait::thread::{Thread, ThreadId};

/// A thread's place in a spin queue.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct OsqNode<P: Platform> {
    next: P::U32,
    prev: P::U32,
    locked: P::U32,
    /// The owner is in some queue: refuses a nested join from a signal handler. Touched only by the
    /// owner.
    busy: P::U32,
}

impl<P: Platform> Default for OsqNode<P> {
    fn default() -> Self {
        Self { next: P::U32::default(), prev: P::U32::default(), locked: P::U32::default(), busy: P::U32::default() }
    }
}

impl<P: Platform> OsqNode<P> {
    pub(crate) const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { next: P::U32::ZERO, prev: P::U32::ZERO, locked: P::U32::ZERO, busy: P::U32::ZERO }
    }
}

/// A spin queue: one word, zero when nobody spins.
#[derive(Debug)]
#[repr(transparent)]
pub struct Osq<P: Platform> {
    tail: P::U32,
}

impl<P: Platform> Default for Osq<P> {
    fn default() -> Self {
        Self { tail: P::U32::default() }
    }
}

impl<P: Platform> Osq<P> {
    /// An empty queue, in constants.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { tail: P::U32::ZERO }
    }

    /// In a child process: those who spun are not there.
    pub(crate) fn forget(&self) {
        self.tail.store(0, Relaxed);
    }

    /// Whether somebody spins.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.tail.load(Relaxed) != 0
    }

    /// Joins as `me`; waits to become head. `false`: gave up (patience spent, predecessor off CPU),
    /// and is out of the queue. (Public for checkers.)
    #[doc(hidden)]
    pub fn join(&self, me: &Thread<P>, patience: Patience) -> bool {
        let own = &me.osq;
        let id = me.id();
        if own.busy.load(Relaxed) != 0 {
            return false;
        }
        own.busy.store(1, Relaxed);
        own.locked.store(0, Relaxed);
        own.next.store(0, Relaxed);
        let before = ThreadId::from_raw(self.tail.swap(id.raw(), AcqRel));
        let Some(mut prev) = before.filter(|&prev| P::is_here(prev)) else {
            return true;
        };
        own.prev.store(prev.raw(), Relaxed);
        P::thread(prev).osq.next.store(id.raw(), Release);
        P::count(Event::OsqWait, 1);

        // A predecessor that cancels gives us another one: look at that one's run state from then
        // on.
        loop {
            let seen = P::spin(patience.while_running(prev), || {
                if own.locked.load(Acquire) != 0 {
                    return Some(None);
                }
                let now = own.prev.load(Relaxed);
                (now != prev.raw()).then(|| ThreadId::from_raw(now))
            });
            match seen {
                Some(None) => return true,
                Some(Some(corrected)) => prev = corrected,
                None => return self.cancel(own, id),
            }
        }
    }

    /// Leaves the queue as one that may have neighbours on both sides. `true`: became head
    /// meanwhile.
    #[cold]
    fn cancel(&self, own: &OsqNode<P>, id: ThreadId) -> bool {
        // A: detach from the predecessor.
        let detached = P::wait_window(|| {
            let prev = ThreadId::from_raw(own.prev.load(Relaxed)).expect("a queued spinner has a predecessor");
            let next = &P::thread(prev).osq.next;
            if next.load(Relaxed) == id.raw() && next.compare_exchange(id.raw(), 0, Relaxed, Relaxed).is_ok() {
                return Some(Some(prev));
            }
            (own.locked.load(Acquire) != 0).then_some(None)
        });
        let Some(prev) = detached else {
            return true;
        };
        // B: settle the successor. C: link around.
        if let Some(next) = self.take_next(own, id, prev.raw()) {
            P::thread(next).osq.prev.store(prev.raw(), Relaxed);
            P::thread(prev).osq.next.store(next.raw(), Release);
        }
        own.busy.store(0, Relaxed);
        P::count(Event::OsqCancel, 1);
        false
    }

    /// Leaves as head; the successor becomes head. (Public for checkers.)
    #[doc(hidden)]
    pub fn leave(&self, me: &Thread<P>) {
        let own = &me.osq;
        let id = me.id();
        let last =
            self.tail.load(Relaxed) == id.raw() && self.tail.compare_exchange(id.raw(), 0, Relaxed, Relaxed).is_ok();
        if !last && let Some(next) = self.take_next(own, id, 0) {
            P::thread(next).osq.locked.store(1, Release);
        }
        own.busy.store(0, Relaxed);
    }

    /// Waits until it is certain who follows: nobody (the tail was put back to `restore`), or the
    /// thread returned, which can then no longer cancel against us.
    fn take_next(&self, own: &OsqNode<P>, id: ThreadId, restore: u32) -> Option<ThreadId> {
        P::wait_window(|| {
            if self.tail.load(Relaxed) == id.raw()
                && self.tail.compare_exchange(id.raw(), restore, Release, Relaxed).is_ok()
            {
                return Some(None);
            }
            let next = ThreadId::from_raw(own.next.load(Relaxed))?;
            // Taken, not read: a successor that is about to cancel against the link finds it gone.
            // If that one was quicker nothing is written.
            own.next.compare_exchange(next.raw(), 0, Acquire, Relaxed).is_ok().then_some(Some(next))
        })
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn one_spinner_is_head_at_once_and_joins_once() {
        let queue = Osq::<Linux>::new();
        let other = Osq::<Linux>::default();
        let me = Linux::current().unwrap();
        for _ in 0..3 {
            assert!(!queue.is_locked() && queue.join(me, Patience::ns(0)) && queue.is_locked());
            // A signal handler's lock: the place is taken.
            assert!(!other.join(me, Patience::ns(0)) && !other.is_locked());
            queue.leave(me);
        }
        assert!(other.join(me, Patience::ns(0)) && other.is_locked());
        // In a child process the spinner is not there.
        other.forget();
        assert!(!other.is_locked());
        me.osq.busy.store(0, Relaxed);
    }
}
