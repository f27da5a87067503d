//! Waiting: of readers for the gate and `sem`, of writers for `sem` and the readers inside.

use core::cell::Cell;

use super::super::turns::Want;
use super::place::Place;
use super::{Entry, Policy, RawApartRwSem};
use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::ThreadId;
use crate::platform::{Ordering::*, Patience, Platform, Word};
use crate::wait::turn::{self, Contended, Events, Left, Look, Request, Shares, parts_of};

/// How long a reader spins at a closed gate, at most, in nanoseconds.
const AT_THE_GATE_NS: u32 = 100_000;
/// So often it looks whether the writer runs: on the line that writers write.
const LOOK_NS: u32 = 5_000;
/// A reader that tests has taken itself out by then, if it runs.
const TESTS_NS: u64 = 2_000;
/// A writer that sleeps until readers have left looks again after so long.
const AGAIN_NS: u64 = 400_000;
/// One that cannot be woken, after so long.
const SHORTLY_NS: u64 = 50_000;

impl<P: Platform, Y: Policy> RawApartRwSem<P, Y> {
    /// Waits without an end, a reader that is `counted` in `sem` or one at the gate. Apart, as
    /// below, so that the fast paths make no room for an [`Until`]; the result cannot be an error.
    #[cold]
    #[inline(never)]
    pub(super) fn read_forever(&self, counted: bool) {
        let _ = if counted { self.read_blocked(Until::FOREVER) } else { self.read_shut(Until::FOREVER) };
    }

    /// The same, a writer that has `taken` `sem` or one that has not.
    #[cold]
    #[inline(never)]
    pub(super) fn write_forever(&self, taken: bool) {
        let _ = if taken { self.shut(Until::FOREVER) } else { self.write_slow(Until::FOREVER) };
    }

    /// A reader that is counted in `sem` and may not enter.
    #[cold]
    pub(super) fn read_blocked(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.sem.take_back();
        self.read_in_turn(until)
    }

    /// A reader that has found the gate closed.
    #[cold]
    pub(super) fn read_shut(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.opens_soon(until) { Ok(()) } else { self.read_in_turn(until) }
    }

    /// A reader spins at the closed gate. `true`: it is in.
    pub(super) fn opens_soon(&self, until: Until<'_, P>) -> bool {
        let end = P::now() + u64::from(P::spin_budget().min(AT_THE_GATE_NS));
        let patience = Patience::ns(LOOK_NS).until(until.slice(end).wake_time()).courteous();
        let mut free = 0;
        while P::cpus() > 1 && !P::should_yield() && P::now() < end && until.over().is_none() {
            let opens = || Some(self.place()).filter(|place| !place.is_closed());
            let goes_on = match P::spin(patience, opens) {
                Some(place) if place.is_open() => {
                    if self.enter(place) {
                        return true;
                    }
                    true
                }
                Some(_) => false,
                None => {
                    let writer = ThreadId::from_raw(self.writer.load(Relaxed));
                    // Between two writers it is closed as well, but not for three looks.
                    free = if self.sem.is_write_locked() { 0 } else { free + 1 };
                    free < 3 && writer.is_some_and(P::is_running)
                }
            };
            if !goes_on {
                break;
            }
        }
        false
    }

    /// A reader waits in the queue of `sem`, and goes in by the gate when it looks and finds it
    /// open.
    fn read_in_turn(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        let by_gate = Cell::new(false);
        let waited = turn::acquire(&Reads::new(self, &by_gate), until);
        self.in_turn(waited, by_gate.get())
    }

    /// A reader's wait has ended: if well, it is inside, by the gate, or holds `sem`.
    pub(super) fn in_turn(&self, waited: Result<(), GaveUp>, by_gate: bool) -> Result<(), GaveUp> {
        if waited.is_err() {
            self.open_what_was_left();
        } else if !by_gate {
            self.seen();
        }
        waited
    }

    /// A waiter has given up, for which the gate was perhaps left closed.
    fn open_what_was_left(&self) {
        if self.place().is_closed() && self.sem.try_read_acquire() {
            self.settle();
            // SAFETY: acquired above.
            unsafe { self.read_release() };
        }
    }

    /// A writer that has found `sem` taken.
    #[cold]
    pub(super) fn write_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.writers.fetch_add(1, Relaxed);
        let taken = self.sem.write_slow(until);
        self.writers.fetch_sub(1, Relaxed);
        match taken {
            Ok(()) => self.shut(until),
            Err(why) => {
                self.open_what_was_left();
                Err(why)
            }
        }
    }

    /// As [`Self::shut`], without a wait but for readers that test: they find the gate closed, and
    /// take themselves out. (Two tries of a free lock do not both fail.)
    #[cold]
    pub(super) fn shut_at_once(&self) -> bool {
        let place = self.place();
        if place.is_open() && place.total::<P>().0 != 0 {
            // SAFETY: the caller holds it.
            unsafe { self.sem.write_release() };
            return false;
        }
        self.shut(Until::after(TESTS_NS)).is_ok()
    }

    /// A writer that holds `sem` closes the gate, and waits for the readers inside. If it gives up
    /// it holds nothing.
    #[cold]
    pub(super) fn shut(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        let place = self.place();
        self.writer.store(P::current().map_or(0, |me| me.id().raw()), Relaxed);
        if !place.is_open() {
            // Not apart; or the writer before has left it closed, and drained.
            return Ok(());
        }
        P::count(Event::RwsemApartShut, 1);
        self.set_place(place.closed());
        // {gate; fence; read counters} against {counter; fence; read gate} of a reader that comes.
        P::fence();
        match self.drained(place, until) {
            Ok(came) => {
                self.reads.store(came.wrapping_sub(self.came.load(Relaxed)), Relaxed);
                self.came.store(came, Relaxed);
                Ok(())
            }
            Err(why) => {
                self.set_place(place);
                // SAFETY: the caller holds it.
                unsafe { self.sem.write_release() };
                Err(why)
            }
        }
    }

    /// Waits until no reader is inside. Returns how many have come.
    fn drained(&self, place: Place, until: Until<'_, P>) -> Result<u32, GaveUp> {
        let none_inside = || {
            let (inside, came) = place.total::<P>();
            if inside != 0 {
                None
            } else if Y::PAST {
                self.held(place)
            } else {
                Some(came)
            }
        };
        // Not longer: nobody knows whether they run.
        let patience = Patience::ns(P::spin_budget().min(turn::BLIND_NS)).until(until.wake_time()).courteous();
        if let Some(came) = P::spin(patience, none_inside) {
            return Ok(came);
        }
        match P::current() {
            Some(me) if me.waiter.busy.load(Relaxed) == 0 => {
                // From here on a signal handler does not queue, and takes no wake-up.
                me.waiter.enter();
                let waiter = &place.drain::<P>().waiter;
                let slept = until.watching(me, || {
                    loop {
                        waiter.store(me.id().raw(), Relaxed);
                        // {`waiter`; fence; read counters} against {counter; fence; read `waiter`}
                        // of a reader that leaves.
                        P::fence();
                        if let Some(came) = none_inside() {
                            return Ok(came);
                        }
                        if let Some(why) = until.over() {
                            return Err(why);
                        }
                        P::count(Event::RwsemSleepWriter, 1);
                        // A reader may be stopped between its leaving and its wake-up.
                        until.slice(P::now() + AGAIN_NS).park(me);
                    }
                });
                waiter.store(0, Relaxed);
                me.waiter.leave();
                slept
            }
            // No record, or already waiting (a signal handler). It counts as the owner, so it does
            // not nap, as those do that wait for one: naps grow with their number.
            _ => loop {
                if let Some(came) = none_inside() {
                    return Ok(came);
                }
                if let Some(why) = until.over() {
                    return Err(why);
                }
                P::park(&place.drain::<P>().waiter, 0, until.wake_time_or(P::now() + SHORTLY_NS));
            },
        }
    }
}

impl<P: Platform, Y: Policy> Shares for Reads<'_, P, Y> {
    fn go_in_beside(&self, may: &impl Fn() -> bool) -> bool {
        if !self.lock.place().is_apart() {
            return self.want.go_in_beside(may);
        }
        let inside = may() && self.lock.enter_past();
        self.by_gate.set(inside);
        inside
    }
}

/// A reader that waits in the queue of `sem`.
pub(super) struct Reads<'a, P: Platform, Y: Policy> {
    lock: &'a RawApartRwSem<P, Y>,
    want: Want<'a, P, false>,
    /// It is inside; else, when the wait has ended well, it holds `sem`.
    by_gate: &'a Cell<bool>,
}

impl<'a, P: Platform, Y: Policy> Reads<'a, P, Y> {
    pub(super) fn new(lock: &'a RawApartRwSem<P, Y>, by_gate: &'a Cell<bool>) -> Self {
        Self { lock, want: Want(&lock.sem), by_gate }
    }

    fn enters(&self) -> bool {
        let place = self.lock.place();
        // A writer that is owed a wake-up goes without: a thread that looks may not wake, and it
        // looks again by itself.
        let inside = place.is_open() && matches!(self.lock.try_enter(place), Entry::In(_));
        self.by_gate.set(inside);
        inside
    }
}

impl<P: Platform, Y: Policy> Contended<P> for Reads<'_, P, Y> {
    const EVENTS: Events = Want::<P, false>::EVENTS;
    const KIND: u32 = Want::<P, false>::KIND;
    const SHARED: bool = true;
    const STRIDE_NS: (u32, u32) = Want::<P, false>::STRIDE_NS;

    parts_of!(want);

    fn look(&self, first: bool) -> Look {
        if self.lock.place().is_open() { Look::Open } else { self.want.look(first) }
    }

    fn try_take(&self, first: bool) -> bool {
        self.enters() || self.want.try_take(first)
    }

    fn try_or_ask(&self, request: Request) -> bool {
        self.enters() || self.want.try_or_ask(request)
    }

    /// One that is inside releases a counter, which wakes nobody: the next looks now.
    fn left(&self, left: Left) {
        self.want.left(Left { listen: left.listen || self.by_gate.get(), ..left });
    }
}
