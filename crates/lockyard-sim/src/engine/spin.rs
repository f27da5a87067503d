//! Spinning as an event (`spec/simulation.md` 4.6).
//!
//! A closure that does not yield has looked at some lines; as long as none of them changes it would
//! not yield the next time either. So the task sleeps, with its lines on a watch list, until
//! another core takes one of them. It then notices at its next poll, which comes at a multiple of
//! the poll period (loop overhead and one PAUSE; longer with a stride; give or take a quarter of
//! it), refetches the line at the usual price, and runs the closure again. Where threads wait with
//! WFE they notice a fixed time after the event. Spent patience, an owner that leaves its CPU and a
//! need to give way wake the task in the same way.
//!
//! A task whose lines have already changed when the closure returns polls again after one period.
//! PAUSE thus delays detection by half a period on average and spreads herds.
//!
//! **A closure that waits.** What a closure has looked at is only true together: if it spins
//! itself, sleeps, or wakes somebody (who wakes may have to wait for the kernel), the first lines
//! are old when it returns, and the wait inside has a watch list and a patience of its own. The
//! seam forbids it, and a run in which it happens ends there: what would follow is a thread that
//! watches the wrong lines, for ever.

use lockyard::platform::Patience;

use super::Engine;
use super::heap::{Ps, What};
use super::host::Host;
use super::task::{Account, Doing, Rhythm, State};
use crate::error::Error;
use crate::machine::line::NOBODY;

/// See [`Engine::bound_realtime_spin`]: the budget of the real machine.
const REALTIME_SPIN: Ps = 20_000_000;

impl Host {
    /// Runs `ready` until it yields or `patience` is spent.
    pub(crate) fn spin<T>(self, patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let start = self.engine().now;
        if let Some(value) = self.poll(&mut ready) {
            return Some(value);
        }
        if !self.begin_spin(&patience, start) {
            return None;
        }
        if let Some(owner) = patience.running {
            self.fetch_state(owner);
        }
        let value = loop {
            if self.out_of_patience(&patience) {
                break None;
            }
            self.watch();
            if let Some(value) = self.poll(&mut ready) {
                break Some(value);
            }
        };
        self.engine().end_spin();
        value
    }

    /// The running task is about to do what the closure of a spin must not do. If it is in one, the
    /// run ends.
    #[inline(always)]
    pub(crate) fn outside_spins(self, what: &str) {
        let engine = self.engine();
        if engine.tasks[engine.current as usize].watch.recording {
            self.broken_off(what);
        }
    }

    #[cold]
    fn broken_off(self, what: &str) {
        let engine = self.engine();
        let task = engine.current;
        engine.failure.get_or_insert_with(|| {
            Error::Seam(format!(
                "thread {task} {what} inside the closure of a spin: it may look at words and try to change them, and must neither wait nor wake"
            ))
        });
        self.suspend();
    }

    /// Prepares to wait. `false`: there is nobody to wait for.
    #[inline(never)]
    fn begin_spin(self, patience: &Patience, start: Ps) -> bool {
        let engine = self.engine();
        if engine.cpus.len() == 1 {
            return false;
        }
        engine.begin_spin(patience, start);
        true
    }

    #[inline(never)]
    fn out_of_patience(self, patience: &Patience) -> bool {
        let engine = self.engine();
        let task = &engine.tasks[engine.current as usize];
        engine.now >= task.spin_limit
            || patience.running.is_some() && !engine.runs(task.spins_for)
            || patience.courteous && engine.cpus[engine.here as usize].need_resched
    }

    /// Sleeps until it is worth running the closure again.
    #[inline(never)]
    fn watch(self) {
        self.engine().watch();
        self.suspend();
    }

    /// Runs the closure once and notes what it looks at.
    #[inline]
    fn poll<T>(self, ready: &mut impl FnMut() -> Option<T>) -> Option<T> {
        let engine = self.engine();
        let task = engine.current as usize;
        engine.tasks[task].watch.begin();
        let value = ready();
        self.engine().tasks[task].watch.recording = false;
        value
    }
}

impl Engine {
    /// Whether task `owner` is on a CPU.
    pub(crate) fn runs(&self, owner: u32) -> bool {
        self.tasks.get(owner as usize).is_some_and(|task| task.on_cpu())
    }

    fn begin_spin(&mut self, patience: &Patience, start: Ps) {
        let task = self.current;
        let now = self.now;
        let mut limit = if patience.ns == u32::MAX { Ps::MAX } else { start + Ps::from(patience.ns) * 1000 };
        if let Some(deadline) = patience.deadline {
            limit = limit.min(self.when(deadline));
        }
        let owner = patience.running.map(|id| if id.is_anonymous() { NOBODY } else { id.raw() - 1 });
        let period = self.model.poll.max(1);
        let (first, longest) = patience.stride_ns;
        let first = (Ps::from(first) * 1000).max(period);
        let longest = (Ps::from(longest) * 1000).max(first);
        let state = &mut self.tasks[task as usize];
        state.spinning = true;
        state.spin_limit = limit;
        state.courteous = patience.courteous;
        state.rhythm = Rhythm { last: now, step: first, longest };
        state.spin_stamp = state.spin_stamp.wrapping_add(1);
        state.spins_for = owner.unwrap_or(NOBODY);
        let stamp = state.spin_stamp;
        if let Some(owner) = owner.and_then(|owner| self.tasks.get_mut(owner as usize)) {
            owner.spun_for_by.push(task);
        }
        if limit != Ps::MAX {
            self.schedule(limit.max(now), What::SpinLimit { task, stamp });
        }
        self.account(task, Account::Spinning);
        self.bound_realtime_spin(task);
    }

    /// A polite spinner relies on being told when its CPU is needed. Nobody tells a real-time task
    /// that one below it needs it, and that may be the very one it waits for: unless it watches the
    /// one, it spins no longer than threads of a machine that tells nothing.
    pub(crate) fn bound_realtime_spin(&mut self, task: u32) {
        let limit = self.now + REALTIME_SPIN;
        let state = &mut self.tasks[task as usize];
        let blind = state.spinning && state.courteous && state.spins_for == NOBODY && state.class.is_realtime();
        if blind && limit < state.spin_limit {
            state.spin_limit = limit;
            let stamp = state.spin_stamp;
            self.schedule(limit, What::SpinLimit { task, stamp });
        }
    }

    fn end_spin(&mut self) {
        let task = self.current;
        let state = &mut self.tasks[task as usize];
        state.spinning = false;
        state.courteous = false;
        state.spin_stamp = state.spin_stamp.wrapping_add(1);
        let owner = std::mem::replace(&mut state.spins_for, NOBODY);
        if let Some(owner) = self.tasks.get_mut(owner as usize)
            && let Some(index) = owner.spun_for_by.iter().position(|&spinner| spinner == task)
        {
            owner.spun_for_by.swap_remove(index);
        }
        self.account(task, Account::Running);
    }

    /// The running task waits for a change of what it looked at. The caller suspends it.
    fn watch(&mut self) {
        let task = self.current;
        let now = self.now;
        let core = self.core;
        let state = &mut self.tasks[task as usize];
        state.rhythm.last = now;
        let watch = state.watch;
        // Held again is not enough: a line may have gone and come back between two looks of the
        // closure.
        let stale = |(line, version)| !self.lines[line].held_by(core, now) || self.lines[line].version != version;
        if watch.overflow || watch.lines().any(stale) || watch.lines().next().is_none() {
            let until = self.next_poll(task, now + 1);
            self.tasks[task as usize].doing = Doing::Computing { until };
            self.wake_at(until, task);
            return;
        }
        state.doing = Doing::Watching;
        let stamp = state.watch_stamp;
        for (line, _) in watch.lines() {
            let tasks = &self.tasks;
            let watchers = &mut self.lines[line].watchers;
            if watchers.len() >= 16 && watchers.len().is_power_of_two() {
                watchers.retain(|&(task, stamp)| tasks[task as usize].watch_stamp == stamp);
            }
            watchers.push((task, stamp));
        }
        for (line, _) in watch.lines() {
            self.announce(line);
        }
    }

    /// When `task` looks next, if something changes at `time`.
    fn next_poll(&mut self, task: u32, time: Ps) -> Ps {
        match self.model.wfe_wake {
            Some(delay) => time + delay,
            None => {
                let rhythm = &mut self.tasks[task as usize].rhythm;
                let since = time.saturating_sub(rhythm.last);
                let poll = rhythm.poll_after(time);
                let period = rhythm.step.max(1);
                // No two PAUSEs take the same time: after a few, a poll may fall anywhere in its
                // period.
                let loose = if since > 4 * period { period } else { period / 4 };
                let early = poll - Ps::from(self.random.below(u32::try_from(loose).unwrap_or(u32::MAX)));
                if early >= time { early } else { early + loose }
            }
        }
    }

    /// Something happened that a watching task may want to know.
    pub(crate) fn poke(&mut self, task: u32) {
        let state = &mut self.tasks[task as usize];
        if state.state != State::Running || state.doing != Doing::Watching {
            return;
        }
        state.watch_stamp = state.watch_stamp.wrapping_add(1);
        let until = self.next_poll(task, self.now);
        self.tasks[task as usize].doing = Doing::Computing { until };
        self.wake_at(until, task);
    }

    /// Patience is spent.
    pub(crate) fn spin_limit(&mut self, task: u32, stamp: u32) {
        if self.tasks[task as usize].spin_stamp == stamp {
            self.poke(task);
        }
    }

    /// `core` has taken the line: everybody else's copy is gone.
    pub(crate) fn invalidate_watchers(&mut self, line: u32, core: u16) {
        let mut watchers = std::mem::take(&mut self.lines[line].watchers);
        watchers.retain(|&(task, stamp)| {
            let state = &self.tasks[task as usize];
            if state.watch_stamp != stamp || state.state != State::Running {
                return false;
            }
            if self.cpus[state.cpu as usize].core == core {
                return true;
            }
            self.poke(task);
            false
        });
        self.lines[line].watchers = watchers;
    }

    /// `cpu` has written to a line of its core: sibling threads notice.
    pub(crate) fn notify_siblings(&mut self, line: u32, cpu: u32) {
        let core = self.cpus[cpu as usize].core;
        let mut watchers = std::mem::take(&mut self.lines[line].watchers);
        watchers.retain(|&(task, stamp)| {
            let state = &self.tasks[task as usize];
            if state.watch_stamp != stamp || state.state != State::Running {
                return false;
            }
            if state.cpu != cpu && self.cpus[state.cpu as usize].core == core {
                self.poke(task);
                return false;
            }
            true
        });
        self.lines[line].watchers = watchers;
    }
}
