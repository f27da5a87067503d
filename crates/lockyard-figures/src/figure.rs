//! The figures there are: each published table with its kind and binding.

use crate::error::Error;
use crate::kind::aim7::{self, Aim7};
use crate::kind::code_size::{self, CodeSize};
use crate::kind::events::{self, Events};
use crate::kind::fairness::{self, Fairness};
use crate::kind::gains::{self, Gains};
use crate::kind::locks::{self, Locks};
use crate::kind::pi_stress::{self, PiStress};
use crate::kind::rates::{self, Rates};
use crate::kind::rw_loop::{self, RwLoop};
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
    Gains(Gains),
    PiStress(PiStress),
    Fairness(Fairness),
    RwLoop(RwLoop),
    Rates(Rates),
    Spread(Spread),
    Events(Events),
    SpinLoop(SpinLoop),
    CodeSize(CodeSize),
    Aim7(Aim7),
    Locks(Locks),
}

/// What a figure's changes are changes of: only like is compared with like for the baseline "mean".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Throughput,
    Inversions,
    Spread,
    Fairness,
    Events,
    Time,
    WorkTime,
    Size,
}

static FIGURES: [Figure; 20] = [
    Figure { id: "cna_lock2_x5_4", kind: Kind::Locks(locks::CNA_LOCK2) },
    Figure { id: "cna_locktorture_x5_4", kind: Kind::Locks(locks::CNA_TORTURE) },
    Figure { id: "hq_locktorture_epyc_fairness", kind: Kind::Fairness(fairness::TORTURE_EPYC) },
    Figure { id: "hq_locktorture_epyc_gain", kind: Kind::Gains(gains::TORTURE_EPYC) },
    Figure { id: "hq_locktorture_kunpeng_gain", kind: Kind::Gains(gains::TORTURE_KUNPENG) },
    Figure { id: "hq_memcached_epyc", kind: Kind::Gains(gains::MEMCACHED) },
    Figure { id: "litl_kyotocabinet_i48", kind: Kind::Locks(locks::KYOTO_CABINET) },
    Figure { id: "pi_stress_rtmutex_topspinner_2016", kind: Kind::PiStress(pi_stress::TOP_SPINNER) },
    Figure { id: "qrwlock_waiting_flag", kind: Kind::RwLoop(rw_loop::WAITING_FLAG) },
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

    /// The id up to its number: `rwsem_07`; an id without a number has no shorter form.
    pub fn short(&self) -> &'static str {
        let end = self.id.match_indices('_').nth(1).map_or(self.id.len(), |found| found.0);
        let short = &self.id[..end];
        if short.ends_with(|last: char| last.is_ascii_digit()) { short } else { self.id }
    }

    /// What kind of table it is, in one word.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Gains(_) => "gains",
            Kind::PiStress(_) => "inversions",
            Kind::Fairness(_) => "fairness",
            Kind::RwLoop(_) => "times",
            Kind::Rates(_) => "rates",
            Kind::Spread(_) => "spread",
            Kind::Events(_) => "events",
            Kind::SpinLoop(_) => "loop",
            Kind::CodeSize(_) => "code size",
            Kind::Aim7(_) => "AIM7",
            Kind::Locks(_) => "locks",
        }
    }

    /// Whether it is of others than the series that the locks come from: scored like the rest, but
    /// in a group of its own.
    pub const fn is_external(&self) -> bool {
        matches!(self.kind, Kind::Locks(_))
    }

    /// Ids of the machines that it is simulated on; none if nothing is simulated.
    pub fn machines(&self) -> Vec<&'static str> {
        match &self.kind {
            Kind::Gains(gains) => gains.machines(),
            Kind::PiStress(pi_stress) => vec![pi_stress.machine()],
            Kind::Fairness(fairness) => fairness.machines(),
            Kind::RwLoop(rw_loop) => vec![rw_loop.machine()],
            Kind::Rates(rates) => vec![rates.machine()],
            Kind::Spread(spread) => vec![spread.machine()],
            Kind::Events(events) => vec![events.machine()],
            Kind::SpinLoop(spin_loop) => spin_loop.machines().collect(),
            Kind::CodeSize(_) => Vec::new(),
            Kind::Aim7(aim7) => vec![aim7.machine()],
            Kind::Locks(locks) => vec![locks.machine()],
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
            Kind::Gains(gains) => gains.plan(&table),
            Kind::PiStress(pi_stress) => pi_stress.plan(&table),
            Kind::Fairness(fairness) => fairness.plan(&table),
            Kind::RwLoop(rw_loop) => rw_loop.plan(&table),
            Kind::Rates(rates) => rates.plan(&table),
            Kind::Spread(spread) => spread.plan(&table),
            Kind::Events(events) => events.plan(&table),
            Kind::SpinLoop(spin_loop) => spin_loop.plan(&table),
            Kind::CodeSize(code_size) => code_size.plan(&table),
            Kind::Aim7(aim7) => aim7.plan(&table),
            Kind::Locks(locks) => locks.plan(&table),
        }
    }

    pub(crate) fn quantity(&self) -> Quantity {
        match self.kind {
            Kind::Rates(_) | Kind::Gains(_) | Kind::Aim7(_) | Kind::Locks(_) => Quantity::Throughput,
            Kind::PiStress(_) => Quantity::Inversions,
            Kind::Fairness(_) => Quantity::Fairness,
            Kind::RwLoop(_) => Quantity::WorkTime,
            Kind::Spread(_) => Quantity::Spread,
            Kind::Events(_) => Quantity::Events,
            Kind::SpinLoop(_) => Quantity::Time,
            Kind::CodeSize(_) => Quantity::Size,
        }
    }
}

#[cfg(test)]
mod tests {
    use lockyard_sim::machine::catalog;
    use lockyard_work::simulated::{LOCKS, STAND_INS};

    use super::*;
    use crate::plan::{Job, Source};
    use crate::table::stems;

    #[test]
    fn every_table_is_bound_and_every_figure_has_a_table() {
        assert_eq!(figures().iter().map(Figure::id).collect::<Vec<_>>(), stems().collect::<Vec<_>>());
        assert_eq!(find("rwsem_07").map(Figure::id), Some("rwsem_07_timed_writer_spin_kops"));
        assert!(find("rwsem").is_none() && find("hq_locktorture").is_none() && find("").is_none());
    }

    #[test]
    fn every_binding_names_what_exists() {
        let locks: Vec<String> = LOCKS.iter().chain(&STAND_INS).map(lockyard_work::Candidate::label).collect();
        for figure in figures() {
            for machine in figure.machines() {
                catalog::machine(machine).unwrap_or_else(|error| panic!("{}: {error}", figure.id));
            }
            let plan = figure.plan().unwrap_or_else(|error| panic!("{error}"));
            for job in &plan.jobs {
                match job {
                    Job::Workload { lock, spec, given, .. } => {
                        assert!(locks.contains(lock), "{}: {lock}", figure.id);
                        let ends = given.ends.iter().flat_map(|ends| &**ends);
                        ends.chain([&**spec]).for_each(|spec| spec.validate().unwrap());
                    }
                    Job::CodeSize { lock } => assert!(locks.iter().any(|known| known == lock), "{lock}"),
                    Job::SpinLoop { machine } => assert!(catalog::machine(machine).is_ok()),
                }
            }
            assert!(!plan.cells.is_empty() && !plan.notes.is_empty());
            let sources = plan.cells.iter().filter_map(|cell| cell.source.as_ref().ok());
            assert!(sources.flat_map(Source::jobs).all(|job| job < plan.jobs.len()));
        }
    }

    /// A row that does not exist would be scored although it was fitted on.
    #[test]
    fn every_fitted_row_is_in_a_table() {
        for fitted in lockyard_sim::calibration::read().unwrap().rows() {
            let (table, row) = fitted.split_once(':').unwrap_or_else(|| panic!("{fitted}: not 'table:row'"));
            let figure = find(table).unwrap_or_else(|| panic!("{fitted}: no such table"));
            assert!(figure.plan().unwrap().cells.iter().any(|cell| cell.row == row), "{fitted}: no such row");
        }
    }

    #[test]
    fn tables_are_taken_over_whole() {
        // Cells by figure: rows × columns, counted by hand in the files.
        let cells: Vec<usize> = figures().iter().map(|figure| figure.plan().unwrap().cells.len()).collect();
        assert_eq!(cells, [20, 20, 14, 28, 1, 10, 20, 16, 22, 56, 3, 3, 16, 12, 14, 6, 2, 13, 9, 2]);
        let changes: Vec<usize> = figures().iter().map(|figure| figure.plan().unwrap().changes.len()).collect();
        assert_eq!(changes, [28, 28, 7, 14, 1, 5, 40, 8, 11, 42, 2, 1, 8, 6, 7, 3, 1, 8, 3, 1]);
    }
}
