//! The simulated machine as a stage: every case runs on several machines, under several random schedules, some of them rough.
//!
//! A schedule follows from machine and seed: the order in which threads begin, the jitter of every transfer, and in the rough half forced preemptions,
//! delayed and spurious wake-ups. A case that fails names both.

use std::cell::{Cell, RefCell};

use lockyard_sim::faults::Faults;
use lockyard_sim::machine::catalog;
use lockyard_sim::{Config, Sim, Simulation};

use crate::stage::{Scale, Stage};

/// One machine with fewer CPUs than the crowd, one with several sockets, one with weak stores.
const MACHINES: [&str; 3] = ["quad2008", "skx_2s_40c", "kunpeng920_2s_96c"];
/// Schedules on each machine.
const SEEDS: u64 = 4;

thread_local! {
    static CONFIG: RefCell<Option<Config>> = const { RefCell::new(None) };
    /// Threads of the case's earlier runs. They may have left their names in a lock, so nobody else gets those.
    static GONE: Cell<usize> = const { Cell::new(0) };
}

impl Stage for Sim {
    const SCALE: Scale =
        Scale { rounds: 24, sleeps: 24, threads: 4, crowd: 12, short_lived: 24, queue: 8, timeout_ns: 20_000_000 };

    fn perform(name: &'static str, case: fn()) {
        crate::native::guarded(name, move || {
            for machine in MACHINES {
                for seed in 0..SEEDS {
                    let model = catalog::machine(machine).unwrap_or_else(|error| panic!("{error}"));
                    let faults = if seed % 2 == 0 { Faults::default() } else { Faults::ROUGH };
                    CONFIG.set(Some(Config { seed, faults, ..Config::new(model) }));
                    GONE.set(0);
                    let place = format!("{name} on {machine} with seed {seed}");
                    let said = std::panic::catch_unwind(case).err();
                    CONFIG.set(None);
                    if let Some(panic) = said {
                        eprintln!("in {place}:");
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        });
    }

    fn run(threads: usize, act: impl Fn(usize) + Sync) {
        let config = CONFIG.with_borrow(Clone::clone).expect("a case is performed");
        let gone = GONE.replace(GONE.get() + threads);
        let live = |thread: usize| thread.checked_sub(gone).into_iter().for_each(&act);
        let ended = Simulation::new(&config, gone + threads).and_then(|simulation| simulation.run(live));
        if let Err(error) = ended {
            panic!("{error}");
        }
    }
}
