//! The real machine, with more threads than CPUs, under a watchdog.
//!
//! Time is cut into rounds. Each has fresh locks and fresh threads (churn; everything is at rest in
//! between: stutter), its own seed, and so many threads as is its turn. A watchdog looks ten times
//! a second for a thread that waits too long. After a failure threads may be stuck in a lock for
//! ever: the process must end.
//!
//! **Stops.** In a round with stops a signal handler keeps one thread that sleeps in a lock, until
//! all others have ended, or for two thirds of the patience. Meanwhile no lock is free for a third
//! of it beside a thread that waits for it. **Forks.** In a round with forks one thread does, with
//! a lock held; its child uses the lock, and ends.

use std::os::unix::thread::JoinHandleExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lockyard::platform::linux::Linux;
use lockyard_check::stage::Dice;
use lockyard_sim::faults::Fault;
use lockyard_work::Machine;

use crate::catalog::{Entry, Finding};
use crate::failure::{Failure, Telling};
use crate::quiet::quietly;
use crate::schedule::{HOGGED, Trouble};
use crate::world::{STARVATION, Setup, World};
use crate::{child, handler};

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// How many threads: each in turn, for one round.
    pub threads: Vec<usize>,
    /// Seed of the first round.
    pub seed: u64,
    /// How long.
    pub time: Duration,
    /// How long a thread may wait before it is called hung or starved.
    pub patience: Duration,
    /// What goes wrong: of the machine's faults `migrate`, `stop-in-handler` and `fork`.
    pub trouble: Vec<Trouble>,
}

/// What can go wrong here.
pub fn troubles() -> Vec<Trouble> {
    let native = |trouble: &Trouble| match trouble {
        Trouble::Machine(Fault::Migrate | Fault::Fork) => true,
        Trouble::Machine(fault) => *fault == Fault::Stop && handler::WORKS,
        Trouble::Pct => false,
        Trouble::Exit | Trouble::Cancel => true,
    };
    Trouble::all().into_iter().filter(native).collect()
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// For each number of threads: rounds, time, acquisitions of each thread of the last round, all
    /// acquisitions, the longest wait (ns).
    pub by_threads: Vec<Share>,
}

/// The rounds with one number of threads.
#[derive(Debug, Clone, Default)]
pub struct Share {
    /// Threads.
    pub threads: usize,
    /// Rounds.
    pub rounds: u64,
    /// Rounds in which a thread was stopped.
    pub stops: u64,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Time, ns.
    pub ns: u64,
    /// Acquisitions of each thread, all rounds.
    pub taken: Vec<u64>,
    /// The longest blocking wait, ns.
    pub longest_ns: u64,
}

const ROUND: Duration = Duration::from_millis(400);

/// Tortures `entry`. `progress` is told the share that is done; it says whether to go on.
///
/// # Errors
/// The first failure. Threads may be stuck then: end the process.
pub fn torture(
    entry: &Entry<Linux>,
    wanted: &Wanted,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Result<Tally, Box<Failure>> {
    let begun = Instant::now();
    let mut tally = Tally::default();
    tally.by_threads.extend(wanted.threads.iter().map(|&threads| Share {
        threads,
        taken: vec![0; threads],
        ..Share::default()
    }));
    for round in 0u64.. {
        if (round > 0 && begun.elapsed() >= wanted.time)
            || !progress(begun.elapsed().as_secs_f64() / wanted.time.as_secs_f64())
        {
            break;
        }
        let share = &mut tally.by_threads[round as usize % wanted.threads.len()];
        one_round(entry, wanted, wanted.seed.wrapping_add(round), share)?;
    }
    tally.by_threads.retain(|share| share.rounds > 0);
    Ok(tally)
}

fn one_round(entry: &Entry<Linux>, wanted: &Wanted, seed: u64, share: &mut Share) -> Result<(), Box<Failure>> {
    let has = |trouble| wanted.trouble.contains(&trouble);
    let meets = |fault| has(Trouble::Machine(fault)) && !entry.spared.contains(&fault);
    let patience = wanted.patience.as_nanos() as u64;
    let setup = Setup {
        seed,
        threads: share.threads,
        locks: 1 + seed as usize % 3,
        mortals: 0,
        operations: None,
        hogged: HOGGED,
        exits: has(Trouble::Exit),
        cancels: has(Trouble::Cancel),
        nap: 2_000_000,
        naps_one_in: 4_000,
        watch_spinning: false,
        late_ns: patience,
        starved_ns: patience,
        starved_grants: 1_000,
        stops: meets(Fault::Stop),
        kept_ns: patience / 3,
        heirs: if meets(Fault::Fork) { 2 } else { 0 },
    };
    let world = Arc::new(World::<Linux>::new(entry, &setup));
    let living = Arc::new(AtomicUsize::new(share.threads));
    let said: Arc<Mutex<Option<(usize, String)>>> = Arc::default();
    let churn = Arc::new(AtomicU64::new(seed));
    let begun = Instant::now();
    let mut threads = Vec::with_capacity(share.threads);
    if setup.stops {
        handler::arm();
    }
    if setup.heirs > 0 {
        // Measured once, by the first thread that asks: not by one that a fork leaves behind.
        Linux::pause_ns();
        child::arm(1 + (seed % 256) as u32, wanted.patience.as_secs() as u32 / 2);
    }
    for me in 0..share.threads {
        let (world_of, living, said, churn) = (world.clone(), living.clone(), said.clone(), churn.clone());
        let migrates = has(Trouble::Machine(Fault::Migrate)) && me % 4 == 3;
        let life = move || {
            handler::enter(me);
            if migrates {
                // Some threads share a CPU, and not the same one in each round.
                Linux::pin(churn.load(Relaxed) as usize + me / 4);
            }
            let outcome = quietly(|| catch_unwind(AssertUnwindSafe(|| world_of.live(me))));
            if let Err(panic) = outcome {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
                let mut said = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                said.get_or_insert((me, text.unwrap_or_else(|| "no message".to_owned())));
            }
            living.fetch_sub(1, Relaxed);
        };
        match thread::Builder::new().name(format!("torture-{me}")).stack_size(256 << 10).spawn(life) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let message = format!("cannot start thread {me}: {error}");
                return Err(failure(entry, wanted, &setup, &world, Finding::Check, message));
            }
        }
    }
    let mut stop = Stop { going: setup.stops, since: None, patience: wanted.patience };
    let mut dice = Dice::new(seed);
    let ends = begun + ROUND.min(wanted.time);
    loop {
        thread::sleep(Duration::from_millis(5));
        if Instant::now() >= ends {
            world.end();
        }
        if let Some((me, text)) = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone() {
            let finding = match () {
                () if text.contains(STARVATION) => Finding::Starvation,
                () if text.contains(child::HANGS) => Finding::Hang,
                () => Finding::Check,
            };
            return Err(failure(entry, wanted, &setup, &world, finding, format!("thread {me}: {text}")));
        }
        if living.load(Relaxed) == 0 {
            break;
        }
        if stop.going {
            let next = &threads[dice.roll(threads.len() as u32) as usize];
            stop.go_on(next.as_pthread_t(), living.load(Relaxed));
            if let Some((thread, lock, waited)) = world.kept(Linux::stamp(), setup.kept_ns).filter(|_| stop.lasts()) {
                let ms = waited / 1_000_000;
                let text = format!("thread {thread} has waited {ms} ms for lock {lock}, which nobody holds");
                return Err(failure(entry, wanted, &setup, &world, Finding::Kept, text));
            }
        }
        if let Some((finding, text)) = stuck(&world, patience) {
            return Err(failure(entry, wanted, &setup, &world, finding, text));
        }
    }
    handler::release();
    if let Err(panic) = quietly(|| catch_unwind(AssertUnwindSafe(|| world.finish()))) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default();
        return Err(failure(entry, wanted, &setup, &world, Finding::Check, text));
    }
    share.rounds += 1;
    share.stops += u64::from(stop.lasts());
    share.ns += begun.elapsed().as_nanos() as u64;
    let taken = world.taken();
    share.acquisitions += taken.iter().sum::<u64>();
    share.taken.iter_mut().zip(&taken).for_each(|(sum, more)| *sum += more);
    share.longest_ns = share.longest_ns.max(world.longest());
    Ok(())
}

/// The stop of a round.
struct Stop {
    /// It is to come, or lasts.
    going: bool,
    since: Option<Instant>,
    patience: Duration,
}

impl Stop {
    /// Whether a thread is stopped.
    fn lasts(&self) -> bool {
        self.since.is_some()
    }

    /// A look: has `next` stopped, if nobody is yet; ends the stop when it has lasted long enough,
    /// of `living` threads.
    fn go_on(&mut self, next: libc::pthread_t, living: usize) {
        let stopped = handler::stopped();
        if stopped == 0 {
            handler::signal(next);
        } else if self.since.get_or_insert_with(Instant::now).elapsed() > self.patience * 2 / 3 || living == stopped {
            handler::release();
            self.going = false;
        }
    }
}

/// A thread that has waited for longer than the patience, if there is one: starved if others got
/// the lock meanwhile, else hung.
fn stuck(world: &World<Linux>, patience: u64) -> Option<(Finding, String)> {
    let now = Linux::stamp();
    for (thread, seat) in world.seats.iter().enumerate() {
        let Some(lock) = seat.waits_for.load(Relaxed).checked_sub(1) else { continue };
        if handler::is_stopped(thread) {
            continue;
        }
        let waited = now.saturating_sub(seat.since.load(Relaxed));
        let passed = world.slots[lock].grants.load(Relaxed).saturating_sub(seat.grants_then.load(Relaxed));
        if waited > patience {
            let ms = waited / 1_000_000;
            return Some(match passed {
                0 => (
                    Finding::Hang,
                    format!("thread {thread} has waited {ms} ms for lock {lock}, which nobody got meanwhile"),
                ),
                _ => (
                    Finding::Starvation,
                    format!(
                        "thread {thread} has waited {ms} ms for lock {lock}, which was granted {passed} times meanwhile"
                    ),
                ),
            });
        }
    }
    None
}

fn failure(
    entry: &Entry<Linux>,
    wanted: &Wanted,
    setup: &Setup,
    world: &World<Linux>,
    finding: Finding,
    message: String,
) -> Box<Failure> {
    const EVENTS: usize = 50;
    let names = world.names(&entry.label());
    let trouble: Vec<&str> = wanted.trouble.iter().map(|trouble| trouble.name()).collect();
    let trouble = if trouble.is_empty() { "none".to_owned() } else { trouble.join(",") };
    let telling = Telling {
        events: world.seats.iter().map(|seat| seat.ring.lines(EVENTS, &names)).collect(),
        locks: world.slots.iter().zip(&names).map(|(slot, name)| format!("{name}: {}", slot.subject.state())).collect(),
        ..Telling::default()
    };
    Box::new(Failure {
        lock: entry.label(),
        finding,
        message,
        run: vec![
            ("machine", format!("this one, {} CPUs", std::thread::available_parallelism().map_or(1, usize::from))),
            ("seed", setup.seed.to_string()),
            ("threads", format!("{}, {} locks", setup.threads, setup.locks)),
            ("trouble", trouble.clone()),
        ],
        telling,
        replay: format!(
            "lockyard torture --lock {} --seed {} --threads {} --fault {trouble} --secs {}",
            entry.label(),
            setup.seed,
            setup.threads,
            wanted.time.as_secs().max(1),
        ),
        exact: false,
    })
}

/// A run without a failure: one line for each number of threads.
pub fn passed(lock: &str, tally: &Tally) -> Vec<String> {
    use crate::report::{grouped, length, shares};
    let line = |share: &Share| {
        format!(
            "{lock}: passed: {} threads, {} rounds, {} acquisitions ({}/s), per thread min/median/max {}, longest wait {}",
            share.threads,
            share.rounds,
            grouped(share.acquisitions),
            grouped((share.acquisitions as f64 / (share.ns as f64 / 1e9).max(1e-3)) as u64),
            shares(&share.taken),
            length(share.longest_ns),
        )
    };
    tally.by_threads.iter().map(line).collect()
}
