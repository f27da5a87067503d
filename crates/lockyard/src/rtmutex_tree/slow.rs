//! The slow paths: taking, queueing, waiting, leaving, releasing. All of it under the wait lock,
//! but for the waiting.

use super::chain::{self, Cycle, Origin};
use super::policy::{Policy, TopSpin};
use super::waiter::{self, Inheritance};
use super::{Core, OWNER, Refused, WAITERS};
use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Patience, Platform, Word};
use crate::wait::section::{enter, exit};

impl<P: Platform> Core<P> {
    /// Takes the mutex for the calling thread unless `until` comes first.
    pub(super) fn acquire_slow<Y: Policy>(&self, until: Until<'_, P>) -> Result<(), Refused> {
        P::count(Event::RtmutexSlowlock, 1);
        let Some(me) = P::current().filter(|me| me.waiter.busy.load(Relaxed) == 0) else {
            // No record to queue with, or already waiting (a signal handler): try, and give the CPU
            // away in between.
            return until.poll(|| self.try_acquire_slow::<Y>()).map_err(Refused::from);
        };
        me.waiter.enter();
        let result = until.watching(me, || self.queue::<Y>(me, until));
        me.waiter.leave();
        result
    }

    /// Takes the mutex if that needs no waiting. `false` costs a look, unless it is free and
    /// promised.
    pub(super) fn try_acquire_slow<Y: Policy>(&self) -> bool {
        if self.word.load(Relaxed) & OWNER != 0 {
            return false;
        }
        let Some(me) = P::current() else {
            let anonymous = ThreadId::ANONYMOUS.raw();
            return self.word.compare_exchange(0, anonymous, Acquire, Relaxed).is_ok() || self.take_anonymous();
        };
        let busy = me.waiter.busy.load(Relaxed) != 0;
        if busy {
            // A signal handler: the code that it interrupted may be inside this very wait lock.
            return self.word.compare_exchange(0, me.id().raw(), Acquire, Relaxed).is_ok();
        }
        me.waiter.enter();
        enter(&self.wait_lock);
        let taken = self.take::<Y>(me, false);
        self.settle_bit();
        self.unlock_wait();
        me.waiter.leave();
        taken
    }

    fn queue<Y: Policy>(&self, me: &'static Thread<P>, until: Until<'_, P>) -> Result<(), Refused> {
        enter(&self.wait_lock);
        let result = if self.take::<Y>(me, false) {
            P::count(Event::RtmutexSlowAcq1, 1);
            Ok(())
        } else {
            P::count(Event::RtmutexSlowBlock, 1);
            let queued = self.enqueue(me).map_err(Refused::Deadlock);
            let result = queued.and_then(|()| self.wait::<Y>(me, until).map_err(Refused::from));
            if result.is_err() {
                self.leave(me);
            }
            result
        };
        self.settle_bit();
        self.unlock_wait();
        result
    }

    /// Drops the wait lock: the mutex may be gone afterwards, unless the caller is in it by right.
    pub(super) fn unlock_wait(&self) {
        // SAFETY: every caller has acquired it.
        unsafe { exit(&self.wait_lock) };
    }

    /// Under the wait lock: takes the mutex for `thread`, which is queued or not, if it is free and
    /// nobody has a better right to it.
    ///
    /// Leaves `WAITERS` set, whatever comes of it: the caller ends with [`Core::settle_bit`].
    pub(super) fn take<Y: Policy>(&self, thread: &Thread<P>, queued: bool) -> bool {
        // Set before anybody looks at the owner, so that no owner slips away unseen. One
        // read-modify-write does both: what it returns is the owner as of the moment from which on
        // the fast paths are closed.
        if self.word.fetch_or(WAITERS, Acquire) & OWNER != 0 {
            return false;
        }
        let me = thread.id();
        while let Some(heir) = self.heir().filter(|&heir| heir != me).map(P::thread) {
            let passed = &heir.pi.passed;
            let priority = match queued {
                true => thread.pi.queued_priority(),
                false => waiter::lock(thread).priority(),
            };
            let top = heir.pi.queued_priority();
            let before = passed.load(Relaxed);
            // A queued waiter may pass the heir only in the moment before a change of priority has
            // been carried here.
            let permitted = if queued { priority > top } else { Y::STEAL.permits(priority, top, before) };
            if permitted {
                passed.store(before.saturating_add(1), Relaxed);
                P::count(if priority > top { Event::RtmutexSteal } else { Event::RtmutexStealLateral }, 1);
                break;
            }
            if !Self::lapse(heir) {
                return false;
            }
        }
        if queued {
            self.waiters.remove(me);
        }
        let remaining = self.first_here();
        if queued || remaining.is_some() {
            let locked = waiter::lock(thread);
            thread.pi.blocked_on.store(0, Relaxed);
            if let Some(first) = remaining {
                thread.insert_donor(first);
                // No waiter that remains is more urgent, unless a priority has changed and the
                // change is still on its way here.
                locked.settle();
            }
        }
        let bit = if remaining.is_some() { WAITERS } else { 0 };
        // Acquire: the owner before may have left by the fast path, which knows nothing of the wait
        // lock.
        self.word.swap(me.raw() | bit, Acquire);
        true
    }

    /// Under the wait lock, which it drops for a while if it has to walk: queues `thread` behind
    /// its betters and equals, and lends its priority.
    ///
    /// # Errors
    /// A deadlock. It is queued nevertheless, unless it owns the mutex itself.
    pub(super) fn enqueue(&self, thread: &'static Thread<P>) -> Result<(), Cycle> {
        let me = thread.id();
        let owner = self.owner();
        if owner == Some(me) {
            // Before it is queued: or an innocent waiter that comes later would find the cycle.
            P::count(Event::RtmutexDeadlock, 1);
            let mut cycle = Cycle::new();
            cycle.push(me, Inheritance::address(self));
            return Err(cycle);
        }
        let before = self.waiters.first();
        {
            let locked = waiter::lock(thread);
            self.waiters.insert(me, locked.priority());
            thread.pi.blocked_on.store(Inheritance::address(self), Relaxed);
            thread.pi.waits.store(thread.pi.waits.load(Relaxed).wrapping_add(1), Relaxed);
            thread.pi.passed.store(0, Relaxed);
            // An earlier wait, for any lock, may have left a mark behind its last look.
            thread.waiter.reserved.store(0, Relaxed);
        }
        self.displaced(before);
        let Some(owner) = owner.filter(|owner| !owner.is_anonymous()).map(P::thread) else { return Ok(()) };
        let next = {
            let owned = waiter::lock(owner);
            if self.waiters.is_first(me) {
                if let Some(before) = before {
                    owner.remove_donor(before);
                }
                owner.insert_donor(me);
                owned.settle();
            }
            owned.blocked_on()
        };
        if next == 0 {
            return Ok(());
        }
        self.unlock_wait();
        let walked = chain::walk_for_waiter(owner, next, &Origin { lock: Some(self), waiter: Some(me), top: me });
        enter(&self.wait_lock);
        // While it was walked, the mutex may have become free: then there is nothing to complain
        // about.
        if self.owner().is_none() { Ok(()) } else { walked }
    }

    /// Queued, under the wait lock, which it drops while it waits: until the mutex is taken, or
    /// `until` comes.
    pub(super) fn wait<Y: Policy>(&self, me: &Thread<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
        loop {
            Self::came(me);
            if self.take::<Y>(me, true) {
                P::count(Event::RtmutexSlowAcq3, 1);
                return Ok(());
            }
            // After the try: what can be had is had, whatever the time.
            if let Some(end) = until.over() {
                return Err(end);
            }
            let first = self.waiters.is_first(me.id());
            let owner = self.owner();
            self.unlock_wait();
            let again = match Y::SPIN {
                TopSpin::Merged if first => owner.is_some_and(|owner| self.spin(me, owner, until)),
                TopSpin::Published if first => self.owner().is_none_or(|owner| self.spin(me, owner, until)),
                _ => false,
            };
            if !again {
                self.sleep(me, first, owner, until);
            }
            enter(&self.wait_lock);
        }
    }

    /// Asleep, having seen `owner`, until there may be something to do under the wait lock. A
    /// waiter whose timer alone has ended looks at the word first: a waiter that is stopped with
    /// the wait lock keeps the mutex shut. One that seems to be first asks under the wait lock: a
    /// waiter that is moved in the tree is out of it for a moment, and only a first one needs no
    /// timer.
    fn sleep(&self, me: &Thread<P>, first: bool, mut owner: Option<ThreadId>, until: Until<'_, P>) {
        loop {
            let look = Self::watch(first, owner);
            look.map_or(until, |look| until.slice(look)).park(me);
            P::count(Event::RtmutexSlowSleep, 1);
            owner = self.owner();
            let timer = look.is_some_and(|look| P::now() >= look);
            let idle = timer && owner.is_some() && !self.waiters.is_first(me.id()) && Self::is_on_time(me);
            if !idle || until.over().is_some() {
                return;
            }
        }
    }

    /// The first waiter spins while `owner` owns the mutex and runs. `true`: it owns it no more,
    /// try again. `false`: sleep.
    ///
    /// The word and the name of the first waiter are read without the wait lock and only compared:
    /// nothing is looked up by them. The mutex stays because we wait for it. Spinning never takes
    /// it: that is for [`Core::take`], so at most one thread spins, and order is as without.
    fn spin(&self, me: &Thread<P>, owner: ThreadId, until: Until<'_, P>) -> bool {
        // Nobody can tell whether one without a record runs.
        if owner.is_anonymous() || P::cpus() == 1 || !P::is_running(owner) {
            P::count(Event::RtmutexSpinOffCpu, 1);
            return false;
        }
        P::count(Event::RtmutexSpin, 1);
        let patience = Patience::ns(P::spin_budget()).until(until.wake_time()).while_running(owner).courteous();
        let ended = P::spin(patience, || match self.owner() {
            now if now != Some(owner) => Some(true),
            _ if !self.waiters.is_first(me.id()) => Some(false),
            _ => None,
        });
        P::count(
            match ended {
                Some(true) => Event::RtmutexSpinOwner,
                Some(false) => Event::RtmutexSpinDisplaced,
                None if P::is_running(owner) => Event::RtmutexSpinStop,
                None => Event::RtmutexSpinOffCpu,
            },
            1,
        );
        ended == Some(true)
    }

    /// Under the wait lock, which it drops for a while if it has to walk: `thread` gives up.
    /// Nothing to do if it was never queued.
    ///
    /// The caller has tried to take the mutex since it last had the wait lock, so if it is first
    /// somebody owns it, and no wake-up is lost with it.
    pub(super) fn leave(&self, thread: &'static Thread<P>) {
        let me = thread.id();
        {
            let locked = waiter::lock(thread);
            if locked.blocked_on() != Inheritance::address(self) {
                return;
            }
            thread.pi.blocked_on.store(0, Relaxed);
        }
        let first = self.waiters.is_first(me);
        self.waiters.remove(me);
        let owner = self.owner().filter(|owner| first && !owner.is_anonymous());
        let Some(owner) = owner.map(P::thread) else { return };
        let next = {
            let owned = waiter::lock(owner);
            owner.remove_donor(me);
            if let Some(now) = self.first_here() {
                owner.insert_donor(now);
            }
            owned.settle();
            owned.blocked_on()
        };
        if next != 0 {
            self.unlock_wait();
            chain::walk_for_change(owner, next, &Origin { lock: Some(self), waiter: None, top: me });
            enter(&self.wait_lock);
        }
    }

    /// Under the wait lock, before it is dropped: nobody waits, so the fast paths are open again.
    ///
    /// Not blindly: where the bit is clear already, the owner may be in the middle of a fast
    /// release.
    pub(super) fn settle_bit(&self) {
        if self.waiters.first().is_none() && self.word.load(Relaxed) & WAITERS != 0 {
            // Release, and a read-modify-write: a free mutex still hands on what its last owner
            // wrote.
            self.word.fetch_and(!WAITERS, Release);
        }
    }

    /// Releases for `holder`, whose name is in the word.
    #[cold]
    pub(super) fn release_slow(&self, holder: ThreadId) {
        P::count(Event::RtmutexSlowunlock, 1);
        let first = loop {
            enter(&self.wait_lock);
            if let Some(first) = self.waiters.first() {
                break first;
            }
            self.settle_bit();
            self.unlock_wait();
            // Without the wait lock: the next owner may free it, and then nothing
            // of it may be touched.
            if self.word.compare_exchange(holder.raw(), 0, Release, Relaxed).is_ok() {
                return;
            }
        };
        let thread = (!holder.is_anonymous()).then(|| P::thread(holder));
        let mut lent = false;
        if let Some(thread) = thread {
            let locked = waiter::lock(thread);
            thread.remove_donor(first);
            lent = locked.is_lent();
            // The priority that was lent stays until the one it came from has been woken: in user
            // space nobody else keeps us on the CPU between the two.
            thread.pi.keeps.store(u32::from(lent), Relaxed);
        }
        let heir = self.heir().map(P::thread).inspect(|heir| Self::promise(heir));
        self.word.store(WAITERS, Release);
        self.unlock_wait();
        // Nothing of the mutex from here on.
        if let Some(heir) = heir {
            P::count(Event::RtmutexSlowWake, 1);
            heir.unpark();
        }
        if let Some(thread) = thread.filter(|_| lent) {
            let locked = waiter::lock(thread);
            thread.pi.keeps.store(0, Relaxed);
            locked.settle();
            // A condition variable may have queued it for the next wait already, by what it had
            // until now.
            chain::carry_change(thread, locked);
        }
    }
}
