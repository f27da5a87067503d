//! The chain walk: carries a change of priority from a thread to the mutex that it waits for, to
//! the owner of that, and so on.
//!
//! ```text
//! T1 ─waits for─▶ L1 ─owned by─▶ T2 ─waits for─▶ L2 ─owned by─▶ T3 ─▶ …
//! ```
//!
//! A thread waits for one mutex at a time, so chains merge and never fork. The walk holds at most
//! two locks: a thread's and that of the mutex it waits for, then that of the mutex and its
//! owner's. Between two steps it holds nothing: a record stays what it is.
//!
//! # The order of locks
//!
//! A mutex's wait lock comes before a thread's lock. Here it is the other way round, because only
//! while the thread's lock is held can what it waits for not go away: so the second lock is only
//! tried, and if somebody has it the step begins again.
//!
//! # The chain may change under the walk
//!
//! A thread that changes it walks it itself, so a walk that meets a change ends. `next`, the mutex
//! the thread was seen to wait for one step before, is compared and never followed.
//!
//! # Deadlocks
//!
//! A waiter that queues walks to the end of the chain, whether priorities change or not. A chain
//! that leads back to the waiter, or to the mutex that it wants, is a deadlock.
//!
//! Only a waiter that queues is told. A walk that carries a change, for a thread that left or whose
//! priority was set, does not end where it meets that thread again: a waiter that closes a circle
//! that a leaver has just opened stays queued, and must stand where its priority puts it. (The
//! kernel's walk ends there.)
//!
//! A circle further down, of which the waiter is no part, is for others to find: the thread that
//! made its last link walks, too.
//!
//! **No false alarm.** Each link was true when it was seen, but not all at one time. So a cycle is
//! walked twice. Both walks note every thread's number of waits; if the notes are equal, every
//! thread of the cycle has been in the same wait since before the second walk began, and at that
//! moment all links were true. Otherwise it is walked again. (The kernel's walk takes the first
//! answer.) Only the limit of [`DEPTH`] steps can still accuse an honest chain.
//!
//! **No deadlock missed.** The last thread to close a cycle is queued before it walks, and the
//! others were before; nobody leaves a cycle except by giving up.

use super::Core;
use super::waiter::{self, Inheritance, Locked};
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::section::{exit, try_enter};

/// The longest chain that is followed.
pub const DEPTH: u32 = 1024;
/// So many links of a cycle are named.
pub const NAMED: usize = 8;
/// How often a failed try for the second lock is repeated before the CPU is given away between
/// tries.
const TRIES: u32 = 32;
/// How often a cycle that does not stand still is looked at again: one that is real stands still.
const LOOKS: u32 = 16;

/// A deadlock: threads each of which waits for a mutex that the next one owns, and the last for one
/// that the first owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    links: u32,
    /// More steps than are followed: perhaps no cycle at all.
    too_long: bool,
    threads: [u16; NAMED],
    locks: [u64; NAMED],
}

impl Cycle {
    pub(super) const fn new() -> Self {
        Self { links: 0, too_long: false, threads: [0; NAMED], locks: [0; NAMED] }
    }

    /// `thread` waits for the mutex at `lock`.
    pub(super) fn push(&mut self, thread: ThreadId, lock: u64) {
        if let (Some(name), Some(address)) =
            (self.threads.get_mut(self.links as usize), self.locks.get_mut(self.links as usize))
        {
            *name = thread.raw() as u16;
            *address = lock;
        }
        self.links += 1;
    }

    /// How many mutexes, and as many threads, it is made of. 1: the caller owns what it asked for.
    pub fn length(&self) -> u32 {
        self.links
    }

    /// Whether it is an accusation only: a chain of more than [`DEPTH`] links.
    pub fn is_unproven(&self) -> bool {
        self.too_long
    }

    /// The first [`NAMED`] links, from the one that would have closed it: a thread, and the address
    /// of the mutex that it waits for.
    pub fn links(&self) -> impl Iterator<Item = (ThreadId, u64)> + '_ {
        let named = self.threads.iter().zip(&self.locks).take(self.links as usize);
        named.filter_map(|(&name, &lock)| ThreadId::from_raw(u32::from(name)).map(|thread| (thread, lock)))
    }
}

impl core::fmt::Display for Cycle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.too_long {
            return write!(
                f,
                "deadlock suspected: a chain of more than {DEPTH} rt-mutexes, each owned by a thread that waits for the next"
            );
        }
        if let (1, Some((_, lock))) = (self.links, self.links().next()) {
            return write!(f, "deadlock: the rt-mutex at {lock:#x} is locked by the thread that asks for it");
        }
        write!(f, "deadlock of {} rt-mutexes: ", self.links)?;
        for (thread, lock) in self.links() {
            write!(f, "thread {} waits for {lock:#x}, held by ", thread.raw())?;
        }
        match self.links().next() {
            Some((first, _)) if self.links as usize <= NAMED => write!(f, "thread {}", first.raw()),
            _ => write!(f, "… {} more", self.links as usize - NAMED.min(self.links as usize)),
        }
    }
}

impl core::error::Error for Cycle {}

/// What starts a walk.
pub(super) struct Origin<'a, P: Platform> {
    /// The mutex where the change was made, if there is one. Its user is the caller, so it stays.
    pub(super) lock: Option<&'a Core<P>>,
    /// The thread that has just queued for it. None: somebody left, or a priority was changed.
    pub(super) waiter: Option<ThreadId>,
    /// The thread whose wait, or priority, is at the bottom of it.
    pub(super) top: ThreadId,
}

/// How a walk ended.
enum End {
    /// Nothing more to carry, or the chain changed.
    Done,
    /// It came back; the note tells two walks of it apart.
    Cycle(Cycle, u64),
}

/// Walks the chain from `owner`, which was seen to wait for `next`, for a thread that has just
/// queued.
pub(super) fn walk_for_waiter<P: Platform>(
    owner: &'static Thread<P>,
    next: u64,
    origin: &Origin<'_, P>,
) -> Result<(), Cycle> {
    let mut before = None;
    for _ in 0..LOOKS {
        match walk(owner, next, origin, true) {
            End::Done => return Ok(()),
            End::Cycle(cycle, note) if cycle.too_long || before == Some(note) => {
                P::count(Event::RtmutexDeadlock, 1);
                return Err(cycle);
            }
            End::Cycle(_, note) => before = Some(note),
        }
    }
    Ok(())
}

/// `thread`'s priority has changed, under `locked`: if it waits, it changes its place there, and so
/// down the chain.
pub(super) fn carry_change<P: Platform>(thread: &'static Thread<P>, locked: Locked<'_, P>) {
    let next = if locked.effective() == thread.pi.queued_priority() { 0 } else { locked.blocked_on() };
    drop(locked);
    if next != 0 {
        walk_for_change(thread, next, &Origin { lock: None, waiter: None, top: thread.id() });
    }
}

/// Walks the chain from `thread`, which was seen to wait for `next`, after its priority has
/// changed: as far as that makes a difference.
pub(super) fn walk_for_change<P: Platform>(thread: &'static Thread<P>, next: u64, origin: &Origin<'_, P>) {
    let _ = walk(thread, next, origin, false);
}

fn walk<P: Platform>(start: &'static Thread<P>, next: u64, origin: &Origin<'_, P>, detect: bool) -> End {
    let mut thread = start;
    let mut next = next;
    let mut requeue = true;
    let mut cycle = Cycle::new();
    let mut note = 0u64;
    if let (Some(lock), Some(waiter)) = (origin.lock, origin.waiter) {
        cycle.push(waiter, Inheritance::address(lock));
    }
    // A thread on the way, renewed after 1, 2, 4 … steps: met again, the chain runs in a circle.
    let mut mark = start.id();
    for step in 1..=DEPTH {
        P::count(Event::RtmutexWalk, 1);
        let mut tries = 0;
        let (locked, mutex) = loop {
            let locked = waiter::lock(thread);
            let at = locked.blocked_on();
            let ownerless = origin.waiter.is_some() && origin.lock.is_some_and(|lock| lock.owner().is_none());
            if at == 0 || at != next || ownerless {
                return End::Done;
            }
            // Whether there is still something to carry. Not asked of the donor that came last:
            // where a priority falls, another one's may be what remains.
            if thread.pi.queued_priority() == locked.effective() {
                if !detect {
                    return End::Done;
                }
                requeue = false;
            }
            // SAFETY: `blocked_on` is a mutex that its thread is in a call of. It does not return
            // before it has set this to zero, for which it needs the lock that is held here; later
            // on the mutex's own wait lock keeps it there.
            let mutex: &'static Core<P> = unsafe { &*core::ptr::with_exposed_provenance(at as usize) };
            if try_enter(&mutex.wait_lock) {
                break (locked, mutex);
            }
            drop(locked);
            P::count(Event::RtmutexWalkRetry, 1);
            // The owner of the wait lock may have been preempted.
            if tries < TRIES {
                P::relax()
            } else {
                P::nap(tries - TRIES)
            }
            tries += 1;
        };
        let mutex = Held(mutex);
        note = (note ^ u64::from(thread.id().raw()) << 32 ^ u64::from(thread.pi.waits.load(Relaxed)))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
        // Only a waiter that queues can be accused. A change is carried on: a waiter that closes a
        // circle may yet stay in it, when the thread that left has opened it again.
        if origin.waiter.is_some() {
            let closes = mutex.owner() == Some(origin.top);
            if closes || origin.lock.is_some_and(|lock| core::ptr::eq(lock, mutex.0)) {
                cycle.push(thread.id(), next);
                if !closes {
                    cycle.drop_first(); // those before us wait for each other; we only for them
                }
                return End::Cycle(cycle, note);
            }
        }
        cycle.push(thread.id(), next);
        let first = mutex.waiters.first();
        if requeue {
            mutex.waiters.remove(thread.id());
            mutex.waiters.insert(thread.id(), locked.effective());
            mutex.0.displaced(first);
        }
        drop(locked);
        let Some(owner) = mutex.owner().filter(|owner| !owner.is_anonymous()) else {
            // Free, or its owner has no record. Free and promised to a waiter that is not first any
            // more: the new first must know.
            let woken = mutex.waiters.first().filter(|_| mutex.owner().is_none() && mutex.waiters.first() != first);
            drop(mutex);
            if let Some(first) = woken {
                P::thread(first).unpark();
            }
            return End::Done;
        };
        let owner = P::thread(owner);
        let owned = waiter::lock(owner);
        if requeue {
            replace_donor(owner, &owned, &mutex, first, thread.id());
        }
        next = owned.blocked_on();
        drop(owned);
        drop(mutex);
        // In a circle that we are not part of: one of its threads is about to be told, and leaves.
        if next == 0 || owner.id() == mark {
            return End::Done;
        }
        if step.is_power_of_two() {
            mark = owner.id();
        }
        thread = owner;
    }
    cycle.too_long = true;
    End::Cycle(cycle, note)
}

/// `thread` has been requeued among the waiters of `mutex`, whose first was `before`: the owner's
/// donor follows.
fn replace_donor<P: Platform>(
    owner: &Thread<P>,
    owned: &Locked<'_, P>,
    mutex: &Core<P>,
    before: Option<ThreadId>,
    thread: ThreadId,
) {
    let now = mutex.waiters.first();
    if now == before && now != Some(thread) {
        return;
    }
    if let Some(before) = before {
        owner.remove_donor(before);
    }
    if let Some(now) = now {
        owner.insert_donor(now);
    }
    owned.settle();
}

impl Cycle {
    fn drop_first(&mut self) {
        self.links -= 1;
        self.threads.rotate_left(1);
        self.locks.rotate_left(1);
        self.threads[NAMED - 1] = 0;
    }
}

/// Holds a mutex's wait lock.
struct Held<P: Platform>(&'static Core<P>);

impl<P: Platform> core::ops::Deref for Held<P> {
    type Target = Core<P>;

    fn deref(&self) -> &Core<P> {
        self.0
    }
}

impl<P: Platform> Drop for Held<P> {
    fn drop(&mut self) {
        // SAFETY: made where the lock was acquired, once.
        unsafe { exit(&self.0.wait_lock) };
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::format;

    use super::*;

    fn cycle(links: u32) -> Cycle {
        let mut cycle = Cycle::new();
        (1..=links).for_each(|link| cycle.push(ThreadId::from_raw(link).unwrap(), u64::from(link) << 4));
        cycle
    }

    #[test]
    fn long_cycles_are_named_by_their_first_links() {
        let text = |links| format!("{}", cycle(links));
        assert_eq!(
            text(2),
            "deadlock of 2 rt-mutexes: thread 1 waits for 0x10, held by thread 2 waits for 0x20, held by thread 1"
        );
        let named = NAMED as u32;
        assert!(text(named).ends_with("thread 8 waits for 0x80, held by thread 1"));
        assert!(text(named + 3).ends_with("thread 8 waits for 0x80, held by … 3 more"));
        assert_eq!((cycle(named + 3).length(), cycle(named + 3).links().count()), (named + 3, NAMED));
    }

    #[test]
    fn a_chain_that_is_too_long_is_an_accusation() {
        let mut cycle = cycle(1);
        assert!(!cycle.is_unproven());
        cycle.too_long = true;
        assert!(cycle.is_unproven() && format!("{cycle}").contains("suspected"));
    }

    #[test]
    fn those_before_the_cycle_are_not_named() {
        let mut cycle = cycle(3);
        cycle.drop_first();
        assert_eq!(cycle.length(), 2);
        let names = cycle.links().map(|(thread, lock)| (thread.raw(), lock));
        assert!(names.eq([(2, 0x20), (3, 0x30)]));
    }
}
