//! Tables of others: rates of several locks, one row for each lock and number of threads.
//!
//! What is judged is the ratio of two locks with the same number of threads. Where one lock is a
//! change of the other, each also by itself: a number of threads by the one before it, which is the
//! shape of the curve. Where no lock is the others' origin, all pairs. A published change below the
//! larger of the two deviations (half of the distance from minimum to maximum where no deviation is
//! given) is none.
//!
//! Locks of a table that are not Lockyard's are left out, and a note names them. Loads are in
//! [`loads`](super::loads).

use lockyard_sim::machine::catalog;

use super::loads::Load;
use crate::error::Error;
use crate::plan::{Cell, Job, Plan, Source};
use crate::table::Table;

/// A table of locks.
#[derive(Debug)]
pub(crate) struct Locks {
    machine: &'static str,
    load: Load,
    /// What the locks are called there and here.
    locks: &'static [(&'static str, &'static str)],
    judged: Judged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// The second lock by the first, and the shapes of both.
    Change,
    /// Each lock by each before it.
    Pairs,
}

const STOCK_AND_CNA: &[(&str, &str)] = &[("qspinlock (stock v5.12.0)", "qspinlock"), ("CNA v15", "cna")];

/// The kernel's CNA, one file's lock.
pub(crate) const CNA_LOCK2: Locks =
    Locks { machine: "hsw_ex_4s_144t", load: Load::FileLock, locks: STOCK_AND_CNA, judged: Judged::Change };

/// The kernel's CNA, locktorture.
pub(crate) const CNA_TORTURE: Locks = Locks { load: Load::LockTorture, ..CNA_LOCK2 };

/// Kyoto Cabinet under exchanged locks.
pub(crate) const KYOTO_CABINET: Locks = Locks {
    machine: "hsw_ex_4s_48c",
    load: Load::KyotoCabinet,
    locks: &[
        ("mcs_spin", "mcs-as-published"),
        ("pthread", "futex-mutex"),
        ("spinlock", "test-and-set"),
        ("ticket", "ticket"),
        ("ttas", "ttas"),
    ],
    judged: Judged::Pairs,
};

impl Locks {
    pub(crate) const fn machine(&self) -> &'static str {
        self.machine
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let model = catalog::machine(self.machine)?;
        // One CPU is for the thread that opens the window.
        let most = model.topology().cpus() - 1;
        let mut plan = Plan { keys: vec!["threads".to_owned()], unit: self.load.unit(), ..Plan::default() };
        let mut earlier: Option<Row> = None;
        for threads in threads(table)? {
            let (spec, given) = self.load.of(threads.min(most), model.pause_ns());
            let mut row = Row { threads, cells: Vec::new() };
            for (name, label) in self.locks {
                let place = find(table, name, threads)?;
                let job = Job::Workload {
                    machine: self.machine,
                    lock: (*label).to_owned(),
                    spec: Box::new(spec.clone()),
                    given: given.clone(),
                };
                let job = plan.job(job);
                let cell = plan.cell(Cell {
                    row: threads.to_string(),
                    column: (*name).to_owned(),
                    threads: Some(threads as u32),
                    panel: String::new(),
                    published: Some(table.number(place, "value")?),
                    source: Ok(Source::Number(job, self.load.take(threads))),
                });
                row.cells.push((*name, cell, deviation(table, place)?));
            }
            self.judge(&mut plan, earlier.as_ref(), &row);
            earlier = Some(row);
        }
        let locks: Vec<String> = self.locks.iter().map(|(name, label)| format!("{name} = {label}")).collect();
        plan.notes.push(format!(
            "locks: {}; left out, not ours: {}",
            locks.join(", "),
            self.left_out(table)?.join(", ")
        ));
        plan.notes.extend(self.load.notes());
        Ok(plan)
    }

    fn judge(&self, plan: &mut Plan, earlier: Option<&Row>, row: &Row) {
        for (second, after) in row.cells.iter().enumerate() {
            for before in &row.cells[..second] {
                plan.change_beyond(
                    format!("{}: {} → {}", row.threads, before.0, after.0),
                    before.1,
                    after.1,
                    before.2.max(after.2),
                );
            }
        }
        if let (Judged::Change, Some(earlier)) = (self.judged, earlier) {
            for (before, after) in earlier.cells.iter().zip(&row.cells) {
                let label = format!("{}: {} → {} threads", after.0, earlier.threads, row.threads);
                plan.change_beyond(label, before.1, after.1, before.2.max(after.2));
            }
        }
    }

    /// The locks of the table that have no counterpart here.
    fn left_out(&self, table: &Table) -> Result<Vec<&'static str>, Error> {
        let mut left_out = Vec::new();
        for row in 0..table.rows.len() {
            let name = table.text(row, "lock")?;
            if !left_out.contains(&name) && !self.locks.iter().any(|lock| lock.0 == name) {
                left_out.push(name);
            }
        }
        Ok(left_out)
    }
}

/// Cells of one number of threads: lock, position, deviation as a share.
struct Row {
    threads: usize,
    cells: Vec<(&'static str, usize, f64)>,
}

/// The numbers of threads, in their order.
fn threads(table: &Table) -> Result<Vec<usize>, Error> {
    let mut threads = Vec::new();
    for row in 0..table.rows.len() {
        let number = table.number(row, "threads")? as usize;
        if !threads.contains(&number) {
            threads.push(number);
        }
    }
    Ok(threads)
}

/// The row of a lock and a number of threads.
fn find(table: &Table, lock: &str, threads: usize) -> Result<usize, Error> {
    for row in 0..table.rows.len() {
        if table.text(row, "lock")? == lock && table.number(row, "threads")? as usize == threads {
            return Ok(row);
        }
    }
    Err(Error::Data(format!("{}.csv has no row of '{lock}' with {threads} threads", table.id)))
}

/// How far measurements of a row were apart, as a share.
fn deviation(table: &Table, row: usize) -> Result<f64, Error> {
    let spread = if table.column("sd").is_ok() {
        table.number(row, "sd")?
    } else {
        (table.number(row, "max")? - table.number(row, "min")?) / 2.0
    };
    Ok(spread / table.number(row, "value")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_bound_or_said_to_be_left_out() {
        let left_out = |locks: &Locks, id| locks.left_out(&Table::read(id).unwrap()).unwrap();
        assert_eq!(left_out(&CNA_LOCK2, "cna_lock2_x5_4"), ["CNA-10ms v15"]);
        assert_eq!(left_out(&CNA_TORTURE, "cna_locktorture_x5_4"), ["CNA-10ms v15"]);
        // 28 locks were published.
        assert_eq!(left_out(&KYOTO_CABINET, "litl_kyotocabinet_i48").len(), 28 - KYOTO_CABINET.locks.len());
    }

    #[test]
    fn deviations_are_shares() {
        let torture = Table::read("cna_locktorture_x5_4").unwrap();
        assert!((deviation(&torture, 0).unwrap() - 0.108 / 2.695).abs() < 1e-9);
        let kyoto = Table::read("litl_kyotocabinet_i48").unwrap();
        assert!((deviation(&kyoto, 0).unwrap() - 6525.0 / 445_145.0).abs() < 1e-9);
        assert!(find(&kyoto, "ticket", 13).is_err());
    }
}
