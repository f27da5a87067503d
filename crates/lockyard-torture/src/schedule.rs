//! Everything that a seed decides about one simulated run: how many threads, where they begin, what
//! they do, and what goes wrong meanwhile.
//!
//! A run is named by its machine, its seed, and what was fixed by hand ([`Fixed`]); the same name
//! is the same run, to the instruction. What is fixed replaces what the seed had decided and leaves
//! the rest as it was, so that a failure can be made smaller one thing at a time.

use std::sync::Arc;

use lockyard::wait::turn::TURNS_NS;
use lockyard_check::stage::Dice;

use lockyard_sim::faults::{Fault, Faults, MOST_STOPS};
use lockyard_sim::machine::model::Model;
use lockyard_sim::machine::topology::Placement;
use lockyard_sim::{Config, Weakening};

use crate::world::Setup;

/// What can be made to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A fault of the simulated machine.
    Machine(Fault),
    /// The order of the threads follows random priorities that change a few times.
    Pct,
    /// Threads exit while others wait.
    Exit,
    /// Waits are cancelled at the moment of the grant.
    Cancel,
}

impl Trouble {
    /// All there is.
    pub fn all() -> Vec<Self> {
        let machine = Fault::ALL.iter().map(|&fault| Self::Machine(fault));
        machine.chain([Self::Pct, Self::Exit, Self::Cancel]).collect()
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Machine(fault) => fault.name(),
            Self::Pct => "pct",
            Self::Exit => "thread-exit",
            Self::Cancel => "cancel-at-grant",
        }
    }
}

/// What the user, or the search for a smaller failure, has fixed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fixed {
    /// Threads.
    pub threads: Option<usize>,
    /// Operations of a thread.
    pub operations: Option<u32>,
    /// What may go wrong; each of them does. The seed's choice without it.
    pub trouble: Option<Vec<Trouble>>,
    /// Small cases: few threads, few operations, seldom anybody who stays to starve others. Many
    /// times as many schedules in a second.
    pub small: bool,
    /// An ordering of the lock that counts for less than what is said: somebody should notice.
    pub weakening: Option<Weakening>,
    /// On purpose: the child of a fork takes ghosts for threads of its own. Somebody should notice.
    pub believes_in_ghosts: bool,
}

/// A run that is about to happen.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Its seed.
    pub seed: u64,
    /// The world.
    pub setup: Setup,
    /// The machine.
    pub config: Config,
    /// What goes wrong in it.
    pub trouble: Vec<Trouble>,
}

/// The longest absence of a thread or CPU, ns.
const LONGEST: u32 = 50_000_000;

impl Schedule {
    /// The schedule called `seed` on `machine`.
    pub fn draw(machine: &Arc<Model>, seed: u64, fixed: &Fixed) -> Self {
        let mut dice = Dice::new(seed.wrapping_mul(2).wrapping_add(1));
        let (crowd, quota) = if fixed.small { (3, 8) } else { (7, 20) };
        let (crowd, quota) = (2 + dice.roll(crowd) as usize, if fixed.small { 3 } else { 6 } + dice.roll(quota));
        let (threads, operations) = (fixed.threads.unwrap_or(crowd), fixed.operations.unwrap_or(quota));
        let locks = 1 + dice.roll(3) as usize;
        // The form that programs get, mostly; and the kernel's, whose machine says exactly when a
        // CPU is needed.
        let as_linux = dice.roll(4) != 0;
        let placement = Placement::ALL[dice.roll(Placement::ALL.len() as u32) as usize];
        let drawn = drawn_trouble(&mut dice);
        let trouble = fixed.trouble.clone().unwrap_or(drawn);
        let mut faults = rates(&mut dice, threads, operations);
        for &kind in Fault::ALL {
            if !trouble.contains(&Trouble::Machine(kind)) {
                *faults.rate(kind) = 0;
            }
        }
        // A machine that says exactly who runs is a kernel's: nobody is stopped there, or forks.
        if !as_linux {
            (faults.stop_one_in, faults.fork_one_in) = (0, 0);
        }
        if !trouble.contains(&Trouble::Pct) {
            (faults.pct_depth, faults.pct_steps) = (0, 0);
        }
        // Coming back takes its time too: a CPU may have fallen asleep meanwhile.
        let away = |rate: u32, ns: u32| if rate == 0 { 0 } else { RETURN + u64::from(ns) };
        let absence = away(faults.preempt_one_in, faults.preempt_ns)
            .max(away(faults.lost_cpu_one_in, faults.lost_cpu_ns))
            .max(away(faults.delay_one_in, faults.delay_ns));
        // Those that may fall into the end of one wait, which takes some hundred calls of the seam.
        let absences = 8 + 1_000_u64.checked_div(faults.preempt_one_in.into()).unwrap_or(0);
        // Under PCT a thread may be kept from going on at each of its steps: how long it waits is
        // not the lock's doing.
        let patient = |ns: u64| if faults.pct_depth > 0 { u64::MAX } else { ns };
        // Bounds are for threads that have a record, on machines on which spins have a budget: a
        // kernel's spinner may be passed for as long as it is not asked to yield.
        let bounded = |ns: u64| if as_linux && faults.no_record_one_in == 0 { patient(ns) } else { u64::MAX };
        let stops = faults.stop_one_in > 0;
        let kept_ns = KEPT + 4 * threads as u64 * absence;
        faults.stop_ns = if stops { 2 * kept_ns } else { 0 };
        // What a thread that is stopped, or that waits for one which is stopped with the lock, may
        // be late.
        let stopped = MOST_STOPS * faults.stop_ns;
        let setup = Setup {
            seed,
            threads,
            locks,
            mortals: if fixed.small { 1 } else { 3 },
            // The threads that stay decide what a schedule costs, so that small ones rarely have
            // them; by the seed itself, not to disturb its other draws.
            hogged: if fixed.small && !seed.is_multiple_of(16) { 0 } else { HOGGED },
            operations: Some(operations),
            exits: trouble.contains(&Trouble::Exit),
            cancels: trouble.contains(&Trouble::Cancel),
            nap: NAP,
            naps_one_in: 60,
            // A CPU that stands still uses time; a machine that says when a CPU is needed may be
            // spun on until it does.
            watch_spinning: as_linux && faults.lost_cpu_one_in == 0,
            // Where spins have no budget, one that has been put on a waiter's CPU stays until its
            // slice is over.
            late_ns: patient(
                5_000_000 + stopped + absences * absence + if as_linux { 0 } else { SLICES * threads as u64 },
            ),
            starved_ns: bounded(8_000_000 + stopped + threads as u64 * (500_000 + 4 * absence)),
            starved_grants: 300 * threads as u64,
            stops,
            kept_ns: patient(kept_ns),
            heirs: if faults.fork_one_in > 0 { HEIRS } else { 0 },
        };
        let config = Config {
            seed,
            placement,
            as_linux,
            time_limit_ns: longest_run(&setup, &faults),
            faults,
            watch_memory: true,
            watch_order: true,
            weakening: fixed.weakening.clone(),
            believes_in_ghosts: fixed.believes_in_ghosts,
            event_limit: EVENTS,
            ..Config::new(machine.clone())
        };
        Self { seed, setup, config, trouble }
    }

    /// Takes `faults` away.
    pub(crate) fn spare(&mut self, faults: &[Fault]) {
        for &fault in faults {
            *self.config.faults.rate(fault) = 0;
            self.trouble.retain(|&trouble| trouble != Trouble::Machine(fault));
        }
        self.setup.stops &= self.config.faults.stop_one_in > 0;
        if self.config.faults.fork_one_in == 0 {
            self.setup.heirs = 0;
        }
    }
}

/// How long a lock that is free may be kept for a waiter that does not come, beside a thread that
/// waits for it and runs, ns: two turns at their longest, one until that thread first finds the
/// lock so, one until it looks again. Besides, whatever the machine adds.
const KEPT: u64 = 2 * TURNS_NS;

/// Threads that begin in the child of a fork.
const HEIRS: usize = 2;

/// How many more operations those make who stay while others wait.
pub(crate) const HOGGED: u32 = 3_000;

/// How long it takes at most to be back on a CPU, ns.
const RETURN: u64 = 100_000;

/// The longest time for which a thread keeps a CPU that others want, ns.
const SLICES: u64 = 100_000_000;

/// How long a holder sleeps at most, ns.
const NAP: u64 = 10_000_000;

/// Simulated time after which a run is called hung, or endless, ns: where wake-ups are late, what
/// it would take if every operation slept and was woken late, one after the other.
fn longest_run(setup: &Setup, faults: &Faults) -> u64 {
    const LONGEST: u64 = 30_000_000_000;
    let late = if faults.delay_one_in > 0 { u64::from(faults.delay_ns) } else { 0 };
    let operations = setup.operations.unwrap_or(0) + setup.hogged;
    LONGEST.max(late * u64::from(operations) * setup.threads as u64) + 4 * MOST_STOPS * faults.stop_ns
}

/// What a run may cost the host before it is called endless. The longest that ends takes a fiftieth
/// of it.
const EVENTS: u64 = 5_000_000;

/// Every eighth schedule is a calm one, every fourth of the others PCT; kinds of faults come by
/// chance, each in half of the schedules.
fn drawn_trouble(dice: &mut Dice) -> Vec<Trouble> {
    let calm = dice.roll(8) == 0;
    let pct = dice.roll(4) == 0;
    // With dice of their own: whatever else the seed decides is older than they are.
    let mut late = Dice::new(u64::from(dice.clone().roll(u32::MAX)));
    let mut chosen = |trouble: &Trouble| match trouble {
        Trouble::Machine(Fault::Stop | Fault::Fork) => late.roll(3) == 0,
        // Without a record a thread does not queue: rarely all of it.
        Trouble::Machine(Fault::NoRecord) => dice.roll(8) == 0,
        Trouble::Pct => pct,
        _ => dice.roll(2) == 0,
    };
    let drawn: Vec<Trouble> = Trouble::all().into_iter().filter(|trouble| chosen(trouble)).collect();
    if calm { vec![Trouble::Exit, Trouble::Cancel] } else { drawn }
}

/// How often and how long things go wrong, if they do. The more often, the shorter: a run must end
/// some time.
fn rates(dice: &mut Dice, threads: usize, operations: u32) -> Faults {
    let mut often = |least: u32, doublings: u32| least << dice.roll(doublings);
    let length = |one_in: u32| 2_000u32.saturating_mul(one_in).clamp(1_000, LONGEST);
    let preempt_one_in = often(4, 16);
    let lost_cpu_one_in = often(64, 12);
    let clock_jump_one_in = often(64, 10);
    Faults {
        preempt_one_in,
        preempt_ns: length(preempt_one_in),
        spurious_one_in: often(2, 6),
        spurious_ns: often(1_000, 12),
        delay_one_in: often(2, 6),
        delay_ns: often(1_000, 14),
        lost_cpu_one_in,
        lost_cpu_ns: length(lost_cpu_one_in),
        migrate_one_in: often(32, 10),
        clock_jump_one_in,
        clock_jump_ns: often(1_000, 14),
        grant_at_deadline_one_in: often(1, 4),
        wake_order_one_in: often(1, 3),
        wrong_node_one_in: often(1, 5),
        no_record_one_in: often(1, 3),
        pct_depth: 2 + often(1, 3) - 1,
        pct_steps: threads as u32 * operations * 40,
        stop_one_in: often(4, 8),
        stop_ns: 0,
        fork_one_in: often(1, 5),
    }
}

#[cfg(test)]
mod tests {
    use lockyard_sim::machine::catalog;

    use super::*;

    #[test]
    fn what_is_fixed_replaces_the_seeds_choice_and_nothing_else() {
        let machine = catalog::machine("quad2008").unwrap();
        for seed in 0..200 {
            let free = Schedule::draw(&machine, seed, &Fixed::default());
            let fixed = Fixed {
                threads: Some(free.setup.threads),
                operations: free.setup.operations,
                trouble: Some(free.trouble.clone()),
                small: false,
                weakening: None,
                believes_in_ghosts: false,
            };
            let same = Schedule::draw(&machine, seed, &fixed);
            assert_eq!((&same.setup, &same.config.faults), (&free.setup, &free.config.faults));
            assert_eq!(same.trouble, free.trouble);
        }
    }

    #[test]
    fn every_trouble_occurs_in_cases_of_either_size() {
        let machine = catalog::machine("quad2008").unwrap();
        for small in [false, true] {
            let fixed = Fixed { small, ..Fixed::default() };
            let schedules: Vec<Schedule> = (0..400).map(|seed| Schedule::draw(&machine, seed, &fixed)).collect();
            for trouble in Trouble::all() {
                let with = schedules.iter().filter(|schedule| schedule.trouble.contains(&trouble)).count();
                assert!((10..390).contains(&with), "{}: {with} of 400", trouble.name());
            }
        }
    }

    #[test]
    fn small_cases_are_small_and_some_have_somebody_who_stays() {
        let machine = catalog::machine("quad2008").unwrap();
        let fixed = Fixed { small: true, ..Fixed::default() };
        let setups: Vec<Setup> = (0..400).map(|seed| Schedule::draw(&machine, seed, &fixed).setup).collect();
        assert!(setups.iter().all(|setup| (2..=4).contains(&setup.threads) && setup.operations <= Some(10)));
        assert_eq!(setups.iter().filter(|setup| setup.hogged > 0).count(), 25);
    }
}
