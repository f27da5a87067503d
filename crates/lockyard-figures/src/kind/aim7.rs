//! AIM7 on the big lock that was a semaphore: 2,000 tasks on 4 CPUs.
//!
//! `bkl-aim7` (`spec/workloads.md` 5.3) stands for it: lognormal jobs, four in ten of which only
//! compute, the others taking one lock that is dropped around sleeps. As many tasks as published,
//! and the run ends with the last of them, but each does **half the jobs**: with all, the slowest
//! of the three would take a third of the time of the whole report. (How many jobs a task has is
//! not printed, but follows from three columns.) The two published runs of a kernel are averaged.
//! The CPUs' busy share is derived on the published side: CPU seconds by four times the real time.

use std::time::Duration;

use lockyard_sim::machine::catalog;
use lockyard_work::{Spec, Workload};

use crate::error::Error;
use crate::plan::{Cell, Job, Plan, Source, Take};
use crate::table::Table;

/// The table of AIM7 runs.
#[derive(Debug)]
pub(crate) struct Aim7 {
    machine: &'static str,
    /// Names that rows carry in brackets, and the policies of the semaphore that they are.
    policies: [(&'static str, &'static str); 3],
}

/// Before the generic semaphore, with it, and with the fix.
pub(crate) const SEMAPHORE: Aim7 = Aim7 {
    machine: "quad2008",
    policies: [
        ("arch-semaphore", "opportunistic-safe"),
        ("direct-handoff", "direct-handoff"),
        ("opportunistic-2008", "opportunistic-2008"),
    ],
};

/// Positions in `policies` before and after a change.
const CHANGES: [(usize, usize); 3] = [(0, 1), (1, 2), (0, 2)];

/// By how much fewer jobs each task has.
const SCALE: f64 = 2.0;

impl Aim7 {
    pub(crate) const fn machine(&self) -> &'static str {
        self.machine
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let mut plan = Plan { keys: vec!["semaphore".to_owned()], unit: "", ..Plan::default() };
        let cpus = catalog::machine(self.machine)?.topology().cpus() as f64;
        let mut rates = Vec::new();
        for (name, policy) in self.policies {
            let marker = format!("({name})");
            let rows: Vec<usize> = (0..table.rows.len()).filter(|row| table.rows[*row][0].ends_with(&marker)).collect();
            if rows.is_empty() {
                return Err(Error::Data(format!("{}.csv has no row of '{name}'", table.id)));
            }
            let mean = |number: &dyn Fn(usize) -> Result<f64, Error>| -> Result<f64, Error> {
                let numbers = rows.iter().map(|row| number(*row)).collect::<Result<Vec<_>, _>>()?;
                Ok(numbers.iter().sum::<f64>() / numbers.len() as f64)
            };
            let published = [
                ("jobs_per_min", mean(&|row| table.number(row, "jobs_per_min"))?, Take::plain("metric.jobs_per_min")),
                ("jti", mean(&|row| table.number(row, "jti"))?, Take::plain("metric.job_timing_index")),
                (
                    "busy_pct",
                    mean(&|row| Ok(100.0 * table.number(row, "cpu_s")? / (cpus * table.number(row, "real_s")?)))?,
                    Take { factor: 100.0, ..Take::plain("busy") },
                ),
            ];
            let tasks = table.number(rows[0], "tasks")?;
            let real = table.number(rows[0], "real_s")?;
            // jobs/min = tasks × jobs × 60 / real time.
            let all = table.number(rows[0], "jobs_per_min")? * real / 60.0 / tasks;
            let jobs = all.round() / SCALE;
            let spec = Spec {
                threads: tasks as usize,
                jobs: jobs as u32,
                duration: Duration::from_secs_f64(real / SCALE),
                ..Spec::new(Workload::BklAim7)
            };
            let lock = format!("semaphore:{policy}");
            let job = plan.job(Job::workload(self.machine, lock, spec));
            for (column, published, take) in published {
                let cell = plan.cell(Cell {
                    row: name.to_owned(),
                    column: column.to_owned(),
                    threads: None,
                    panel: String::new(),
                    published: Some(published),
                    source: Ok(Source::Number(job, take)),
                });
                rates.extend((column == "jobs_per_min").then_some(cell));
            }
        }
        for (before, after) in CHANGES {
            let label = format!("jobs/min: {} → {}", self.policies[before].0, self.policies[after].0);
            plan.change(label, rates[before], rates[after], 0.0);
        }
        plan.notes.push(format!("scaled in jobs: 1/{SCALE} of the published number for each task"));
        plan.notes.push("arch-semaphore, of which no code is left, is run as opportunistic-safe".to_owned());
        Ok(plan)
    }
}
