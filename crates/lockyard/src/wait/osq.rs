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
//! | `node.next` | the successor when it joins (→ it); a cancelling successor (it → 0); a cancelling owner's predecessor link (step C); the owner, or the thread that acts for it, takes it (it → 0), or marks it (0 → `VACANT`) |
//! | `node.prev` | the owner when it joins; a cancelling predecessor corrects it |
//! | `node.locked` | the owner: 0 before it joins, 0 → `ABANDONED` when it goes without having left; the predecessor: → `HEAD` |
//! | `node.busy` | the owner: `QUEUED` before it joins, 0 when it has left; `BEHIND` before `next` is marked; of the threads that would settle a marked node, one: `BEHIND` → `SETTLING` → 0, or back; the successor that finds the mark, and an owner whose successor comes after all: `BEHIND` → 0, `SETTLING` → `FOUND` (→ 0 by the settler); for an owner that has gone, the thread that acts for it: 0 |
//!
//! **Cancelling** has three steps. A: take oneself out of the predecessor's `next` (or find out
//! that one has become head after all). B: settle the own successor: put the tail back, or take
//! `next`. C: link the two neighbours. After A the predecessor finds no successor, yet is not the
//! tail, and waits. After B the successor cannot finish its own A: our `next` no longer names it.
//! So neighbours may cancel at once; the one nearer the head goes first.
//!
//! **A neighbour that does not come.** Steps A and B, and a head that leaves, wait for a neighbour
//! that is between two of its steps. It may have been stopped there, for ever perhaps. So the wait
//! ends after a millisecond or two ([`Platform::try_window`]), and the node stays behind:
//!
//! | thread | waits for | when that is late |
//! |---|---|---|
//! | a head that leaves | its successor's link | it marks `next` as `VACANT`; the successor that links itself finds the mark, is head, and clears `busy` |
//! | a spinner in A | the predecessor's step C | it marks `locked` as `ABANDONED`; the thread that makes the node head acts for it as for a head that leaves, and clears `busy` |
//! | a spinner in B | its successor's link | it links itself to the predecessor again, and does the same |
//!
//! While a thread's node is behind it joins no queue, and its record goes to no other thread. It
//! waits for its locks asleep. Exact machines, which stop no thread, wait in all three places.
//!
//! **Ordering.** The queue protects no data, but threads write each other's nodes, and a thread
//! that has left may queue again: what others wrote for its last stay must come before what it
//! writes for the next.
//!
//! * `tail`: the swap publishes the node (Release) to the thread that links itself to it (Acquire).
//!   A spinner that cancels as last puts the predecessor back with Release, having written that
//!   one's `next`. All changes are read-modify-writes, so that every later swap acquires this; a
//!   head that leaves an empty queue need not.
//! * `next`: exchanged with Release, by a newcomer after its own `prev`, by one that cancels after
//!   its successor's; the owner takes it with Acquire. So a correction of `prev` comes after what
//!   it corrects (historical bug O2). Taking oneself out of it orders nothing: the tail's Release,
//!   or the new link's, comes after. `VACANT` is set with Release and found with Acquire.
//! * `prev`: Relaxed. An old one leads to a node that does not name us.
//! * `locked`: Release/Acquire hands on what the head acquired with its link: corrections of our
//!   `prev` that we never read. `ABANDONED` hands the node to the thread that will act for it.
//! * `busy`: cleared with Release and read with Acquire: the node is its owner's again. A settler
//!   that is stopped keeps the node, not the queue.
//!
//! A spinner that cancels as last may put the tail back to a node that is `VACANT`: its successor
//! was that spinner, and will not link itself. So the spinner and the leaver both look, each behind
//! a full fence, {`tail`; fence; read `next`} against {`next`; fence; read `tail`}, and one of the
//! two takes the node out of the tail.
//!
//! **Lifetime.** Neighbours are touched after they may have left: records are type-stable. A thread
//! is in one OSQ at a time; a signal handler that interrupts it there must not take a lock that
//! spins here (it is refused: `join` is not re-entrant).
//!
//! **fork.** In a child process the tail may name a spinner of the parent. Behind that are none but
//! such: the next to join is head.
//!
//! Source: Documentation/locking/mutex-design; described in the Linux kernel since 3.15 as osq_lock
//! (an MCS queue with unqueue).

use crate::event::Event;
use crate::platform::record::OsqNode;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Patience, Platform, Word};

/// In `busy`: the node is in a queue.
const QUEUED: u32 = 1;
/// In `busy`: the node is marked [`VACANT`], or about to be.
const BEHIND: u32 = 2;
/// In `busy`: a thread settles the marked node.
const SETTLING: u32 = 3;
/// In `busy`: meanwhile there is nothing to settle.
const FOUND: u32 = 4;
/// In `next`: the owner has left as head, and its successor had not linked itself. No thread's
/// name.
const VACANT: u32 = ThreadId::ANONYMOUS.raw();

/// In `locked`: the owner is head.
const HEAD: u32 = 1;
/// In `locked`: the owner has gone, and its node is still linked.
const ABANDONED: u32 = 2;

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

    /// In a child process: forgets the parent's spinners.
    pub(crate) fn forget(&self) {
        self.tail.store(0, Relaxed);
    }

    /// Whether somebody spins.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.tail.load(Relaxed) != 0
    }

    /// Joins as `me`; waits to become head. `false`: gave up (patience spent, predecessor off CPU),
    /// and is out of the queue, or its node was left behind. (Public for checkers.)
    #[doc(hidden)]
    pub fn join(&self, me: &Thread<P>, patience: Patience) -> bool {
        let own = &me.osq;
        let id = me.id();
        if own.busy.load(Acquire) != 0 {
            return false;
        }
        own.busy.store(QUEUED, Relaxed);
        own.locked.store(0, Relaxed);
        own.next.store(0, Relaxed);
        let before = ThreadId::from_raw(self.tail.swap(id.raw(), AcqRel));
        let Some(mut prev) = before.filter(|&prev| P::is_here(prev)) else {
            return true;
        };
        own.prev.store(prev.raw(), Relaxed);
        if !Self::link(prev, id) {
            return true;
        }
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
        let detached = Self::window(|| {
            let prev = ThreadId::from_raw(own.prev.load(Relaxed)).expect("a queued spinner has a predecessor");
            let next = &P::thread(prev).osq.next;
            if next.load(Relaxed) == id.raw() && next.compare_exchange(id.raw(), 0, Relaxed, Relaxed).is_ok() {
                return Some(Some(prev));
            }
            (own.locked.load(Acquire) != 0).then_some(None)
        });
        let prev = match detached {
            Some(Some(prev)) => prev,
            Some(None) => return true,
            None => return Self::abandon(own),
        };
        // B: settle the successor. C: link around.
        match self.take_next(own, id, prev.raw()) {
            Some(None) => self.settle_restored(prev),
            Some(Some(next)) => {
                P::thread(next).osq.prev.store(prev.raw(), Relaxed);
                if !Self::link(prev, next) {
                    self.make_head(next);
                }
            }
            None => return !Self::link(prev, id) || Self::abandon(own),
        }
        own.busy.store(0, Release);
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
        if last {
            own.busy.store(0, Release);
        } else {
            self.pass_on(id);
        }
    }

    /// The head with the name `id` leaves. Called by it, or for it after it has gone.
    fn pass_on(&self, mut id: ThreadId) {
        let mut behind = false;
        loop {
            let own = &P::thread(id).osq;
            match self.take_next(own, id, 0) {
                Some(next) => {
                    let gone = next.filter(|&next| Self::grant(next));
                    if behind {
                        Self::is_out(own);
                    } else {
                        own.busy.store(0, Release);
                    }
                    match gone {
                        Some(next) => (id, behind) = (next, false),
                        None => return,
                    }
                }
                None => {
                    if !behind {
                        own.busy.store(BEHIND, Relaxed);
                        behind = true;
                    }
                    if own.next.compare_exchange(0, VACANT, Release, Relaxed).is_ok() {
                        // See `settle_restored`.
                        P::fence();
                        return self.settle_last(id);
                    }
                    // It has linked itself meanwhile.
                }
            }
        }
    }

    /// The tail was put back to `prev`, which may have marked its node before that: nobody will
    /// find the mark.
    fn settle_restored(&self, prev: ThreadId) {
        if Self::is_exact() {
            return;
        }
        // {tail; fence; read `next`} against {mark; fence; read tail}: one of the two sees the
        // other.
        P::fence();
        if P::thread(prev).osq.next.load(Acquire) == VACANT {
            self.settle_last(prev);
        }
    }

    /// If the marked node `id` is the tail nobody follows, and the node is its owner's again.
    ///
    /// One thread at a time, by `SETTLING`: a second would find the owner's name as the tail when
    /// the owner has queued again.
    fn settle_last(&self, id: ThreadId) {
        let node = &P::thread(id).osq;
        let marked = || node.next.load(Acquire) == VACANT;
        while self.tail.load(Relaxed) == id.raw()
            && marked()
            && node.busy.compare_exchange(BEHIND, SETTLING, AcqRel, Relaxed).is_ok()
        {
            // Looked at again: the mark that was seen may be that of an earlier stay. This one's
            // stays, as does the node, until `busy` is 0.
            let last = marked() && self.tail.compare_exchange(id.raw(), 0, AcqRel, Relaxed).is_ok();
            if last || node.busy.compare_exchange(SETTLING, BEHIND, AcqRel, Relaxed) == Err(FOUND) {
                return node.busy.store(0, Release);
            }
            // {`busy`; fence; read tail and `next`} against {tail or `next`; fence; `busy`} of a
            // thread that was refused.
            P::fence();
        }
    }

    /// A node that was `BEHIND` has no successor to wait for, and is its owner's again: at once, or
    /// when the thread that would settle it has seen that there is nothing to settle.
    fn is_out(node: &OsqNode<P>) {
        let mut busy = node.busy.load(Relaxed);
        while let Err(found) =
            node.busy.compare_exchange(busy, if busy == SETTLING { FOUND } else { 0 }, Release, Relaxed)
        {
            busy = found;
            P::relax();
        }
    }

    /// The spinner `next` is head.
    fn make_head(&self, next: ThreadId) {
        if Self::grant(next) {
            self.pass_on(next);
        }
    }

    /// Tells `next` that it is head. `true`: it has gone, and the caller acts for it.
    fn grant(next: ThreadId) -> bool {
        let locked = &P::thread(next).osq.locked;
        if Self::is_exact() {
            locked.store(HEAD, Release);
            return false;
        }
        locked.swap(HEAD, AcqRel) == ABANDONED
    }

    /// Makes `id` the successor of `prev`. `false`: that one has left as head, and left its node to
    /// `id`, which is head.
    fn link(prev: ThreadId, id: ThreadId) -> bool {
        let node = &P::thread(prev).osq;
        if Self::is_exact() {
            node.next.store(id.raw(), Release);
            return true;
        }
        // The mark stays: a spinner must not find its name in a node that is its owner's again.
        let linked = node.next.compare_exchange(0, id.raw(), AcqRel, Acquire).is_ok();
        if !linked {
            Self::is_out(node);
        }
        linked
    }

    /// Goes, and leaves its node in the queue. `true`: became head meanwhile.
    fn abandon(own: &OsqNode<P>) -> bool {
        let gone = own.locked.compare_exchange(0, ABANDONED, AcqRel, Acquire).is_ok();
        P::count(Event::OsqCancel, i64::from(gone));
        !gone
    }

    /// Waits until the successor is certain: none (`Some(None)`; the tail was put back to
    /// `restore`), or the thread returned, which can then no longer cancel against us. `None`: that
    /// takes too long.
    fn take_next(&self, own: &OsqNode<P>, id: ThreadId, restore: u32) -> Option<Option<ThreadId>> {
        Self::window(|| {
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

    /// Whether the machine stops no thread between two of its steps.
    fn is_exact() -> bool {
        P::spin_budget() == u32::MAX
    }

    /// Waits for a neighbour to finish a few steps; not for ever.
    fn window<T>(ready: impl FnMut() -> Option<T>) -> Option<T> {
        if Self::is_exact() { Some(P::wait_window(ready)) } else { P::try_window(ready) }
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

    /// The mark that made a thread come to settle may be that of an earlier stay.
    #[test]
    fn a_node_is_settled_by_the_mark_of_its_present_stay() {
        let queue = Osq::<Linux>::new();
        let me = Linux::current().unwrap();
        let state = || (queue.tail.load(Relaxed), me.osq.busy.load(Relaxed));
        queue.tail.store(me.id().raw(), Relaxed);
        me.osq.busy.store(BEHIND, Relaxed);
        me.osq.next.store(0, Relaxed);
        queue.settle_last(me.id());
        assert_eq!(state(), (me.id().raw(), BEHIND), "it is not marked yet");
        me.osq.next.store(VACANT, Relaxed);
        queue.settle_last(me.id());
        assert_eq!(state(), (0, 0));
    }

    #[test]
    fn a_node_without_a_successor_to_wait_for_is_free_when_nobody_settles_it() {
        let me = Linux::current().unwrap();
        for (before, after) in [(BEHIND, 0), (SETTLING, FOUND), (0, 0)] {
            me.osq.busy.store(before, Relaxed);
            Osq::<Linux>::is_out(&me.osq);
            assert_eq!(me.osq.busy.load(Relaxed), after);
        }
        me.osq.busy.store(0, Relaxed);
    }
}
