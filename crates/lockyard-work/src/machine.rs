//! What a workload needs of the machine beyond the locks' seam: threads, time to pass, and cheap
//! stamps.
//!
//! [`Platform`] holds what a lock may ask; running threads and reading a clock twice per operation
//! is the business of whoever measures. Everything else a workload keeps (stop flag, counters,
//! histograms) is instrumentation and lives in ordinary memory, so that it costs nothing in
//! simulated time.

use std::fmt;

use lockyard::event::Snapshot;
use lockyard::platform::Platform;

use crate::subject::{Exclusive, Shared};

#[cfg(target_os = "linux")]
mod linux;

/// What memory and system calls cost on this machine, measured in a quarter of a second: see
/// [`lockyard_sim::machine::host`].
#[cfg(feature = "simulated")]
pub fn costs() -> lockyard_sim::machine::host::Costs {
    linux::gauge::costs()
}

/// A machine on which workloads run.
pub trait Machine: Platform {
    /// The mutex of programs here: the C library's own, or what stands for it.
    type Mutex: Exclusive + 'static;

    /// Their reader-writer lock, likewise.
    type RwLock: Shared + 'static;

    /// Their spinlock, likewise.
    type Spin: Exclusive + 'static;

    /// Runs `body(i)` for `i` in `0..n`, each on its own thread, and returns when all are done. No
    /// body begins before all threads exist.
    ///
    /// # Errors
    /// The machine could not start that many threads; then no body has run.
    fn run(n: usize, body: &(dyn Fn(usize) + Sync)) -> Result<(), MachineError>;

    /// Blocks the calling thread for about `ns` nanoseconds (a timer sleep; it may take longer).
    fn sleep(ns: u64);

    /// Keeps the calling thread off its CPU for `ns` nanoseconds: as long as a program was seen to
    /// sleep, what its timer and its way back to a CPU took included.
    fn stay_away(ns: u64);

    /// Executes `n` PAUSE instructions, or this machine's equivalent.
    fn pause(n: u32);

    /// Works for `ns` nanoseconds of CPU time: a thread that loses its CPU meanwhile goes on
    /// afterwards.
    fn work(ns: u64);

    /// The instructions of a workload's own code: once in each section, once after each turn. Where
    /// instructions take their time by themselves it does nothing.
    #[inline(always)]
    fn around() {}

    /// Whether stamps cost nothing, so that a section may be watched from inside.
    const FREE_STAMPS: bool = false;

    /// A cheap time stamp in nanoseconds. Stamps of different threads may differ by a few.
    fn stamp() -> u64;

    /// What one PAUSE takes, in nanoseconds.
    fn pause_ns() -> f64;

    /// Binds the calling thread to the `index`-th CPU, counted round. Where that cannot be done it
    /// does nothing.
    fn pin(index: usize) {
        let _ = index;
    }

    /// Gives the calling thread the fixed priority `priority` (1 to 99, first in first out), for
    /// the rest of its life: by [`Platform::set_priority`], as its own.
    ///
    /// # Errors
    /// One line that says what is needed.
    fn fixed_priority(priority: u32) -> Result<(), MachineError> {
        if Self::current().is_some_and(|me| Self::set_priority(me.id(), priority, priority)) {
            return Ok(());
        }
        let what = "fixed priorities are not permitted here: run as root, with CAP_SYS_NICE, or with `ulimit -r 99`";
        Err(MachineError::new(what))
    }

    /// Wakes everybody who sleeps on `word`, `sleepers` of them at most: by one call where the
    /// machine has one.
    fn unpark_all(word: &Self::U32, sleepers: u32) {
        (0..sleepers).for_each(|_| Self::unpark(word));
    }

    /// Names an object in whatever the machine reports about memory. Where it reports nothing it
    /// does nothing.
    fn name<T>(name: &str, object: &T) {
        let _ = (name, object);
    }

    /// The calling thread has entered a section of `lock`, or is about to leave it. Where nobody
    /// draws traces it does nothing.
    #[inline(always)]
    fn passes<L>(lock: &L, enters: bool) {
        let _ = (lock, enters);
    }

    /// What the program has used so far.
    fn usage() -> Usage {
        Usage::default()
    }

    /// CPU time of all threads of the program so far, exactly, ns: without what others, interrupts,
    /// or the host of a virtual machine that says so, took from them. `None` where nobody else
    /// exists.
    fn program_cpu_ns() -> Option<u64> {
        None
    }

    /// The lock events so far.
    fn events() -> Snapshot;

    /// The machine in one line, for records.
    fn describe() -> String;

    /// The number of PAUSEs that takes about `ns` nanoseconds, at least one.
    fn pauses(ns: u64) -> u32 {
        let pauses = ns as f64 / Self::pause_ns().max(0.1);
        (pauses.round() as u32).max(1)
    }
}

/// Resources used by a program since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all threads of this program, ns.
    pub cpu_ns: u64,
    /// CPU time of everything on the machine, ns; coarse. Zero where nobody else exists.
    pub machine_ns: u64,
    /// Context switches in which a thread gave its CPU away to wait.
    pub voluntary_switches: u64,
    /// Context switches in which a thread was preempted.
    pub involuntary_switches: u64,
}

impl Usage {
    /// What was used between `earlier` and this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            machine_ns: self.machine_ns.saturating_sub(earlier.machine_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }

    /// CPU time that other programs used. To within a tick or two per CPU.
    pub fn others_ns(&self) -> u64 {
        self.machine_ns.saturating_sub(self.cpu_ns)
    }
}

/// Why a machine could not run threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineError {
    message: String,
}

impl MachineError {
    /// An error with a one-line `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for MachineError {}
