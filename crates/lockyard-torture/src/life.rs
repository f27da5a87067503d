//! A thread's life among the locks of a [`World`]: the same on every ground.

use std::sync::atomic::Ordering::Relaxed;

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard_catalog::lock::Way;
use lockyard_check::stage::Dice;

use crate::ground::Ground;
use crate::operation::{Entry as Asks, Operation, Pace};
use crate::places::Seat;
use crate::ring::Event;
use crate::world::{SPINNING, World};

impl<P: Ground> World<P> {
    /// A thread's life.
    ///
    /// # Panics
    /// If it sees something that must not be.
    pub fn live(&self, me: usize) {
        let mut life = Life {
            world: self,
            me,
            seat: &self.seats[me],
            dice: Dice::new(self.setup.seed ^ (me as u64) << 40),
            busy: 0,
        };
        if me < self.setup.threads {
            life.go();
        } else {
            life.inherit();
        }
    }
}

pub(crate) struct Life<'w, P: Ground> {
    pub(crate) world: &'w World<P>,
    pub(crate) me: usize,
    pub(crate) seat: &'w Seat<P>,
    pub(crate) dice: Dice,
    /// Locks that it holds.
    busy: u32,
}

impl<'w, P: Ground> Life<'w, P> {
    fn go(&mut self) {
        let setup = &self.world.setup;
        let quota = setup.operations.map(|most| if setup.exits { 1 + self.dice.roll(2 * most) } else { most });
        // All come at the same point of their lives, and in the same order: they wait for each
        // other.
        let mut point = Dice::new(setup.seed ^ 0xdead);
        let most = setup.operations.unwrap_or(64);
        let mut mortals: Vec<(u32, usize)> =
            (0..setup.mortals).map(|number| (point.roll(most), setup.locks + number)).collect();
        mortals.sort_unstable();
        let mut mortals = mortals.into_iter().peekable();
        let (mut made, mut extra) = (0, 0);
        loop {
            let enough = quota.map_or_else(|| self.world.ended.load(Relaxed), |quota| made >= quota);
            if enough {
                for (_, lock) in mortals.by_ref() {
                    self.visit(lock);
                }
                self.seat.done.store(true, Relaxed);
                // Two stay while others wait: a lock with a bound must serve those, whatever these
                // two do. Not for ever: a thread that is still away then is away for another
                // reason.
                let stays = self.world.bounded && self.me < 2 && !self.world.everybody_is_done();
                if !stays || extra >= setup.hogged {
                    break;
                }
                extra += 1;
            }
            while let Some((_, lock)) = mortals.next_if(|&(when, _)| when <= made) {
                self.visit(lock);
            }
            let pace = Pace { nap: setup.nap, naps_one_in: setup.naps_one_in };
            let mut operation = Operation::draw(&mut self.dice, setup.locks, pace);
            if enough {
                operation.entry = Asks::Block;
                operation.sleeps = false;
                operation.section = operation.section.min(2_000);
                operation.think = 4_000;
                // In half of the schedules a lock with readers has them read without a pause: one
                // of the two nearly always holds it, and a writer must be served all the same. By
                // the seed itself, not to disturb other draws; by sixteens, because small schedules
                // have somebody who stays in every sixteenth.
                let ways = self.world.slots[operation.lock].subject.ways();
                if (setup.seed / 16).is_multiple_of(2) && ways.contains(&Way::Read) {
                    (operation.way, operation.section, operation.think) = (Way::Read, 2_000, 0);
                }
            }
            self.perform(&operation);
            made += 1;
            if self.world.inherited.get().is_some() {
                return self.inherit();
            }
        }
        self.note(Event::Exits, Way::Write, made as usize);
    }

    pub(crate) fn note(&self, event: Event, way: Way, what: usize) {
        self.seat.ring.note(P::stamp(), event, way, what);
    }

    /// One operation, from asking to thinking.
    pub(crate) fn perform(&mut self, operation: &Operation) {
        let slot = &self.world.slots[operation.lock];
        let ways = slot.subject.ways();
        let way = if ways.contains(&operation.way) { operation.way } else { ways[0] };
        if operation.aside {
            self.note(Event::Reference, way, operation.lock);
            slot.subject.aside();
        }
        self.seat.begun.fetch_add(1, Relaxed);
        if self.ask(operation, way) {
            self.hold(operation, way);
        }
        self.world.look_for_starvation(P::stamp());
        if operation.think > 0 {
            P::compute(operation.think);
        }
    }

    /// Asks for the lock as `operation` says. Whether it was given.
    fn ask(&mut self, operation: &Operation, way: Way) -> bool {
        let (number, slot) = (operation.lock, &self.world.slots[operation.lock]);
        let failed = |event| {
            self.note(event, way, number);
            self.seat.gave_up.fetch_add(1, Relaxed);
            false
        };
        match operation.entry {
            Asks::Block => self.block(number, way),
            Asks::Try => {
                self.note(Event::Tries, way, number);
                if !self.stoppable(number, || slot.subject.try_lock(way)) {
                    return failed(Event::Failed);
                }
            }
            Asks::Deadline(after) => {
                let deadline = after.map_or(0, |after| P::now() + after);
                self.note(Event::WaitsUntil, way, number);
                match self.stoppable(number, || slot.subject.lock_until(way, Until::deadline(deadline))) {
                    None => self.block(number, way),
                    Some(Ok(())) => {}
                    Some(Err(why)) => {
                        assert_eq!(why, GaveUp::TimedOut, "a wait with a deadline ended for another reason");
                        assert!(P::now() >= deadline, "gave up before its deadline");
                        return failed(Event::TimedOut);
                    }
                }
            }
            Asks::Token => return self.ask_with_token(number, way),
        }
        self.granted(number, way);
        true
    }

    fn ask_with_token(&mut self, number: usize, way: Way) -> bool {
        let slot = &self.world.slots[number];
        let next = self.seat.tokens.iter().position(|token| !token.0.is_cancelled());
        let Some(next) = next.filter(|_| self.world.setup.cancels) else {
            self.block(number, way);
            self.granted(number, way);
            return true;
        };
        let token = &self.seat.tokens[next].0;
        self.note(Event::WaitsWithToken, way, number);
        self.seat.cancelled.store(0, Relaxed);
        self.seat.token.store(next + 1, Relaxed);
        let outcome = self.stoppable(number, || slot.subject.lock_until(way, Until::cancelled(token)));
        self.seat.token.store(0, Relaxed);
        // Read once: the canceller may be about to note when it cancelled.
        let cancelled = self.seat.cancelled.load(Relaxed);
        if outcome.is_some()
            && let Some(late) = P::stamp().checked_sub(cancelled).filter(|_| token.is_cancelled())
        {
            let known = cancelled != 0;
            assert!(
                !known || late < self.world.setup.late_ns,
                "a wait went on for {} us after it was cancelled",
                late / 1000
            );
        }
        match outcome {
            None => self.block(number, way),
            Some(Ok(())) => {}
            Some(Err(why)) => {
                assert_eq!(why, GaveUp::Cancelled, "a wait with a token ended for another reason");
                assert!(token.is_cancelled(), "a wait ended although nobody cancelled it");
                self.note(Event::WasCancelled, way, number);
                self.seat.gave_up.fetch_add(1, Relaxed);
                return false;
            }
        }
        self.granted(number, way);
        true
    }

    /// Waits as long as it takes.
    fn block(&self, number: usize, way: Way) {
        let slot = &self.world.slots[number];
        self.note(Event::Wants, way, number);
        let since = P::stamp();
        self.seat.since.store(since, Relaxed);
        self.seat.grants_then.store(slot.grants.load(Relaxed), Relaxed);
        self.seat.waits_for.store(number + 1, Relaxed);
        self.stoppable(number, || slot.subject.lock(way));
        self.seat.waits_for.store(0, Relaxed);
        self.seat.longest.fetch_max(P::stamp().saturating_sub(since), Relaxed);
    }

    /// A call for lock `number`. A thread that holds nothing may be stopped in it.
    fn stoppable<R>(&self, number: usize, call: impl FnOnce() -> R) -> R {
        if !self.world.setup.stops || self.busy != 0 {
            return call();
        }
        let begun = P::stamp();
        self.seat.calls.store(number + 1, Relaxed);
        P::may_stop(true);
        let result = call();
        P::may_stop(false);
        if P::stopped_until(self.me).is_some_and(|until| until >= begun) {
            // Until now it may have kept the lock taken, between two of its steps.
            self.world.slots[number].moved.fetch_max(P::stamp(), Relaxed);
        }
        self.seat.calls.store(0, Relaxed);
        result
    }

    fn granted(&mut self, number: usize, way: Way) {
        self.busy += 1;
        self.note(Event::Got, way, number);
        self.world.slots[number].grants.fetch_add(1, Relaxed);
        let now = P::stamp();
        self.world.slots[number].moved.store(now, Relaxed);
        self.world.last_grant.store(now, Relaxed);
        self.seat.taken.fetch_add(1, Relaxed);
    }

    /// With the lock: uses it, perhaps another one inside, and lets go.
    fn hold(&mut self, operation: &Operation, mut way: Way) {
        let (number, slot) = (operation.lock, &self.world.slots[operation.lock]);
        slot.section(self.me, way);
        match operation.nested.map(|distance| number + distance) {
            Some(inner) if inner < self.world.setup.locks => {
                let other = &self.world.slots[inner];
                self.block(inner, Way::Write);
                self.granted(inner, Way::Write);
                other.section(self.me, Way::Write);
                self.let_go(inner, Way::Write);
            }
            _ => {}
        }
        if operation.sleeps {
            self.sleep_with(number, way, operation.section);
        } else if operation.section > 0 {
            P::compute(operation.section);
            slot.section(self.me, way);
        }
        if operation.downgrades && way == Way::Write {
            // SAFETY: held for writing, as `way` says.
            if unsafe { slot.subject.downgrade() } {
                self.note(Event::Downgrades, way, number);
                way = Way::Read;
                slot.section(self.me, way);
            }
        }
        self.may_fork(number, way);
        if operation.cancels == Some(false) {
            self.cancel_somebody();
        }
        self.let_go(number, way);
        if operation.cancels == Some(true) {
            self.cancel_somebody();
        }
    }

    pub(crate) fn let_go(&mut self, number: usize, way: Way) {
        self.note(Event::Releases, way, number);
        // SAFETY: this thread holds it that way.
        unsafe { self.world.slots[number].subject.unlock(way) };
        self.busy -= 1;
        self.world.slots[number].moved.store(P::stamp(), Relaxed);
        self.note(Event::Released, way, number);
    }

    /// Cancels the wait of one thread that waits with a token, if there is one: the holder leaves
    /// at the same moment.
    fn cancel_somebody(&mut self) {
        let threads = self.world.seats.len();
        let first = self.dice.roll(threads as u32) as usize;
        let waiting = (0..threads).map(|distance| (first + distance) % threads).find_map(|thread| {
            let seat = &self.world.seats[thread];
            Some((thread, seat.token.load(Relaxed).checked_sub(1)?))
        });
        if let Some((thread, token)) = waiting {
            self.note(Event::Cancels, Way::Write, thread);
            let seat = &self.world.seats[thread];
            seat.tokens[token].0.cancel();
            if seat.token.load(Relaxed) == token + 1 {
                seat.cancelled.store(P::stamp().max(1), Relaxed);
            }
        }
    }

    /// Sleeps with the lock held. Those who wait for it meanwhile may spin for a while, not for as
    /// long as this lasts.
    fn sleep_with(&self, number: usize, way: Way, ns: u64) {
        self.note(Event::SleepsWith, way, number);
        let watched = |thread: usize, seat: &Seat<P>| {
            let waits = seat.waits_for.load(Relaxed) == number + 1;
            Some((thread, seat.begun.load(Relaxed), P::cpu_ns(thread).filter(|_| waits)?))
        };
        let look = || -> Vec<(usize, u64, u64)> {
            if !self.world.setup.watch_spinning {
                return Vec::new();
            }
            let seats = self.world.seats.iter().enumerate();
            seats.filter_map(|(thread, seat)| watched(thread, seat)).collect()
        };
        let before = look();
        P::sleep(ns);
        let after = look();
        for (thread, begun, used) in before {
            if let Some(&(_, _, now)) = after.iter().find(|later| (later.0, later.1) == (thread, begun)) {
                let spun = now - used;
                assert!(
                    spun < ns / 2,
                    "{SPINNING}thread {thread} used {} us of CPU time in {} us in which the holder of lock {number} slept",
                    spun / 1000,
                    ns / 1000
                );
            }
        }
    }

    /// Uses a mortal lock for the only time. Its last user may free it: at once where the
    /// lock allows that, else when all have returned.
    fn visit(&mut self, number: usize) {
        let slot = &self.world.slots[number];
        // All at once, so that they meet.
        slot.arrived.fetch_add(1, Relaxed);
        let everybody = self.world.setup.threads as u32;
        // Not stopped there: the others wait for it as for a holder.
        self.busy += 1;
        P::wait_window(|| (slot.arrived.load(Relaxed) == everybody).then_some(()));
        self.block(number, Way::Write);
        self.granted(number, Way::Write);
        slot.section(self.me, Way::Write);
        let last = slot.left.fetch_sub(1, Relaxed) == 1;
        self.let_go(number, Way::Write);
        self.busy -= 1;
        let returned = slot.staying.fetch_sub(1, Relaxed) == 1;
        let frees = if self.world.frees { last } else { returned };
        if frees {
            self.note(Event::Frees, Way::Write, number);
            slot.subject.freed();
        }
    }
}
