//! JSON lines and CSV of simulated runs.

use std::collections::BTreeMap;

use lockyard_sim::machine::topology::Placement;
use lockyard_sim::report::{HotLine, Report, Stretch, Times};
use lockyard_work::Record;
use serde::Serialize;

use super::{Outcome, Run};
use crate::failure::Failure;
use crate::report::csv;
use crate::report::json::{VERSION, line};

/// One run: the record, as of a measurement, and what only a simulation can know.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    #[serde(flatten)]
    record: &'a Record,
    /// What the program is called whose model was played: its file's name without the ending.
    program: Option<&'a str>,
    machine_id: String,
    machine_fingerprint: String,
    /// Numbers of the machine that were changed.
    set: &'a BTreeMap<String, f64>,
    placement: Placement,
    /// Line transfers per turn, by distance.
    transfers_per_op: BTreeMap<&'static str, f64>,
    /// All threads' time in the window.
    times: Times,
    memory_operations: u64,
    hottest: &'a [HotLine],
}

impl<'a> Line<'a> {
    pub(crate) fn of(run: &'a Run, record: &'a Record, report: &'a Report) -> Self {
        Self {
            record,
            program: run.spec.replay.as_ref().map(|replay| replay.name.as_str()),
            machine_id: report.machine.clone(),
            machine_fingerprint: format!("{:016x}", report.machine_fingerprint),
            set: run.config.machine.changes(),
            placement: run.config.placement,
            transfers_per_op: transfers_per_op(record, report),
            times: window(report).times,
            memory_operations: window(report).memory_operations,
            hottest: &report.hottest,
        }
    }
}

/// The window of a run; the whole run for workloads without one.
pub(super) fn window(report: &Report) -> &Stretch {
    report.window.as_ref().unwrap_or(&report.whole)
}

/// Line transfers per turn, by distance class.
pub(super) fn transfers_per_op(record: &Record, report: &Report) -> BTreeMap<&'static str, f64> {
    let turns = record.operations.max(1) as f64;
    window(report).transfers.iter().map(|(&class, &count)| (class, count as f64 / turns)).collect()
}

/// One object per run, one per line. Failed runs have none.
///
/// # Errors
/// A value that JSON cannot hold: a defect.
pub(crate) fn lines(outcomes: &[Outcome]) -> Result<String, Failure> {
    let mut out = String::new();
    for Outcome { run, result } in outcomes {
        let Ok((record, report)) = result else { continue };
        out.push_str(&line(&Line::of(run, record, report))?);
    }
    Ok(out)
}

/// The columns of the CSV form.
const HEADER: &str = "machine,placement,seed,lock,policy,workload,threads,cs,cs_sleep_ns,think,read_pct,window_ns,operations,kops_per_s,\
    ns_per_op,fairness,idle_threads,wait_p50_ns,wait_p99_ns,wait_p999_ns,wait_max_ns,transfers_per_op,running_ns,spinning_ns,\
    runnable_ns,sleeping_ns,min_per_thread,mean_per_thread,max_per_thread,lines,think_shape,set,version,program";

/// A header, then one line per run.
pub(crate) fn csv(outcomes: &[Outcome]) -> String {
    let mut out = format!("{HEADER}\n");
    for Outcome { run, result } in outcomes {
        let Ok((record, report)) = result else { continue };
        let times = window(report).times;
        let per_op = transfers_per_op(record, report);
        let per_op: Vec<String> = per_op.iter().map(|(class, per_op)| format!("{class}={per_op:.4}")).collect();
        let fields = [
            report.machine.clone(),
            run.config.placement.to_string(),
            record.seed.to_string(),
            record.lock.clone(),
            record.policy.clone().unwrap_or_default(),
            record.workload.to_string(),
            record.threads.to_string(),
            record.cs.to_string(),
            record.cs_sleep_ns.to_string(),
            record.think.to_string(),
            record.read_pct.to_string(),
            record.duration_ns.to_string(),
            record.operations.to_string(),
            format!("{:.3}", record.kops_per_s),
            format!("{:.2}", record.ns_per_op),
            format!("{:.4}", record.fairness),
            record.idle_threads.to_string(),
            record.wait.p50.to_string(),
            record.wait.p99.to_string(),
            record.wait.p999.to_string(),
            record.wait.max.to_string(),
            per_op.join(";"),
            times.running_ns.to_string(),
            times.spinning_ns.to_string(),
            times.runnable_ns.to_string(),
            times.sleeping_ns.to_string(),
            record.per_thread.min.to_string(),
            format!("{:.1}", record.per_thread.mean),
            record.per_thread.max.to_string(),
            record.lines.to_string(),
            record.think_shape.name().to_owned(),
            csv::changes(run.config.machine.changes()),
            VERSION.to_owned(),
            run.spec.replay.as_ref().map_or_else(String::new, |replay| replay.name.clone()),
        ];
        out.push_str(&fields.map(|field| csv::quoted(&field)).join(","));
        out.push('\n');
    }
    out
}
