//! Tables of pi_stress: priority inversions done by a number of groups; columns are kernels.
//!
//! What stands for it: `pi-stress` (`spec/workloads.md` 4), whose mutex is the own-tree rt-mutex:
//! `no-spin` for the kernel before the patch, `top-spin-2016` with it. The program around the
//! mutex, five barriers a round, is user space: every sleep and wake-up of it is a system call, and
//! so are the mutex's.
//!
//! **Doubt that goes with the table.** Owner and waiter of a group's mutex share a CPU, so a first
//! waiter never finds the owner running, and a correct spin ends at its first test. The published
//! gains of 1 to 5 % cannot come from spins that succeed; a model of it must show none, and the
//! directions below are then chance. The published rows have standard deviations of 1 to 28 %.
//!
//! Scored beside the ratios: where the peak is, and how high the plateau behind it. A window is
//! milliseconds where theirs was half a minute: a round takes some ten microseconds.

use std::time::Duration;

use lockyard_work::{Spec, Workload};

use crate::error::Error;
use crate::plan::{Cell, Curve, Job, Plan, Source, Take};
use crate::table::Table;

/// A table of inversions.
#[derive(Debug)]
pub(crate) struct PiStress {
    machine: &'static str,
    /// Columns and the policies of the rt-mutex that they are.
    policies: [(&'static str, &'static str); 2],
}

/// The first waiter spins.
pub(crate) const TOP_SPINNER: PiStress =
    PiStress { machine: "box32_pistress", policies: [("vanilla", "no-spin"), ("patched", "top-spin-2016")] };

const GROUP: usize = 3;
const WARMUP: Duration = Duration::from_millis(1);
const WINDOW: Duration = Duration::from_millis(4);
/// The last rows, in which the published numbers hardly change: 21 groups and more.
const PLATEAU: usize = 4;

impl PiStress {
    pub(crate) const fn machine(&self) -> &'static str {
        self.machine
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let seconds = table.stated("workload", " second runs")?;
        let unit = "inversions of all groups in 30 s";
        let mut plan = Plan { keys: vec!["groups".to_owned()], unit, ..Plan::default() };
        let rows = |statistic: &'static str| {
            let all = 0..table.rows.len();
            all.filter(move |&row| table.text(row, "statistic").is_ok_and(|text| text == statistic))
        };
        let mut curves = self.policies.map(|_| Vec::new());
        for row in rows("Hmean") {
            let groups = table.number(row, "groups")?;
            let mut cells = Vec::new();
            for ((column, policy), curve) in self.policies.iter().zip(&mut curves) {
                let threads = GROUP * groups as usize;
                let spec = Spec { threads, warmup: WARMUP, duration: WINDOW, ..Spec::new(Workload::PiStress) };
                let lock = format!("rtmutex-tree:{policy}");
                let job = plan.job(Job::workload(self.machine, lock, spec));
                let take = Take { factor: seconds, ..Take::plain("metric.inversions_per_s") };
                let cell = plan.cell(Cell {
                    row: groups.to_string(),
                    column: (*column).to_owned(),
                    threads: Some(groups as u32),
                    panel: String::new(),
                    published: Some(table.number(row, column)?),
                    source: Ok(Source::Number(job, take)),
                });
                curve.push(cell);
                cells.push(cell);
            }
            // The larger of the two deviations, as a share of its mean: a change below it is none.
            let mut noise = 0.0f64;
            for deviation in rows("Stddev") {
                if table.number(deviation, "groups")? == groups {
                    for (column, _) in self.policies {
                        noise = noise.max(table.number(deviation, column)? / table.number(row, column)?);
                    }
                }
            }
            let [before, after] = self.policies.map(|policy| policy.1);
            plan.change_beyond(format!("{groups}: {before} → {after}"), cells[0], cells[1], noise);
        }
        for ((column, _), cells) in self.policies.iter().zip(curves) {
            plan.curves.push(Curve { label: (*column).to_owned(), cells, plateau: PLATEAU });
        }
        let policies = self.policies.map(|(column, policy)| format!("{column} = rtmutex-tree:{policy}"));
        plan.notes.push(policies.join(", "));
        plan.notes.push(format!(
            "chosen: a window of {} ms after {} ms of warm-up, scaled to {seconds} s; the program and its mutexes sleep and wake by system calls",
            WINDOW.as_secs_f64() * 1e3,
            WARMUP.as_secs_f64() * 1e3
        ));
        plan.notes.push(
            "owner and waiter share a CPU: a first waiter that spins ends at its first test, so the published gains cannot be those of spins; none is larger than 5 %, \
             so no direction is scored"
                .to_owned(),
        );
        Ok(plan)
    }
}
