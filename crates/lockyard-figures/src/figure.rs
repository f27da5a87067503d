//! The figures there are: each published table with its kind and binding.

use crate::error::Error;
use crate::kind::aim7::{self, Aim7};
use crate::kind::code_size::{self, CodeSize};
use crate::kind::events::{self, Events};
use crate::kind::rates::{self, Rates};
use crate::kind::spin_loop::{self, SpinLoop};
use crate::kind::spread::{self, Spread};
use crate::plan::Plan;
use crate::table::Table;

/// A published table that can be rerun.
#[derive(Debug)]
pub struct Figure {
    id: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Rates(Rates),
    Spread(Spread),
    Events(Events),
    SpinLoop(SpinLoop),
    CodeSize(CodeSize),
    Aim7(Aim7),
}

/// What a figure's changes are changes of: only like is compared with like for the baseline "mean".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Throughput,
    Spread,
    Events,
    Time,
    Size,
}

static FIGURES: [Figure; 11] = [
    Figure { id: "rwsem_01_remove_reader_spin_kops", kind: Kind::Rates(rates::REMOVE_READER_SPIN) },
    Figure { id: "rwsem_02_reader_steal_events", kind: Kind::Events(events::READER_STEAL) },
    Figure { id: "rwsem_06_timed_spin_loop_ns", kind: Kind::SpinLoop(spin_loop::TIMED_SPIN) },
    Figure { id: "rwsem_07_timed_writer_spin_kops", kind: Kind::Rates(rates::TIMED_WRITER_SPIN) },
    Figure { id: "rwsem_08_timed_writer_spin_events", kind: Kind::Events(events::TIMED_WRITER_SPIN) },
    Figure { id: "rwsem_09_reader_spin_on_writer_kops", kind: Kind::Rates(rates::READER_SPIN_ON_WRITER) },
    Figure { id: "rwsem_10_handoff_240_writers", kind: Kind::Spread(spread::HANDOFF) },
    Figure { id: "rwsem_12_code_size", kind: Kind::CodeSize(code_size::RWSEM) },
    Figure { id: "rwsem_13_boot_events", kind: Kind::Events(events::BOOT) },
    Figure { id: "semaphore_01_aim7", kind: Kind::Aim7(aim7::SEMAPHORE) },
    Figure { id: "semaphore_02_code_size", kind: Kind::CodeSize(code_size::SEMAPHORE) },
];

/// All figures, in the order in which they are listed.
pub fn figures() -> &'static [Figure] {
    &FIGURES
}

/// The figure called `name`: by its id or by the id's short form, `rwsem_07`.
pub fn find(name: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.id == name || figure.short() == name)
}

impl Figure {
    /// The stem of its data file.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// The id up to its number: `rwsem_07`.
    pub fn short(&self) -> &'static str {
        let end = self.id.match_indices('_').nth(1).map_or(self.id.len(), |found| found.0);
        &self.id[..end]
    }

    /// What kind of table it is, in one word.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Rates(_) => "rates",
            Kind::Spread(_) => "spread",
            Kind::Events(_) => "events",
            Kind::SpinLoop(_) => "loop",
            Kind::CodeSize(_) => "code size",
            Kind::Aim7(_) => "AIM7",
        }
    }

    /// Ids of the machines that it is simulated on; none if nothing is simulated.
    pub fn machines(&self) -> Vec<&'static str> {
        match &self.kind {
            Kind::Rates(rates) => vec![rates.machine()],
            Kind::Spread(spread) => vec![spread.machine()],
            Kind::Events(events) => vec![events.machine()],
            Kind::SpinLoop(spin_loop) => spin_loop.machines().collect(),
            Kind::CodeSize(_) => Vec::new(),
            Kind::Aim7(aim7) => vec![aim7.machine()],
        }
    }

    /// The published table.
    ///
    /// # Errors
    /// The data file is wrong: a defect of this crate.
    pub fn table(&self) -> Result<Table, Error> {
        Table::read(self.id)
    }

    /// What rerunning it takes.
    ///
    /// # Errors
    /// The data file does not fit its binding: a defect of this crate.
    pub fn plan(&self) -> Result<Plan, Error> {
        let table = self.table()?;
        match &self.kind {
            Kind::Rates(rates) => rates.plan(&table),
            Kind::Spread(spread) => spread.plan(&table),
            Kind::Events(events) => events.plan(&table),
            Kind::SpinLoop(spin_loop) => spin_loop.plan(&table),
            Kind::CodeSize(code_size) => code_size.plan(&table),
            Kind::Aim7(aim7) => aim7.plan(&table),
        }
    }

    pub(crate) fn quantity(&self) -> Quantity {
        match self.kind {
            Kind::Rates(_) | Kind::Aim7(_) => Quantity::Throughput,
            Kind::Spread(_) => Quantity::Spread,
            Kind::Events(_) => Quantity::Events,
            Kind::SpinLoop(_) => Quantity::Time,
            Kind::CodeSize(_) => Quantity::Size,
        }
    }
}

#[cfg(test)]
mod tests {
    use lockyard_sim::Sim;
    use lockyard_sim::machine::catalog;
    use lockyard_work::lockyard_candidates;

    use super::*;
    use crate::plan::Job;
    use crate::table::stems;

    #[test]
    fn every_table_is_bound_and_every_figure_has_a_table() {
        assert_eq!(figures().iter().map(Figure::id).collect::<Vec<_>>(), stems().collect::<Vec<_>>());
        assert_eq!(find("rwsem_07").map(Figure::id), Some("rwsem_07_timed_writer_spin_kops"));
        assert!(find("rwsem").is_none() && find("").is_none());
    }

    #[test]
    fn every_binding_names_what_exists() {
        let locks: Vec<String> = lockyard_candidates::<Sim>().iter().map(lockyard_work::Candidate::label).collect();
        for figure in figures() {
            for machine in figure.machines() {
                catalog::machine(machine).unwrap_or_else(|error| panic!("{}: {error}", figure.id));
            }
            let plan = figure.plan().unwrap_or_else(|error| panic!("{error}"));
            for job in &plan.jobs {
                match job {
                    Job::Workload { lock, spec, .. } => {
                        assert!(locks.contains(lock), "{}: {lock}", figure.id);
                        spec.validate().unwrap();
                    }
                    Job::CodeSize { lock } => assert!(locks.iter().any(|known| known == lock), "{lock}"),
                    Job::SpinLoop { machine } => assert!(catalog::machine(machine).is_ok()),
                }
            }
            assert!(!plan.cells.is_empty() && !plan.notes.is_empty());
            for cell in plan.cells.iter().filter_map(|cell| cell.source.as_ref().ok()) {
                assert!(cell.0 < plan.jobs.len());
            }
        }
    }

    #[test]
    fn tables_are_taken_over_whole() {
        // Cells by figure: rows × columns, counted by hand in the files.
        let cells: Vec<usize> = figures().iter().map(|figure| figure.plan().unwrap().cells.len()).collect();
        assert_eq!(cells, [56, 3, 3, 16, 12, 14, 6, 2, 13, 9, 2]);
        let changes: Vec<usize> = figures().iter().map(|figure| figure.plan().unwrap().changes.len()).collect();
        assert_eq!(changes, [42, 2, 1, 8, 6, 7, 3, 1, 8, 3, 1]);
    }
}
