//! Memory operations of a task: ask for the line, then act.
//!
//! A hit acts at once and then costs; a miss suspends the task and acts when the line has come.
//! Either way the action happens at the simulated time at which the line's state allows it, so the
//! host's memory always holds what is visible to everybody; what is not yet visible is in store
//! buffers.

use lockyard::platform::Ordering;

use super::Engine;
use super::heap::Ps;
use super::host::Host;
use super::watch::Call;
use crate::machine::buffer::Write;
use crate::machine::line::Asker;
use crate::machine::model::ONE;

fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

impl Engine {
    /// The line of `address` for the running task; remembers it if the task is about to wait.
    /// `true`: for the first time.
    #[inline(always)]
    pub(crate) fn touch(&mut self, address: usize) -> (u32, bool) {
        let node = self.model.node_of[usize::from(self.core)];
        let line = self.lines.find(address, node);
        (line, self.look(line))
    }

    #[inline(always)]
    fn look(&mut self, line: u32) -> bool {
        self.tally.operations += 1;
        let watch = &mut self.tasks[self.current as usize].watch;
        watch.recording && watch.note(line, self.lines[line].version)
    }

    /// What the running task knows of the line is as of now: it has just been read for the first
    /// time, or changed by the task itself.
    #[inline(always)]
    fn up_to_date(&mut self, line: u32) {
        let watch = &mut self.tasks[self.current as usize].watch;
        if watch.recording {
            watch.update(line, self.lines[line].version);
        }
    }

    /// Whether nobody else has changed the line since the running task saw it.
    #[inline(always)]
    fn is_up_to_date(&mut self, line: u32) -> bool {
        let watch = &mut self.tasks[self.current as usize].watch;
        watch.recording && watch.seen(line) == Some(self.lines[line].version)
    }

    /// What a hit on an owned line costs, `base` if nothing speaks against it.
    #[inline(always)]
    fn hit(&mut self, line: u32, base: Ps) -> Ps {
        let (now, here, sibling) = (self.now, self.here, self.model.sibling);
        let state = &mut self.lines[line];
        let mut cost = base;
        if state.last_cpu != here {
            // First touch since the line came, or a sibling thread had it.
            if state.last_cpu != crate::machine::line::NOBODY {
                cost = cost.max(sibling);
            }
            state.last_cpu = here;
        }
        if now - state.touched > self.model.evict {
            cost = self.cold_hit(line, cost);
        }
        self.lines[line].touched = now;
        if self.slow == ONE { cost } else { cost * self.slow / ONE }
    }

    /// A line that was not touched for long: has its core been busy with other things since?
    #[cold]
    fn cold_hit(&mut self, line: u32, cost: Ps) -> Ps {
        let idle = self.cpus[usize::from(self.core)].idle_time;
        let state = &self.lines[line];
        let busy = (self.now - state.touched).saturating_sub(idle.saturating_sub(state.idle_then));
        let evict = self.model.evict;
        self.lines[line].idle_then = idle;
        if busy > evict { cost.max(self.model.l3) } else { cost }
    }

    /// The line has just come to the running task's core.
    #[inline(always)]
    fn arrived(&mut self, line: u32) {
        let here = self.here;
        self.lines[line].last_cpu = here;
    }

    /// Instructions around a memory operation take this long.
    #[inline(always)]
    fn step(&mut self) -> Ps {
        self.uneven(self.model.step)
    }

    /// The instructions of a workload's own code take this long.
    pub(crate) fn around(&mut self) -> Ps {
        self.uneven(self.model.around)
    }

    /// About `ps`; no two times the same, or threads would fall into step for ever.
    #[inline(always)]
    pub(crate) fn uneven(&mut self, ps: Ps) -> Ps {
        match ps {
            0 => 0,
            ps => ps / 2 + Ps::from(self.random.below(ps as u32 + 1)),
        }
    }

    /// The running task has written to a line that its core owns.
    #[inline(always)]
    fn write_here(&mut self, line: u32) {
        let fresh = self.is_up_to_date(line);
        self.written(line, self.here);
        if fresh {
            self.up_to_date(line);
        }
    }

    /// `cpu` has written to a line that its core owns: threads of this core that watch it notice.
    #[inline(always)]
    pub(crate) fn written(&mut self, line: u32, cpu: u32) {
        self.tally.changes += 1;
        let state = &mut self.lines[line];
        state.version = state.version.wrapping_add(1);
        state.written = true;
        if !self.lines[line].watchers.is_empty() {
            self.notify_siblings(line, cpu);
        }
    }
}

/// A line that the running task may now act on, and what it owes for that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    line: u32,
    cost: Ps,
}

/// How a load sees its value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    /// In memory; then pay.
    Memory(Access),
    /// In the store buffer.
    Buffer(u64),
}

// Not inlined and not generic: locks are compiled for many policies and workloads, and the cost of
// a call is small beside that of the model.
impl Host {
    /// Begins a load of the word at `address`, all of whose bits are `full`.
    #[inline(never)]
    #[track_caller]
    pub(crate) fn begin_load(self, address: usize, full: u64) -> Seen {
        self.fault_point(Call::Load(address));
        let engine = self.engine();
        let (line, first) = engine.touch(address);
        let buffer = &engine.cpus[engine.here as usize].buffer;
        if !buffer.is_empty() {
            match buffer.forward(address, full, 0) {
                None => {}
                Some(Ok(value)) => {
                    self.pass(engine.model.l1);
                    return Seen::Buffer(value);
                }
                Some(Err(())) => self.drain_stores(),
            }
        }
        Seen::Memory(self.read_line(line, first))
    }

    /// Begins a load of the two words at `address`. Stores of our own to their line become visible
    /// first: a load is not put together from several.
    #[track_caller]
    pub(crate) fn begin_wide_load(self, address: usize) -> Access {
        self.fault_point(Call::Load(address));
        let engine = self.engine();
        let (line, first) = engine.touch(address);
        if engine.cpus[engine.here as usize].buffer.has_line(line) {
            self.drain_stores();
        }
        self.read_line(line, first)
    }

    /// Asks for the line of the word at `address`, for a load to come.
    pub(crate) fn prefetch(self, address: usize) {
        let engine = self.engine();
        let node = engine.model.node_of[usize::from(engine.core)];
        let (line, core, now) = (engine.lines.find(address, node), engine.core, engine.now);
        if !engine.lines[line].held_by(core, now) {
            let asker = Asker::Ahead { cpu: engine.here };
            engine.request(line, asker, core, false);
        }
        let cycle = engine.model.cycle;
        self.pass(cycle);
    }

    #[inline(always)]
    fn read_line(self, line: u32, first: bool) -> Access {
        let engine = self.engine();
        let (core, now) = (engine.core, engine.now);
        if engine.lines[line].serves(core, false, now) {
            let cost = engine.hit(line, engine.model.l1);
            return Access { line, cost };
        }
        if engine.lines[line].shared_by(core, now) {
            let rest = engine.cpus[engine.here as usize].rest_of_fill(line, now);
            return Access { line, cost: engine.model.l1.max(rest) };
        }
        let asker = Asker::Task(engine.current);
        engine.request(line, asker, core, false);
        self.wait();
        let engine = self.engine();
        if engine.lines[line].owner == engine.core {
            engine.arrived(line);
        }
        if first {
            engine.up_to_date(line);
        }
        Access { line, cost: 0 }
    }

    /// Ends a load.
    #[inline(always)]
    pub(crate) fn end_load(self, access: Access) {
        let step = self.engine().step();
        self.pass(access.cost + step);
    }

    /// Begins a read-modify-write of the word at `address`.
    #[inline(never)]
    #[track_caller]
    pub(crate) fn begin_update(self, address: usize, order: Ordering) -> Access {
        self.fault_point(Call::Update(address));
        let engine = self.engine();
        let (line, _) = engine.touch(address);
        let buffer = &engine.cpus[engine.here as usize].buffer;
        if !buffer.is_empty() && (!engine.model.weak_stores || releases(order) || buffer.has_line(line)) {
            self.drain_stores();
        }
        self.write_line(line)
    }

    #[inline(always)]
    fn write_line(self, line: u32) -> Access {
        let engine = self.engine();
        let (core, now) = (engine.core, engine.now);
        if engine.lines[line].serves(core, true, now) {
            let cost = engine.hit(line, engine.model.rmw_own);
            return Access { line, cost };
        }
        let asker = Asker::Task(engine.current);
        let (fresh, before) = (engine.is_up_to_date(line), engine.lines[line].version);
        engine.request(line, asker, core, true);
        self.wait();
        let engine = self.engine();
        engine.arrived(line);
        if fresh && engine.lines[line].version == before.wrapping_add(1) {
            engine.up_to_date(line);
        }
        Access { line, cost: 0 }
    }

    /// Ends a read-modify-write.
    #[inline(never)]
    pub(crate) fn end_update(self, access: Access) {
        let engine = self.engine();
        engine.write_here(access.line);
        let step = engine.step();
        self.effect();
        self.pass(access.cost + step);
    }

    /// A store.
    #[inline(never)]
    #[track_caller]
    pub(crate) fn store(self, write: Write, order: Ordering) {
        if order == Ordering::SeqCst {
            let access = self.begin_update(write.address, order);
            // SAFETY: the word that the caller stores to.
            unsafe { write.perform() };
            return self.end_update(access);
        }
        self.fault_point(Call::Store(write.address));
        let engine = self.engine();
        let (line, _) = engine.touch(write.address);
        let (core, here, now) = (engine.core, engine.here, engine.now);
        let cycle = engine.model.cycle;
        let step = engine.step();
        if engine.cpus[here as usize].buffer.is_empty() && engine.lines[line].serves(core, true, now) {
            let cost = engine.hit(line, cycle);
            // SAFETY: as above.
            unsafe { write.perform() };
            engine.write_here(line);
            self.effect();
            return self.pass(cost + step);
        }
        if engine.lines[line].untouched() {
            // Nobody has ever looked: nobody can tell when it became visible.
            engine.take_ownership(line, core);
            engine.arrived(line);
            // SAFETY: as above.
            unsafe { write.perform() };
            engine.tally.changes += 1;
            self.effect();
            return self.pass(cycle + step);
        }
        if engine.tasks[engine.current as usize].stack.contains(&write.address) {
            // The task's own stack may be used for something else before a buffer is drained.
            let access = self.write_line(line);
            // SAFETY: as above.
            unsafe { write.perform() };
            return self.end_update(access);
        }
        while self.engine().cpus[here as usize].buffer.len() >= self.engine().model.store_buffer {
            let engine = self.engine();
            let oldest = engine.cpus[here as usize].buffer.oldest();
            engine.await_stores(here, oldest + 1, engine.current);
            self.wait();
        }
        let engine = self.engine();
        engine.buffer_store(here, line, write, releases(order));
        self.effect();
        self.pass(cycle + step);
    }

    /// Waits until every store of this CPU is visible.
    #[inline(always)]
    pub(crate) fn drain_stores(self) {
        let engine = self.engine();
        if !engine.cpus[engine.here as usize].buffer.is_empty() {
            self.drain_slowly();
        }
    }

    #[inline(never)]
    fn drain_slowly(self) {
        let engine = self.engine();
        let (here, task) = (engine.here, engine.current);
        let number = engine.cpus[here as usize].buffer.next_number();
        engine.await_stores(here, number, task);
        self.wait();
    }

    /// A full fence here and on every CPU that runs a task.
    pub(crate) fn fence_everywhere(self) {
        self.enter_kernel();
        self.drain_stores();
        let ipi = self.engine().model.os.wake_ipi;
        self.pass(ipi);
        for cpu in 0..self.engine().cpus.len() as u32 {
            let engine = self.engine();
            let buffer = &engine.cpus[cpu as usize].buffer;
            let number = buffer.next_number();
            if buffer.has_before(number) {
                engine.await_stores(cpu, number, engine.current);
                self.wait();
            }
        }
        self.leave_kernel();
    }

    /// A load of one of the kernel's lines.
    pub(crate) fn kernel_load(self, line: u32) {
        let first = self.engine().look(line);
        let access = self.read_line(line, first);
        self.end_load(access);
    }

    /// A read-modify-write of one of the kernel's lines.
    pub(crate) fn kernel_update<R>(self, line: u32, act: impl FnOnce() -> R) -> R {
        self.engine().look(line);
        self.drain_stores();
        let access = self.write_line(line);
        let result = act();
        self.end_update(access);
        result
    }
}
