//! Faults on purpose: what an adversarial machine may do to a lock, and what it watches while it
//! does.
//!
//! Off by default. When on, every seam call is a place where something may happen, drawn from the
//! seed: the same configuration and seed meets the same faults, in the same places.
//!
//! | fault | what happens | where |
//! |---|---|---|
//! | `preempt` | the thread loses its CPU for a while | every seam call |
//! | `lost-cpu` | the CPU stands still with its thread on it, which everybody still takes for running (a hypervisor's steal) | every seam call |
//! | `migrate` | the thread goes on elsewhere: CPU and node may have changed since it asked | every seam call |
//! | `clock-jump` | the clock jumps forward, deadlines and turns with it, those of sleepers, too | every seam call |
//! | `spurious-wake` | a sleep ends without a wake-up | park |
//! | `late-wake` | a wake-up reaches the scheduler late | unpark |
//! | `grant-at-deadline` | a sleeper with a deadline is woken at the very moment of its deadline | unpark |
//! | `wake-order` | a wake-up takes any sleeper of the word, not the one that came first | unpark |
//! | `wrong-node` | the hint about the NUMA node is wrong | node |
//! | `no-record` | the registry is exhausted: the thread is anonymous for life | id, current |
//! | `stop-in-handler` | a signal handler keeps the thread for [`Faults::stop_ns`], longer than a lock may be kept for it; at most [`MOST_STOPS`] times in a run | every seam call outside windows of a thread that [may be stopped](crate::may_stop) |
//! | `fork` | the thread goes on in a child process, alone with [new threads](crate::Config::heirs): the others are ghosts there; once in a run | [`fork`](crate::fork) |
//!
//! **PCT** (Burckhardt and others 2010): with [`Faults::pct_depth`] d, threads have random
//! priorities, and of those that could go on only the best one does; at d − 1 random steps the
//! running thread falls behind all others. Finds bugs that need d ordering decisions with a
//! probability that does not vanish in the length of the run. "Could go on" is neither asleep nor
//! spinning.
//!
//! **What is watched** ([`Config::watch_memory`](crate::Config)): words in freed memory
//! ([`freed`](crate::freed)), and words in frames of another thread's stack that have returned.
//! Touching either ends the run.

use crate::engine::heap::Ps;
use crate::engine::random::Random;

macro_rules! kinds {
    ($($kind:ident = $name:literal, $rate:ident;)*) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $(#[doc = concat!("`", $name, "`; see the [module text](self).")] $kind,)*
        }

        impl Fault {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The name of the kind.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }

        impl Faults {
            /// How often a kind of fault happens: once in so many opportunities; 0 is never.
            pub fn rate(&mut self, kind: Fault) -> &mut u32 {
                match kind { $(Fault::$kind => &mut self.$rate,)* }
            }
        }
    };
}

kinds! {
    Preempt = "preempt", preempt_one_in;
    SpuriousWake = "spurious-wake", spurious_one_in;
    LateWake = "late-wake", delay_one_in;
    LostCpu = "lost-cpu", lost_cpu_one_in;
    Migrate = "migrate", migrate_one_in;
    ClockJump = "clock-jump", clock_jump_one_in;
    GrantAtDeadline = "grant-at-deadline", grant_at_deadline_one_in;
    WakeOrder = "wake-order", wake_order_one_in;
    WrongNode = "wrong-node", wrong_node_one_in;
    NoRecord = "no-record", no_record_one_in;
    Stop = "stop-in-handler", stop_one_in;
    Fork = "fork", fork_one_in;
}

/// What may go wrong, and how often. A rate of n means once in n opportunities on average; 0 means
/// never.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    /// Seam calls after which the thread loses its CPU for a while.
    pub preempt_one_in: u32,
    /// The longest such absence, ns.
    pub preempt_ns: u32,
    /// Sleeps that end without anybody having woken the thread.
    pub spurious_one_in: u32,
    /// After at most this long, ns.
    pub spurious_ns: u32,
    /// Wake-ups that reach the scheduler late.
    pub delay_one_in: u32,
    /// By at most this long, ns.
    pub delay_ns: u32,
    /// Seam calls after which the CPU stands still for a while.
    pub lost_cpu_one_in: u32,
    /// For at most this long, ns.
    pub lost_cpu_ns: u32,
    /// Seam calls after which the thread goes on elsewhere.
    pub migrate_one_in: u32,
    /// Seam calls after which the clock has jumped.
    pub clock_jump_one_in: u32,
    /// By at most this long, ns.
    pub clock_jump_ns: u32,
    /// Wake-ups of sleepers with a deadline that come at their deadline.
    pub grant_at_deadline_one_in: u32,
    /// Wake-ups that take any sleeper of their word.
    pub wake_order_one_in: u32,
    /// Wrong answers to the question for the node.
    pub wrong_node_one_in: u32,
    /// Threads without a record.
    pub no_record_one_in: u32,
    /// Seam calls of a thread that may be stopped, after which it is.
    pub stop_one_in: u32,
    /// For so long, ns.
    pub stop_ns: u64,
    /// Opportunities to fork that are taken.
    pub fork_one_in: u32,
    /// Depth of the PCT schedule; 0: threads run as the machine has it.
    pub pct_depth: u32,
    /// How many steps (seam calls of all threads) the PCT schedule expects.
    pub pct_steps: u32,
}

impl Faults {
    /// A rough machine: it preempts, wakes for nothing and late, often.
    pub const ROUGH: Self = Self {
        preempt_one_in: 500,
        preempt_ns: 200_000,
        spurious_one_in: 10,
        spurious_ns: 50_000,
        delay_one_in: 10,
        delay_ns: 200_000,
        lost_cpu_one_in: 0,
        lost_cpu_ns: 0,
        migrate_one_in: 0,
        clock_jump_one_in: 0,
        clock_jump_ns: 0,
        grant_at_deadline_one_in: 0,
        wake_order_one_in: 0,
        wrong_node_one_in: 0,
        no_record_one_in: 0,
        stop_one_in: 0,
        stop_ns: 0,
        fork_one_in: 0,
        pct_depth: 0,
        pct_steps: 0,
    };
}

/// How many threads are stopped in a run, one after the other or at once.
pub const MOST_STOPS: u64 = 2;

/// A fault that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// When, ps.
    pub ps: u64,
    /// To which thread.
    pub thread: u32,
    /// What.
    pub fault: Fault,
}

/// How many of the last faults are remembered.
const REMEMBERED: usize = 64;

/// The priorities of a PCT schedule.
#[derive(Debug, Default)]
struct Pct {
    /// Of each thread; the highest goes first. Those that fell behind are below [`Pct::FIRST`].
    priorities: Vec<u32>,
    /// Steps at which the running thread falls behind, first last.
    changes: Vec<u64>,
    step: u64,
}

impl Pct {
    const FIRST: u32 = 1 << 16;
}

/// The adversary at work.
#[derive(Debug)]
pub(crate) struct FaultState {
    /// Whether a seam call is more than itself: something may happen there, or is watched.
    pub(crate) active: bool,
    faults: Faults,
    random: Random,
    seed: u64,
    pct: Pct,
    met: Vec<Met>,
    counts: [u64; Fault::ALL.len()],
}

impl FaultState {
    pub(crate) fn new(faults: &Faults, seed: u64) -> Self {
        let random = Random::new(seed, u64::from_le_bytes(*b"faults  "));
        let mut pct = Pct::default();
        if faults.pct_depth > 0 {
            let mut dice = Random::new(seed, u64::from_le_bytes(*b"pct     "));
            pct.changes = (1..faults.pct_depth).map(|_| u64::from(dice.below(faults.pct_steps.max(1)))).collect();
            pct.changes.sort_unstable_by(|a, b| b.cmp(a));
        }
        Self {
            active: *faults != Faults::default(),
            faults: faults.clone(),
            random,
            seed,
            pct,
            met: Vec::new(),
            counts: [0; Fault::ALL.len()],
        }
    }

    /// Remembers that `fault` happened to `thread`.
    pub(crate) fn note(&mut self, ps: Ps, thread: u32, fault: Fault) {
        self.counts[fault as usize] += 1;
        if self.met.len() == 2 * REMEMBERED {
            self.met.drain(..REMEMBERED);
        }
        self.met.push(Met { ps, thread, fault });
    }

    /// The last faults, and how many of each kind there were.
    pub(crate) fn met(&self) -> (&[Met], &[u64]) {
        (&self.met[self.met.len().saturating_sub(REMEMBERED)..], &self.counts)
    }

    fn happens(&mut self, one_in: u32) -> bool {
        self.active && self.random.one_in(one_in)
    }

    fn draw(&mut self, one_in: u32, longest_ns: u32) -> Option<Ps> {
        self.happens(one_in).then(|| 1000 * Ps::from(self.random.below(longest_ns.max(1)) + 1))
    }

    pub(crate) fn preemption(&mut self) -> Option<Ps> {
        self.draw(self.faults.preempt_one_in, self.faults.preempt_ns)
    }

    pub(crate) fn spurious_wake(&mut self) -> Option<Ps> {
        self.draw(self.faults.spurious_one_in, self.faults.spurious_ns)
    }

    pub(crate) fn wake_delay(&mut self) -> Option<Ps> {
        self.draw(self.faults.delay_one_in, self.faults.delay_ns)
    }

    pub(crate) fn lost_cpu(&mut self) -> Option<Ps> {
        self.draw(self.faults.lost_cpu_one_in, self.faults.lost_cpu_ns)
    }

    pub(crate) fn clock_jump(&mut self) -> Option<Ps> {
        self.draw(self.faults.clock_jump_one_in, self.faults.clock_jump_ns)
    }

    /// How long the running thread, which holds nothing, is stopped.
    pub(crate) fn stop(&mut self) -> Option<Ps> {
        let left = self.counts[Fault::Stop as usize] < MOST_STOPS;
        (left && self.happens(self.faults.stop_one_in)).then(|| self.faults.stop_ns.saturating_mul(1000))
    }

    /// Whether the running thread forks.
    pub(crate) fn fork(&mut self) -> bool {
        self.counts[Fault::Fork as usize] == 0 && self.happens(self.faults.fork_one_in)
    }

    /// Another CPU of `cpus` to go on with.
    pub(crate) fn migration(&mut self, cpus: u32) -> Option<u32> {
        self.happens(self.faults.migrate_one_in).then(|| self.random.below(cpus))
    }

    pub(crate) fn grant_at_deadline(&mut self) -> bool {
        self.happens(self.faults.grant_at_deadline_one_in)
    }

    /// Which of `sleepers` a wake-up takes, if not the first.
    pub(crate) fn wake_order(&mut self, sleepers: usize) -> Option<usize> {
        (sleepers > 1 && self.happens(self.faults.wake_order_one_in))
            .then(|| self.random.below(sleepers as u32) as usize)
    }

    pub(crate) fn wrong_node(&mut self, nodes: u32) -> Option<u32> {
        self.happens(self.faults.wrong_node_one_in).then(|| self.random.below(nodes))
    }

    /// Whether `thread` has no record.
    pub(crate) fn is_anonymous(&self, thread: u32) -> bool {
        let mut dice = Random::new(self.seed, u64::from_le_bytes(*b"records ").wrapping_add(u64::from(thread)));
        self.faults.no_record_one_in != 0 && dice.one_in(self.faults.no_record_one_in)
    }

    pub(crate) fn is_pct(&self) -> bool {
        self.faults.pct_depth > 0
    }

    /// A step of `thread` in a PCT schedule of `threads`: it may fall behind here.
    pub(crate) fn pct_step(&mut self, thread: u32, threads: usize) {
        let pct = &mut self.pct;
        if pct.priorities.len() < threads {
            let mut ranks: Vec<u64> = (0..threads as u64).collect();
            Random::new(self.seed, u64::from_le_bytes(*b"ranks   ")).shuffle(&mut ranks);
            pct.priorities = ranks.into_iter().map(|rank| Pct::FIRST + rank as u32).collect();
        }
        if pct.changes.last().is_some_and(|&change| change <= pct.step) {
            pct.changes.pop();
            pct.priorities[thread as usize] = pct.changes.len() as u32;
        }
        pct.step += 1;
    }

    /// The priority of `thread` in a PCT schedule.
    pub(crate) fn priority(&self, thread: u32) -> u32 {
        self.pct.priorities.get(thread as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_rate_and_name() {
        let mut faults = Faults::default();
        for (number, &kind) in Fault::ALL.iter().enumerate() {
            *faults.rate(kind) = number as u32 + 1;
        }
        for (number, &kind) in Fault::ALL.iter().enumerate() {
            assert_eq!(*faults.rate(kind), number as u32 + 1, "{}", kind.name());
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn the_last_faults_are_remembered_and_all_are_counted() {
        let mut state = FaultState::new(&Faults::ROUGH, 1);
        for number in 0..1000 {
            state.note(number, 3, Fault::Preempt);
        }
        let (met, counts) = state.met();
        assert_eq!((met.len(), met[63].ps, counts[Fault::Preempt as usize]), (64, 999, 1000));
    }

    #[test]
    fn a_pct_schedule_of_depth_three_has_two_changes() {
        let faults = Faults { pct_depth: 3, pct_steps: 100, ..Faults::default() };
        let mut state = FaultState::new(&faults, 7);
        for step in 0..100 {
            state.pct_step(step % 4, 4);
        }
        let fallen = (0..4).filter(|&thread| state.priority(thread) < Pct::FIRST).count();
        assert!((1..=2).contains(&fallen), "{fallen}");
    }
}
