//! The loop: takes the next event, changes the state, resumes the task that goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::Engine;
use super::arena::{Arena, TaskStack};
use super::heap::{Ps, What};
use super::host::{self, Host};
use super::task::{Account, State};
use super::waits::Wanted;
use crate::error::Error;
use crate::machine::line::{Asker, NOBODY};

type Thread = Coroutine<(), (), (), TaskStack>;

impl Engine {
    /// Lets an event happen. Returns the task that goes on with it.
    fn happen(&mut self, what: What) -> Option<u32> {
        match what {
            What::Task { task, stamp } => (self.tasks[task as usize].stamp == stamp).then_some(task),
            What::Commit { line, stamp } => {
                self.commit(line, stamp);
                None
            }
            What::Grant { line, stamp } => match self.grant(line, stamp)? {
                Asker::Task(task) => Some(task),
                Asker::Ahead { .. } => None,
                Asker::Buffer { cpu, store } => {
                    self.store_granted(cpu, store);
                    None
                }
                Asker::Interrupt { cpu } => {
                    self.interrupt_served(cpu);
                    None
                }
            },
            What::Switched { cpu, stamp } => self.switched(cpu, stamp),
            What::Tick { cpu } => {
                self.tick(cpu);
                None
            }
            What::Ticks => {
                self.ticks();
                None
            }
            What::Timer { task, stamp } => {
                self.timer(task, stamp);
                None
            }
            What::SpinLimit { task, stamp } => {
                self.spin_limit(task, stamp);
                None
            }
            What::Wake { task } => {
                if !self.tasks[task as usize].ghost {
                    self.wake_arrives(task);
                }
                None
            }
            What::Force { cpu, stamp } => {
                self.force(cpu, stamp);
                None
            }
        }
    }

    /// `task` is about to run.
    #[inline(always)]
    fn put_on(&mut self, task: u32) {
        let state = &self.tasks[task as usize];
        let (cpu, give_up) = (state.cpu, state.give_up);
        self.current = task;
        self.here = cpu;
        self.core = self.cpus[cpu as usize].core;
        self.slow = self.slowdown(cpu);
        self.tally.resumes += 1;
        let ahead = self.run_ahead && !give_up && !self.interrupted();
        self.limit = if ahead { self.heap.next_time().min(self.time_limit).min(self.next_tick) } else { 0 };
    }

    fn ended(&mut self, task: u32) {
        self.account(task, Account::Sleeping);
        self.tasks[task as usize].state = State::Done;
        self.finished += 1;
        self.leave_cpu(task);
    }
}

/// Runs `body(i)` for the last tasks of `engine`, one for each of `starts`, until all are done.
/// Those before them have ended long since.
pub(crate) fn run(
    engine: &mut Engine,
    arena: &mut Arena,
    starts: &[Ps],
    body: &(dyn Fn(usize) + Sync),
    names: &dyn Fn(&Engine, Wanted) -> String,
) -> Result<(), Error> {
    let mut threads: Vec<Thread> = Vec::with_capacity(starts.len());
    // SAFETY: the closures below are only run by `resume` in this function, and all coroutines are
    // done or reset before it returns; so `body` is alive whenever it is called.
    let body: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(body) };
    let first = engine.tasks.len() - starts.len();
    engine.expected = starts.len() - engine.heirs;
    for (number, &start) in starts.iter().enumerate() {
        let (index, stack) = (first + number, arena.stack(number)?);
        let cpu = engine.tasks[index].cpu;
        engine.tasks[index] = super::task::Task::new(cpu, stack.range());
        engine.tasks[index].anonymous = engine.faults.is_anonymous(index as u32);
        if number < engine.expected {
            engine.schedule(start, What::Wake { task: index as u32 });
        } else {
            engine.tasks[index].state = State::Done;
        }
        threads.push(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| live(yielder, index, body)));
    }
    let pointer = NonNull::from(&mut *engine);
    let before = host::enter(Some(pointer));
    // From here to the end of the loop the engine is reached through `pointer` only, as the tasks
    // do.
    let result = events(Host::here(), first, &mut threads, names);
    host::enter(before);
    for thread in &mut threads {
        if thread.started() && !thread.done() {
            // SAFETY: the thread is abandoned: nothing on its stack is used again. What it owned on
            // the heap is lost.
            unsafe { thread.force_reset() };
        }
    }
    result
}

fn events(
    host: Option<Host>,
    first: usize,
    threads: &mut [Thread],
    names: &dyn Fn(&Engine, Wanted) -> String,
) -> Result<(), Error> {
    let Some(host) = host else { return Ok(()) };
    loop {
        let engine = host.engine();
        let Some((time, what)) = engine.heap.pop() else {
            return Err(Error::Deadlock(format!(
                "deadlock at {} ns: every thread waits and nothing is due: {}",
                engine.now / 1000,
                engine.waiting(names)
            )));
        };
        if engine.heap.scheduled() > engine.event_limit {
            return Err(Error::EventLimit(format!(
                "given up at {} ms of simulated time, after {} engine events",
                time / 1_000_000_000,
                engine.event_limit
            )));
        }
        if time > engine.time_limit {
            return Err(Error::TimeLimit(format!(
                "the simulation has not ended after {} ms of simulated time: {}",
                engine.time_limit / 1_000_000_000,
                engine.waiting(names)
            )));
        }
        engine.now = time;
        let Some(task) = engine.happen(what).filter(|&task| !engine.tasks[task as usize].ghost) else {
            if matches!(what, What::Grant { .. }) {
                host.effect_of_buffer()?;
            }
            continue;
        };
        engine.put_on(task);
        let done = matches!(threads[task as usize - first].resume(()), CoroutineResult::Return(()));
        let engine = host.engine();
        if done {
            engine.ended(task);
        }
        engine.current = NOBODY;
        if let Some(failure) = engine.failure.take() {
            return Err(failure);
        }
        if engine.finished == engine.expected {
            return Ok(());
        }
    }
}

/// A thread's life, on its own stack.
fn live(yielder: &Yielder<(), ()>, index: usize, body: &'static (dyn Fn(usize) + Sync)) {
    let Some(host) = Host::here() else { return };
    host.engine().tasks[index].yielder = yielder;
    let outcome = catch_unwind(AssertUnwindSafe(|| body(index)));
    if let Err(payload) = outcome {
        let text = host::panic_text(&*payload);
        host.engine().failure.get_or_insert(Error::Panic(format!("thread {index} panicked: {text}")));
        return;
    }
    host.drain_stores();
}
