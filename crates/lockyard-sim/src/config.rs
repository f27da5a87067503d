//! How to simulate.

use std::sync::Arc;

use crate::faults::Faults;
use crate::machine::model::Model;
use crate::machine::topology::Placement;
use crate::scheduler::class::FairForm;
use crate::weakening::Weakening;

/// In which order threads begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// 100 ns apart, in an order drawn from the seed.
    #[default]
    Shuffled,
    /// 100 ns apart, by number.
    InOrder,
    /// All at once.
    Together,
}

/// How to simulate.
#[derive(Debug, Clone)]
pub struct Config {
    /// The machine.
    pub machine: Arc<Model>,
    /// Seed of every random draw of the machine.
    pub seed: u64,
    /// Where threads begin.
    pub placement: Placement,
    /// When threads begin.
    pub start: Start,
    /// The form of the fair scheduling class.
    pub fair: FairForm,
    /// Whether a woken thread may preempt a fair one.
    pub wakeup_preemption: bool,
    /// Whether the locks are part of the kernel, as those of the published tables are: they block
    /// and wake threads without system calls.
    pub in_kernel: bool,
    /// Whether the machine tells a lock no more than Linux tells a program: nobody says that a CPU
    /// is needed, so that spins have a budget.
    pub as_linux: bool,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// Whether a run ends when a thread touches freed memory, or a frame of another thread that has
    /// returned.
    pub watch_memory: bool,
    /// Whether a run ends when two threads touch protected data
    /// ([`Simulation::protect`](crate::Simulation::protect)) with nothing that orders them: when an
    /// ordering is missing.
    pub watch_order: bool,
    /// With [`Config::watch_order`], an ordering that counts for less than what the source says.
    pub weakening: Option<Weakening>,
    /// How many of its last seam calls to remember of each thread: 0 is none.
    pub journal: usize,
    /// Simulated time after which a run is given up, ns.
    pub time_limit_ns: u64,
    /// Events of the engine after which a run is given up: what it may cost the host, whatever the
    /// host is.
    pub event_limit: u64,
    /// Whether a task goes on without a switch while it is the earliest. Changes speed, not
    /// results.
    pub run_ahead: bool,
    /// So many of the threads, the last, begin only when another one has [forked](crate::fork), in
    /// the child.
    pub heirs: usize,
    /// On purpose, for checks: the child of a fork takes ghosts for threads of its own.
    pub believes_in_ghosts: bool,
    /// How many state changes to record, if any.
    pub trace: Option<usize>,
    /// Stack of a simulated thread.
    pub stack_bytes: usize,
}

impl Config {
    /// The usual way to simulate `machine`.
    pub fn new(machine: Arc<Model>) -> Self {
        Self {
            fair: if machine.eevdf { FairForm::Eevdf } else { FairForm::Cfs },
            machine,
            seed: 1,
            placement: Placement::Fill,
            start: Start::Shuffled,
            wakeup_preemption: true,
            in_kernel: false,
            as_linux: false,
            faults: Faults::default(),
            watch_memory: false,
            watch_order: false,
            weakening: None,
            journal: 0,
            time_limit_ns: 600_000_000_000,
            event_limit: u64::MAX,
            run_ahead: true,
            heirs: 0,
            believes_in_ghosts: false,
            trace: None,
            stack_bytes: 128 << 10,
        }
    }
}
