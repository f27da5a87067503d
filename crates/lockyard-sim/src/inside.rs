//! What a program says and asks on a simulated thread, beside the seam. Outside of simulated
//! threads nothing happens, and answers are zeros.

use lockyard::event::Snapshot;

use crate::engine::heap::Ps;
use crate::engine::host::Host;
use crate::engine::task::Account;
use crate::engine::watch::Call;
use crate::machine::model::ONE;
use crate::platform::words::U32;
use crate::scheduler::class::Class;

/// For [`Config::watch_memory`](crate::Config::watch_memory): `object` is freed; a thread that
/// touches it from now on ends the run. Its memory must stay until then.
pub fn freed<T: ?Sized>(object: &T) {
    if let Some(host) = Host::here() {
        host.engine().guard.free(std::ptr::from_ref(object).addr(), size_of_val(object));
    }
}

/// Whether the calling simulated thread holds nothing from here on, so that a handler [may
/// stop](crate::faults) it.
pub fn may_stop(may: bool) {
    if let Some(host) = Host::here() {
        let engine = host.engine();
        engine.tasks[engine.current as usize].may_stop = may;
    }
}

/// Until when, ns, a handler has kept a thread, 0 if none ever has; `None` while one does. For
/// judges: see [`Simulation::run_judged`](crate::Simulation::run_judged).
pub fn stopped_until(thread: usize) -> Option<u64> {
    let Some(host) = Host::here().or_else(Host::observed) else { return Some(0) };
    let until = host.engine().tasks.get(thread).map_or(0, |task| task.stopped_until);
    (until != Ps::MAX).then_some(until / 1000)
}

/// An opportunity to [fork](crate::faults). Whether the calling simulated thread is now that of a
/// child process.
pub fn fork() -> bool {
    Host::here().is_some_and(Host::fork)
}

/// The CPU time that simulated thread `thread` has used so far, spinning included, ns.
pub fn cpu_ns(thread: usize) -> u64 {
    Host::here().map_or(0, |host| {
        let engine = host.engine();
        engine.tasks.get(thread).map_or(0, |task| task.cpu_time(engine.now) / 1000)
    })
}

/// Counts a completed operation of the calling simulated thread, for
/// [`Report::threads`](crate::report::Report::threads).
pub fn operation() {
    if let Some(host) = Host::here() {
        let engine = host.engine();
        engine.tasks[engine.current as usize].operations += 1;
    }
}

/// Lets the calling simulated thread compute for `ns` nanoseconds.
pub fn compute(ns: u64) {
    if let Some(host) = Host::here() {
        host.fault_point(Call::Compute);
        let slow = host.engine().slow;
        host.pass(ns * 1000 * slow / ONE);
    }
}

/// Simulated time in picoseconds, free of charge. Zero outside simulated threads.
pub fn clock_ps() -> u64 {
    Host::here().or_else(Host::observed).map_or(0, |host| host.engine().now)
}

/// The CPU of the calling simulated thread.
pub fn cpu() -> usize {
    Host::here().map_or(0, |host| host.engine().here as usize)
}

/// Moves the calling simulated thread to `cpu` for good.
pub fn pin_here(cpu: usize) {
    if let Some(host) = Host::here() {
        let cpu = cpu % host.engine().cpus.len();
        host.pin(cpu as u32);
    }
}

/// Changes the scheduling class of the calling simulated thread, free of charge. If somebody better
/// waits for its CPU, it gives way. What is lent to the thread at that moment is lost.
pub fn set_class(class: Class) {
    if let Some(host) = Host::here() {
        let engine = host.engine();
        let task = engine.current;
        engine.tasks[task as usize].own_class = class;
        engine.change_class(task, class);
    }
}

/// Whether a thread sleeps on a word and nobody has woken it: for observers, see
/// [`Simulation::run_observed`](crate::Simulation::run_observed). `false` when nothing is
/// simulated.
pub fn is_parked(thread: usize) -> bool {
    let host = Host::here().or_else(Host::observed);
    host.is_some_and(|host| host.engine().is_parked(thread))
}

/// How often any word, or the class of a thread, has changed so far: an observer that finds the
/// same number as last time finds the same words. 0 when nothing is simulated.
pub fn changes() -> u64 {
    let host = Host::here().or_else(Host::observed);
    host.map_or(0, |host| host.engine().tally.changes)
}

/// Lets the calling simulated thread sleep for about `ns` nanoseconds.
pub fn sleep(ns: u64) {
    if let Some(host) = Host::here() {
        host.sleep(ns * 1000);
    }
}

/// Keeps the calling simulated thread off the CPU for `ns` nanoseconds, if a CPU is free then: as
/// long as a program was seen to sleep, where [`sleep`] is what it asks for.
pub fn stay_away(ns: u64) {
    if let Some(host) = Host::here() {
        host.stay_away(ns.saturating_mul(1000));
    }
}

/// Lets the calling simulated thread execute `n` PAUSE instructions.
pub fn pause(n: u32) {
    if let Some(host) = Host::here() {
        host.fault_point(Call::Compute);
        let pause = host.engine().model.pause;
        host.pass(u64::from(n) * pause);
    }
}

/// The instructions of a workload's own code: once in each section, once after each turn.
pub fn around() {
    if let Some(host) = Host::here() {
        let around = host.engine().around();
        host.pass(around);
    }
}

/// Wakes sleepers on `word`, `most` of them at most, by one call.
pub fn unpark_some(word: &U32, most: u32) {
    if let Some(host) = Host::here() {
        host.fault_point(Call::Unpark(word.place()));
        host.unpark_some(word.place(), most);
    }
}

/// Moves the calling simulated thread for good to the `index`-th CPU of the placement, counted
/// round.
pub fn pin_in_order(index: usize) {
    if let Some(host) = Host::here() {
        let order = &host.engine().order;
        let cpu = order[index % order.len()];
        host.pin(cpu);
    }
}

/// For the trace: the calling simulated thread has entered a section of the lock at `address`, or
/// is about to leave it.
pub fn passes(address: usize, enters: bool) {
    if let Some(host) = Host::here() {
        host.engine().note_passage(address, enters);
    }
}

/// What all threads have used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time, spinning included, ns.
    pub cpu_ns: u64,
    /// Times a thread gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Times a thread was preempted.
    pub involuntary_switches: u64,
}

/// What all threads have used so far. The stretch between the last two looks is the report's
/// [window](crate::report::Report::window).
pub fn used() -> Used {
    let Some(host) = Host::here() else { return Used::default() };
    let engine = host.engine();
    let mark = engine.mark();
    engine.marks.push(mark);
    let busy = |spent: &[u64; 4]| spent[Account::Running as usize] + spent[Account::Spinning as usize];
    Used {
        cpu_ns: engine.tasks.iter().map(|task| busy(&task.spent)).sum::<u64>() / 1000,
        voluntary_switches: engine.tasks.iter().map(|task| task.voluntary).sum(),
        involuntary_switches: engine.tasks.iter().map(|task| task.involuntary).sum(),
    }
}

/// The lock events of the run so far.
pub fn events() -> Snapshot {
    Host::here().map_or_else(Snapshot::default, |host| Snapshot::from_counts(host.engine().counts))
}
