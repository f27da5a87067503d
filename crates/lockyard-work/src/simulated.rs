//! Workloads on simulated machines.
//!
//! A workload asks its machine for threads through associated functions; which machine is meant is
//! a matter of the host thread: [`session`] sets it for the duration of a closure. Each run inside
//! leaves a [`Report`].

use std::cell::RefCell;
use std::sync::LazyLock;

use lockyard::event::Snapshot;
use lockyard_sim::report::Report;
use lockyard_sim::{Config, Sim, Simulation, clock_ps, inside, stands_for};

use crate::catalog::{Candidate, lockyard_candidates};
use crate::machine::{Machine, MachineError, Usage};
use crate::subject::Family;

mod stand_ins;

use stand_ins::{BookMcs, FutexMutex, FutexRwLock, SleeplessSpin, TestAndSet};

/// The locks that a recorded program has, as [`Machine`] has them: for a replay in
/// which no lock is under test.
pub static AS_RECORDED: Candidate =
    Candidate::peer::<Sim, FutexMutex<Sim>>(Family::Mutex, "as recorded", "the locks that the program has");

/// Locks of programs that are compared with Lockyard's, as they are on the simulated machine.
pub static STAND_INS: [Candidate; 3] = [
    Candidate::peer::<Sim, BookMcs<Sim>>(
        Family::Spin,
        "mcs-as-published",
        "the MCS lock of 1991, whose waiters never sleep",
    ),
    Candidate::peer::<Sim, FutexMutex<Sim>>(Family::Mutex, "futex-mutex", "what stands for the C library's mutex"),
    Candidate::peer::<Sim, TestAndSet<Sim>>(
        Family::Spin,
        "test-and-set",
        "a compare-exchange and a PAUSE, again and again",
    ),
];

/// Lockyard's locks on the simulated machine, default policies first. They are compiled once, here:
/// each caller of the generic function would compile all of them again.
pub static LOCKS: LazyLock<Vec<Candidate>> = LazyLock::new(lockyard_candidates::<Sim>);

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
/// use lockyard_sim::{Config, machine::catalog};
/// use lockyard_work::simulated::{LOCKS, session};
/// use lockyard_work::{Spec, Workload};
///
/// let config = Config::new(catalog::machine("quad2008")?);
/// let spec = Spec {
///     threads: 4,
///     duration: std::time::Duration::from_millis(1),
///     warmup: std::time::Duration::ZERO,
///     ..Spec::new(Workload::Contend)
/// };
/// let (record, reports) = session(&config, || LOCKS[0].measure(&spec));
/// assert!(record.is_ok_and(|record| record.operations > 0) && reports.len() == 1);
/// # Ok::<(), lockyard_sim::Error>(())
/// ```
pub fn session<R>(config: &Config, work: impl FnOnce() -> R) -> (R, Vec<Report>) {
    /// Puts the session before back, also when `work` panics.
    struct Restore(Option<Session>, u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            SESSION.set(self.0.take());
            stands_for(self.1);
        }
    }
    let before = SESSION.replace(Some(Session { config: config.clone(), reports: Vec::new(), names: Vec::new() }));
    let restore = Restore(before, stands_for(config.machine.topology().cpus() as u32));
    let result = work();
    let reports = SESSION.take().map_or_else(Vec::new, |session| session.reports);
    drop(restore);
    (result, reports)
}

fn ask<R>(question: impl FnOnce(&Config) -> R) -> Option<R> {
    SESSION.with_borrow(|session| session.as_ref().map(|session| question(&session.config)))
}

impl Machine for Sim {
    type Mutex = FutexMutex<Self>;
    type RwLock = FutexRwLock<Self>;
    type Spin = SleeplessSpin<Self>;

    /// Thread 0 presides over a workload and locks nothing: it begins on the last CPU of the
    /// placement, and thread i on the CPU i − 1.
    fn run(n: usize, body: &(dyn Fn(usize) + Sync)) -> Result<(), MachineError> {
        let config = ask(Config::clone).ok_or_else(|| MachineError::new("no machine was chosen to be simulated"))?;
        let refuse = |error: lockyard_sim::Error| MachineError::new(error.to_string());
        let simulation = Simulation::new(&config, n).map_err(refuse)?;
        simulation.preside();
        let names =
            SESSION.with_borrow_mut(|session| session.as_mut().map(|session| std::mem::take(&mut session.names)));
        for (address, size, name) in names.unwrap_or_default() {
            simulation.name_memory(&name, address, size);
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
        inside::unpark_some(word, sleepers);
    }

    fn sleep(ns: u64) {
        inside::sleep(ns);
    }

    fn stay_away(ns: u64) {
        inside::stay_away(ns);
    }

    fn pause(n: u32) {
        inside::pause(n);
    }

    fn work(ns: u64) {
        inside::compute(ns);
    }

    fn around() {
        inside::around();
    }

    const FREE_STAMPS: bool = true;

    /// Instrumentation: free.
    fn stamp() -> u64 {
        clock_ps() / 1000
    }

    fn pause_ns() -> f64 {
        ask(|config| config.machine.pause_ns()).unwrap_or(1.0)
    }

    fn pin(index: usize) {
        inside::pin_in_order(index);
    }

    fn name<T>(name: &str, object: &T) {
        let name = (std::ptr::from_ref(object).addr(), size_of::<T>(), name.to_owned());
        SESSION.with_borrow_mut(|session| session.as_mut().map(|session| session.names.push(name)));
    }

    #[inline(never)]
    fn passes<L>(lock: &L, enters: bool) {
        inside::passes(std::ptr::from_ref(lock).addr(), enters);
    }

    fn usage() -> Usage {
        let inside::Used { cpu_ns, voluntary_switches, involuntary_switches } = inside::used();
        Usage { cpu_ns, machine_ns: 0, voluntary_switches, involuntary_switches }
    }

    fn events() -> Snapshot {
        inside::events()
    }

    fn describe() -> String {
        ask(|config| format!("{}, seed {}, {}", config.machine.label(), config.seed, config.placement))
            .unwrap_or_default()
    }
}
