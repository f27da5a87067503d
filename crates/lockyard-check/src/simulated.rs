//! The simulated machine as a stage: every case runs on several machines, under several random
//! schedules, some of them rough.
//!
//! A schedule follows from machine and seed: the order in which threads begin, their placement, the
//! jitter of every transfer, and in the rough half forced preemptions, delayed and spurious
//! wake-ups. A case that fails names both.
//!
//! The tests perform each case on a few schedules. [`perform_seed`] performs it on any other:
//! `cargo xtask explore seeds` does so by the ten thousand.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use lockyard::platform::Platform as _;
use lockyard_sim::faults::Faults;
use lockyard_sim::machine::catalog;
use lockyard_sim::machine::model::Model;
use lockyard_sim::machine::topology::Placement;
use lockyard_sim::{Config, Sim, Simulation};

use crate::stage::{Scale, Stage};

/// One machine with fewer CPUs than the crowd, one with several sockets, one with weak stores.
const MACHINES: [&str; 3] = ["quad2008", "skx_2s_40c", "kunpeng920_2s_96c"];
/// Schedules on each machine.
const SEEDS: u64 = 4;
/// What a case may cost the host before it is called hung. The longest takes a hundredth of it.
const EVENT_LIMIT: u64 = 200_000_000;

/// Lock events, by name.
pub type Events = BTreeMap<&'static str, u64>;

thread_local! {
    static MODELS: [Arc<Model>; MACHINES.len()] =
        MACHINES.map(|name| catalog::machine(name).unwrap_or_else(|error| panic!("{error}")));
    static CONFIG: RefCell<Option<Config>> = const { RefCell::new(None) };
    /// Threads of the case's earlier runs. They may have left their names in a lock, so nobody else
    /// gets those.
    static GONE: Cell<usize> = const { Cell::new(0) };
    /// What the case's runs have counted.
    static EVENTS: RefCell<Events> = const { RefCell::new(Events::new()) };
}

/// Machine number `machine` and the faults of a schedule called `seed`.
fn config(machine: usize, seed: u64, faults: Faults) -> Config {
    let model = MODELS.with(|models| models[machine].clone());
    let placement = Placement::ALL[(seed / 2) as usize % Placement::ALL.len()];
    Config { seed, faults, placement, event_limit: EVENT_LIMIT, ..Config::new(model) }
}

/// Performs `case` once.
fn perform_on(config: Config, case: fn()) -> Result<(), Box<dyn Any + Send>> {
    CONFIG.set(Some(config));
    GONE.set(0);
    Sim::commons().pool.forget_readers();
    let outcome = std::panic::catch_unwind(case);
    CONFIG.set(None);
    outcome
}

/// Performs `case` on the schedule called `seed`: machine, placement and faults follow from it.
/// Every seam call may be preempted, from one in four to one in a thousand of them, sleeps end
/// early, wake-ups come late. Returns what was counted.
///
/// # Errors
/// What went wrong, and on which machine.
pub fn perform_seed(seed: u64, case: fn()) -> Result<Events, String> {
    let machine = seed as usize % MACHINES.len();
    let preempt_one_in = 4 << (seed / 3 % 9);
    // The more often, the shorter: a run must end some time.
    let faults = Faults { preempt_one_in, preempt_ns: (400 * preempt_one_in).min(200_000), ..Faults::ROUGH };
    EVENTS.take();
    perform_on(config(machine, seed, faults), case).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        format!("on {}: {}", MACHINES[machine], said.unwrap_or("panicked"))
    })?;
    Ok(EVENTS.take())
}

impl Stage for Sim {
    const SCALE: Scale =
        Scale { rounds: 24, sleeps: 24, threads: 4, crowd: 12, short_lived: 24, queue: 8, timeout_ns: 20_000_000 };

    fn perform(name: &'static str, case: fn()) {
        crate::native::guarded(name, move || {
            for (machine, model) in MACHINES.iter().enumerate() {
                for seed in 0..SEEDS {
                    let faults = if seed % 2 == 0 { Faults::default() } else { Faults::ROUGH };
                    if let Err(panic) = perform_on(config(machine, seed, faults), case) {
                        eprintln!("in {name} on {model} with seed {seed}:");
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        });
    }

    fn run(threads: usize, act: impl Fn(usize) + Sync) {
        let config = CONFIG.with_borrow(Clone::clone).expect("a case is performed");
        let gone = GONE.replace(GONE.get() + threads);
        let ran = Simulation::after(&config, gone, threads).and_then(|simulation| {
            // A lock whose readers are apart is the same lock in the next run.
            simulation.pool().take_readers_of(Sim::commons().pool);
            let report = simulation.run(|thread| act(thread - gone));
            Sim::commons().pool.take_readers_of(simulation.pool());
            report
        });
        match ran {
            Ok(report) => EVENTS.with_borrow_mut(|events| {
                for (event, count) in report.events {
                    *events.entry(event).or_default() += count;
                }
            }),
            Err(error) => panic!("{error}"),
        }
    }
}
