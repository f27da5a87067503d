//! The writer's slow path: spinning, queueing, winning the lock from the queue.
//!
//! Nobody makes a queued writer the owner: it is woken when it is first, and then takes the lock by
//! itself, or is passed by a thread that runs and sleeps again. What bounds that is *handoff*: in a
//! failed try made after its deadline it sets `HANDOFF`, and from then on only it may take the
//! lock. There is no timer: a sleeping waiter looks at its deadline when something wakes it, and a
//! release that finds waiters always does.
//!
//! # Which queued thread may take a free lock
//!
//! | tracking | the request is noted in | with `HANDOFF` set |
//! |---|---|---|
//! | none | – | – |
//! | `State` | the bit, and a local variable of the waiter ([`Place`]) | a waiter that has been first; a writer that has not is refused |
//! | `Flag` | the bit, and the first waiter's record | the first waiter if its record says so; else every queued writer |
//! | `Flag`, strict | the bit, and the record of the waiter for which it was set | the first waiter |
//!
//! The entitled writer does not sleep while the owner runs, and tries again at once when it sees no
//! owner (policies from v5.4): the lock must not lie idle for its wake-up.
//!
//! # Changes of count, all under the wait lock
//!
//! | seen | condition | change |
//! |---|---|---|
//! | held, no `HANDOFF` | entitled to ask | + `HANDOFF`; fail |
//! | held | otherwise | fail |
//! | free | may take it, see above | + `WRITER`, − `HANDOFF`, − `WAITERS` if alone in the queue |
//!
//! # Memory ordering
//!
//! Taking is Acquire. Setting `WAITERS` is Release, as is the second writer's look, which only the
//! biased scheme needs (see `biased.rs`): a release that comes after either in the count's order
//! knows what we did before it. Neither acquires: of what they find only the value is used, and
//! the lock is taken by another exchange.
//!
//! **Bounds.** Tries that see no owner are repeated at most [`NULL_RETRIES`] times before the
//! entitled writer sleeps: a holder may have lost its CPU between the count and the owner word
//! (historical bug B14; the bound was posted for the kernel in 2022 and not merged). Its release
//! wakes us.

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::Thread;
use crate::platform::{Ordering::*, Patience, Platform, Word};

use super::grant::{HANDOFF_SET, WRITES, Wakes};
use super::owner::{Kind, OwnerState, RD_NONSPINNABLE, me};
use super::policy::{CountScheme, HandoffRt, Policy, Track};
use super::{HANDOFF, KernelRwSem, LOCKED, WAITERS, WRITER, biased, queueable};

/// How often the entitled writer tries again without sleeping because it sees no owner.
const NULL_RETRIES: u32 = 8;

/// Where a writer stands, with `State` tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    NotFirst,
    First,
    Handoff,
}

/// One queued writer's wait.
struct Wait<P: Platform> {
    thread: &'static Thread<P>,
    place: Place,
    slept: bool,
    retries: u32,
    /// Spinning for this lock failed on a mark: when we have it, tell readers not to.
    disable_rspin: bool,
}

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    /// A writer that found the lock not free. Biased scheme: its `W` is in the count.
    #[cold]
    pub(super) fn write_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        let Some(thread) = queueable::<P>() else {
            if Y::COUNT == CountScheme::Biased {
                self.biased_write_release();
            }
            return until.poll(|| self.write_past_waiters(me::<P>()));
        };
        if Y::COUNT == CountScheme::Biased {
            self.count.fetch_sub(biased::W, Relaxed);
        }
        if self.can_spin(Kind::Write) && self.spin(thread, Kind::Write, until) {
            return Ok(());
        }
        let disable_rspin = Y::ADAPTIVE_RSPIN && self.has_marks();
        thread.waiter.enter();
        self.prepare(thread, WRITES, 0);
        let mut wait = Wait { thread, place: Place::NotFirst, slept: false, retries: 0, disable_rspin };
        let result = until.watching(thread, || self.write_queued(&mut wait, until));
        thread.waiter.leave();
        P::count(if result.is_ok() { Event::RwsemWlock } else { Event::RwsemWlockFail }, 1);
        result
    }

    fn write_queued(&self, wait: &mut Wait<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
        // Queue and try under one hold of the wait lock, unless others are to be woken in between.
        let first_try = self.locked_waking(|wakes| {
            self.write_enqueue(wait, wakes);
            wakes.is_empty().then(|| self.queued_try(wait))
        });
        let mut won = first_try.unwrap_or_else(|| self.locked(|| self.queued_try(wait)));
        while !won {
            if !self.see_no_owner(wait, until)
                && let Some(end) = self.write_sleep(wait, until)
            {
                let promised = Y::TRACK == Track::State && wait.place == Place::Handoff;
                self.locked_waking(|wakes| self.abort(wait.thread, promised, wakes));
                return Err(end);
            }
            won = self.locked(|| self.queued_try(wait));
        }
        Ok(())
    }

    fn write_enqueue(&self, wait: &mut Wait<P>, wakes: &mut Wakes) {
        if self.queue.push(wait.thread) {
            wait.place = Place::First;
            self.count.fetch_add(Y::COUNT.waiters(), Release);
            return;
        }
        let count = match Y::COUNT {
            // A read-modify-write: a release may trust in us, see `biased`.
            CountScheme::Biased => self.count.fetch_add(0, Release),
            CountScheme::Bits => self.count.load(Relaxed),
        };
        self.grant_after_writer(count, wakes);
        if Y::WAKE_UNDER_LOCK {
            wakes.wake::<P>();
        }
    }

    /// The entitled writer watches the owner. `true`: there is none, try at once.
    fn see_no_owner(&self, wait: &mut Wait<P>, until: Until<'_, P>) -> bool {
        let entitled = match Y::TRACK {
            Track::State => wait.place == Place::Handoff,
            Track::Flag => wait.thread.waiter.kind.load(Relaxed) & HANDOFF_SET != 0,
        };
        if !Y::HANDOFF_WRITER_SPIN || !entitled || wait.retries == NULL_RETRIES {
            return false;
        }
        let patience = Patience::ns(P::spin_budget()).until(until.wake_time()).courteous();
        if self.watch(Kind::Write, patience) != OwnerState::Null {
            return false;
        }
        wait.retries += 1;
        P::relax();
        true
    }

    /// Sleeps until there is reason to try. `Some`: the wait is over.
    fn write_sleep(&self, wait: &mut Wait<P>, until: Until<'_, P>) -> Option<GaveUp> {
        loop {
            if let Some(end) = until.over() {
                return Some(end);
            }
            until.park(wait.thread);
            P::count(Event::RwsemSleepWriter, 1);
            wait.slept = true;
            wait.retries = 0;
            if Y::TRACK == Track::Flag || wait.place == Place::Handoff {
                return None;
            }
            if wait.place == Place::NotFirst && self.queue.is_first(wait.thread) {
                wait.place = Place::First;
            }
            if !Y::COUNT.held(self.count.load(Relaxed)) {
                return None;
            }
            if wait.place == Place::First && self.may_request_handoff(wait) {
                wait.place = Place::Handoff;
                P::count(Event::RwsemWlockHandoff, 1);
                return None;
            }
        }
    }

    fn may_request_handoff(&self, wait: &Wait<P>) -> bool {
        let at_once = Y::HANDOFF_RT == HandoffRt::FirstAttempt || wait.slept;
        Y::HANDOFF.exists()
            && (at_once && P::is_realtime(wait.thread.id()) || P::now() > wait.thread.waiter.due.load(Relaxed))
    }

    /// One try of a queued writer, under the wait lock. `true`: it has the lock and has left the
    /// queue.
    fn queued_try(&self, wait: &Wait<P>) -> bool {
        let won = match (Y::COUNT, Y::TRACK) {
            (CountScheme::Biased, _) => self.biased_queued_try(wait.thread),
            (CountScheme::Bits, _) if !Y::HANDOFF.exists() => self.queued_try_once(wait),
            (CountScheme::Bits, Track::State) => self.queued_try_state(wait),
            (CountScheme::Bits, Track::Flag) => self.queued_try_flag(wait),
        };
        if won {
            self.queue.remove(wait.thread);
            self.owned_by_writer(wait.thread.id());
            if wait.disable_rspin {
                self.owner.fetch_or(RD_NONSPINNABLE, Relaxed);
                P::count(Event::RwsemOptNorspin, 1);
            }
        }
        won
    }

    /// What a free `count` becomes when the waiter takes it.
    fn taken_from_queue(&self, count: u64, wait: &Wait<P>) -> u64 {
        let drop = if self.queue.is_only(wait.thread) { HANDOFF | WAITERS } else { HANDOFF };
        count & !drop | WRITER
    }

    fn queued_try_once(&self, wait: &Wait<P>) -> bool {
        let count = self.count.load(Relaxed);
        count & LOCKED == 0
            && self.count.compare_exchange(count, self.taken_from_queue(count, wait), Acquire, Relaxed).is_ok()
    }

    fn queued_try_state(&self, wait: &Wait<P>) -> bool {
        let mut count = self.count.load(Relaxed);
        loop {
            let promised = count & HANDOFF != 0;
            if promised && wait.place == Place::NotFirst {
                return false;
            }
            let held = count & LOCKED != 0;
            if held && (promised || wait.place != Place::Handoff) {
                return false;
            }
            let next = if held { count | HANDOFF } else { self.taken_from_queue(count, wait) };
            match self.count.compare_exchange_weak(count, next, Acquire, Relaxed) {
                Ok(_) => return !held,
                Err(found) => count = found,
            }
        }
    }

    fn queued_try_flag(&self, wait: &Wait<P>) -> bool {
        let Some(first) = self.queue.first() else { return false };
        let is_first = self.queue.is_first(wait.thread);
        let first_entitled = first.waiter.kind.load(Relaxed) & HANDOFF_SET != 0;
        let mut count = self.count.load(Relaxed);
        loop {
            let promised = count & HANDOFF != 0;
            if promised && !is_first && (first_entitled || Y::STRICT_HANDOFF) {
                return false;
            }
            let held = count & LOCKED != 0;
            if held && (promised || !self.may_request_handoff(wait)) {
                return false;
            }
            let next = if held { count | HANDOFF } else { self.taken_from_queue(count, wait) };
            match self.count.compare_exchange_weak(count, next, Acquire, Relaxed) {
                Ok(_) if held => {
                    // The first waiter is entitled, whichever asks: one that is not first must not
                    // spin for it (historical bug B13).
                    let heir = if Y::STRICT_HANDOFF { wait.thread } else { first };
                    let kind = heir.waiter.kind.load(Relaxed);
                    heir.waiter.kind.store(kind | HANDOFF_SET, Relaxed);
                    P::count(Event::RwsemWlockHandoff, 1);
                    return false;
                }
                Ok(_) => return true,
                Err(found) => count = found,
            }
        }
    }
}
