//! Tables of total locking rates: rows are numbers of threads (and section lengths), columns are
//! policies.
//!
//! The published benchmark is a kernel module that nobody outside has seen. What stands for it
//! (`spec/workloads.md` 1): every thread alternates strictly between reading and writing, odd
//! threads begin with a write; no think time; the section is `cs_load` PAUSEs, one where the table
//! does not say. Threads begin one to a CPU in the order of the placement and stay there, since a
//! woken thread returns to its CPU while that is idle. The window is shorter than theirs, after a
//! warm-up that lets the start fade: everybody falls asleep at once there (the workload begins with
//! a disturbance), and 240 threads need tens of milliseconds to sort themselves out.

use std::time::Duration;

use lockyard_work::{Spec, Workload};

use crate::error::Error;
use crate::plan::{Cell, Job, Plan, Source, Take};
use crate::table::Table;

/// A table of rates.
#[derive(Debug)]
pub(crate) struct Rates {
    machine: &'static str,
    /// Columns and the policies of rwsem that they are.
    policies: &'static [(&'static str, &'static str)],
    /// Columns before and after a change.
    changes: &'static [(&'static str, &'static str)],
}

/// Reader spinning removed: the two steps of the series, and the variant that was weighed.
pub(crate) const REMOVE_READER_SPIN: Rates = Rates {
    machine: "clx_2s_48c",
    policies: &[
        ("vanilla", "v5.10"),
        ("before", "reader-steal"),
        ("limit_rspin", "limit-rspin"),
        ("no_rspin", "no-rspin"),
    ],
    changes: &[("vanilla", "before"), ("before", "limit_rspin"), ("before", "no_rspin")],
};

/// Writers spin on readers for a bounded time.
pub(crate) const TIMED_WRITER_SPIN: Rates = Rates {
    machine: "ivb_ex_8s",
    policies: &[("pre_patch", "reader-spin-on-writer"), ("post_patch", "timed-writer-spin")],
    changes: &[("pre_patch", "post_patch")],
};

/// Readers spin on writers.
pub(crate) const READER_SPIN_ON_WRITER: Rates = Rates {
    machine: "ivb_ex_8s",
    policies: &[("pre_patch", "wake-all-readers"), ("post_patch", "reader-spin-on-writer")],
    changes: &[("pre_patch", "post_patch")],
};

const WARMUP: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(20);

/// The cell of the microbenchmark with `threads` threads and sections of `cs` PAUSEs.
pub(super) fn microbenchmark(threads: usize, cs: u32) -> Spec {
    Spec { threads, cs, warmup: WARMUP, duration: WINDOW, ..Spec::new(Workload::RwsemMicro) }
}

pub(super) fn rwsem(policy: &str) -> String {
    format!("rwsem:{policy}")
}

impl Rates {
    pub(crate) const fn machine(&self) -> &'static str {
        self.machine
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let mut plan = Plan { keys: vec!["threads".to_owned()], unit: "kops/s", ..Plan::default() };
        let loads = table.column("cs_load").is_ok();
        if loads {
            plan.keys.push("PAUSEs inside".to_owned());
        }
        for row in 0..table.rows.len() {
            let threads = table.number(row, "threads")? as usize;
            let cs = if loads { table.number(row, "cs_load")? as u32 } else { 1 };
            let key = if loads { format!("{threads},{cs}") } else { threads.to_string() };
            let mut cells = Vec::new();
            for (column, policy) in self.policies {
                let job = plan.job(Job::workload(self.machine, rwsem(policy), microbenchmark(threads, cs)));
                let cell = plan.cell(Cell {
                    row: key.clone(),
                    column: (*column).to_owned(),
                    threads: Some(threads as u32),
                    panel: if loads {
                        format!("{cs} PAUSE{} inside", if cs == 1 { "" } else { "s" })
                    } else {
                        String::new()
                    },
                    published: Some(table.number(row, column)?),
                    source: Ok(Source::Number(job, Take::plain("kops_per_s"))),
                });
                cells.push((*column, cell));
            }
            let cell = |name: &str| cells.iter().find(|cell| cell.0 == name).map(|cell| cell.1);
            for (before, after) in self.changes {
                if let (Some(first), Some(second)) = (cell(before), cell(after)) {
                    plan.change(format!("{key}: {before} → {after}"), first, second, 0.0);
                }
            }
        }
        let policies: Vec<String> =
            self.policies.iter().map(|(column, policy)| format!("{column} = {policy}")).collect();
        plan.notes.push(format!("policies: {}", policies.join(", ")));
        plan.notes.push(format!(
            "chosen: reads and writes alternate strictly in each thread, no think time{}; begun with everybody asleep; window {} ms after {} ms of warm-up",
            if loads { "" } else { ", 1 PAUSE inside" },
            WINDOW.as_millis(),
            WARMUP.as_millis()
        ));
        Ok(plan)
    }
}
