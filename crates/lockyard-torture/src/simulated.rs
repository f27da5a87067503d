//! Thousands of simulated runs, each named by a seed. A failure is made smaller and then told step
//! by step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lockyard_sim::machine::model::Model;
use lockyard_sim::{Config, Error, Sim, Simulation};

use crate::catalog::{Entry, Finding};
use crate::failure::{Failure, Telling};
use crate::quiet::quietly;
use crate::schedule::{Fixed, Schedule, Trouble};
use crate::world::{KEPT, SPINNING, STARVATION, World};

/// Which runs are wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The machine.
    pub machine: Arc<Model>,
    /// Its name, as the user gave it.
    pub machine_name: String,
    /// The first seed.
    pub seed: u64,
    /// How many runs at most.
    pub schedules: u64,
    /// How long at most.
    pub time: Duration,
    /// What is the same in all.
    pub fixed: Fixed,
    /// Host threads.
    pub workers: usize,
}

/// What came of runs without a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub schedules: u64,
    /// Acquisitions.
    pub acquisitions: u64,
    /// The longest blocking wait, ns of simulated time.
    pub longest_ns: u64,
    /// Simulated time, ns.
    pub simulated_ns: u64,
    /// How often a weakened ordering counted.
    pub weakened: u64,
    /// Faults met, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Lock events, by name; those that never happened are there with zero.
    pub events: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.acquisitions += other.acquisitions;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.simulated_ns += other.simulated_ns;
        self.weakened += other.weakened;
        for (sum, more) in [(&mut self.faults, &other.faults), (&mut self.events, &other.events)] {
            more.iter().for_each(|(name, count)| *sum.entry(name).or_default() += count);
        }
    }
}

/// A run that failed, as far as a search needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    finding: Finding,
    message: String,
}

/// Tells which finding an error is.
fn finding(error: &Error) -> Finding {
    match error {
        // With nobody served for the half of its time.
        Error::Deadlock(_) | Error::TimeLimit(_) => Finding::Hang,
        Error::EventLimit(_) => Finding::Endless,
        Error::Gone(_) => Finding::Gone,
        Error::Race(_) => Finding::Race,
        Error::Panic(text) if text.contains(STARVATION) => Finding::Starvation,
        Error::Panic(text) if text.contains(SPINNING) => Finding::Spinning,
        Error::Panic(text) if text.contains(KEPT) => Finding::Kept,
        _ => Finding::Check,
    }
}

/// How a run ended that did not end well.
enum Broken {
    /// It failed.
    Failed(Fault, Option<Box<Telling>>),
    /// Its time is over, and somebody has got a lock a short while ago.
    Goes,
}

/// One run. `told`: remember seam calls, and tell everything if it fails.
///
/// The operations of a run are counted: as long as some lock is granted now and then it will end,
/// however slow the machine is made. So it is played again with four times the time. What never
/// ends costs more than a run may ([`Config::event_limit`]), or comes to a standstill.
fn run(entry: &Entry<Sim>, schedule: &Schedule, told: bool) -> Result<Tally, (Fault, Option<Box<Telling>>)> {
    let mut config = schedule.config.clone();
    loop {
        match attempt(entry, schedule, config.clone(), told) {
            Ok(tally) => return Ok(tally),
            Err(Broken::Failed(fault, telling)) => return Err((fault, telling)),
            Err(Broken::Goes) => config.time_limit_ns = config.time_limit_ns.saturating_mul(4),
        }
    }
}

fn attempt(entry: &Entry<Sim>, schedule: &Schedule, mut config: Config, told: bool) -> Result<Tally, Broken> {
    if told {
        config.journal = JOURNAL;
    }
    let world = World::new(entry, &schedule.setup);
    let refuse = |error: &Error| Fault { finding: finding(error), message: error.to_string() };
    config.heirs = schedule.setup.heirs;
    let threads = schedule.setup.threads + config.heirs;
    let simulation = Simulation::new(&config, threads).map_err(|error| Broken::Failed(refuse(&error), None))?;
    let names = world.names(&entry.label());
    for (slot, name) in world.slots.iter().zip(&names) {
        slot.subject.name(&mut |address, size| simulation.name_memory(name, address, size));
        slot.protected().into_iter().for_each(|(address, size)| simulation.protect(address, size));
    }
    let outcome = quietly(|| {
        simulation.run_judged(|me| world.live(me), &mut || world.judge()).and_then(|_| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.finish())).map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                Error::Panic(
                    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default(),
                )
            })
        })
    });
    let (last, met) = simulation.faults_met();
    if let Err(error) = outcome {
        let limit = config.time_limit_ns;
        if matches!(error, Error::TimeLimit(_)) && limit - world.last_grant.load(Relaxed).min(limit) <= limit / 2 {
            return Err(Broken::Goes);
        }
        let telling = told.then(|| Telling {
            events: world.seats.iter().map(|seat| seat.ring.lines(EVENTS, &names)).collect(),
            calls: simulation
                .journal()
                .into_iter()
                .map(|calls| {
                    let line = |call: lockyard_sim::Remembered| {
                        format!("{:>14} ps  {:<44} {}", call.ps, call.text, call.place)
                    };
                    calls.into_iter().map(line).collect()
                })
                .collect(),
            faults: last
                .iter()
                .map(|met| format!("{:>14} ns  thread {}: {}", met.ps / 1000, met.thread, met.fault.name()))
                .collect(),
            locks: world
                .slots
                .iter()
                .zip(&names)
                .map(|(slot, name)| format!("{name}: {}", slot.subject.state()))
                .collect(),
            ended_ns: simulation.ended_ns(),
        });
        // What its threads left on their stacks is gone; what they left in the world must not be
        // dropped by anybody who asks it.
        return Err(Broken::Failed(refuse(&error), telling.map(Box::new)));
    }
    Ok(Tally {
        schedules: 1,
        acquisitions: world.taken().iter().sum(),
        longest_ns: world.longest(),
        simulated_ns: simulation.ended_ns(),
        weakened: simulation.weakened(),
        faults: met.into_iter().map(|(fault, count)| (fault.name(), count)).collect(),
        events: simulation.events().into_iter().collect(),
    })
}

/// How many events, and seam calls, of each thread are told.
const EVENTS: usize = 50;
const JOURNAL: usize = 50;

/// Tortures `entry` as wanted. `progress` is told how many runs are done, now and then; it says
/// whether to go on.
///
/// # Errors
/// The first failure, made as small as a few hundred runs allow.
pub fn torture(
    entry: &Entry<Sim>,
    wanted: &Wanted,
    progress: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Tally, Box<Failure>> {
    let begun = Instant::now();
    let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let sum = Mutex::new(Tally::default());
    let failed: Mutex<Option<(u64, Fault)>> = Mutex::new(None);
    let work = || {
        let mut own = Tally::default();
        while !stop.load(Relaxed) && begun.elapsed() < wanted.time {
            let number = next.fetch_add(1, Relaxed);
            if number >= wanted.schedules {
                break;
            }
            let seed = wanted.seed.wrapping_add(number);
            match run(entry, &draw(entry, wanted, seed, &wanted.fixed), false) {
                Ok(tally) => own.add(&tally),
                Err((fault, _)) => {
                    stop.store(true, Relaxed);
                    let mut first = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if first.as_ref().is_none_or(|&(other, _)| seed < other) {
                        *first = Some((seed, fault));
                    }
                }
            }
            let done = done.fetch_add(1, Relaxed) + 1;
            if done.is_multiple_of(64) && !progress(done) {
                stop.store(true, Relaxed);
            }
        }
        sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(&own);
    };
    std::thread::scope(|scope| {
        (1..wanted.workers.max(1)).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    match failed {
        None => Ok(sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
        Some((seed, fault)) => Err(Box::new(explain(entry, wanted, seed, &fault))),
    }
}

/// Whatever is found first in the wanted runs, and nothing more about it. For locks in which
/// something must be found.
pub fn first_finding(entry: &Entry<Sim>, wanted: &Wanted) -> Option<Finding> {
    let begun = Instant::now();
    (0..wanted.schedules).take_while(|_| begun.elapsed() < wanted.time).find_map(|number| {
        let schedule = draw(entry, wanted, wanted.seed.wrapping_add(number), &wanted.fixed);
        run(entry, &schedule, false).err().map(|(fault, _)| fault.finding)
    })
}

/// The schedule called `seed`, without what `entry` is spared.
fn draw(entry: &Entry<Sim>, wanted: &Wanted, seed: u64, fixed: &Fixed) -> Schedule {
    let mut schedule = Schedule::draw(&wanted.machine, seed, fixed);
    if fixed.trouble.is_none() {
        schedule.spare(entry.spared);
    }
    schedule
}

/// Makes the failure of `seed` smaller and tells it.
fn explain(entry: &Entry<Sim>, wanted: &Wanted, seed: u64, fault: &Fault) -> Failure {
    let draw = |fixed: &Fixed| draw(entry, wanted, seed, fixed);
    let first = draw(&wanted.fixed);
    let mut fixed = Fixed {
        threads: Some(first.setup.threads),
        operations: first.setup.operations,
        trouble: Some(first.trouble),
        small: wanted.fixed.small,
        weakening: wanted.fixed.weakening.clone(),
        believes_in_ghosts: wanted.fixed.believes_in_ghosts,
    };
    let begun = Instant::now();
    let same = |fixed: &Fixed| {
        begun.elapsed() < SEARCH
            && run(entry, &draw(fixed), false).is_err_and(|(other, _)| other.finding == fault.finding)
    };
    smaller(&mut fixed, &same);
    let schedule = draw(&fixed);
    // The journal looks on and changes nothing: the same failure, told.
    let (fault, telling) = match run(entry, &schedule, true) {
        Err((told, telling)) => (told, telling.map(|telling| *telling).unwrap_or_default()),
        Ok(_) => (fault.clone(), Telling::default()),
    };
    failure(entry, wanted, &schedule, fault.finding, fault.message, telling)
}

/// The failure of a simulated run, which its seed repeats.
fn failure(
    entry: &Entry<Sim>,
    wanted: &Wanted,
    schedule: &Schedule,
    finding: Finding,
    message: String,
    telling: Telling,
) -> Failure {
    let trouble: Vec<&str> = schedule.trouble.iter().map(|trouble| Trouble::name(*trouble)).collect();
    let trouble = if trouble.is_empty() { "none".to_owned() } else { trouble.join(",") };
    let (threads, operations) = (schedule.setup.threads, schedule.setup.operations.unwrap_or(0));
    let faults = &schedule.config.faults;
    let mut rates = Vec::new();
    for (name, one_in, ns) in [
        ("preempt", faults.preempt_one_in, faults.preempt_ns),
        ("lost-cpu", faults.lost_cpu_one_in, faults.lost_cpu_ns),
        ("late-wake", faults.delay_one_in, faults.delay_ns),
        ("spurious-wake", faults.spurious_one_in, faults.spurious_ns),
        ("clock-jump", faults.clock_jump_one_in, faults.clock_jump_ns),
    ] {
        if one_in > 0 {
            rates.push(format!("{name} one in {one_in}, up to {} us", ns as f64 / 1e3));
        }
    }
    let run = vec![
        ("machine", wanted.machine_name.clone()),
        ("seed", schedule.seed.to_string()),
        (
            "threads",
            format!(
                "{threads}, {operations} operations each, {} locks, begun {}",
                schedule.setup.locks, schedule.config.placement
            ),
        ),
        ("trouble", trouble.clone()),
        ("schedule", if rates.is_empty() { "no rates".to_owned() } else { rates.join("; ") }),
        ("ended", format!("at {} ns of simulated time", telling.ended_ns)),
    ];
    let small = if wanted.fixed.small { " --small" } else { "" };
    let weakened = wanted.fixed.weakening.as_ref().map_or_else(String::new, |weaker| format!(" --weaken {weaker}"));
    let replay = format!(
        "lockyard torture --lock {} --machine {}{small}{weakened} --seed {} --schedules 1 --threads {threads} --operations {operations} --fault {trouble}",
        entry.label(),
        wanted.machine_name,
        schedule.seed,
    );
    Failure { lock: entry.label(), finding, message, run, telling, replay, exact: true }
}

/// How long the search for a smaller failure may take.
const SEARCH: Duration = Duration::from_secs(4);

/// Takes away whatever the failure does not need: kinds of trouble, threads, operations.
fn smaller(fixed: &mut Fixed, same: &dyn Fn(&Fixed) -> bool) {
    let accept = |changed: Fixed, fixed: &mut Fixed| {
        let better = same(&changed);
        if better {
            *fixed = changed;
        }
        better
    };
    for trouble in Trouble::all() {
        let mut left = fixed.trouble.clone().unwrap_or_default();
        if let Some(index) = left.iter().position(|&other| other == trouble) {
            left.remove(index);
            accept(Fixed { trouble: Some(left), ..fixed.clone() }, fixed);
        }
    }
    while let Some(threads) = fixed.threads.filter(|&threads| threads > 1) {
        if !accept(Fixed { threads: Some(threads - 1), ..fixed.clone() }, fixed) {
            break;
        }
    }
    let mut step = fixed.operations.unwrap_or(1) / 2;
    while step > 0 {
        let operations = fixed.operations.unwrap_or(1).saturating_sub(step).max(1);
        if !accept(Fixed { operations: Some(operations), ..fixed.clone() }, fixed) {
            step /= 2;
        } else {
            step = step.min(operations / 2);
        }
    }
}
