//! What sixteen iterations of the spinning loop cost, alone.
//!
//! A thread looks at a word and relaxes, sixteen times: one poll of a waiter is the loop around a
//! PAUSE plus the PAUSE. The smallest sample counts, as in the published figures. **Not a
//! prediction in full**: the loop's overhead in `common.toml` was derived from this very table;
//! what is predicted is the difference between machines.

use lockyard::platform::{Ordering, Platform, Word};
use lockyard_sim::{Config, Sim, Simulation, clock_ps, words};

use crate::error::Error;
use crate::plan::{Cell, Job, Outcome, Plan, Source, Take};
use crate::table::Table;

/// The table of loops.
#[derive(Debug)]
pub(crate) struct SpinLoop {
    /// Rows and machines; rows without one stay empty.
    machines: &'static [(&'static str, Option<&'static str>)],
}

/// The loop that bounds writers' spinning.
pub(crate) const TIMED_SPIN: SpinLoop = SpinLoop {
    machines: &[
        ("1-socket Skylake", Some("skx_1s")),
        ("4-socket Broadwell", None),
        ("2-socket ThunderX2 (arm64)", Some("tx2_2s")),
    ],
};

const ITERATIONS: u32 = 16;
const SAMPLES: usize = 100;

impl SpinLoop {
    pub(crate) fn machines(&self) -> impl Iterator<Item = &'static str> {
        self.machines.iter().filter_map(|row| row.1)
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let mut plan = Plan { keys: vec!["system".to_owned()], unit: "ns per 16 iterations", ..Plan::default() };
        let column = "ns_per_16_iterations";
        let mut cells = Vec::new();
        for (name, machine) in self.machines {
            let row = table.row(name)?;
            let source = match machine {
                Some(machine) => Ok(Source::Number(plan.job(Job::SpinLoop { machine }), Take::plain("ns"))),
                None => Err("no machine file for this system".to_owned()),
            };
            let simulated = source.is_ok();
            let cell = plan.cell(Cell {
                row: (*name).to_owned(),
                column: column.to_owned(),
                threads: None,
                panel: String::new(),
                published: Some(table.number(row, column)?),
                source,
            });
            cells.extend(simulated.then_some(cell));
        }
        for pair in cells.windows(2) {
            let label = format!("{} → {}", plan.cells[pair[0]].row, plan.cells[pair[1]].row);
            plan.change(label, pair[0], pair[1], 0.0);
        }
        plan.notes.push(
            "the loop's overhead was derived from this table: the ratio of machines is a prediction, the size is not"
                .to_owned(),
        );
        Ok(plan)
    }
}

/// The smallest of some samples of the loop.
pub(crate) fn run(config: &Config) -> Result<Outcome, Error> {
    let simulation = Simulation::new(config, 1)?;
    let word = simulation.place("word", words::U64::default())?;
    let best = std::sync::atomic::AtomicU64::new(u64::MAX);
    simulation.run(|_| {
        for _ in 0..SAMPLES {
            let begin = clock_ps();
            for _ in 0..ITERATIONS {
                word.load(Ordering::Relaxed);
                Sim::relax();
            }
            best.fetch_min(clock_ps() - begin, std::sync::atomic::Ordering::Relaxed);
        }
    })?;
    let ns = best.into_inner() as f64 / 1e3;
    Ok(Outcome { numbers: [("ns".to_owned(), ns)].into(), shape: None })
}
