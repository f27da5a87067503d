//! A thread's part in priority inheritance: what it waits for, which threads lend to it, and how
//! urgent it is.
//!
//! It is a field of the thread record, so the chain walk, a booster and a spinner may look at it at
//! any time: it is never unmapped.
//!
//! | field | what | protected by |
//! |---|---|---|
//! | `nodes[WAITING]` | the place among the waiters of the mutex it wants | that mutex's wait lock; the priority in it also by `lock`: it changes under both |
//! | `nodes[DONATING]` | the place among the threads that lend to the owner of that mutex | the owner's `lock`, and the wait lock |
//! | `donors` | for every mutex that it owns: the first waiter | `lock` |
//! | `blocked_on` | the mutex it waits for; zero: none | `lock` |
//! | `base`, `effective` | priority without and with inheritance | `lock` |
//! | `keeps` | it has yet to wake the one it released to: its priority does not fall meanwhile | `lock` |
//! | `passed` | how often its equals have passed it while it was first | the wait lock |
//! | `waits` | how many waits it has begun | `lock` |
//! | `requeue` | what a condition variable has done with it | the condition variable's lock |
//! | `held` | own-tree mutexes that it holds; keeps the record from changing hands | its thread, or the thread that acts for it when it has gone |
//!
//! Each list has its own copy of the priority, written only while the node is outside it. (One copy
//! for both was a kernel bug: changing it for one list broke the order of the other.)

use super::Core;
use super::plist::{DONATING, WAITING};
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::section::{enter, exit};

pub(crate) use crate::platform::record::Inheritance;

impl<P: Platform> Inheritance<P> {
    /// What protects the rest.
    pub(super) fn lock(&self) -> &RawQSpinLock<P> {
        RawQSpinLock::on(&self.lock)
    }

    /// The name of `mutex` in `blocked_on`.
    pub(super) fn address(mutex: &Core<P>) -> u64 {
        core::ptr::from_ref(mutex).expose_provenance() as u64
    }

    /// Priority without and with inheritance, and whether the latter may be higher than the donors
    /// explain. For the audit.
    pub(super) fn priorities(&self) -> (u32, u32, bool) {
        let [base, effective, keeps] = [&self.base, &self.effective, &self.keeps].map(|word| word.load(Relaxed));
        (base, effective, keeps != 0)
    }

    /// The priority that the thread was last given in a list of waiters.
    pub(super) fn queued_priority(&self) -> u32 {
        self.nodes[WAITING].priority()
    }
}

/// Holds a thread's `lock`: what may be done with the rest under it.
#[derive(Debug)]
pub(super) struct Locked<'a, P: Platform> {
    thread: &'a Thread<P>,
}

impl<P: Platform> Drop for Locked<'_, P> {
    fn drop(&mut self) {
        // SAFETY: `lock` acquired it, and this value is the only one that stands for that.
        unsafe { exit(self.thread.pi.lock()) };
    }
}

/// Locks a thread's part in priority inheritance.
pub(super) fn lock<P: Platform>(thread: &Thread<P>) -> Locked<'_, P> {
    enter(thread.pi.lock());
    Locked { thread }
}

impl<P: Platform> Locked<'_, P> {
    /// The mutex that the thread waits for; zero: none.
    pub(super) fn blocked_on(&self) -> u64 {
        self.thread.pi.blocked_on.load(Relaxed)
    }

    /// The priority with which the thread runs and waits. Asks the scheduler unless something is
    /// lent: then what its program set comes back when that ends.
    pub(super) fn priority(&self) -> u32 {
        let pi = &self.thread.pi;
        let effective = pi.effective.load(Relaxed);
        if effective != pi.base.load(Relaxed) {
            return effective;
        }
        let now = P::priority(self.thread.id());
        if now != effective {
            pi.base.store(now, Relaxed);
            pi.effective.store(now, Relaxed);
        }
        now
    }

    /// The priority without inheritance.
    pub(super) fn own_priority(&self) -> u32 {
        self.priority();
        self.thread.pi.base.load(Relaxed)
    }

    /// The priority with which the thread runs and waits, as it was last set or asked for.
    pub(super) fn effective(&self) -> u32 {
        self.thread.pi.effective.load(Relaxed)
    }

    /// Whether it has a priority that is not its own.
    pub(super) fn is_lent(&self) -> bool {
        self.effective() != self.thread.pi.base.load(Relaxed)
    }

    /// Sets the priority without inheritance. `false`: the machine refused.
    pub(super) fn set_base(&self, base: u32) -> bool {
        self.priority();
        self.thread.pi.base.store(base, Relaxed);
        let wanted = self.wanted();
        self.thread.pi.effective.store(wanted, Relaxed);
        self.apply(base, wanted)
    }

    /// Brings the effective priority up to date: the higher of the base and of the first donor's.
    pub(super) fn settle(&self) {
        let before = self.priority();
        let wanted = self.wanted();
        if wanted == before || wanted < before && self.thread.pi.keeps.load(Relaxed) != 0 {
            return;
        }
        P::count(if wanted > before { Event::RtmutexBoost } else { Event::RtmutexDeboost }, 1);
        self.thread.pi.effective.store(wanted, Relaxed);
        self.apply(self.thread.pi.base.load(Relaxed), wanted);
    }

    fn wanted(&self) -> u32 {
        let pi = &self.thread.pi;
        pi.base.load(Relaxed).max(pi.donors.top_priority().unwrap_or(0))
    }

    fn apply(&self, base: u32, effective: u32) -> bool {
        let done = P::set_priority(self.thread.id(), base, effective);
        if !done {
            P::count(Event::RtmutexBoostFail, 1);
        }
        done
    }
}

/// The list of donors changes under the thread's `lock` and the wait lock of the mutex whose first
/// waiter comes or goes.
impl<P: Platform> Thread<P> {
    /// `waiter` lends to this thread.
    pub(super) fn insert_donor(&self, waiter: ThreadId) {
        self.pi.donors.insert(waiter, P::thread(waiter).pi.queued_priority());
    }

    /// `waiter` lends to this thread no more, if it did.
    pub(super) fn remove_donor(&self, waiter: ThreadId) {
        if P::thread(waiter).pi.nodes[DONATING].is_linked() {
            self.pi.donors.remove(waiter);
        }
    }
}
