//! A measured thread: its turns at the lock, and its private counters.
//!
//! A turn costs two stamps (before the call and first thing inside the section), one look at the
//! phase and one histogram entry, the same for every lock. The counters are the thread's own until
//! it leaves; no line is shared while it runs except the phase, which is written twice.

use std::marker::PhantomData;

use crate::control::{Control, Phase};
use crate::data::Data;
use crate::histogram::Histogram;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::prng::Prng;
use crate::section::Section;
use crate::subject::{Exclusive, Shared};
use crate::tally::{Role, Tally};

/// A turn's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

/// A measured thread.
#[derive(Debug)]
pub(crate) struct Worker<'a, M> {
    /// 0-based among the locking threads.
    pub(crate) index: usize,
    pub(crate) role: Role,
    /// The thread's own draws.
    pub(crate) prng: Prng,
    control: &'a Control,
    /// The phase this thread's counters are for.
    phase: Phase,
    tally: Tally,
    machine: PhantomData<fn() -> M>,
}

impl<'a, M: Machine> Worker<'a, M> {
    pub(crate) fn new(control: &'a Control, index: usize, role: Role, seed: u64) -> Self {
        let tally = Tally {
            role,
            reads: 0,
            writes: 0,
            waits: Histogram::default(),
            jobs: 0,
            took: 0,
            batches: Vec::new(),
            torn: 0,
            writes_made: 0,
        };
        let prng = Prng::new(seed, index as u64);
        Self { index, role, prng, control, phase: Phase::Warmup, tally, machine: PhantomData }
    }

    /// Whether the thread should go on.
    #[inline(always)]
    pub(crate) fn on(&self) -> bool {
        self.control.phase() != Phase::Closed
    }

    /// One write turn. Compiled once per lock: every workload measures the same instructions.
    #[inline(never)]
    pub(crate) fn write<L: Exclusive>(&mut self, object: &Object<L>, section: Section) {
        self.write_around(object, || {
            section.spend::<M>();
            true
        });
    }

    /// One write turn that changes `data`.
    #[inline(never)]
    pub(crate) fn change<L: Exclusive>(&mut self, object: &Object<L>, section: Section, data: &Data<M>) {
        self.write_around(object, || {
            let whole = data.change();
            section.spend::<M>();
            whole
        });
    }

    /// One write turn whose section is `act`, which says whether it found all as a writer left it.
    #[inline(always)]
    pub(crate) fn write_around<L: Exclusive>(&mut self, object: &Object<L>, act: impl FnOnce() -> bool) {
        let called = M::stamp();
        let (entered, excluded) = object.lock.with(|| {
            let entered = M::stamp();
            M::passes(&object.lock, true);
            let (x, alone) = object.data.enter();
            let whole = act();
            M::passes(&object.lock, false);
            (entered, object.data.leave(x) & alone & whole)
        });
        self.tally.writes_made += 1;
        self.tally.torn += u64::from(!excluded);
        self.turn(Kind::Write, called, entered);
    }

    /// One read turn. Compiled once per lock, likewise.
    #[inline(never)]
    pub(crate) fn read<L: Shared>(&mut self, object: &Object<L>, section: Section) {
        self.read_around(object, || {
            section.spend::<M>();
            true
        });
    }

    /// One read turn that looks at `data`.
    #[inline(never)]
    pub(crate) fn look<L: Shared>(&mut self, object: &Object<L>, section: Section, data: &Data<M>) {
        self.read_around(object, || {
            let whole = data.look();
            section.spend::<M>();
            whole
        });
    }

    /// One read turn whose section is `act`, as above.
    #[inline(always)]
    fn read_around<L: Shared>(&mut self, object: &Object<L>, act: impl FnOnce() -> bool) {
        let called = M::stamp();
        let (entered, excluded) = object.lock.with_shared(|| {
            let entered = M::stamp();
            M::passes(&object.lock, true);
            let excluded = object.data.look();
            let whole = act();
            M::passes(&object.lock, false);
            (entered, object.data.look() & excluded & whole)
        });
        self.tally.torn += u64::from(!excluded);
        self.turn(Kind::Read, called, entered);
    }

    /// One turn of which everything is the wait: `act` is all there is to it.
    pub(crate) fn operate(&mut self, act: impl FnOnce()) {
        let called = M::stamp();
        act();
        self.turn(Kind::Write, called, M::stamp());
    }

    /// A wait that the workload has measured itself. Whether it counts.
    pub(crate) fn waited(&mut self, called: u64, entered: u64) -> bool {
        self.turn(Kind::Write, called, entered);
        self.phase == Phase::Measure
    }

    /// A read or a write turn that the workload has measured itself. Whether it counts.
    pub(crate) fn passed(&mut self, reads: bool, called: u64, entered: u64) -> bool {
        if self.in_window() {
            self.count(if reads { Kind::Read } else { Kind::Write }, entered.saturating_sub(called));
        } else {
            self.open_wait(called, entered);
        }
        self.phase == Phase::Measure
    }

    /// What of the time from `from` to `to` lies in the window, ns.
    pub(crate) fn part(&self, from: u64, to: u64) -> u64 {
        match self.phase {
            Phase::Warmup => 0,
            Phase::Measure => to.saturating_sub(from.max(self.control.opened_at())),
            Phase::Closed => to.min(self.control.closed_at()).saturating_sub(from.max(self.control.opened_at())),
        }
    }

    /// One more write of which the protected data keeps count.
    pub(crate) fn wrote(&mut self) {
        self.tally.writes_made += 1;
    }

    /// `batch` write turns of which nobody measures the waits, in `ns` all together.
    pub(crate) fn batch(&mut self, batch: u64, ns: u64) {
        if self.in_window() {
            self.tally.writes += batch;
            self.tally.batches.push(ns);
        }
    }

    /// Whether the window is open.
    pub(crate) fn measures(&mut self) -> bool {
        self.in_window() && self.phase == Phase::Measure
    }

    /// One more of the larger units.
    pub(crate) fn job(&mut self) {
        if self.in_window() {
            self.tally.jobs += 1;
        }
    }

    /// What the thread did, once it is done.
    pub(crate) fn finish(mut self) -> Tally {
        self.in_window();
        self.tally.took = M::stamp().saturating_sub(self.control.opened_at());
        self.tally
    }

    #[inline(always)]
    fn turn(&mut self, kind: Kind, called: u64, entered: u64) {
        M::around();
        if self.in_window() {
            self.count(kind, entered.saturating_sub(called));
        } else {
            self.open_wait(called, entered);
        }
    }

    #[inline(always)]
    fn count(&mut self, kind: Kind, wait: u64) {
        match kind {
            Kind::Read => self.tally.reads += 1,
            Kind::Write => self.tally.writes += 1,
        }
        self.tally.waits.add(wait);
    }

    /// Whether the window (or the warm-up) is still open. Starts the counters afresh if it has
    /// opened meanwhile.
    #[inline(always)]
    fn in_window(&mut self) -> bool {
        let phase = self.control.phase();
        if phase != self.phase {
            self.enter_phase(phase);
        }
        phase != Phase::Closed
    }

    #[cold]
    fn enter_phase(&mut self, phase: Phase) {
        if self.phase == Phase::Warmup {
            self.tally.reads = 0;
            self.tally.writes = 0;
            self.tally.jobs = 0;
            self.tally.waits.clear();
            self.tally.batches.clear();
        }
        self.phase = phase;
    }

    /// Accounts for a wait that the window's end cut short, or whose section it cut short.
    #[cold]
    fn open_wait(&mut self, called: u64, entered: u64) {
        let closed = self.control.closed_at();
        if called < closed {
            self.tally.waits.add(entered.min(closed).saturating_sub(called));
        }
    }
}

#[cfg(test)]
mod tests {
    use lockyard::platform::linux::Linux;

    use super::*;

    fn worker(control: &Control) -> Worker<'_, Linux> {
        Worker::new(control, 0, Role::Both, 1)
    }

    #[test]
    fn warm_up_is_thrown_away() {
        let control = Control::new();
        let mut worker = worker(&control);
        worker.turn(Kind::Read, 10, 20);
        worker.turn(Kind::Write, 20, 900);
        control.open(0);
        worker.turn(Kind::Write, 1000, 1007);
        control.close(2000);
        let tally = worker.finish();
        assert_eq!((tally.reads, tally.writes), (0, 1));
        assert_eq!((tally.waits.samples(), tally.waits.longest()), (1, 7));
    }

    #[test]
    fn a_wait_open_at_the_end_counts_as_wait_but_not_as_turn() {
        let control = Control::new();
        let mut worker = worker(&control);
        control.open(0);
        worker.turn(Kind::Read, 100, 150);
        control.close(5_000);
        // Served long after the end: it waited from 200 to 5000 as far as the window knows.
        worker.turn(Kind::Read, 200, 70_000);
        assert!(!worker.on());
        let tally = worker.finish();
        assert_eq!(tally.turns(), 1);
        assert_eq!((tally.waits.samples(), tally.waits.longest()), (2, 4_800));
    }

    #[test]
    fn a_thread_that_never_got_the_lock_has_waited_all_along() {
        let control = Control::new();
        let mut worker = worker(&control);
        // Called in the warm-up, served after the end.
        control.open(0);
        control.close(9_000);
        worker.turn(Kind::Write, 1_000, 9_500);
        let tally = worker.finish();
        assert_eq!(tally.turns(), 0);
        assert_eq!(tally.waits.longest(), 8_000);
    }

    #[test]
    fn a_wait_begun_after_the_end_does_not_count() {
        let control = Control::new();
        let mut worker = worker(&control);
        control.open(0);
        control.close(1_000);
        worker.turn(Kind::Write, 1_001, 2_000);
        assert_eq!(worker.finish().waits.samples(), 0);
    }

    #[test]
    fn of_a_wait_the_window_has_its_part() {
        let control = Control::new();
        let mut worker = worker(&control);
        assert_eq!(worker.part(10, 20), 0);
        control.open(100);
        assert!(worker.measures());
        assert_eq!([worker.part(50, 130), worker.part(110, 130), worker.part(30, 0)], [30, 20, 0]);
        control.close(1_000);
        assert!(!worker.passed(false, 900, 1_200));
        assert_eq!([worker.part(900, 1_200), worker.part(0, 2_000), worker.part(1_001, 1_200)], [100, 900, 0]);
    }

    #[test]
    fn what_was_done_in_the_warm_up_alone_does_not_count() {
        let control = Control::new();
        let mut worker = worker(&control);
        worker.turn(Kind::Write, 1, 2);
        worker.job();
        control.open(0);
        control.close(100);
        let tally = worker.finish();
        assert_eq!((tally.turns(), tally.jobs, tally.waits.samples()), (0, 0, 0));
    }
}
