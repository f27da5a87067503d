//! The FIFO of sleeping waiters: links in the thread records, first waiter in the lock.
//!
//! A thread sleeps for at most one lock at a time, so its place in the queue is a field of its
//! record: no memory of the waiter's stack is ever reachable from the lock, and a record outlives
//! every wait. The queue is a ring by name: `first` names the first waiter (0 = empty), `next` and
//! `prev` the neighbours; `first.prev` is the last.
//!
//! **Who may write.** `first`, `next`, `prev` and the waiter's plain fields change only under the
//! owning lock's `wait_lock`, which orders them; all accesses are Relaxed. `granted` is the
//! exception: set by a granter under the wait lock with Release, read by the waiter without it,
//! with Acquire: what the granter (and the last holder) wrote is then visible.
//!
//! **Order.** First come, first served, but a thread of fixed priority ([`Platform::rank`]) queues
//! before all of lower rank.
//!
//! **fork.** In a child process the links may name waiters of the parent: ghosts, which
//! [`Platform::is_here`] tells. A thread of the child that queues is linked to threads of the child
//! only, so a queue whose first waiter is a ghost consists of ghosts: it counts as empty, and the
//! next to queue begins it anew.
//!
//! **Lifetime.** From the moment `granted` is set the waiter may return and wait elsewhere: a
//! granter has unlinked it before and reads nothing of it afterwards but the name.

use crate::platform::record::{Link, MostlyRead};
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};

/// Which of a thread's two places: in a lock's queue, or in the list of a cancellation token.
pub(crate) const LOCK: usize = 0;
/// See [`LOCK`].
pub(crate) const TOKEN: usize = 1;

impl<P: Platform> MostlyRead<P> {
    const MOST: u32 = 16;

    /// Notes that a reader, or a writer, was in the way at the lock with this key. Whether it is
    /// mostly readers there.
    pub(crate) fn observe(&self, key: u64, reader: bool) -> bool {
        let known = self.word.load(Relaxed);
        let lock = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 & !0xff;
        let level = if known & !0xff == lock { known & 0xff } else { 0 };
        let level = if reader { (level + 1).min(Self::MOST) } else { level.saturating_sub(4) };
        self.word.store(lock | level, Relaxed);
        level >= Self::MOST / 2
    }
}

/// A queue of threads through their `PLACE` links. All-zero is empty.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct WaitQueue<P: Platform, const PLACE: usize = LOCK> {
    first: P::U32,
}

impl<P: Platform, const PLACE: usize> Default for WaitQueue<P, PLACE> {
    fn default() -> Self {
        Self { first: P::U32::default() }
    }
}

impl<P: Platform, const PLACE: usize> WaitQueue<P, PLACE> {
    pub(crate) const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { first: P::U32::ZERO }
    }

    fn link(id: u32) -> &'static Link<P> {
        // Zero cannot occur: links of queued threads name queued threads. Record 1 stands in, so
        // that there is no panic here.
        let id = ThreadId::from_raw(id).unwrap_or(const { ThreadId::from_raw(1).unwrap() });
        &P::thread(id).waiter.links[PLACE]
    }

    /// In a child process: forgets the parent's waiters.
    pub(crate) fn forget(&self) {
        self.first.store(0, Relaxed);
    }

    /// The number of the first waiter; 0: nobody of this process waits.
    #[inline]
    fn head(&self) -> u32 {
        match ThreadId::from_raw(self.first.load(Relaxed)) {
            Some(first) if P::is_here(first) => first.raw(),
            _ => 0,
        }
    }

    /// Whether nobody waits. Exact under the wait lock, a hint without it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.load(Relaxed) == 0 || self.head() == 0
    }

    /// Whether anybody may wait: a load, which finds the parent's waiters after a fork as well.
    #[inline(always)]
    pub(crate) fn is_marked(&self) -> bool {
        self.first.load(Relaxed) != 0
    }

    /// The first waiter.
    #[inline]
    pub(crate) fn first(&self) -> Option<&'static Thread<P>> {
        ThreadId::from_raw(self.head()).map(P::thread)
    }

    /// The last waiter.
    pub(crate) fn last(&self) -> Option<&'static Thread<P>> {
        let first = ThreadId::from_raw(self.head())?;
        ThreadId::from_raw(Self::link(first.raw()).prev.load(Relaxed)).map(P::thread)
    }

    /// Whether `thread` is first. A hint without the wait lock.
    #[inline]
    pub(crate) fn is_first(&self, thread: &Thread<P>) -> bool {
        self.first.load(Relaxed) == thread.id().raw()
    }

    /// Whether `thread` is the only waiter.
    pub(crate) fn is_only(&self, thread: &Thread<P>) -> bool {
        self.is_first(thread) && Self::link(thread.id().raw()).next.load(Relaxed) == thread.id().raw()
    }

    /// The waiter behind `thread`, unless it is the last.
    pub(crate) fn after(&self, thread: &Thread<P>) -> Option<&'static Thread<P>> {
        let next = Self::link(thread.id().raw()).next.load(Relaxed);
        (next != self.first.load(Relaxed)).then(|| ThreadId::from_raw(next)).flatten().map(P::thread)
    }

    /// Puts `thread` behind all of its rank or a higher one. `true`: it is the first.
    pub(crate) fn push(&self, thread: &Thread<P>) -> bool {
        let before = match P::rank(thread.id()) {
            0 => None,
            rank => core::iter::successors(self.first(), |waiter| self.after(waiter))
                .find(|waiter| P::rank(waiter.id()) < rank),
        };
        self.insert(thread, before)
    }

    /// Puts `thread` behind all others. `true`: it is the first.
    pub(crate) fn append(&self, thread: &Thread<P>) -> bool {
        self.insert(thread, None)
    }

    fn insert(&self, thread: &Thread<P>, before: Option<&Thread<P>>) -> bool {
        let id = thread.id().raw();
        let own = Self::link(id);
        let first = self.head();
        if first == 0 {
            own.next.store(id, Relaxed);
            own.prev.store(id, Relaxed);
            self.first.store(id, Relaxed);
            return true;
        }
        // In a ring, behind the last is before the first.
        let next = before.map_or(first, |waiter| waiter.id().raw());
        let mut last = Self::link(next).prev.load(Relaxed);
        if ThreadId::from_raw(last).is_some_and(|last| !P::is_here(last)) {
            // A thread that forked in a signal handler while it was first: its neighbours are
            // ghosts.
            Self::link(next).next.store(next, Relaxed);
            last = next;
        }
        own.prev.store(last, Relaxed);
        own.next.store(next, Relaxed);
        Self::link(last).next.store(id, Relaxed);
        Self::link(next).prev.store(id, Relaxed);
        let leads = before.is_some() && next == first;
        if leads {
            self.first.store(id, Relaxed);
        }
        leads
    }

    /// Takes `thread` out, which is queued. `true`: the queue is now empty.
    pub(crate) fn remove(&self, thread: &Thread<P>) -> bool {
        let id = thread.id().raw();
        let own = Self::link(id);
        let (next, prev) = (own.next.load(Relaxed), own.prev.load(Relaxed));
        if next == id {
            self.first.store(0, Relaxed);
            return true;
        }
        Self::link(prev).next.store(next, Relaxed);
        Self::link(next).prev.store(prev, Relaxed);
        if self.first.load(Relaxed) == id {
            self.first.store(next, Relaxed);
        }
        false
    }
}

/// Threads to wake once the wait lock is dropped. Holds names, so the threads may be anywhere by
/// then.
#[derive(Debug)]
pub(crate) struct WakeList<const N: usize> {
    names: [u16; N],
    len: usize,
}

impl<const N: usize> WakeList<N> {
    pub(crate) const fn new() -> Self {
        Self { names: [0; N], len: 0 }
    }

    #[cfg(feature = "history")]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a thread. More than `N` do not occur: each user's list has room for the most it wakes
    /// at once.
    pub(crate) fn push(&mut self, thread: ThreadId) {
        if let Some(slot) = self.names.get_mut(self.len) {
            *slot = thread.raw() as u16;
            self.len += 1;
        }
    }

    /// Wakes them all, in order.
    pub(crate) fn wake<P: Platform>(&mut self) {
        for &name in self.names.iter().take(self.len) {
            if let Some(id) = ThreadId::from_raw(u32::from(name)) {
                P::thread(id).unpark();
            }
        }
        self.len = 0;
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn a_lock_is_mostly_read_where_four_in_five_are_readers() {
        let known = MostlyRead::<Linux>::default();
        let reads = |key: u64, count: u32| (0..count).map(|_| known.observe(key, true)).last().unwrap();
        let writes = |key: u64, count: u32| (0..count).map(|_| known.observe(key, false)).last().unwrap();
        assert!(!reads(0x1000, 7) && reads(0x1000, 1));
        // Above sixteen it does not rise, and each writer costs four.
        assert!(reads(0x1000, 100) && writes(0x1000, 2) && !writes(0x1000, 1) && !reads(0x1000, 3) && reads(0x1000, 1));
        // Below zero it does not fall.
        assert!(!writes(0x1000, 100) && !reads(0x1000, 7) && reads(0x1000, 1));
        // One lock is remembered.
        assert!(!reads(0x2000, 7) && reads(0x2000, 1) && !reads(0x1000, 7) && reads(0x1000, 1));
    }

    #[test]
    fn a_list_wakes_as_many_as_it_has_room_for() {
        let me = Linux::current().unwrap();
        // Whatever the record's last thread has left.
        me.unpark();
        me.park(None);
        let mut wakes = WakeList::<1>::new();
        assert!(wakes.is_empty());
        wakes.wake::<Linux>();
        assert!(!me.is_notified());
        wakes.push(me.id());
        wakes.push(me.id());
        assert!(!wakes.is_empty() && !me.is_notified());
        wakes.wake::<Linux>();
        assert!(wakes.is_empty() && me.is_notified());
        // The wake-up is pending: it ends the next sleep, and that only.
        me.park(None);
        assert!(!me.is_notified());
        wakes.wake::<Linux>();
        assert!(!me.is_notified());
    }
}
