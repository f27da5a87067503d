//! How a thread waits in the queue of a [queued spinlock](super::queued): first to become head,
//! then as head for the lock.
//!
//! The plan of it, with its times, is in [`queued`](super::queued), *States*. A waiter that does
//! not come is passed: [`lapse`](super::lapse). A thread of fixed priority waits elsewhere:
//! [`urgent`](super::urgent).

use crate::event::Event;
use crate::platform::thread::{NodeName, Thread};
use crate::platform::{Lanes, Ordering::*, Patience, Platform, Word};
use crate::wait::heads;
use crate::wait::turn::{TURN_NS, TURNS_NS};

use super::lapse::LAPSE_NS;
use super::node::{ASLEEP, Ahead, HEAD, Onward, Place, STATE, TOLD_SHIFT, VACANT, WAITING};
use super::queued::{
    ASLEEP_MASK, COMPETE_NS, EXACT_COMPETE_NS, Kind, LOCKED, LOCKED_MASK, PENDING_LANE, PENDING_MASK, QUEUED_NS,
    RawQueuedSpinLock, URGENT_MASK,
};

/// How long a head sleeps where it cannot rely on being woken.
pub(super) const BLIND_NS: u64 = 1_000_000;

/// How waiting to become head ended.
enum Waited {
    /// The waiter is head and was told so much; it slept before or not.
    Head { slept: bool, told: u64 },
    /// It has the lock, past a head that did not come.
    Passed,
}

impl<P: Platform, K: Kind<P>> RawQueuedSpinLock<P, K> {
    /// The pending byte of a lock whose head is not pending: what it shares with the kind's bits.
    const PENDING_BYTE: u8 = (K::REST >> 8) as u8;

    /// Not inlined: what kinds do with their queues must not be felt where a newcomer gets the lock
    /// without one.
    #[inline(never)]
    pub(super) fn acquire_queued(&self, me: &'static Thread<P>, level: usize, seen: u32) {
        if let 1..=3 = level {
            P::count([Event::LockUseNode2, Event::LockUseNode3, Event::LockUseNode4][level - 1], 1);
        }
        let name = NodeName::new(me.id(), level);
        let node = &me.nodes[name.level()];
        let now = P::now();
        node.next.store(0, Relaxed);
        node.wait.store(WAITING, Relaxed);
        node.due.store(now + TURN_NS, Relaxed);

        let epoch = P::epoch();
        let mut place =
            Place { me, node, name, gave_way: false, past: 0, lane: 0, tries_first: false, epoch, absent: false };
        let ahead = K::enqueue(self, &mut place, seen);
        let is_head = match ahead {
            Ahead::Nobody => true,
            Ahead::Others => false,
            Ahead::Waiter(previous) => !Self::link(&mut place, previous, now),
        };
        if !is_head {
            match self.wait_for_headship(&mut place) {
                Waited::Head { slept, told } => (place.gave_way, place.past) = (slept && Self::is_exact(), told),
                Waited::Passed => return self.leave_passing(&mut place, ahead),
            }
        }
        K::arrange(self, &mut place);
        let passed = self.take_as_head(&place);
        P::count(Event::LockSlowpath, 1);
        self.leave(&place, ahead, passed);
    }

    /// Links `place` behind `previous`. `false`: it is head, since the node before it is vacant, or
    /// is of a thread of another process, which never comes.
    fn link(place: &mut Place<P>, previous: NodeName, now: u64) -> bool {
        let Some(node) = previous.node::<P>() else { return true };
        if Self::is_exact() {
            node.next.store(u32::from(place.name.raw()), Release);
        } else if previous.is_ghost::<P>() {
            return false;
        } else if node.next.swap(u32::from(place.name.raw()), AcqRel) == VACANT {
            // Acquire: what it was told, and the links of waiters that are aside.
            place.past = node.wait.load(Relaxed) >> TOLD_SHIFT;
            node.take_out();
            return false;
        }
        let before = node.due.load(Relaxed).clamp(now, now + TURNS_NS);
        place.node.due.store(before + TURN_NS, Relaxed);
        true
    }

    /// Queued: waits to become head, or until the lock has lain free for long.
    fn wait_for_headship(&self, place: &mut Place<P>) -> Waited {
        let (me, node) = (place.me, place.node);
        let told = |wait: u64| (wait & STATE == HEAD).then_some(wait >> TOLD_SHIFT);
        let granted = || told(node.wait.load(Acquire));
        let courteous = |patience: Patience| if Self::is_exact() { patience.courteous() } else { patience };
        let early = K::settles_after();
        if early > 0
            && let Some(told) = P::spin(courteous(Patience::ns(early)), granted)
        {
            return Waited::Head { slept: false, told };
        }
        K::settle(place);
        let patience =
            courteous(Patience::ns(if Self::is_exact() { u32::MAX } else { QUEUED_NS.saturating_sub(early) }));
        if let Some(told) = P::spin(patience, granted) {
            return Waited::Head { slept: false, told };
        }
        // Relaxed: `ASLEEP` says that the token must be used, and the token orders; what a head is
        // told is read by `granted`.
        if node.wait.compare_exchange(WAITING, ASLEEP, Relaxed, Relaxed).is_err()
            && let Some(told) = granted()
        {
            return Waited::Head { slept: false, told };
        }
        P::count(Event::PvWaitNode, 1);
        let queued = P::now();
        let mut turn_end = node.due.load(Relaxed);
        loop {
            let mut wake = turn_end;
            if !Self::is_exact() && self.is_free() {
                if self.pass_waiters() {
                    return Waited::Passed;
                }
                wake = turn_end.min(P::now() + LAPSE_NS);
            }
            me.park(Some(wake));
            if let Some(told) = granted() {
                return Waited::Head { slept: true, told };
            }
            P::count(Event::PvSpuriousWakeup, 1);
            if P::epoch() != place.epoch {
                // A child, made by a signal handler of this thread: those before it are not here.
                return Waited::Head { slept: true, told: 0 };
            }
            let now = P::now();
            if now >= turn_end {
                // The queue is late. Looking again every turn, hundreds would leave no time for
                // anybody else: look less the later it is.
                turn_end = now + ((now - queued) / 2).clamp(TURN_NS, TURNS_NS);
                node.due.store(turn_end, Relaxed);
                // A promoter that came before that may count on the earlier end.
                if let Some(told) = granted() {
                    return Waited::Head { slept: true, told };
                }
            }
        }
    }

    /// Makes `next` head and tells it `told`, of `TOLD` bits. If it sleeps and we were not passed
    /// ourselves, or if its turn is to last long, our own unlock will wake it, outside the critical
    /// section; else its turn's end will.
    pub(super) fn promote(&self, next: NodeName, told: u64, passed: bool) -> Onward {
        let (Some(node), Some(thread)) = (next.node::<P>(), next.thread::<P>()) else { return Onward::Settled };
        if next.is_ghost::<P>() {
            // Nor are those behind it, but for one that knows of itself that it is head.
            return Onward::Settled;
        }
        let head = HEAD | told << TOLD_SHIFT;
        if node.wait.compare_exchange(WAITING, head, AcqRel, Acquire).is_ok() {
            return Onward::Settled;
        }
        // On an exact machine marked before it can run and take the mark away.
        self.mark_asleep(true);
        // After that it may be gone; then what is done for it was needless.
        let sleeps = if Self::is_exact() {
            node.wait.swap(head, AcqRel) == ASLEEP
        } else if node.wait.compare_exchange(ASLEEP, head, AcqRel, Acquire).is_ok() {
            true
        } else {
            return Onward::Absent(next, told);
        };
        let dozes = || passed && !Self::is_exact() && node.due.load(Relaxed) <= P::now() + 2 * TURN_NS;
        if sleeps && !dozes() && !P::commons().heads.insert(P::key(self), thread.id()) {
            thread.unpark();
        }
        Onward::Settled
    }

    /// For newcomers on an exact machine: whether the head sleeps.
    #[inline(always)]
    fn mark_asleep(&self, asleep: bool) {
        if Self::is_exact() {
            let mark = if asleep { (ASLEEP_MASK >> 8) as u8 } else { 0 };
            self.word.store_byte(PENDING_LANE, Self::PENDING_BYTE | mark, Relaxed);
        }
    }

    /// First in the queue: returns with the lock held and pending clear; whether others have passed
    /// us meanwhile.
    fn take_as_head(&self, place: &Place<P>) -> bool {
        if place.tries_first && self.try_unseen() {
            return false;
        }
        // The queue may have been quicker than expected, or our look at it late.
        let (me, turn_end) = (place.me, place.due().min(P::now() + TURN_NS));
        let patience =
            if Self::is_exact() { Patience::ns(EXACT_COMPETE_NS).courteous() } else { Patience::ns(COMPETE_NS) };
        let compete = || P::spin(patience, || self.try_steal().then_some(())).is_some();
        if Self::is_exact() {
            // Nobody passes us while we are awake.
            if self.word.load(Relaxed) & ASLEEP_MASK != 0 {
                self.mark_asleep(false);
            }
            if compete() || self.sleep_as_head(me, None, false) {
                return false;
            }
        } else if P::now() < turn_end {
            if compete() || self.sleep_as_head(me, Some(turn_end), false) || compete() {
                return false;
            }
            if P::now() < turn_end {
                P::count(Event::PvWaitHead, 1);
                me.park(Some(turn_end));
            }
        }
        let mut again = false;
        loop {
            self.set_pending(true);
            if P::spin(patience, || self.take_pending().then_some(())).is_some() {
                return true;
            }
            // Passed for one more sleep. Then by nobody: or a holder that is away whenever we are
            // awake, on our CPU perhaps, would do so for ever.
            let shut = again && !Self::is_exact();
            self.set_pending(shut);
            P::count(Event::PvWaitAgain, i64::from(again));
            if self.sleep_as_head(me, None, shut) {
                return true;
            }
            again = true;
        }
    }

    /// The head is pending from here on, or is not. What others have noted beside that stays.
    fn set_pending(&self, pending: bool) {
        if Self::is_exact() {
            self.word.store_byte(PENDING_LANE, Self::PENDING_BYTE | u8::from(pending), Relaxed);
        } else if pending {
            self.word.fetch_or(PENDING_MASK, Relaxed);
        } else {
            self.word.fetch_and(!PENDING_MASK, Relaxed);
        }
    }

    /// The pending head's attempt. It clears pending in the same step. A newcomer may have cleared
    /// it before, or noted how long the lock lies free: the head looks again until somebody has the
    /// lock.
    fn take_pending(&self) -> bool {
        let mut half = self.word.load(Relaxed) as u16;
        while u32::from(half) & (LOCKED_MASK | URGENT_MASK) == 0 {
            match self.word.compare_exchange_half(0, half, K::REST | LOCKED as u16, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => half = found,
            }
            P::relax();
        }
        false
    }

    /// The attempt of a head that is not pending: as [`Self::try_steal`], until somebody has the
    /// lock.
    fn take_past(&self) -> bool {
        while self.word.load(Relaxed) & (LOCKED_MASK | PENDING_MASK | URGENT_MASK) == 0 {
            if self.try_steal() {
                return true;
            }
            P::relax();
        }
        false
    }

    /// Sleeps until an unlock, or `end`. `true`: took the lock instead. `shut`: pending is set and
    /// stays so, if an unlock will wake us.
    #[cold]
    fn sleep_as_head(&self, me: &Thread<P>, end: Option<u64>, shut: bool) -> bool {
        let key = P::key(self);
        self.mark_asleep(true);
        let registered = P::commons().heads.insert(key, me.id());
        let fenced = P::fence_heavy();
        // It sleeps without a timer: a free lock must not be left for the sake of a note.
        let attempt = || if shut { self.take_pending() } else { self.take_past() };
        let mut taken = attempt();
        let mut end = end;
        if !taken && self.is_kept_for_urgent() {
            taken = self.pass_waiters();
            end = Some(end.unwrap_or(u64::MAX).min(P::now() + LAPSE_NS));
        }
        if !taken {
            if shut && !registered {
                self.set_pending(false);
            }
            P::count(Event::PvWaitHead, 1);
            if registered {
                taken = heads::sleep(me, key, end, fenced, attempt);
            } else {
                me.park(Some(end.unwrap_or(u64::MAX).min(P::now() + BLIND_NS)));
            }
        }
        if registered {
            P::commons().heads.remove(key, me.id());
        }
        self.mark_asleep(false);
        taken
    }
}
