//! The machine of a scenario: how spins and clocks behave there.

/// How the machine behaves in one scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// A spin polls once and gives up: everybody queues and sleeps.
    None,
    /// A spin lasts until its condition holds, or nobody can go on.
    Long,
    /// Likewise, and the machine says that it knows when a CPU is needed: `spin_budget` is without
    /// limit.
    Exact,
}

/// What time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// It stands still while anybody can go on. Then it is turned to the next deadline.
    Still,
    /// As `Still`, but no sleep ends by it: a thread that is not woken sleeps for ever.
    Stopped,
    /// Each look at it finds a turn later: every turn is over.
    Hurried,
    /// A thread of the scenario rings: then every deadline up to [`RING`] has passed. Until then
    /// nobody's sleep ends by it.
    Rung,
}

/// When a scenario's own deadlines are, in nanoseconds.
pub const DEADLINE: u64 = 100_000;
/// What time it is once the clock was rung. No turn is over then.
pub const RING: u64 = 200_000;

/// A machine for one scenario.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// How long spins last.
    pub patience: Patience,
    /// The clock.
    pub clock: Clock,
    /// What time it is in the beginning.
    pub start: u64,
    /// NUMA nodes: thread n is on node n modulo this.
    pub nodes: u32,
    /// How often, in one execution, a poll may fail again before no further alternatives are
    /// explored.
    pub budget: Option<u32>,
    /// Threads have priorities: the higher the number, the more urgent. Otherwise all share the
    /// time.
    pub ranked: bool,
    /// Threads from this number on have no record.
    pub registered: usize,
    /// This thread's spins end at once, whatever those of others do.
    pub hasty: Option<usize>,
    /// `Lanes::take_beside` and `take_bare` are looks and an exchange, as on x86-64; otherwise one
    /// step, as on AArch64.
    pub parted: bool,
    /// Some sleeps end for no reason. (For random schedules: an exploration would not end.)
    pub restless: bool,
}

impl Machine {
    /// Everybody sleeps.
    pub const SLEEPS: Self = Self {
        patience: Patience::None,
        clock: Clock::Still,
        start: 0,
        nodes: 1,
        budget: None,
        ranked: false,
        registered: usize::MAX,
        hasty: None,
        parted: false,
        restless: false,
    };
    /// Everybody spins.
    pub const SPINS: Self = Self { patience: Patience::Long, ..Self::SLEEPS };
}
