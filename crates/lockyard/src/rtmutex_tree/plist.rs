//! The priority-sorted list: threads by priority, first come first served among equals.
//!
//! Two rings run through the nodes. Every node is in the first, in order. The second joins the
//! *head* of each level, a level being all nodes of one priority:
//!
//! ```text
//! all:     ┌─▶ A50 ─▶ B50 ─▶ C20 ─▶ D0 ─▶ E0 ─▶ F0 ─┐
//!          └────────────────────────────────────────┘
//! levels:  ┌─▶ A50 ────────▶ C20 ─▶ D0 ─────────────┐
//!          └────────────────────────────────────────┘
//! ```
//!
//! **Why not a balanced tree.** Priorities are 0 to 99. Inserting walks the levels, never the
//! nodes: at most 100 steps however many threads wait, and one or two in practice; removing and
//! finding the first take a fixed number. A tree orders any keys in log n steps, but rebalances
//! under the very lock on which real-time threads wait, and needs a colour or a weight and a page
//! of cases more. Equal keys, the usual case, are its worst: all of them are compared, and only the
//! order of insertion keeps them apart.
//!
//! Nodes are fields of the thread records, linked by name (see
//! [`platform::thread`](crate::platform::thread)): nothing is allocated, and a stale name leads to
//! a record, never to freed memory.
//!
//! **Who may write.** Everything changes under the lock that the list's owner says protects it; all
//! accesses are Relaxed. `first` alone is also read without it, and only compared.

use crate::platform::record::Node;
use crate::platform::thread::ThreadId;
use crate::platform::{Ordering::*, Platform, Word};

pub(crate) use crate::platform::record::{DONATING, PriorityList, WAITING_FOR as WAITING};

impl<P: Platform> Node<P> {
    /// The priority by which it was inserted last.
    pub(crate) fn priority(&self) -> u32 {
        self.priority.load(Relaxed)
    }

    /// Whether it is in a list.
    pub(crate) fn is_linked(&self) -> bool {
        self.next.load(Relaxed) != 0
    }
}

impl<P: Platform, const PLACE: usize> PriorityList<P, PLACE> {
    fn node(name: u32) -> &'static Node<P> {
        // Zero cannot occur: links of listed threads name listed threads. Record 1 stands in, so
        // that there is no panic here.
        let id = ThreadId::from_raw(name).unwrap_or(const { ThreadId::from_raw(1).unwrap() });
        &P::thread(id).pi.nodes[PLACE]
    }

    /// The first: highest priority, and among those the one that has been in the list longest.
    pub(crate) fn first(&self) -> Option<ThreadId> {
        ThreadId::from_raw(self.first.load(Relaxed))
    }

    /// Whether `thread` is first. Without the lock: a hint, for which nothing but the name is
    /// looked at.
    pub(crate) fn is_first(&self, thread: ThreadId) -> bool {
        self.first.load(Relaxed) == thread.raw()
    }

    /// The priority of the first.
    pub(crate) fn top_priority(&self) -> Option<u32> {
        self.first().map(|first| Self::node(first.raw()).priority())
    }

    /// The one behind `thread`, unless it is the last.
    pub(crate) fn after(&self, thread: ThreadId) -> Option<ThreadId> {
        let next = Self::node(thread.raw()).next.load(Relaxed);
        if next == self.first.load(Relaxed) { None } else { ThreadId::from_raw(next) }
    }

    /// Inserts `thread`, which is in no list through this node, behind everybody of its priority.
    pub(crate) fn insert(&self, thread: ThreadId, priority: u32) {
        let name = thread.raw();
        let own = Self::node(name);
        own.priority.store(priority, Relaxed);
        let first = self.first.load(Relaxed);
        if first == 0 {
            for link in [&own.next, &own.prev, &own.below, &own.above] {
                link.store(name, Relaxed);
            }
            self.first.store(name, Relaxed);
            return;
        }
        let mut head = first;
        loop {
            let level = Self::node(head);
            let below = level.below.load(Relaxed);
            if level.priority() == priority {
                // The level's last: in front of the next one's head, or of the first.
                own.below.store(0, Relaxed);
                return self.link(name, below);
            }
            if level.priority() < priority {
                if head == first {
                    self.first.store(name, Relaxed);
                }
                return self.link_level(name, head);
            }
            if below == first {
                // Below all others: behind the last, which in a ring is in front of the first.
                return self.link_level(name, first);
            }
            head = below;
        }
    }

    /// Takes `thread` out, which is in this list.
    pub(crate) fn remove(&self, thread: ThreadId) {
        let name = thread.raw();
        let own = Self::node(name);
        let [next, prev, below] = [&own.next, &own.prev, &own.below].map(|link| link.load(Relaxed));
        if below != 0 {
            self.unlink_level(name, next, below);
        }
        if next == name {
            self.first.store(0, Relaxed);
        } else {
            Self::node(prev).next.store(next, Relaxed);
            Self::node(next).prev.store(prev, Relaxed);
            if self.first.load(Relaxed) == name {
                self.first.store(next, Relaxed);
            }
        }
        own.next.store(0, Relaxed);
        own.below.store(0, Relaxed);
    }

    /// Links `name` in front of `next`.
    fn link(&self, name: u32, next: u32) {
        let own = Self::node(name);
        let prev = Self::node(next).prev.load(Relaxed);
        own.prev.store(prev, Relaxed);
        own.next.store(next, Relaxed);
        Self::node(prev).next.store(name, Relaxed);
        Self::node(next).prev.store(name, Relaxed);
    }

    /// Links `name` in front of the head `next`, as the head of a new level.
    fn link_level(&self, name: u32, next: u32) {
        self.link(name, next);
        let own = Self::node(name);
        let above = Self::node(next).above.load(Relaxed);
        own.above.store(above, Relaxed);
        own.below.store(next, Relaxed);
        Self::node(above).below.store(name, Relaxed);
        Self::node(next).above.store(name, Relaxed);
    }

    /// The head `name` leaves: the next of its level, if there is one, becomes its head.
    fn unlink_level(&self, name: u32, next: u32, below: u32) {
        let above = Self::node(name).above.load(Relaxed);
        if next == name {
            return; // the last of all
        }
        if next == below {
            Self::node(above).below.store(below, Relaxed);
            Self::node(below).above.store(above, Relaxed);
            return;
        }
        let heir = Self::node(next);
        if below == name {
            heir.below.store(next, Relaxed); // the only level
            heir.above.store(next, Relaxed);
            return;
        }
        heir.below.store(below, Relaxed);
        heir.above.store(above, Relaxed);
        Self::node(above).below.store(next, Relaxed);
        Self::node(below).above.store(next, Relaxed);
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::platform::linux::{Linux, threads};

    /// Names that no thread of a test program gets.
    const FROM: u32 = 0xf000;

    fn name(number: u32) -> ThreadId {
        ThreadId::from_raw(FROM + number).unwrap()
    }

    fn names(list: &PriorityList<Linux, WAITING>) -> Vec<ThreadId> {
        core::iter::successors(list.first(), |&thread| list.after(thread)).collect()
    }

    /// Against a vector that is kept sorted, with heads and tails, single levels and many.
    #[test]
    fn is_what_a_sorted_vector_is() {
        (0..40).for_each(|number| assert!(threads::borrow(name(number)).is_some()));
        for levels in [1, 2, 5, 100] {
            let list = PriorityList::<Linux, WAITING>::default();
            let mut model: Vec<(u32, ThreadId)> = Vec::new();
            let mut state = 0x9e37_79b9_7f4a_7c15u64 + u64::from(levels);
            let mut draw = |sides: u32| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 33) as u32 % sides
            };
            for _ in 0..20_000 {
                let thread = name(draw(40));
                match model.iter().position(|entry| entry.1 == thread) {
                    Some(place) => {
                        model.remove(place);
                        list.remove(thread);
                    }
                    None => {
                        let priority = draw(levels);
                        let place = model.iter().position(|entry| entry.0 < priority).unwrap_or(model.len());
                        model.insert(place, (priority, thread));
                        list.insert(thread, priority);
                    }
                }
                assert_eq!(names(&list), model.iter().map(|entry| entry.1).collect::<Vec<_>>());
                assert_eq!(list.top_priority(), model.first().map(|entry| entry.0));
                assert!((0..40).all(|number| {
                    let listed = model.iter().any(|entry| entry.1 == name(number));
                    PriorityList::<Linux, WAITING>::node(name(number).raw()).is_linked() == listed
                }));
            }
            model.iter().for_each(|entry| list.remove(entry.1));
        }
    }
}
