//! Tables of fairness factors: the share of all turns that the busier half of the threads got; rows
//! are numbers of threads.
//!
//! 0.5 is even, 1 starves half. The series does not define its factor; the usual definition is
//! taken (`spec/hq-spinlock.md` 12). **Two windows that do not compare**: in theirs, of a minute,
//! every node has thousands of visits of the lock; in ours several, since a visit lasts a thousand
//! hand-overs, and a round of eight nodes three milliseconds. What is scored is what the firmware's
//! mode does to the factor.

use std::time::Duration;

use lockyard_work::Workload;

use super::gains::{WITH, chosen, job};
use crate::error::Error;
use crate::plan::{Cell, Plan, Source, Take};
use crate::table::Table;

/// Some rounds of all nodes.
const WINDOW: Duration = Duration::from_millis(16);

/// A table of fairness factors.
#[derive(Debug)]
pub(crate) struct Fairness {
    /// Columns and machines; the second is compared with the first.
    columns: [(&'static str, &'static str); 2],
}

/// One lock on EPYC, in two modes.
pub(crate) const TORTURE_EPYC: Fairness =
    Fairness { columns: [("nps1_fairness", "epyc9654_2s:nps1"), ("nps4_fairness", "epyc9654_2s:nps4")] };

impl Fairness {
    pub(crate) fn machines(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.1).collect()
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let unit = "share of the turns of the busier half";
        let mut plan = Plan { keys: vec!["threads".to_owned()], unit, ..Plan::default() };
        for row in 0..table.rows.len() {
            let threads = table.number(row, table.columns[0])? as usize;
            let mut cells = Vec::new();
            for (column, machine) in self.columns {
                let job = plan.job(job(machine, WITH, Workload::TortureSpin, threads, WINDOW));
                cells.push(plan.cell(Cell {
                    row: threads.to_string(),
                    column: column.to_owned(),
                    threads: Some(threads as u32),
                    panel: String::new(),
                    published: Some(table.number(row, column)?),
                    source: Ok(Source::Number(job, Take::plain("fairness"))),
                }));
            }
            let [first, second] = self.columns.map(|column| column.0);
            plan.change(format!("{threads}: {first} → {second}"), cells[0], cells[1], 0.0);
        }
        plan.notes.push(chosen(Workload::TortureSpin, WINDOW));
        plan.notes.push(
            "the published factor is not defined, and over a minute every node has thousands of visits; here it has a few, and the one \
             that was cut short when the window closed tells"
                .to_owned(),
        );
        Ok(plan)
    }
}
