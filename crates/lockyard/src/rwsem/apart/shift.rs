//! Where readers are counted changes: while a writer holds `sem`, and no reader holds.

use super::super::HANDOFF;
use super::place::Place;
use super::policy::*;
use super::{Policy, RawApartRwSem};
use crate::cancel::Until;
use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};

impl<P: Platform, Y: Policy> RawApartRwSem<P, Y> {
    /// Readers that hold or test, beside those of `sem`; at least 1 if some hold throughout.
    pub fn readers_apart(&self) -> u32 {
        let place = self.place();
        if place.is_apart() { place.inside::<P>() } else { 0 }
    }

    /// Whether readers are apart.
    pub fn is_apart(&self) -> bool {
        self.place().is_apart()
    }

    /// A reader holds `sem` beside others, or did not look whether it should.
    #[cold]
    #[inline(never)]
    pub(super) fn beside(&self) {
        let seen = self.seen();
        if self.may_shift(seen) {
            self.go_apart();
        }
    }

    /// The same, a reader that changes no place. Returns how many there were since the last write;
    /// 0 if it is apart.
    pub(super) fn seen(&self) -> u32 {
        if self.place().is_apart() {
            self.settle();
            return 0;
        }
        // Not exact: it need not be.
        let seen = self.seen.load(Relaxed).saturating_add(1);
        self.seen.store(seen, Relaxed);
        seen
    }

    /// Whether so many reads were seen that the caller is to change the place; nobody else does.
    pub(super) fn may_shift(&self, seen: u32) -> bool {
        let shifting = self.shifting.load(Relaxed);
        let times = if Y::AT_ONCE { 1 } else { WITHOUT_A_WRITER << (shifting >> 1).min(FAILED_MOST) };
        let mine = seen >= self.enough().saturating_mul(times)
            && shifting & 1 == 0
            && self.shifting.compare_exchange(shifting, shifting | 1, Relaxed, Relaxed).is_ok();
        if mine {
            self.seen.store(0, Relaxed);
        }
        mine
    }

    /// A writer leaves, readers are not apart, and some were beside others since the last write.
    #[cold]
    #[inline(never)]
    pub(super) fn reads_seen(&self) {
        if self.seen.swap(0, Relaxed) >= self.enough()
            && let Some((place, came)) = self.new_place()
        {
            self.part(place, came);
        }
    }

    /// Counters of its own, open, and how many have come there. If none are free, the caller asks
    /// again later.
    fn new_place(&self) -> Option<(Place, u32)> {
        let start = P::id().map_or(0, |me| me.raw() as usize);
        let Some(number) = Place::borrow::<P>(start) else {
            self.ask_later();
            return None;
        };
        let place = number.split::<P>(Y::AT_ONCE || P::caches() < FEW_CACHES);
        Some((place, place.total::<P>().1))
    }

    /// A reader holds `sem`: it is to be counted where readers are.
    #[cold]
    pub(super) fn settle(&self) {
        let place = self.place();
        if !place.is_apart() {
            return;
        }
        place.enter::<P>();
        if place.is_closed() {
            // The last writer left it so. Another reader may have opened it: that is as good.
            let _ = self.gate.0.compare_exchange(place.0, place.opened().0, Release, Relaxed);
        }
        // SAFETY: the caller holds it.
        unsafe { self.sem.read_release() };
    }

    /// A writer becomes a reader.
    ///
    /// # Safety
    /// The caller holds `sem` for writing; if readers are apart, none holds or the gate is open.
    pub(super) unsafe fn join(&self) {
        let place = self.place();
        // SAFETY: the caller's promise.
        unsafe {
            if !place.is_apart() {
                return self.sem.downgrade();
            }
            place.enter::<P>();
            if place.is_closed() {
                self.set_place(place.opened());
            }
            self.sem.write_release();
        }
    }

    /// Readers are in each other's way at `sem`, one of which is the caller.
    fn go_apart(&self) {
        // SAFETY: the caller holds it.
        unsafe { self.sem.read_release() };
        if self.shift() {
            // SAFETY: `shift` has acquired it; what is closed was drained, and has not been opened
            // since.
            unsafe { self.join() };
        } else {
            self.sem.read_acquire();
            self.settle();
        }
    }

    /// A reader that holds nothing, and that [may](Self::may_shift): readers go apart. `true`: it
    /// holds `sem` to write.
    pub(super) fn shift(&self) -> bool {
        // All that takes time comes first.
        let new = self.new_place();
        // Not in the queue, and not for ever: a reader inside may wait for what this one holds.
        let taken = new.is_some() && self.sem.write_pressing();
        match new {
            Some((place, came)) if taken && !self.place().is_apart() => self.part(place, came),
            Some((place, _)) => place.give_back::<P>(),
            None => {}
        }
        let failed = if taken { 0 } else { (self.shifting.load(Relaxed) >> 1) + 1 };
        self.shifting.store(failed << 1, Relaxed);
        taken
    }

    /// A thread that holds `sem` to write, beside no reader: counters that it has borrowed are
    /// those of the lock from now on.
    fn part(&self, place: Place, came: u32) {
        self.poor.store(0, Relaxed);
        self.came.store(came, Relaxed);
        self.set_place(place);
        P::count(Event::RwsemApart, 1);
    }

    /// A reader that is in looks whether so many share a counter that each CPU should have one, and
    /// whether there are more than can be counted. `false`: it had to leave.
    #[cold]
    #[inline(never)]
    pub(super) fn look_round(&self, place: Place) -> bool {
        self.end_counting(place);
        let reads = place.total::<P>().1.wrapping_sub(self.came.load(Relaxed)) / MANY_FOR_EACH_CPU;
        if place.is_by_cpu() || reads < P::cpu_end().max(self.enough.load(Relaxed)) {
            return true;
        }
        place.leave::<P>(place.near::<P>());
        // As in `go_apart`.
        if self.write_acquire_until(Until::after(SHIFT_NS)).is_err() {
            self.ask_later();
            // Not again before as many reads.
            self.came.store(place.total::<P>().1, Relaxed);
            return false;
        }
        let place = self.place();
        if place.is_apart() && !place.is_by_cpu() {
            self.split(place, true);
        }
        // SAFETY: acquired above.
        unsafe { self.join() };
        true
    }

    /// A reader that is in looks whether there are more than can be counted.
    #[cold]
    #[inline(never)]
    pub(super) fn end_counting(&self, place: Place) {
        // (A sum that is read while the gate is open may be a little below zero.)
        if place.total::<P>().0.cast_signed() >= FULL {
            // Guards were forgotten. No writer enters any more: this hold of `sem` is for ever.
            self.sem.try_read_acquire();
        }
    }

    /// The counters are those by CPU, or by cache, from now on: open.
    fn split(&self, place: Place, by_cpu: bool) {
        let place = place.split::<P>(by_cpu);
        self.came.store(place.total::<P>().1, Relaxed);
        self.set_place(place);
    }

    /// A writer leaves, and readers are apart: it holds, so they are closed and drained.
    #[cold]
    #[inline(never)]
    pub(super) fn reopen(&self) {
        let place = self.place();
        if P::epoch() > 1 && place.total::<P>().0 != 0 && P::is_alone_in_child() {
            // They tested in the parent while it forked: beside a writer no reader is inside.
            place.near::<P>().fetch_sub(place.total::<P>().0.into(), Relaxed);
        }
        // A writer that spins takes `sem` at once, unless that is kept for a sleeper. (One that
        // comes just now closes again.)
        let kept = self.sem.count.load(Relaxed) & HANDOFF != 0;
        if self.writers.load(Relaxed) != 0 && self.sem.osq.is_locked() && !kept {
            return;
        }
        let (reads, counters) = (self.reads.load(Relaxed), place.counters());
        let poor = reads < Y::FEW || Y::FEW > 0 && reads < counters / 2;
        let so_often = self.poor.load(Relaxed);
        let so_often = if poor { so_often + 1 } else { so_often.saturating_sub(1) };
        self.poor.store(so_often, Relaxed);
        if so_often >= Y::POOR {
            // Writers are not rare.
            self.come_together(place);
            self.ask_later();
        } else if !place.is_by_cpu() && reads / MANY_FOR_EACH_CPU >= P::cpu_end() {
            self.split(place, true);
        } else if place.is_by_cpu() && reads / MANY_FOR_EACH_CPU * 2 < counters && P::caches() >= FEW_CACHES {
            self.split(place, false);
        } else {
            if reads / ENOUGH_AGAIN >= Y::FEW {
                self.enough.store(0, Relaxed);
            }
            self.set_place(place.opened());
        }
    }

    /// Readers are in `sem` from now on, and the counters are given back, unless the lock is held
    /// (`false`). It may be in use. One that a writer holds is looked at for some 10 ms.
    pub fn part_with_counters(&self) -> bool {
        self.await_release();
        let taken = self.try_write_acquire();
        if taken {
            let place = self.place();
            if place.is_apart() {
                self.come_together(place);
            }
            // SAFETY: acquired above.
            unsafe { self.sem.write_release() };
        }
        taken
    }

    /// A writer opens the gate before it releases `sem`: the last reader may have come and gone in
    /// between. Waits for such a writer for some 10 ms at most.
    pub(super) fn await_release(&self) {
        for _ in 0..RETIRE_LOOKS {
            if !self.sem.is_write_locked() {
                return;
            }
            // Not in the queue of `sem`: a release that wakes touches the lock after that.
            P::park(&self.shifting, self.shifting.load(Relaxed), Some(P::now() + RETIRE_NS));
        }
    }

    /// Readers are in `sem` from now on.
    fn come_together(&self, place: Place) {
        P::count(Event::RwsemTogether, 1);
        // What a reader has said late of the time before.
        self.seen.store(0, Relaxed);
        self.set_place(Place::COUNTED);
        place.give_back::<P>();
    }

    /// How many reads beside other reads are enough to go apart.
    pub(super) fn enough(&self) -> u32 {
        self.enough.load(Relaxed).max(Y::ENOUGH)
    }

    fn ask_later(&self) {
        self.enough.store(self.enough().saturating_mul(2).min(ENOUGH_MOST), Relaxed);
    }
}
