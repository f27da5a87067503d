//! From a task's stack to the engine.
//!
//! The simulation that runs on this host thread is found through a thread-local pointer; it is null
//! outside simulated threads, where words are plain memory and nothing costs anything.
//!
//! [`Host`] is that pointer. Its methods are the only code that suspends; each borrow of the engine
//! ends before.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;

use super::Engine;
use super::heap::Ps;
use super::task::{Account, Doing, State};
use super::watch::Call;
use crate::error::Error;
use crate::faults::Fault;
use crate::machine::line::NOBODY;

thread_local! {
    static CURRENT: Cell<Option<NonNull<Engine>>> = const { Cell::new(None) };
    /// The engine that is looked at, while an observer looks.
    static OBSERVED: Cell<Option<NonNull<Engine>>> = const { Cell::new(None) };
}

/// Sets the engine whose tasks run on this host thread; returns the one before.
pub(crate) fn enter(engine: Option<NonNull<Engine>>) -> Option<NonNull<Engine>> {
    CURRENT.replace(engine)
}

/// The first line of what a panic says.
pub(super) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.as_deref().and_then(|text| text.lines().next()).unwrap_or("no message").to_owned()
}

/// Where an engine keeps one of its onlookers.
type Which = fn(&mut Engine) -> &mut Option<NonNull<dyn FnMut()>>;

/// The engine of the simulated thread that is running.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host(NonNull<Engine>);

impl Host {
    /// The engine, if this is a simulated thread.
    #[inline(always)]
    pub(crate) fn here() -> Option<Self> {
        CURRENT.get().map(Self)
    }

    /// The engine, for one statement.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn engine<'a>(self) -> &'a mut Engine {
        // SAFETY: the loop sets the pointer to an engine that outlives every resumption
        // (`run::Runner`). One host thread runs one task or the loop at a time, and borrows end
        // with their statement, before any suspension: no two are alive at once.
        unsafe { &mut *self.0.as_ptr() }
    }

    /// Number of the running task.
    #[inline(always)]
    pub(crate) fn task(self) -> u32 {
        self.engine().current
    }

    /// Lets other events happen; returns when the task goes on.
    ///
    /// Not inlined: all that lives in the frames of those who called it is above its own frame.
    #[inline(never)]
    pub(crate) fn suspend(self) {
        let mark = 0u8;
        let yielder = {
            let engine = self.engine();
            let task = &mut engine.tasks[engine.current as usize];
            task.stack_top = std::hint::black_box(&raw const mark).addr();
            task.yielder
        };
        // SAFETY: set when the task began; it lives on the task's own stack for as long as the task
        // runs.
        unsafe { (*yielder).suspend(()) };
    }

    /// Waits for a line, for stores or for another CPU. Whoever is waited for schedules the task.
    #[inline(always)]
    pub(crate) fn wait(self) {
        let engine = self.engine();
        engine.tasks[engine.current as usize].doing = Doing::Memory;
        self.suspend();
    }

    /// Computes for `ps`.
    #[inline]
    pub(crate) fn pass(self, ps: Ps) {
        let engine = self.engine();
        let end = engine.now + ps;
        if end < engine.limit {
            engine.now = end;
        } else {
            self.pass_slowly(ps);
        }
    }

    #[cold]
    #[inline(never)]
    fn pass_slowly(self, mut ps: Ps) {
        loop {
            if self.engine().interrupted() {
                self.stand_still();
                continue;
            }
            let engine = self.engine();
            let task = engine.current;
            let state = &engine.tasks[task as usize];
            if state.give_up && state.kernel == 0 {
                self.give_way();
            }
            let engine = self.engine();
            let end = engine.now + ps;
            if end < engine.limit {
                engine.now = end;
                return;
            }
            let until = end.min(engine.next_tick);
            engine.tasks[task as usize].doing = Doing::Computing { until };
            engine.wake_at(until, task);
            self.suspend();
            if until == end && !self.engine().interrupted() {
                return;
            }
            ps = end - until;
        }
    }

    /// Leaves the CPU to whoever is better.
    fn give_way(self) {
        self.drain_stores();
        let engine = self.engine();
        let task = engine.current;
        // The stores may have taken long enough for the reason to be gone.
        if !engine.tasks[task as usize].give_up {
            return;
        }
        engine.tasks[task as usize].involuntary += 1;
        engine.requeue(task, true);
        self.suspend();
    }

    /// Enters the simulated kernel: not preemptible until [`Host::leave_kernel`].
    pub(crate) fn enter_kernel(self) {
        let engine = self.engine();
        engine.tasks[engine.current as usize].kernel += 1;
    }

    /// Leaves the simulated kernel.
    pub(crate) fn leave_kernel(self) {
        let engine = self.engine();
        let task = engine.current;
        let state = &mut engine.tasks[task as usize];
        state.kernel -= 1;
        if state.give_up && state.kernel == 0 {
            engine.limit = 0;
            self.pass(0);
        }
    }

    /// Sleeps until woken; returns at once if that has happened already.
    pub(crate) fn block(self) {
        self.drain_stores();
        let task = self.task();
        if !self.engine().tasks[task as usize].woken {
            let engine = self.engine();
            let half = engine.uneven(engine.model.os.ctx_switch / 2);
            self.pass(half);
        }
        let engine = self.engine();
        let state = &mut engine.tasks[task as usize];
        if std::mem::take(&mut state.woken) {
            return;
        }
        state.state = State::Sleeping;
        state.voluntary += 1;
        engine.account(task, Account::Sleeping);
        engine.leave_cpu(task);
        self.suspend();
    }

    /// Lets others of this CPU run.
    pub(crate) fn yield_cpu(self) {
        self.enter_kernel();
        let cost = self.engine().model.os.yield_call;
        self.pass(cost);
        self.drain_stores();
        let engine = self.engine();
        let task = engine.current;
        if engine.yields_to_somebody(task) {
            engine.tasks[task as usize].voluntary += 1;
            engine.requeue(task, false);
            self.suspend();
        }
        self.leave_kernel();
    }

    /// Sleeps for about `ps`.
    pub(crate) fn sleep(self, ps: Ps) {
        self.enter_kernel();
        let entry = self.engine().model.os.futex_wait_entry;
        self.pass(entry);
        let engine = self.engine();
        let task = engine.current;
        engine.tasks[task as usize].woken = false;
        engine.arm_timer(task, engine.now + ps);
        self.block();
        self.leave_kernel();
    }

    /// Off the CPU for `ps`: a time that was seen, of which the slack of a timer and the way back
    /// to the CPU are parts. Longer only if no CPU is free then.
    pub(crate) fn stay_away(self, ps: Ps) {
        self.enter_kernel();
        let engine = self.engine();
        let task = engine.current;
        engine.tasks[task as usize].woken = false;
        engine.tasks[task as usize].comes_back = true;
        // It is away from half a switch later on, and back half a switch after the timer.
        engine.set_timer(task, engine.now + ps);
        self.block();
        self.engine().tasks[task as usize].comes_back = false;
        self.leave_kernel();
    }

    /// Moves to `cpu` and stays there.
    pub(crate) fn pin(self, cpu: u32) {
        let engine = self.engine();
        let task = engine.current;
        engine.tasks[task as usize].pinned = Some(cpu);
        if engine.here == cpu {
            return;
        }
        self.enter_kernel();
        self.drain_stores();
        let engine = self.engine();
        engine.account(task, Account::Runnable);
        engine.tasks[task as usize].state = State::Runnable;
        engine.leave_cpu(task);
        engine.arrive(task, cpu, 0);
        self.suspend();
        self.leave_kernel();
    }

    /// A place where an adversary may interfere: the beginning of the seam call `what`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn fault_point(self, what: Call) {
        if self.engine().faults.active {
            self.adversity(what, Location::caller());
        }
    }

    /// Something of the running thread's has become visible: an observer sees it before
    /// anything else happens.
    #[inline(always)]
    pub(crate) fn effect(self) {
        if self.engine().faults.active {
            self.let_observer_look();
        }
    }

    /// As [`Host::effect`], between the steps of threads: a store has left its buffer.
    pub(super) fn effect_of_buffer(self) -> Result<(), Error> {
        if !self.engine().faults.active {
            return Ok(());
        }
        let look = catch_unwind(AssertUnwindSafe(|| self.let_observer_look()));
        look.map_err(|payload| Error::Panic(format!("the observer panicked: {}", panic_text(&*payload))))
    }

    /// The engine that an observer looks at, if this is one.
    pub(crate) fn observed() -> Option<Self> {
        OBSERVED.get().map(Self)
    }

    /// Has the observer look.
    #[cold]
    fn let_observer_look(self) {
        self.let_look(|engine| &mut engine.observer);
    }

    /// Has an onlooker look: outside simulated threads, as far as words are concerned.
    fn let_look(self, which: Which) {
        /// Puts everything back. An onlooker that panics has seen enough: the thread whose step it
        /// was unwinds, and steps on the way.
        struct Restore(Host, NonNull<dyn FnMut()>, Which);
        impl Drop for Restore {
            fn drop(&mut self) {
                OBSERVED.set(None);
                enter(Some(self.0.0));
                if !std::thread::panicking() {
                    *(self.2)(self.0.engine()) = Some(self.1);
                }
            }
        }
        let Some(onlooker) = which(self.engine()).take() else { return };
        let mut restore = Restore(self, onlooker, which);
        OBSERVED.set(Some(self.0));
        enter(None);
        // SAFETY: it outlives the run (`set_observer`, `set_judge`), and nobody else has it: it was
        // taken out.
        unsafe { restore.1.as_mut()() };
    }

    #[cold]
    fn adversity(self, what: Call, place: &'static Location<'static>) {
        self.let_observer_look();
        let engine = self.engine();
        let task = engine.current;
        if task == NOBODY || engine.tasks[task as usize].kernel > 0 {
            return;
        }
        self.fault();
        if self.engine().faults.is_pct() {
            self.await_turn();
        }
        // After whatever happened meanwhile: the word may have gone.
        let engine = self.engine();
        engine.watch_call(what, place);
        if engine.failure.is_some() {
            // The run ends here: the loop sees it.
            self.suspend();
        }
    }

    fn fault(self) {
        let engine = self.engine();
        let (task, now) = (engine.current, engine.now);
        if let Some(away) = engine.faults.preemption() {
            engine.faults.note(now, task, Fault::Preempt);
            self.be_away(away);
        }
        let engine = self.engine();
        let state = &engine.tasks[task as usize];
        if state.may_stop
            && state.windows == 0
            && let Some(long) = engine.faults.stop()
        {
            engine.faults.note(now, task, Fault::Stop);
            self.be_stopped(long);
        }
        let engine = self.engine();
        if let Some(lost) = engine.faults.lost_cpu() {
            engine.faults.note(now, task, Fault::LostCpu);
            self.enter_kernel();
            self.pass(lost);
            self.leave_kernel();
        }
        let engine = self.engine();
        if let Some(jump) = engine.faults.clock_jump() {
            engine.faults.note(now, task, Fault::ClockJump);
            engine.jump(jump);
        }
        let engine = self.engine();
        if let Some(cpu) = engine.faults.migration(engine.cpus.len() as u32) {
            engine.faults.note(now, task, Fault::Migrate);
            let pinned = engine.tasks[task as usize].pinned;
            if pinned.is_none() {
                self.pin(cpu);
                self.engine().tasks[task as usize].pinned = pinned;
            }
        }
    }

    /// Off the CPU for `away`, as if somebody better had come.
    fn be_away(self, away: Ps) {
        self.enter_kernel();
        self.drain_stores();
        let engine = self.engine();
        let task = engine.current;
        engine.tasks[task as usize].woken = false;
        engine.arm_timer(task, engine.now + away);
        self.block();
        self.leave_kernel();
    }

    /// In a signal handler for `long`. The judge looks before the thread goes on.
    fn be_stopped(self, long: Ps) {
        let task = self.task() as usize;
        self.engine().tasks[task].stopped_until = Ps::MAX;
        self.be_away(long);
        self.let_look(|engine| &mut engine.judge);
        let engine = self.engine();
        engine.tasks[task].stopped_until = engine.now;
    }

    /// A PCT schedule: waits until no better task could go on. Not for ever: what looks able to go
    /// on may be waiting in a way of its own.
    fn await_turn(self) {
        const FIRST: Ps = 2_000_000;
        const ROUNDS: u32 = 12;
        let engine = self.engine();
        let (task, threads) = (engine.current, engine.tasks.len());
        engine.faults.pct_step(task, threads);
        for round in 0..ROUNDS {
            if !self.engine().a_better_one_goes_on(task) {
                return;
            }
            self.be_away(FIRST << round.min(6));
        }
    }
}

impl Engine {
    /// In a PCT schedule: whether a task of higher priority than `task` neither sleeps nor spins.
    fn a_better_one_goes_on(&self, task: u32) -> bool {
        let own = self.faults.priority(task);
        (0..).zip(&self.tasks).any(|(other, state)| {
            matches!(state.state, State::Runnable | State::Running)
                && !state.spinning
                && self.faults.priority(other) > own
        })
    }
}
