//! Tables of lock events: how often the slow paths did what.
//!
//! Counts depend on how long a machine ran, so cells are **shares**: an event's count over the sum
//! of all events of its column that both sides have. What is judged: where a table has two columns,
//! how a share changes between them; else how often an event occurs relative to the table's leading
//! event.
//!
//! Two of the tables were taken after a boot and a kernel build. Nothing here boots a machine:
//! `boot-model` and `build-model` (`spec/workloads.md` 9) stand in for them. They know no trylock,
//! so trylock events stay empty.

use std::time::Duration;

use lockyard_sim::machine::catalog;
use lockyard_work::{Spec, Workload};

use super::rates::{microbenchmark, rwsem};
use crate::error::Error;
use crate::plan::{Cell, Job, Plan, Source, Take};
use crate::table::Table;

/// A table of events.
#[derive(Debug)]
pub(crate) struct Events {
    machine: &'static str,
    policy: &'static str,
    /// Columns of counts; those of the microbenchmark end in a number of threads.
    columns: &'static [&'static str],
    work: Work,
    /// What stands in for what.
    remark: &'static str,
}

#[derive(Debug)]
enum Work {
    /// The rwsem microbenchmark; the first column is compared with the second.
    Microbenchmark,
    /// Something that stands in for what was done; events are compared with the leading one.
    StandIn { workload: Workload, window: Duration, leading: &'static str },
}

/// Readers enter past waiting threads.
pub(crate) const READER_STEAL: Events = Events {
    machine: "clx_2s_48c",
    policy: "reader-steal",
    columns: &["count"],
    work: Work::StandIn { workload: Workload::BuildModel, window: BUILD, leading: "rwsem_opt_rlock" },
    remark: "the published machine is not named; clx_2s_48c, the series' other machine, stands in for it",
};

/// The events behind the collapse of timed writer spinning.
pub(crate) const TIMED_WRITER_SPIN: Events = Events {
    machine: "ivb_ex_8s",
    policy: "timed-writer-spin",
    columns: &["threads_32", "threads_64"],
    work: Work::Microbenchmark,
    remark: "the same runs as in rwsem_07",
};

/// The first event counts.
pub(crate) const BOOT: Events = Events {
    machine: "x86_4s_112t",
    policy: "xadd-baseline",
    columns: &["count"],
    work: Work::StandIn { workload: Workload::BootModel, window: BOOTING, leading: "rwsem_opt_wlock" },
    remark: "a boot is single-threaded at first; the stand-in is its second part, services that start on all CPUs",
};

/// Names that changed since: as published, as today.
const RENAMED: [(&str, &str); 1] = [("rwsem_opt_wlock", "rwsem_opt_lock")];
/// What no workload here does.
const NEVER: &str = "_wtrylock _rtrylock";

/// The build's window: long enough for some hundred thousand acquisitions, of which few queue.
const BUILD: Duration = Duration::from_millis(500);
/// The boot's: some processes one after the other on each CPU.
const BOOTING: Duration = Duration::from_millis(100);
const WARMUP: Duration = Duration::from_millis(10);

fn number(event: &str) -> String {
    let today = RENAMED.iter().find(|pair| pair.0 == event).map_or(event, |pair| pair.1);
    format!("event.{today}")
}

/// The number at the end of a column's name.
fn threads(table: &Table, column: &str) -> Result<usize, Error> {
    let digits = column.rsplit('_').next().and_then(|digits| digits.parse().ok());
    digits.ok_or_else(|| Error::Data(format!("{}.csv: column '{column}' names no number of threads", table.id)))
}

impl Events {
    pub(crate) const fn machine(&self) -> &'static str {
        self.machine
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let cpus = catalog::machine(self.machine)?.topology().cpus();
        let mut plan = Plan { keys: vec!["event".to_owned()], unit: "share of the events", ..Plan::default() };
        let possible = |row: usize| !NEVER.split(' ').any(|ending| table.rows[row][0].ends_with(ending));
        let rows: Vec<usize> = (0..table.rows.len()).filter(|row| possible(*row)).collect();
        let all: Vec<String> = rows.iter().map(|row| number(table.rows[*row][0])).collect();
        let mut sums = Vec::new();
        for column in self.columns {
            let counts = rows.iter().map(|row| table.number(*row, column)).collect::<Result<Vec<_>, _>>()?;
            sums.push(counts.iter().sum::<f64>());
        }
        // Positions of the cells, row by row.
        let mut places: Vec<Vec<usize>> = Vec::new();
        for row in 0..table.rows.len() {
            let event = table.rows[row][0];
            let mut own = Vec::new();
            for (column, sum) in self.columns.iter().zip(&sums) {
                let count = table.number(row, column)?;
                let spec = match self.work {
                    Work::Microbenchmark => microbenchmark(threads(table, column)?, 1),
                    Work::StandIn { workload, window, .. } => {
                        Spec { threads: cpus, duration: window, warmup: WARMUP, ..Spec::new(workload) }
                    }
                };
                let job = Job::workload(self.machine, rwsem(self.policy), spec);
                let source = if possible(row) {
                    Ok(Source::Number(plan.job(job), Take { over: all.clone(), ..Take::plain(&number(event)) }))
                } else {
                    Err("the stand-in makes no trylocks".to_owned())
                };
                own.push(plan.cell(Cell {
                    row: event.to_owned(),
                    column: (*column).to_owned(),
                    threads: None,
                    panel: String::new(),
                    published: possible(row).then_some(count / sum),
                    source,
                }));
            }
            places.push(own);
        }
        for row in rows {
            let event = table.rows[row][0];
            match self.work {
                Work::Microbenchmark => {
                    let label = format!("{event}: {} → {}", self.columns[0], self.columns[1]);
                    plan.change(label, places[row][0], places[row][1], 0.0);
                }
                Work::StandIn { leading, .. } if leading != event => {
                    let first = places[table.row(leading)?][0];
                    plan.change(format!("{event} per {leading}"), first, places[row][0], 0.0);
                }
                Work::StandIn { .. } => {}
            }
        }
        plan.notes.push(format!("policy: {}; {}", self.policy, self.remark));
        if let Work::StandIn { workload, window, .. } = self.work {
            plan.notes.push(format!(
                "published after “{}”; {workload} with {cpus} threads for {} ms stands in for it: a stand-in, not a rerun",
                table.about("workload"),
                window.as_millis()
            ));
        }
        Ok(plan)
    }
}
