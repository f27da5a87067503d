//! Workloads of `lockyard-work` on simulated machines.
//!
//! A workload asks its machine for threads through associated functions; which machine is meant is
//! a matter of the host thread: [`session`] sets it for the duration of a closure. Each run inside
//! leaves a [`Report`].

use std::cell::RefCell;

use lockyard::event::Snapshot;
use lockyard_work::{Machine, MachineError, Usage};

use crate::engine::host::Host;
use crate::engine::task::Account;
use crate::engine::watch::Call;
use crate::platform::Sim;
use crate::report::Report;
use crate::simulation::{Config, Simulation};

#[derive(Debug)]
struct Session {
    config: Config,
    reports: Vec<Report>,
    /// Names for the next simulation: address, size, name.
    names: Vec<(usize, usize, String)>,
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Runs `work` with the machine of `config` as [`Sim`]. Returns its result and the reports of the
/// simulations it ran.
///
/// ```
/// use lockyard_sim::{Config, LOCKS, machine::catalog, session};
/// use lockyard_work::{Spec, Workload};
///
/// let config = Config::new(catalog::machine("quad2008")?);
/// let spec = Spec {
///     threads: 4,
///     duration: std::time::Duration::from_millis(1),
///     warmup: std::time::Duration::ZERO,
///     ..Spec::new(Workload::Contend)
/// };
/// let (record, reports) = session(&config, || (LOCKS[0].measure)(&spec));
/// assert!(record.is_ok_and(|record| record.operations > 0) && reports.len() == 1);
/// # Ok::<(), lockyard_sim::Error>(())
/// ```
pub fn session<R>(config: &Config, work: impl FnOnce() -> R) -> (R, Vec<Report>) {
    /// Puts the session before back, also when `work` panics.
    struct Restore(Option<Session>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SESSION.set(self.0.take());
        }
    }
    let before = SESSION.replace(Some(Session { config: config.clone(), reports: Vec::new(), names: Vec::new() }));
    let restore = Restore(before);
    let result = work();
    let reports = SESSION.take().map_or_else(Vec::new, |session| session.reports);
    drop(restore);
    (result, reports)
}

/// CPUs of the session's machine.
pub(crate) fn cpus() -> u32 {
    ask(|config| config.machine.topology().cpus() as u32).unwrap_or(1)
}

fn ask<R>(question: impl FnOnce(&Config) -> R) -> Option<R> {
    SESSION.with_borrow(|session| session.as_ref().map(|session| question(&session.config)))
}

impl Machine for Sim {
    /// Thread 0 presides over a workload and locks nothing: it begins on the last CPU of the
    /// placement, and thread i on the CPU i − 1.
    fn run(n: usize, body: &(dyn Fn(usize) + Sync)) -> Result<(), MachineError> {
        let config = ask(Config::clone).ok_or_else(|| MachineError::new("no machine was chosen to be simulated"))?;
        let refuse = |error: crate::Error| MachineError::new(error.to_string());
        let simulation = Simulation::new(&config, n).map_err(refuse)?;
        simulation.shift_by_one();
        let names =
            SESSION.with_borrow_mut(|session| session.as_mut().map(|session| std::mem::take(&mut session.names)));
        for (address, size, name) in names.unwrap_or_default() {
            simulation.name_at(address, size, &name);
        }
        let report = simulation.run(body).map_err(refuse)?;
        SESSION.with_borrow_mut(|session| {
            if let Some(session) = session {
                session.reports.push(report);
            }
        });
        Ok(())
    }

    fn unpark_all(word: &Self::U32, sleepers: u32) {
        if let Some(host) = Host::here() {
            host.fault_point(Call::Unpark(word.place()));
            host.unpark_some(word.place(), sleepers);
        }
    }

    fn sleep(ns: u64) {
        if let Some(host) = Host::here() {
            host.sleep(ns * 1000);
        }
    }

    fn pause(n: u32) {
        if let Some(host) = Host::here() {
            host.fault_point(Call::Compute);
            let pause = host.engine().model.pause;
            host.pass(u64::from(n) * pause);
        }
    }

    fn around() {
        if let Some(host) = Host::here() {
            let around = host.engine().around();
            host.pass(around);
        }
    }

    /// Instrumentation: free.
    fn stamp() -> u64 {
        crate::clock_ps() / 1000
    }

    fn pause_ns() -> f64 {
        ask(|config| config.machine.pause_ns()).unwrap_or(1.0)
    }

    fn pin(index: usize) {
        if let Some(host) = Host::here() {
            let order = &host.engine().order;
            let cpu = order[index % order.len()];
            host.pin(cpu);
        }
    }

    fn name<T>(name: &str, object: &T) {
        let name = (std::ptr::from_ref(object).addr(), size_of::<T>(), name.to_owned());
        SESSION.with_borrow_mut(|session| session.as_mut().map(|session| session.names.push(name)));
    }

    #[inline(never)]
    fn passes<L>(lock: &L, enters: bool) {
        if let Some(host) = Host::here() {
            host.engine().note_passage(std::ptr::from_ref(lock).addr(), enters);
        }
    }

    fn usage() -> Usage {
        let Some(host) = Host::here() else { return Usage::default() };
        let engine = host.engine();
        let mark = engine.mark();
        engine.marks.push(mark);
        let busy = |spent: &[u64; 4]| spent[Account::Running as usize] + spent[Account::Spinning as usize];
        Usage {
            cpu_ns: engine.tasks.iter().map(|task| busy(&task.spent)).sum::<u64>() / 1000,
            machine_ns: 0,
            voluntary_switches: engine.tasks.iter().map(|task| task.voluntary).sum(),
            involuntary_switches: engine.tasks.iter().map(|task| task.involuntary).sum(),
        }
    }

    fn events() -> Snapshot {
        Host::here().map_or_else(Snapshot::default, |host| Snapshot::from_counts(host.engine().counts))
    }

    fn describe() -> String {
        ask(|config| format!("{}, seed {}, {}", config.machine.label(), config.seed, config.placement))
            .unwrap_or_default()
    }
}
