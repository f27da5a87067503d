//! Tables of operations per thread: minimum, mean and maximum; rows are policies.
//!
//! Published: 240 writers on 80 CPUs for 5 s, "with 5 µs sleep" in the section. The mean
//! contradicts the text: it leaves 2.7 µs to a section, less than the sleep (`spec/workloads.md`
//! 1), so **the order and the spread mean something here, the size does not**. What stands for it:
//! writers that sleep 5 µs inside each section, timer slack and all, for as long as theirs did. For
//! ratios a thread without any operation counts as one with one operation.

use std::time::Duration;

use lockyard_work::{Mix, Spec, Workload};

use super::rates::rwsem;
use crate::error::Error;
use crate::plan::{Cell, Job, Plan, Source, Take};
use crate::table::Table;

/// A table of operations per thread.
#[derive(Debug)]
pub(crate) struct Spread {
    machine: &'static str,
    /// Rows and their policies, before and after.
    policies: [(&'static str, &'static str); 2],
}

/// Handoff to starving waiters. Threads, sleep and window stand in the table's head.
pub(crate) const HANDOFF: Spread = Spread {
    machine: "skx_2s_40c",
    policies: [("handoff-none (before)", "handoff-none"), ("handoff-4ms (after)", "handoff-4ms")],
};

const WARMUP: Duration = Duration::from_millis(20);

impl Spread {
    pub(crate) const fn machine(&self) -> &'static str {
        self.machine
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let writers = table.stated("workload", " write-lock threads")? as usize;
        let sleep = Duration::from_secs_f64(table.stated("workload", " us sleep")? * 1e-6);
        let window = Duration::from_secs_f64(table.stated("workload", " second run")?);
        let mut plan = Plan { keys: vec!["policy".to_owned()], unit: "operations per thread", ..Plan::default() };
        let mut found = Vec::new();
        for (name, policy) in self.policies {
            let row = table.row(name)?;
            let spec = Spec {
                writers,
                readers: 0,
                mix: Mix::Roles,
                cs: 0,
                cs_sleep: sleep,
                warmup: WARMUP,
                duration: window,
                ..Spec::new(Workload::RwsemMicro)
            };
            let job = plan.job(Job::workload(self.machine, rwsem(policy), spec));
            for column in ["min", "mean", "max"] {
                found.push(plan.cell(Cell {
                    row: name.to_owned(),
                    column: column.to_owned(),
                    threads: None,
                    panel: String::new(),
                    published: Some(table.number(row, column)?),
                    source: Ok(Source::Number(job, Take::plain(column))),
                }));
            }
        }
        for (before, after) in found.iter().zip(&found[3..]) {
            let label = format!("{}: before → after", plan.cells[*before].column);
            plan.change(label, *before, *after, 1.0);
        }
        plan.notes.push(format!(
            "chosen: each of {writers} writers sleeps {sleep:?} inside each section, for {window:?}; the published mean contradicts \
             such a sleep: order and spread count here, size does not"
        ));
        Ok(plan)
    }
}
