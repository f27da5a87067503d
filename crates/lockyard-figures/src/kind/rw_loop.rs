//! The table of the qrwlock patch: time for a fixed number of read and write locks; rows are
//! numbers of threads.
//!
//! `qrw-loop` stands for it (`spec/workloads.md` 2): empty sections, five reads to a write, no
//! think time. Published is the time for 5 million operations; it grows with the threads, so it
//! must be so many for each thread. Ours is derived from the rate in a window.

use std::time::Duration;

use lockyard_work::{Spec, Workload};

use crate::error::Error;
use crate::plan::{Cell, Job, Plan, Source, Take};
use crate::table::Table;

/// A table of times.
#[derive(Debug)]
pub(crate) struct RwLoop {
    machine: &'static str,
    /// Columns and their policies, before and after.
    policies: [(&'static str, &'static str); 2],
}

/// How the first waiting writer says so: by exchanging the whole word, or its own byte.
pub(crate) const WAITING_FLAG: RwLoop =
    RwLoop { machine: "wsm_ex_8s", policies: [("before_ms", "word-cas"), ("after_ms", "byte-cas")] };

const WARMUP: Duration = Duration::from_micros(500);
const WINDOW: Duration = Duration::from_millis(3);

impl RwLoop {
    pub(crate) const fn machine(&self) -> &'static str {
        self.machine
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let unit = "ms for 5 million operations of each thread";
        let mut plan = Plan { keys: vec!["threads".to_owned()], unit, ..Plan::default() };
        for row in 0..table.rows.len() {
            let threads = table.number(row, "threads")? as usize;
            let mut cells = Vec::new();
            for (column, policy) in self.policies {
                let spec = Spec { threads, warmup: WARMUP, duration: WINDOW, ..Spec::new(Workload::QrwLoop) };
                let lock = format!("qrwlock:{policy}");
                let job = plan.job(Job::workload(self.machine, lock, spec));
                cells.push(plan.cell(Cell {
                    row: threads.to_string(),
                    column: column.to_owned(),
                    threads: Some(threads as u32),
                    panel: String::new(),
                    published: Some(table.number(row, column)?),
                    source: Ok(Source::Number(job, Take::plain("metric.ms_per_5m_each"))),
                }));
            }
            let [before, after] = self.policies.map(|policy| policy.1);
            plan.change(format!("{threads}: {before} → {after}"), cells[0], cells[1], 0.0);
        }
        let policies = self.policies.map(|(column, policy)| format!("{column} = qrwlock:{policy}"));
        plan.notes.push(policies.join(", "));
        plan.notes.push(format!(
            "chosen: 5 reads to a write in turn, empty sections; the time is derived from a window of {} ms after {} ms of warm-up",
            WINDOW.as_secs_f64() * 1e3,
            WARMUP.as_secs_f64() * 1e3
        ));
        Ok(plan)
    }
}
